//! The `Bearer` challenge of a `WWW-Authenticate` header: where the metadata is, which scopes are missing, and why.
//!
//! Parsing only; a header of another scheme or without sense is an empty challenge.

use super::transport::printable;
use super::{AuthError, MissingScopes};

/// The most scopes of one challenge.
const MAX_SCOPES: usize = 100;
/// The longest header that is looked at, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;

/// What a server says when it refuses a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The URL of the protected resource metadata.
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub scopes: Vec<String>,
    /// The error, such as `insufficient_scope`.
    pub error: Option<String>,
    /// What the server says of the error, bounded and without control characters.
    pub description: Option<String>,
}

impl Challenge {
    /// Reads the value of a `WWW-Authenticate` header.
    pub fn parse(header: &str) -> Self {
        let mut challenge = Self::default();
        if header.len() > MAX_HEADER_BYTES {
            return challenge;
        }
        let Some(start) = bearer_start(header) else { return challenge };
        let mut rest = header.get(start..).unwrap_or_default();
        while let Some((name, value, after)) = parameter(rest) {
            match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => challenge.resource_metadata = Some(value),
                "scope" => challenge.scopes = scopes_of(&value),
                "error" => challenge.error = Some(value),
                "error_description" => challenge.description = Some(printable(&value)),
                _ => {}
            }
            rest = after;
        }
        challenge
    }

    /// Reads all `WWW-Authenticate` headers of a response: a server may send one for each scheme that it takes.
    pub fn of_headers<'h>(headers: impl IntoIterator<Item = &'h str>) -> Self {
        Self::parse(&headers.into_iter().collect::<Vec<_>>().join(", "))
    }

    /// Whether the token is valid but does not cover the request.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// What the challenge says of the scopes that are missing.
    fn missing(&self) -> MissingScopes {
        if self.scopes.is_empty() { MissingScopes::Unnamed } else { MissingScopes::Named }
    }

    /// What a request lacks that was refused again with a new token: a login, or one for more.
    pub fn into_error(self) -> AuthError {
        match self.is_insufficient_scope() {
            true => AuthError::ScopesRequired { missing: self.missing(), scopes: self.scopes },
            false => AuthError::LoginRequired { scopes: self.scopes },
        }
    }
}

/// The scopes of a list that is separated by spaces, each once.
pub(super) fn scopes_of(text: &str) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for scope in text.split_ascii_whitespace().take(MAX_SCOPES) {
        if !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

/// Where the parameters of the scheme `Bearer` begin.
fn bearer_start(header: &str) -> Option<usize> {
    let lower = header.to_ascii_lowercase();
    let mut from = 0;
    while let Some(found) = lower.get(from..)?.find("bearer") {
        let at = from + found;
        let before = lower.get(..at)?.trim_end();
        let is_start = before.is_empty() || before.ends_with(',');
        let after = at + "bearer".len();
        if is_start && lower.get(after..)?.starts_with([' ', '\t']) {
            return Some(after);
        }
        from = after;
    }
    None
}

/// The next `name=value` or `name="value"`, and what follows it; none where another scheme begins.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let (name, rest) = text.split_once('=')?;
    let name = name.trim_end();
    if name.is_empty() || name.contains([' ', '\t', '"']) {
        return None;
    }
    let rest = rest.trim_start();
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([',', ' ', '\t']).unwrap_or(rest.len());
        return Some((name, rest.get(..end)?.to_owned(), rest.get(end..)?));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((name, value, quoted.get(at + 1..)?)),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, metadata: Option<&str>, scopes: &[&str], error: Option<&str>) {
        let found = Challenge::parse(header);
        let text = |text: &str| text.to_owned();
        let expected = Challenge {
            resource_metadata: metadata.map(text),
            scopes: scopes.iter().map(|scope| text(scope)).collect(),
            error: error.map(text),
            description: None,
        };
        assert_eq!(found, expected, "{header}");
    }

    #[test]
    fn parameters_are_read_in_any_order_and_quoting() {
        check(r#"Bearer resource_metadata="https://a/b", scope="x y x""#, Some("https://a/b"), &["x", "y"], None);
        check("bearer error=insufficient_scope,scope=\"a\\\"b\"", None, &["a\"b"], Some("insufficient_scope"));
        check(r#"Basic realm="Bearer scope", Bearer scope="z""#, None, &["z"], None);
    }

    #[test]
    fn the_bearer_challenge_may_be_in_any_header() {
        let headers = ["Basic realm=\"x\"", "Negotiate", "Bearer error=\"insufficient_scope\", scope=\"z\""];
        let found = Challenge::of_headers(headers);
        assert_eq!((found.scopes.as_slice(), found.is_insufficient_scope()), (["z".to_owned()].as_slice(), true));
        assert_eq!(Challenge::of_headers([]), Challenge::default());
    }

    #[test]
    fn what_is_not_a_bearer_challenge_is_empty() {
        for header in ["", "Bearer", "Basic realm=\"x\"", "Bearer scope=\"open", "BearerX scope=a", &"x".repeat(20_000)]
        {
            check(header, None, &[], None);
        }
    }

    #[test]
    fn the_description_of_an_error_is_bounded_and_harmless() {
        let header =
            format!("Bearer error=invalid_token, error_description=\"bad\u{7} audience {}\"", "x".repeat(9_000));
        let found = Challenge::parse(&header).description.unwrap();
        assert!(found.starts_with("bad\u{fffd} audience x") && found.chars().count() < 1_000, "{found}");
    }

    #[test]
    fn a_refusal_for_want_of_scopes_says_whether_it_names_them() {
        let said = |header: &str| Challenge::parse(header).into_error().to_string();
        assert_eq!(
            said(r#"Bearer error="insufficient_scope", scope="a b""#),
            "the login does not cover this request: another login is needed for a, b"
        );
        assert_eq!(
            said(r#"Bearer error="insufficient_scope""#),
            "the server wants more rights than the login has, and does not say which: another login with more `scopes` in the \
             server's `auth` is needed"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_header_panics(header in "([bB]earer |[a-z]{1,5}=|\"|,|\\\\| |é){0,30}") {
            let _ = Challenge::parse(&header);
        }
    }
}
