//! Reads what an operation answers when it succeeds: the schema of a tool's result, and the content types to accept.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::body::is_json;
use crate::bounds::MAX_SCHEMA_VISITS;
use crate::document::{Document, Version, pointer};
use crate::operation::ResultForm;
use crate::schema::{Converted, Direction, Schemas};

/// What a successful answer is.
pub(crate) struct Answer {
    pub(crate) schema: Option<Converted>,
    pub(crate) form: ResultForm,
    /// The value of `Accept`.
    pub(crate) accept: String,
    /// Whether it is a list whose further pages a `Link` header names.
    pub(crate) has_pages: bool,
}

/// Content types that `Accept` names at most.
const MAX_ACCEPTED: usize = 5;

/// Reads the successful answers of an operation.
pub(crate) fn read(
    document: &Document<'_>,
    schemas: &mut Schemas<'_, '_>,
    operation: &Value,
    produces: &[String],
) -> Answer {
    let mut types: Vec<String> = Vec::new();
    let mut found: Vec<Value> = Vec::new();
    let mut is_complete = true;
    let mut has_links = false;
    for response in successes(document, operation) {
        let headers = response.get("headers").and_then(Value::as_object);
        has_links |= headers.is_some_and(|headers| headers.keys().any(|name| name.eq_ignore_ascii_case("link")));
        let before = found.len();
        match document.version {
            Version::V2 => {
                types.extend(produces.iter().cloned());
                found.extend(response.get("schema").filter(|it| !is_file(it)).cloned());
            }
            Version::V30 | Version::V31 | Version::V32 => {
                let content = response.get("content").and_then(Value::as_object).into_iter().flatten();
                for (media_type, media) in content {
                    types.push(media_type.clone());
                    if is_json(media_type) && found.len() == before {
                        found.extend(document.media_type(media).ok().and_then(|media| media.get("schema").cloned()));
                    }
                }
            }
        }
        is_complete &= found.len() > before;
    }
    let schema = if is_complete { combined(document, schemas, found) } else { None };
    let is_list = schema.as_ref().is_some_and(|it| it.schema.get("type").and_then(Value::as_str) == Some("array"));
    let (schema, form) = match schema {
        None => (None, ResultForm::Plain),
        Some(schema) if is_object(&schema.schema) => (Some(schema), ResultForm::Plain),
        Some(schema) => (Some(wrapped(schema)), ResultForm::Wrapped),
    };
    Answer { schema, form, accept: accept(types), has_pages: is_list && has_links }
}

/// The answers with a status of success; the default one if there is no other.
fn successes(document: &Document<'_>, operation: &Value) -> Vec<Rc<Value>> {
    let responses = operation.get("responses").and_then(Value::as_object);
    let of = |fits: fn(&str) -> bool| {
        let chosen = responses.into_iter().flatten().filter(move |(status, _)| fits(status));
        chosen
            .filter_map(|(_, it)| document.follow_whole(Rc::new(it.clone())).ok())
            .map(|(it, _)| it)
            .collect::<Vec<_>>()
    };
    let successes = of(|status| status.len() == 3 && status.starts_with('2'));
    if successes.is_empty() { of(|status| status == "default") } else { successes }
}

/// Swagger 2.0 marks an answer of bytes so.
fn is_file(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("file")
}

fn combined(document: &Document<'_>, schemas: &mut Schemas<'_, '_>, mut found: Vec<Value>) -> Option<Converted> {
    found.dedup();
    let mut converted: Vec<Converted> = Vec::new();
    let mut visits_left = MAX_SCHEMA_VISITS;
    for schema in &found {
        let one = schemas.convert(schema, Direction::Output);
        let mut one = schemas.inline(one);
        if let Some(keywords) = one.schema.as_object_mut()
            && !keywords.contains_key("type")
            && forces_object(document, schema, 0, &mut visits_left)
        {
            keywords.insert("type".to_owned(), json!("object"));
        }
        // A schema that says nothing makes the others say nothing.
        if one.schema.as_object().is_none_or(Map::is_empty) {
            return None;
        }
        converted.push(one);
    }
    match converted.len() {
        0 | 1 => converted.pop(),
        _ => {
            let references = converted.iter().flat_map(|it| it.references.clone()).collect();
            let branches: Vec<Value> = converted.into_iter().map(|it| it.schema).collect();
            Some(Converted { schema: json!({ "anyOf": branches }), references })
        }
    }
}

/// How many references and parts of `allOf` inside each other are looked at.
const MAX_DEPTH: usize = 12;

/// Whether a schema of the document means an object although it may not name the type. References and nesting multiply,
/// so a number of schemas is looked at; beyond it, a result is one that may be no object.
fn forces_object(document: &Document<'_>, schema: &Value, depth: usize, visits_left: &mut usize) -> bool {
    *visits_left = visits_left.saturating_sub(1);
    if *visits_left == 0 || depth > MAX_DEPTH || schema.get("nullable") == Some(&Value::Bool(true)) {
        return false;
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = pointer(reference).ok().and_then(|pointer| document.parse_at(&pointer));
        return target.is_some_and(|target| forces_object(document, &target, depth + 1, visits_left));
    }
    match schema.get("type") {
        Some(kind) => kind.as_str() == Some("object"),
        None => {
            let mut parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
            schema.get("properties").is_some()
                || parts.any(|part| forces_object(document, part, depth + 1, visits_left))
        }
    }
}

/// Whether everything that fits a schema is an object. Clients accept no other schema for structured content.
fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// The schema of `{"result": value}`, marked so that programs receive the value itself.
fn wrapped(inner: Converted) -> Converted {
    let schema = json!({
        "type": "object",
        "properties": { "result": inner.schema },
        "required": ["result"],
        "x-fastmcp-wrap-result": true,
    });
    Converted { schema, references: inner.references }
}

/// JSON first, then what else the operation answers with.
fn accept(mut types: Vec<String>) -> String {
    types.retain(|it| it.is_ascii() && !it.chars().any(char::is_control) && it.len() <= 100);
    types.sort_by_key(|it| !is_json(it));
    types.dedup();
    types.truncate(MAX_ACCEPTED);
    if types.is_empty() { "application/json, */*".to_owned() } else { types.join(", ") }
}
