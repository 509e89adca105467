//! A durable run: recorded into a store, owned by one process at a time, resumed by another after a crash.
//!
//! Entries are collected in memory and written with the next entry that must be durable: the intent of a call that may
//! have an effect, or its reply. A run that only reads writes nothing until it ends, or until it has some megabytes.
//!
//! # Layout
//! - this file: runs in a store, as one process uses it
//! - `run`: one run that this process owns, the recorder of the engine's run
//! - `heartbeats`: prolongs the leases of the runs that this process owns

mod heartbeats;
mod run;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use toolgate_wire::CallId;

use crate::entry::{Entry, hex};
use crate::recording::{MAX_RECORD_BYTES, Record, Recording, RunFacts};
use crate::seal::{RowKind, Sealer};
use crate::store::{Begun, Claim, Decided, Find, Lease, NewRun, PendingRow, Rows, RunRow, Store, StoreError};
use crate::text::{Blobs, ContentHash, Text};
use heartbeats::HeldRuns;

pub use run::DurableRun;

/// Runs of one caller that have not ended, unless [`Journal::with_max_open`] says otherwise.
const MAX_OPEN: u64 = 10_000;

/// Durable runs in a store, as one process uses it.
#[derive(Clone)]
pub struct Journal(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    sealer: Sealer,
    owner: String,
    ttl: Duration,
    max_open: u64,
    max_open_bytes: u64,
    max_record_bytes: u64,
    /// The runs that this process has, whose leases are prolonged together.
    held: Mutex<HeldRuns>,
}

/// What came of beginning a durable run.
pub enum Began {
    /// It is new, and this process owns it.
    New(Arc<DurableRun>),
    /// There is a run with the same idempotency key.
    Existing {
        /// Its id.
        run: String,
    },
}

/// A run that was taken over from a process that is gone.
pub struct TakenOver {
    /// Everything that is known of it.
    pub record: Record,
    /// The run, now owned by this process.
    pub run: Arc<DurableRun>,
}

/// A call that waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// The call.
    pub call: CallId,
    /// What is to be decided.
    pub question: String,
    /// What was decided.
    pub decision: Option<String>,
}

/// What came of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is the first one for this call, and it holds.
    Now,
    /// There was one before, which holds.
    Before(String),
    /// Nothing waits under this number.
    NotAsked,
}

impl Journal {
    /// A journal in this store. `owner` names this process; a run that has shown no sign of life for `ttl` may be
    /// taken over.
    pub fn new(store: Arc<dyn Store>, sealer: Sealer, owner: String, ttl: Duration) -> Self {
        Journal(Arc::new(Inner {
            store,
            sealer,
            owner,
            ttl,
            max_open: MAX_OPEN,
            max_open_bytes: u64::MAX,
            max_record_bytes: MAX_RECORD_BYTES,
            held: Mutex::default(),
        }))
    }

