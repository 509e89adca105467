//! Reads a part of a result: at a key path, in a range of lines, or around the matches of a search.
//!
//! Lines are those of the printed form: indented JSON, or the lines of a string. The size of the answer is limited.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use super::path::KeyPath;
use super::search;
use super::{BadId, Kind, ResultId, Whole};
use crate::{Body, BodyForm, Cut, fit};
use toolgate_json::{LineWindow, Shape, Value, pretty, unquote};
use toolgate_wire::foreign_text::head_bytes;

/// The part to read. Path, lines and search are applied in this order, each to the result of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The value at this path.
    pub path: Option<KeyPath>,
    /// These lines.
    pub lines: Option<LineRange>,
    /// The lines or values that contain this text, ignoring case.
    pub search: Option<String>,
    /// Maximum number of bytes.
    pub max_bytes: usize,
}

impl Default for Reading {
    fn default() -> Self {
        Self { path: None, lines: None, search: None, max_bytes: 200_000 }
    }
}

/// An inclusive range of lines, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    first: usize,
    last: usize,
}

/// The text is not a line range.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a line range: write 10-40, 10- or 10; lines count from 1")]
pub struct BadLines;

impl LineRange {
    /// `None` if the range is empty or begins at 0.
    pub fn new(first: usize, last: usize) -> Option<Self> {
        (1 <= first && first <= last).then_some(Self { first, last })
    }
}

impl FromStr for LineRange {
    type Err = BadLines;

    fn from_str(text: &str) -> Result<Self, BadLines> {
        let number = |digits: &str| digits.trim().parse::<usize>().map_err(|_| BadLines);
        let (first, last) = match text.split_once('-') {
            Some((first, last)) if last.trim().is_empty() => (number(first)?, usize::MAX),
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(text)?, number(text)?),
        };
        // Backwards is the same range.
        Self::new(first.min(last), first.max(last)).ok_or(BadLines)
    }
}

/// Why a result could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    /// The id is malformed.
    #[error(transparent)]
    BadId(#[from] BadId),
    /// There is no result with this id.
    #[error(
        "no result {id}: it may have expired (results are kept for {}) or was removed to make room; run the code again",
        minutes(kept_for)
    )]
    Gone {
        /// The requested id.
        id: ResultId,
        /// How long results are kept.
        kept_for: Duration,
    },
    /// Its file is not what was written.
    #[error("the file of the result {id} is damaged; run the code again")]
    Damaged {
        /// The requested id.
        id: ResultId,
    },
    /// A key path for plain text.
    #[error("the result is plain text, which has no key paths: read it by lines or by search")]
    NotJson,
    /// The path does not exist.
    #[error("no {}: {} {there}", asked.shown(), reached.shown())]
    NoSuchPath {
        /// The requested path.
        asked: KeyPath,
        /// The longest prefix that exists.
        reached: KeyPath,
        /// A description of the value there.
        there: String,
    },
    /// The range begins after the last line.
    #[error("no line {first}: there are {lines} lines")]
    NoSuchLine {
        /// The first requested line.
        first: usize,
        /// The number of lines.
        lines: usize,
    },
    /// The process ends.
    #[error("the result was not read: toolgate is ending")]
    Interrupted,
}

/// What of a request a [`ReadError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadSubject {
    /// The id.
    Id,
    /// The key path.
    Path,
    /// The line range.
    Lines,
    /// Nothing of it.
    Nothing,
}

impl ReadError {
    /// What of the request is wrong.
    pub fn subject(&self) -> ReadSubject {
        match self {
            Self::BadId(_) | Self::Gone { .. } | Self::Damaged { .. } => ReadSubject::Id,
            Self::NotJson | Self::NoSuchPath { .. } => ReadSubject::Path,
            Self::NoSuchLine { .. } => ReadSubject::Lines,
            Self::Interrupted => ReadSubject::Nothing,
        }
    }
}

fn minutes(time: &Duration) -> String {
    let minutes = time.as_secs().div_ceil(60);
    if minutes == 1 { "1 minute".to_owned() } else { format!("{minutes} minutes") }
}

pub(super) fn read(whole: &Whole, reading: &Reading) -> Result<String, ReadError> {
    let body = match &reading.path {
        Some(_) if whole.kind == Kind::Text => return Err(ReadError::NotJson),
        Some(path) => json_body(path.find(Value::of(&whole.text))?),
        None if whole.kind == Kind::Text => Body::new(Cow::Borrowed(&whole.text), BodyForm::Text),
        None => json_body(Cow::Borrowed(&whole.text)),
    };
    let text = match (reading.lines, &reading.search) {
        (None, Some(needle)) => return Ok(search::search(&body, needle, reading.max_bytes)),
        (None, None) => return Ok(fit(&body, reading.max_bytes, Cut::Middle)),
        (Some(range), None) => lines(&body, range, reading.max_bytes)?,
        (Some(range), Some(needle)) => {
            let lines = Body::new(lines(&body, range, MAX_SEARCHED)?.into(), BodyForm::Text);
            search::search_lines(&lines, needle, range.first, reading.max_bytes)
        }
    };
    Ok(text)
}

/// Maximum size of a range of lines that is searched.
const MAX_SEARCHED: usize = 8 * 1024 * 1024;

/// The body of a JSON value: a string is its text, anything else is indented JSON.
fn json_body(json: Cow<'_, str>) -> Body<'_> {
    if Value::of(&json).shape() != Shape::String {
        return Body::new(json, BodyForm::Pretty);
    }
    let text = match json {
        Cow::Borrowed(json) => unquote(Value::of(json).text()),
        Cow::Owned(json) => Cow::Owned(unquote(Value::of(&json).text()).into_owned()),
    };
    Body::new(text, BodyForm::Text)
}

fn lines(body: &Body<'_>, range: LineRange, room: usize) -> Result<String, ReadError> {
    if range.first > body.extent().lines {
        return Err(ReadError::NoSuchLine { first: range.first, lines: body.extent().lines });
    }
    if body.form() == BodyForm::Pretty {
        let mut window = LineWindow::new(range.first, range.last, room);
        pretty(Value::of(body.text()), &mut window);
        return Ok(window.into_text());
    }
    let count = (range.last - range.first).saturating_add(1);
    let mut text = String::new();
    for (place, line) in body.text().split('\n').skip(range.first - 1).take(count).enumerate() {
        let room = room.saturating_sub(text.len());
        text.push_str(if place > 0 && room > 0 { "\n" } else { "" });
        let room = room.saturating_sub(usize::from(place > 0));
        text.push_str(head_bytes(line, room));
        if room < line.len() {
            break;
        }
    }
    Ok(text)
}
