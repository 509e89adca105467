//! Arguments in the audit log: their digest and, if configured, the arguments with secrets replaced.

use ring::digest::{SHA256, digest as hash};
use serde_json::{Map, Value};

use crate::chain::hexadecimal;
use toolgate_wire::foreign_text::clipped;

/// Characters of one text.
const MAX_TEXT_CHARS: usize = 200;
/// Entries of one list or object.
const MAX_ENTRIES: usize = 50;
/// Levels.
const MAX_DEPTH: usize = 6;
/// Words in the name of a field whose value is not told.
const SECRET_WORDS: [&str; 12] = [
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "authorization",
    "cookie",
    "credential",
    "private",
    "session",
    "bearer",
];

/// The digest of a text: `sha256:` and 64 hexadecimal digits.
pub fn digest(text: &str) -> String {
    format!("sha256:{}", hexadecimal(hash(&SHA256, text.as_bytes()).as_ref()))
}

/// The arguments of a call, bounded and without the values of fields whose names say that they are secret.
pub fn redacted(arguments: &str) -> Value {
    serde_json::from_str(arguments).map_or(Value::Null, |value| shorten(value, MAX_DEPTH))
}

fn shorten(value: Value, depth: usize) -> Value {
    match value {
        Value::String(text) => Value::String(clip(&text)),
        Value::Array(_) | Value::Object(_) if depth == 0 => Value::String("…".to_owned()),
        Value::Array(values) => values.into_iter().take(MAX_ENTRIES).map(|value| shorten(value, depth - 1)).collect(),
        Value::Object(fields) => {
            let told = fields.into_iter().take(MAX_ENTRIES).map(|(name, value)| {
                let value = if is_secret(&name) { Value::String("…".to_owned()) } else { shorten(value, depth - 1) };
                (clip(&name), value)
            });
            Value::Object(told.collect::<Map<_, _>>())
        }
        plain => plain,
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn clip(text: &str) -> String {
    clipped(text, MAX_TEXT_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_and_long_texts_are_not_told() {
        let arguments = json!({
            "to": "ada", "Api-Key": "x", "auth": {"accessToken": 7, "user": "u"}, "list": [1, {"password": ["a"]}],
            "long": "y".repeat(300), "deep": [[[[[[[[1]]]]]]]],
        });
        let told = redacted(&arguments.to_string());
        let expected = json!({
            "to": "ada", "Api-Key": "…", "auth": {"accessToken": "…", "user": "u"}, "list": [1, {"password": "…"}],
            "long": format!("{}…", "y".repeat(200)), "deep": [[[[["…"]]]]],
        });
        assert_eq!(told, expected);
        assert_eq!(redacted("not JSON"), Value::Null);
    }

    #[test]
    fn a_digest_names_its_kind() {
        assert_eq!(digest(""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
