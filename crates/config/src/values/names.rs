//! Names and the patterns over them.

use std::fmt;

use serde_json::{Value as Json, json};
use toolgate_plan::words;
pub use toolgate_wire::Pattern as Glob;

use super::Setting;

/// The name of a backend as written in the file: 1 to 200 characters, no control characters, no leading or trailing white
/// space. The catalog derives its JavaScript identifier.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendName(String);

impl BackendName {
    const MAX_CHARS: usize = 200;

    /// Validates a name; the error is a message for the user.
    pub fn new(name: &str) -> Result<Self, String> {
        if name.is_empty() {
            return Err("the name of a server must not be empty".to_owned());
        }
        if name.chars().count() > Self::MAX_CHARS {
            return Err(format!("the name of a server must not exceed {} characters", Self::MAX_CHARS));
        }
        if name.trim() != name || name.chars().any(char::is_control) {
            return Err("the name of a server must not contain control characters, nor begin or end with white space"
                .to_owned());
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for BackendName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The name of a configured function: a JavaScript identifier that shadows no global of the sandbox, or such a name after
/// `api.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionName(String);

impl FunctionName {
    /// Validates a name; the error is a message for the user.
    pub fn new(name: &str) -> Result<Self, String> {
        let local = name.strip_prefix("api.").unwrap_or(name);
        let mut letters = local.chars();
        let begins = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '$'));
        if !begins || !letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$')) || name.len() > 100 {
            return Err(
                "the name of a function must consist of at most 100 letters, digits, _ and $, and must not begin \
                        with a digit; it may follow `api.`"
                    .to_owned(),
            );
        }
        let is_member = local.len() < name.len();
        let is_reserved = if is_member { words::is_object_member(local) } else { is_taken(name) };
        if local.starts_with("__") || is_reserved {
            return Err(format!("{name} is a reserved name in scripts"));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_taken(name: &str) -> bool {
    name == "async" || words::is_reserved(name) || words::is_object_member(name) || words::is_sandbox_global(name)
}

/// `backend.tool`. Both may contain dots, so it is split only against the list of backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPath(String);

impl ToolPath {
    /// Splits at the longest of `names` that is followed by a dot.
    pub fn split<'a>(&self, names: impl IntoIterator<Item = &'a BackendName>) -> Option<(&'a BackendName, String)> {
        let fits = names.into_iter().filter_map(|name| {
            let tool = self.0.strip_prefix(name.as_str())?.strip_prefix('.')?;
            (!tool.is_empty()).then_some((name, tool.to_owned()))
        });
        fits.max_by_key(|(name, _)| name.as_str().len())
    }
}

impl Setting for ToolPath {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('.') {
            Some((backend, tool)) if !backend.is_empty() && !tool.is_empty() => Ok(Self(text.to_owned())),
            _ => Err("must be the name of a tool, such as github.create_issue".to_owned()),
        }
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r"^[^.]+\.[\s\S]+$"})
    }
}

impl Setting for Glob {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("must not be an empty pattern".to_owned());
        }
        Ok(Glob::new(text))
    }

    fn schema() -> Json {
        json!({"type": "string", "minLength": 1})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, name: &str, fits: bool) {
        assert_eq!(Glob::parse(pattern).unwrap().matches(name), fits, "{pattern} on {name}");
    }

    #[test]
    fn a_glob_fits_whole_names() {
        check("get_*", "get_issue", true);
        check("get_*", "forget_issue", false);
        check("*_issue", "get_issue", true);
        check("*issue*", "issue", true);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("é*", "éa", true);
        check("*", "", true);
        check("[a]", "a", false);
    }

    #[test]
    fn many_stars_are_not_slow() {
        check(&"a*".repeat(50), &"a".repeat(20_000), true);
        check(&format!("{}b", "a*".repeat(50)), &"a".repeat(20_000), false);
    }

    #[test]
    fn the_longest_backend_name_before_a_dot_wins() {
        let names: Vec<BackendName> = ["a", "a.b"].iter().map(|name| BackendName::new(name).unwrap()).collect();
        let split = ToolPath::parse("a.b.c").unwrap().split(&names).map(|(name, tool)| (name.to_string(), tool));
        assert_eq!(split, Some(("a.b".to_owned(), "c".to_owned())));
    }
}
