//! One durable run that this process owns: the recorder of the engine's run, and its ways to leave it.
//!
//! A run that waits for a person can be parked: its lease is given back like that of any paused run, and its worker waits. Nothing
//! is written then. A claim raises the run's epoch by one, so a parked run goes on only where this process claimed it
//! and no other has had it in between.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolgate_engine::transcript::{Delivery, Durable, NotDurable, Recorder};
use toolgate_wire::{CallId, CallState, FromWorker, Warning};

use super::Inner;
use crate::entry::AllowedBy;
use crate::recording::Recording;
use crate::seal::RowKind;
use crate::store::{Lease, Leave, StoreError};

/// Bytes of a run that wait in memory to be written.
const MAX_UNWRITTEN: u64 = 4 * 1024 * 1024;
/// How many bytes a run writes between two looks at what its caller's open runs take.
const OPEN_BYTES_STEP: u64 = 1024 * 1024;

/// One durable run that this process owns. It is the recorder of the engine's run.
pub struct DurableRun {
    journal: Arc<Inner>,
    run: String,
    /// The epoch of its lease, which changes when a parked run goes on.
    epoch: AtomicU64,
    /// Whether the run is parked: nothing is written then.
    parked: watch::Sender<bool>,
    recording: Recording,
    /// Entries in the store. Locked while a write is in progress, so writes keep their order.
    written: tokio::sync::Mutex<u64>,
    /// Bytes that were written since the last look at what the caller's open runs take.
    unchecked: AtomicU64,
    /// Whether what was collected is being written because it is much.
    is_relieving: AtomicBool,
    runtime: tokio::runtime::Handle,
    lost: CancellationToken,
    aborted: CancellationToken,
    this: Weak<DurableRun>,
}

