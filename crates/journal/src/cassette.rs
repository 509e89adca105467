//! A record as a file: one JSON object on each line.
//!
//! Each entry is a line with its number (`step`), its time (`at`) and what happened. A long text is a line of its own,
//! `{"blob": HASH, "text": …}`, before the first entry that names it. A reader checks the hashes.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::entry::Entry;
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
    /// A line is not an entry.
    #[error("line {line} is not an entry of a cassette: {fault}")]
    Line {
        /// The line, counted from one.
        line: usize,
        /// What is wrong with it.
        fault: serde_json::Error,
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

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Blob {
        blob: ContentHash,
        text: String,
    },
    Entry {
        step: u64,
        #[serde(flatten)]
        entry: Entry,
    },
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
                put(&Line::Blob { blob: blob.clone(), text: text.to_owned() }, out)?;
            }
        }
        put(&Line::Entry { step: step as u64, entry: entry.clone() }, out)?;
    }
    out.flush()
}

fn put(line: &Line, out: &mut dyn Write) -> io::Result<()> {
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
        match serde_json::from_str(&text).map_err(|fault| NoCassette::Line { line, fault })? {
            Line::Blob { blob, text } => {
                if ContentHash::of(&text) != blob {
                    return Err(NoCassette::Hash { line, hash: blob });
                }
                record.blobs.insert(text);
            }
            Line::Entry { step, entry } => {
                let expected = record.entries.len() as u64;
                if step != expected {
                    return Err(NoCassette::Order { line, step, expected });
                }
                record.entries.push(entry);
            }
        }
    }
    Ok(record)
}
