//! Converts a JSON Schema to a TypeScript type.
//!
//! Bounded in depth and number of nodes: anything beyond is `unknown`. Keywords that TypeScript cannot express (`not`,
//! `if`, `pattern` …) widen the type or appear in a comment.

mod open;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::super::names::{NameScope, sanitise};
use super::reference;

/// A TypeScript type, ready to print.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    /// A keyword type: `string`, `unknown`, `never` …
    Word(&'static str),
    /// A literal, as TypeScript text.
    Literal(String),
    /// A declared type.
    Named(String),
    Array(Box<Type>),
    Tuple {
        items: Vec<Type>,
        /// How many of `items` are required.
        required: usize,
        rest: Option<Box<Type>>,
    },
    Object {
        fields: Vec<Field>,
        /// Number of fields that were omitted because of [`Bounds::fields`].
        omitted: usize,
        index: Option<Box<Type>>,
    },
    Union(Vec<Type>),
    Intersection(Vec<Type>),
    /// A type that contains itself: inside, [`Named`](Self::Named) with this pointer stands for it. Only of
    /// [`References::Mark`].
    Recursive {
        pointer: String,
        of: Box<Type>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) optional: bool,
    pub(super) shape: Type,
    pub(super) notes: Notes,
}

/// The documentation of a value.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Notes {
    pub(super) description: Option<String>,
    /// As JSON text.
    pub(super) default: Option<String>,
    pub(super) constraints: Vec<String>,
}

impl Type {
    /// Whether it says more than that there is a value, or an object.
    pub(super) fn is_telling(&self) -> bool {
        match self {
            Self::Object { fields, omitted: 0, index: Some(index) } => !fields.is_empty() || index.is_telling(),
            other => *other != UNKNOWN,
        }
    }
}

pub(super) const UNKNOWN: Type = Type::Word("unknown");
const NULL: Type = Type::Word("null");

/// Limits for the conversion of one schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) depth: usize,
    pub(super) nodes: usize,
    pub(super) fields: usize,
    pub(super) literals: usize,
}

/// How a `$ref` is converted.
pub(super) enum References<'n> {
    /// Replaced by its target; a cycle is cut with the target's name.
    Inline,
    /// Replaced by its target, which is marked if it contains itself.
    Mark,
    /// Replaced by the name of a declared type.
    Declare(&'n mut Declared),
}

/// The named types that a document's references need.
#[derive(Debug)]
pub(super) struct Declared {
    /// Prefix of every name.
    pub(super) prefix: String,
    /// Names in use, over all documents of a file.
    pub(super) taken: HashSet<String>,
    names: HashMap<String, String>,
    /// (name, pointer) of types that are referenced but not written yet.
    pub(super) pending: Vec<(String, String)>,
}

impl Declared {
    pub(super) fn new() -> Self {
        Self { prefix: String::new(), taken: HashSet::new(), names: HashMap::new(), pending: Vec::new() }
    }

    /// Starts another document: pointers of the previous one are forgotten.
    pub(super) fn enter(&mut self, prefix: String) {
        self.prefix = prefix;
        self.names.clear();
        self.pending.clear();
    }

    /// The name of the type at `pointer`; `None` if the document has too many named types.
    fn name(&mut self, pointer: &str) -> Option<String> {
        const MAX_NAMED_TYPES: usize = 300;
        if let Some(name) = self.names.get(pointer) {
            return Some(name.clone());
        }
        if self.names.len() >= MAX_NAMED_TYPES {
            return None;
        }
        let base = sanitise(&format!("{}{}", self.prefix, pascal(last_segment(pointer))), NameScope::Global);
        let name = (1..)
            .map(|n| if n == 1 { base.clone() } else { format!("{base}_{n}") })
            .find(|candidate| self.taken.insert(candidate.clone()))?;
        self.names.insert(pointer.to_owned(), name.clone());
        self.pending.push((name.clone(), pointer.to_owned()));
        Some(name)
    }
}

/// The position of a schema in a type expression.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    /// The body of a declared type, where a reference to that type would be circular.
    Body,
    /// Inside a field or an element.
    Inside,
}

