//! Runs that outlive their process: begun in a store, executed here, taken over by another process after a crash.
//!
//! A durable run is an ordinary run with a recorder that writes to a store (see `toolgate_journal`). Its caller
//! gets its id at once; the run goes on whether or not the caller stays. Every process with the same store takes over
//! runs whose owner is gone: it repeats what is recorded and goes on.
//!
//! # Layout
//! - `stored`: what is kept of a request
//! - `gate`: the recorder, which can stop a run between two effects; `foreseen`: which calls are not sent as they are made
//! - `execute`: one run, from its start or from its record, to its end; `go_on`: from the record to what is executed
//! - `park`: lets a run wait for a person with its worker; `parked`: the runs that do, and their bounds
//! - `take_over`: finds runs that are due; `unsettled`: what is to be decided before one goes on; `schemas`: what its tools were
//! - `call_keys`: idempotency keys of calls
//! - `kept_effects`: a corrected program that keeps what an earlier run has done; `fork`: a run from the beginning of another one
//! - `staged`: runs whose writes are reviewed before they are sent
//! - `approver`: asks people about calls; `decision`: what they decided
//! - `ends`: who waits for the end of a run; `error`: why a run is not begun, found or decided
//! - `view`: what a caller sees of its runs; `events`: what happens in one; `webhook`: tells a URL of its end; `deliveries`: how many are told at one time
//! - `waiting`: what waits for a decision of one caller
//! - `repeated`: a run as a cassette, and again without tools; `reading`: bytes of records that are read at one time
//! - `callers`: who a run belongs to; `open`: the store of a configuration

mod approver;
mod call_keys;
mod callers;
mod decision;
mod deliveries;
mod ends;
mod error;
mod events;
mod execute;
mod foreseen;
mod fork;
mod gate;
mod go_on;
mod kept_effects;
mod open;
mod park;
mod parked;
mod reading;
mod repeated;
mod repeated_member;
mod schemas;
mod staged;
mod stored;
mod take_over;
#[cfg(test)]
mod tests;
mod unsettled;
mod view;
mod waiting;
mod webhook;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolgate_journal::durable::{Began, DurableRun, Journal};
use toolgate_journal::recording::{Record, RunFacts};
use toolgate_journal::store::{Prune, RunRow, StoreError};
use toolgate_wire::{BytePermit, Code, Failure, Outcome, Report};

use super::Runner;
use super::request::{PausedRun, Route, RunReport, RunRequest};
use approver::RunApprover;
use callers::GrantedScope;
use ends::{NextEnd, RunEnds};
use parked::ParkedRuns;
use reading::Reading;
use stored::StoredRequest;

pub use call_keys::CallKeys;
pub(super) use call_keys::{KeyedHost, filled_argument, with_sample_key};
pub use callers::{Callers, LocalCaller, fairness_of, scope_of_key};
pub use decision::{CallDecision, DecisionKind};
pub use error::DurableError;
pub use events::{RunEvent, RunEvents, events_of};
pub use fork::ForkedRun;
pub use kept_effects::KeptEffects;
pub(super) use kept_effects::KeptHost;
pub use open::{OpenError, journal_of};
pub use repeated::Replayed;
pub use toolgate_config::values::UnknownCalls;
pub use toolgate_journal::store::{RunStatus, StoreError as StoreFault};
pub(crate) use toolgate_journal::unix_ms;
pub(super) use unsettled::own_names;
pub use view::{About, ListRuns, PendingView, RawJson, RunList, RunSummary, RunView, StagedView, undecided};
pub use waiting::{WaitingRun, WaitingRuns};
pub use webhook::Webhooks;

/// Durable runs that one process executes at one time.
const MAX_LIVE: usize = 64;
/// Of these, runs of one caller: others get a turn.
const MAX_LIVE_OF_CALLER: usize = 32;
/// Changes that a slow listener may fall behind by; it looks into the store then.
const MAX_CHANGES_BEHIND: usize = 1024;

/// How often the store is asked about a run whose report is waited for and that is not executed here.
const ELSEWHERE_INTERVAL: Duration = Duration::from_secs(1);

/// Gives the values that are secrets now, which are taken out of what leaves this machine. May block.
pub type SecretSource = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// How durable runs are kept.
#[derive(Clone)]
pub struct DurableSettings {
    /// How often this process looks for runs that are due.
    pub look_interval: Duration,
    /// Which runs are forgotten.
    pub retention: Prune,
    /// Tells callers of the end of their runs, where that is configured.
    pub webhooks: Option<Arc<Webhooks>>,
    /// What becomes of a run with a call whose effect is unknown.
    pub unknown_calls: UnknownCalls,
    /// How long a run that waits for a person keeps its worker; none does when this is zero.
    pub park_time: Duration,
    /// Whether the report of a run that failed after an effect names `fix_run`: the run is there when that is called.
    pub names_fix: bool,
    /// What is replaced by stand-ins in cassettes.
    pub secrets: SecretSource,
}

