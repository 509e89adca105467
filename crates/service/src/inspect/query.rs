//! Reads the parameters of a query. A wrong one is refused with its name as the pointer, like a field of a body.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use url::form_urlencoded;

use crate::body::escaped;
use crate::refusal::Refusal;

/// The most characters of a value, as the OpenAPI document says.
const MAX_VALUE: usize = 250;

/// The parameters of a query, each at most once; an empty text counts as absent.
#[derive(Debug)]
pub(super) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Reads a query that may have these parameters.
    pub(super) fn parse(query: &'a str, known: &[&str]) -> Result<Self, Refusal> {
        let mut all: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let wrong = |message: String| Refusal::field(format!("/{}", escaped(&name)), message);
            if !known.contains(&&*name) {
                return Err(wrong(match known {
                    [] => "unknown parameter: there are none here".to_owned(),
                    known => format!("unknown parameter: use {}", known.join(", ")),
                }));
            }
            if value.chars().nth(MAX_VALUE).is_some() {
                return Err(wrong(format!("has at most {MAX_VALUE} characters")));
            }
            if all.iter().any(|(before, _)| *before == name) {
                return Err(wrong("is given twice".to_owned()));
            }
            all.push((name, value));
        }
        Ok(Query(all))
    }

    /// The text of a parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.value(name).filter(|text| !text.is_empty())
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// A whole number.
    pub(super) fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.value(name) else { return Ok(None) };
        let (least, most) = (range.start(), range.end());
        let wrong = || Refusal::field(format!("/{name}"), format!("must be a whole number from {least} to {most}"));
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && range.contains(number)).map(Some).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: &str) {
        let read = Query::parse(query, &["limit", "query"]);
        let found =
            match read.and_then(|query| Ok((query.number("limit", 1..=9)?, query.text("query").map(str::to_owned)))) {
                Ok(read) => format!("{read:?}"),
                Err(Refusal::BadInput { pointer, message }) => format!("{pointer}: {message}"),
                Err(other) => other.to_string(),
            };
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        check("limit=3&query=a+b%26", r#"(Some(3), Some("a b&"))"#);
        check("query=", "(None, None)");
        check("limit=", "/limit: must be a whole number from 1 to 9");
        check("limit=0", "/limit: must be a whole number from 1 to 9");
        check("limit=%2B1", "/limit: must be a whole number from 1 to 9");
        check("limit=99999999999999999999999", "/limit: must be a whole number from 1 to 9");
        check("page=1", "/page: unknown parameter: use limit, query");
        check("query=a&query=b", "/query: is given twice");
        check(&format!("query={}", "ä".repeat(251)), "/query: has at most 250 characters");
    }
}