    /// The same with a bound for the bytes of these runs. To be called before the first run.
    #[must_use]
    pub fn with_max_open_bytes(self, max_open_bytes: u64) -> Self {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => Journal(Arc::new(Inner { max_open_bytes, ..inner })),
            Err(shared) => Journal(shared),
        }
    }

    /// The same with another bound for the bytes of one record. To be called before the first run.
    #[must_use]
    pub fn with_max_record_bytes(self, max_record_bytes: u64) -> Self {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => Journal(Arc::new(Inner { max_record_bytes, ..inner })),
            Err(shared) => Journal(shared),
        }
    }

    /// The same with another bound for the runs of a caller that have not ended. To be called before the first run.
    #[must_use]
    pub fn with_max_open(self, max_open: u64) -> Self {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => Journal(Arc::new(Inner { max_open, ..inner })),
            Err(shared) => Journal(shared),
        }
    }

    /// How long a lease lasts.
    pub fn ttl(&self) -> Duration {
        self.0.ttl
    }

    /// A name that only those who have the store's key can compute: HMAC-SHA256, in hexadecimal digits.
    pub fn name(&self, of: &str) -> String {
        hex(&self.0.sealer.name(of))
    }

    /// How often each of these names was counted on a day. The store learns no name.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn counts(&self, day: u64, names: &[String]) -> Result<Vec<u64>, StoreError> {
        self.0.store.counts(day, names.iter().map(|name| self.counted_name(name)).collect()).await
    }

    /// Counts each of these names once more on a day, and gives what was counted before.
    ///
    /// # Errors
    /// If the store cannot be written to.
    pub async fn count(&self, day: u64, names: &[String]) -> Result<Vec<u64>, StoreError> {
        self.0.store.count(day, names.iter().map(|name| self.counted_name(name)).collect()).await
    }

    /// Takes back so many of what was counted.
    ///
    /// # Errors
    /// If the store cannot be written to.
    pub async fn uncount(&self, day: u64, names: &[(String, u64)]) -> Result<(), StoreError> {
        self.0.store.uncount(day, names.iter().map(|(name, by)| (self.counted_name(name), *by)).collect()).await
    }

    fn counted_name(&self, name: &str) -> String {
        self.name(&format!("counted {name}"))
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// Begins a run. Requests of one caller with the same idempotency key are one run.
    ///
    /// # Errors
    /// If the store cannot keep it.
    pub async fn begin(&self, facts: RunFacts, idempotency: Option<&str>) -> Result<Began, StoreError> {
        let key = idempotency.map(|key| self.0.sealer.name(&format!("{}:{}{key}", facts.caller.len(), facts.caller)));
        let (run, caller) = (facts.run.clone(), facts.caller.clone());
        let recording = Recording::bounded(facts, self.0.max_record_bytes);
        // The header is kept with the run itself: a run that is there can be read.
        let header = recording.take();
        let rows = self.0.rows(&run, 0, &header)?;
        let Inner { ttl, max_open, max_open_bytes, .. } = *self.0;
        let owner = self.0.owner.clone();
        let new = NewRun { run, caller, idempotency: key, owner, ttl, max_open, max_open_bytes, rows };
        let lease = match self.0.store.begin(new).await? {
            Begun::New(lease) => lease,
            Begun::Existing { run } => return Ok(Began::Existing { run }),
        };
        Ok(Began::New(DurableRun::new(self.0.clone(), lease, recording, header.entries.len() as u64)))
    }

    /// Begins a run whose record has a beginning already: this process owns it and goes on with it.
    ///
    /// # Errors
    /// If the record has no header, or the store cannot keep it.
    pub async fn begin_from(&self, record: Record) -> Result<TakenOver, StoreError> {
        let header = record.header().and_then(|header| Some((header, header.key()?)));
        let (header, key) = header.ok_or_else(|| StoreError::Damaged("the record has no header".to_owned()))?;
        let (run, caller) = (header.run.clone(), header.caller.clone());
        let rows = self.0.rows(&run, 0, &record)?;
        let Inner { ttl, max_open, max_open_bytes, .. } = *self.0;
        let owner = self.0.owner.clone();
        let new = NewRun { run, caller, idempotency: None, owner, ttl, max_open, max_open_bytes, rows };
        let lease = match self.0.store.begin(new).await? {
            Begun::New(lease) => lease,
            Begun::Existing { run } => return Err(StoreError::Damaged(format!("there is a run {run} already"))),
        };
        let recording = Recording::resumed(&record, key, self.0.max_record_bytes);
        let run = DurableRun::new(self.0.clone(), lease, recording, record.entries.len() as u64);
        Ok(TakenOver { record, run })
    }

    /// Everything that is known of a run.
    ///
    /// # Errors
    /// If the store has no such run, or its row cannot be read.
    pub async fn load(&self, run: &str) -> Result<Record, StoreError> {
        let rows = self.0.store.read(run).await?;
        self.0.open(run, 0, &rows)
    }

    /// What the store knows of a run; `None` when there is none.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn row(&self, run: &str) -> Result<Option<RunRow>, StoreError> {
        let find = Find { run: Some(run.to_owned()), most: 1, ..Find::default() };
        Ok(self.0.store.find(find).await?.pop())
    }

    /// The header of a run, without the rest.
    ///
    /// # Errors
    /// If the store has no such run, or its row cannot be read.
    pub async fn header(&self, run: &str) -> Result<Record, StoreError> {
        self.entries(run, 0, 1).await
    }

    /// The JSON text of the report of a run that has ended: its last entry, without the rest.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn report(&self, row: &RunRow) -> Result<Option<String>, StoreError> {
        let last = self.entries(&row.run, row.entries.saturating_sub(1), 1).await?;
        Ok(last.report().map(str::to_owned))
    }

    /// Entries of a run from a number on, with their long texts.
    ///
    /// # Errors
    /// If the store has no such run, or its row cannot be read.
    pub async fn entries(&self, run: &str, from: u64, most: usize) -> Result<Record, StoreError> {
        self.entries_with_texts(run, from, most, usize::MAX).await
    }

    /// The same with so many bytes of each long text only: for what is shown, however much was recorded.
    ///
    /// # Errors
    /// If the store has no such run, or its row cannot be read.
    pub async fn beginnings(&self, run: &str, from: u64, most: usize, text_bytes: usize) -> Result<Record, StoreError> {
        self.entries_with_texts(run, from, most, text_bytes).await
    }

    async fn entries_with_texts(
        &self,
        run: &str,
        from: u64,
        most: usize,
        text_bytes: usize,
    ) -> Result<Record, StoreError> {
        let rows = self.0.store.entries(run, from, most).await?;
        let mut record = self.0.open(run, from, &Rows { entries: rows, blobs: Vec::new() })?;
        let texts = record.entries.iter().flat_map(|entry| entry.event.texts());
        let named: BTreeSet<ContentHash> = texts
            .filter_map(|text| match text {
                Text::Blob { blob, .. } => Some(blob.clone()),
                Text::Inline(_) => None,
            })
            .collect();
        for hash in named {
            let name = hex(&self.0.sealer.name(hash.as_str()));
            if let Some(sealed) = self.0.store.blob(run, &name).await? {
                let mut text = self.0.text(run, RowKind::Blob(&name), &sealed)?;
                if text.len() > text_bytes {
                    text.truncate(text.floor_char_boundary(text_bytes));
                    text.shrink_to_fit();
                    record.blobs.insert_beginning(hash, text);
                } else {
                    record.blobs.insert(text);
                }
            }
        }
        Ok(record)
    }

    /// Takes over a run whose owner is gone, or a given one that is paused. `None` when there is none.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn take_over(&self, run: Option<&str>) -> Result<Option<TakenOver>, StoreError> {
        self.take_over_but(run, Vec::new()).await
    }

    /// The same, for any run, without those of some callers.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn take_over_but(&self, run: Option<&str>, not_of: Vec<String>) -> Result<Option<TakenOver>, StoreError> {
        match self.claim(run, not_of).await? {
            Some(lease) => Ok(Some(self.own(lease).await?)),
            None => Ok(None),
        }
    }

    /// Takes a run as [`Journal::take_over_but`] does, without reading its record.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn claim(&self, run: Option<&str>, not_of: Vec<String>) -> Result<Option<Lease>, StoreError> {
        let (owner, held) = (self.0.owner.clone(), self.0.held_names());
        let claim = Claim { run: run.map(str::to_owned), owner, ttl: self.0.ttl, not_of, held };
        self.0.store.claim(claim).await
    }

    /// A run that was claimed, with its record.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub async fn own(&self, lease: Lease) -> Result<TakenOver, StoreError> {
        let record = self.load(&lease.run).await?;
        let key = record.header().and_then(|header| header.key());
        let key = key.ok_or_else(|| StoreError::Damaged(format!("the run {} has no header", lease.run)))?;
        let recording = Recording::resumed(&record, key, self.0.max_record_bytes);
        let run = DurableRun::new(self.0.clone(), lease, recording, record.entries.len() as u64);
        Ok(TakenOver { record, run })
    }

    /// The calls of a run that wait, or waited, for a decision.
    ///
    /// # Errors
    /// If there is no such run, or it cannot be read.
    pub async fn pending(&self, run: &str) -> Result<Vec<PendingCall>, StoreError> {
        self.0.pending_calls(run, self.0.store.pending(run).await?)
    }

    /// What the store knows of a run, and its calls as [`Journal::pending`] gives them; `None` when there is no such run.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn look_at(&self, run: &str) -> Result<Option<(RunRow, Vec<PendingCall>)>, StoreError> {
        let Some((row, pending)) = self.0.store.look_at(run).await? else { return Ok(None) };
        Ok(Some((row, self.0.pending_calls(run, pending)?)))
    }

    /// Decides a call. The first decision holds, also when several are made at the same time. It survives the end of this process at
    /// once, and a crash of the machine after the run's next effect or [`Journal::sync`].
    ///
    /// # Errors
    /// If there is no such run, or the decision cannot be kept.
    pub async fn decide(&self, run: &str, call: CallId, decision: &str) -> Result<Decision, StoreError> {
        let kind = RowKind::Decision(call.0);
        let sealed = self.0.seal(run, kind, decision.as_bytes())?;
        Ok(match self.0.store.decide(run, call.0, sealed).await? {
            Decided::Now => Decision::Now,
            Decided::Before(before) => Decision::Before(self.0.text(run, kind, &before)?),
            Decided::NotAsked => Decision::NotAsked,
        })
    }

    /// Completes when all decisions that were made before survive a crash of the machine.
    ///
    /// # Errors
    /// If the store cannot say so.
    pub async fn sync(&self) -> Result<(), StoreError> {
        self.0.store.sync().await
    }

    /// Writes the decision about a call anew. Nothing happens where there is none yet.
    ///
    /// # Errors
    /// If there is no such run, or the decision cannot be kept.
    pub async fn amend(&self, run: &str, call: CallId, decision: &str) -> Result<(), StoreError> {
        let sealed = self.0.seal(run, RowKind::Decision(call.0), decision.as_bytes())?;
        self.0.store.amend(run, call.0, sealed).await
    }
}

