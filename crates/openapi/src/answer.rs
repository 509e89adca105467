//! From an answer to the result of a tool call, in the form that MCP gives it.
//!
//! JSON is the structured content; text is text; bytes are `{base64, type, filename?}`, which is also the form in which
//! an argument takes a file. A status that is no success is a failure with `{status, body}`. `_meta` tells the status,
//! when to try again and where further pages are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use toolgate_wire::foreign_text::{head, one_line};
use url::{Origin, Url};

use crate::body::{essence, is_json};
use crate::bounds::MAX_ERROR_BYTES;
use crate::header_text::{parameter, pieces};
use crate::operation::{Operation, ParameterPlace, ResultForm};
use crate::read_back::arguments_of;
use crate::transport::ApiAnswer;

/// The key of `_meta` that holds what the answer said besides its body.
pub const META_KEY: &str = "toolgate/http";

/// Links of one answer that are told.
const MAX_LINKS: usize = 16;
/// Characters of a body in the message of a failure.
const MAX_MESSAGE: usize = 500;
/// Most characters of the place of a next page in a message.
const MAX_PLACE_CHARS: usize = 300;

/// The result of a call.
pub(crate) fn result(operation: &Operation, answer: ApiAnswer, url: &Url, missing: &[String]) -> Value {
    let meta = meta(operation, &answer, url);
    if (200..300).contains(&answer.status) {
        return success(operation, answer, meta);
    }
    failure(answer, meta, missing)
}

/// The body of an answer, decoded.
enum Content {
    Empty,
    Json(Value, String),
    Text(String),
    Bytes(Vec<u8>, String),
}

fn content(answer: &mut ApiAnswer) -> Content {
    let media_type = answer.header("content-type").unwrap_or_default().to_owned();
    if answer.body.is_empty() {
        return Content::Empty;
    }
    let kind = essence(&media_type);
    let is_text = kind.is_empty()
        || kind.starts_with("text/")
        || is_json(&kind)
        || kind.ends_with("xml")
        || kind.ends_with("yaml")
        || kind == "application/x-www-form-urlencoded"
        || kind == "application/javascript"
        || kind == "application/x-ndjson";
    let body = std::mem::take(&mut answer.body);
    match String::from_utf8(body) {
        Ok(text) if is_json(&kind) || kind.is_empty() => {
            match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
                Ok(json) => Content::Json(json, text),
                Err(_) => Content::Text(text),
            }
        }
        Ok(text) if is_text => Content::Text(text),
        Ok(text) => Content::Bytes(text.into_bytes(), kind),
        Err(error) if is_text && is_latin(&media_type) => {
            Content::Text(error.into_bytes().into_iter().map(latin_char).collect())
        }
        Err(error) => Content::Bytes(error.into_bytes(), kind),
    }
}

/// Whether a content type names the one charset beside UTF-8 that APIs still answer in.
fn is_latin(media_type: &str) -> bool {
    let charset = parameter(media_type, "charset").unwrap_or_default().to_ascii_lowercase();
    matches!(charset.as_str(), "iso-8859-1" | "latin1" | "windows-1252")
}

/// The characters of the bytes 0x80 to 0x9F in windows-1252, which is also what the web reads iso-8859-1 as.
const WINDOWS_1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}', '\u{2030}',
    '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}',
    '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}',
    '\u{17e}', '\u{178}',
];

/// The character of a byte; of others than those of the table, the one of its number.
fn latin_char(byte: u8) -> char {
    let at = byte.checked_sub(0x80).map(usize::from);
    at.and_then(|at| WINDOWS_1252.get(at).copied()).unwrap_or_else(|| char::from(byte))
}

