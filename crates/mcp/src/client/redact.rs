//! Replaces configured secret values in text of a server before people or programs see it.
//!
//! A server's standard error, error replies and error bodies may repeat what it was started with: environment variables,
//! headers, and secrets in its command, its arguments or its URL. A value is replaced by its name in brackets, so that the text
//! still says what it was. Short values are not replaced: `1` and `true` are not secrets, and every other word would be cut to
//! pieces.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// The shortest value that is taken for a secret, in bytes.
const MIN_SECRET_BYTES: usize = 6;

/// Names and values to replace; values are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redactor {
    /// Longest first, so that a value that contains another is replaced as a whole.
    secrets: Vec<(String, String)>,
}

impl Redactor {
    /// Replaces the values of variables or headers. Of a header with a scheme (`Bearer …`) the credential alone as well.
    pub fn new(values: &BTreeMap<String, String>) -> Self {
        let mut secrets = Vec::new();
        for (name, value) in values {
            let credential = value.split_once(' ').map(|(_, credential)| credential);
            secrets.extend(
                [Some(value.as_str()), credential]
                    .into_iter()
                    .flatten()
                    .map(|part| (name.clone(), part.trim().to_owned())),
            );
        }
        Self::of(secrets)
    }

    /// Replaces these values as well, which have no name.
    #[must_use]
    pub fn and_values<'a>(self, values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut secrets = self.secrets;
        secrets.extend(values.into_iter().map(|value| ("secret".to_owned(), value.to_owned())));
        Self::of(secrets)
    }

    /// Replaces what another one replaces as well.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::of([self.secrets, other.secrets].concat())
    }

    fn of(mut secrets: Vec<(String, String)>) -> Self {
        secrets.retain(|(_, value)| value.len() >= MIN_SECRET_BYTES);
        secrets.sort_by(|one, other| other.1.len().cmp(&one.1.len()).then_with(|| one.cmp(other)));
        Self { secrets }
    }

    /// The text without the values.
    pub fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, (name, value)| {
            if text.contains(value) { text.replace(value, &format!("[{name}]")) } else { text }
        })
    }
}

impl Redactor {
    /// A text that was cut at its end: a value of which the cut left only the beginning is not shown either.
    pub fn redact_cut(&self, text: &str) -> String {
        let mut text = self.redact(text);
        let longest = self.secrets.iter().filter_map(|(_, value)| cut_part(&text, value)).max();
        text.truncate(text.len() - longest.unwrap_or_default());
        text
    }

    /// The JSON without the values, which may be in any text, key or number of it.
    pub fn redact_json(&self, json: Value) -> Value {
        if self.secrets.is_empty() {
            return json;
        }
        match json {
            Value::String(text) => Value::String(self.redact(&text)),
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.redact_json(item)).collect()),
            Value::Object(members) => Value::Object(
                members.into_iter().map(|(key, member)| (self.redact(&key), self.redact_json(member))).collect(),
            ),
            Value::Number(number) => {
                let shown = number.to_string();
                let redacted = self.redact(&shown);
                if redacted == shown { Value::Number(number) } else { Value::String(redacted) }
            }
            Value::Null | Value::Bool(_) => json,
        }
    }
}

/// How many bytes at the end of a text are the beginning of this value, if they give away a part of it.
fn cut_part(text: &str, value: &str) -> Option<usize> {
    let lengths = (MIN_SECRET_BYTES..value.len()).rev();
    lengths.filter(|&length| value.is_char_boundary(length)).find(|&length| text.ends_with(&value[..length]))
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.secrets.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(values: &[(&str, &str)], text: &str, expected: &str) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let redactor = Redactor::new(&values);
        assert_eq!(redactor.redact(text), expected);
        assert!(!values.values().any(|value| value.len() > 5 && format!("{redactor:?}").contains(value)));
    }

    #[test]
    fn a_value_is_replaced_by_its_name() {
        check(&[("TOKEN", "s3cr3t-value")], "bad token s3cr3t-value!", "bad token [TOKEN]!");
    }

    #[test]
    fn a_short_value_is_not_a_secret() {
        check(&[("DEBUG", "true")], "true", "true");
    }

    #[test]
    fn a_value_that_contains_another_is_replaced_as_a_whole() {
        check(&[("A", "abcdef"), ("B", "abcdefghi")], "abcdefghi abcdef", "[B] [A]");
    }

    #[test]
    fn a_value_without_a_name_is_replaced_too() {
        let redactor =
            Redactor::new(&[("TOKEN".to_owned(), "abcdefghi".to_owned())].into()).and_values(["defghi", "x"]);
        assert_eq!(redactor.redact("abcdefghi defghi x"), "[TOKEN] [secret] x");
    }

    #[test]
    fn a_value_is_replaced_anywhere_in_json() {
        let values = [("TOKEN", "s3cr3t-value"), ("PIN", "12345678")];
        let redactor = Redactor::new(&values.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let json = json!({ "a": ["x s3cr3t-value", { "s3cr3t-value": 12_345_678 }], "b": null, "c": 5, "d": true });
        let expected = json!({ "a": ["x [TOKEN]", { "[TOKEN]": "[PIN]" }], "b": null, "c": 5, "d": true });
        assert_eq!(redactor.redact_json(json), expected);
    }

    #[test]
    fn the_beginning_of_a_value_is_not_shown_where_a_text_was_cut() {
        let redactor = Redactor::default().and_values(["s3cr3t-value"]);
        assert_eq!(redactor.redact_cut("bad s3cr3t-value, s3cr3t-va"), "bad [secret], ");
        assert_eq!(redactor.redact_cut("bad s3c"), "bad s3c", "too short to tell");
    }

    #[test]
    fn a_credential_is_replaced_without_its_scheme() {
        check(&[("Authorization", "Bearer abcdef123")], "token abcdef123", "token [Authorization]");
    }
}
