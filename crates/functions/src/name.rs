//! The name of a host function: `someFn`, or `api.someFn`.
//!
//! Names become globals of the sandbox and path segments of the RPC bridge, so they are ASCII identifiers of at most 64
//! characters that shadow no global of the sandbox. `api` is the only namespace.

use serde::{Serialize, Serializer};
use std::fmt;
use toolgate_plan::words;
use toolgate_wire::foreign_text::clipped;

/// The only namespace.
const NAMESPACE: &str = "api";
/// Maximum length of a name without its namespace.
const MAX_NAME_LENGTH: usize = 64;

/// A valid name of a host function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionName(String);

/// Why a text is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Not an identifier, and not `api.` and an identifier.
    #[error(
        "`{0}` is not a function name: use an ASCII identifier of at most 64 characters, or `api.` and such an identifier"
    )]
    NotAnIdentifier(String),
    /// The name is a reserved word or a global of the sandbox.
    #[error("`{0}` is a reserved word or a global of the sandbox")]
    Reserved(String),
}

impl FunctionName {
    /// Validates a name.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let local = text.strip_prefix("api.").unwrap_or(text);
        if !is_identifier(local) {
            return Err(BadName::NotAnIdentifier(clipped(text, MAX_NAME_LENGTH).into_owned()));
        }
        let reserved = if local.len() == text.len() { is_global(text) } else { is_object_protocol(local) };
        if reserved { Err(BadName::Reserved(text.to_owned())) } else { Ok(Self(text.to_owned())) }
    }

    /// The full name: `httpCall`, `api.fetch`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `api` for a name in that namespace.
    pub fn namespace(&self) -> Option<&'static str> {
        self.0.contains('.').then_some(NAMESPACE)
    }

    /// The name without its namespace.
    pub fn local(&self) -> &str {
        self.0.rsplit('.').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for FunctionName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Whether `text` is an ASCII identifier of at most 64 characters. Reserved words are not excluded.
pub(super) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'$');
    first && text.len() <= MAX_NAME_LENGTH && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$')
}

fn is_global(name: &str) -> bool {
    words::is_reserved(name) || words::is_sandbox_global(name) || MISLEADING.contains(&name) || name.starts_with("__")
}

/// Members that JavaScript looks up implicitly on any object, such as `then`: no function under `api` may have such a name.
fn is_object_protocol(member: &str) -> bool {
    words::is_object_member(member) || member.starts_with("__")
}

/// Names that are no globals of the sandbox but would be misleading as function names.
const MISLEADING: [&str; 5] = ["Bun", "data", "fs", "main", "module"];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match FunctionName::parse(text) {
            Ok(name) => format!("{:?} {}", name.namespace(), name.local()),
            Err(BadName::NotAnIdentifier(_)) => "not an identifier".to_owned(),
            Err(BadName::Reserved(_)) => "reserved".to_owned(),
        };
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn plain_and_namespaced_identifiers_pass() {
        check("addNumbers", "None addNumbers");
        check("$_9", "None $_9");
        check("api.getWeather", "Some(\"api\") getWeather");
        check("api.fetch", "Some(\"api\") fetch");
        check("api.delete", "Some(\"api\") delete");
    }

    #[test]
    fn what_is_no_ascii_identifier_is_refused() {
        let long = "a".repeat(65);
        for text in
            ["", "1a", "a-b", "a b", "é", "a.b", "api.", "api.a.b", "api..a", "api.1", "a\0", "a/b", long.as_str()]
        {
            check(text, "not an identifier");
        }
    }

    #[test]
    fn nothing_of_the_sandbox_can_be_hidden() {
        for text in ["fetch", "console", "api", "context", "eval", "await", "JSON", "process", "__backends", "tools"] {
            check(text, "reserved");
        }
    }

    #[test]
    fn the_api_object_stays_a_plain_object() {
        for text in ["api.then", "api.constructor", "api.__proto__", "api.toJSON"] {
            check(text, "reserved");
        }
    }
}
