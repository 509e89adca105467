//! Searches a result for text, ignoring case.
//!
//! Plain text is searched by line, JSON by scalar and by key; a JSON match is printed with its key path. Time is linear in
//! the text, whatever its depth: JSON is read token by token. The number of printed matches is limited; all matches are
//! counted.

use super::tokens::{TokenKind, Tokens};
use crate::{Body, Kb};
use toolgate_json::scan::MAX_DEPTH as MAX_VALUE_DEPTH;
use toolgate_json::unquote;
use toolgate_wire::foreign_text::one_line;

/// Maximum number of printed matches.
const MAX_MATCHES: usize = 100;

/// Number of bytes of a line or value that are printed around a match.
const CONTEXT: usize = 240;

/// Maximum depth of the walk, which no value of a program exceeds; deeper containers are searched as text.
const MAX_DEPTH: usize = MAX_VALUE_DEPTH as usize;

/// Maximum length of a printed path.
const MAX_PATH: usize = 400;

/// The matches in a body, at most `room` bytes of them.
pub(super) fn search(body: &Body<'_>, needle: &str, room: usize) -> String {
    let Some(json) = body.json() else { return search_lines(body, needle, 1, room) };
    let mut found = Found::new(needle, room);
    search_json(json.text(), &mut found);
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

/// A step of a key path.
#[derive(Clone, Copy)]
enum Step<'a> {
    /// A member's name as written, with quotes.
    Key(&'a str),
    Index(usize),
}

/// The open containers of a walk.
#[derive(Default)]
struct Walk<'a> {
    /// For each the index of its next entry.
    next_indices: Vec<usize>,
    /// The steps to the innermost: one less than there are containers.
    path: Vec<Step<'a>>,
    /// The name of the member whose value is next.
    key: Option<&'a str>,
}

impl<'a> Walk<'a> {
    /// The step to the value that is next; `None` for the root.
    fn step(&mut self) -> Option<Step<'a>> {
        let next = self.next_indices.last_mut()?;
        let index = *next;
        *next += 1;
        Some(self.key.take().map_or(Step::Index(index), Step::Key))
    }

    fn enter(&mut self, step: Option<Step<'a>>) {
        self.path.extend(step);
        self.next_indices.push(0);
    }

    fn leave(&mut self) {
        self.path.pop();
        self.next_indices.pop();
    }

    /// A match in the entry at `step`.
    fn line(&self, step: Option<Step<'a>>, shown: &str) -> String {
        match step {
            Some(step) => format!("{}: {shown}", joined(&self.path, step)),
            None => shown.to_owned(),
        }
    }
}

fn search_json(text: &str, found: &mut Found) {
    let mut walk = Walk::default();
    // The container that is searched as text: its step, its beginning, and how many containers of it are open.
    let mut buried: Option<(Option<Step<'_>>, usize, usize)> = None;
    for token in Tokens::of(text) {
        if let Some((step, start, open)) = &mut buried {
            match token.kind {
                TokenKind::OpenObject | TokenKind::OpenArray => *open += 1,
                TokenKind::Close => *open -= 1,
                TokenKind::Key | TokenKind::Scalar => {}
            }
            if *open == 0 {
                found.look(text.get(*start..token.end).unwrap_or_default(), |around| walk.line(*step, around));
                buried = None;
            }
            continue;
        }
        match token.kind {
            TokenKind::Key => {
                walk.key = Some(token.text);
                found.look(&unquote(token.text), |_| walk.line(Some(Step::Key(token.text)), "(key)"));
            }
            TokenKind::Scalar => {
                let step = walk.step();
                found.look(&unquote(token.text), |around| walk.line(step, around));
            }
            TokenKind::OpenObject | TokenKind::OpenArray => {
                let step = walk.step();
                if walk.next_indices.len() < MAX_DEPTH {
                    walk.enter(step);
                } else {
                    buried = Some((step, token.start, 1));
                }
            }
            TokenKind::Close => walk.leave(),
        }
    }
}

impl Step<'_> {
    /// As it is written in a path.
    fn written(self) -> String {
        match self {
            Self::Index(index) => format!("[{index}]"),
            Self::Key(key) => {
                let name = unquote(key);
                let plain =
                    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
                if plain { format!(".{name}") } else { format!("[{key}]") }
            }
        }
    }
}

fn joined(path: &[Step<'_>], step: Step<'_>) -> String {
    let mut text = String::new();
    for step in path.iter().copied().chain([step]) {
        text.push_str(&step.written());
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
