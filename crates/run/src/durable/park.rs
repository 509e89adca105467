//! Lets a run wait for a person with its worker, and goes on with it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use toolgate_engine::transcript::Recorder;
use toolgate_journal::durable::{DurableRun, PendingCall};
use toolgate_journal::store::Lease;
use toolgate_wire::{CallRecord, CallerScope, Code, Failure, Outcome, Report, Target};

use super::super::request::{PausedRun, Route, RunReport, RunRequest};
use super::Inner;
use super::approver::RunApprover;
use super::callers::GrantedScope;
use super::decision::CallDecision;
use super::execute::Ended;
use super::gate::Gate;
use super::parked::{PrintedLines, Wake};
use super::schemas::hash_of;
use super::view::PendingView;

/// How long the worker of a run does nothing before it is parked.
const IDLE_TIME: Duration = Duration::from_millis(10);

/// Who decided that a decision also holds for other calls, if one does.
fn remembered_by(asked: &[PendingCall]) -> Option<String> {
    let mut decisions =
        asked.iter().filter_map(|call| serde_json::from_str::<CallDecision>(call.decision.as_deref()?).ok());
    decisions.find(|decision| decision.remember.is_some()).map(|decision| decision.by)
}

/// One execution of a program, and what it needs to wait for a person.
pub(super) struct Execution<'a> {
    pub(super) run: &'a Arc<DurableRun>,
    pub(super) gate: &'a Gate,
    pub(super) approver: &'a RunApprover,
    pub(super) lines: &'a PrintedLines,
    pub(super) webhook: Option<&'a str>,
    /// How long the program had run before this execution.
    pub(super) ran: Duration,
    pub(super) since: Instant,
}

/// What becomes of a run that is to be paused.
pub(super) enum Parked {
    /// It waited with its worker, and goes on with it.
    GoesOn,
    /// The engine's run is over already.
    Over(Ended, Box<RunReport>),
    /// The engine's run is to be ended.
    End(Ended),
}

impl Inner {
    /// Lets a run whose gate is closed wait with its worker, where its program does nothing but await what is asked about.
    pub(super) async fn park(
        &self,
        execution: &Execution<'_>,
        request: &RunRequest,
        asked: &mut Vec<PendingCall>,
        mut performing: Pin<&mut impl Future<Output = RunReport>>,
    ) -> Parked {
        let Execution { run, gate, approver, .. } = *execution;
        let pending = approver.waiting();
        // Read once: a call that is denied or expires from here on is still a question of the pause, so that the run is due. A
        // pause without questions would have no end.
        let (questions, expires) = approver.questions();
        let may_wait = !self.settings.park_time.is_zero() && !self.stop.is_cancelled();
        let is_asked = !pending.is_empty() && !questions.is_empty();
        if !may_wait || !is_asked || approver.awaits_login() || !gate.may_park(IDLE_TIME).await {
            return Parked::End(Ended::Paused);
        }
        let memory = self.memory_of(request).saturating_add(run.recorded_bytes());
        let Some(mut wake) = self.parked.park(run.id(), memory) else {
            return Parked::End(Ended::Paused);
        };
        let schemas = self.schemas(&request.caller, gate.calls());
        gate.park();
        if let Err(error) = run.park(&questions, expires).await {
            tracing::debug!(run = run.id(), %error, "a run is not parked");
            self.parked.leave(run.id());
            return Parked::End(Ended::Paused);
        }
        self.set_parked(run, true);
        self.tell_parked(execution, pending, asked);
        let loan = self.runner.engine.lend_turn();
        let woken = tokio::select! {
            biased;
            woken = &mut wake => woken.ok(),
            report = &mut performing => return self.ended_while_parked(execution, report, wake).await,
            () = tokio::time::sleep(self.settings.park_time) => None,
            () = self.stop.cancelled() => None,
            () = self.dropped.cancelled() => None,
        };
        drop(loan);
        let lease = match woken {
            Some(Wake::Claimed(lease)) => Some(lease),
            Some(Wake::Evicted) => None,
            None => self.leave_place(run.id(), wake).await,
        };
        let Some(lease) = lease else {
            // Nothing of the worker is written any more: the next claim of the run replays its record.
            run.lost().cancel();
            return Parked::End(Ended::Lost);
        };
        let is_same = self.has_rights(&request.caller) && self.schemas(&request.caller, gate.calls()) == schemas;
        if is_same && gate.has_waiting_worker().await && self.unpark(execution, request, &lease, asked).await {
            return Parked::GoesOn;
        }
        run.lost().cancel();
        Parked::End(Ended::Claimed(lease))
    }

    /// Gives a place up; the lease where the run was claimed at the same moment.
    async fn leave_place(&self, run: &str, wake: oneshot::Receiver<Wake>) -> Option<Lease> {
        if self.parked.leave(run) {
            return None;
        }
        match wake.await {
            Ok(Wake::Claimed(lease)) => Some(lease),
            Ok(Wake::Evicted) | Err(_) => None,
        }
    }

