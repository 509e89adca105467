//! Makes the request of a call from its arguments.
//!
//! Arguments are foreign text. A value cannot leave its place: in the path it is one segment, in the query one
//! pair, in a header one line. What would leave is refused before anything is sent, and the finished URL is compared
//! with the base once more. Credentials are added last.

use std::collections::HashMap;

use serde_json::{Map, Value};
use url::Url;

use crate::bounds::{MAX_REQUEST_BYTES, MAX_URL_BYTES};
use crate::idempotency;
use crate::multipart;
use crate::operation::{
    Body, BodyForm, BodyKind, Encoding, Field, Operation, Parameter, ParameterPlace, Segment, Style,
};
use crate::security::{Carrier, Requirement, Security, basic, is_token};
use crate::style::{
    Escaping, check_separator, escape, escape_but, joined, named_texts, query_pairs, text_of, with_decoded_triples,
};
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
                check_separator(argument, value, parameter.encoding, Escaping::All)?;
                self.query.extend(query_pairs(&parameter.name, value, parameter.encoding));
            }
            ParameterPlace::QueryString => self.query.extend(query_string(parameter, value)?),
            ParameterPlace::Header => {
                check_separator(argument, value, parameter.encoding, Escaping::Off)?;
                let text = header_text(value, parameter.encoding);
                check_header(argument, &text)?;
                self.headers.push((parameter.name.to_ascii_lowercase(), text));
            }
            ParameterPlace::Cookie => self.cookies.extend(cookie_pairs(parameter, value)?),
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
    check_separator(argument, value, parameter.encoding, Escaping::All)?;
    let (style, explode, escaping) = match parameter.encoding {
        Encoding::Json => (None, false, Escaping::All),
        Encoding::Style { style, explode, allow_reserved } => (Some(style), explode, Escaping::in_path(allow_reserved)),
    };
    let mut is_unfit = false;
    let mut write = |text: &str| {
        // A server that decodes `%2F` early would walk up the path.
        is_unfit |= leads_elsewhere(text);
        is_unfit |= matches!(escaping, Escaping::Reserved(_)) && leads_elsewhere(&with_decoded_triples(text));
        escaping.text(text)
    };
    let written = match style {
        None => write(&value.to_string()),
        Some(Style::Label) => format!(".{}", joined(value, explode, if explode { "." } else { "," }, &mut write)),
        Some(Style::Matrix) => matrix(&parameter.name, value, explode, &mut write),
        Some(style) => joined(value, explode, &escaping.separator(style), &mut write),
    };
    if is_unfit {
        return Err(unfit(argument, "must not contain `.` or `..` as a step of a path, or control characters"));
    }
    if written.is_empty() {
        return Err(unfit(argument, "must not be empty: it is a part of the path"));
    }
    Ok(written)
}

/// `;name=text`, and `;name` for an empty text.
fn matrix(name: &str, value: &Value, explode: bool, write: &mut dyn FnMut(&str) -> String) -> String {
    let name = escape(name);
    let named = |name: &str, text: String| if text.is_empty() { format!(";{name}") } else { format!(";{name}={text}") };
    match value {
        Value::Object(members) if explode => members
            .iter()
            .map(|(key, value)| {
                let key = write(key);
                named(&key, write(&text_of(value)))
            })
            .collect(),
        Value::Array(items) if explode => items.iter().map(|item| named(&name, write(&text_of(item)))).collect(),
        _ => named(&name, joined(value, false, ",", write)),
    }
}

/// Whether a text, as a part of a path, has a step that leads to another one, or control characters.
fn leads_elsewhere(text: &str) -> bool {
    text.chars().any(char::is_control) || text.split(['/', '\\']).any(is_step)
}

