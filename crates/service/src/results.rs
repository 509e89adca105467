//! `GET /v1/results/{id}`: a result that was kept because an answer showed only a part of it.
//!
//! Results belong to their caller: the id of another caller's result is answered like one that does not exist. Without
//! parameters the reply has the whole value; with `path`, `lines` or `search` it has that part as text, as `read_result`
//! gives it over MCP.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde_json::value::RawValue;
use toolgate_output::results::{KeyPath, LineRange, ReadError, ReadSubject, Reading, ResultStore};
use url::form_urlencoded;

use super::body::escaped;
use super::messages::{ResultReply, Whole};
use super::path::Path;
use super::refusal::Refusal;
use super::run::{answer, output_size};
use super::{Caller, HttpService};

/// The longest search text, in bytes.
const MAX_SEARCH: usize = 1_000;

pub(super) async fn read(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let part = Part::parse(&query.unwrap_or_default())?;
    let results = service.runner().results(&caller.scope());
    let results = results.ok_or_else(|| Refusal::NoSuchResult("no results are kept here".to_owned()))?;
    let reply = match part {
        Part { path: None, lines: None, search: None, max_bytes: None } => {
            let asked = id.clone();
            // Reading it as JSON takes as long as its size: in the background too.
            let whole = move |results: &ResultStore| Ok(RawValue::from_string(results.data(&asked)?));
            let value = results.in_background(whole).await.map_err(refused)?.map_err(|_| Refusal::Internal)?;
            ResultReply { result_id: id, value: Some(value), text: None }
        }
        Part { path, lines, search, max_bytes } => {
            let max_bytes = max_bytes.unwrap_or(service.runner().output().max_output_size);
            let (asked, reading) = (id.clone(), Reading { path, lines, search, max_bytes });
            let text = results.in_background(move |results| results.read(&asked, &reading)).await.map_err(refused)?;
            ResultReply { result_id: id, value: None, text: Some(text) }
        }
    };
    answer(&service.budget(&caller), &reply)
}

fn refused(error: ReadError) -> Refusal {
    let message = error.to_string();
    match error.subject() {
        ReadSubject::Id => Refusal::NoSuchResult(message),
        ReadSubject::Path => Refusal::field("/path", message),
        ReadSubject::Lines => Refusal::field("/lines", message),
        ReadSubject::Nothing => Refusal::Internal,
    }
}

/// The requested part of a result.
#[derive(Debug, Default)]
struct Part {
    path: Option<KeyPath>,
    lines: Option<LineRange>,
    search: Option<String>,
    max_bytes: Option<usize>,
}

impl Part {
    /// Reads the query. A parameter that is wrong is named like a field of a body.
    fn parse(query: &str) -> Result<Self, Refusal> {
        let mut part = Part::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty()) {
            match &*name {
                "path" => part.path = Some(parsed("/path", &value)?),
                "lines" => part.lines = Some(parsed("/lines", &value)?),
                "search" if value.len() > MAX_SEARCH => {
                    return Err(Refusal::field("/search", format!("has at most {MAX_SEARCH} bytes")));
                }
                "search" => part.search = Some(value.into_owned()),
                "maxOutputSize" => {
                    let bytes = output_size(Whole(parsed("/maxOutputSize", &value)?))?;
                    part.max_bytes = Some(usize::try_from(bytes).unwrap_or(usize::MAX));
                }
                _ => {
                    let message = "unknown parameter: use path, lines, search or maxOutputSize";
                    return Err(Refusal::field(format!("/{}", escaped(&name)), message));
                }
            }
        }
        Ok(part)
    }
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(pointer: &str, text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|error: T::Err| Refusal::field(pointer, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: &str) {
        let found = match Part::parse(query) {
            Ok(part) => format!("{:?} {:?}", part.search, part.max_bytes),
            Err(Refusal::BadInput { pointer, message }) => format!("{pointer}: {message}"),
            Err(other) => other.to_string(),
        };
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        check("search=a+b%26c&maxOutputSize=300", r#"Some("a b&c") Some(300)"#);
        check("path=&lines=", "None None");
        check("lines=0-3", "/lines: not a line range: write 10-40, 10- or 10; lines count from 1");
        check("maxOutputSize=1", "/maxOutputSize: must be between 256 and 67108864 bytes, got 1");
        check("maxOutputSize=x", "/maxOutputSize: invalid digit found in string");
        check("page=2", "/page: unknown parameter: use path, lines, search or maxOutputSize");
        check(&format!("search={}", "x".repeat(1_001)), "/search: has at most 1000 bytes");
    }
}