    /// The engine's run ended while it waited: the program did not need the call, or its worker died.
    async fn ended_while_parked(
        &self,
        execution: &Execution<'_>,
        report: RunReport,
        wake: oneshot::Receiver<Wake>,
    ) -> Parked {
        let Execution { run, gate, .. } = *execution;
        let mut lease = self.leave_place(run.id(), wake).await;
        if gate.has_ended() && lease.is_none() {
            lease = self.journal.claim(Some(run.id()), Vec::new()).await.ok().flatten();
        }
        let ended = match lease {
            // It is paused in the store, and goes on from its record.
            None => Ended::Lost,
            Some(lease) if gate.has_ended() && run.unpark(&lease).await => {
                self.set_parked(run, false);
                return Parked::Over(Ended::ByItself, Box::new(report));
            }
            Some(lease) => Ended::Claimed(lease),
        };
        run.lost().cancel();
        Parked::Over(ended, Box::new(report))
    }

    /// Goes on with the worker of a run that this process has claimed. `false` when its record may have more than the worker knows,
    /// or it is to be aborted.
    async fn unpark(
        &self,
        execution: &Execution<'_>,
        request: &RunRequest,
        lease: &Lease,
        asked: &mut Vec<PendingCall>,
    ) -> bool {
        let Execution { run, gate, approver, .. } = *execution;
        let Ok(Some((row, decided))) = self.journal.look_at(run.id()).await else { return false };
        // The gate stays closed: an approved call must not be sent any more. The record ends the run.
        if row.abort || run.aborted().is_cancelled() || !run.unpark(lease).await {
            return false;
        }
        *asked = decided;
        self.remember_again(run.id(), &request.caller.name, asked);
        approver.decided_elsewhere(asked);
        self.answer_by_remembered(run.id(), request, approver, asked, &approver.waiting()).await;
        self.set_parked(run, false);
        gate.open();
        self.changed(run.id());
        true
    }

    /// Answers questions that wait by an approval of this run that is remembered, where one holds for them. The answers are
    /// decisions like others: the first about a call holds.
    pub(super) async fn answer_by_remembered(
        &self,
        run: &str,
        request: &RunRequest,
        approver: &RunApprover,
        asked: &[PendingCall],
        waiting: &[PendingView],
    ) {
        let Some(by) = remembered_by(asked).filter(|_| !waiting.is_empty()) else { return };
        let decided = self.approved_by_others(run, &request.caller.name, request.profile, &by, waiting).await;
        decided.into_iter().for_each(|decision| approver.decided(decision));
    }

    /// Those who wait for the run hear that it is paused, and what it did so far.
    fn tell_parked(&self, execution: &Execution<'_>, pending: Vec<PendingView>, asked: &[PendingCall]) {
        let Execution { run, gate, lines, webhook, ran, since, .. } = *execution;
        let outcome = Outcome::Failed(Failure::new(Code::Aborted, "the run waits for a person"));
        let elapsed = (ran + since.elapsed()).saturating_sub(gate.waited());
        let report = Report { calls: gate.calls(), logs: lines.so_far(), ..Report::not_started(outcome, elapsed) };
        let paused = Some(PausedRun { run_id: run.id().to_owned(), pending: pending.clone() });
        self.ends.tell(&RunReport { paused, ..RunReport::ended(run.id().to_owned(), Route::Script, report) });
        self.tell_paused(run.id(), webhook, pending, asked);
        self.changed(run.id());
        self.due.notify_one();
    }

    /// A parked run is none that is executed.
    fn set_parked(&self, run: &Arc<DurableRun>, is_parked: bool) {
        if let Some(live) = self.live.lock().get_mut(run.id()).filter(|live| Arc::ptr_eq(&live.run, run)) {
            live.is_parked = is_parked;
        }
    }

    /// The memory that the program may use.
    fn memory_of(&self, request: &RunRequest) -> u64 {
        let granted = self.runner.limits(request.profile, &request.limits).ok();
        let resolved = granted.and_then(|granted| granted.resolve(request.profile).ok());
        resolved.map_or(u64::MAX, |resolved| resolved.limits.memory)
    }

    /// Whether a caller has the rights now that it had when its run began here.
    fn has_rights(&self, caller: &CallerScope) -> bool {
        match self.callers.scope(&caller.name) {
            Some(now) => GrantedScope::of(&now) == GrantedScope::of(caller),
            None => self.callers.admits_tokens(),
        }
    }

    /// Hashes of the schemas of the tools that were called.
    fn schemas(&self, caller: &CallerScope, calls: Vec<CallRecord>) -> HashMap<Target, Option<String>> {
        let mut schemas = HashMap::new();
        for call in calls {
            let hash = |target: &Target| hash_of(&self.runner.bridge, caller, target);
            schemas.entry(call.target).or_insert_with_key(hash);
        }
        schemas
    }
}
