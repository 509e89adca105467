//! Converts the schemas of a document to JSON Schema 2020-12, as tools declare it.
//!
//! Every referenced schema is converted once, to text, as a definition; a tool's schema is its own part and the
//! definitions that it reaches, as many as fit its size. The others are declared with their type alone, so a schema that
//! is cut accepts more and refuses nothing that the API accepts. Cycles need no care: a definition refers to others by
//! name. `oneOf` becomes `anyOf`, because overlapping alternatives are common and the API decides anyway.
//!
//! Keywords are copied by an allow list. Examples, extensions and identifiers of schemas are left out.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::bounds::{MAX_DEFINITION_BYTES, MAX_DESCRIPTION, MAX_PROPERTY_DESCRIPTION, MAX_SCHEMA_DEPTH};
use crate::discriminator::{ValuesByTarget, discriminate, excludes, mapping, reference_of};
use crate::document::{Document, Version, pointer};
use crate::names::FreeNames;
use toolgate_wire::foreign_text::clipped;

/// What a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// What is sent: without properties that are read-only.
    Input,
    /// What is answered: without properties that are write-only, and with the keywords that types are made of.
    Output,
}

/// Which form of a referenced schema is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// The schema as written.
    Plain,
    /// Any of the schemas that its discriminator maps to.
    Polymorphic,
}

/// A schema with the definitions that it refers to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Converted {
    pub(crate) schema: Value,
    pub(crate) references: Vec<usize>,
}

/// A referenced schema.
struct Definition {
    pointer: String,
    direction: Direction,
    form: Form,
    name: String,
    converted: Option<Text>,
}

/// A converted definition as text.
#[derive(Clone)]
struct Text {
    whole: Rc<str>,
    stub: Rc<str>,
    references: Rc<[usize]>,
}

/// The converter of one document.
pub(crate) struct Schemas<'d, 'a> {
    document: &'d Document<'a>,
    definitions: Vec<Definition>,
    known: HashMap<(String, Direction, Form), usize>,
    names: HashMap<Direction, FreeNames>,
    /// What is known of referenced schemas, so that each is parsed for it once.
    marks: HashMap<String, Marks>,
    /// What referenced schemas say about a property, by both, so that each is parsed for it once.
    own_values: HashMap<(String, String), Rc<[Rc<Value>]>>,
}

/// What decides how a reference to a schema is converted.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    exists: bool,
    read_only: bool,
    write_only: bool,
    /// It has a discriminator that maps to other schemas.
    is_parent: bool,
}

impl Marks {
    fn of(schema: &Value) -> Self {
        let marked = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
        let (read_only, write_only) = (marked("readOnly"), marked("writeOnly"));
        Self { exists: true, read_only, write_only, is_parent: mapping(schema).is_some() }
    }

    fn hides(self, direction: Direction) -> bool {
        match direction {
            Direction::Input => self.read_only,
            Direction::Output => self.write_only,
        }
    }
}

impl<'d, 'a> Schemas<'d, 'a> {
    pub(crate) fn new(document: &'d Document<'a>) -> Self {
        Self {
            document,
            definitions: Vec::new(),
            known: HashMap::new(),
            names: HashMap::new(),
            marks: HashMap::new(),
            own_values: HashMap::new(),
        }
    }

    fn marks(&mut self, pointer: &str) -> Marks {
        if let Some(known) = self.marks.get(pointer) {
            return *known;
        }
        let marks = self.document.parse_at(pointer).as_ref().map(Marks::of).unwrap_or_default();
        self.marks.insert(pointer.to_owned(), marks);
        marks
    }

