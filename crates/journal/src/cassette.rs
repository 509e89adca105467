//! A record as a file: one JSON object on each line.
//!
//! Each entry is a line with its number (`step`), its time (`at`) and what happened. A long text is a line of its own,
//! `{"blob": HASH, "text": …}`, before the first entry that names it. A reader checks the hashes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::entry::{Entry, Event};
use crate::recording::Record;
use crate::text::{ContentHash, Text};

/// Bytes of one line that are read: the largest text, with room for what JSON escapes.
const MAX_LINE: u64 = 2 * 1024 * 1024 * 1024;

/// Why a file is not a cassette.
#[derive(Debug, thiserror::Error)]
pub enum NoCassette {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It has no entries.
    #[error("the file is empty: a cassette begins with a header")]
    Empty,
    /// A line is not an entry.
    #[error("line {line} is not an entry of a cassette: {fault}")]
    Line {
        /// The line, counted from one.
        line: usize,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// A line has another number than its place.
    #[error("line {line} has step {step}, where step {expected} was expected")]
    Order {
        /// The line, counted from one.
        line: usize,
        /// Its number.
        step: u64,
        /// The number of its place.
        expected: u64,
    },
    /// A text does not have the hash under which it is kept.
    #[error("line {line}: the text does not have the hash {hash}")]
    Hash {
        /// The line, counted from one.
        line: usize,
        /// The hash that it should have.
        hash: ContentHash,
    },
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// It is no JSON object, or lacks a member.
    #[error("{said} at column {column}")]
    Text {
        /// What the reader says.
        said: String,
        /// Where it stopped.
        column: usize,
    },
    /// A member has another type or form.
    #[error("`{member}`: {said}")]
    Member {
        /// The names that lead to it, such as `header.version`.
        member: String,
        /// What the reader says.
        said: String,
    },
}

impl LineFault {
    fn text(fault: &serde_json::Error) -> Self {
        LineFault::Text { said: without_place(fault), column: fault.column() }
    }

    fn member(member: String, fault: &serde_json::Error) -> Self {
        LineFault::Member { member, said: without_place(fault) }
    }
}

/// What a reader says without the line, which is always the first: it gets one line at a time.
fn without_place(fault: &serde_json::Error) -> String {
    let said = fault.to_string();
    let place = format!(" at line {} column {}", fault.line(), fault.column());
    said.strip_suffix(&place).unwrap_or(&said).to_owned()
}

#[derive(Serialize, Deserialize)]
struct BlobLine {
    blob: ContentHash,
    text: String,
}

#[derive(Serialize, Deserialize)]
struct EntryLine {
    step: u64,
    #[serde(flatten)]
    entry: Entry,
}

/// Writes a record.
///
/// # Errors
/// If the output fails.
pub fn write(record: &Record, out: &mut dyn Write) -> io::Result<()> {
    let mut written = BTreeSet::new();
    for (step, entry) in record.entries.iter().enumerate() {
        for text in entry.event.texts() {
            if let Text::Blob { blob, .. } = text
                && let Ok(text) = record.blobs.text(text)
                && written.insert(blob.clone())
            {
                put(&BlobLine { blob: blob.clone(), text: text.to_owned() }, out)?;
            }
        }
        put(&EntryLine { step: step as u64, entry: entry.clone() }, out)?;
    }
    out.flush()
}

fn put(line: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Reads a record.
///
/// # Errors
/// If the input is not a cassette.
pub fn read(input: &mut dyn BufRead) -> Result<Record, NoCassette> {
    let mut record = Record::default();
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        if io::Read::take(&mut *input, MAX_LINE).read_line(&mut text)? == 0 {
            break;
        }
        read_line(&text, line, &mut record)?;
    }
    if record.entries.is_empty() { Err(NoCassette::Empty) } else { Ok(record) }
}

fn read_line(text: &str, line: usize, record: &mut Record) -> Result<(), NoCassette> {
    let no_line = |fault: serde_json::Error| NoCassette::Line { line, fault: LineFault::text(&fault) };
    let members: BTreeMap<String, IgnoredAny> = serde_json::from_str(text).map_err(no_line)?;
    if members.contains_key("blob") {
        let BlobLine { blob, text } = serde_json::from_str(text).map_err(no_line)?;
        if ContentHash::of(&text) != blob {
            return Err(NoCassette::Hash { line, hash: blob });
        }
        record.blobs.insert(text);
        return Ok(());
    }
    let read = serde_json::from_str(text).map_err(|fault| NoCassette::Line { line, fault: fault_of(text, &fault) });
    let EntryLine { step, entry } = read?;
    let expected = record.entries.len() as u64;
    if step != expected {
        return Err(NoCassette::Order { line, step, expected });
    }
    record.entries.push(entry);
    Ok(())
}

/// What is wrong with an entry. The line is looked through member by member: an entry has its event beside its own members, and
/// what reads both together loses their names.
fn fault_of(text: &str, fault: &serde_json::Error) -> LineFault {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    let wrong = members.iter().find_map(|(name, value)| {
        let of_member = |fault: serde_json::Error| LineFault::member(name.clone(), &fault);
        match name.as_str() {
            "step" => serde_json::from_str::<u64>(value.get()).err().map(of_member),
            "at" => serde_json::from_str::<f64>(value.get()).err().map(of_member),
            _ => fault_of_event(name, value.get()),
        }
    });
    wrong.unwrap_or_else(|| LineFault::text(fault))
}

/// What is wrong with an event of this name: the member in which its reader stopped, or all of it.
fn fault_of_event(name: &str, value: &str) -> Option<LineFault> {
    let before = format!("{{{}:", serde_json::Value::from(name));
    let fault = serde_json::from_str::<Event>(&format!("{before}{value}}}")).err()?;
    let stopped = fault.column().saturating_sub(before.len());
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(value).unwrap_or_default();
    let member = members.iter().find(|(_, member)| {
        let start = member.get().as_ptr().addr() - value.as_ptr().addr();
        (start..=start + member.get().len()).contains(&stopped)
    });
    let name = member.map_or_else(|| name.to_owned(), |(member, _)| format!("{name}.{member}"));
    Some(LineFault::member(name, &fault))
}
