//! Makes the request of a call from its arguments.
//!
//! Arguments are foreign text. A value cannot leave its place: in the path it is one segment, in the query one
//! pair, in a header one line. What would leave is refused before anything is sent, and the finished URL is compared
//! with the base once more. Credentials are added last.

use serde_json::{Map, Value};
use url::Url;

use crate::bounds::{MAX_REQUEST_BYTES, MAX_URL_BYTES};
use crate::idempotency;
use crate::multipart;
use crate::operation::{
    Body, BodyForm, BodyKind, Encoding, Field, Operation, Parameter, ParameterPlace, Segment, Style,
};
use crate::security::{Carrier, Requirement, Security, basic};
use crate::transport::ApiRequest;
use toolgate_wire::http_text::percent_decode;

/// Arguments that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// A required argument is absent.
    #[error("the argument `{0}` is missing")]
    Missing(String),
    /// A value that cannot stand where it belongs.
    #[error("the argument `{argument}` {problem}")]
    Unfit {
        /// The argument.
        argument: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The URL would be too long.
    #[error("the URL of the request would be longer than {MAX_URL_BYTES} bytes")]
    UrlTooLong,
    /// The URL would lead elsewhere.
    #[error("the URL of the request would leave the API's base")]
    LeavesBase,
    /// The body would be too large.
    #[error("the body of the request has {0} bytes, but at most {MAX_REQUEST_BYTES} are allowed")]
    BodyTooLarge(usize),
}

pub(crate) fn unfit(argument: &str, problem: impl Into<String>) -> ArgumentError {
    ArgumentError::Unfit { argument: argument.to_owned(), problem: problem.into() }
}

/// Makes the request of one call.
pub(crate) fn request(
    base: &Url,
    security: &Security,
    extra: &[(String, String)],
    operation: &Operation,
    arguments: &Map<String, Value>,
) -> Result<ApiRequest, ArgumentError> {
    let plan = &operation.plan;
    let mut parts = Parts { query: plan.query.iter().cloned().collect(), ..Parts::default() };
    for parameter in plan.parameters.iter().filter(|it| it.place != ParameterPlace::Path) {
        parts.add(parameter, arguments)?;
    }
    let mut path = plan.base_path.clone().unwrap_or_else(|| base.path().trim_end_matches('/').to_owned());
    path.push_str(&path_of(operation, arguments)?);
    let body = plan.body.as_ref().map(|body| encode_body(body, arguments)).transpose()?.flatten();
    let body = body.map(|(media_type, body)| {
        parts.headers.push(("content-type".to_owned(), media_type));
        body
    });
    if let Some(size) = body.as_ref().map(Vec::len).filter(|size| *size > MAX_REQUEST_BYTES) {
        return Err(ArgumentError::BodyTooLarge(size));
    }
    parts.headers.push(("accept".to_owned(), plan.accept.clone()));
    extra.iter().for_each(|(name, value)| parts.set_header(name, value.clone()));
    for (carrier, secret) in security.credentials(&plan.security) {
        parts.attach(carrier, secret);
    }
    let url = url_of(base, &path, &parts.query)?;
    if !parts.cookies.is_empty() {
        parts.headers.push(("cookie".to_owned(), parts.cookies.join("; ")));
    }
    Ok(ApiRequest { method: operation.method.clone(), url, headers: parts.headers, body, made_key: parts.made_key })
}

/// A URL with the credentials of the query in place of whatever stands there.
pub(crate) fn with_query_credentials(mut url: Url, security: &Security, requirement: &Requirement) -> Url {
    let query = url.query().map(str::to_owned).into_iter().collect();
    let mut parts = Parts { query, ..Parts::default() };
    for (carrier, secret) in security.credentials(requirement) {
        if matches!(carrier, Carrier::Query(_)) {
            parts.attach(carrier, secret);
        }
    }
    let query = parts.query.join("&");
    url.set_query(Some(query.as_str()).filter(|query| !query.is_empty()));
    url
}