    /// Whether a property is not part of what is sent or answered.
    fn is_hidden(&mut self, schema: &Value, direction: Direction) -> bool {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|it| pointer(it).ok());
        Marks::of(schema).hides(direction) || target.is_some_and(|pointer| self.marks(&pointer).hides(direction))
    }

    /// Converts a schema of the document.
    pub(crate) fn convert(&mut self, schema: &Value, direction: Direction) -> Converted {
        let mut references = Vec::new();
        let schema = self.schema(schema, Place { direction, depth: 0, within_all_of: false }, &mut references);
        Converted { schema, references }
    }

    /// The text of a schema with its definitions, which may take `budget` bytes.
    pub(crate) fn compose(&mut self, root: &Value, references: &[usize], budget: usize) -> String {
        let text = root.to_string();
        let mut queue: Vec<usize> = Vec::new();
        let mut seen: HashSet<usize> = HashSet::new();
        let add = |from: &[usize], queue: &mut Vec<usize>, seen: &mut HashSet<usize>| {
            queue.extend(from.iter().filter(|index| seen.insert(**index)));
        };
        add(references, &mut queue, &mut seen);
        let mut definitions = String::new();
        let mut at = 0;
        while let Some(&index) = queue.get(at) {
            at += 1;
            let Some(text) = self.text(index) else { continue };
            let fits = definitions.len() + text.whole.len() <= budget;
            let name = self.definitions.get(index).map_or("", |definition| definition.name.as_str());
            let separator = if definitions.is_empty() { "" } else { "," };
            let body = if fits { &text.whole } else { &text.stub };
            definitions.push_str(&format!("{separator}\"{name}\":{body}"));
            if fits {
                add(&text.references, &mut queue, &mut seen);
            }
        }
        match (text.strip_suffix('}'), definitions.is_empty()) {
            (Some(open), false) if open.len() > 1 => format!("{open},\"$defs\":{{{definitions}}}}}"),
            (Some(_), false) => format!("{{\"$defs\":{{{definitions}}}}}"),
            _ => text,
        }
    }

    /// Replaces a reference at the root by what it refers to.
    pub(crate) fn inline(&mut self, converted: Converted) -> Converted {
        let is_reference = converted.schema.as_object().is_some_and(|it| it.len() == 1 && it.contains_key("$ref"));
        let (true, Some(&index)) = (is_reference, converted.references.first()) else { return converted };
        let Some(text) = self.text(index) else { return converted };
        let Ok(schema) = serde_json::from_str(&text.whole) else { return converted };
        Converted { schema, references: text.references.to_vec() }
    }

    fn text(&mut self, index: usize) -> Option<Text> {
        let definition = self.definitions.get(index)?;
        if let Some(text) = &definition.converted {
            return Some(text.clone());
        }
        let (direction, form) = (definition.direction, definition.form);
        let schema = self.document.parse_at(&definition.pointer.clone()).unwrap_or_default();
        let mut references = Vec::new();
        let place = Place { direction, depth: 0, within_all_of: true };
        let converted = match form {
            Form::Plain => self.schema(&schema, place, &mut references),
            Form::Polymorphic => self.children(&schema, place, &mut references),
        };
        let stub: Rc<str> = stub(&converted).to_string().into();
        let mut whole: Rc<str> = converted.to_string().into();
        if whole.len() > MAX_DEFINITION_BYTES {
            (whole, references) = (Rc::clone(&stub), Vec::new());
        }
        let text = Text { whole, stub, references: references.into() };
        self.definitions.get_mut(index)?.converted = Some(text.clone());
        Some(text)
    }

    /// The index of a definition, which is converted when it is first needed.
    fn define(&mut self, pointer: &str, direction: Direction, form: Form) -> usize {
        let key = (pointer.to_owned(), direction, form);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let mut base: String =
            last.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).take(100).collect();
        if form == Form::Polymorphic {
            base.push_str("_any");
        }
        let name = self.names.entry(direction).or_default().take(base);
        let definition = Definition { pointer: pointer.to_owned(), direction, form, name, converted: None };
        self.definitions.push(definition);
        let index = self.definitions.len() - 1;
        self.known.insert(key, index);
        index
    }

    fn reference(&mut self, reference: &str, place: Place, references: &mut Vec<usize>) -> Map<String, Value> {
        let Ok(pointer) = pointer(reference) else { return Map::new() };
        let marks = self.marks(&pointer);
        if !marks.exists {
            return Map::new();
        }
        let form = if marks.is_parent && !place.within_all_of { Form::Polymorphic } else { Form::Plain };
        let index = self.define(&pointer, place.direction, form);
        references.push(index);
        let name = self.definitions.get(index).map_or("", |definition| definition.name.as_str());
        Map::from_iter([("$ref".to_owned(), Value::String(format!("#/$defs/{name}")))])
    }

    /// The schemas that a discriminator without alternatives maps to.
    fn children(&mut self, schema: &Value, place: Place, references: &mut Vec<usize>) -> Value {
        let Some((property, mapping)) = mapping(schema) else { return json!({}) };
        let mut branches = Vec::new();
        for (value, target) in mapping {
            let inner = Place { within_all_of: true, ..place };
            let mut branch = self.reference(&reference_of(target), inner, references);
            discriminate(&mut branch, property, value);
            branches.push(Value::Object(branch));
        }
        json!({ "type": "object", "anyOf": branches })
    }

    fn schema(&mut self, schema: &Value, place: Place, references: &mut Vec<usize>) -> Value {
        let Some(keywords) = schema.as_object() else {
            return if *schema == Value::Bool(false) { Value::Bool(false) } else { json!({}) };
        };
        if place.depth > MAX_SCHEMA_DEPTH || !self.document.work.charge(1) {
            return json!({});
        }
        let mut result = Map::new();
        if let Some(Value::String(reference)) = keywords.get("$ref") {
            result = self.reference(reference, place, references);
            if self.document.version < Version::V31 {
                copy_description(keywords, place, &mut result);
                return nullable(keywords, Value::Object(result));
            }
        }
        self.keywords(keywords, place, references, &mut result);
        nullable(keywords, Value::Object(result))
    }

    fn keywords(
        &mut self,
        keywords: &Map<String, Value>,
        place: Place,
        references: &mut Vec<usize>,
        result: &mut Map<String, Value>,
    ) {
        copy_type(keywords, result);
        copy_description(keywords, place, result);
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("enum", Value::Array(values)) if !values.is_empty() => {
                    drop(result.insert(keyword.clone(), value.clone()))
                }
                ("const", _) | ("format" | "contentEncoding" | "contentMediaType", Value::String(_)) => {
                    result.insert(keyword.clone(), value.clone());
                }
                ("deprecated" | "uniqueItems", Value::Bool(true)) => {
                    drop(result.insert(keyword.clone(), value.clone()))
                }
                ("properties" | "patternProperties" | "dependentSchemas", Value::Object(members)) => {
                    let members = self.members(members, place, references);
                    result.insert(keyword.clone(), Value::Object(members));
                }
                ("required", Value::Array(names)) => {
                    let names = self.required(names, keywords.get("properties"), place.direction);
                    if !names.is_empty() {
                        result.insert(keyword.clone(), names.into());
                    }
                }
                (
                    "items" | "contains" | "additionalProperties" | "propertyNames" | "not" | "if" | "then" | "else",
                    _,
                ) => {
                    if let Some(nested) = self.nested(keyword, value, place, references) {
                        result.insert(keyword.clone(), nested);
                    }
                }
                ("prefixItems", Value::Array(items)) => {
                    let items = items.iter().map(|item| self.schema(item, place.inner(), references)).collect();
                    result.insert(keyword.clone(), items);
                }
                ("allOf", Value::Array(parts)) if !parts.is_empty() => {
                    let inner = Place { within_all_of: true, ..place.inner() };
                    let parts = parts.iter().map(|part| self.schema(part, inner, references)).collect();
                    add_all_of(result, parts);
                }
                ("anyOf" | "oneOf", Value::Array(branches)) if !branches.is_empty() => {
                    let branches = self.branches(branches, keywords.get("discriminator"), place, references);
                    match result.contains_key("anyOf") {
                        // With both keywords, a value must fit both.
                        true => add_all_of(result, vec![json!({ "anyOf": branches })]),
                        false => drop(result.insert("anyOf".to_owned(), branches.into())),
                    }
                }
                _ if place.direction == Direction::Input => constraint(keyword, value, keywords, result),
                _ => {}
            }
        }
    }

    /// A schema inside a keyword. Results keep those that types are made of, and stay open to further properties.
    fn nested(&mut self, keyword: &str, value: &Value, place: Place, references: &mut Vec<usize>) -> Option<Value> {
        let is_shown = place.direction == Direction::Input || matches!(keyword, "items" | "additionalProperties");
        match value {
            Value::Object(_) if is_shown => Some(self.schema(value, place.inner(), references)),
            Value::Bool(allowed) if is_shown && (*allowed || place.direction == Direction::Input) => {
                Some(value.clone())
            }
            _ => None,
        }
    }

    fn members(
        &mut self,
        members: &Map<String, Value>,
        place: Place,
        references: &mut Vec<usize>,
    ) -> Map<String, Value> {
        let mut shown = Map::new();
        for (name, schema) in members {
            if !self.is_hidden(schema, place.direction) {
                shown.insert(name.clone(), self.schema(schema, place.inner(), references));
            }
        }
        shown
    }

    fn required(&mut self, names: &[Value], properties: Option<&Value>, direction: Direction) -> Vec<String> {
        let mut required: Vec<String> = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        for name in names.iter().filter_map(Value::as_str).filter(|name| seen.insert(name)) {
            let schema = properties.and_then(|it| it.get(name));
            if !schema.is_some_and(|it| self.is_hidden(it, direction)) {
                required.push(name.to_owned());
            }
        }
        required
    }

    fn branches(
        &mut self,
        branches: &[Value],
        discriminator: Option<&Value>,
        place: Place,
        references: &mut Vec<usize>,
    ) -> Vec<Value> {
        let property = discriminator.and_then(|it| it.get("propertyName")).and_then(Value::as_str);
        let values = ValuesByTarget::new(discriminator.and_then(|it| it.get("mapping")).and_then(Value::as_object));
        let mut converted = Vec::with_capacity(branches.len());
        for branch in branches {
            let mut schema = self.schema(branch, place.inner(), references);
            let target = branch.get("$ref").and_then(Value::as_str);
            if let (Some(property), Some(target), Some(schema)) = (property, target, schema.as_object_mut())
                && let Some(value) = values.of(target)
                && !self.contradicts(target, property, value)
            {
                discriminate(schema, property, value);
            }
            converted.push(schema);
        }
        converted
    }

    /// Whether an alternative gives the discriminator values of its own, and not this one. Documents without a mapping
    /// often mean the values that their schemas have, and not the names of the schemas.
    fn contradicts(&mut self, target: &str, property: &str, value: &str) -> bool {
        self.own_values(target, property).iter().any(|own| {
            let values = own.get("enum").and_then(Value::as_array).map_or(0, Vec::len);
            self.document.work.charge(values) && excludes(own, value)
        })
    }

    /// What the parts of a referenced schema say about a property.
    fn own_values(&mut self, target: &str, property: &str) -> Rc<[Rc<Value>]> {
        let key = (target.to_owned(), property.to_owned());
        if let Some(known) = self.own_values.get(&key) {
            return Rc::clone(known);
        }
        let schema = pointer(target).ok().and_then(|pointer| self.document.parse_at(&pointer)).unwrap_or_default();
        let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let own = parts.chain([&schema]).filter_map(|part| part.get("properties")?.get(property));
        let own = own.map(|own| self.document.follow(Rc::new(own.clone())).map(|(own, _)| own).unwrap_or_default());
        let own: Rc<[Rc<Value>]> = own.collect();
        self.own_values.insert(key, Rc::clone(&own));
        own
    }
}

