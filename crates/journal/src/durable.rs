//! A durable run: recorded into a store, owned by one process at a time, resumed by another after a crash.
//!
//! Entries are collected in memory and written with the next entry that must be durable: the intent of a call that may
//! have an effect, or its reply. A run that only reads writes nothing until it ends, or until it has some megabytes.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolgate_engine::transcript::{Delivery, Durable, NotDurable, Recorder};
use toolgate_wire::{CallId, CallState, FromWorker};

use crate::entry::{Entry, hex};
use crate::recording::{Record, Recording, RunFacts};
use crate::seal::{RowKind, Sealer};
use crate::store::{Begun, Claim, Decided, Find, Lease, Leave, NewRun, Rows, RunRow, Store, StoreError};
use crate::text::{Blobs, ContentHash, Text};

/// How often a lease is prolonged, as a part of how long it lasts.
const HEARTBEATS_PER_LEASE: u32 = 3;
/// The shortest time between two heartbeats.
const MIN_HEARTBEAT_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes of a run that wait in memory to be written.
const MAX_UNWRITTEN: u64 = 4 * 1024 * 1024;
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
    /// The runs that this process has, whose leases are prolonged together.
    held: Mutex<HeldRuns>,
}

#[derive(Default)]
struct HeldRuns {
    runs: HashMap<String, Weak<DurableRun>>,
    is_beating: bool,
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
        Journal(Arc::new(Inner { store, sealer, owner, ttl, max_open: MAX_OPEN, held: Mutex::default() }))
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
        let recording = Recording::new(facts);
        // The header is kept with the run itself: a run that is there can be read.
        let header = recording.take();
        let rows = self.0.rows(&run, 0, &header)?;
        let (owner, ttl, max_open) = (self.0.owner.clone(), self.0.ttl, self.0.max_open);
        let new = NewRun { run, caller, idempotency: key, owner, ttl, max_open, rows };
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
        let (owner, ttl, max_open) = (self.0.owner.clone(), self.0.ttl, self.0.max_open);
        let new = NewRun { run, caller, idempotency: None, owner, ttl, max_open, rows };
        let lease = match self.0.store.begin(new).await? {
            Begun::New(lease) => lease,
            Begun::Existing { run } => return Err(StoreError::Damaged(format!("there is a run {run} already"))),
        };
        let recording = Recording::resumed(&record, key);
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
        let claim = Claim { run: run.map(str::to_owned), owner: self.0.owner.clone(), ttl: self.0.ttl, not_of };
        let Some(lease) = self.0.store.claim(claim).await? else { return Ok(None) };
        let record = self.load(&lease.run).await?;
        let key = record.header().and_then(|header| header.key());
        let key = key.ok_or_else(|| StoreError::Damaged(format!("the run {} has no header", lease.run)))?;
        let recording = Recording::resumed(&record, key);
        let run = DurableRun::new(self.0.clone(), lease, recording, record.entries.len() as u64);
        Ok(Some(TakenOver { record, run }))
    }

    /// The calls of a run that wait, or waited, for a decision.
    ///
    /// # Errors
    /// If there is no such run, or it cannot be read.
    pub async fn pending(&self, run: &str) -> Result<Vec<PendingCall>, StoreError> {
        let rows = self.0.store.pending(run).await?;
        let opened = rows.into_iter().map(|row| {
            let decision = row.decision.map(|decision| self.0.text(run, RowKind::Decision(row.call), &decision));
            Ok(PendingCall {
                call: CallId(row.call),
                question: self.0.text(run, RowKind::Question(row.call), &row.question)?,
                decision: decision.transpose()?,
            })
        });
        opened.collect()
    }

    /// Decides a call. The first decision holds, whoever decides at the same time.
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

/// One durable run that this process owns. It is the recorder of the engine's run.
pub struct DurableRun {
    journal: Arc<Inner>,
    lease: Lease,
    recording: Recording,
    /// Entries in the store. Locked while a write is in progress, so writes keep their order.
    written: tokio::sync::Mutex<u64>,
    /// Whether what was collected is being written because it is much.
    is_relieving: AtomicBool,
    runtime: tokio::runtime::Handle,
    lost: CancellationToken,
    aborted: CancellationToken,
    this: Weak<DurableRun>,
}