/// Converts the schemas of one document.
pub(super) struct Shaper<'a, 'n> {
    root: &'a Value,
    bounds: Bounds,
    references: References<'n>,
    /// Pointers whose targets are being converted, to detect cycles.
    open: Vec<String>,
    /// Those of them that were met again.
    met_again: HashSet<String>,
}

impl<'a, 'n> Shaper<'a, 'n> {
    pub(super) fn new(root: &'a Value, bounds: Bounds, references: References<'n>) -> Self {
        Self { root, bounds, references, open: Vec::new(), met_again: HashSet::new() }
    }

    /// The type of a field, an argument or a result.
    pub(super) fn shape(&mut self, schema: &'a Value) -> Type {
        self.at(schema, 0, Position::Inside)
    }

    /// The body of the declared type at `pointer`.
    pub(super) fn body(&mut self, pointer: &str) -> Type {
        let Some(schema) = self.root.pointer(pointer) else { return UNKNOWN };
        self.open.push(pointer.to_owned());
        let shape = self.at(schema, 0, Position::Body);
        self.open.pop();
        shape
    }

    fn at(&mut self, schema: &'a Value, depth: usize, position: Position) -> Type {
        if depth > self.bounds.depth || self.bounds.nodes == 0 {
            return UNKNOWN;
        }
        self.bounds.nodes -= 1;
        match schema {
            Value::Bool(false) => Type::Word("never"),
            Value::Object(keywords) => {
                let shape = self.keywords(schema, keywords, depth, position);
                let nullable = keywords.get("nullable").and_then(Value::as_bool) == Some(true);
                if nullable { union(vec![shape, NULL]) } else { shape }
            }
            _ => UNKNOWN,
        }
    }