/// Where a schema is.
#[derive(Debug, Clone, Copy)]
struct Place {
    direction: Direction,
    depth: usize,
    /// A part of `allOf` is the schema as written, also where it has a discriminator: its children refer to it so.
    within_all_of: bool,
}

impl Place {
    fn inner(self) -> Self {
        Self { depth: self.depth + 1, within_all_of: false, ..self }
    }
}

/// Adds schemas that a value must fit too.
fn add_all_of(result: &mut Map<String, Value>, parts: Vec<Value>) {
    match result.get_mut("allOf") {
        Some(Value::Array(known)) => known.extend(parts),
        _ => drop(result.insert("allOf".to_owned(), parts.into())),
    }
}

/// The type without what is no type of JSON Schema.
fn copy_type(keywords: &Map<String, Value>, result: &mut Map<String, Value>) {
    const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
    match keywords.get("type") {
        Some(Value::String(name)) if TYPES.contains(&name.as_str()) => {
            result.insert("type".to_owned(), name.as_str().into());
        }
        // Swagger 2.0: the body of an answer that is a file.
        Some(Value::String(name)) if name == "file" => drop(result.insert("type".to_owned(), "string".into())),
        Some(Value::Array(names)) => {
            let mut seen = HashSet::new();
            let known =
                names.iter().filter_map(Value::as_str).filter(|name| TYPES.contains(name) && seen.insert(*name));
            let known: Vec<&str> = known.collect();
            if !known.is_empty() {
                result.insert("type".to_owned(), known.into());
            }
        }
        _ => {}
    }
}