fn success(operation: &Operation, mut answer: ApiAnswer, mut meta: Map<String, Value>) -> Value {
    let filename = answer.header("content-disposition").and_then(filename);
    let (value, blocks) = match content(&mut answer) {
        Content::Empty => (Value::Null, Vec::new()),
        Content::Json(value, text) => (value, vec![json!({ "type": "text", "text": text })]),
        Content::Text(text) => (Value::String(text.clone()), vec![json!({ "type": "text", "text": text })]),
        Content::Bytes(bytes, kind) => binary(&bytes, kind, filename),
    };
    let is_plain = operation.plan.result == ResultForm::Plain && value.is_object();
    let mut result = Map::from_iter([("content".to_owned(), Value::Array(blocks))]);
    if is_plain {
        result.insert("structuredContent".to_owned(), value);
    } else {
        result.insert("structuredContent".to_owned(), json!({ "result": value }));
        meta.insert("fastmcp".to_owned(), json!({ "wrap_result": true }));
    }
    result.insert("_meta".to_owned(), Value::Object(meta));
    Value::Object(result)
}

/// Bytes as a value, and as what a client can show.
fn binary(bytes: &[u8], kind: String, filename: Option<String>) -> (Value, Vec<Value>) {
    let kind = if kind.is_empty() { "application/octet-stream".to_owned() } else { kind };
    let data = STANDARD.encode(bytes);
    let block = match kind.split('/').next() {
        Some("image") => json!({ "type": "image", "data": data, "mimeType": kind }),
        Some("audio") => json!({ "type": "audio", "data": data, "mimeType": kind }),
        _ => json!({ "type": "text", "text": format!("{} bytes of {kind}", bytes.len()) }),
    };
    let mut value = json!({ "base64": data, "type": kind });
    if let Some(filename) = filename {
        value["filename"] = filename.into();
    }
    (value, vec![block])
}

/// The name that an answer gives its content.
fn filename(disposition: &str) -> Option<String> {
    let name = parameter(disposition, "filename")?;
    // A name and no path: what follows the last separator.
    let name = name.rsplit(['/', '\\']).next()?.trim();
    (!name.is_empty() && name.len() <= 255 && !name.chars().any(char::is_control)).then(|| name.to_owned())
}

fn failure(mut answer: ApiAnswer, meta: Map<String, Value>, missing: &[String]) -> Value {
    let status = answer.status;
    cut(&mut answer.body);
    let location = answer.header("location").map(str::to_owned);
    let body = match content(&mut answer) {
        Content::Empty => Value::Null,
        Content::Json(value, _) => value,
        Content::Text(text) => Value::String(text),
        Content::Bytes(bytes, kind) => Value::String(format!("{} bytes of {kind}", bytes.len())),
    };
    let shown: String = match &body {
        Value::Null => String::new(),
        Value::String(text) => format!(": {}", head(text, MAX_MESSAGE)),
        json => format!(": {}", head(&json.to_string(), MAX_MESSAGE)),
    };
    let mut message = format!("the API answered {status}{}{shown}", reason(status));
    if status == 401 && !missing.is_empty() {
        message.push_str(&format!(" (no credential is configured for {}: set it under `auth`)", missing.join(", ")));
    }
    let mut data = json!({ "status": status, "body": body });
    if let Some(location) = location {
        data["location"] = location.into();
    }
    if let Some(wait) = meta.get(META_KEY).and_then(|it| it.get("retryAfter")) {
        data["retryAfter"] = wait.clone();
    }
    json!({ "isError": true, "content": [{ "type": "text", "text": message }], "structuredContent": data, "_meta": meta })
}

/// Cuts a body to what a failure shows, between two characters.
fn cut(body: &mut Vec<u8>) {
    if body.len() <= MAX_ERROR_BYTES {
        return;
    }
    body.truncate(MAX_ERROR_BYTES);
    if let Some(whole) = std::str::from_utf8(body).err().filter(|error| error.error_len().is_none()) {
        body.truncate(whole.valid_up_to());
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        301 | 302 | 303 | 307 | 308 => {
            " (a redirect, which is followed only within the API and only for requests that read)"
        }
        400 => " Bad Request",
        401 => " Unauthorized",
        403 => " Forbidden",
        404 => " Not Found",
        405 => " Method Not Allowed",
        409 => " Conflict",
        410 => " Gone",
        415 => " Unsupported Media Type",
        422 => " Unprocessable Content",
        429 => " Too Many Requests",
        500 => " Internal Server Error",
        502 => " Bad Gateway",
        503 => " Service Unavailable",
        504 => " Gateway Timeout",
        _ => "",
    }
}

