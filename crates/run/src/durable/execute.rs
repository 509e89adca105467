//! One durable run: from its start or from its record to its end, its pause, or its next owner.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolgate_catalog::ToolRef;
use toolgate_engine::host::Target;
use toolgate_engine::transcript::Recorder;
use toolgate_journal::durable::{DurableRun, PendingCall, TakenOver};
use toolgate_journal::recording::Record;
use toolgate_journal::replay::{self, NoReplay, Replayable, SentCall};
use toolgate_journal::store::{Lease, StoreError};
use toolgate_wire::{CallId, CallState, CallerScope, Code, Failure, Outcome, Report};

use super::super::failed_runs::fix_hint;
use super::super::request::{Durability, PausedRun, RecordedRun, ReplayHost, Route, RunReport, RunRequest};
use super::super::{Counted, Readiness, Runner};
use super::approver::RunApprover;
use super::call_keys::{CallKeys, has_key};
use super::decision::{CallDecision, DecisionKind};
use super::gate::Gate;
use super::park::{Execution, Parked};
use super::parked::PrintedLines;
use super::schemas::hash_of;
use super::staged::{self, Reviewed};
use super::stored::StoredRequest;
use super::unsettled::{Settled, own_names};
use super::view::{PendingView, question_of};
use super::{DurableError, Inner, LiveRun};
use toolgate_bridge::{ScopedCatalog, is_annotated_read_only};

/// How long a run that is taken over waits for the backends that its program names: what is known of their tools decides
/// which calls may be made again.
const BACKEND_WAIT: Duration = Duration::from_secs(30);
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
    /// Somebody asked for its end.
    Aborted,
    /// It waits for a person.
    Paused,
    /// A person stopped it.
    Stopped,
    /// This process ends.
    Released,
}

/// The next execution of a run whose last one is over.
struct Next {
    how: GoesOn,
    /// How often its worker died.
    deaths: u32,
}

