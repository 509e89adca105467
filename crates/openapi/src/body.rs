//! Reads how the body of a request is made from arguments.
//!
//! A body that is an object is flattened: each property is an argument. It stays one argument, `body`, where flattening
//! would change its meaning: it takes other properties too, has alternatives, or may be left out although it has
//! required properties; and where it has very many properties.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::bounds::{MAX_FLATTENED, MAX_MERGED, MAX_SCHEMA_VISITS};
use crate::document::{Document, Version, pointer};
use crate::operation::{Body, BodyForm, BodyKind, Field, ParameterPlace};
use crate::read::{Draft, Reader, encoding};
use crate::schema::{Converted, Direction};

/// A body whose arguments have no final names yet.
pub(crate) struct DraftBody {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) body: Body,
}

impl Body {
    /// The same body with its arguments' names, in the order of its drafts.
    pub(crate) fn named(mut self, arguments: &[String]) -> Self {
        match &mut self.form {
            BodyForm::Whole(argument) => arguments.first().into_iter().for_each(|name| argument.clone_from(name)),
            BodyForm::Fields(fields) => {
                for (field, name) in fields.iter_mut().zip(arguments) {
                    field.argument.clone_from(name);
                }
            }
        }
        self
    }
}

/// Whether a content type is JSON. `*/*` counts: JSON is what APIs take that do not say.
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == "application/json" || essence == "text/json" || essence == "*/*" || essence.ends_with("+json")
}

/// A content type without its parameters.
pub(crate) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn kind(media_type: &str) -> BodyKind {
    match essence(media_type).as_str() {
        _ if is_json(media_type) => BodyKind::Json,
        "application/x-www-form-urlencoded" => BodyKind::UrlEncoded,
        it if it.starts_with("multipart/") => BodyKind::Multipart,
        it if it.starts_with("text/") || it.ends_with("xml") || it.ends_with("yaml") => BodyKind::Text,
        _ => BodyKind::Binary,
    }
}

/// The content type that is used of several: JSON where there is one.
fn preferred<'m, T>(types: impl Iterator<Item = (&'m String, T)>) -> Option<(&'m String, T)> {
    types.min_by_key(|(media_type, _)| match kind(media_type) {
        BodyKind::Json => 0,
        BodyKind::UrlEncoded => 1,
        BodyKind::Multipart => 2,
        BodyKind::Text => 3,
        BodyKind::Binary => 4,
    })
}

/// Reads the body of an operation of OpenAPI 3.
pub(crate) fn read(reader: &mut Reader<'_, '_>, operation: &Value) -> Result<Option<DraftBody>, String> {
    let Some(raw) = operation.get("requestBody").filter(|it| it.is_object()) else { return Ok(None) };
    let (raw, _) = reader.document.follow_whole(Rc::new(raw.clone())).map_err(|error| error.to_string())?;
    let required = raw.get("required") == Some(&Value::Bool(true));
    let content = raw.get("content").and_then(Value::as_object).into_iter().flatten();
    let Some((media_type, media)) = preferred(content) else { return Ok(None) };
    check_media_type(media_type)?;
    let schema = media.get("schema").cloned().unwrap_or_default();
    let described = raw.get("description").and_then(Value::as_str);
    let encodings = media.get("encoding").and_then(Value::as_object).cloned().unwrap_or_default();
    build(reader, Source { media_type, schema: &schema, required, described, encodings: &encodings }).map(Some)
}

