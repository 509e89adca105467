//! The audit log: who called what, on whose decision, with which outcome. Append-only lines of JSON in a hash chain.
//!
//! Every line has the SHA-256 of the line before it (`prev`) and a number (`seq`), so that a line which is changed, moved,
//! added or removed breaks the chain. The first line of a file says so (`begins_file`), so that lines cut off at its beginning are noticed.
//! Lines that are cut off at the end break nothing: note the hash that
//! `toolgate audit verify` prints, and ask for it later with `--expect`.
//!
//! Writing is done by a thread of its own with a queue that is bounded in bytes: a full disk or a slow one loses lines, which
//! the next line counts (`lost`), or one of its own at the end, and never holds up a run. Several processes may write to one file; a lock beside it orders them.
//!
//! # Layout
//! - [`AuditLog`]: takes records; `writer`: the thread; `chain`: lines and hashes; `files`: the file, its archives, its lock
//! - `reading`: [`LogFiles`] and their [`lines`], as they are read again; [`verify`]: checks them all
//! - [`digest`], [`redacted`]: what is told of arguments
//!
//! What goes into a record is up to the caller.

#![forbid(unsafe_code)]

mod arguments;
mod chain;
mod files;
mod reading;
mod verify;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

pub use arguments::{digest, redacted};
pub use chain::timestamp;
pub use reading::{LogFiles, LogLine, lines};
pub use verify::{BrokenLog, Verified, verify};

/// Bytes of records that wait to be written. Those of a call take about 1.3 KB.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Records of one message. What finds no room is lost by the message, so that the other records of a long run are kept.
const MAX_MESSAGE: usize = 256;
/// What a field takes beside its name and its text.
const FIELD_BYTES: usize = 64;
/// How long the last records may take at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Where the log is, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The file.
    pub file: PathBuf,
    /// A file that is larger becomes an archive beside it, and a new one is begun.
    pub max_bytes: u64,
    /// How many archives are kept.
    pub keep: usize,
}

/// A log that is being written. Dropping the last clone waits a moment for its last records.
#[derive(Debug, Clone)]
pub struct AuditLog(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    messages: Sender<Message>,
    lost: Arc<AtomicU64>,
    waiting_bytes: Arc<AtomicUsize>,
}

enum Message {
    Records(Records),
    Flushed(SyncSender<()>),
}

/// Records that were made at one time.
struct Records {
    time: SystemTime,
    records: Vec<Map<String, Value>>,
    bytes: usize,
}

impl AuditLog {
    /// Begins to write. The folder and the file are made for this user alone.
    ///
    /// # Errors
    /// If the file cannot be written to: a log that is asked for and not kept must be noticed at the start.
    pub fn open(settings: AuditSettings) -> io::Result<Self> {
        let files = files::Files::open(settings)?;
        let (messages, inbox) = channel();
        let (lost, waiting_bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let writer = writer::Writer::new(files, lost.clone(), waiting_bytes.clone());
        std::thread::Builder::new().name("audit".into()).spawn(move || writer.write_all(&inbox))?;
        Ok(AuditLog(Arc::new(Handle { messages, lost, waiting_bytes })))
    }

    /// Takes a record. Never waits: one that finds no room is counted as lost.
    pub fn record(&self, fields: Map<String, Value>) {
        self.records(SystemTime::now(), vec![fields]);
    }

    /// Takes records of what happened then, such as those of one run. They wake the writer once for each 256 of them.
    pub fn records(&self, time: SystemTime, records: Vec<Map<String, Value>>) {
        let mut rest = records.into_iter().peekable();
        while rest.peek().is_some() {
            let records: Vec<_> = rest.by_ref().take(MAX_MESSAGE).collect();
            let (count, bytes) = (records.len() as u64, records.iter().map(bytes_of_fields).sum());
            let has_room = self.0.reserve(bytes);
            if !has_room || self.0.messages.send(Message::Records(Records { time, records, bytes })).is_err() {
                self.0.lost.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Waits until what was recorded before is written or lost, at most two seconds; false if that was not long enough.
    pub fn flush(&self) -> bool {
        self.0.flush()
    }
}

impl Handle {
    fn reserve(&self, bytes: usize) -> bool {
        let room = |waiting: usize| waiting.checked_add(bytes).filter(|all| *all <= MAX_WAITING_BYTES);
        self.waiting_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
    }

    fn flush(&self) -> bool {
        let (done, flushed) = sync_channel(1);
        self.messages.send(Message::Flushed(done)).is_ok() && flushed.recv_timeout(FLUSH_TIMEOUT).is_ok()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.flush();
    }
}

/// About as much as a record takes in memory.
fn bytes_of_fields(fields: &Map<String, Value>) -> usize {
    fields.iter().map(|(name, value)| name.len() + bytes_of(value)).sum()
}

fn bytes_of(value: &Value) -> usize {
    FIELD_BYTES
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes_of).sum(),
            Value::Object(fields) => bytes_of_fields(fields),
        }
}