fn copy_description(keywords: &Map<String, Value>, place: Place, result: &mut Map<String, Value>) {
    let limit = match place.direction {
        Direction::Input => MAX_PROPERTY_DESCRIPTION,
        Direction::Output => MAX_PROPERTY_DESCRIPTION / 3,
    };
    let text = keywords.get("description").or(keywords.get("title")).and_then(Value::as_str);
    if let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) {
        result.insert("description".to_owned(), Value::String(shortened(text, limit)));
    }
}

/// The beginning of a text, as one that says that it was cut.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    let limit = limit.min(MAX_DESCRIPTION);
    clipped(text, limit).into_owned()
}

/// A constraint on what is sent. One that is malformed is left out: it would make the whole schema unusable.
fn constraint(keyword: &str, value: &Value, keywords: &Map<String, Value>, result: &mut Map<String, Value>) {
    match (keyword, value) {
        ("pattern", Value::String(_)) => drop(result.insert(keyword.to_owned(), value.clone())),
        ("minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties", _)
            if value.is_u64() =>
        {
            result.insert(keyword.to_owned(), value.clone());
        }
        ("minContains" | "maxContains", _) if value.is_u64() => drop(result.insert(keyword.to_owned(), value.clone())),
        ("multipleOf", Value::Number(number)) if number.as_f64().is_some_and(|it| it > 0.0) => {
            result.insert(keyword.to_owned(), value.clone());
        }
        // Before 3.1, `exclusiveMinimum: true` says that `minimum` itself is not allowed.
        ("minimum" | "maximum", Value::Number(_)) => {
            let exclusive = if keyword == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
            let is_exclusive = keywords.get(exclusive) == Some(&Value::Bool(true));
            let keyword = if is_exclusive { exclusive } else { keyword };
            result.insert(keyword.to_owned(), value.clone());
        }
        ("exclusiveMinimum" | "exclusiveMaximum", Value::Number(_)) => {
            result.insert(keyword.to_owned(), value.clone());
        }
        ("default", _) if !value.is_object() && !value.is_array() => {
            result.insert(keyword.to_owned(), value.clone());
        }
        ("dependentRequired", Value::Object(_)) => drop(result.insert(keyword.to_owned(), value.clone())),
        _ => {}
    }
}

/// Adds null where the keywords of 2.0 and 3.0 allow it.
fn nullable(keywords: &Map<String, Value>, schema: Value) -> Value {
    let is_nullable =
        ["nullable", "x-nullable"].iter().any(|keyword| keywords.get(*keyword) == Some(&Value::Bool(true)));
    let Value::Object(mut schema) = schema else { return schema };
    if !is_nullable {
        return Value::Object(schema);
    }
    if schema.contains_key("$ref")
        || schema.contains_key("allOf")
        || schema.contains_key("anyOf")
        || schema.contains_key("const")
    {
        return json!({ "anyOf": [schema, { "type": "null" }] });
    }
    if let Some(Value::String(name)) = schema.get("type").cloned()
        && name != "null"
    {
        schema.insert("type".to_owned(), json!([name, "null"]));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    Value::Object(schema)
}

/// What is declared of a schema that does not fit: its type.
fn stub(schema: &Value) -> Value {
    let is_object = ["properties", "additionalProperties"].iter().any(|keyword| schema.get(*keyword).is_some());
    match schema.get("type") {
        Some(kind) => json!({ "type": kind }),
        None if is_object => json!({ "type": "object" }),
        None => json!({}),
    }
}