/// Reads the body of an operation of Swagger 2.0: one parameter in `body`, or those in `formData`.
pub(crate) fn read_v2(
    reader: &mut Reader<'_, '_>,
    operation: &Value,
    parameters: &[Rc<Value>],
) -> Result<Option<DraftBody>, String> {
    let consumes = reader.consumes(operation);
    let of = |place: &'static str| {
        parameters.iter().filter(move |it| it.get("in").and_then(Value::as_str) == Some(place)).cloned()
    };
    if let Some(body) = of("body").next() {
        let json = "application/json".to_owned();
        let media_type =
            preferred(consumes.iter().map(|it| (it, ()))).map_or(json, |(media_type, ())| media_type.clone());
        check_media_type(&media_type)?;
        let schema = body.get("schema").cloned().unwrap_or_default();
        let required = body.get("required") == Some(&Value::Bool(true));
        let described = body.get("description").and_then(Value::as_str);
        let source = Source { media_type: &media_type, schema: &schema, required, described, encodings: &Map::new() };
        return build(reader, source).map(Some);
    }
    let fields: Vec<Rc<Value>> = of("formData").collect();
    if fields.is_empty() {
        return Ok(None);
    }
    let has_file = fields.iter().any(|field| field.get("type").and_then(Value::as_str) == Some("file"));
    let multipart = has_file || consumes.iter().all(|it| kind(it) == BodyKind::Multipart) && !consumes.is_empty();
    let (media_type, kind) = match multipart {
        true => ("multipart/form-data", BodyKind::Multipart),
        false => ("application/x-www-form-urlencoded", BodyKind::UrlEncoded),
    };
    let mut drafts = Vec::new();
    let mut named = Vec::new();
    let mut any_required = false;
    for field in &fields {
        let name = field.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_file = field.get("type").and_then(Value::as_str) == Some("file");
        let required = field.get("required") == Some(&Value::Bool(true));
        any_required |= required;
        let schema = if is_file { file(field) } else { reader.schemas.convert(field, Direction::Input) };
        drafts.push(Draft { name: name.clone(), prefix: "body", required, schema });
        let encoding = Some(encoding(field, ParameterPlace::Query, Version::V2)?);
        named.push(Field { argument: String::new(), name, encoding, content_type: None, is_file });
    }
    let form = BodyForm::Fields(named);
    Ok(Some(DraftBody { drafts, body: Body { media_type: media_type.to_owned(), kind, form, required: any_required } }))
}

/// A content type goes into a header.
fn check_media_type(media_type: &str) -> Result<(), String> {
    if media_type.len() > 200 || !media_type.is_ascii() || media_type.chars().any(char::is_control) {
        return Err("its content type is no header value".to_owned());
    }
    Ok(())
}

struct Source<'s> {
    media_type: &'s str,
    schema: &'s Value,
    required: bool,
    described: Option<&'s str>,
    encodings: &'s Map<String, Value>,
}

fn build(reader: &mut Reader<'_, '_>, source: Source<'_>) -> Result<DraftBody, String> {
    let kind = kind(source.media_type);
    let media_type =
        if essence(source.media_type) == "*/*" { "application/json" } else { source.media_type }.to_owned();
    let view = match kind {
        BodyKind::Json | BodyKind::UrlEncoded | BodyKind::Multipart => object_view(reader.document, source.schema),
        BodyKind::Text | BodyKind::Binary => None,
    };
    let view = view.filter(|view| {
        let is_known = !view.properties.is_empty() && view.properties.len() <= MAX_FLATTENED;
        is_known && (source.required || view.required.is_empty())
    });
    match view {
        Some(view) => flattened(reader, view, kind, media_type, &source),
        None => Ok(whole(reader, kind, media_type, &source)),
    }
}

fn whole(reader: &mut Reader<'_, '_>, kind: BodyKind, media_type: String, source: &Source<'_>) -> DraftBody {
    let mut schema = match kind {
        BodyKind::Binary => file(source.schema),
        BodyKind::Text => Converted { schema: json!({ "type": "string" }), references: Vec::new() },
        BodyKind::UrlEncoded | BodyKind::Multipart if source.schema.is_null() => {
            Converted { schema: json!({ "type": "object" }), references: Vec::new() }
        }
        BodyKind::Json | BodyKind::UrlEncoded | BodyKind::Multipart => {
            reader.schemas.convert(source.schema, Direction::Input)
        }
    };
    if let (Some(described), Some(schema)) = (source.described, schema.schema.as_object_mut()) {
        let described = crate::schema::shortened(described.trim(), crate::bounds::MAX_PROPERTY_DESCRIPTION);
        schema.entry("description").or_insert(described.into());
    }
    let draft = Draft { name: "body".to_owned(), prefix: "request", required: source.required, schema };
    let body = Body { media_type, kind, form: BodyForm::Whole(String::new()), required: source.required };
    DraftBody { drafts: vec![draft], body }
}

