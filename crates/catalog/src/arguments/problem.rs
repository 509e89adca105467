//! What is wrong with an argument, in a sentence that says what would be right.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::LocationSegment;
use serde_json::Value;

use super::super::names::is_identifier;
use super::super::suggest::nearest;
use super::super::types;
use toolgate_wire::foreign_text::clipped;

/// Longest message, and longest path, in characters.
const MAX_TEXT: usize = 300;
/// Enum values listed in a message.
const MAX_LISTED: usize = 12;

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
            let found = kind_of(error.instance());
            out.push(problem(path, sentence(kind, found, schema, owner)));
        }
    }
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