impl Default for DurableSettings {
    fn default() -> Self {
        let retention = Prune { older_than: Some(Duration::from_secs(7 * 86_400)), max_bytes: Some(1 << 30) };
        DurableSettings {
            look_interval: Duration::from_millis(300),
            retention,
            webhooks: None,
            unknown_calls: UnknownCalls::Auto,
            park_time: parked::PARK_TIME,
            names_fix: true,
            secrets: Arc::new(Vec::new),
        }
    }
}

/// A run that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunRun {
    /// Its id.
    pub run: String,
    /// Where it is in its life.
    pub status: RunStatus,
    /// Whether an earlier request with the same idempotency key had begun it.
    pub is_repeated: bool,
}

/// The durable runs of one process. Clones are the same; runs go on until all are dropped or [`DurableRuns::stop`] is
/// called.
#[derive(Clone)]
pub struct DurableRuns(Arc<Inner>, #[expect(dead_code, reason = "acts when the last one is dropped")] Arc<DropGuard>);

struct Inner {
    journal: Journal,
    runner: Runner,
    callers: Arc<dyn Callers>,
    settings: DurableSettings,
    /// Runs that this process executes.
    live: Mutex<HashMap<String, LiveRun>>,
    /// Who waits in this process for the end or the pause of a run.
    ends: RunEnds,
    /// The ids of runs whose status changed here.
    changes: broadcast::Sender<Arc<str>>,
    /// Runs that wait for a person with their worker.
    parked: ParkedRuns,
    /// Cancelled when the runs are not used any more; parked workers end then.
    dropped: CancellationToken,
    users: Mutex<Weak<DropGuard>>,
    /// How often runs were left to other gateways, by their ids.
    left: Mutex<HashMap<String, u32>>,
    /// Wakes the task that looks for runs that are due.
    due: Notify,
    /// Counts records that are read for callers.
    reading: Reading,
    /// When this process began with them, in milliseconds since 1970.
    began: u64,
    stop: CancellationToken,
    tasks: TaskTracker,
}

struct LiveRun {
    caller: String,
    run: Arc<DurableRun>,
    /// Once the program is executed.
    approver: Option<Arc<RunApprover>>,
    /// It waits for a person, and only its worker is here.
    is_parked: bool,
    /// The task that has it.
    task: Arc<()>,
}

/// Where a runner finds the durable runs of its process.
#[derive(Clone, Default)]
pub(super) struct DurableSlot(Arc<Mutex<Weak<Inner>>>);

impl DurableSlot {
    pub(super) fn get(&self) -> Option<DurableRuns> {
        let inner = self.0.lock().upgrade()?;
        let users = inner.users.lock().upgrade()?;
        Some(DurableRuns(inner, users))
    }
}

impl DurableRuns {
    /// Durable runs in this journal, executed by this runner, whose requests may ask for durability from now on. Takes
    /// over runs that are due. Needs a Tokio runtime.
    pub fn start(journal: Journal, runner: Runner, callers: Arc<dyn Callers>, settings: DurableSettings) -> Self {
        let dropped = CancellationToken::new();
        let users = Arc::new(dropped.clone().drop_guard());
        let inner = Arc::new(Inner {
            parked: ParkedRuns::default(),
            dropped,
            users: Mutex::new(Arc::downgrade(&users)),
            journal,
            callers,
            settings,
            live: Mutex::default(),
            ends: RunEnds::default(),
            changes: broadcast::channel(MAX_CHANGES_BEHIND).0,
            left: Mutex::default(),
            due: Notify::new(),
            reading: Reading::default(),
            began: unix_ms(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runner,
        });
        *inner.runner.durable.0.lock() = Arc::downgrade(&inner);
        inner.tasks.spawn(take_over::watch(Arc::downgrade(&inner), inner.stop.clone()));
        DurableRuns(inner, users)
    }

    /// The journal behind it.
    pub fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// Begins a run, which goes on by itself. Requests of one caller with the same idempotency key are one run.
    ///
    /// # Errors
    /// If the request asks for too much, or the store cannot keep the run.
    pub async fn begin(
        &self,
        request: RunRequest,
        idempotency: Option<&str>,
        webhook: Option<String>,
    ) -> Result<BegunRun, DurableError> {
        let inner = &self.0;
        if inner.stop.is_cancelled() {
            return Err(DurableError::Stopping);
        }
        if webhook.is_some() && inner.settings.webhooks.is_none() {
            return Err(DurableError::NoWebhooks);
        }
        let granted = inner.runner.limits(request.profile, &request.limits)?;
        let limits = granted.resolve(request.profile)?.limits;
        let wall = limits.wall;
        let length = request.text.chars().count() as u64;
        if length > limits.code {
            return Err(DurableError::TooLong { length, most: limits.code });
        }
        let request = staged::seeded(staged::by_rule(&inner.runner, request));
        let mut stored = StoredRequest::of(&request, wall, webhook);
        if inner.callers.scope(&request.caller.name).is_none() {
            stored.granted = Some(GrantedScope::of(&request.caller));
        }
        let facts = RunFacts {
            run: request.id.clone().unwrap_or_else(super::execution_id),
            profile: request.profile,
            code: request.text.clone(),
            caller: request.caller.name.clone(),
            request: serde_json::to_string(&stored).ok(),
        };
        // It is in the record now, and the request has its own.
        drop(stored.take_carried());
        let run = match inner.journal.begin(facts, idempotency).await? {
            Began::New(run) => run,
            Began::Existing { run } => {
                let row = inner.journal.row(&run).await?.ok_or_else(|| StoreError::NoSuchRun(run.clone()))?;
                return Ok(BegunRun { run, status: row.status, is_repeated: true });
            }
        };
        let begun = BegunRun { run: run.id().to_owned(), status: RunStatus::Running, is_repeated: false };
        if inner.has_room_for(&request.caller.name) {
            let (caller, own) = (request.caller.name.clone(), inner.clone());
            inner.spawn(&run.clone(), caller, async move { own.execute(run, request, stored).await });
        } else {
            // It has its turn when another one has ended, here or elsewhere. It is kept: where it cannot be released, its lease ends.
            inner.release(&run).await;
            inner.due.notify_one();
        }
        Ok(begun)
    }

    /// Begins a run and waits until it has ended or is paused. The run goes on when the future is dropped, and is aborted
    /// when the request is withdrawn.
    pub(super) async fn run(&self, request: RunRequest) -> RunReport {
        match self.run_until(request, std::future::pending::<Infallible>()).await {
            Ok(report) => report,
            Err(never) => match never {},
        }
    }

    /// The same, and waits no longer than this for the end once the run has begun: then it goes on, and there is no report.
    pub async fn run_for(&self, request: RunRequest, within: Duration) -> Option<RunReport> {
        self.run_until(request, tokio::time::sleep(within)).await.ok()
    }

    async fn run_until<T>(&self, request: RunRequest, until: impl Future<Output = T>) -> Result<RunReport, T> {
        let kept = request.kept.clone();
        let awaited = match self.start_run(request).await {
            Ok(awaited) => awaited,
            Err(error) => return Ok(not_begun(&error, kept.as_deref())),
        };
        tokio::select! {
            biased;
            report = self.report_of(awaited) => Ok(report),
            late = until => Err(late),
        }
    }

    /// Begins a run that is waited for.
    pub(super) async fn start_run(&self, request: RunRequest) -> Result<AwaitedRun, DurableError> {
        let id = request.id.clone().unwrap_or_else(super::execution_id);
        let withdrawn = request.withdrawn.clone();
        let end = self.0.ends.next_of(&id);
        let begun = self.begin_once(RunRequest { id: Some(id.clone()), ..request }).await?;
        if begun.is_repeated {
            return Ok(AwaitedRun { id: begun.run, end: None, _withdrawn: None });
        }
        let _withdrawn = withdrawn.map(|withdrawn| self.abort_when(&id, withdrawn));
        Ok(AwaitedRun { id, end: Some(end), _withdrawn })
    }

    /// The report of a run at its end or its pause.
    pub(super) async fn report_of(&self, awaited: AwaitedRun) -> RunReport {
        let AwaitedRun { id, end, _withdrawn } = awaited;
        match end {
            Some(end) => self.end_of(&id, end).await,
            None => handle(&id, self.pending_of(&id).await),
        }
    }

    /// Begins a run. A run is corrected once: what a second request for it would do again is kept from the first correction, so that
    /// one is corrected instead. A correction that waits for a person is the answer to such a request.
    async fn begin_once(&self, request: RunRequest) -> Result<BegunRun, DurableError> {
        let Some(mut kept) = request.kept.clone() else { return self.begin(request, None, None).await };
        self.first_correction(&kept, &request.caller.name).await?;
        loop {
            let key = correction_key(kept.run());
            let correction = RunRequest { kept: Some(kept.clone()), ..request.clone() };
            let begun = self.begin(correction, Some(&key), None).await?;
            if kept.is_in_memory() {
                self.0.runner.failed_runs.corrected_by(kept.run(), &request.caller.name, &begun.run);
            }
            match (begun.is_repeated, begun.status) {
                (false, _) | (true, RunStatus::Paused) => return Ok(begun),
                (true, RunStatus::Running) => {
                    return Err(DurableError::BeingCorrected { run: kept.run().to_owned(), by: begun.run });
                }
                // What that one was to keep is what this one has: only its own record is read.
                (true, RunStatus::Done) => {
                    let wanted = kept.run().to_owned();
                    kept = Arc::new(self.0.effects_after(Some(&kept), &begun.run, &wanted).await?);
                }
            }
        }
    }

    /// A run that only this process knows is corrected by durable runs from now on. If the first of them is forgotten, what it did
    /// is not known.
    async fn first_correction(&self, kept: &KeptEffects, caller: &str) -> Result<(), DurableError> {
        if !kept.is_in_memory() {
            return Ok(());
        }
        self.0.runner.failed_runs.lasts(kept.run(), caller);
        kept.end_turn();
        let Some(correction) = kept.correction() else { return Ok(()) };
        let row = self.0.journal.row(correction).await?;
        let forgotten = || DurableError::Forgotten { run: kept.run().to_owned(), earlier: correction.to_owned() };
        row.map(drop).ok_or_else(forgotten)
    }

    /// The calls of a run that wait for a person.
    async fn pending_of(&self, run: &str) -> Vec<PendingView> {
        self.view(run, None).await.map(|view| view.pending).unwrap_or_default()
    }

    /// Aborts a run when its request is withdrawn, until the guard is dropped.
    fn abort_when(&self, run: &str, withdrawn: CancellationToken) -> DropGuard {
        let ended = CancellationToken::new();
        let (runs, run, guard) = (self.clone(), run.to_owned(), ended.clone().drop_guard());
        // A task of its own: the future that waits for the run may be dropped with the request.
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = withdrawn.cancelled() => {
                    if let Err(error) = runs.abort(&run, None).await {
                        tracing::warn!(run, %error, "a run that was cancelled cannot be aborted");
                    }
                }
                () = ended.cancelled() => {}
            }
        });
        guard
    }

    /// Decides calls of a run on behalf of this caller, and waits until it has ended or is paused again.
    ///
    /// # Errors
    /// As [`DurableRuns::decide`].
    pub async fn decide_and_wait(
        &self,
        run: &str,
        caller: &str,
        decisions: Vec<CallDecision>,
        withdrawn: &CancellationToken,
    ) -> Result<RunReport, DurableError> {
        let end = self.0.ends.next_of(run);
        self.decide(run, Some(caller), decisions).await?;
        let _withdrawn = self.abort_when(run, withdrawn.clone());
        Ok(self.end_of(run, end).await)
    }

    /// The report of a run at its next end or pause in this process, if that comes in time.
    pub async fn next_end(&self, run: &str, within: Duration) -> Option<RunReport> {
        let mut end = self.0.ends.next_of(run);
        tokio::time::timeout(within, end.report()).await.ok()?
    }

    async fn end_of(&self, id: &str, mut end: NextEnd) -> RunReport {
        let elsewhere = async {
            // Another process has taken the run: only the store knows how it ends.
            loop {
                tokio::time::sleep(ELSEWHERE_INTERVAL).await;
                let is_live = self.0.live.lock().get(id).is_some_and(|live| !live.is_parked);
                let view = if is_live { None } else { self.view(id, None).await.ok() };
                // A paused run whose calls are all decided is about to go on.
                let is_over = |view: &RunView| match view.summary.status {
                    RunStatus::Done => true,
                    RunStatus::Paused => !view.pending.is_empty(),
                    RunStatus::Running => false,
                };
                if let Some(view) = view.filter(is_over) {
                    return view;
                }
            }
        };
        tokio::select! {
            biased;
            Some(report) = end.report() => report,
            view = elsewhere => handle(id, view.pending),
        }
    }

    /// Ends a run: one that is executed is stopped, and a paused one is never taken up again.
    ///
    /// # Errors
    /// If there is no such run of this caller, or the store cannot be reached.
    pub async fn abort(&self, run: &str, caller: Option<&str>) -> Result<RunStatus, DurableError> {
        let row = self.own(run, caller).await?;
        if row.status == RunStatus::Done {
            return Ok(RunStatus::Done);
        }
        self.0.journal.store().abort(run).await?;
        if let Some(live) = self.0.live.lock().get(run) {
            live.run.aborted().cancel();
        }
        self.0.due.notify_one();
        Ok(row.status)
    }

    /// What a run of this caller has done, for a corrected program that keeps it.
    ///
    /// # Errors
    /// If there is no such run, it has not ended, or cannot be read.
    pub async fn kept_effects(&self, run: &str, caller: Option<&str>) -> Result<Arc<KeptEffects>, DurableError> {
        let row = self.own(run, caller).await?;
        if row.status != RunStatus::Done {
            return Err(DurableError::NotEnded(run.to_owned()));
        }
        self.0.effects_of(run).await.map(Arc::new)
    }

    /// Executes nothing more. What runs is given to other processes: after what was sent is answered, or after `grace`.
    pub async fn stop(&self, grace: Duration) {
        self.0.stop.cancel();
        self.0.tasks.close();
        if tokio::time::timeout(grace, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("durable runs are left to be taken over, with calls that were not answered");
        }
    }
}

