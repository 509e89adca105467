//! Reads a program or data from a file, standard input or the command line, never more than can be used.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::str::Utf8Error;

use toolgate_wire::Limit;

use crate::commands::Usage;
use crate::print::escape;

/// Bytes of the longest program there can be: its characters, each as long as a character gets.
const MAX_CODE: u64 = 4 * Limit::Code.spec().max;

/// Where a text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Stdin,
    File(PathBuf),
    /// The text itself.
    CommandLine(String),
}

/// The name to show in messages, safe for a terminal.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Stdin => f.write_str("stdin"),
            Source::File(path) => f.write_str(&escape::text(&path.to_string_lossy())),
            Source::CommandLine(_) => f.write_str("command line"),
        }
    }
}

impl Source {
    /// A program's text.
    pub(crate) fn code(&self) -> Result<String, Usage> {
        let bytes = self.read(MAX_CODE, "no program is that long")?;
        let text = String::from_utf8(bytes)
            .map_err(|error| Usage(format!("{self} is not UTF-8 text: {}", error.utf8_error())))?;
        if *self == Source::Stdin && text.trim().is_empty() {
            return Err(Usage("nothing came on standard input: there is no program to run".into()));
        }
        Ok(text)
    }

    /// What should be JSON text, as far as it is text; the lines of a file of JSON lines as a list. `max` is the run's memory:
    /// more could not be held.
    pub(crate) fn data(&self, max: u64) -> Result<Result<String, Utf8Error>, Usage> {
        let bytes = self.read(max, "the run's memory has no room for it; --memory gives more")?;
        let text = String::from_utf8(bytes).map_err(|error| error.utf8_error());
        Ok(if self.has_lines() { text.map(|lines| list_of(&lines)) } else { text })
    }

    /// Whether it is a file with a value on each line, as `toolgate.data` tells it.
    fn has_lines(&self) -> bool {
        let Source::File(path) = self else { return false };
        path.extension().is_some_and(|extension| extension == "jsonl" || extension == "ndjson")
    }

    fn read(&self, max: u64, why_not: &str) -> Result<Vec<u8>, Usage> {
        let bytes = match self {
            Source::Stdin => {
                if io::stdin().is_terminal() {
                    crate::print::note("reading standard input; Ctrl-D ends it");
                }
                read_bounded(io::stdin().lock(), max)
            }
            Source::File(path) => File::open(path).and_then(|file| read_bounded(file, max)),
            Source::CommandLine(text) => Ok(text.clone().into_bytes()),
        };
        let bytes = bytes.map_err(|error| Usage(format!("cannot read {self}: {}", reason(&error))))?;
        if bytes.len() as u64 > max {
            return Err(Usage(format!("{self} has more than {max} bytes: {why_not}")));
        }
        Ok(bytes)
    }
}

/// The values of the lines as a list; blank lines are left out.
fn list_of(lines: &str) -> String {
    let values: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    format!("[{}]", values.join(","))
}

/// Everything, or one byte more than `max`.
fn read_bounded(from: impl Read, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The system's sentence without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(sentence, _)| sentence.to_owned())
}
