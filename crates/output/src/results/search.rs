//! Searches a result for text, ignoring case.
//!
//! Plain text is searched by line, JSON by scalar and by key; a JSON match is printed with its key path. Time is linear in
//! the text. The number of printed matches is limited; all matches are counted.

use crate::{Body, Kb};
use toolgate_json::{Value, unquote};
use toolgate_wire::foreign_text::one_line;

/// Maximum number of printed matches.
const MAX_MATCHES: usize = 100;

/// Number of bytes of a line or value that are printed around a match.
const CONTEXT: usize = 240;

/// Maximum depth of the walk; deeper containers are searched as text.
const MAX_DEPTH: usize = 256;

/// Maximum length of a printed path.
const MAX_PATH: usize = 400;

/// The matches in a body, at most `room` bytes of them.
pub(super) fn search(body: &Body<'_>, needle: &str, room: usize) -> String {
    let Some(json) = body.json() else { return search_lines(body, needle, 1, room) };
    let mut found = Found::new(needle, room);
    search_json(json, &mut found);
    found.into_text(body.extent().bytes)
}

/// The matching lines; the first line has the number `first`.
pub(super) fn search_lines(body: &Body<'_>, needle: &str, first: usize, room: usize) -> String {
    let mut found = Found::new(needle, room);
    for (place, line) in body.text().split('\n').enumerate() {
        found.look(line, |around| format!("{}: {around}", first + place));
    }
    found.into_text(body.extent().bytes)
}

/// Walks the value with an explicit stack: the remaining entries of every open container, and the path to them.
fn search_json<'a>(root: Value<'a>, found: &mut Found) {
    let mut open = vec![(root.entries(), 0usize)];
    let mut path: Vec<String> = Vec::new();
    if !root.is_container() {
        found.look(root.text(), str::to_owned);
    }
    while let Some((entries, index)) = open.last_mut() {
        let Some(entry) = entries.next() else {
            open.pop();
            path.pop();
            continue;
        };
        let step = entry.key.map_or_else(|| format!("[{index}]"), written);
        *index += 1;
        if let Some(key) = entry.key {
            found.look(&unquote(key), |_| format!("{}: (key)", joined(&path, &step)));
        }
        if entry.value.is_container() && open.len() < MAX_DEPTH {
            open.push((entry.value.entries(), 0));
            path.push(step);
        } else {
            let text = unquote(entry.value.text());
            found.look(&text, |around| format!("{}: {around}", joined(&path, &step)));
        }
    }
}

/// A key as a step of a path.
fn written(key: &str) -> String {
    let name = unquote(key);
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    if plain { format!(".{name}") } else { format!("[{key}]") }
}

fn joined(path: &[String], step: &str) -> String {
    let mut text = String::new();
    for step in path.iter().map(String::as_str).chain([step]) {
        text.push_str(step);
        if text.len() > MAX_PATH {
            text.truncate(text.floor_char_boundary(MAX_PATH));
            return text + "…";
        }
    }
    text.strip_prefix('.').map(str::to_owned).unwrap_or(text)
}

struct Found {
    /// In lower case.
    needle: String,
    asked: String,
    lowered: String,
    lines: String,
    shown: usize,
    all: usize,
    room: usize,
}

/// Most characters of the search text in an answer.
const MAX_ASKED_CHARS: usize = 80;

impl Found {
    fn new(needle: &str, room: usize) -> Self {
        let asked = one_line(needle, MAX_ASKED_CHARS);
        let needle = needle.to_lowercase();
        Self { needle, asked, lowered: String::new(), lines: String::new(), shown: 0, all: 0, room }
    }

    /// Counts a match in `text`, and prints it if there is room.
    fn look(&mut self, text: &str, print: impl FnOnce(&str) -> String) {
        self.lowered.clear();
        self.lowered.extend(text.chars().flat_map(char::to_lowercase));
        let Some(at) = self.lowered.find(&self.needle) else { return };
        self.all += 1;
        if self.shown < MAX_MATCHES {
            let line = print(&around(text, at));
            // Reserve room for the heading and a line break.
            if self.lines.len() + line.len() + 160 <= self.room {
                self.lines.push('\n');
                self.lines.push_str(&line);
                self.shown += 1;
            }
        }
    }

    fn into_text(self, searched: usize) -> String {
        let Self { asked, all, shown, lines, .. } = self;
        let plural = if all == 1 { "" } else { "es" };
        let first = if shown < all { format!(", the first {shown} shown") } else { String::new() };
        let mut text = format!("{all} match{plural} for \"{asked}\" in {}{first}", Kb(searched));
        text.truncate(text.floor_char_boundary(self.room));
        if shown > 0 {
            text.push_str(&lines);
        }
        text
    }
}

/// The text around an offset, on one line.
fn around(text: &str, at: usize) -> String {
    // The offset is in the lower-case text, whose length may differ, so it is approximate.
    let at = at.min(text.len());
    let start = text.floor_char_boundary(at.saturating_sub(CONTEXT / 2));
    let end = text.floor_char_boundary(start.saturating_add(CONTEXT));
    let part = text.get(start..end).unwrap_or_default();
    let mut line = String::from(if start > 0 { "…" } else { "" });
    line.push_str(&one_line(part, CONTEXT));
    line.push_str(if end < text.len() { "…" } else { "" });
    line
}
