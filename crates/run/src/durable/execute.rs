//! One durable run: from its start or from its record to its end, its pause, or its next owner.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolgate_bridge::approvals::Approver;
use toolgate_engine::transcript::Recorder;
use toolgate_journal::durable::{DurableRun, PendingCall, TakenOver};
use toolgate_journal::replay::Replayable;
use toolgate_journal::store::{Lease, StoreError};
use toolgate_wire::{CallId, CallState, Code, Failure, Outcome};

use super::super::Counted;
use super::super::failed_runs::fix_hint;
use super::super::request::{Durability, PausedRun, RecordedRun, ReplayHost, Route, RunReport, RunRequest};
use super::approver::RunApprover;
use super::call_keys::CallKeys;
use super::foreseen::Foresight;
use super::gate::Gate;
use super::go_on::lacks_effects;
use super::park::{Execution, Parked};
use super::parked::PrintedLines;
use super::schemas::hash_of;
use super::staged;
use super::stored::StoredRequest;
use super::view::{PendingView, undecided};
use super::webhook::{Message, Webhooks};
use super::{Inner, LiveRun};

/// The silence of a program after which a run is paused whose calls all wait for a person.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// How long a call waits for a person before the run is paused although other calls are open.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two attempts to run a program, or to write its end.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Attempts to start a program while too many others wait.
const MAX_ATTEMPTS: u32 = 480;
/// How often a program is begun again whose worker died, each time from its record. One that kills its worker itself does so again.
const MAX_WORKER_DEATHS: u32 = 3;
/// How often a run is left to other gateways because its interpreter is missing here, and of how many runs that is known.
const MAX_TIMES_LEFT: u32 = 12;
const MAX_LEFT_RUNS: usize = 1024;
/// Attempts to write the end of a run. After them its lease ends, and it is repeated from its record.
const MAX_FINISH_ATTEMPTS: u32 = 40;

/// Why the engine's run was ended from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was not.
    ByItself,
    /// Another process has the run, or the next one to claim it will: nothing more is written here.
    Lost,
    /// The run was claimed by this process, and its record is to be repeated: it may have more than the worker knows.
    Claimed(Lease),
    /// A request asked for its end.
    Aborted,
    /// It waits for a person.
    Paused,
    /// A person stopped it.
    Stopped,
    /// This process ends.
    Released,
}

/// The next execution of a run whose last one is over.
pub(super) struct Next {
    how: GoesOn,
    /// How often its worker died.
    deaths: u32,
}

/// Why a run goes on here from its record.
pub(super) enum GoesOn {
    /// It was claimed while it was parked.
    Claimed(Lease),
    /// Its worker died.
    Died(Arc<DurableRun>),
}

/// A run's place among those that are executed here. Given up when it is dropped, also where the run's task panics: its lease
/// ends then, and it is taken over.
struct LivePlace {
    inner: Arc<Inner>,
    run: String,
    task: Arc<()>,
}

impl Drop for LivePlace {
    fn drop(&mut self) {
        let LivePlace { inner, run, task } = self;
        {
            // Another task may have the run by now.
            let mut live = inner.live.lock();
            if live.get(run).is_some_and(|live| Arc::ptr_eq(&live.task, task)) {
                live.remove(run);
            }
        }
        inner.changed(run);
        inner.due.notify_one();
    }
}

impl Inner {
    /// Does the work of a run in a task of its own.
    pub(super) fn spawn(
        self: &Arc<Self>,
        run: &Arc<DurableRun>,
        caller: String,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let (id, task) = (run.id().to_owned(), Arc::new(()));
        self.live.lock().insert(
            id.clone(),
            LiveRun { caller, run: run.clone(), approver: None, is_parked: false, task: task.clone() },
        );
        let place = LivePlace { inner: self.clone(), run: id, task };
        self.tasks.spawn(async move {
            work.await;
            drop(place);
        });
    }

    /// Executes a run from its start, and from its record as often as it goes on here.
    pub(super) async fn execute(&self, run: Arc<DurableRun>, request: RunRequest, stored: StoredRequest) {
        let next = self.perform(run, request, stored, None, 0).await;
        self.repeat(next).await;
    }