/// The idempotency key of the corrections of a run. No header of HTTP has such a byte, so no caller can choose it.
fn correction_key(run: &str) -> String {
    format!("\u{0}fix {run}")
}

/// A run that was begun and is waited for.
pub(super) struct AwaitedRun {
    id: String,
    /// `None` where an earlier request had begun it.
    end: Option<NextEnd>,
    /// Aborts it when its request is withdrawn.
    _withdrawn: Option<DropGuard>,
}

/// The report of a run that was not begun. One that there is no room for now is reported like one that the engine has no room for.
pub(super) fn not_begun(error: &DurableError, kept: Option<&KeptEffects>) -> RunReport {
    let refused = RunReport::refused(code_of(error), error.to_string());
    let mut report = RunReport { route: if error.is_busy() { Route::Script } else { Route::Refused }, ..refused };
    // A correction that was not begun has called nothing of what was done.
    report.report.has_unrecorded_calls |= kept.is_some_and(KeptEffects::has_left);
    report
}

/// How a run that could not begin has failed.
fn code_of(error: &DurableError) -> Code {
    match error {
        DurableError::TooLong { .. } => Code::InvalidCode,
        _ => Code::Unavailable,
    }
}

/// The report of a run that this process did not see to its end.
fn handle(id: &str, pending: Vec<PendingView>) -> RunReport {
    let failure = Failure::new(Code::Aborted, "the run goes on elsewhere");
    let report = Report::not_started(Outcome::Failed(failure), Duration::ZERO);
    let paused = Some(PausedRun { run_id: id.to_owned(), pending });
    RunReport { paused, ..RunReport::ended(id.to_owned(), Route::Script, report) }
}

