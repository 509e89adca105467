//! A line of source with a caret under the place in question.

use toolgate_wire::Position;

use super::escape;

/// Characters of a line that are shown, about the place in question.
const WIDTH: usize = 120;

/// Three lines to print under a message, or nothing when the text has no such place.
pub(crate) fn excerpt(code: &str, at: Position) -> Option<String> {
    let line = nth_line(code, at.line)?;
    let column = (at.column as usize).checked_sub(1)?;
    let start = column.saturating_sub(WIDTH / 2);
    let shown = |from: usize, to: usize| {
        let part: String = line.chars().skip(from).take(to.saturating_sub(from)).collect();
        escape::line(&part).replace('\t', " ")
    };
    let before = if start > 0 { format!("…{}", shown(start, column)) } else { shown(0, column) };
    let after = shown(column, start + WIDTH);
    let number = at.line.to_string();
    let margin = " ".repeat(number.len());
    let caret = " ".repeat(before.chars().count());
    Some(format!(" {margin} |\n {number} | {before}{after}\n {margin} | {caret}^"))
}

/// Lines end at LF, CR LF or CR, as positions count them.
fn nth_line(code: &str, number: u32) -> Option<&str> {
    let mut rest = code;
    for _ in 1..number {
        let end = rest.find(['\n', '\r'])?;
        let after = rest.get(end..)?;
        rest = after.strip_prefix("\r\n").or_else(|| after.get(1..))?;
    }
    rest.split(['\n', '\r']).next()
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
    }

    #[test]
    fn lines_end_as_positions_count_them() {
        assert_eq!(check("a\r\nb\rc\nd", 4, 1), "   |\n 4 | d\n   | ^");
    }

    #[test]
    fn a_place_outside_the_text_shows_nothing() {
        assert_eq!(check("a", 2, 1), "nothing");
        assert_eq!(check("a", 1, 0), "nothing");
    }

    #[test]
    fn hazards_are_escaped_and_the_caret_still_fits() {
        assert_eq!(check("\t\u{1b}x", 1, 3), "   |\n 1 |  \\u{1b}x\n   |        ^");
    }

    #[test]
    fn of_a_long_line_only_the_neighbourhood_is_shown() {
        let code = format!("{}!{}", "a".repeat(1_000), "b".repeat(1_000));
        let shown = check(&code, 1, 1_001);
        assert!(shown.lines().all(|line| line.chars().count() < 140), "{shown}");
        assert!(shown.contains("aaa!bbb"));
    }
}