    /// Goes on with a run as often as it is to go on here. Nothing of an execution is kept during the next one.
    pub(super) async fn repeat(&self, mut next: Option<Next>) {
        while let Some(Next { how, deaths }) = next {
            let taken = match how {
                GoesOn::Claimed(lease) => self.own(lease).await,
                GoesOn::Died(run) => self.begin_again(run, deaths).await,
            };
            next = match taken {
                Ok(taken) => self.go_on(taken, deaths).await,
                // Its lease ends, and it is taken over.
                Err(error) => return tracing::warn!(%error, "a run cannot go on here"),
            };
        }
    }

    /// Executes a run once; `replay` is what it repeats first.
    pub(super) async fn perform(
        &self,
        run: Arc<DurableRun>,
        request: RunRequest,
        stored: StoredRequest,
        replay: Option<Replayable>,
        deaths: u32,
    ) -> Option<Next> {
        let has_failed = replay.as_ref().is_some_and(Replayable::has_failed);
        let is_unknown = replay.as_ref().is_some_and(Replayable::is_unknown);
        let ran = replay.as_ref().map_or(Duration::ZERO, |replay| replay.ran);
        let recorded = replay.map(|Replayable { mut replay, .. }| {
            replay.left = Some(stored.wall().saturating_sub(ran));
            RecordedRun { replay: Arc::new(replay), host: ReplayHost::Tools }
        });
        let request = self.rehearsed(&run, request, stored.webhook.as_deref()).await?;
        let keys = CallKeys::new(self.journal.clone(), run.id(), stored.keys);
        let gate = self.gate(&run, &request, &keys);
        // A run from its start has no questions yet.
        let asked = if recorded.is_some() { self.journal.pending(run.id()).await } else { Ok(Vec::new()) };
        let mut asked = match asked {
            Ok(asked) => asked,
            Err(error) => {
                tracing::warn!(run = run.id(), %error, "a run cannot go on here");
                return None;
            }
        };
        if let Some(recorded) = &recorded {
            gate.repeats(&recorded.replay);
        }
        self.remember_again(run.id(), &request.caller.name, &asked);
        let after = staged::last_line(&request);
        let approver = RunApprover::new(run.clone(), self.journal.clone(), gate.clone(), &asked, after);
        self.answer_by_remembered(run.id(), &request, &approver, &asked, &undecided(&asked)).await;
        if let Some(live) = self.live.lock().get_mut(run.id()) {
            live.approver = Some(approver.clone());
        }
        let lines = PrintedLines::before(request.observer.clone());
        let request = RunRequest {
            id: Some(run.id().to_owned()),
            observer: Some(lines.clone()),
            recorder: Some(gate.clone()),
            approver: Some(staged::approver(&request, approver.clone())),
            keys: Some(keys),
            durable: Durability::Durable,
            recorded,
            ..request
        };
        let webhook = stored.webhook.as_deref();
        let execution = Execution {
            run: &run,
            gate: &gate,
            approver: &approver,
            lines: &lines,
            webhook,
            ran,
            since: Instant::now(),
        };
        let (ended, mut report) = self.until_end(&execution, &request, &mut asked).await;
        let is_partial = request.recorded.as_ref().is_some_and(|it| lacks_effects(&report.report, &it.replay));
        report.report.has_unrecorded_calls |= is_partial;
        report.report.elapsed = (report.report.elapsed + ran).saturating_sub(gate.waited());
        request.kept.iter().for_each(|kept| kept.mark(&mut report));
        note_decisions(&mut report, &gate, &approver);
        // A worker may also die before it has read the program, or while it repeats a record that ends with a failure.
        let has_failed = has_failed || (is_unknown && names_unknown(&report));
        let is_cut_off = report.route == Route::Script && !gate.has_ended() && is_runtime(&report) && !has_failed;
        if ended == Ended::ByItself && is_cut_off && deaths < MAX_WORKER_DEATHS {
            return Some(Next { how: GoesOn::Died(run), deaths: deaths + 1 });
        }
        let may_leave = ended == Ended::ByItself && request.recorded.is_some();
        if may_leave && self.leaves_to_others(run.id(), &request, &report) {
            tracing::warn!(run = run.id(), "a run is left to a gateway that has its interpreter");
            return None;
        }
        // A worker that dies while its run is being ended from here changes nothing about the reason of that end.
        let is_ended_here = is_cut_off || is_aborted(&report);
        let reason = match ended {
            Ended::Aborted => Some(aborted()),
            Ended::Stopped | Ended::ByItself => approver.stopped(),
            Ended::Lost | Ended::Claimed(_) | Ended::Paused | Ended::Released => None,
        };
        if let Some(failure) = reason.filter(|_| is_ended_here) {
            report.report.outcome = Outcome::Failed(failure);
        }
        match ended {
            Ended::Lost => {}
            Ended::Claimed(lease) => return Some(Next { how: GoesOn::Claimed(lease), deaths }),
            Ended::Released if is_ended_here => self.release(&run).await,
            Ended::Paused if is_ended_here => {
                let (pending, (questions, wake)) = (approver.waiting(), approver.questions());
                if pending.is_empty() || questions.is_empty() {
                    // Every question was decided while the program came to it again: there is nothing to wait for.
                    self.release(&run).await;
                } else if self.leave_paused(&run, &questions, wake, pending.clone(), report).await {
                    self.tell_paused(run.id(), stored.webhook.as_deref(), pending, &asked);
                }
            }
            _ => self.finish(&run, &request, stored.webhook.as_deref(), report).await,
        }
        None
    }