impl Inner {
    fn pending_calls(&self, run: &str, rows: Vec<PendingRow>) -> Result<Vec<PendingCall>, StoreError> {
        let opened = rows.into_iter().map(|row| {
            let decision = row.decision.map(|decision| self.text(run, RowKind::Decision(row.call), &decision));
            Ok(PendingCall {
                call: CallId(row.call),
                question: self.text(run, RowKind::Question(row.call), &row.question)?,
                decision: decision.transpose()?,
            })
        });
        opened.collect()
    }

    fn seal(&self, run: &str, kind: RowKind<'_>, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
        let sealed = self.sealer.seal(run, kind, plain);
        sealed.ok_or_else(|| StoreError::Unavailable("the system gives no random numbers".to_owned()))
    }

    fn text(&self, run: &str, kind: RowKind<'_>, sealed: &[u8]) -> Result<String, StoreError> {
        let damaged = |fault: String| StoreError::Damaged(format!("the run {run}: {fault}"));
        let plain = self.sealer.open(run, kind, sealed).map_err(|fault| damaged(fault.to_string()))?;
        String::from_utf8(plain).map_err(|fault| damaged(fault.to_string()))
    }

    /// A record as rows, numbered from `from`.
    fn rows(&self, run: &str, from: u64, record: &Record) -> Result<Rows, StoreError> {
        let mut rows = Rows::default();
        for (entry, number) in record.entries.iter().zip(from..) {
            let text = serde_json::to_vec(entry).map_err(|error| StoreError::Damaged(error.to_string()))?;
            rows.entries.push(self.seal(run, RowKind::Entry(number), &text)?);
        }
        for (hash, text) in record.blobs.iter() {
            let name = hex(&self.sealer.name(hash.as_str()));
            let sealed = self.seal(run, RowKind::Blob(&name), text.as_bytes())?;
            rows.blobs.push((name, sealed));
        }
        Ok(rows)
    }

    /// A record from rows, numbered from `from`.
    fn open(&self, run: &str, from: u64, rows: &Rows) -> Result<Record, StoreError> {
        let entries = rows.entries.iter().zip(from..).map(|(row, number)| {
            let text = self.text(run, RowKind::Entry(number), row)?;
            serde_json::from_str::<Entry>(&text)
                .map_err(|fault| StoreError::Damaged(format!("the run {run}, entry {number}: {fault}")))
        });
        let entries = entries.collect::<Result<_, _>>()?;
        let mut blobs = Blobs::default();
        for (name, row) in &rows.blobs {
            blobs.insert(self.text(run, RowKind::Blob(name), row)?);
        }
        Ok(Record { entries, blobs })
    }
}