    fn keywords(
        &mut self,
        schema: &'a Value,
        keywords: &'a Map<String, Value>,
        depth: usize,
        position: Position,
    ) -> Type {
        if let Some(value) = keywords.get("const") {
            return self.literal(value, depth);
        }
        if let Some(Value::Array(values)) = keywords.get("enum") {
            return self.enumeration(values, depth);
        }
        let mut parts = Vec::new();
        let mut is_open = open::is_conditional(keywords);
        if keywords.contains_key("$ref") {
            let of = self.reference(schema, depth, position);
            is_open |= of == UNKNOWN;
            parts.push(of);
        }
        parts.push(self.typed(keywords, depth));
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = keywords.get(keyword) {
                let of = union(branches.iter().map(|branch| self.at(branch, depth + 1, position)).collect());
                is_open |= of == UNKNOWN && branches.iter().any(open::may_name_properties);
                parts.push(of);
            }
        }
        if let Some(Value::Array(branches)) = keywords.get("allOf") {
            for branch in branches {
                let of = self.at(branch, depth + 1, position);
                is_open |= of == UNKNOWN && open::may_name_properties(branch);
                parts.push(of);
            }
        }
        if is_open && keywords.get("additionalProperties") != Some(&Value::Bool(false)) {
            parts.iter_mut().for_each(open::open);
        }
        intersection(parts)
    }

    fn reference(&mut self, schema: &'a Value, depth: usize, position: Position) -> Type {
        let Some((pointer, target)) = reference::target(self.root, schema) else { return UNKNOWN };
        if let (References::Declare(declared), Position::Inside) = (&mut self.references, position) {
            return declared.name(&pointer).map_or(UNKNOWN, Type::Named);
        }
        if self.open.contains(&pointer) {
            return match self.references {
                References::Inline => Type::Named(sanitise(&pascal(last_segment(&pointer)), NameScope::Global)),
                References::Mark => {
                    self.met_again.insert(pointer.clone());
                    Type::Named(pointer)
                }
                References::Declare(_) => UNKNOWN,
            };
        }
        self.open.push(pointer);
        let of = self.at(target, depth + 1, position);
        match self.open.pop() {
            Some(pointer) if self.met_again.remove(&pointer) => Type::Recursive { pointer, of: Box::new(of) },
            _ => of,
        }
    }

    fn typed(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> Type {
        match keywords.get("type") {
            Some(Value::String(name)) => self.of_type(name, keywords, depth),
            Some(Value::Array(names)) => {
                union(names.iter().filter_map(Value::as_str).map(|name| self.of_type(name, keywords, depth)).collect())
            }
            _ => {
                let has = |names: &[&str]| names.iter().any(|name| keywords.contains_key(*name));
                if has(&["properties", "patternProperties", "additionalProperties"]) {
                    self.of_type("object", keywords, depth)
                } else if has(&["items", "prefixItems"]) {
                    self.of_type("array", keywords, depth)
                } else {
                    UNKNOWN
                }
            }
        }
    }

    fn of_type(&mut self, name: &str, keywords: &'a Map<String, Value>, depth: usize) -> Type {
        match name {
            "string" => Type::Word("string"),
            "number" | "integer" => Type::Word("number"),
            "boolean" => Type::Word("boolean"),
            "null" => NULL,
            "array" => self.array(keywords, depth),
            "object" => self.object(keywords, depth),
            _ => UNKNOWN,
        }
    }

    fn array(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> Type {
        let (tuple, rest) = match (keywords.get("prefixItems"), keywords.get("items")) {
            (Some(Value::Array(tuple)), rest) => (tuple, rest),
            (_, Some(Value::Array(tuple))) => (tuple, keywords.get("additionalItems")),
            (_, Some(items)) => {
                let mut item = self.at(items, depth + 1, Position::Inside);
                // Some items have what it names.
                let is_closed = items.get("additionalProperties") == Some(&Value::Bool(false));
                if !is_closed && keywords.get("contains").is_some_and(open::may_name_properties) {
                    open::open(&mut item);
                }
                return Type::Array(Box::new(item));
            }
            (_, None) => return Type::Array(Box::new(UNKNOWN)),
        };
        let count = |keyword: &str| keywords.get(keyword).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let items: Vec<Type> =
            tuple.iter().take(self.bounds.fields).map(|item| self.at(item, depth + 1, Position::Inside)).collect();
        let closed = rest == Some(&Value::Bool(false)) || count("maxItems").is_some_and(|most| most <= tuple.len());
        let rest = (!closed || items.len() < tuple.len())
            .then(|| Box::new(rest.map_or(UNKNOWN, |rest| self.at(rest, depth + 1, Position::Inside))));
        let required = count("minItems").unwrap_or(items.len()).min(items.len());
        Type::Tuple { items, required, rest }
    }

    fn object(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> Type {
        let required: HashSet<&str> = match keywords.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => HashSet::new(),
        };
        let declared = keywords.get("properties").and_then(Value::as_object);
        let mut properties: Vec<(&'a String, &'a Value)> = declared.into_iter().flatten().collect();
        if properties.len() > self.bounds.fields {
            // Not all fields fit: keep the required ones.
            properties.sort_by_key(|(name, _)| !required.contains(name.as_str()));
        }
        let mut fields = Vec::new();
        for &(name, schema) in properties.iter().take(self.bounds.fields) {
            fields.push(Field {
                name: name.clone(),
                optional: !required.contains(name.as_str()),
                shape: self.at(schema, depth + 1, Position::Inside),
                notes: notes(schema),
            });
        }
        let mut undeclared: Vec<&str> =
            required.into_iter().filter(|name| declared.is_none_or(|declared| !declared.contains_key(*name))).collect();
        undeclared.sort_unstable();
        for name in undeclared.into_iter().take(self.bounds.fields) {
            fields.push(Field { name: name.to_owned(), optional: false, shape: UNKNOWN, notes: Notes::default() });
        }
        let omitted = properties.len().saturating_sub(self.bounds.fields);
        let index = self.index(keywords, &fields, depth);
        Type::Object { fields, omitted, index }
    }

    /// The type of the index signature: properties that the schema does not name.
    fn index(&mut self, keywords: &'a Map<String, Value>, fields: &[Field], depth: usize) -> Option<Box<Type>> {
        let mut open: Vec<Type> = Vec::new();
        if let Some(Value::Object(patterns)) = keywords.get("patternProperties") {
            open.extend(patterns.values().map(|schema| self.at(schema, depth + 1, Position::Inside)));
        }
        match keywords.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            Some(schema @ Value::Object(_)) => open.push(self.at(schema, depth + 1, Position::Inside)),
            Some(_) => open.push(UNKNOWN),
            // JSON Schema allows other properties here, but with an index signature an editor would accept every misspelling.
            None if fields.is_empty() => open.push(UNKNOWN),
            None => {}
        }
        if open.is_empty() {
            return None;
        }
        let shape = union(open);
        // TypeScript requires that every field is assignable to the index signature.
        let fits = fields.iter().all(|field| !field.optional && field.shape == shape);
        Some(Box::new(if fits { shape } else { UNKNOWN }))
    }

    fn enumeration(&mut self, values: &[Value], depth: usize) -> Type {
        if values.len() <= self.bounds.literals {
            return union(values.iter().map(|value| self.literal(value, depth)).collect());
        }
        union(values.iter().map(|value| Type::Word(word_of(value))).collect())
    }

    /// The literal type of `value`.
    fn literal(&mut self, value: &Value, depth: usize) -> Type {
        const MAX_LITERAL: usize = 200;
        if depth > self.bounds.depth || self.bounds.nodes == 0 {
            return UNKNOWN;
        }
        self.bounds.nodes -= 1;
        match value {
            Value::Null => NULL,
            Value::String(text) if text.len() > MAX_LITERAL => Type::Word("string"),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Type::Literal(value.to_string()),
            Value::Array(items) => {
                let items: Vec<Type> =
                    items.iter().take(self.bounds.fields).map(|item| self.literal(item, depth + 1)).collect();
                Type::Tuple { required: items.len(), items, rest: None }
            }
            Value::Object(entries) => {
                let mut fields = Vec::new();
                for (name, value) in entries.iter().take(self.bounds.fields) {
                    let shape = self.literal(value, depth + 1);
                    fields.push(Field { name: name.clone(), optional: false, shape, notes: Notes::default() });
                }
                Type::Object { fields, omitted: 0, index: None }
            }
        }
    }
}