/// What a request is made of.
#[derive(Default)]
struct Parts {
    query: Vec<String>,
    headers: Vec<(String, String)>,
    cookies: Vec<String>,
    /// The header of an idempotency key that no argument gave.
    made_key: Option<String>,
}

impl Parts {
    fn add(&mut self, parameter: &Parameter, arguments: &Map<String, Value>) -> Result<(), ArgumentError> {
        let argument = &parameter.argument;
        let value = match arguments.get(argument) {
            Some(value) if !value.is_null() => value,
            _ if parameter.required => return Err(ArgumentError::Missing(argument.clone())),
            _ if idempotency::is_key(parameter.place, &parameter.name) => {
                let header = parameter.name.to_ascii_lowercase();
                self.headers.push((header.clone(), idempotency::new_key()));
                self.made_key = Some(header);
                return Ok(());
            }
            _ => return Ok(()),
        };
        match parameter.place {
            ParameterPlace::Path => {}
            ParameterPlace::Query => {
                check_separator(argument, value, parameter.encoding)?;
                self.query.extend(query_pairs(&parameter.name, value, parameter.encoding));
            }
            ParameterPlace::QueryString => self.query.push(query_string(value, parameter.encoding)),
            ParameterPlace::Header => {
                let text = simple(value, parameter.encoding, &str::to_owned);
                check_header(argument, &text)?;
                self.headers.push((parameter.name.to_ascii_lowercase(), text));
            }
            ParameterPlace::Cookie => self.cookies.extend(query_pairs(&parameter.name, value, parameter.encoding)),
        }
        Ok(())
    }

    /// Sets a header in place of one that an argument set.
    fn set_header(&mut self, name: &str, value: String) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_ascii_lowercase(), value));
    }

    /// Adds a credential in place of whatever stands there.
    fn attach(&mut self, carrier: &Carrier, secret: &str) {
        match carrier {
            Carrier::Header(name) => self.set_header(name, secret.to_owned()),
            Carrier::Bearer => self.set_header("authorization", format!("Bearer {secret}")),
            Carrier::Basic => self.set_header("authorization", basic(secret)),
            Carrier::Query(name) => {
                // One entry may have several pairs: a query of the path, or the whole query of 3.2.
                let pairs = self.query.iter().flat_map(|pairs| pairs.split('&'));
                self.query = pairs.filter(|pair| !is_named(pair, name)).map(str::to_owned).collect();
                self.query.push(format!("{}={}", escape(name), escape(secret)));
            }
            Carrier::Cookie(name) => {
                self.cookies.retain(|pair| !is_named(pair, name));
                self.cookies.push(format!("{name}={}", cookie_value(secret)));
            }
        }
    }
}

/// Whether a pair of a query or a cookie has this name, however it is escaped.
fn is_named(pair: &str, name: &str) -> bool {
    let key = pair.split('=').next().unwrap_or_default().trim();
    key == name || percent_decode(key).as_deref() == Some(name)
}

/// A secret as the value of a cookie: as it is where a cookie can have it, because servers compare what they issued.
fn cookie_value(secret: &str) -> String {
    let fits = |byte: u8| matches!(byte, b'!' | b'#'..=b'+' | b'-'..=b':' | b'<'..=b'[' | b']'..=b'~');
    if secret.bytes().all(fits) { secret.to_owned() } else { escape(secret) }
}

fn url_of(base: &Url, path: &str, query: &[String]) -> Result<Url, ArgumentError> {
    let mut url = base.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    let query = query.join("&");
    if !query.is_empty() {
        url.set_query(Some(&query));
    }
    if url.as_str().len() > MAX_URL_BYTES {
        return Err(ArgumentError::UrlTooLong);
    }
    // Parsing removes steps such as `..` and rewrites backslashes: a path that changed is not the one that was meant.
    if url.origin() != base.origin() || url.path().split('/').count() != path.split('/').count().max(2) {
        return Err(ArgumentError::LeavesBase);
    }
    Ok(url)
}