impl DurableRun {
    fn new(journal: Arc<Inner>, lease: Lease, recording: Recording, written: u64) -> Arc<Self> {
        let run = Arc::new_cyclic(|this| DurableRun {
            journal,
            lease,
            recording,
            written: tokio::sync::Mutex::new(written),
            is_relieving: AtomicBool::new(false),
            runtime: tokio::runtime::Handle::current(),
            lost: CancellationToken::new(),
            aborted: CancellationToken::new(),
            this: this.clone(),
        });
        run.journal.hold(&run);
        run
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.lease.run
    }

    /// Is cancelled when another process has taken the run over. Whoever executes it must stop then.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Is cancelled when the run is to be aborted.
    pub fn aborted(&self) -> &CancellationToken {
        &self.aborted
    }

    /// Notes that a person is asked about a call, which was not sent. Durable when the future completes.
    pub fn asks(&self, call: CallId) -> Durable {
        self.recording.asks(call);
        self.durable()
    }

    /// The time since the last entry does not count as running time.
    pub fn skip_time(&self) {
        self.recording.skip_time();
    }

    /// The program does not run until its next entry.
    pub fn stop_clock(&self) {
        self.recording.stop_clock();
    }

    /// Notes that a call about which a person was asked is about to be sent after all.
    pub fn intends(&self, call: CallId) -> Durable {
        self.recording.intends(call);
        self.durable()
    }

    /// Records a call, with a hash of the schemas of its tool.
    pub fn said_with_schema(&self, frame: &FromWorker, read_only: bool, hash: String) {
        self.recording.said_with_schema(frame, read_only, hash);
    }

    /// Keeps what the rehearsal of the program found, as JSON text. Durable when the future completes.
    pub fn staged(&self, review: &str) -> Durable {
        self.recording.staged(review);
        self.durable()
    }

    /// What the report of the run has to say about its record.
    pub fn remark(&self) -> Option<String> {
        self.recording.remark()
    }

    /// Writes what was recorded. Entries that cannot be written stay, before later ones.
    ///
    /// # Errors
    /// If the store does not keep them.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let mut written = self.written.lock().await;
        let record = self.recording.take();
        if record.entries.is_empty() {
            return Ok(());
        }
        let added = record.entries.len() as u64;
        let kept = match self.journal.rows(&self.lease.run, *written, &record) {
            Ok(rows) => self.journal.store.append(self.lease.clone(), *written, rows).await,
            Err(error) => Err(error),
        };
        match kept {
            Ok(()) => *written += added,
            Err(_) => self.recording.put_back(record),
        }
        kept.inspect_err(|error| self.note(error))
    }

    /// Ends the run with its report, as JSON text.
    ///
    /// # Errors
    /// If the store does not keep it.
    pub async fn finish(&self, report: &str) -> Result<(), StoreError> {
        self.recording.finish(report);
        self.finish_again().await
    }

    /// Tries again to end the run, where the store did not keep its end.
    ///
    /// # Errors
    /// If the store does not keep it.
    pub async fn finish_again(&self) -> Result<(), StoreError> {
        self.flush().await?;
        let left = self.journal.store.leave(self.lease.clone(), Leave::Done).await;
        left.inspect_err(|error| self.note(error))
    }

    /// Leaves the run to whoever takes it over, at once.
    ///
    /// # Errors
    /// If the store does not keep it.
    pub async fn release(&self) -> Result<(), StoreError> {
        self.flush().await?;
        let left = self.journal.store.leave(self.lease.clone(), Leave::Released).await;
        left.inspect_err(|error| self.note(error))
    }

    /// Leaves the run until one of these calls is decided, or to a time in milliseconds since 1970.
    ///
    /// # Errors
    /// If the store does not keep it.
    pub async fn pause(&self, questions: &[(CallId, String)], wake: Option<u64>) -> Result<(), StoreError> {
        self.flush().await?;
        let sealed = questions.iter().map(|(call, question)| {
            let sealed = self.journal.seal(&self.lease.run, RowKind::Question(call.0), question.as_bytes())?;
            Ok((call.0, sealed))
        });
        let calls = sealed.collect::<Result<_, StoreError>>()?;
        let left = self.journal.store.leave(self.lease.clone(), Leave::Paused { calls, wake }).await;
        left.inspect_err(|error| self.note(error))
    }

    fn note(&self, error: &StoreError) {
        if matches!(error, StoreError::Fenced(_) | StoreError::NoSuchRun(_)) {
            self.lost.cancel();
        }
    }

    /// Writes in the background where much has been collected. A store that does not take it is tried again when as much has
    /// come together once more.
    fn relieve(&self) {
        if self.recording.untaken() < MAX_UNWRITTEN || self.is_relieving.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.this.clone();
        self.runtime.spawn(async move {
            let Some(run) = this.upgrade() else { return };
            let _ = run.flush().await;
            run.is_relieving.store(false, Ordering::Release);
        });
    }

    /// Writes in a task of its own: a call that is given up must not take entries with it.
    fn durable(&self) -> Durable {
        if self.recording.is_full() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let Some(run) = self.this.upgrade() else {
            return Box::pin(std::future::ready(Err(NotDurable("the run has ended".to_owned()))));
        };
        let write = tokio::spawn(async move { run.flush().await });
        Box::pin(async move {
            let kept = write.await.map_err(|error| NotDurable(error.to_string()))?;
            kept.map_err(|error| NotDurable(error.to_string()))
        })
    }
}