/// Why a run goes on here from its record.
enum GoesOn {
    /// It was claimed while it was parked.
    Claimed(Lease),
    /// Its worker died.
    Died(Arc<DurableRun>),
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
        let inner = self.clone();
        self.tasks.spawn(async move {
            work.await;
            {
                // Another task may have the run by now.
                let mut live = inner.live.lock();
                if live.get(&id).is_some_and(|live| Arc::ptr_eq(&live.task, &task)) {
                    live.remove(&id);
                }
            }
            inner.changed(&id);
            inner.due.notify_one();
        });
    }

    /// Executes a run from its start, and from its record as often as it goes on here.
    pub(super) async fn execute(&self, run: Arc<DurableRun>, request: RunRequest, stored: StoredRequest) {
        let next = self.perform(run, request, stored, None, 0).await;
        self.repeat(next).await;
    }

    /// Goes on with a run as often as it is to go on here. Nothing of an execution is kept during the next one.
    async fn repeat(&self, mut next: Option<Next>) {
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
    async fn perform(
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
        let (bridge, caller) = (self.runner.bridge.clone(), request.caller.clone());
        let gate = Gate::new(run.clone(), Box::new(move |target| hash_of(&bridge, &caller, target)));
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
        if let Some(live) = self.live.lock().get_mut(run.id()) {
            live.approver = Some(approver.clone());
        }
        let lines = PrintedLines::before(request.observer.clone());
        let request = RunRequest {
            id: Some(run.id().to_owned()),
            observer: Some(lines.clone()),
            recorder: Some(gate.clone()),
            approver: Some(staged::approver(&request, approver.clone())),
            keys: Some(CallKeys::new(self.journal.clone(), run.id())),
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
        report.report.elapsed = (report.report.elapsed + ran).saturating_sub(gate.waited());
        report.report.warnings.extend(request.kept.as_ref().and_then(|kept| kept.warning()));
        // A worker may also die before it has read the program, or while it repeats a record that ends with a failure.
        let has_failed = has_failed || (is_unknown && names_unknown(&report));
        let is_cut_off = report.route == Route::Script && !gate.has_ended() && is_runtime(&report) && !has_failed;
        if ended == Ended::ByItself && is_cut_off && deaths < MAX_WORKER_DEATHS {
            return Some(Next { how: GoesOn::Died(run), deaths: deaths + 1 });
        }
        // A worker that dies while its run is being ended from here changes nothing about the reason of that end.
        let is_ended_here = is_cut_off || is_aborted(&report);
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
            Ended::Stopped if is_ended_here => {
                let reason = approver.stopped().unwrap_or_default();
                let message = format!("a person stopped the run: {reason}");
                report.report.outcome = Outcome::Failed(Failure::new(Code::Aborted, message));
                self.finish(&run, &request.caller, stored.webhook.as_deref(), report).await;
            }
            Ended::Aborted if is_cut_off => {
                report.report.outcome = Outcome::Failed(Failure::new(Code::Aborted, "the run was aborted"));
                self.finish(&run, &request.caller, stored.webhook.as_deref(), report).await;
            }
            _ => self.finish(&run, &request.caller, stored.webhook.as_deref(), report).await,
        }
        None
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
                || !is_busy(&report, &self.runner)
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
        let Some(url) = webhooks.told_of_pause(webhook).map(str::to_owned) else { return };
        if pending.iter().any(is_new) {
            let (run, runs) = (run.to_owned(), self.runner.durable.clone());
            // Not one of the tasks that the end of the process waits for.
            tokio::spawn(async move {
                let decisions = webhooks.send_paused(&url, &run, &pending).await;
                if let Some(runs) = runs.get().filter(|_| !decisions.is_empty()) {
                    runs.decide_as_owner(&run, decisions).await;
                }
            });
        }
    }

    /// Leaves a run that was taken over until somebody decides what has to be decided before it goes on.
    async fn wait_for(&self, run: &DurableRun, questions: Vec<PendingView>) -> bool {
        let wake = questions.iter().map(|question| question.expires_at).min();
        let texts = questions.iter().map(|it| (CallId(it.call_id), it.stored()));
        let texts: Vec<(CallId, String)> = texts.collect();
        let paused = PausedRun { run_id: run.id().to_owned(), pending: questions.clone() };
        self.leave_paused(run, &texts, wake, questions, RunReport::waiting(paused)).await
    }

    /// Leaves a run until somebody decides. Where that cannot be written its lease ends, and it asks again.
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
    async fn finish(&self, run: &DurableRun, caller: &CallerScope, webhook: Option<&str>, mut report: RunReport) {
        let remark = run.remark();
        let is_whole = remark.is_none();
        report.report.warnings.extend(remark);
        self.runner.history.record_durable(caller, &report);
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
                let (webhooks, url, run) = (webhooks.clone(), url.to_owned(), run.id().to_owned());
                // Not one of the tasks that the end of the process waits for.
                tokio::spawn(async move { webhooks.send(&url, &run, &text).await });
            }
            (Ok(()), ..) => {}
        }
    }

    /// Goes on with a run that was taken over.
    pub(super) fn resume(self: &Arc<Self>, taken: TakenOver) {
        let inner = self.clone();
        let caller = taken.record.header().map(|header| header.caller.clone()).unwrap_or_default();
        let run = taken.run.clone();
        self.spawn(&run, caller, async move {
            let next = inner.go_on(taken, 0).await;
            inner.repeat(next).await;
        });
    }

    /// Goes on with a run from its record.
    async fn go_on(&self, taken: TakenOver, deaths: u32) -> Option<Next> {
        let TakenOver { record, run } = taken;
        let row = self.journal.row(run.id()).await.ok().flatten();
        let failed = |code: Code, message: String| Err(Failure::new(code, message));
        let (mut request, mut stored) = match self.request_of(&record) {
            Ok(found) => found,
            Err(failure) => {
                self.end_with(run, &record, None, failure).await;
                return None;
            }
        };
        let noted = stored.take_noted();
        if let Some(fixed) = &stored.fixes {
            let kept = match noted {
                Some(noted) => Ok(noted),
                None => self.effects_of(fixed).await,
            };
            match kept {
                Ok(kept) => {
                    kept.without(&record);
                    request.kept = Some(Arc::new(kept));
                }
                Err(error) if may_pass(&error) => {
                    tracing::warn!(run = run.id(), %error, "a run cannot go on here");
                    return None;
                }
                Err(error) => {
                    let message = format!("the run cannot go on without the record of the run {fixed}: {error}");
                    let failure = Failure::new(Code::Runtime, message);
                    self.end_with(run, &record, Some((request, stored)), failure).await;
                    return None;
                }
            }
        }
        if row.as_ref().is_some_and(|row| row.abort) {
            let failure = Failure::new(Code::Aborted, "the run was aborted");
            self.end_with(run, &record, Some((request, stored)), failure).await;
            return None;
        }
        let request = match self.reviewed(&run, &record, request).await {
            Reviewed::GoOn(request) => *request,
            Reviewed::Waits => return None,
            Reviewed::Ends(request, failure) => {
                self.end_with(run, &record, Some((*request, stored)), failure).await;
                return None;
            }
        };
        let resumed = if row.is_some_and(|row| row.abort) {
            failed(Code::Aborted, "the run was aborted".to_owned())
        } else {
            self.backends_known(&request).await;
            let asked = match self.journal.pending(run.id()).await {
                Ok(asked) => asked,
                // Its lease ends, and it is taken over again.
                Err(error) => {
                    tracing::warn!(run = run.id(), %error, "a run cannot go on here");
                    return None;
                }
            };
            match replay::resume(&record, &mut self.harmless(&request, &asked)) {
                Ok(mut replayable) => match self.settle(&record, &mut replayable, &request, &asked) {
                    Settled::GoOn => Ok(Some(replayable)),
                    Settled::Ask(questions) => {
                        if self.wait_for(&run, questions.clone()).await {
                            self.tell_paused(run.id(), stored.webhook.as_deref(), questions, &asked);
                        }
                        return None;
                    }
                    Settled::End(failure) => Err(failure),
                },
                Err(NoReplay::NotStarted) => Ok(None),
                Err(fault) => failed(Code::Runtime, format!("the run cannot go on after its process ended: {fault}")),
            }
        };
        match resumed {
            Ok(replayable) => {
                // It may be large, and a parked run lasts.
                drop(record);
                self.perform(run, request, stored, replayable, deaths).await
            }
            Err(failure) => {
                self.end_with(run, &record, Some((request, stored)), failure).await;
                None
            }
        }
    }

    /// The request of a record, with the rights that its caller has now.
    fn request_of(&self, record: &Record) -> Result<(RunRequest, StoredRequest), Failure> {
        let unreadable = || Failure::new(Code::Runtime, "the run cannot go on: its record has no request");
        let header = record.header().ok_or_else(unreadable)?;
        let text = |text| record.blobs.text(text).ok();
        let stored = header.request.as_ref().and_then(text).ok_or_else(unreadable)?;
        let stored: StoredRequest = serde_json::from_str(stored).map_err(|_| unreadable())?;
        let code = text(&header.code).ok_or_else(unreadable)?;
        let granted = stored.granted.as_ref().filter(|_| self.callers.admits_tokens());
        let caller = self.callers.scope(&header.caller).or_else(|| granted.map(|it| it.scope(&header.caller)));
        let caller = caller.ok_or_else(|| {
            let name = &header.caller;
            let message = match stored.granted {
                Some(_) => {
                    format!("the run cannot go on: {name} began it with a token, and tokens are not accepted any more")
                }
                None => format!("the run cannot go on: there is no key named {name} any more"),
            };
            Failure::new(Code::Unavailable, message)
        })?;
        let mut request = RunRequest { caller, ..stored.request(header.profile, code.to_owned()) };
        // Less may be configured now than when the run began.
        let configured = self.runner.limits(header.profile, &Default::default()).ok().and_then(|limits| limits.wall);
        request.limits.wall = request.limits.wall.map(|wall| configured.map_or(wall, |most| wall.min(most)));
        if let Some(names) = stored.function_names() {
            let all = self.runner.functions(&request.caller);
            let known: Vec<String> = all.names().into_iter().filter(|name| names.contains(name)).collect();
            request.functions = all.restricted(&known).ok();
        }
        Ok((request, stored))
    }

    /// Ends a run that cannot go on. The report has the calls that it had made.
    async fn end_with(
        &self,
        run: Arc<DurableRun>,
        record: &Record,
        request: Option<(RunRequest, StoredRequest)>,
        failure: Failure,
    ) {
        let profile = record.header().map(|header| header.profile).unwrap_or(toolgate_wire::Profile::Chain);
        let (request, webhook) = match request {
            Some((request, stored)) => (request, stored.webhook),
            None => (RunRequest::new(profile, ""), None),
        };
        let caller = request.caller.clone();
        let mut report = match replay::stopped(record, failure.clone()) {
            Ok(replayable) => {
                let recorded = Some(RecordedRun { replay: Arc::new(replayable.replay), host: ReplayHost::Tools });
                let id = Some(run.id().to_owned());
                let mut request = Box::new(RunRequest { id, recorded, durable: Durability::Durable, ..request });
                self.runner.perform(&mut request, Counted::No).await
            }
            Err(fault) => {
                let has_unrecorded_calls = fault != NoReplay::NotStarted;
                let report = Report::not_started(Outcome::Failed(failure), Duration::ZERO);
                RunReport::ended(run.id().to_owned(), Route::Refused, Report { has_unrecorded_calls, ..report })
            }
        };
        // What was called beyond the end of the record is not known.
        report.report.has_unrecorded_calls |= replay::is_truncated(record);
        self.finish(&run, &caller, webhook.as_deref(), report).await;
    }

    /// Waits until the tools of the backends that the program names are known.
    async fn backends_known(&self, request: &RunRequest) {
        let RunRequest { text, caller, .. } = request;
        self.runner.environment.wait_for_named(text, caller, Readiness::Known, BACKEND_WAIT).await;
    }

    /// Says of calls that were sent whether they may be made again.
    fn harmless<'a>(
        &'a self,
        request: &'a RunRequest,
        asked: &'a [PendingCall],
    ) -> impl FnMut(SentCall<'_>) -> bool + 'a {
        // Answers of an earlier run, each for one call.
        let mut answered: HashMap<(Target, String), usize> = HashMap::new();
        move |call| {
            if let Some(kept) = &request.kept {
                let used = answered.entry((call.target.clone(), call.args.to_owned())).or_default();
                if *used < kept.answers(call.target, call.args) {
                    *used += 1;
                    return true;
                }
            }
            // What a person edits is sent as it is, with or without a key.
            let target = own_names(&self.runner.bridge, call.target);
            self.is_harmless(call, &request.caller, is_edited(asked, &target))
        }
    }

    /// Whether a call may be made again: it reads, says that it may, or has an idempotency key.
    fn is_harmless(&self, call: SentCall<'_>, caller: &CallerScope, is_edited: bool) -> bool {
        let (backend, tool) = match call.target {
            Target::Tool { backend, tool } => (backend, tool),
            Target::Function(name) => {
                return self.runner.functions(caller).get(name).is_some_and(|function| function.is_idempotent());
            }
        };
        let catalog = self.runner.bridge.catalog();
        let view = ScopedCatalog::new(&catalog, &caller.backends, &caller.tools);
        let is_harmless = |tool: ToolRef<'_>| {
            is_annotated_read_only(tool) || tool.tool().is_idempotent() || (!is_edited && has_key(tool, call.args))
        };
        view.tool(backend, tool).is_some_and(is_harmless)
    }
}

