//! Which operations of a document become tools: by tag, by method, by path.
//!
//! A rule is `tag:NAME`, a method (`GET`), a path (`/users/*`), or a method and a path (`GET /users/*`). `*` stands for
//! any text. An operation is taken if a rule of `include` fits it, or there is none, and no rule of `exclude` does.

/// Chooses operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationFilter {
    include: Vec<Rule>,
    exclude: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Tag(String),
    Request { method: Option<String>, path: Option<String> },
}

/// A rule that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` must be tag:NAME, a method such as GET, a path such as /users/*, or both: GET /users/*")]
pub struct BadRule(pub String);

impl OperationFilter {
    /// Reads the rules.
    pub fn new<S: AsRef<str>>(include: &[S], exclude: &[S]) -> Result<Self, BadRule> {
        let all = |rules: &[S]| rules.iter().map(|rule| Rule::parse(rule.as_ref())).collect::<Result<Vec<_>, _>>();
        Ok(Self { include: all(include)?, exclude: all(exclude)? })
    }

    pub(crate) fn takes(&self, method: &str, path: &str, tags: &[&str]) -> bool {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.fits(method, path, tags));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Self, BadRule> {
        let bad = || BadRule(toolgate_wire::foreign_text::clipped(text, 100).into_owned());
        let text = text.trim();
        if let Some(tag) = text.strip_prefix("tag:") {
            return if tag.trim().is_empty() { Err(bad()) } else { Ok(Self::Tag(tag.trim().to_owned())) };
        }
        let (method, path) = match text.split_once(char::is_whitespace) {
            Some((method, path)) => (Some(method), Some(path.trim())),
            None if text.starts_with(['/', '*']) => (None, Some(text)),
            None => (Some(text), None),
        };
        let is_method = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_alphabetic());
        if method.is_some_and(|it| it != "*" && !is_method(it)) || path.is_some_and(|it| !it.starts_with(['/', '*'])) {
            return Err(bad());
        }
        let method = method.filter(|it| *it != "*").map(str::to_ascii_uppercase);
        Ok(Self::Request { method, path: path.map(str::to_owned) })
    }

    fn fits(&self, method: &str, path: &str, tags: &[&str]) -> bool {
        match self {
            Self::Tag(pattern) => tags.iter().any(|tag| matches(pattern, tag)),
            Self::Request { method: only, path: pattern } => {
                only.as_deref().is_none_or(|only| only == method)
                    && pattern.as_deref().is_none_or(|pattern| matches(pattern, path))
            }
        }
    }
}

/// Whether a text fits a pattern in which `*` stands for any text. Linear in the product of both lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(include: &[&str], exclude: &[&str], expected: &str) {
        let filter = OperationFilter::new(include, exclude).unwrap();
        let all = [("GET", "/users/{id}", "people"), ("DELETE", "/users/{id}", "people"), ("GET", "/pets", "pets")];
        let taken = all.iter().filter(|(method, path, tag)| filter.takes(method, path, &[tag]));
        let taken: Vec<String> = taken.map(|(method, path, _)| format!("{method} {path}")).collect();
        assert_eq!(taken.join(", "), expected);
    }

    #[test]
    fn rules_choose_by_tag_method_and_path() {
        check(&[], &[], "GET /users/{id}, DELETE /users/{id}, GET /pets");
        check(&["tag:pe*s"], &[], "GET /pets");
        check(&["get"], &[], "GET /users/{id}, GET /pets");
        check(&["/users/*"], &["DELETE"], "GET /users/{id}");
        check(&["GET /p*"], &[], "GET /pets");
        check(&[], &["* /users/*", "tag:none"], "GET /pets");
        check(&["tag:people", "/pets"], &["/pets"], "GET /users/{id}, DELETE /users/{id}");
    }

    #[test]
    fn a_rule_that_is_none_is_refused() {
        for rule in ["", "tag:", "GET users", "G-T"] {
            assert!(OperationFilter::new(&[rule], &[]).is_err(), "{rule}");
        }
    }
}
