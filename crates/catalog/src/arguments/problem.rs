//! What is wrong with an argument, in a sentence that says what would be right.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::LocationSegment;
use serde_json::{Map, Value};

use super::super::names::is_identifier;
use super::super::suggest::nearest;
use super::super::types;
use toolgate_wire::foreign_text::clipped;

/// Longest message, and longest path, in characters.
const MAX_TEXT: usize = 300;
/// Enum values listed in a message.
const MAX_LISTED: usize = 12;
/// Parts and references of one alternative that are looked at, and properties that may tell alternatives apart.
const MAX_VIEWS: usize = 16;

/// One thing that is wrong with a call's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentProblem {
    /// Where: `query.filters[0].name`; empty for the argument object itself.
    pub path: String,
    /// What was expected and what came instead; names the place.
    pub message: String,
    /// The same without the place.
    pub predicate: String,
}

/// Appends what `error` means to a reader; one error may name several properties.
pub(super) fn describe(error: &ValidationError<'_>, schema: &Value, arguments: &Value, out: &mut Vec<ArgumentProblem>) {
    let segments: Vec<LocationSegment<'_>> = error.instance_path().iter().collect();
    let path = path_text(&segments, arguments);
    let owner = owning_schema(error, schema);
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let wanted = owner.and_then(|owner| owner.get("properties")?.get(name));
            let wanted = wanted.map(|wanted| format!(" ({})", types::expected(schema, wanted))).unwrap_or_default();
            out.push(problem(join(&path, name), format!("is required{wanted}")));
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let known = owner.and_then(|owner| owner.get("properties")?.as_object());
            for name in unexpected {
                let advice = advice(name, known.into_iter().flatten().map(|(known, _)| known.as_str()));
                out.push(problem(join(&path, name), format!("is not a known property{advice}")));
            }
        }
        // A pattern that gave up says nothing about the value.
        ValidationErrorKind::BacktrackLimitExceeded { .. } | ValidationErrorKind::RegexEngineFailure { .. } => {}
        kind => {
            if describe_alternative(error, schema, owner, arguments, out) {
                return;
            }
            let found = kind_of(error.instance());
            out.push(problem(path, sentence(kind, found, schema, owner)));
        }
    }
}

/// Describes an object that fits no alternative by the one that it is meant for; false if it is not known which.
fn describe_alternative(
    error: &ValidationError<'_>,
    schema: &Value,
    owner: Option<&Value>,
    arguments: &Value,
    out: &mut Vec<ArgumentProblem>,
) -> bool {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) = error.kind() else {
        return false;
    };
    let instance = error.instance();
    let Some(meant) = owner.and_then(|owner| Meant::of(schema, owner, instance.as_object()?)) else { return false };
    let segments: Vec<LocationSegment<'_>> = error.instance_path().iter().collect();
    let at = |property: &str| join(&path_text(&segments, arguments), property);
    let before = out.len();
    match meant {
        Meant::Alternative(index) => {
            context.get(index).into_iter().flatten().for_each(|inner| describe(inner, schema, arguments, out));
        }
        Meant::NoValue { property, values } => out.push(problem(at(property), one_of(&values))),
        Meant::Missing { property, values } => {
            out.push(problem(at(property), format!("is required and {}", one_of(&values))));
        }
    }
    out.len() > before
}

fn one_of(values: &[Value]) -> String {
    match values {
        [only] => format!("must be {only}"),
        several => format!("must be one of {}", listed(&several.into())),
    }
}

