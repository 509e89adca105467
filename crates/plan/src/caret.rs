//! Shows a position in the source: its line, with a caret under the column.

use toolgate_wire::foreign_text::is_hazard;
use toolgate_wire::position::{Position, nth_line};

/// Characters of a line that are shown.
const MAX_WIDTH: usize = 120;

/// The line of `position` with its number and a caret under its column, on two lines. Empty when there is no such line.
/// A control character is shown as a dot, and a long line is cut around the column.
pub fn caret(source: &str, position: Position) -> String {
    let Some((_, line)) = nth_line(source, position.line) else { return String::new() };
    let column = (position.column.max(1) as usize - 1).min(line.chars().count());
    let first = column.saturating_sub(MAX_WIDTH * 2 / 3);
    let shown: Vec<char> = line.chars().skip(first).take(MAX_WIDTH).map(printable).collect();
    let number = position.line.to_string();
    let left_cut = if first > 0 { "…" } else { "" };
    let right_cut = if line.chars().nth(first + MAX_WIDTH).is_some() { "…" } else { "" };
    let text: String = shown.iter().collect();
    let padding: String =
        left_cut.chars().chain(shown).take(column - first + left_cut.chars().count()).map(blank).collect();
    format!("{number} | {left_cut}{text}{right_cut}\n{} | {padding}^", " ".repeat(number.len()))
}

fn printable(c: char) -> char {
    if c != '\t' && is_hazard(c) { '·' } else { c }
}

/// White space as wide as a character, so that the caret is under the right column.
fn blank(c: char) -> char {
    match c {
        '\t' => '\t',
        c if is_wide(c) => '\u{3000}',
        _ => ' ',
    }
}

/// Whether a character takes two columns in a terminal, as East Asian scripts and emoji do.
fn is_wide(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}' | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f9ff}' | '\u{20000}'..='\u{3fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, line: u32, column: u32, expected: &str) {
        assert_eq!(caret(source, Position { line, column }), expected);
    }

    #[test]
    fn the_caret_stands_under_the_column() {
        check("a\nlet x = nope()", 2, 9, "2 | let x = nope()\n  |         ^");
        check("x", 1, 1, "1 | x\n  | ^");
    }

    #[test]
    fn tabs_and_wide_characters_keep_their_width() {
        check("\t日x", 1, 3, "1 | \t日x\n  | \t\u{3000}^");
    }

    #[test]
    fn a_place_outside_the_text_is_drawn_in_at_its_edge() {
        check("ab", 1, 99, "1 | ab\n  |   ^");
        check("ab", 1, 0, "1 | ab\n  | ^");
        check("ab", 7, 1, "");
    }

    #[test]
    fn a_terminal_is_told_nothing() {
        check("a\u{1b}[2Jb\u{202e}c", 1, 2, "1 | a·[2Jb·c\n  |  ^");
        check("\u{61c}\u{e0041}\u{9b}x", 1, 4, "1 | ···x\n  |    ^");
    }

    #[test]
    fn lines_end_as_positions_count_them() {
        check("a\r\nb\rc\nd", 4, 1, "4 | d\n  | ^");
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let source = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let shown = caret(&source, Position { line: 1, column: 501 });
        assert!(shown.lines().all(|line| line.chars().count() < 140), "{shown}");
        let mut lines = shown.lines();
        let at = lines.next().and_then(|line| line.chars().position(|c| c == 'X'));
        assert_eq!(at, lines.next().and_then(|line| line.chars().position(|c| c == '^')));
    }
}
