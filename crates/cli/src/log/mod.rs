//! Log lines on standard error that cannot hold up the program.
//!
//! Standard error may be closed, or a pipe without a reader. Then lines are dropped; a thread of its own does the
//! writing, so that neither an error nor a full pipe reaches the threads that serve.

mod format;

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

pub(crate) use format::LogFormat;

use format::JsonLines;

/// Lines that wait to be written.
const MAX_WAITING_LINES: usize = 4096;
/// How long the last lines may take at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// A started log. Dropping it waits a moment for its last lines.
pub(crate) struct Log {
    lines: SyncSender<Message>,
}

enum Message {
    Line(Vec<u8>),
    Flushed(SyncSender<()>),
}

impl Log {
    /// Starts it: by `filter`, by the variable `TOOLGATE_LOG`, or by `usual`; an invalid filter is `usual`. Lines go to
    /// standard error; standard output belongs to the protocol.
    pub(crate) fn start(filter: Option<&str>, usual: &str, format: LogFormat) -> io::Result<Self> {
        let asked = filter.map(str::to_owned).or_else(|| std::env::var("TOOLGATE_LOG").ok());
        let filter = asked.and_then(|asked| EnvFilter::try_new(asked).ok()).unwrap_or_else(|| EnvFilter::new(usual));
        let (lines, inbox) = sync_channel(MAX_WAITING_LINES);
        std::thread::Builder::new().name("log".into()).spawn(move || write_all(&inbox))?;
        // Errors of the writer itself would be printed to standard error, which panics if that is closed.
        let log = tracing_subscriber::fmt().log_internal_errors(false).with_env_filter(filter);
        let log = log.with_writer(Lines(lines.clone()));
        // A second listener in one process would be refused, which is fine.
        let _ = match format {
            LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).try_init(),
            LogFormat::Json => log.with_ansi(false).event_format(JsonLines).try_init(),
        };
        Ok(Log { lines })
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

fn write_all(inbox: &Receiver<Message>) {
    for message in inbox {
        match message {
            Message::Line(line) => drop(io::stderr().write_all(&line)),
            Message::Flushed(done) => drop(done.try_send(())),
        }
    }
}

/// Makes a writer for each line.
struct Lines(SyncSender<Message>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.0.clone())
    }
}

/// Takes one line, which is dropped if too many wait.
struct Line(SyncSender<Message>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.try_send(Message::Line(bytes.to_owned())) {
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
            assert_eq!(Line(lines.clone()).write(b"x").expect("no error"), 1);
        }
        drop(lines);
        assert_eq!(inbox.iter().count(), 2);
    }
}