    /// Whether the program was not started because too many others are waiting.
    fn is_busy(&self, request: &RunRequest, report: &RunReport) -> bool {
        let engine = &self.runner.engine;
        is_unavailable(report) && !engine.is_disposed() && !engine.lacks(request.engine)
    }

    /// Whether a run that was taken over is left to another gateway, because its interpreter is missing here. Its lease ends, and every
    /// gateway with the store may have it before this one takes it back. One that comes back too often ends here.
    fn leaves_to_others(&self, run: &str, request: &RunRequest, report: &RunReport) -> bool {
        if !is_unavailable(report) || !self.runner.engine.lacks(request.engine) {
            return false;
        }
        let mut left = self.left.lock();
        if left.len() >= MAX_LEFT_RUNS {
            left.clear();
        }
        let times = left.entry(run.to_owned()).or_default();
        *times += 1;
        *times <= MAX_TIMES_LEFT
    }

    /// The recorder of a run, which looks at its calls before they are made.
    fn gate(&self, run: &Arc<DurableRun>, request: &RunRequest, keys: &CallKeys) -> Arc<Gate> {
        let (bridge, caller) = (self.runner.bridge.clone(), request.caller.clone());
        let foresight = Foresight::new(&self.runner, request, keys.clone(), run.id());
        Gate::new(
            run.clone(),
            Box::new(move |target| hash_of(&bridge, &caller, target)),
            Box::new(move |call, target, args| foresight.expected(call, target, args)),
        )
    }

    /// Owns a run that a parked worker was claimed for.
    async fn own(&self, lease: Lease) -> Result<TakenOver, StoreError> {
        let taken = self.journal.own(lease).await?;
        if let Some(live) = self.live.lock().get_mut(taken.run.id()) {
            (live.run, live.approver, live.is_parked) = (taken.run.clone(), None, false);
        }
        Ok(taken)
    }

