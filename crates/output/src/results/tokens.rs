//! The tokens of JSON text in order, for reading a value of any depth in one pass.
//!
//! [`Entries`](toolgate_json::Entries) finds the end of each entry before the entry is looked into, so that a walk down to a
//! depth reads the innermost bytes once for each level. A walk over tokens reads every byte once.

use toolgate_json::scan::{skip_space, skip_string};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// `{`.
    OpenObject,
    /// `[`.
    OpenArray,
    /// `}` or `]`.
    Close,
    /// The name of a member, with its quotes; its value is next.
    Key,
    /// A string, a number, `true`, `false` or `null`.
    Scalar,
}

/// A token and its place in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: &'a str,
}

/// Iterator over the tokens of valid JSON.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { text, at: 0 }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let bytes = self.text.as_bytes();
        let mut start = skip_space(bytes, self.at);
        while let Some(b',' | b':') = bytes.get(start) {
            start = skip_space(bytes, start + 1);
        }
        let (kind, end) = match bytes.get(start)? {
            b'{' => (TokenKind::OpenObject, start + 1),
            b'[' => (TokenKind::OpenArray, start + 1),
            b'}' | b']' => (TokenKind::Close, start + 1),
            b'"' => {
                let end = skip_string(bytes, start).map_or(bytes.len(), |(end, _)| end);
                let is_key = bytes.get(skip_space(bytes, end)) == Some(&b':');
                (if is_key { TokenKind::Key } else { TokenKind::Scalar }, end)
            }
            _ => (TokenKind::Scalar, plain_end(bytes, start)),
        };
        self.at = end;
        Some(Token { kind, start, end, text: self.text.get(start..end)? })
    }
}

/// The end of a number or a word.
fn plain_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\n' | b'\r');
    start + rest.iter().position(ends).unwrap_or(rest.len()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_comes_once_and_a_name_is_told_from_a_string() {
        let json = r#" { "a\"" : [ 1.5e3,"b:", { } , "c" ] ,"d":null } "#;
        let found: Vec<_> = Tokens::of(json).map(|token| (token.kind, token.text)).collect();
        use TokenKind::*;
        let expected = [
            (OpenObject, "{"),
            (Key, r#""a\"""#),
            (OpenArray, "["),
            (Scalar, "1.5e3"),
            (Scalar, r#""b:""#),
            (OpenObject, "{"),
            (Close, "}"),
            (Scalar, r#""c""#),
            (Close, "]"),
            (Key, r#""d""#),
            (Scalar, "null"),
            (Close, "}"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn text_that_is_no_json_ends() {
        for text in ["", "{", "\"abc", "é", "]]", ":,", "[1 é\"", "\\"] {
            assert!(Tokens::of(text).count() <= text.len(), "{text}");
        }
    }
}
