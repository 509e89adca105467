//! Indents JSON as text.
//!
//! The text is kept as it is, token by token: a number of any length, a lone surrogate, duplicate keys survive, which
//! a parse into values would lose. Indentation is bounded, since a program chooses how deep its result is.

use toolgate_json::{Value, Window, pretty_levels};

/// Maximum length of a text that is indented, in bytes: indentation would multiply it.
const MAX_TEXT: usize = 1024 * 1024;
/// Maximum number of indented levels; deeper values stay on one line.
const MAX_LEVELS: usize = 12;

/// The JSON text with line breaks and two spaces per level.
pub(crate) fn pretty(json: &str) -> String {
    if json.len() > MAX_TEXT {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len() * 2);
    pretty_levels(Value::of(json), MAX_LEVELS, &mut Window::new(0, usize::MAX, &mut out));
    out
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