/// Which alternative of a schema an object is meant for.
enum Meant<'s> {
    /// The one at this index.
    Alternative(usize),
    /// None: the property that tells alternatives apart has a value that none of them lists.
    NoValue { property: &'s str, values: Vec<Value> },
    /// It is not known, because that property is missing, and all of them require it.
    Missing { property: &'s str, values: Vec<Value> },
}

impl<'s> Meant<'s> {
    fn of(root: &'s Value, owner: &'s Value, object: &Map<String, Value>) -> Option<Self> {
        let branches = owner.get("anyOf").or(owner.get("oneOf"))?.as_array()?;
        let branches: Vec<(usize, Vec<&Value>)> = branches
            .iter()
            .enumerate()
            .map(|(index, branch)| (index, views(root, branch)))
            .filter(|(_, views)| !views.iter().any(|view| excludes_objects(view)))
            .collect();
        // Null or alternatives.
        if let [(index, views)] = branches.as_slice() {
            let has_alternatives = views.iter().any(|view| view.get("anyOf").or(view.get("oneOf")).is_some());
            return has_alternatives.then_some(Self::Alternative(*index));
        }
        let (_, first) = branches.first()?;
        let names = first.iter().filter_map(|view| view.get("properties")?.as_object()).flat_map(Map::keys);
        names.take(MAX_VIEWS).find_map(|property| Self::by(root, &branches, property, object))
    }

    /// By one property, if all alternatives list its values.
    fn by(
        root: &'s Value,
        branches: &[(usize, Vec<&'s Value>)],
        property: &'s str,
        object: &Map<String, Value>,
    ) -> Option<Self> {
        let values: Option<Vec<Vec<&Value>>> =
            branches.iter().map(|(_, views)| values_of(root, views, property)).collect();
        let values = values?;
        let all = || {
            let mut all: Vec<Value> = Vec::new();
            for value in values.iter().flatten().take(MAX_LISTED * MAX_VIEWS) {
                if !all.contains(value) {
                    all.push((*value).clone());
                }
            }
            all
        };
        let Some(given) = object.get(property) else {
            let requires = |view: &&Value| {
                let names = view.get("required").and_then(Value::as_array);
                names.is_some_and(|names| names.iter().any(|name| name == property))
            };
            let is_required = branches.iter().all(|(_, views)| views.iter().any(requires));
            return is_required.then(|| Self::Missing { property, values: all() });
        };
        let mut fitting = branches.iter().zip(&values).filter(|(_, values)| values.contains(&given));
        match (fitting.next(), fitting.next()) {
            (None, _) => Some(Self::NoValue { property, values: all() }),
            (Some(((index, _), _)), None) => Some(Self::Alternative(*index)),
            (Some(_), Some(_)) => None,
        }
    }
}

/// A schema, what it refers to, and its parts.
fn views<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    let mut views = vec![schema];
    let mut next = 0;
    while let Some(view) = views.get(next).copied() {
        next += 1;
        let target = view.get("$ref").and_then(Value::as_str).and_then(|it| root.pointer(it.strip_prefix('#')?));
        let parts = view.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let room = MAX_VIEWS.saturating_sub(views.len());
        views.extend(target.into_iter().chain(parts).take(room));
    }
    views
}

fn excludes_objects(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name != "object",
        Some(Value::Array(names)) => !names.iter().any(|name| name == "object"),
        _ => false,
    }
}

/// The values that a schema lists for a property.
fn values_of<'s>(root: &'s Value, schema: &[&'s Value], property: &str) -> Option<Vec<&'s Value>> {
    let described = schema.iter().filter_map(|view| view.get("properties")?.get(property));
    described.flat_map(|described| views(root, described)).find_map(|view| {
        match (view.get("const"), view.get("enum")) {
            (Some(value), _) => Some(vec![value]),
            (None, Some(Value::Array(values))) => Some(values.iter().collect()),
            (None, _) => None,
        }
    })
}

/// Whatever an error says, without letting it grow.
pub(super) fn bounded(text: &str) -> String {
    clipped(text, MAX_TEXT).into_owned()
}

fn problem(path: String, predicate: String) -> ArgumentProblem {
    let path = bounded(&path);
    let place = if path.is_empty() { "the argument".to_owned() } else { format!("`{path}`") };
    let predicate = bounded(&predicate);
    ArgumentProblem { message: bounded(&format!("{place} {predicate}")), path, predicate }
}

/// The predicate of the sentence that begins with the place.
fn sentence(kind: &ValidationErrorKind, found: &str, root: &Value, owner: Option<&Value>) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::Type { kind: TypeKind::Single(one) } => format!("must be {}, got {found}", article(&one.to_string())),
        Kind::Type { kind: TypeKind::Multiple(several) } => {
            let names: Vec<String> = several.iter().map(|one| article(&one.to_string()).to_owned()).collect();
            format!("must be {}, got {found}", names.join(" or "))
        }
        Kind::Enum { options } => format!("must be one of {}", listed(options)),
        Kind::Constant { expected_value } => format!("must be {expected_value}"),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => match owner {
            Some(owner) => format!("must be {}, got {found}", types::expected(root, owner)),
            None => "fits none of the allowed forms".to_owned(),
        },
        Kind::OneOfMultipleValid { .. } => "fits more than one of forms that exclude each other".to_owned(),
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::MinItems { limit } => format!("must have at least {limit} items"),
        Kind::MaxItems { limit } => format!("must have at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("must have at most {limit} items"),
        Kind::MinProperties { limit } => format!("must have at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("must have at most {limit} properties"),
        Kind::UniqueItems => "must not have the same item twice".to_owned(),
        Kind::Pattern { pattern } => format!("must match the pattern {pattern}"),
        Kind::FalseSchema => "is not allowed here".to_owned(),
        other => format!("breaks the rule `{}` of the schema", other.keyword()),
    }
}

/// The schema object whose keyword complained.
fn owning_schema<'a>(error: &ValidationError<'_>, schema: &'a Value) -> Option<&'a Value> {
    let (owner, _keyword) = error.schema_path().as_str().rsplit_once('/')?;
    schema.pointer(owner)
}

fn advice<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    if let [near, ..] = nearest(name, known.clone().map(|known| (known, known.to_owned()))).as_slice() {
        return format!("; did you mean `{near}`?");
    }
    let names: Vec<&str> = known.take(MAX_LISTED).collect();
    if names.is_empty() { "; there are none".to_owned() } else { format!("; there are {}", names.join(", ")) }
}

fn listed(options: &Value) -> String {
    let Value::Array(options) = options else { return options.to_string() };
    let mut texts: Vec<String> = options.iter().take(MAX_LISTED).map(Value::to_string).collect();
    if options.len() > MAX_LISTED {
        texts.push(format!("… ({} more)", options.len() - MAX_LISTED));
    }
    texts.join(", ")
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn article(kind: &str) -> &'static str {
    match kind {
        "null" => "null",
        "boolean" => "a boolean",
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a string",
        "array" => "an array",
        _ => "an object",
    }
}

/// `query.filters[0].name`: whether a segment is an index is told by the value it leads into.
fn path_text(segments: &[LocationSegment<'_>], arguments: &Value) -> String {
    let mut path = String::new();
    let mut here = Some(arguments);
    for segment in segments {
        let name = segment.to_string();
        match here {
            Some(Value::Array(items)) => {
                path.push_str(&format!("[{name}]"));
                here = name.parse::<usize>().ok().and_then(|at| items.get(at));
            }
            _ => {
                path = join(&path, &name);
                here = here.and_then(|value| value.get(name.as_str()));
            }
        }
    }
    path
}

fn join(path: &str, name: &str) -> String {
    match (path.is_empty(), is_identifier(name)) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{}]", Value::from(bounded(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Checker, SchemaMemory};
    use serde_json::{Value, json};

    /// Checks an argument `shape` that is a circle or a square.
    #[track_caller]
    fn check(shape: Value, given: Value, expected: &[&str]) {
        let side = |name: &str| {
            let properties = json!({ "kind": { "type": "string" }, name: { "type": "number" } });
            json!({ "type": "object", "properties": properties, "required": [name] })
        };
        let kind = json!({ "properties": { "kind": { "$ref": "#/$defs/Kind" } }, "required": ["kind"] });
        let schema = json!({
            "type": "object",
            "properties": { "shape": shape },
            "$defs": {
                "Circle": side("radius"),
                "Square": side("side"),
                "Kind": { "enum": ["triangle"] },
                "Triangle": { "allOf": [kind] },
            },
        });
        let problems = Checker::new(&schema, &SchemaMemory::of_server()).check(&schema, &json!({ "shape": given }));
        let found: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(found, expected);
    }

    fn alternative(name: &str, value: &str) -> Value {
        json!({ "$ref": format!("#/$defs/{name}"), "properties": { "kind": { "const": value } }, "required": ["kind"] })
    }

    fn shapes() -> Value {
        json!([alternative("Circle", "circle"), alternative("Square", "square")])
    }

    #[test]
    fn a_wrong_discriminator_is_told_with_its_values() {
        for keyword in ["anyOf", "oneOf"] {
            let schema = || json!({ keyword: shapes() });
            check(schema(), json!({ "kind": "circle", "radius": 1 }), &[]);
            check(schema(), json!({ "kind": "cone" }), &["`shape.kind` must be one of \"circle\", \"square\""]);
            check(schema(), json!({}), &["`shape.kind` is required and must be one of \"circle\", \"square\""]);
        }
        let own = json!({ "anyOf": [alternative("Circle", "circle"), { "$ref": "#/$defs/Triangle" }] });
        check(own, json!({ "kind": "cone" }), &["`shape.kind` must be one of \"circle\", \"triangle\""]);
    }

    #[test]
    fn an_object_that_names_its_alternative_is_told_what_is_wrong_with_that() {
        let schema = json!({ "anyOf": shapes() });
        check(schema.clone(), json!({ "kind": "circle", "side": 1 }), &["`shape.radius` is required (number)"]);
        let nullable = json!({ "anyOf": [schema, { "type": "null" }] });
        check(nullable.clone(), json!(null), &[]);
        check(nullable, json!({ "kind": "cone" }), &["`shape.kind` must be one of \"circle\", \"square\""]);
    }

    #[test]
    fn alternatives_that_nothing_tells_apart_are_told_as_a_type() {
        let named =
            |name: &str| json!({ "type": "object", "properties": { name: { "enum": ["a"] } }, "required": [name] });
        let schema = json!({ "anyOf": [named("x"), named("y")] });
        check(schema, json!({}), &["`shape` must be { x: unknown } | { y: unknown }, got an object"]);
        let texts = json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] });
        check(texts, json!({}), &["`shape` must be string | unknown[], got an object"]);
    }
}