fn path_of(operation: &Operation, arguments: &Map<String, Value>) -> Result<String, ArgumentError> {
    let mut path = String::new();
    for segment in &operation.plan.template {
        match segment {
            Segment::Text(text) => path.push_str(text),
            Segment::Variable(name) => {
                let is_it = |it: &&Parameter| it.place == ParameterPlace::Path && it.name == *name;
                let parameter = operation.plan.parameters.iter().find(is_it);
                let parameter = parameter.ok_or_else(|| ArgumentError::Missing(name.clone()))?;
                path.push_str(&path_value(parameter, arguments)?);
            }
        }
    }
    if !path.starts_with('/') {
        path.insert(0, '/');
    }
    if path.split('/').any(is_step) {
        return Err(ArgumentError::LeavesBase);
    }
    Ok(path)
}

fn path_value(parameter: &Parameter, arguments: &Map<String, Value>) -> Result<String, ArgumentError> {
    let argument = &parameter.argument;
    let value = arguments.get(argument).filter(|value| !value.is_null());
    let value = value.ok_or_else(|| ArgumentError::Missing(argument.clone()))?;
    // A server that decodes `%2F` early would walk up the path.
    let mut is_unfit = false;
    let mut check = |text: &str| {
        is_unfit |= text.chars().any(char::is_control) || text.split(['/', '\\']).any(is_step);
        escape(text)
    };
    let explode = matches!(parameter.encoding, Encoding::Style { explode: true, .. });
    let written = match parameter.encoding {
        Encoding::Json => check(&value.to_string()),
        Encoding::Style { style: Style::Label, .. } => {
            let (separator, parts) = (if explode { "." } else { "," }, parts(value, explode));
            format!(".{}", parts.iter().map(|part| escaped_part(part, &mut check)).collect::<Vec<_>>().join(separator))
        }
        Encoding::Style { style: Style::Matrix, .. } => matrix(&parameter.name, value, explode, &mut check),
        Encoding::Style { .. } => {
            let parts = parts(value, explode);
            parts.iter().map(|part| escaped_part(part, &mut check)).collect::<Vec<_>>().join(",")
        }
    };
    if is_unfit {
        return Err(unfit(argument, "must not contain `.` or `..` as a step of a path, or control characters"));
    }
    if written.is_empty() {
        return Err(unfit(argument, "must not be empty: it is a part of the path"));
    }
    Ok(written)
}

fn matrix(name: &str, value: &Value, explode: bool, check: &mut dyn FnMut(&str) -> String) -> String {
    let name = escape(name);
    let parts = parts(value, explode);
    match (value, explode) {
        (Value::Object(_), true) => parts.iter().map(|part| format!(";{}", escaped_part(part, check))).collect(),
        (Value::Array(_), true) => parts.iter().map(|part| format!(";{name}={}", escaped_part(part, check))).collect(),
        _ => format!(";{name}={}", parts.iter().map(|part| escaped_part(part, check)).collect::<Vec<_>>().join(",")),
    }
}

