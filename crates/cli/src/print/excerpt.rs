//! A line of source with a caret under the place in question, as `plan` draws it, within a frame.

use toolgate_wire::Position;

/// Three lines to print under a message, or nothing when the text has no such place.
pub(crate) fn excerpt(code: &str, at: Position) -> Option<String> {
    let drawn = toolgate_plan::caret(code, at);
    let (line, caret) = drawn.split_once('\n')?;
    let margin = " ".repeat(at.line.to_string().len());
    Some(format!(" {margin} |\n {line}\n {caret}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, line: u32, column: u32) -> String {
        excerpt(code, Position { line, column }).unwrap_or_else(|| "nothing".into())
    }

    #[test]
    fn the_caret_is_under_the_place() {
        assert_eq!(check("a;\nlet b = c;", 2, 9), "   |\n 2 | let b = c;\n   |         ^");
        assert_eq!(check(&"\n".repeat(11), 12, 1), "    |\n 12 | \n    | ^");
    }

    #[test]
    fn a_place_outside_the_text_shows_nothing() {
        assert_eq!(check("a", 2, 1), "nothing");
    }
}