/// A step of a path that leads to another one.
fn is_step(part: &str) -> bool {
    matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// The whole query of 3.2: the pairs of an object as those of a form, JSON, or text.
fn query_string(parameter: &Parameter, value: &Value) -> Result<Vec<String>, ArgumentError> {
    match (value, parameter.encoding) {
        (_, Encoding::Json) => Ok(vec![escape(&value.to_string())]),
        (Value::Object(members), _) => form_pairs(&as_fields(&parameter.argument, &parameter.fields, members)),
        // The caller wrote the whole query, so its separators and escapes are meant.
        (other, _) => {
            let query = escape_but(&text_of(other), b":/?@!$'()*,;&=+%");
            Ok(Some(query).filter(|query| !query.is_empty()).into_iter().collect())
        }
    }
}

fn header_text(value: &Value, encoding: Encoding) -> String {
    match encoding {
        Encoding::Json => value.to_string(),
        Encoding::Style { style, explode, .. } => {
            joined(value, explode, &Escaping::Off.separator(style), &mut str::to_owned)
        }
    }
}

fn cookie_pairs(parameter: &Parameter, value: &Value) -> Result<Vec<String>, ArgumentError> {
    let (style, explode, escaping) = match parameter.encoding {
        Encoding::Json => return Ok(query_pairs(&parameter.name, value, Encoding::Json)),
        // 3.2: the caller escapes what needs it, as the server expects.
        Encoding::Style { style: Style::Cookie, explode, .. } => (Style::Cookie, explode, Escaping::Off),
        Encoding::Style { style, explode, allow_reserved } => (style, explode, Escaping::in_cookie(allow_reserved)),
    };
    check_separator(&parameter.argument, value, parameter.encoding, escaping)?;
    let texts = named_texts(&parameter.name, value, style, explode, escaping);
    if escaping == Escaping::Off && !texts.iter().all(|(name, text)| is_token(name) && fits_cookie(text)) {
        let problem = "is a cookie: `;`, control characters and non-ASCII text must be escaped by the caller";
        return Err(unfit(&parameter.argument, problem));
    }
    Ok(texts.into_iter().map(|(name, text)| format!("{name}={text}")).collect())
}

/// Whether a text stays in its cookie and in its header.
fn fits_cookie(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b';')
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
        BodyForm::Whole { argument, fields } => {
            let Some(value) = arguments.get(argument) else {
                return if body.required { Err(ArgumentError::Missing(argument.clone())) } else { Ok(None) };
            };
            whole(body, argument, fields, value).map(Some)
        }
        BodyForm::Fields(fields) => {
            let given = fields.iter().filter_map(|field| Some((field.clone(), arguments.get(&field.argument)?)));
            let given: Vec<(Field, &Value)> = given.collect();
            if given.is_empty() && !body.required {
                return Ok(None);
            }
            match body.kind {
                BodyKind::UrlEncoded | BodyKind::Multipart => form(body, &given).map(Some),
                BodyKind::Json | BodyKind::Text | BodyKind::Binary => {
                    let object = given.into_iter().map(|(field, value)| (field.name, value.clone()));
                    let object: Map<String, Value> = object.collect();
                    Ok(Some((body.media_type.clone(), Value::Object(object).to_string().into_bytes())))
                }
            }
        }
    }
}

fn whole(body: &Body, argument: &str, fields: &[Field], value: &Value) -> Result<(String, Vec<u8>), ArgumentError> {
    let media_type = body.media_type.clone();
    match body.kind {
        BodyKind::Json => Ok((media_type, value.to_string().into_bytes())),
        BodyKind::Text => Ok((media_type, text_of(value).into_bytes())),
        BodyKind::Binary => {
            let file = multipart::file(argument, value)?;
            let declared = file.media_type.filter(|_| media_type.contains('*'));
            let fallback = if media_type.contains('*') { "application/octet-stream".to_owned() } else { media_type };
            Ok((declared.unwrap_or(fallback), file.bytes))
        }
        BodyKind::UrlEncoded | BodyKind::Multipart => {
            let members = value.as_object().ok_or_else(|| unfit(argument, "must be an object"))?;
            form(body, &as_fields(argument, fields, members))
        }
    }
}

/// The members of an object as fields: as the document describes those that it does.
fn as_fields<'v>(argument: &str, described: &[Field], members: &'v Map<String, Value>) -> Vec<(Field, &'v Value)> {
    let described: HashMap<&str, &Field> = described.iter().map(|field| (field.name.as_str(), field)).collect();
    let field = |name: &String| {
        let field = described.get(name.as_str()).map(|field| (*field).clone());
        let field = field.unwrap_or_else(|| Field { name: name.clone(), ..Field::default() });
        Field { argument: format!("{argument}.{name}"), ..field }
    };
    members.iter().map(|(name, value)| (field(name), value)).collect()
}

fn form(body: &Body, given: &[(Field, &Value)]) -> Result<(String, Vec<u8>), ArgumentError> {
    match body.kind {
        BodyKind::Multipart => multipart::encode(&body.media_type, given),
        _ => Ok((body.media_type.clone(), form_pairs(given)?.join("&").into_bytes())),
    }
}

/// The pairs of a form. Without an encoding of their own, items of a list are repeated and objects are JSON, as OpenAPI
/// says.
fn form_pairs(given: &[(Field, &Value)]) -> Result<Vec<String>, ArgumentError> {
    let repeated = Encoding::Style { style: Style::Form, explode: true, allow_reserved: false };
    let mut pairs = Vec::new();
    for (field, value) in given {
        let encoding = match (field.encoding, value) {
            (_, Value::Null) => continue,
            (Some(encoding), _) => encoding,
            (None, Value::Object(_)) => Encoding::Json,
            (None, _) => repeated,
        };
        check_separator(&field.argument, value, encoding, Escaping::All)?;
        pairs.extend(query_pairs(&field.name, value, encoding));
    }
    Ok(pairs)
}
