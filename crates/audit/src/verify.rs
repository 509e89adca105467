//! Reads a log again, archives included, and checks its chain.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde_json::Value;

use crate::chain::{BEGINNING, ChainEnd, hash_of};
use crate::reading::{LogFiles, LogLine, lines};

/// A log whose chain holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// How many lines there are.
    pub lines: u64,
    /// The number of the first one: above one if older archives were removed.
    pub first: u64,
    /// The hash of the last line.
    pub head: String,
    /// How many files there are.
    pub files: usize,
    /// Records that were lost, as lines tell.
    pub lost: u64,
    /// Lines that a writer did not finish.
    pub torn: u64,
    /// Whether the expected hash is that of one of the lines; true if none was expected.
    pub has_expected: bool,
}

/// Why a log cannot be relied on.
#[derive(Debug, thiserror::Error)]
pub enum BrokenLog {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// A line does not continue the chain.
    #[error("{}:{line}: {reason}", .file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from one.
        line: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Checks the log of this file and its archives. `expect` is a hash that an earlier check printed.
///
/// # Errors
/// If a file cannot be read, or the chain is broken: the first line that is wrong.
pub fn verify(file: &Path, expect: Option<&str>) -> Result<Verified, BrokenLog> {
    let unreadable = |file: &Path| {
        let file = file.to_owned();
        move |source| BrokenLog::Unreadable { file, source }
    };
    let files = LogFiles::find(file).map_err(unreadable(file))?;
    let count = files.count();
    if count == 0 {
        return Err(unreadable(file)(Errno::NOENT.into()));
    }
    let mut check = Check::new(expect);
    for (path, opened) in files.oldest_first() {
        for (line, number) in lines(opened.map_err(unreadable(&path))?).zip(1..) {
            let wrong = |reason| BrokenLog::Line { file: path.clone(), line: number, reason };
            match line.map_err(unreadable(&path))? {
                LogLine::Whole(line) => check.line(&line).map_err(wrong)?,
                LogLine::TooLong => return Err(wrong("the line is too long")),
                LogLine::Unfinished(line) => check.unfinished(&line),
            }
        }
    }
    Ok(check.done(count))
}

struct Check<'a> {
    expect: Option<&'a str>,
    end: ChainEnd,
    /// A line that is no record: the next one must say that it follows one.
    unreadable: bool,
    verified: Verified,
}

impl<'a> Check<'a> {
    fn new(expect: Option<&'a str>) -> Self {
        let verified = Verified {
            lines: 0,
            first: 0,
            head: BEGINNING.to_owned(),
            files: 0,
            lost: 0,
            torn: 0,
            has_expected: expect.is_none_or(|expect| expect == BEGINNING),
        };
        Check { expect, end: ChainEnd::default(), unreadable: false, verified }
    }

    fn line(&mut self, text: &[u8]) -> Result<(), &'static str> {
        let Some(record) = serde_json::from_slice::<Value>(text).ok().filter(Value::is_object) else {
            if self.unreadable {
                return Err("this line and the one before it are no records");
            }
            self.unreadable = true;
            self.step(text, self.end.seq + 1);
            return Ok(());
        };
        let seq = record.get("seq").and_then(Value::as_u64).ok_or("the line has no number")?;
        let prev = record.get("prev").and_then(Value::as_str).ok_or("the line does not name the one before it")?;
        let is_first = self.verified.lines == 0;
        match is_first {
            true if seq == 1 && prev != BEGINNING => return Err("the first line names one before it"),
            // Archives are removed as a whole, so the oldest line that is left begins its file.
            true if seq != 1 && record.get("begins_file") != Some(&Value::Bool(true)) => {
                return Err("lines before this one were cut off");
            }
            true => self.verified.first = seq,
            false if prev != self.end.hash => return Err("the line before this one was changed, added or removed"),
            false if seq != self.end.seq + 1 => return Err("the numbers of the lines have a gap"),
            false => {}
        }
        if self.unreadable && record.get("after_torn") != Some(&Value::Bool(true)) {
            return Err("the line before this one is no record");
        }
        self.unreadable = false;
        let lost = record.get("lost").and_then(Value::as_u64).unwrap_or_default();
        self.verified.lost = self.verified.lost.saturating_add(lost);
        self.step(text, seq);
        Ok(())
    }

    /// The last line of a file without its end: its writer was killed, and no other has written since.
    fn unfinished(&mut self, text: &[u8]) {
        self.unreadable = true;
        self.step(text, self.end.seq + 1);
    }

    fn step(&mut self, text: &[u8], seq: u64) {
        self.end = ChainEnd { seq, hash: hash_of(text), torn: false, begins_file: false };
        self.verified.lines += 1;
        self.verified.torn += u64::from(self.unreadable);
        self.verified.has_expected |= self.expect == Some(self.end.hash.as_str());
    }

    fn done(self, files: usize) -> Verified {
        Verified { head: self.end.hash, files, ..self.verified }
    }
}
