//! The audit log: who called what, on whose decision, with which outcome. Append-only lines of JSON in a hash chain.
//!
//! Every line has the SHA-256 of the line before it (`prev`) and a number (`seq`), so that a line which is changed, moved,
//! added or removed breaks the chain. Lines that are cut off at the end break nothing: note the hash that
//! `toolgate audit verify` prints, and ask for it later with `--expect`.
//!
//! Writing is done by a thread of its own with a bounded queue: a full disk or a slow one loses lines, which the next line
//! counts (`lost`), and never holds up a run. Several processes may write to one file; a lock beside it orders them.
//!
//! # Layout
//! - [`AuditLog`]: takes records; `writer`: the thread; `chain`: lines and hashes; `files`: the file, its archives, its lock
//! - [`verify`]: reads it all again
//! - [`digest`], [`redacted`]: what is told of arguments
//!
//! What goes into a record is up to the caller.

#![forbid(unsafe_code)]

mod arguments;
mod chain;
mod files;
mod verify;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

pub use arguments::{digest, redacted};
pub use chain::timestamp;
pub use verify::{Broken, Verified, verify};

/// Records that wait to be written.
const MAX_WAITING: usize = 8_192;
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
    records: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

enum Message {
    Record(SystemTime, Map<String, Value>),
    Flushed(SyncSender<()>),
}

impl AuditLog {
    /// Begins to write. The folder and the file are made for this user alone.
    ///
    /// # Errors
    /// If the file cannot be written to: a log that is asked for and not kept must be noticed at the start.
    pub fn open(settings: AuditSettings) -> io::Result<Self> {
        let files = files::Files::open(settings)?;
        let (records, inbox) = sync_channel(MAX_WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = writer::Writer::new(files, lost.clone());
        std::thread::Builder::new().name("audit".into()).spawn(move || writer.write_all(&inbox))?;
        Ok(AuditLog(Arc::new(Handle { records, lost })))
    }

    /// Takes a record. Never waits: one that finds no place is counted as lost.
    pub fn record(&self, fields: Map<String, Value>) {
        match self.0.records.try_send(Message::Record(SystemTime::now(), fields)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.0.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until what was recorded before is written or lost, at most two seconds; false if that was not long enough.
    pub fn flush(&self) -> bool {
        self.0.flush()
    }
}

impl Handle {
    fn flush(&self) -> bool {
        let (done, flushed) = sync_channel(1);
        // With a full queue there is nothing to wait for that would end in time.
        self.records.try_send(Message::Flushed(done)).is_ok() && flushed.recv_timeout(FLUSH_TIMEOUT).is_ok()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.flush();
    }
}