impl Recorder for DurableRun {
    fn delivered(&self, delivery: Delivery<'_>) {
        self.recording.delivered(delivery);
        self.relieve();
    }

    fn said(&self, frame: &FromWorker, read_only: bool) {
        self.recording.said(frame, read_only);
        self.relieve();
    }

    fn before_effect(&self, id: CallId) -> Durable {
        self.recording.intends(id);
        self.durable()
    }

    fn before_reply(&self, id: CallId, state: CallState, body: Result<&str, &str>) -> Durable {
        self.recording.answered(id, state, body.map(str::as_bytes).map_err(str::as_bytes));
        self.durable()
    }
}

impl Inner {
    /// Prolongs the lease of this run from now on.
    fn hold(self: &Arc<Self>, run: &Arc<DurableRun>) {
        let mut held = self.held.lock();
        held.runs.insert(run.lease.run.clone(), Arc::downgrade(run));
        if !std::mem::replace(&mut held.is_beating, true) {
            tokio::spawn(heartbeats(Arc::downgrade(self)));
        }
    }

    /// The runs that are still used; `None` when there are none, and then no heartbeat follows.
    fn held(&self) -> Option<Vec<Arc<DurableRun>>> {
        let mut held = self.held.lock();
        held.runs.retain(|_, run| run.strong_count() > 0);
        let runs: Vec<_> = held.runs.values().filter_map(Weak::upgrade).collect();
        held.is_beating = !runs.is_empty();
        held.is_beating.then_some(runs)
    }

    async fn beat(&self, runs: Vec<Arc<DurableRun>>) {
        let names = runs.iter().map(|run| run.lease.run.clone()).collect();
        // A store that is gone for a moment is asked again; the lease tells whether it was too long.
        let Ok(own) = self.store.heartbeat(&self.owner, names, self.ttl).await else { return };
        for run in runs {
            match own.iter().find(|held| held.lease == run.lease) {
                Some(held) if held.abort => run.aborted.cancel(),
                Some(_) => {}
                None => run.lost.cancel(),
            }
        }
    }
}

/// Prolongs the leases of the runs that this process has, in one write for all of them.
async fn heartbeats(journal: Weak<Inner>) {
    loop {
        let Some(ttl) = journal.upgrade().map(|journal| journal.ttl) else { return };
        tokio::time::sleep((ttl / HEARTBEATS_PER_LEASE).max(MIN_HEARTBEAT_INTERVAL)).await;
        let Some(journal) = journal.upgrade() else { return };
        let Some(runs) = journal.held() else { return };
        journal.beat(runs).await;
    }
}