/// What the answer says besides its body.
fn meta(operation: &Operation, answer: &ApiAnswer, url: &Url) -> Map<String, Value> {
    let mut http = Map::from_iter([("status".to_owned(), json!(answer.status))]);
    if let Some(wait) = answer.header("retry-after").map(str::trim) {
        // Seconds as a number; a date as it came.
        let wait = wait.parse::<u32>().map_or_else(|_| json!(wait), |seconds| json!(seconds));
        http.insert("retryAfter".to_owned(), wait);
    }
    let links: Vec<&str> =
        answer.headers.iter().filter(|(name, _)| name == "link").map(|(_, it)| it.as_str()).collect();
    let links = links_of(operation, &links.join(", "), url);
    if !links.is_empty() {
        http.insert("links".to_owned(), Value::Object(links));
    }
    Map::from_iter([(META_KEY.to_owned(), Value::Object(http))])
}

/// The links of a `Link` header by relation: their URL, and the query's arguments of the same operation that lead there.
fn links_of(operation: &Operation, header: &str, url: &Url) -> Map<String, Value> {
    let mut links = Map::new();
    for link in pieces(header, ',').into_iter().take(MAX_LINKS) {
        let Some((target, attributes)) = link.strip_prefix('<').and_then(|it| it.split_once('>')) else {
            continue;
        };
        let (Some(relations), Ok(target)) = (parameter(attributes, "rel"), url.join(target)) else { continue };
        let mut told = Map::from_iter([("url".to_owned(), Value::String(without_secrets(&target, operation)))]);
        if target.origin() == url.origin() && target.path() == url.path() {
            told.insert("arguments".to_owned(), Value::Object(arguments_of(operation, &target)));
        }
        // The first link of a relation counts.
        for relation in relations.split_ascii_whitespace() {
            links.entry(relation).or_insert_with(|| Value::Object(told.clone()));
        }
    }
    links
}

/// What an answer says of the page after it.
pub(crate) enum NextPage {
    /// It names none: the list ends.
    End,
    /// It is within the origin that answered.
    At(Url),
    /// It is in another place, of which this is the origin.
    Elsewhere(String),
}

/// Where the next page is. A link within the origin that answered comes before others.
pub(crate) fn next_page(answer: &ApiAnswer, url: &Url) -> NextPage {
    let headers = answer.headers.iter().filter(|(name, _)| name == "link");
    let mut next = NextPage::End;
    for link in headers.flat_map(|(_, header)| pieces(header, ',')) {
        let Some((target, attributes)) = link.strip_prefix('<').and_then(|it| it.split_once('>')) else { continue };
        let relations = parameter(attributes, "rel").unwrap_or_default();
        if !relations.split_ascii_whitespace().any(|it| it.eq_ignore_ascii_case("next")) {
            continue;
        }
        match url.join(target) {
            Ok(target) if target.origin() == url.origin() => return NextPage::At(target),
            Ok(target) => next = NextPage::Elsewhere(one_line(&place_of(&target), MAX_PLACE_CHARS)),
            Err(_) => next = NextPage::Elsewhere("a place that is no URL".to_owned()),
        }
    }
    next
}

/// Scheme, host and port, without what may be a secret.
fn place_of(target: &Url) -> String {
    match target.origin() {
        origin @ Origin::Tuple(..) => origin.ascii_serialization(),
        Origin::Opaque(_) => format!("{}:{}", target.scheme(), target.host_str().unwrap_or_default()),
    }
}

/// The link with the query parameters that the operation has: others may be a credential that the server repeats.
fn without_secrets(target: &Url, operation: &Operation) -> String {
    let mut shown = target.clone();
    shown.set_query(None);
    let pairs: Vec<(String, String)> =
        target.query_pairs().filter(|(name, _)| is_query(operation, name)).map(|(k, v)| (k.into(), v.into())).collect();
    if !pairs.is_empty() {
        shown.query_pairs_mut().extend_pairs(pairs);
    }
    shown.into()
}

fn is_query(operation: &Operation, name: &str) -> bool {
    operation.plan.parameters.iter().any(|it| it.place == ParameterPlace::Query && it.name == name)
}
