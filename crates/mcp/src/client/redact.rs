//! Replaces configured secret values in text of a server before people or programs see it.
//!
//! A server's standard error, error replies and error bodies may repeat what it was started with: environment variables,
//! headers, and secrets in its command, its arguments or its URL. A value is replaced by its name in brackets, so that the text
//! still says what it was. Short values are not replaced: `1` and `true` are not secrets, and every other word would be cut to
//! pieces.

use std::collections::BTreeMap;
use std::fmt;

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

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.secrets.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
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
    fn a_credential_is_replaced_without_its_scheme() {
        check(&[("Authorization", "Bearer abcdef123")], "token abcdef123", "token [Authorization]");
    }
}
