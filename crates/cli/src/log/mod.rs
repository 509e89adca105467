//! Log lines on standard error, and in the file of `toolgate logs`, that cannot hold up the program.
//!
//! Standard error may be closed, or a pipe without a reader. Then lines are dropped; a thread of its own does the
//! writing, so that neither an error nor a full pipe reaches the threads that serve.

mod file;
mod filter;
mod format;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use toolgate_config::Env;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt};

pub(crate) use file::{archive_of, log_file};
pub(crate) use format::LogFormat;

use crate::commands::Usage;
use crate::print::note;
use file::LogFile;
use format::{JsonLines, TextFields, json_line};

/// Lines that wait to be written.
const MAX_WAITING_LINES: usize = 4096;
/// How long the last lines may take at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// A started log. Dropping it waits a moment for its last lines.
pub(crate) struct Log {
    lines: SyncSender<Message>,
    format: LogFormat,
}

enum Message {
    Line(Place, Vec<u8>),
    Flushed(SyncSender<()>),
}

/// Where a line goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Stderr,
    File,
}

/// The target of lines that are written whatever is logged.
const SAID: &str = "toolgate::serve";
/// What the file has, whatever standard error shows.
const IN_FILE: &str = "warn,toolgate::run=info";

impl Log {
    /// Starts it: by `filter`, by the variable `TOOLGATE_LOG`, or by `usual`. Lines go to standard error; standard output
    /// belongs to the protocol.
    ///
    /// # Errors
    /// [`Usage`] if the filter has a word that is no level.
    pub(crate) fn start(filter: Option<&str>, usual: &str, format: LogFormat) -> anyhow::Result<Self> {
        let variable = || std::env::var("TOOLGATE_LOG").ok().map(|asked| ("TOOLGATE_LOG", asked));
        let asked = filter.map(|asked| ("--log", asked.to_owned())).or_else(variable);
        let filter = match asked.filter(|(_, asked)| !asked.trim().is_empty()) {
            Some((place, asked)) => filter::parse(&asked).map_err(|wrong| Usage(format!("{place}: {wrong}")))?,
            None => EnvFilter::new(usual),
        };
        let (lines, inbox) = sync_channel(MAX_WAITING_LINES);
        let opened = LogFile::of_user(&Env::of_process());
        let (file, not_opened) = opened.map_or_else(|error| (None, Some(error)), |file| (file, None));
        let has_file = file.is_some();
        std::thread::Builder::new().name("log".into()).spawn(move || write_all(&inbox, file))?;
        // Errors of the writer itself would be printed to standard error, which panics if that is closed.
        let layer = |place| fmt::layer().log_internal_errors(false).with_writer(Lines(lines.clone(), place));
        let shown = match format {
            LogFormat::Text => {
                let text = layer(Place::Stderr).fmt_fields(TextFields).with_ansi(io::stderr().is_terminal());
                text.with_filter(filter).boxed()
            }
            LogFormat::Json => layer(Place::Stderr).event_format(JsonLines).with_filter(filter).boxed(),
        };
        let mut layers = vec![shown];
        if has_file {
            layers.push(layer(Place::File).event_format(JsonLines).with_filter(EnvFilter::new(IN_FILE)).boxed());
        }
        // A second listener in one process would be refused, which is fine.
        let _ = tracing_subscriber::registry().with(layers).try_init();
        if let Some(error) = not_opened {
            tracing::warn!(%error, "`toolgate logs` shows nothing of this process: its log file cannot be opened");
        }
        Ok(Log { lines, format })
    }

    /// Writes what the user who started the program has to know, whatever is logged: text for people, or a JSON line where the other
    /// lines are JSON.
    pub(crate) fn say(&self, message: impl Display) {
        match self.format {
            LogFormat::Text => note(message),
            LogFormat::Json => note(json_line("info", SAID, &message.to_string())),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (done, flushed) = sync_channel(1);
        if self.lines.try_send(Message::Flushed(done)).is_ok() {
            let _ = flushed.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

fn write_all(inbox: &Receiver<Message>, mut file: Option<LogFile>) {
    for message in inbox {
        match message {
            Message::Line(Place::Stderr, line) => drop(io::stderr().write_all(&line)),
            Message::Line(Place::File, line) => file.iter_mut().for_each(|file| file.write(&line)),
            Message::Flushed(done) => drop(done.try_send(())),
        }
    }
}

/// Makes a writer for each line.
struct Lines(SyncSender<Message>, Place);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.0.clone(), self.1)
    }
}

/// Takes one line, which is dropped if too many wait.
struct Line(SyncSender<Message>, Place);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.try_send(Message::Line(self.1, bytes.to_owned())) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_nobody_takes_are_dropped_and_hold_up_nothing() {
        let (lines, inbox) = sync_channel(2);
        for _ in 0..10 {
            assert_eq!(Line(lines.clone(), Place::Stderr).write(b"x").expect("no error"), 1);
        }
        drop(lines);
        assert_eq!(inbox.iter().count(), 2);
    }
}
