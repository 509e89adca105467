//! Indents or minifies JSON text.
//!
//! The printer walks the text once and sends pieces to a [`Sink`]. A sink may only count, or keep a window of the output,
//! so that the first and last kilobytes of a large value can be printed without memory for the whole.

use super::{Value, plain_end, skip_space, string_end};

/// Maximum number of indented levels; deeper values stay on one line, so that indentation cannot multiply the size of
/// deeply nested input.
const MAX_INDENTED_LEVELS: usize = 100;

/// Receives the printed text.
pub trait Sink {
    /// A piece of the text.
    fn put(&mut self, piece: &str);
    /// A line break and the indentation of the next line.
    fn wrap(&mut self, indent: usize);
    /// Whether the sink needs no more text.
    fn is_full(&self) -> bool {
        false
    }
}

/// Prints with two spaces per level, as `JSON.stringify(value, null, 2)` does. Scalars and keys keep their spelling.
pub fn pretty(value: Value<'_>, sink: &mut impl Sink) {
    pretty_levels(value, MAX_INDENTED_LEVELS, sink);
}

/// As [`pretty`], with at most `levels` indented levels (up to 100); deeper values are printed without white space.
pub fn pretty_levels(value: Value<'_>, levels: usize, sink: &mut impl Sink) {
    let levels = levels.min(MAX_INDENTED_LEVELS);
    let wrap = |sink: &mut _, inside: usize, depth: usize| {
        if inside <= levels {
            Sink::wrap(sink, 2 * depth);
        }
    };
    let text = value.text();
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if sink.is_full() {
            return;
        }
        let mut end = at + 1;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'{' | b'[' => {
                let next = skip_space(bytes, end);
                if matches!(bytes.get(next), Some(b'}' | b']')) {
                    sink.put(if byte == b'{' { "{}" } else { "[]" });
                    end = next + 1;
                } else {
                    sink.put(if byte == b'{' { "{" } else { "[" });
                    depth += 1;
                    wrap(sink, depth, depth);
                }
            }
            b'}' | b']' => {
                wrap(sink, depth, depth.saturating_sub(1));
                depth = depth.saturating_sub(1);
                sink.put(if byte == b'}' { "}" } else { "]" });
            }
            b',' => {
                sink.put(",");
                wrap(sink, depth, depth);
            }
            b':' => sink.put(if depth <= levels { ": " } else { ":" }),
            _ => {
                end = if byte == b'"' { string_end(bytes, at) } else { plain_end(bytes, at).max(end) };
                sink.put(text.get(at..end).unwrap_or_default());
            }
        }
        at = end;
    }
}

/// The value without white space, if it has at most `room` bytes.
pub fn minified(value: Value<'_>, room: usize) -> Option<String> {
    let head = minified_head(value, room.saturating_add(1));
    (head.len() <= room).then_some(head)
}

/// The first `room` bytes of the value without white space.
pub fn minified_head(value: Value<'_>, room: usize) -> String {
    let text = value.text();
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if out.len() >= room {
            break;
        }
        let end = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at = skip_space(bytes, at);
                continue;
            }
            b'"' => string_end(bytes, at),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => at + 1,
            _ => plain_end(bytes, at).max(at + 1),
        };
        let token = text.get(at..end).unwrap_or_default();
        let fits = token.floor_char_boundary(room - out.len());
        out.push_str(token.get(..fits).unwrap_or_default());
        if fits < token.len() {
            break;
        }
        at = end;
    }
    out
}

/// The indentation of a line.
fn spaces(indent: usize) -> &'static str {
    const SPACES: &str = match std::str::from_utf8(&[b' '; 2 * MAX_INDENTED_LEVELS]) {
        Ok(spaces) => spaces,
        Err(_) => "",
    };
    SPACES.get(..indent).unwrap_or(SPACES)
}

/// Counts bytes and line breaks.
#[derive(Default)]
pub struct Measure {
    /// Bytes.
    pub bytes: usize,
    /// Line breaks.
    pub breaks: usize,
}

impl Sink for Measure {
    fn put(&mut self, piece: &str) {
        self.bytes = self.bytes.saturating_add(piece.len());
    }

    fn wrap(&mut self, indent: usize) {
        self.bytes = self.bytes.saturating_add(1 + indent);
        self.breaks += 1;
    }
}

/// Appends a byte range of the text, without characters that are only partly in the range.
pub struct Window<'o> {
    from: usize,
    to: usize,
    at: usize,
    out: &'o mut String,
}

impl<'o> Window<'o> {
    /// Appends the bytes from `from` to `to` to `out`.
    pub fn new(from: usize, to: usize, out: &'o mut String) -> Self {
        Self { from, to, at: 0, out }
    }
}

