//! A program's console on standard error, as it comes.
//!
//! Every line of it begins with `| `, so that none can be taken for one of Toolgate's own: an error, a warning, a call.
//!
//! A thread of its own writes, so that a reader who stops reading cannot hold up the run or its deadline.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use toolgate_engine::Observer;
use toolgate_wire::frame::Stream;

use super::{escape, note};

/// Prints what it is sent until it is finished.
pub(crate) struct Console {
    lines: Sender<String>,
    printer: JoinHandle<()>,
}

/// The engine's side of a console.
pub(crate) struct Lines(Sender<String>);

impl Console {
    pub(crate) fn start() -> io::Result<Self> {
        let (lines, inbox) = channel::<String>();
        let printer = std::thread::Builder::new().name("console".into()).spawn(move || {
            for line in inbox {
                note(marked(&line));
            }
        })?;
        Ok(Console { lines, printer })
    }

    pub(crate) fn observer(&self) -> Lines {
        Lines(self.lines.clone())
    }

    /// Waits until every line is out. The observers must be gone, or this waits for them.
    pub(crate) fn finish(self) {
        drop(self.lines);
        let _ = self.printer.join();
    }
}

/// The lines of one entry, each with the mark of the console.
fn marked(entry: &str) -> String {
    // Of all that breaks a line, escaping leaves only the line feed.
    escape::text(entry).split('\n').map(|line| format!("| {line}")).collect::<Vec<_>>().join("\n")
}

impl Observer for Lines {
    fn logged(&self, _: Stream, line: &str) {
        // The engine bounds a run's console, so this queue is bounded too.
        let _ = self.0.send(line.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_the_mark_whatever_breaks_it() {
        assert_eq!(marked("a\nerror[MEMORY]: b\n"), "| a\n| error[MEMORY]: b\n| ");
        assert_eq!(marked("a\r\u{2028}hint: b"), "| a\\u{d}\\u{2028}hint: b");
        assert_eq!(marked(""), "| ");
    }
}