/// A step of a path that leads to another one.
fn is_step(part: &str) -> bool {
    matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// A piece of a value: text, or a key with its text.
enum Part {
    Text(String),
    Pair(String, String),
}

fn escaped_part(part: &Part, escape: &mut dyn FnMut(&str) -> String) -> String {
    match part {
        Part::Text(text) => escape(text),
        Part::Pair(key, text) => {
            let key = escape(key);
            format!("{key}={}", escape(text))
        }
    }
}

/// The pieces of a value: one of a scalar, the items of a list, the keys and values of an object.
fn parts(value: &Value, explode: bool) -> Vec<Part> {
    match value {
        Value::Array(items) => items.iter().map(|item| Part::Text(text_of(item))).collect(),
        Value::Object(members) if explode => {
            members.iter().map(|(key, value)| Part::Pair(key.clone(), text_of(value))).collect()
        }
        Value::Object(members) => {
            members.iter().flat_map(|(key, value)| [Part::Text(key.clone()), Part::Text(text_of(value))]).collect()
        }
        scalar => vec![Part::Text(text_of(scalar))],
    }
}

/// A scalar as text; a list or an object inside another one as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The simple style, as headers have it.
fn simple(value: &Value, encoding: Encoding, escape: &dyn Fn(&str) -> String) -> String {
    let explode = match encoding {
        Encoding::Json => return value.to_string(),
        Encoding::Style { explode, .. } => explode,
    };
    let parts = parts(value, explode);
    parts.iter().map(|part| escaped_part(part, &mut |text| escape(text))).collect::<Vec<_>>().join(",")
}

/// Styles whose separator is escaped cannot tell it from the same character of an item.
fn check_separator(argument: &str, value: &Value, encoding: Encoding) -> Result<(), ArgumentError> {
    let separator = match encoding {
        Encoding::Style { style: Style::Space, explode: false, .. } => ' ',
        Encoding::Style { style: Style::Pipe, explode: false, .. } => '|',
        Encoding::Style { style: Style::Tab, explode: false, .. } => '\t',
        Encoding::Style { .. } | Encoding::Json => return Ok(()),
    };
    let has_it = |part: &Part| match part {
        Part::Text(text) => text.contains(separator),
        Part::Pair(..) => false,
    };
    if matches!(value, Value::Array(_) | Value::Object(_)) && parts(value, false).iter().any(has_it) {
        return Err(unfit(argument, format!("has an item with {separator:?}, which separates its items")));
    }
    Ok(())
}

/// The pairs of a query or of a form.
fn query_pairs(name: &str, value: &Value, encoding: Encoding) -> Vec<String> {
    let key = escape(name);
    let (style, explode, reserved) = match encoding {
        Encoding::Json => return vec![format!("{key}={}", escape(&value.to_string()))],
        Encoding::Style { style, explode, allow_reserved } => (style, explode, allow_reserved),
    };
    let escape = |text: &str| if reserved { escape_reserved(text) } else { escape(text) };
    let separator = match style {
        Style::Space => "%20",
        Style::Pipe => "%7C",
        Style::Tab => "%09",
        Style::Simple | Style::Label | Style::Matrix | Style::Form | Style::DeepObject => ",",
    };
    match value {
        Value::Object(_) | Value::Array(_) if style == Style::DeepObject => deep(&key, value, &escape),
        Value::Array(items) if explode => {
            items.iter().map(|item| format!("{key}={}", escape(&text_of(item)))).collect()
        }
        Value::Object(members) if explode => {
            members.iter().map(|(key, value)| format!("{}={}", escape(key), escape(&text_of(value)))).collect()
        }
        Value::Array(items) if items.is_empty() => Vec::new(),
        _ => {
            let parts = parts(value, false);
            let texts: Vec<String> = parts.iter().map(|part| escaped_part(part, &mut |text| escape(text))).collect();
            vec![format!("{key}={}", texts.join(separator))]
        }
    }
}

/// `key[name]=value`, as deep as the value is.
fn deep(key: &str, value: &Value, escape: &dyn Fn(&str) -> String) -> Vec<String> {
    match value {
        Value::Object(members) => {
            members.iter().flat_map(|(name, value)| deep(&format!("{key}[{}]", escape(name)), value, escape)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(at, value)| deep(&format!("{key}[{at}]"), value, escape)).collect()
        }
        Value::Null => Vec::new(),
        scalar => vec![format!("{key}={}", escape(&text_of(scalar)))],
    }
}

/// The whole query of 3.2: the pairs of an object, JSON, or text.
fn query_string(value: &Value, encoding: Encoding) -> String {
    match (value, encoding) {
        (_, Encoding::Json) => escape(&value.to_string()),
        (Value::Object(members), _) => {
            let pairs = members.iter().flat_map(|(key, value)| query_pairs(key, value, encoding));
            pairs.collect::<Vec<_>>().join("&")
        }
        // The caller wrote the whole query, so its separators and escapes are meant.
        (other, _) => escape_but(&text_of(other), b"-._~:/?@!$'()*,;&=+%"),
    }
}

/// Percent-encodes everything but letters, digits and `-._~`.
pub(crate) fn escape(text: &str) -> String {
    escape_but(text, b"-._~")
}

/// The same, but keeps reserved characters that cannot end a value of a query.
fn escape_reserved(text: &str) -> String {
    escape_but(text, b"-._~:/?@!$'()*,;")
}

fn escape_but(text: &str, kept: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn check_header(argument: &str, text: &str) -> Result<(), ArgumentError> {
    let is_fit = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
    if text.bytes().all(is_fit) {
        return Ok(());
    }
    Err(unfit(argument, "is a header: line breaks, control characters and non-ASCII text are not allowed"))
}

/// The body with its content type; none if no argument of it is given.
fn encode_body(body: &Body, arguments: &Map<String, Value>) -> Result<Option<(String, Vec<u8>)>, ArgumentError> {
    match &body.form {
        BodyForm::Whole(argument) => {
            let Some(value) = arguments.get(argument) else {
                return if body.required { Err(ArgumentError::Missing(argument.clone())) } else { Ok(None) };
            };
            whole(body, argument, value).map(Some)
        }
        BodyForm::Fields(fields) => {
            let given: Vec<(&Field, &Value)> =
                fields.iter().filter_map(|field| Some((field, arguments.get(&field.argument)?))).collect();
            if given.is_empty() && !body.required {
                return Ok(None);
            }
            match body.kind {
                BodyKind::UrlEncoded => Ok(Some((body.media_type.clone(), url_encoded(&given)))),
                BodyKind::Multipart => multipart::encode(&body.media_type, &given).map(Some),
                BodyKind::Json | BodyKind::Text | BodyKind::Binary => {
                    let object = given.iter().map(|(field, value)| (field.name.clone(), (*value).clone()));
                    let object: Map<String, Value> = object.collect();
                    Ok(Some((body.media_type.clone(), Value::Object(object).to_string().into_bytes())))
                }
            }
        }
    }
}

fn whole(body: &Body, argument: &str, value: &Value) -> Result<(String, Vec<u8>), ArgumentError> {
    let media_type = body.media_type.clone();
    let members = |value: &Value| {
        let members = value.as_object().cloned().ok_or_else(|| unfit(argument, "must be an object"))?;
        let field =
            |name: String| Field { argument: name.clone(), name, encoding: None, content_type: None, is_file: false };
        Ok(members.into_iter().map(|(name, value)| (field(name), value)).collect::<Vec<_>>())
    };
    match body.kind {
        BodyKind::Json => Ok((media_type, value.to_string().into_bytes())),
        BodyKind::Text => Ok((media_type, text_of(value).into_bytes())),
        BodyKind::Binary => {
            let file = multipart::file(argument, value)?;
            let declared = file.media_type.filter(|_| media_type.contains('*'));
            let fallback = if media_type.contains('*') { "application/octet-stream".to_owned() } else { media_type };
            Ok((declared.unwrap_or(fallback), file.bytes))
        }
        BodyKind::UrlEncoded => {
            let members = members(value)?;
            let given: Vec<_> = members.iter().map(|(field, value)| (field, value)).collect();
            Ok((media_type, url_encoded(&given)))
        }
        BodyKind::Multipart => {
            let members = members(value)?;
            let given: Vec<_> = members.iter().map(|(field, value)| (field, value)).collect();
            multipart::encode(&media_type, &given)
        }
    }
}

/// A form. Without an encoding of their own, items of a list are repeated and objects are JSON, as OpenAPI says.
fn url_encoded(given: &[(&Field, &Value)]) -> Vec<u8> {
    let repeated = Encoding::Style { style: Style::Form, explode: true, allow_reserved: false };
    let pairs = given.iter().flat_map(|(field, value)| match (field.encoding, value) {
        (_, Value::Null) => Vec::new(),
        (Some(encoding), value) => query_pairs(&field.name, value, encoding),
        (None, Value::Object(_)) => query_pairs(&field.name, value, Encoding::Json),
        (None, value) => query_pairs(&field.name, value, repeated),
    });
    pairs.collect::<Vec<_>>().join("&").into_bytes()
}
