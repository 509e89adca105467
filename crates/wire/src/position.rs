//! Positions in the user's text, and their conversion from and to byte offsets.
//!
//! Lines and columns start at one, a column is one Unicode code point, and a line ends at LF, CR LF or CR. Code
//! computes with byte offsets; positions are for what people and programs outside see.

use serde::{Deserialize, Serialize};

/// A place in the text that the user sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Line, counted from one.
    pub line: u32,
    /// Column in Unicode code points, counted from one.
    pub column: u32,
}

impl Position {
    /// The position of a byte offset in `text`. An offset past the end, or inside a character, is moved back to the
    /// nearest character start.
    pub fn of_offset(text: &str, offset: usize) -> Self {
        let offset = floor_char_boundary(text, offset);
        let before = text.get(..offset).unwrap_or_default();
        let line_start = last_line_start(before);
        let line = 1 + count_line_ends(before.get(..line_start).unwrap_or_default());
        let column = 1 + before.get(line_start..).unwrap_or_default().chars().count();
        Self { line: clamp(line), column: clamp(column) }
    }

    /// The byte offset of this position in `text`; a column past the end of its line gives the end of the line.
    /// `None` when the text has no such line.
    pub fn offset_in(self, text: &str) -> Option<usize> {
        let (start, line) = nth_line(text, self.line)?;
        let skip = (self.column as usize).checked_sub(1)?;
        let within = line.char_indices().nth(skip).map_or(line.len(), |(at, _)| at);
        Some(start + within)
    }
}

/// The line starts of a text: faster than [`Position::of_offset`] for many positions in one text.
#[derive(Debug)]
pub struct Lines(Vec<usize>);

impl Lines {
    /// Finds the lines of a text.
    pub fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(at, byte)| match byte {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        });
        Self(std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect())
    }

    /// The position of a byte offset in the same text.
    pub fn position(&self, text: &str, offset: usize) -> Position {
        let offset = floor_char_boundary(text, offset);
        let line = self.0.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|index| self.0.get(index)).copied().unwrap_or(0);
        let column = 1 + text.get(start..offset).unwrap_or_default().chars().count();
        Position { line: clamp(line), column: clamp(column) }
    }
}

/// The text of a line (counted from one) without its line end, and the byte offset at which it starts.
pub fn nth_line(text: &str, number: u32) -> Option<(usize, &str)> {
    let mut rest = text;
    let mut start = 0;
    for _ in 1..number {
        let end = line_end(rest)?;
        start += end.1;
        rest = rest.get(end.1..)?;
    }
    let end = line_end(rest).map_or(rest.len(), |(content, _)| content);
    Some((start, rest.get(..end)?))
}

/// Offsets of the end of the first line's content and of the start of the next line.
fn line_end(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|b| matches!(b, b'\n' | b'\r'))?;
    let crlf = bytes.get(at) == Some(&b'\r') && bytes.get(at + 1) == Some(&b'\n');
    Some((at, at + if crlf { 2 } else { 1 }))
}

/// How many lines end inside `text`.
pub fn count_line_ends(text: &str) -> usize {
    let bytes = text.as_bytes();
    let ends = |(at, byte): (usize, &u8)| match byte {
        b'\n' => at == 0 || bytes.get(at - 1) != Some(&b'\r'),
        b'\r' => true,
        _ => false,
    };
    bytes.iter().enumerate().filter(|pair| ends(*pair)).count()
}

fn last_line_start(text: &str) -> usize {
    text.bytes().rposition(|b| matches!(b, b'\n' | b'\r')).map_or(0, |at| at + 1)
}

/// The largest character boundary of `text` that is not above `offset`.
pub fn floor_char_boundary(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn clamp(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, offset: usize, line: u32, column: u32) {
        let expected = Position { line, column };
        assert_eq!(Position::of_offset(text, offset), expected);
        assert_eq!(Lines::of(text).position(text, offset), expected);
    }

    #[test]
    fn lines_and_columns_start_at_one() {
        check("abc", 0, 1, 1);
        check("abc", 2, 1, 3);
        check("", 0, 1, 1);
    }

    #[test]
    fn every_kind_of_line_end_counts_once() {
        check("a\nb", 2, 2, 1);
        check("a\r\nb", 3, 2, 1);
        check("a\rb", 2, 2, 1);
        check("a\r\n\r\nb", 5, 3, 1);
    }

    #[test]
    fn a_column_is_a_code_point() {
        check("é😀x", 6, 1, 3);
        check("é😀x", 4, 1, 2); // inside the emoji
        check("ab", 99, 1, 3);
    }

    #[test]
    fn a_position_finds_its_offset_again() {
        let text = "one\r\ntwö x\n\nlast";
        for (offset, _) in text.char_indices().filter(|(_, c)| !matches!(c, '\n' | '\r')) {
            assert_eq!(Position::of_offset(text, offset).offset_in(text), Some(offset), "offset {offset}");
        }
        assert_eq!(Position { line: 9, column: 1 }.offset_in(text), None);
        assert_eq!(Position { line: 1, column: 0 }.offset_in(text), None);
    }
}