impl Inner {
    /// The record of a run, when there is room for it: records of many megabytes are read one after the other. The permit
    /// is to be kept as long as the record.
    async fn read(&self, row: &RunRow) -> Result<(Record, BytePermit), DurableError> {
        let bytes = usize::try_from(row.bytes).unwrap_or(usize::MAX);
        let permit = self.reading.reserve(&row.caller, bytes).await.ok_or(DurableError::Busy)?;
        Ok((self.journal.load(&row.run).await?, permit))
    }

    /// Whether one more run of this caller may be executed here.
    fn has_room_for(&self, caller: &str) -> bool {
        let live = self.live.lock();
        let running = || live.values().filter(|run| !run.is_parked);
        running().count() < MAX_LIVE && running().filter(|run| run.caller == caller).count() < MAX_LIVE_OF_CALLER
    }

    /// Callers who have as many runs here as one may have; `None` when no run may be added at all.
    fn busy_callers(&self) -> Option<Vec<String>> {
        let live = self.live.lock();
        if live.values().filter(|run| !run.is_parked).count() >= MAX_LIVE {
            return None;
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for run in live.values().filter(|run| !run.is_parked) {
            *counts.entry(run.caller.as_str()).or_default() += 1;
        }
        let busy = counts.into_iter().filter(|(_, count)| *count >= MAX_LIVE_OF_CALLER);
        Some(busy.map(|(caller, _)| caller.to_owned()).collect())
    }

    fn changed(&self, run: &str) {
        // Without listeners nothing happens.
        let _ = self.changes.send(run.into());
        self.runner.history.durable_changed();
    }
}