/// The documentation of `schema`.
pub(super) fn notes(schema: &Value) -> Notes {
    const CONSTRAINTS: [&str; 14] = [
        "format",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
    ];
    let mut constraints = Vec::new();
    if schema.get("type").and_then(Value::as_str) == Some("integer") {
        constraints.push("integer".to_owned());
    }
    for keyword in CONSTRAINTS {
        match schema.get(keyword) {
            Some(Value::String(text)) => constraints.push(format!("{keyword} {text}")),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => constraints.push(format!("{keyword} {value}")),
            _ => {}
        }
    }
    Notes {
        description: schema.get("description").and_then(Value::as_str).map(str::to_owned),
        default: schema.get("default").map(Value::to_string),
        constraints,
    }
}

fn word_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => "unknown",
    }
}

/// A union without duplicates and `never`; `unknown` if a member is `unknown`.
fn union(members: Vec<Type>) -> Type {
    let mut flat: Vec<Type> = Vec::new();
    for member in members {
        let several = if let Type::Union(inner) = member { inner } else { vec![member] };
        for one in several {
            if one == UNKNOWN {
                return UNKNOWN;
            }
            if one != Type::Word("never") && !flat.contains(&one) {
                flat.push(one);
            }
        }
    }
    single(flat, Type::Word("never"), Type::Union)
}

/// An intersection without duplicates and `unknown`.
fn intersection(members: Vec<Type>) -> Type {
    let mut kept: Vec<Type> = Vec::new();
    for member in members {
        if member != UNKNOWN && !kept.contains(&member) {
            kept.push(member);
        }
    }
    single(kept, UNKNOWN, Type::Intersection)
}

fn single(mut members: Vec<Type>, none: Type, several: fn(Vec<Type>) -> Type) -> Type {
    match members.len() {
        0 => none,
        1 => members.remove(0),
        _ => several(members),
    }
}

fn last_segment(pointer: &str) -> &str {
    match pointer.rsplit('/').next() {
        Some(segment) if !segment.is_empty() => segment,
        _ => "Root",
    }
}

/// `web_search` as `WebSearch`.
pub(super) fn pascal(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut start = true;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() {
            start = true;
        } else if std::mem::take(&mut start) {
            out.push(c.to_ascii_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}