impl Sink for Window<'_> {
    fn put(&mut self, piece: &str) {
        let end = self.at.saturating_add(piece.len());
        if end > self.from && self.at < self.to {
            let skip = piece.ceil_char_boundary(self.from.saturating_sub(self.at));
            let take = piece.floor_char_boundary(self.to.min(end) - self.at);
            self.out.push_str(piece.get(skip..take).unwrap_or_default());
        }
        self.at = end;
    }

    fn wrap(&mut self, indent: usize) {
        self.put("\n");
        self.put(spaces(indent));
    }

    fn is_full(&self) -> bool {
        self.at >= self.to
    }
}

/// Collects a range of lines, counted from 1, up to a number of bytes.
pub struct LineWindow {
    first: usize,
    last: usize,
    room: usize,
    line: usize,
    kept: String,
}

impl LineWindow {
    /// Collects the lines `first` to `last`, at most `room` bytes of them.
    pub fn new(first: usize, last: usize, room: usize) -> Self {
        Self { first, last, room, line: 1, kept: String::new() }
    }

    /// The collected text.
    pub fn into_text(self) -> String {
        self.kept
    }
}

impl Sink for LineWindow {
    fn put(&mut self, piece: &str) {
        if self.line >= self.first && !self.is_full() {
            let fits = piece.floor_char_boundary(self.room - self.kept.len());
            self.kept.push_str(piece.get(..fits).unwrap_or_default());
            if fits < piece.len() {
                self.room = self.kept.len();
            }
        }
    }

    fn wrap(&mut self, indent: usize) {
        self.line += 1;
        if self.line > self.first && self.line <= self.last {
            self.put("\n");
        }
        self.put(spaces(indent));
    }

    fn is_full(&self) -> bool {
        self.line > self.last || self.kept.len() >= self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(json: &str) -> String {
        let mut text = String::new();
        pretty(Value::of(json), &mut Window::new(0, usize::MAX, &mut text));
        text
    }

    fn check(json: &str, expected: &str) {
        assert_eq!(printed(json), expected);
        let mut measure = Measure::default();
        pretty(Value::of(json), &mut measure);
        assert_eq!((measure.bytes, measure.breaks), (expected.len(), expected.matches('\n').count()));
    }

    #[test]
    fn deeper_levels_stay_on_one_line() {
        let mut text = String::new();
        pretty_levels(Value::of(r#"[[{"a":[1,2]},3]]"#), 1, &mut Window::new(0, usize::MAX, &mut text));
        assert_eq!(text, "[\n  [{\"a\":[1,2]},3]\n]");
    }

    #[test]
    fn layout_is_two_spaces_per_level() {
        check(
            r#"{"b":[1,{"a":null}],"a":{ },"c":[]}"#,
            "{\n  \"b\": [\n    1,\n    {\n      \"a\": null\n    }\n  ],\n  \"a\": {},\n  \"c\": []\n}",
        );
    }

    #[test]
    fn numbers_keep_their_spelling() {
        check("[12345678901234567890,1e21,-0,1.10]", "[\n  12345678901234567890,\n  1e21,\n  -0,\n  1.10\n]");
    }

    #[test]
    fn hostile_nesting_is_not_multiplied() {
        let levels = 100_000;
        let mut measure = Measure::default();
        pretty(Value::of(&("[".repeat(levels) + &"]".repeat(levels))), &mut measure);
        assert!(measure.bytes < 3 * levels, "{}", measure.bytes);
    }

    #[test]
    fn a_window_is_a_part_of_the_whole_at_character_boundaries() {
        let json = r#"{"é":["😀",1]}"#;
        let whole = printed(json);
        for from in 0..=whole.len() {
            for to in from..=whole.len() {
                let mut text = String::new();
                pretty(Value::of(json), &mut Window::new(from, to, &mut text));
                let (start, end) = (whole.ceil_char_boundary(from), whole.floor_char_boundary(to));
                assert_eq!(text, whole.get(start..end).unwrap_or_default());
            }
        }
    }

    #[test]
    fn lines_are_those_of_the_printed_text() {
        let json = r#"{"a":[1,2],"b":3}"#;
        let whole = printed(json);
        for (first, last) in [(1, 1), (2, 4), (5, 99), (7, 9)] {
            let mut window = LineWindow::new(first, last, 1000);
            pretty(Value::of(json), &mut window);
            let expected: Vec<_> = whole.lines().skip(first - 1).take(last + 1 - first).collect();
            assert_eq!(window.into_text(), expected.join("\n"));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn layout_changes_nothing_but_layout(value in crate::samples::json()) {
            let text = value.to_string();
            prop_assert_eq!(printed(&text), serde_json::to_string_pretty(&value).expect("a value"));
            prop_assert_eq!(minified(Value::of(&printed(&text)), usize::MAX), Some(text));
        }
    }
}