/// Whether a person gave other arguments to a call of this target, by the names that its backend itself uses.
fn is_edited(asked: &[PendingCall], target: &Target) -> bool {
    let decision = |call: &PendingCall| serde_json::from_str::<CallDecision>(call.decision.as_deref()?).ok();
    let edits = asked.iter().filter(|call| decision(call).is_some_and(|it| it.decision == DecisionKind::Edit));
    edits.filter_map(question_of).any(|question| question.is_of(target))
}

/// Whether what is wrong may be right later.
fn may_pass(error: &DurableError) -> bool {
    match error {
        DurableError::Busy => true,
        DurableError::Store(error) => !matches!(error, StoreError::NoSuchRun(_) | StoreError::Damaged(_)),
        _ => false,
    }
}

/// Names `fix_run` where a program failed after it had an effect.
fn add_fix_hint(report: &mut RunReport) {
    if let (Some(fix), Outcome::Failed(failure)) = (fix_hint(report), &mut report.report.outcome) {
        failure.hint = Some(failure.hint.take().map_or(fix.clone(), |hint| format!("{hint}; {fix}")));
    }
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

/// Whether the program was not started because too many others are waiting.
fn is_busy(report: &RunReport, runner: &Runner) -> bool {
    let unavailable = report.report.failure().is_some_and(|failure| failure.code == Code::Unavailable);
    unavailable && !runner.engine.is_disposed() && !runner.engine.lacks(None)
}