impl DurableRun {
    pub(super) fn new(journal: Arc<Inner>, lease: Lease, recording: Recording, written: u64) -> Arc<Self> {
        let run = Arc::new_cyclic(|this| DurableRun {
            journal,
            run: lease.run,
            epoch: AtomicU64::new(lease.epoch),
            parked: watch::Sender::new(false),
            recording,
            written: tokio::sync::Mutex::new(written),
            // A run that is taken over looks at once.
            unchecked: AtomicU64::new(OPEN_BYTES_STEP),
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
        &self.run
    }

    /// Its lease; of a parked run the one that it had.
    pub(super) fn lease(&self) -> Lease {
        Lease { run: self.run.clone(), epoch: self.epoch.load(Ordering::Acquire) }
    }

    /// Whether it is parked.
    pub(super) fn is_parked(&self) -> bool {
        *self.parked.borrow()
    }

    /// Is cancelled when another process has taken the run over. The execution here must stop then.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Is cancelled when the run is to be aborted.
    pub fn aborted(&self) -> &CancellationToken {
        &self.aborted
    }

    /// Notes that a person is asked about a call, which was not sent, or about something that its server asks. Durable when the
    /// future completes.
    pub fn asks(&self, call: CallId, by_server: bool) -> Durable {
        self.recording.asks(call, by_server);
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

    /// Records a call, with a hash of the schemas of its tool.
    pub fn said_with_schema(&self, frame: &FromWorker, read_only: bool, hash: String) {
        self.recording.said_with_schema(frame, read_only, hash);
    }

    /// Keeps what the rehearsal of the program found, as JSON text. Durable when the future completes.
    pub fn staged(&self, review: &str) -> Durable {
        self.recording.staged(review);
        self.durable()
    }

    /// Bytes of the record so far, also of what was recorded before the run was taken over.
    pub fn recorded_bytes(&self) -> u64 {
        self.recording.bytes()
    }

    /// What the report of the run has to say about its record.
    pub fn remark(&self) -> Option<Warning> {
        self.recording.remark()
    }

    /// What the policy let a call through by is kept with its reply.
    pub fn allows(&self, id: CallId, by: AllowedBy) {
        self.recording.allows(id, by);
    }

    /// Writes what was recorded. Entries that cannot be written stay, before later ones. While the run is parked it waits.
    ///
    /// # Errors
    /// If the store does not keep them, or a parked run does not go on here.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let mut written = self.unparked().await?;
        self.write(&mut written, None).await
    }

    /// The right to write, once the run is not parked.
    async fn unparked(&self) -> Result<tokio::sync::MutexGuard<'_, u64>, StoreError> {
        let mut parked = self.parked.subscribe();
        loop {
            let written = self.written.lock().await;
            if !self.is_parked() {
                return Ok(written);
            }
            drop(written);
            tokio::select! {
                // It fails when the run is gone, and then nothing is written any more.
                _ = parked.wait_for(|parked| !parked) => {}
                () = self.lost.cancelled() => return Err(StoreError::Fenced(self.run.clone())),
            }
        }
    }

    /// Writes what was recorded and gives the lease back, in one transaction.
    async fn leave(&self, how: Leave) -> Result<(), StoreError> {
        let mut written = self.unparked().await?;
        self.write(&mut written, Some(how)).await
    }

    /// Writes what was recorded, and gives the lease back where that is said.
    async fn write(&self, written: &mut u64, how: Option<Leave>) -> Result<(), StoreError> {
        let record = self.recording.take();
        if record.entries.is_empty() {
            let Some(how) = how else { return Ok(()) };
            let left = self.journal.store.leave(self.lease(), how).await;
            return left.inspect_err(|error| self.note(error));
        }
        let added = record.entries.len() as u64;
        let kept = match (self.journal.rows(&self.run, *written, &record), how) {
            (Ok(rows), how) => {
                self.unchecked.fetch_add(rows.bytes(), Ordering::Relaxed);
                let (store, lease) = (&self.journal.store, self.lease());
                match how {
                    None => store.append(lease, *written, rows).await,
                    Some(how) => store.append_and_leave(lease, *written, rows, how).await,
                }
            }
            (Err(error), _) => Err(error),
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
        self.leave(Leave::Done).await
    }

    /// Gives up the lease, so that any process may take the run over at once.
    ///
    /// # Errors
    /// If the store does not keep it.
    pub async fn release(&self) -> Result<(), StoreError> {
        self.leave(Leave::Released).await
    }

    /// Leaves the run until one of these calls is decided, or to a time in milliseconds since 1970.
    ///
    /// # Errors
    /// If the store does not keep it.
    pub async fn pause(&self, questions: &[(CallId, String)], wake: Option<u64>) -> Result<(), StoreError> {
        self.leave(self.paused(questions, wake)?).await
    }

    /// The same for a run whose worker waits: nothing is written until [`DurableRun::unpark`].
    ///
    /// # Errors
    /// If the store does not keep it. The run is not parked then.
    pub async fn park(&self, questions: &[(CallId, String)], wake: Option<u64>) -> Result<(), StoreError> {
        let paused = self.paused(questions, wake)?;
        let mut written = self.written.lock().await;
        // Before the lease is given back: a heartbeat that does not find it then must not take the run for lost.
        self.parked.send_replace(true);
        let left = self.write(&mut written, Some(paused)).await;
        if left.is_err() {
            self.parked.send_replace(false);
            // A heartbeat that has seen the run parked does not prolong its lease any more.
            self.hold_again();
        }
        left
    }

    /// Goes on with a parked run that was claimed under this lease. `false` when another process has had it in between: the record
    /// may have more than this one knows.
    pub async fn unpark(&self, lease: &Lease) -> bool {
        let _written = self.written.lock().await;
        let parked = self.lease();
        let is_next = self.is_parked() && lease.run == parked.run && lease.epoch == parked.epoch + 1;
        if is_next {
            self.epoch.store(lease.epoch, Ordering::Release);
            // The time since the last entry was the person's.
            self.recording.skip_time();
            self.parked.send_replace(false);
            self.hold_again();
        }
        is_next
    }

    fn hold_again(&self) {
        if let Some(run) = self.this.upgrade() {
            self.journal.hold(&run);
        }
    }

    fn paused(&self, questions: &[(CallId, String)], wake: Option<u64>) -> Result<Leave, StoreError> {
        let sealed = questions.iter().map(|(call, question)| {
            let sealed = self.journal.seal(&self.run, RowKind::Question(call.0), question.as_bytes())?;
            Ok((call.0, sealed))
        });
        Ok(Leave::Paused { calls: sealed.collect::<Result<_, StoreError>>()?, wake })
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

    /// Whether the runs of its caller that have not ended may take more bytes. Looked at now and then: a look reads a row of
    /// each of them.
    fn has_room(&self) -> Option<Durable> {
        let most = self.journal.max_open_bytes;
        if most == u64::MAX || self.unchecked.load(Ordering::Relaxed) < OPEN_BYTES_STEP {
            return None;
        }
        let run = self.this.upgrade()?;
        Some(Box::pin(async move {
            let used = run.journal.store.open_bytes(&run.run).await;
            let used = used.map_err(|error| NotDurable(error.to_string()))?;
            if used > most {
                return Err(NotDurable(StoreError::TooManyBytes { used, most }.to_string()));
            }
            run.unchecked.store(0, Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Writes in a task of its own: a call that is given up must not take entries with it. A record that is full is written as
    /// well: an effect that it does not have must not be sent before the store knows that the record is not the whole run.
    fn durable(&self) -> Durable {
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
        let (Some(has_room), Some(run)) = (self.has_room(), self.this.upgrade()) else { return self.durable() };
        Box::pin(async move {
            has_room.await?;
            run.durable().await
        })
    }

    fn before_reply(&self, id: CallId, state: CallState, body: Result<&str, &str>) -> Durable {
        self.recording.answered(id, state, body.map(str::as_bytes).map_err(str::as_bytes));
        self.durable()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Began, Journal};
    use super::*;
    use crate::recording::RunFacts;
    use crate::seal::Sealer;
    use crate::store::memory::MemoryStore;
    use std::time::Duration;
    use toolgate_wire::Profile;

    #[tokio::test]
    async fn a_run_that_could_not_be_parked_has_its_lease_prolonged_again() {
        let sealer = Sealer::new([1; 32]).expect("a key");
        let journal = Journal::new(Arc::new(MemoryStore::new()), sealer, "one".into(), Duration::from_secs(600));
        let facts = RunFacts {
            run: "run".into(),
            profile: Profile::Chain,
            code: "return 1".into(),
            caller: String::new(),
            request: None,
        };
        let Ok(Began::New(run)) = journal.begin(facts, None).await else { panic!("it is new") };
        // A heartbeat comes while the store is asked to keep the pause.
        run.parked.send_replace(true);
        assert!(run.journal.held().is_none());
        run.epoch.store(9, Ordering::Release);
        assert!(run.park(&[], None).await.is_err());
        assert_eq!(run.journal.held().map(|held| held.len()), Some(1));
    }
}