    /// Executes a program until it ends or has to stop here.
    async fn until_end(
        &self,
        execution: &Execution<'_>,
        request: &RunRequest,
        asked: &mut Vec<PendingCall>,
    ) -> (Ended, RunReport) {
        let Execution { run, gate, .. } = *execution;
        let mut attempts = 0;
        loop {
            let cancel = CancellationToken::new();
            let request = RunRequest { cancel: cancel.clone(), ..request.clone() };
            let mut executed = Box::new(request.clone());
            let mut performing = std::pin::pin!(self.runner.perform(&mut executed, Counted::No));
            let stopping = || async {
                let ended = tokio::select! {
                    () = run.lost().cancelled() => return Ended::Lost,
                    () = run.aborted().cancelled() => return Ended::Aborted,
                    () = gate.stopped() => return Ended::Stopped,
                    () = gate.wants_pause(SETTLE_TIME, PAUSE_TIMEOUT) => Ended::Paused,
                    () = self.stop.cancelled() => Ended::Released,
                };
                gate.close().await;
                ended
            };
            let (ended, report) = loop {
                let ended = tokio::select! {
                    report = &mut performing => break (Ended::ByItself, report),
                    ended = stopping() => ended,
                };
                let parked = match ended {
                    Ended::Paused => self.park(execution, &request, asked, performing.as_mut()).await,
                    _ => Parked::End(ended),
                };
                match parked {
                    Parked::GoesOn => {}
                    Parked::Over(ended, report) => break (ended, *report),
                    Parked::End(ended) => {
                        cancel.cancel();
                        break (ended, performing.await);
                    }
                }
            };
            attempts += 1;
            if ended != Ended::ByItself
                || gate.has_begun()
                || !self.is_busy(&request, &report)
                || attempts > MAX_ATTEMPTS
            {
                return (ended, report);
            }
            // Too many others wait. Nothing has begun: the run keeps its place in the store and tries again.
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// The record of a run whose worker died: a call that was being made then is unsure, as after a crash.
    async fn begin_again(&self, run: Arc<DurableRun>, deaths: u32) -> Result<TakenOver, StoreError> {
        tracing::warn!(run = run.id(), deaths, "the worker of a durable run died");
        run.stop_clock();
        // Whatever killed it may have killed those that wait for programs too: the engine needs a moment for others.
        tokio::time::sleep(RETRY_INTERVAL * deaths).await;
        run.flush().await?;
        let record = self.journal.load(run.id()).await?;
        Ok(TakenOver { record, run })
    }

    pub(super) async fn release(&self, run: &DurableRun) {
        if let Err(error) = run.release().await {
            tracing::warn!(run = run.id(), %error, "a run is taken over only when its lease ends");
        }
    }

    /// Tells the run's URL, or that of the configuration, that a run waits, where it waits for something that was not asked about
    /// before. What it answers may decide.
    pub(super) fn tell_paused(
        &self,
        run: &str,
        webhook: Option<&str>,
        pending: Vec<PendingView>,
        known: &[PendingCall],
    ) {
        let is_new = |question: &PendingView| known.iter().all(|call| call.call.0 != question.call_id);
        let Some(webhooks) = self.settings.webhooks.clone() else { return };
        let Some(url) = webhooks.told_of_pause(webhook) else { return };
        if let Some(message) = Message::of_pause(url, run, &pending).filter(|_| pending.iter().any(is_new)) {
            self.tell(&webhooks, run, message);
        }
    }

    /// Sends a webhook in a task of its own, which the end of the process does not wait for.
    fn tell(&self, webhooks: &Arc<Webhooks>, run: &str, message: Message) {
        let caller = self.live.lock().get(run).map(|live| live.caller.clone()).unwrap_or_default();
        let Some(delivering) = webhooks.begin_delivery(&caller) else {
            return tracing::warn!(run, "the webhook of a run is not sent: too many others are being sent");
        };
        let (webhooks, run, runs) = (webhooks.clone(), run.to_owned(), self.runner.durable.clone());
        tokio::spawn(async move {
            let decisions = webhooks.send(message).await;
            drop(delivering);
            if let Some(runs) = runs.get().filter(|_| !decisions.is_empty()) {
                runs.decide_as_owner(&run, decisions).await;
            }
        });
    }

    /// Leaves a run that was taken over until what has to be decided before it goes on is decided.
    pub(super) async fn wait_for(&self, run: &DurableRun, questions: Vec<PendingView>) -> bool {
        let wake = questions.iter().map(|question| question.expires_at).min();
        let texts = questions.iter().map(|it| (CallId(it.call_id), it.stored()));
        let texts: Vec<(CallId, String)> = texts.collect();
        let paused = PausedRun { run_id: run.id().to_owned(), pending: questions.clone() };
        self.leave_paused(run, &texts, wake, questions, RunReport::waiting(paused)).await
    }

    /// Leaves a run until a decision is made. Where that cannot be written its lease ends, and it asks again.
    async fn leave_paused(
        &self,
        run: &DurableRun,
        questions: &[(CallId, String)],
        wake: Option<u64>,
        pending: Vec<PendingView>,
        report: RunReport,
    ) -> bool {
        let mut kept = run.pause(questions, wake).await;
        for _ in 0..MAX_FINISH_ATTEMPTS {
            match &kept {
                Ok(()) | Err(StoreError::Fenced(_) | StoreError::NoSuchRun(_)) => break,
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
            kept = run.pause(questions, wake).await;
        }
        match kept {
            Ok(()) => {
                let paused = Some(PausedRun { run_id: run.id().to_owned(), pending });
                self.ends.tell(&RunReport { paused, ..report });
                true
            }
            Err(error) => {
                tracing::warn!(run = run.id(), %error, "a run could not be paused");
                false
            }
        }
    }

    /// Writes the end of a run. A store that is gone is asked again for a while.
    pub(super) async fn finish(
        &self,
        run: &DurableRun,
        request: &RunRequest,
        webhook: Option<&str>,
        mut report: RunReport,
    ) {
        let remark = run.remark();
        let is_whole = remark.is_none();
        report.report.warnings.extend(remark);
        report.is_durable = true;
        self.runner.history.record_durable(request.door, &request.caller, &report);
        if is_whole && self.settings.names_fix {
            add_fix_hint(&mut report);
        }
        let text = match serde_json::to_string(&report) {
            Ok(text) => text,
            Err(error) => return tracing::error!(run = run.id(), %error, "a report cannot be written"),
        };
        let mut kept = run.finish(&text).await;
        for _ in 0..MAX_FINISH_ATTEMPTS {
            match &kept {
                Ok(()) | Err(StoreError::Fenced(_) | StoreError::NoSuchRun(_)) => break,
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
            kept = run.finish_again().await;
        }
        self.ends.tell(&report);
        match (kept, &self.settings.webhooks, webhook) {
            (Err(error), ..) => tracing::warn!(run = run.id(), %error, "the end of a run was not kept"),
            (Ok(()), Some(webhooks), Some(url)) => {
                if let Some(message) = Message::of_end(url, run.id(), &text) {
                    self.tell(webhooks, run.id(), message);
                }
            }
            (Ok(()), ..) => {}
        }
    }
}

/// Names `fix_run` where a program failed after it had an effect.
fn add_fix_hint(report: &mut RunReport) {
    if let (Some(fix), Outcome::Failed(failure)) = (fix_hint(report), &mut report.report.outcome) {
        failure.hint = Some(failure.hint.take().map_or(fix.clone(), |hint| format!("{hint}; {fix}")));
        report.names_fix = true;
    }
}

fn is_unavailable(report: &RunReport) -> bool {
    report.report.failure().is_some_and(|failure| failure.code == Code::Unavailable)
}

fn is_runtime(report: &RunReport) -> bool {
    report.report.failure().is_some_and(|failure| failure.code == Code::Runtime)
}

/// Whether the report has a call whose effect is unknown.
fn names_unknown(report: &RunReport) -> bool {
    report.report.calls.iter().any(|call| call.state == CallState::Unknown)
}

fn is_aborted(report: &RunReport) -> bool {
    report.report.failure().is_some_and(|failure| failure.code == Code::Aborted)
}

/// Says what a person decided about calls that have no answer: the engine tells decisions with answers.
fn note_decisions(report: &mut RunReport, gate: &Gate, approver: &RunApprover) {
    for (call, place) in gate.open_calls() {
        if let Some(record) = report.report.calls.get_mut(place).filter(|record| record.decision.is_none()) {
            record.decision = approver.answered(call).map(Box::new);
        }
    }
}

/// How a run ends that a request aborted.
pub(super) fn aborted() -> Failure {
    Failure::new(Code::Aborted, "the run was aborted")
}
