//! Splits text into sections of paragraph size.
//!
//! A blank line ends a section. Text without blank lines, such as logs, is split into groups of lines, and a line longer
//! than a group is split between words.

use std::ops::Range;

use memchr::{memchr, memrchr};

use super::Matches;
use super::choice::Choice;
use super::terms::Terms;

/// Maximum size of a paragraph in bytes; a longer one is split into groups of lines.
const MAX_PARAGRAPH: usize = 2_000;

/// Maximum size of such a group in bytes.
const MAX_GROUP: usize = 500;

/// The sections that match, if some do and some do not.
pub(super) fn matching(text: &str, terms: &Terms) -> Option<Matches> {
    let mut chosen = Choice::default();
    for section in Sections::of(text) {
        chosen.push(terms.match_in(text.get(section.clone())?), section.len());
    }
    if !chosen.leaves_out() {
        return Some(Matches::nothing_left_out(&chosen));
    }
    // White space between sections is not counted; it may cause one small reallocation.
    let mut out = String::with_capacity(chosen.bytes + chosen.kept * PARAGRAPH.len());
    // The end of the previous section, if it was kept.
    let mut joins = None;
    for (place, section) in Sections::of(text).enumerate() {
        if !chosen.has(place) {
            joins = None;
            continue;
        }
        let between = joins.and_then(|end: usize| text.get(end..section.start));
        out.push_str(between.unwrap_or(if chosen.is_first(place) { "" } else { PARAGRAPH }));
        out.push_str(text.get(section.clone())?);
        joins = Some(section.end);
    }
    Some(Matches { kept: chosen.kept, all: chosen.all, text: out })
}

/// Separator between sections that were not adjacent.
const PARAGRAPH: &str = "\n\n";

/// Iterator over the sections of a text, without blank ones.
struct Sections<'a> {
    text: &'a str,
    /// The offset at which the search for the next paragraph starts.
    at: usize,
    /// The rest of a long paragraph.
    long: Range<usize>,
}

impl<'a> Sections<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, at: 0, long: 0..0 }
    }

    /// The end of the line that starts at `at`, including its line break.
    fn line_end(&self, at: usize) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        memchr(b'\n', rest).map_or(self.text.len(), |found| at + found + 1)
    }

    fn is_unknown(&self, line: Range<usize>) -> bool {
        self.text.get(line).is_none_or(|line| line.trim().is_empty())
    }

    fn paragraph(&mut self) -> Option<Range<usize>> {
        let mut start = None;
        while self.at < self.text.len() {
            let line = self.at..self.line_end(self.at);
            self.at = line.end;
            match (self.is_unknown(line.clone()), start) {
                (true, None) => {}
                (true, Some(start)) => return Some(start..line.start),
                (false, None) => start = Some(line.start),
                (false, Some(_)) => {}
            }
        }
        start.map(|start| start..self.text.len())
    }

    /// Removes the next group from the long paragraph.
    fn group(&mut self) -> Range<usize> {
        let start = self.long.start;
        let most = self.text.floor_char_boundary(start + MAX_GROUP).min(self.long.end);
        let end = if most == self.long.end { most } else { self.cut(start, most) };
        self.long.start = end;
        start..end
    }

    /// The end of a group: after a line, otherwise after a word, otherwise at any character.
    fn cut(&self, start: usize, most: usize) -> usize {
        let piece = self.text.get(start..most).unwrap_or_default();
        let line = memrchr(b'\n', piece.as_bytes()).map(|at| at + 1);
        let word = || piece.rfind(char::is_whitespace).filter(|&space| space > 0);
        line.or_else(word).map_or(most, |end| start + end)
    }

    /// The section without trailing line breaks.
    fn trimmed(&self, section: Range<usize>) -> Range<usize> {
        let kept = self.text.get(section.clone()).map_or(0, |text| text.trim_end_matches(['\n', '\r']).len());
        section.start..section.start + kept
    }
}

impl Iterator for Sections<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let section = if self.long.is_empty() {
                let paragraph = self.paragraph()?;
                if paragraph.len() > MAX_PARAGRAPH {
                    self.long = paragraph;
                    continue;
                }
                paragraph
            } else {
                self.group()
            };
            let section = self.trimmed(section);
            if !section.is_empty() {
                return Some(section);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: &[&str]) {
        let sections: Vec<_> = Sections::of(text).map(|section| &text[section]).collect();
        assert_eq!(sections, expected);
    }

    #[test]
    fn blank_lines_end_a_section() {
        check("", &[]);
        check("\n \n\n", &[]);
        check("a\nb\r\n\r\n  \nc\n", &["a\nb", "c"]);
    }

    #[test]
    fn a_long_paragraph_is_cut_into_groups_of_lines() {
        let text = "0123456789 0123456789 012\n".repeat(100);
        let sections: Vec<_> = Sections::of(&text).collect();
        assert_eq!(sections.len(), 6);
        assert!(sections.iter().all(|section| section.len() <= MAX_GROUP && text[section.clone()].starts_with('0')));
    }

    #[test]
    fn a_long_line_is_cut_between_words() {
        let text = "word ".repeat(1_000);
        let sections: Vec<_> = Sections::of(&text).collect();
        assert!(
            sections.iter().all(|section| section.len() <= MAX_PARAGRAPH && !text[section.clone()].ends_with("wor"))
        );
        assert!(sections.len() > 5);
    }

    proptest! {
        #[test]
        fn sections_are_in_order_and_lose_only_blanks(text in "([a-zé]{1,30}|[ \r]|\n|\n\n|\u{1f600}{700}){0,60}") {
            let mut end = 0;
            for section in Sections::of(&text) {
                prop_assert!(section.start >= end && !section.is_empty());
                prop_assert!(text[end..section.start].trim().is_empty());
                end = section.end;
            }
            prop_assert!(text[end..].trim().is_empty());
        }
    }
}
