//! Indents JSON as text.
//!
//! The text is kept as it is, token by token: a number of any length, a lone surrogate, duplicate keys survive, which
//! a parse into values would lose. Indentation is bounded, since a program chooses how deep its result is.

/// Longer texts are left as they are: nobody reads them, and indentation would multiply them.
const MAX_TEXT: usize = 1024 * 1024;
/// Levels that get lines of their own; what is deeper stays on one line.
const MAX_LEVELS: usize = 12;

/// The text with line breaks and two spaces a level. Expects JSON without white space around its tokens.
pub(crate) fn pretty(json: &str) -> String {
    if json.len() > MAX_TEXT {
        return json.to_owned();
    }
    let mut writer = Writer { out: String::with_capacity(json.len() * 2), level: 0 };
    let mut rest = json;
    while let Some(token) = next_token(rest) {
        rest = &rest[token.len()..];
        writer.put(token, rest);
    }
    writer.out
}

/// The next token: a whole string, a bracket or separator, or anything up to the next of these.
fn next_token(text: &str) -> Option<&str> {
    let first = text.chars().next()?;
    let length = match first {
        '"' => string_length(text),
        '{' | '}' | '[' | ']' | ',' | ':' => 1,
        _ => text.find(['{', '}', '[', ']', ',', ':', '"']).unwrap_or(text.len()),
    };
    Some(&text[..length])
}

/// Up to and including the closing quote.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

struct Writer {
    out: String,
    level: usize,
}

impl Writer {
    fn put(&mut self, token: &str, rest: &str) {
        match token {
            "{" | "[" => {
                self.out.push_str(token);
                self.level += 1;
                if !rest.starts_with(['}', ']']) {
                    self.break_line();
                }
            }
            "}" | "]" => {
                let empty = self.out.ends_with(['{', '[']);
                let had_lines = self.level <= MAX_LEVELS;
                self.level = self.level.saturating_sub(1);
                if !empty && had_lines {
                    self.break_line();
                }
                self.out.push_str(token);
            }
            "," => {
                self.out.push(',');
                self.break_line();
            }
            ":" => self.out.push_str(": "),
            other => self.out.push_str(other),
        }
    }

    fn break_line(&mut self) {
        if self.level <= MAX_LEVELS {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n("  ", self.level));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_get_lines_of_their_own() {
        insta::assert_snapshot!(pretty(r#"{"a":[1,{"b":"x"}],"c":{},"d":[],"e":null}"#), @r#"
        {
          "a": [
            1,
            {
              "b": "x"
            }
          ],
          "c": {},
          "d": [],
          "e": null
        }
        "#);
    }

    #[test]
    fn brackets_in_strings_are_text() {
        assert_eq!(pretty(r#""a,{[\"]}:""#), r#""a,{[\"]}:""#);
        assert_eq!(pretty(r#"["[","\\"]"#), "[\n  \"[\",\n  \"\\\\\"\n]");
    }

    #[test]
    fn what_a_parser_would_lose_survives() {
        assert_eq!(pretty(r#"[123456789012345678901234567890,"\ud800"]"#).replace(['\n', ' '], ""), {
            r#"[123456789012345678901234567890,"\ud800"]"#
        });
    }

    #[test]
    fn depth_cannot_multiply_the_output() {
        let levels = 100_000;
        let deep = format!("{}1,2{}", "[".repeat(levels), "]".repeat(levels));
        assert!(pretty(&deep).len() < deep.len() * 2);
    }

    #[test]
    fn only_white_space_is_added() {
        let json = r#"{"k":[[],{},[[1.5e3,-0]],"s p a c e"],"":{"":[true,false,null]}}"#;
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(parse(&pretty(json)), parse(json));
    }
}