fn flattened(
    reader: &mut Reader<'_, '_>,
    view: ObjectView,
    kind: BodyKind,
    media_type: String,
    source: &Source<'_>,
) -> Result<DraftBody, String> {
    let mut drafts = Vec::new();
    let mut fields = Vec::new();
    for (name, schema) in view.properties {
        let is_file = kind == BodyKind::Multipart && is_file(reader.document, &schema);
        let own = source.encodings.get(&name);
        let content_type = own.and_then(|it| it.get("contentType")).and_then(Value::as_str).map(str::to_owned);
        content_type.as_deref().map_or(Ok(()), check_media_type)?;
        let has_style = own.is_some_and(|own| own.get("style").is_some() || own.get("explode").is_some());
        let encoding = match own {
            Some(own) if has_style => Some(encoding(own, ParameterPlace::Query, Version::V30)?),
            _ => None,
        };
        let converted = if is_file { file(&schema) } else { reader.schemas.convert(&schema, Direction::Input) };
        let required = source.required && view.required.contains(&name);
        drafts.push(Draft { name: name.clone(), prefix: "body", required, schema: converted });
        fields.push(Field { argument: String::new(), name, encoding, content_type, is_file });
    }
    let body = Body { media_type, kind, form: BodyForm::Fields(fields), required: source.required };
    Ok(DraftBody { drafts, body })
}

/// The argument for bytes: text as it is, or base64 with what an upload says of itself. A binary answer has this form.
fn file(schema: &Value) -> Converted {
    let about = schema.get("description").and_then(Value::as_str).unwrap_or("The content.");
    let about = crate::schema::shortened(about.trim(), crate::bounds::MAX_PROPERTY_DESCRIPTION);
    let bytes = json!({
        "type": "object",
        "properties": { "base64": { "type": "string" }, "filename": { "type": "string" }, "type": { "type": "string" } },
        "required": ["base64"],
    });
    let one = json!({ "description": about, "anyOf": [{ "type": "string" }, bytes] });
    let is_list = schema.get("type").and_then(Value::as_str) == Some("array");
    let schema = if is_list { json!({ "type": "array", "items": one }) } else { one };
    Converted { schema, references: Vec::new() }
}

/// Whether a part of a form is a file, or a list of them.
fn is_file(document: &Document<'_>, schema: &Value) -> bool {
    let Ok((schema, _)) = document.follow(Rc::new(schema.clone())) else { return false };
    let text = |schema: &Value, key: &str| schema.get(key).and_then(Value::as_str).map(str::to_owned);
    let binary = |schema: &Value| {
        text(schema, "format").as_deref() == Some("binary")
            || text(schema, "type").as_deref() == Some("file")
            || (schema.get("contentMediaType").is_some() && schema.get("contentEncoding").is_none())
    };
    binary(&schema) || schema.get("items").is_some_and(binary)
}

/// The properties of an object, over all parts of `allOf`.
struct ObjectView {
    /// In the order of the document.
    properties: Vec<(String, Value)>,
    required: HashSet<String>,
}

/// How many parts of `allOf` and references inside each other are looked at.
const MAX_VIEW_DEPTH: usize = 12;

