//! Reads how the body of a request is made from arguments.
//!
//! A body that is an object is flattened: each property is an argument. It stays one argument, `body`, where flattening
//! would change its meaning: it takes other properties too, has alternatives, or may be left out although it has
//! required properties; and where it has very many properties.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::bounds::{MAX_FLATTENED, MAX_MERGED, MAX_SCHEMA_VISITS, MAX_SHOWN};
use crate::document::{Document, Version, pointer};
use crate::operation::{Body, BodyForm, BodyKind, Field, ParameterPlace};
use crate::read::{Draft, Reader, encoding};
use crate::schema::{Converted, Direction};
use toolgate_wire::foreign_text::clipped;

/// A body whose arguments have no final names yet.
pub(crate) struct DraftBody {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) body: Body,
}

impl Body {
    /// The same body with its arguments' names, in the order of its drafts.
    pub(crate) fn named(mut self, arguments: &[String]) -> Self {
        match &mut self.form {
            BodyForm::Whole { argument, .. } => {
                arguments.first().into_iter().for_each(|name| argument.clone_from(name));
            }
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

/// Which content type is used of several, the least first: JSON where there is one.
fn rank(media_type: &str) -> u8 {
    match kind(media_type) {
        BodyKind::Json => 0,
        BodyKind::UrlEncoded => 1,
        BodyKind::Multipart => 2,
        BodyKind::Text => 3,
        BodyKind::Binary => 4,
    }
}

/// Reads the body of an operation of OpenAPI 3: in the first content type that can be sent.
pub(crate) fn read(reader: &mut Reader<'_, '_>, operation: &Value) -> Result<Option<DraftBody>, String> {
    let Some(raw) = operation.get("requestBody").filter(|it| it.is_object()) else { return Ok(None) };
    let (raw, _) = reader.document.follow_whole(Rc::new(raw.clone())).map_err(|error| error.to_string())?;
    let content = raw.get("content").and_then(Value::as_object).into_iter().flatten();
    let mut content: Vec<(&String, &Value)> = content.collect();
    content.sort_by_key(|(media_type, _)| rank(media_type));
    let mut refusal = None;
    for (media_type, media) in content {
        match in_media_type(reader, &raw, media_type, media) {
            Ok(body) => return Ok(Some(body)),
            Err(reason) => refusal = refusal.or(Some(reason)),
        }
    }
    refusal.map_or(Ok(None), Err)
}

/// The body of a request in one of its content types.
fn in_media_type(
    reader: &mut Reader<'_, '_>,
    raw: &Value,
    media_type: &str,
    media: &Value,
) -> Result<DraftBody, String> {
    check_media_type(media_type)?;
    let media = reader.document.media_type(media).map_err(|error| error.to_string())?;
    let is_sequence = kind(media_type) == BodyKind::Multipart && media.get("itemSchema").is_some();
    let schema = match media.get("schema") {
        Some(schema) => schema.clone(),
        None if is_sequence => json!({ "type": "array" }),
        None => Value::Null,
    };
    let required = raw.get("required") == Some(&Value::Bool(true));
    let described = raw.get("description").and_then(Value::as_str);
    let encodings = media.get("encoding").and_then(Value::as_object).cloned().unwrap_or_default();
    build(reader, Source { media_type, schema: &schema, required, described, encodings: &encodings })
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
        let media_type = consumes.iter().min_by_key(|it| rank(it)).cloned().unwrap_or(json);
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
    let is_of = |schema: &Value, kind: &str| schema.get("type").and_then(Value::as_str) == Some(kind);
    let is_file = |field: &Value| is_of(field, "file") || field.get("items").is_some_and(|items| is_of(items, "file"));
    let has_file = fields.iter().any(|field| is_file(field));
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
        let is_file = is_file(field);
        let required = field.get("required") == Some(&Value::Bool(true));
        any_required |= required;
        let schema = if is_file { file(field) } else { reader.schemas.convert(field, Direction::Input) };
        drafts.push(Draft { name: name.clone(), prefix: "body", required, schema });
        // A part that is no list is written as its value is.
        let has_style = kind == BodyKind::UrlEncoded || is_of(field, "array");
        let encoding = has_style.then(|| encoding(field, ParameterPlace::Query, Version::V2)).transpose()?;
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
    if matches!(kind, BodyKind::UrlEncoded | BodyKind::Multipart) && !may_be_object(reader.document, source.schema) {
        let shown = clipped(&media_type, MAX_SHOWN);
        return Err(format!("its body of type {shown} is no object, and only the members of one are sent as a form"));
    }
    let is_flattened = |view: &ObjectView| {
        let is_known = !view.properties.is_empty() && view.properties.len() <= MAX_FLATTENED;
        is_known && (source.required || view.required.is_empty())
    };
    match view {
        Some(view) if is_flattened(&view) => flattened(reader, view, kind, media_type, &source),
        view => whole(reader, view, kind, media_type, &source),
    }
}

/// Whether an object can fit a schema, as far as its type says.
fn may_be_object(document: &Document<'_>, schema: &Value) -> bool {
    let Ok((schema, _)) = document.follow(Rc::new(schema.clone())) else { return true };
    match schema.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => schema.get("items").is_none() && schema.get("prefixItems").is_none(),
    }
}

fn whole(
    reader: &mut Reader<'_, '_>,
    view: Option<ObjectView>,
    kind: BodyKind,
    media_type: String,
    source: &Source<'_>,
) -> Result<DraftBody, String> {
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
    let fields = match kind {
        BodyKind::UrlEncoded | BodyKind::Multipart => {
            let properties = view.map(|view| view.properties).unwrap_or_default();
            described_fields(&FieldReader::new(reader.document, kind, &media_type), &properties, source.encodings)?
        }
        BodyKind::Json | BodyKind::Text | BodyKind::Binary => Vec::new(),
    };
    let form = BodyForm::Whole { argument: String::new(), fields };
    Ok(DraftBody { drafts: vec![draft], body: Body { media_type, kind, form, required: source.required } })
}

/// The members of a form that is one argument, as far as the document says how they are written.
fn described_fields(
    fields: &FieldReader<'_, '_>,
    properties: &[(String, Value)],
    encodings: &Map<String, Value>,
) -> Result<Vec<Field>, String> {
    let schemas: HashMap<&str, &Value> = properties.iter().map(|(name, schema)| (name.as_str(), schema)).collect();
    let beside = encodings.keys().filter(|name| !schemas.contains_key(name.as_str()));
    let mut described = Vec::new();
    for name in properties.iter().map(|(name, _)| name).chain(beside) {
        let schema = schemas.get(name.as_str()).copied().unwrap_or(&Value::Null);
        let field = fields.field(name, schema, encodings.get(name))?;
        // Any other member is a field without a description.
        if field != (Field { name: name.clone(), ..Field::default() }) {
            described.push(field);
        }
    }
    Ok(described)
}

/// The fields of a whole query that is written as a form (3.2).
pub(crate) fn query_fields(document: &Document<'_>, media: &Value) -> Result<Vec<Field>, String> {
    let Some(encodings) = media.get("encoding").and_then(Value::as_object) else { return Ok(Vec::new()) };
    let fields = FieldReader::new(document, BodyKind::UrlEncoded, "application/x-www-form-urlencoded");
    described_fields(&fields, &[], encodings)
}

/// Reads how the fields of a form are written.
struct FieldReader<'r, 'a> {
    document: &'r Document<'a>,
    kind: BodyKind,
    /// Whether fields may have a style: before 3.1, and in other content types, OpenAPI says that it is ignored.
    has_styles: bool,
}

impl<'r, 'a> FieldReader<'r, 'a> {
    fn new(document: &'r Document<'a>, kind: BodyKind, media_type: &str) -> Self {
        let has_styles = match kind {
            BodyKind::UrlEncoded => true,
            BodyKind::Multipart => document.version >= Version::V31 && essence(media_type) == "multipart/form-data",
            BodyKind::Json | BodyKind::Text | BodyKind::Binary => false,
        };
        Self { document, kind, has_styles }
    }

    fn field(&self, name: &str, schema: &Value, own: Option<&Value>) -> Result<Field, String> {
        let is_part = self.kind == BodyKind::Multipart;
        let is_file = is_part && is_or_lists(self.document, schema, is_bytes);
        let declared = own.and_then(|it| it.get("contentType")).and_then(Value::as_str).map(str::to_owned);
        declared.as_deref().map_or(Ok(()), check_media_type)?;
        let is_encoded = is_part && self.document.version >= Version::V31;
        let is_encoded = is_encoded && is_or_lists(self.document, schema, |it| it.get("contentEncoding").is_some());
        let content_type = declared.or_else(|| is_encoded.then(|| "application/octet-stream".to_owned()));
        let says_style = |own: &&Value| ["style", "explode", "allowReserved"].iter().any(|key| own.get(key).is_some());
        let own = own.filter(|own| self.has_styles && says_style(own));
        let encoding = own.map(|own| encoding(own, ParameterPlace::Query, self.document.version)).transpose()?;
        Ok(Field { argument: String::new(), name: name.to_owned(), encoding, content_type, is_file })
    }
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
    let form = FieldReader::new(reader.document, kind, &media_type);
    for (name, schema) in view.properties {
        let field = form.field(&name, &schema, source.encodings.get(&name))?;
        let converted = if field.is_file { file(&schema) } else { reader.schemas.convert(&schema, Direction::Input) };
        let required = source.required && view.required.contains(&name);
        drafts.push(Draft { name, prefix: "body", required, schema: converted });
        fields.push(field);
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

/// Whether a schema, or that of the items of a list, is of some kind.
fn is_or_lists(document: &Document<'_>, schema: &Value, is_it: fn(&Value) -> bool) -> bool {
    let follow = |schema: &Value| document.follow(Rc::new(schema.clone())).map(|(schema, _)| schema).ok();
    let Some(schema) = follow(schema) else { return false };
    is_it(&schema) || schema.get("items").and_then(follow).is_some_and(|items| is_it(&items))
}

/// Whether a schema of a part means bytes, so that the part is a file.
fn is_bytes(schema: &Value) -> bool {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    text("format") == Some("binary")
        || text("type") == Some("file")
        || (schema.get("contentMediaType").is_some() && schema.get("contentEncoding").is_none())
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
            if document.version < Version::V31 {
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
