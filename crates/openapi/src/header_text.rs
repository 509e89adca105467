//! Takes header values apart: `Link`, `Content-Disposition`, `Content-Type`.
//!
//! A separator inside quotes or angle brackets separates nothing. Whatever is malformed is one piece: no value panics or is
//! refused here.

use toolgate_wire::http_text::percent_decode;

/// The pieces between separators, trimmed.
pub(crate) fn pieces(text: &str, separator: char) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let (mut is_quoted, mut is_bracketed, mut is_escaped) = (false, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' if !is_bracketed => is_quoted = !is_quoted,
            '<' if !is_quoted => is_bracketed = true,
            '>' if !is_quoted => is_bracketed = false,
            c if c == separator && !is_quoted && !is_bracketed => {
                found.push(text.get(start..at).unwrap_or_default().trim());
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    found.push(text.get(start..).unwrap_or_default().trim());
    found
}

/// A parameter by its name, without its quotes. With a star after its name it is decoded (RFC 8187) and comes first.
pub(crate) fn parameter(text: &str, name: &str) -> Option<String> {
    let named = |wanted: &str| {
        pieces(text, ';').into_iter().find_map(|piece| {
            let (key, value) = piece.split_once('=')?;
            key.trim().eq_ignore_ascii_case(wanted).then(|| unquoted(value.trim()))
        })
    };
    named(&format!("{name}*")).and_then(|value| extended(&value)).or_else(|| named(name))
}

/// `UTF-8''a%20b.txt`
fn extended(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_language, text) = rest.split_once('\'')?;
    if charset.eq_ignore_ascii_case("utf-8") { percent_decode(text) } else { None }
}

/// Only quotes and backslashes are escaped in real headers; a backslash before anything else is one of a path.
fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|it| it.strip_suffix('"')) else { return text.to_owned() };
    inner.replace("\\\"", "\"").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_or_in_brackets_separates_nothing() {
        assert_eq!(pieces(r#"<a,b>; x="c,d", <e>;y=1"#, ','), [r#"<a,b>; x="c,d""#, "<e>;y=1"]);
        assert_eq!(pieces(r#"x="a\",b",c"#, ','), [r#"x="a\",b""#, "c"]);
        assert_eq!(pieces("", ','), [""]);
    }

    #[test]
    fn parameters_are_found_by_name() {
        let check = |text: &str, name: &str, expected: Option<&str>| {
            assert_eq!(parameter(text, name).as_deref(), expected, "{text}");
        };
        check("attachment; FileName=\"a;b.pdf\"", "filename", Some("a;b.pdf"));
        check("attachment; filename=x; filename*=UTF-8''%e2%82%ac.txt", "filename", Some("€.txt"));
        check("attachment; filename=x; filename*=other''y", "filename", Some("x"));
        check("text/plain;charset=\"ISO-8859-1\"", "charset", Some("ISO-8859-1"));
        check("attachment", "filename", None);
    }

    proptest::proptest! {
        #[test]
        fn no_header_panics(text in "([a-z]{1,3}[*]?=|\"|,|;|<|>|\\\\|'|%|é| ){0,30}") {
            let _ = (pieces(&text, ','), parameter(&text, "a"));
        }
    }
}