/// Sees a schema as an object with the properties that are sent; `None` if it is more or something else.
fn object_view(document: &Document<'_>, schema: &Value) -> Option<ObjectView> {
    let mut parts = ObjectParts { visits_left: MAX_SCHEMA_VISITS, ..ObjectParts::default() };
    parts.collect(document, schema, 0)?;
    // A required property that is not described must be sent too; it takes anything.
    let is_described = |name: &&String| parts.positions.contains_key(*name);
    let mut undescribed: Vec<String> = parts.required.iter().filter(|name| !is_described(name)).cloned().collect();
    undescribed.sort();
    let mut properties: Vec<(String, Value)> =
        parts.properties.into_iter().map(|(name, schemas)| (name, all_of(schemas))).collect();
    properties.retain(|(_, schema)| {
        let followed = document.follow(Rc::new(schema.clone())).map(|(schema, _)| schema).unwrap_or_default();
        ![schema, &*followed].iter().any(|schema| schema.get("readOnly") == Some(&Value::Bool(true)))
    });
    properties.extend(undescribed.into_iter().map(|name| (name, json!({}))));
    Some(ObjectView { properties, required: parts.required })
}

/// One schema for a property; one that is described several times must fit all descriptions.
fn all_of(mut schemas: Vec<Value>) -> Value {
    if schemas.len() > 1 { json!({ "allOf": schemas }) } else { schemas.pop().unwrap_or_default() }
}

/// What the parts of a schema say about an object, while they are collected.
#[derive(Default)]
struct ObjectParts {
    /// In the order of the document, each with its different descriptions.
    properties: Vec<(String, Vec<Value>)>,
    positions: HashMap<String, usize>,
    required: HashSet<String>,
    /// References and nesting multiply: so many schemas are still looked at.
    visits_left: usize,
}

impl ObjectParts {
    /// Adds what a schema says; `None` if it is no plain object, or too large to see it as one.
    fn collect(&mut self, document: &Document<'_>, schema: &Value, depth: usize) -> Option<()> {
        let keywords = schema.as_object()?;
        self.visit()?;
        if depth > MAX_VIEW_DEPTH {
            return None;
        }
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            self.collect(document, &document.parse_at(&pointer(reference).ok()?)?, depth + 1)?;
            // Before 3.1, what stands beside a reference is ignored.
            if document.version != Version::V31 {
                return Some(());
            }
        }
        if !is_plain_object(keywords) {
            return None;
        }
        for part in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.collect(document, part, depth + 1)?;
        }
        for (name, schema) in keywords.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.add(name, schema)?;
        }
        let names = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
        self.required.extend(names.filter_map(Value::as_str).map(str::to_owned));
        Some(())
    }

    fn visit(&mut self) -> Option<()> {
        self.visits_left = self.visits_left.checked_sub(1)?;
        Some(())
    }

    fn add(&mut self, name: &str, schema: &Value) -> Option<()> {
        self.visit()?;
        let Some((_, known)) = self.positions.get(name).and_then(|at| self.properties.get_mut(*at)) else {
            self.positions.insert(name.to_owned(), self.properties.len());
            self.properties.push((name.to_owned(), vec![schema.clone()]));
            return Some(());
        };
        if !known.contains(schema) {
            known.push(schema.clone());
        }
        (known.len() <= MAX_MERGED).then_some(())
    }
}

/// Whether a schema, apart from its `allOf`, says nothing of an object but its properties.
fn is_plain_object(keywords: &Map<String, Value>) -> bool {
    const OTHER: [&str; 11] = [
        "oneOf",
        "anyOf",
        "not",
        "if",
        "patternProperties",
        "propertyNames",
        "dependentSchemas",
        "dependentRequired",
        "minProperties",
        "maxProperties",
        "discriminator",
    ];
    let is_object = matches!(keywords.get("type").map(|kind| kind.as_str()), None | Some(Some("object")));
    let is_closed = matches!(keywords.get("additionalProperties"), None | Some(Value::Bool(false)));
    let is_null = keywords.get("nullable") == Some(&Value::Bool(true));
    is_object && is_closed && !is_null && !OTHER.iter().any(|keyword| keywords.contains_key(*keyword))
}
