//! Edits of a text, with a mapping from offsets in the result to offsets in the original.
//!
//! Erased text becomes spaces of the same length, so most of a program keeps its offsets. Insertions are recorded, so that
//! every offset of the result maps to the exact offset in the original.

use std::borrow::Cow;

#[derive(Debug)]
enum Change {
    /// Replace with white space; keep line breaks.
    Blank,
    /// Replace with white space on one line, where a line break would end a statement or is not allowed.
    BlankLine,
    /// Replace with a semicolon and white space, where the text before and after would otherwise form one statement.
    BlankStatement,
    /// Replace with other text, followed by the line breaks of the old text.
    Rewrite(Cow<'static, str>),
    /// Replace with other text.
    Replace(Cow<'static, str>),
    /// Replace with a line feed and spaces, for line breaks that interpreters count differently.
    LineFeed,
}

#[derive(Debug)]
struct Edit {
    start: usize,
    end: usize,
    change: Change,
}

/// Edits of one text. An edit inside a range that another edit erases is ignored.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    edits: Vec<Edit>,
}

/// A contiguous part of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    /// Its start in the result.
    to: usize,
    /// Its start in the original.
    from: usize,
    /// Whether it was copied or blanked byte for byte; otherwise all of it maps to one offset.
    verbatim: bool,
}

/// Maps offsets in the result to offsets in the original.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin {
    stretches: Vec<Stretch>,
}

impl Edits {
    pub(crate) fn blank(&mut self, start: u32, end: u32) {
        self.push(start, end, Change::Blank);
    }

    pub(crate) fn blank_line(&mut self, start: u32, end: u32) {
        self.push(start, end, Change::BlankLine);
    }

    pub(crate) fn blank_statement(&mut self, start: u32, end: u32) {
        self.push(start, end, Change::BlankStatement);
    }

    pub(crate) fn replace(&mut self, start: u32, end: u32, text: impl Into<Cow<'static, str>>) {
        self.push(start, end, Change::Replace(text.into()));
    }

    pub(crate) fn rewrite(&mut self, start: u32, end: u32, text: impl Into<Cow<'static, str>>) {
        self.push(start, end, Change::Rewrite(text.into()));
    }

    pub(crate) fn line_feed(&mut self, start: u32, end: u32) {
        self.push(start, end, Change::LineFeed);
    }

    pub(crate) fn insert(&mut self, at: u32, text: impl Into<Cow<'static, str>>) {
        self.replace(at, at, text);
    }

    fn push(&mut self, start: u32, end: u32, change: Change) {
        if start <= end && (start < end || matches!(change, Change::Replace(_) | Change::Rewrite(_))) {
            self.edits.push(Edit { start: start as usize, end: end as usize, change });
        }
    }

    /// Appends `text[start..end]` with the edits to `result`.
    pub(crate) fn apply(mut self, text: &str, start: usize, end: usize, result: &mut String, origin: &mut Origin) {
        // At one offset, insertions come first, in the order in which they were added.
        self.edits.sort_by_key(|edit| (edit.start, edit.start != edit.end));
        let mut at = start;
        for edit in self.edits {
            if edit.start < at || edit.end > end {
                continue;
            }
            origin.copied(result.len(), at);
            result.push_str(text.get(at..edit.start).unwrap_or_default());
            let old = text.get(edit.start..edit.end).unwrap_or_default();
            match edit.change {
                Change::Blank => push_blank(old, true, result),
                Change::BlankLine => push_blank(old, false, result),
                Change::BlankStatement => {
                    result.push(';');
                    // The first character of erased syntax is ASCII, so the semicolon replaces exactly one byte.
                    push_blank(old.get(1..).unwrap_or_default(), true, result);
                }
                Change::LineFeed => {
                    result.push('\n');
                    result.extend(old.bytes().skip(1).map(|_| ' '));
                }
                Change::Replace(new) => {
                    origin.made(result.len(), edit.start);
                    result.push_str(&new);
                }
                Change::Rewrite(new) => {
                    origin.made(result.len(), edit.start);
                    result.push_str(&new);
                    result.extend(old.chars().filter(|c| matches!(c, '\n' | '\r')));
                }
            }
            at = edit.end;
        }
        origin.copied(result.len(), at);
        result.push_str(text.get(at..end).unwrap_or_default());
    }
}

fn push_blank(old: &str, keep_lines: bool, result: &mut String) {
    result.extend(old.bytes().map(|byte| match byte {
        b'\n' | b'\r' if keep_lines => byte as char,
        _ => ' ',
    }));
}

impl Origin {
    fn copied(&mut self, to: usize, from: usize) {
        self.stretches.push(Stretch { to, from, verbatim: true });
    }

    /// Text of the result from `to` on was inserted; all of it maps to `from`.
    pub(crate) fn made(&mut self, to: usize, from: usize) {
        self.stretches.push(Stretch { to, from, verbatim: false });
    }

    /// Shifts all origins so that `old` becomes `new`, and none is beyond `end`.
    pub(crate) fn shift(&mut self, new: usize, old: usize, end: usize) {
        for stretch in &mut self.stretches {
            stretch.from = (stretch.from + new).saturating_sub(old).min(end);
        }
    }

    /// The original offset of an offset in the result.
    pub(crate) fn of(&self, offset: usize) -> Option<usize> {
        let after = self.stretches.partition_point(|stretch| stretch.to <= offset);
        let stretch = self.stretches.get(after.checked_sub(1)?)?;
        Some(if stretch.verbatim { stretch.from + (offset - stretch.to) } else { stretch.from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(text: &str, edits: Edits) -> (String, Origin) {
        let (mut result, mut origin) = (String::new(), Origin::default());
        edits.apply(text, 0, text.len(), &mut result, &mut origin);
        (result, origin)
    }

    #[test]
    fn erased_text_keeps_the_place_of_everything_after_it() {
        let mut edits = Edits::default();
        edits.blank(1, 8);
        let (result, origin) = apply("a: ä\r\nb= 1", edits);
        assert_eq!(result, "a    \r\n = 1");
        assert_eq!(origin.of(9), Some(9));
    }

    #[test]
    fn after_an_insertion_offsets_still_lead_back() {
        let mut edits = Edits::default();
        edits.insert(2, "return ");
        edits.replace(4, 6, "x");
        let (result, origin) = apply("a;b;cd;e", edits);
        assert_eq!(result, "a;return b;x;e");
        assert_eq!(result.find('b').and_then(|at| origin.of(at)), Some(2));
        assert_eq!(result.find('x').and_then(|at| origin.of(at)), Some(4));
        assert_eq!(result.find('e').map(|_| origin.of(13)), Some(Some(7)));
        assert_eq!(origin.of(4), Some(2), "inside the insertion");
    }

    #[test]
    fn a_change_inside_an_erased_range_is_ignored() {
        let mut edits = Edits::default();
        edits.blank_statement(0, 6);
        edits.insert(3, "boom");
        assert_eq!(apply("type A;b", edits).0, ";     ;b");
    }
}
