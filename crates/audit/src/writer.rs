//! The thread that writes records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::Message;
use crate::chain::{ChainEnd, hash_of, next_line};
use crate::files::Files;

/// Records that are written with one wait for the disk.
const MAX_BATCH: usize = 256;

/// Writes what comes in.
pub(crate) struct Writer {
    files: Files,
    /// Number of lost records that has not been written to a line yet.
    lost: Arc<AtomicU64>,
    /// Bytes of the records that are not written yet.
    waiting_bytes: Arc<AtomicUsize>,
    failed: bool,
}

impl Writer {
    pub(crate) fn new(files: Files, lost: Arc<AtomicU64>, waiting_bytes: Arc<AtomicUsize>) -> Self {
        Writer { files, lost, waiting_bytes, failed: false }
    }

    /// Writes until all senders are dropped.
    pub(crate) fn write_all(mut self, inbox: &Receiver<Message>) {
        while let Ok(first) = inbox.recv() {
            let (mut batch, mut bytes, mut waiting) = (Vec::new(), 0, Vec::new());
            let rest = std::iter::from_fn(|| inbox.try_recv().ok()).take(MAX_BATCH);
            for message in std::iter::once(first).chain(rest) {
                match message {
                    Message::Records(made) => {
                        bytes += made.bytes;
                        batch.extend(made.records.into_iter().map(|fields| (made.time, fields)));
                    }
                    Message::Flushed(done) => waiting.push(done),
                }
            }
            if batch.is_empty() && self.lost.load(Ordering::Relaxed) > 0 {
                self.write(&[(SystemTime::now(), loss())], 0);
            }
            batch.chunks(MAX_BATCH).for_each(|batch| self.write(batch, batch.len() as u64));
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            for done in waiting {
                // The receiver may have given up.
                let _ = done.try_send(());
            }
        }
    }

    /// Writes a batch, of which as many records as `counted` are lost if that fails.
    fn write(&mut self, batch: &[(SystemTime, Map<String, Value>)], counted: u64) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let written = self.files.locked().and_then(|files| {
            let lines = lines(files.end.clone(), lost, batch);
            files.append(&lines)
        });
        if let Err(error) = &written {
            self.lost.fetch_add(lost + counted, Ordering::Relaxed);
            if !self.failed {
                tracing::error!(%error, "the audit log cannot be written; records are lost until it can");
            }
        }
        self.failed = written.is_err();
    }
}

/// The record of a log that ends after records were lost: its line has their number.
fn loss() -> Map<String, Value> {
    Map::from_iter([("event".to_owned(), "lost".into())])
}

fn lines(mut end: ChainEnd, mut lost: u64, batch: &[(SystemTime, Map<String, Value>)]) -> Vec<u8> {
    let mut text = Vec::new();
    for (time, fields) in batch {
        let line = next_line(&end, *time, std::mem::take(&mut lost), fields);
        end = ChainEnd { seq: end.seq + 1, hash: hash_of(line.as_bytes()), torn: false, begins_file: false };
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text
}
