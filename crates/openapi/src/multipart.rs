//! Multipart bodies and files in them.

use std::hash::{BuildHasher, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::body::is_json;
use crate::encode::{ArgumentError, unfit};
use crate::operation::{Encoding, Field};
use crate::style::{Escaping, check_separator, named_texts, text_of};

/// Bytes to send.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    pub(crate) filename: Option<String>,
    pub(crate) media_type: Option<String>,
}

/// Reads a file's argument: text, or `{base64, filename?, type?}`.
pub(crate) fn file(argument: &str, value: &Value) -> Result<File, ArgumentError> {
    let Some(encoded) = value.get("base64").and_then(Value::as_str) else {
        return Ok(File { bytes: text_of(value).into_bytes(), filename: None, media_type: None });
    };
    let bytes = STANDARD.decode(encoded.trim()).map_err(|_| unfit(argument, "has a `base64` that is not base64"))?;
    let text = |key: &str| -> Result<Option<String>, ArgumentError> {
        let Some(text) = value.get(key).and_then(Value::as_str) else { return Ok(None) };
        // Both stand in the head of a part.
        if text.chars().any(char::is_control) || text.len() > 255 {
            return Err(unfit(argument, format!("has a `{key}` that is too long or has control characters")));
        }
        Ok(Some(text.to_owned()))
    };
    Ok(File { bytes, filename: text("filename")?, media_type: text("type")? })
}

/// A part of a multipart body.
struct Part {
    head: String,
    bytes: Vec<u8>,
}

/// The content type with its boundary, and the body.
pub(crate) fn encode(media_type: &str, given: &[(Field, &Value)]) -> Result<(String, Vec<u8>), ArgumentError> {
    let mut parts = Vec::new();
    for (field, value) in given {
        match (value, field.encoding) {
            (Value::Null, _) => {}
            (value, Some(encoding)) if !field.is_file => parts.extend(styled(field, value, encoding)?),
            // A list is a part for each item, unless its part is declared as JSON.
            (Value::Array(items), _) if !is_json_part(field) => {
                for item in items {
                    parts.push(part(field, item)?);
                }
            }
            (value, _) => parts.push(part(field, value)?),
        }
    }
    let boundary = boundary(&parts);
    let mut body = Vec::new();
    for part in &parts {
        body.extend_from_slice(format!("--{boundary}\r\n{}\r\n\r\n", part.head).as_bytes());
        body.extend_from_slice(&part.bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let essence = media_type.split(';').next().unwrap_or("multipart/form-data").trim();
    Ok((format!("{essence}; boundary={boundary}"), body))
}

/// The parts of a field that has a style. Its content type is ignored then, as OpenAPI says, and nothing is escaped.
fn styled(field: &Field, value: &Value, encoding: Encoding) -> Result<Vec<Part>, ArgumentError> {
    let Encoding::Style { style, explode, .. } = encoding else { return Ok(vec![part(field, value)?]) };
    check_separator(&field.argument, value, encoding, Escaping::Off)?;
    let texts = named_texts(&field.name, value, style, explode, Escaping::Off).into_iter();
    Ok(texts.map(|(name, text)| Part { head: disposition(&name), bytes: text.into_bytes() }).collect())
}

fn disposition(name: &str) -> String {
    format!("Content-Disposition: form-data; name=\"{}\"", quoted(name))
}

/// Whether the document says that the part of a field is JSON, whatever its value is.
fn is_json_part(field: &Field) -> bool {
    !field.is_file && declared(field).is_some_and(|it| is_json(&it))
}

/// The one content type that the document sets; several, or a range, leave the choice open.
fn declared(field: &Field) -> Option<String> {
    field.content_type.clone().filter(|it| !it.contains([',', '*']))
}

fn part(field: &Field, value: &Value) -> Result<Part, ArgumentError> {
    let mut head = disposition(&field.name);
    let is_file = field.is_file || value.get("base64").is_some_and(Value::is_string);
    let (bytes, media_type) = if is_file {
        let file = file(&field.argument, value)?;
        let filename = file.filename.unwrap_or_else(|| field.name.clone());
        head.push_str(&format!("; filename=\"{}\"", quoted(&filename)));
        (file.bytes, file.media_type.or(declared(field)).or_else(|| Some("application/octet-stream".to_owned())))
    } else if value.is_object() || is_json_part(field) {
        (value.to_string().into_bytes(), declared(field).or_else(|| Some("application/json".to_owned())))
    } else {
        (text_of(value).into_bytes(), declared(field))
    };
    if let Some(media_type) = media_type {
        head.push_str(&format!("\r\nContent-Type: {media_type}"));
    }
    Ok(Part { head, bytes })
}

/// A name inside quotes, escaped as browsers do.
fn quoted(name: &str) -> String {
    name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}

/// A boundary that no part contains. It is drawn, so that no argument can be made of candidates.
fn boundary(parts: &[Part]) -> String {
    let contains = |boundary: &str| {
        let needle = boundary.as_bytes();
        parts.iter().any(|part| part.bytes.windows(needle.len()).any(|window| window == needle))
    };
    let drawn = RandomState::new();
    (0_u64..).map(|n| format!("toolgate-{:016x}", drawn.hash_one(n))).find(|it| !contains(it)).unwrap_or_default()
}
