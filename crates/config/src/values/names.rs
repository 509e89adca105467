//! Names and the patterns over them.

use std::fmt;

use serde_json::{Value as Json, json};
use toolgate_plan::words;
pub use toolgate_wire::Pattern as Glob;

use super::Setting;

/// The name of a backend, as the user wrote it: not empty, at most 200 characters, no control characters,
/// no white space at its ends. Whether it is fit for JavaScript is the catalog's affair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendName(String);

impl BackendName {
    const LONGEST: usize = 200;

    /// Takes a name, or says what is wrong with it.
    pub fn new(name: &str) -> Result<Self, String> {
        if name.is_empty() {
            return Err("a server needs a name that is not empty".to_owned());
        }
        if name.chars().count() > Self::LONGEST {
            return Err(format!("a server's name has at most {} characters", Self::LONGEST));
        }
        if name.trim() != name || name.chars().any(char::is_control) {
            return Err("a server's name has no control characters and no white space at its ends".to_owned());
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

/// The name of a configured function: an identifier of JavaScript that hides nothing the sandbox needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionName(String);

impl FunctionName {
    /// Takes a name, or says what is wrong with it.
    pub fn new(name: &str) -> Result<Self, String> {
        let mut letters = name.chars();
        let begins = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '$'));
        if !begins || !letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$')) || name.len() > 100 {
            return Err("a function's name is made of letters, digits, _ and $, does not begin with a digit and has \
                        at most 100 characters"
                .to_owned());
        }
        if name.starts_with("__") || is_taken(name) {
            return Err(format!("{name} means something else in a script"));
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

/// `backend.tool`; where the split is, only the list of backends can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPath(String);

impl ToolPath {
    /// Backend and tool: the longest of `names` that stands before a dot, for names may hold dots themselves.
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
            _ => Err("is not a tool's name such as github.create_issue".to_owned()),
        }
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r"^[^.]+\.[\s\S]+$"})
    }
}

impl Setting for Glob {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is an empty pattern, which fits no name".to_owned());
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
