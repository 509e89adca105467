//! One durable run: from its start or from its record to its end, its pause, or its next owner.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolgate_catalog::ToolRef;
use toolgate_engine::host::Target;
use toolgate_journal::durable::{DurableRun, PendingCall, TakenOver};
use toolgate_journal::recording::Record;
use toolgate_journal::replay::{self, NoReplay, Replayable};
use toolgate_journal::store::StoreError;
use toolgate_wire::{CallId, CallState, CallerScope, Code, Failure, Outcome, Report};

use super::super::request::{Durability, PausedRun, RecordedRun, ReplayHost, Route, RunReport, RunRequest};
use super::super::{Counted, Readiness, Runner};
use super::approver::RunApprover;
use super::call_keys::{CallKeys, proves_idempotency};
use super::gate::Gate;
use super::kept_effects::KeptEffects;
use super::schemas::hash_of;
use super::staged::{self, Reviewed};
use super::stored::StoredRequest;
use super::unsettled::Settled;
use super::view::PendingView;
use super::{Inner, LiveRun};
use crate::bridge::{ScopedCatalog, is_annotated_read_only};

/// How long a run that is taken over waits for the backends that its program names: what is known of their tools decides
/// which calls may be made again.
const BACKEND_WAIT: Duration = Duration::from_secs(30);
/// The silence of a program after which a run is paused whose calls all wait for a person.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// How long a call waits for a person before the run is paused although other calls are open.
const PAUSE_PATIENCE: Duration = Duration::from_secs(2);
/// Between two attempts to run a program, or to write its end.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Attempts to start a program while too many others wait.
const MAX_ATTEMPTS: u32 = 480;
/// How often a program is begun again whose worker died, each time from its record. One that kills its worker itself does so again.
const MAX_WORKER_DEATHS: u32 = 3;
/// Attempts to write the end of a run. After them its lease ends, and it is repeated from its record.
const MAX_FINISH_ATTEMPTS: u32 = 40;

/// Why the engine's run was ended from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// It was not.
    ByItself,
    /// Another process has the run.
    Lost,
    /// Somebody asked for its end.
    Aborted,
    /// It waits for a person.
    Paused,
    /// A person stopped it.
    Stopped,
    /// This process ends.
    Released,
}

impl Inner {
    /// Does the work of a run in a task of its own.
    pub(super) fn spawn(
        self: &Arc<Self>,
        run: &Arc<DurableRun>,
        caller: String,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = run.id().to_owned();
        self.live.lock().insert(id.clone(), LiveRun { caller, run: run.clone(), approver: None });
        let inner = self.clone();
        self.tasks.spawn(async move {
            work.await;
            inner.live.lock().remove(&id);
            inner.changed(&id);
            inner.due.notify_one();
        });
    }

    /// Executes a run; `replay` is what it repeats first.
    pub(super) async fn perform(
        &self,
        run: Arc<DurableRun>,
        request: RunRequest,
        stored: StoredRequest,
        replay: Option<Replayable>,
        deaths: u32,
    ) {
        let has_failed = replay.as_ref().is_some_and(Replayable::has_failed);
        let is_unknown = replay.as_ref().is_some_and(Replayable::is_unknown);
        let ran = replay.as_ref().map_or(Duration::ZERO, |replay| replay.ran);
        let recorded = replay.map(|Replayable { mut replay, .. }| {
            replay.left = Some(stored.wall().saturating_sub(ran));
            RecordedRun { replay: Arc::new(replay), host: ReplayHost::Tools }
        });
        let Some(request) = self.rehearsed(&run, request, stored.webhook.as_deref()).await else { return };
        let (bridge, caller) = (self.runner.bridge.clone(), request.caller.clone());
        let gate = Gate::new(run.clone(), Box::new(move |target| hash_of(&bridge, &caller, target)));
        // A run from its start has no questions yet.
        let asked = if recorded.is_some() { self.journal.pending(run.id()).await } else { Ok(Vec::new()) };
        let asked = match asked {
            Ok(asked) => asked,
            Err(error) => return tracing::warn!(run = run.id(), %error, "a run cannot go on here"),
        };
        self.remember_again(run.id(), &request.caller.name, &asked);
        let after = staged::last_line(&request);
        let approver = RunApprover::new(run.clone(), self.journal.clone(), gate.clone(), &asked, after);
        if let Some(live) = self.live.lock().get_mut(run.id()) {
            live.approver = Some(approver.clone());
        }
        let request = RunRequest {
            id: Some(run.id().to_owned()),
            recorder: Some(gate.clone()),
            approver: Some(staged::approver(&request, approver.clone())),
            keys: Some(CallKeys::new(self.journal.clone(), run.id())),
            durable: Durability::Durable,
            recorded,
            ..request
        };
        let (ended, mut report) = self.until_end(&run, &gate, &request).await;
        report.report.elapsed += ran;
        let left_over = request.kept.as_ref().map(|kept| kept.left_over()).unwrap_or_default();
        if !left_over.is_empty() {
            let run = request.kept.as_ref().map(|kept| kept.run()).unwrap_or_default();
            let left_over = left_over.join(", ");
            report.report.warnings.push(format!("done by the run {run} and not called by this one: {left_over}"));
        }
        // A worker may also die before it has read the program, or while it repeats a record that ends with a failure.
        let has_failed = has_failed || (is_unknown && names_unknown(&report));
        let is_cut_off = report.route == Route::Script && !gate.has_ended() && is_runtime(&report) && !has_failed;
        if ended == Ended::ByItself && is_cut_off && deaths < MAX_WORKER_DEATHS {
            return self.begin_again(run, deaths + 1).await;
        }
        match ended {
            Ended::Lost => {}
            Ended::Released if is_aborted(&report) => self.release(&run).await,
            // Every question was decided while the program came to it again: there is nothing to wait for.
            Ended::Paused if is_aborted(&report) && approver.waiting().is_empty() => self.release(&run).await,
            Ended::Paused if is_aborted(&report) => {
                let pending = approver.waiting();
                if self.pause(&run, &approver, report).await {
                    self.tell_paused(run.id(), stored.webhook.as_deref(), pending, &asked);
                }
            }
            Ended::Stopped if is_aborted(&report) => {
                let reason = approver.stopped().unwrap_or_default();
                let message = format!("a person stopped the run: {reason}");
                report.report.outcome = Outcome::Failed(Failure::new(Code::Aborted, message));
                self.finish(&run, &request.caller, stored.webhook.as_deref(), report).await;
            }
            _ => self.finish(&run, &request.caller, stored.webhook.as_deref(), report).await,
        }
    }

    /// Executes a program until it ends or has to stop here.
    async fn until_end(&self, run: &DurableRun, gate: &Gate, request: &RunRequest) -> (Ended, RunReport) {
        let mut attempts = 0;
        loop {
            let cancel = CancellationToken::new();
            let request = RunRequest { cancel: cancel.clone(), ..request.clone() };
            let mut performing = std::pin::pin!(self.runner.perform(request, Counted::No));
            let stopping = async {
                let ended = tokio::select! {
                    () = run.lost().cancelled() => return Ended::Lost,
                    () = run.aborted().cancelled() => return Ended::Aborted,
                    () = gate.stopped() => return Ended::Stopped,
                    () = gate.wants_pause(SETTLE_TIME, PAUSE_PATIENCE) => Ended::Paused,
                    () = self.stop.cancelled() => Ended::Released,
                };
                gate.close().await;
                ended
            };
            let (ended, report) = tokio::select! {
                report = &mut performing => (Ended::ByItself, report),
                ended = stopping => {
                    cancel.cancel();
                    (ended, performing.await)
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

    /// Goes on with a run whose worker died, from its record: a call that was being made then is unsure, as after a crash.
    async fn begin_again(&self, run: Arc<DurableRun>, deaths: u32) {
        tracing::warn!(run = run.id(), deaths, "the worker of a durable run died");
        run.stop_clock();
        // Whatever killed it may have killed those that wait for programs too: the engine needs a moment for others.
        tokio::time::sleep(RETRY_INTERVAL * deaths).await;
        let record = match run.flush().await {
            Ok(()) => self.journal.load(run.id()).await,
            Err(error) => Err(error),
        };
        match record {
            Ok(record) => Box::pin(self.go_on(TakenOver { record, run }, deaths)).await,
            // Its lease ends, and it is taken over.
            Err(error) => tracing::warn!(run = run.id(), %error, "a run cannot go on here"),
        }
    }

    pub(super) async fn release(&self, run: &DurableRun) {
        if let Err(error) = run.release().await {
            tracing::warn!(run = run.id(), %error, "a run is taken over only when its lease ends");
        }
    }

    /// Leaves a run until somebody decides. Where that cannot be written its lease ends, and it asks again.
    async fn pause(&self, run: &DurableRun, approver: &RunApprover, report: RunReport) -> bool {
        let (questions, wake) = approver.questions();
        self.leave_paused(run, &questions, wake, approver.waiting(), report).await
    }

    /// Tells the caller's URL that a run waits, where it waits for something that was not asked about before.
    pub(super) fn tell_paused(
        &self,
        run: &str,
        webhook: Option<&str>,
        pending: Vec<PendingView>,
        known: &[PendingCall],
    ) {
        let is_new = |question: &PendingView| known.iter().all(|call| call.call.0 != question.call_id);
        let (Some(webhooks), Some(url)) = (self.settings.webhooks.clone(), webhook.map(str::to_owned)) else { return };
        if pending.iter().any(is_new) {
            let run = run.to_owned();
            // Not one of the tasks that the end of the process waits for.
            tokio::spawn(async move { webhooks.send_paused(&url, &run, &pending).await });
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
        report.report.warnings.extend(run.remark());
        self.runner.history.record_durable(caller, &report);
        add_fix_hint(&mut report);
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
        self.spawn(&run, caller, async move { inner.go_on(taken, 0).await });
    }

    async fn go_on(&self, taken: TakenOver, deaths: u32) {
        let TakenOver { record, run } = taken;
        let row = self.journal.row(run.id()).await.ok().flatten();
        let failed = |code: Code, message: String| Err(Failure::new(code, message));
        let (mut request, stored) = match self.request_of(&record) {
            Ok(found) => found,
            Err(failure) => return self.end_with(run, &record, None, failure).await,
        };
        if let Some(fixed) = &stored.fixes {
            match self.journal.load(fixed).await {
                Ok(earlier) => {
                    let kept = KeptEffects::of(fixed, &earlier);
                    kept.without(&record);
                    request.kept = Some(kept);
                }
                Err(error) => {
                    let message = format!("the run cannot go on without the record of the run {fixed}: {error}");
                    let failure = Failure::new(Code::Runtime, message);
                    return self.end_with(run, &record, Some((request, stored)), failure).await;
                }
            }
        }
        if row.as_ref().is_some_and(|row| row.abort) {
            let failure = Failure::new(Code::Aborted, "the run was aborted");
            return self.end_with(run, &record, Some((request, stored)), failure).await;
        }
        let request = match self.reviewed(&run, &record, request).await {
            Reviewed::GoOn(request) => *request,
            Reviewed::Waits => return,
            Reviewed::Ends(request, failure) => {
                return self.end_with(run, &record, Some((*request, stored)), failure).await;
            }
        };
        let resumed = if row.is_some_and(|row| row.abort) {
            failed(Code::Aborted, "the run was aborted".to_owned())
        } else {
            self.backends_known(&request).await;
            match replay::resume(&record, &|target| self.is_harmless(target, &request.caller)) {
                Ok(mut replayable) => match self.journal.pending(run.id()).await {
                    Ok(asked) => match self.settle(&record, &mut replayable, &request.caller, &asked) {
                        Settled::GoOn => Ok(Some(replayable)),
                        Settled::Ask(questions) => {
                            if self.wait_for(&run, questions.clone()).await {
                                self.tell_paused(run.id(), stored.webhook.as_deref(), questions, &asked);
                            }
                            return;
                        }
                        Settled::End(failure) => Err(failure),
                    },
                    // Its lease ends, and it is taken over again.
                    Err(error) => return tracing::warn!(run = run.id(), %error, "a run cannot go on here"),
                },
                Err(NoReplay::NotStarted) => Ok(None),
                Err(fault) => failed(Code::Runtime, format!("the run cannot go on after its process ended: {fault}")),
            }
        };
        match resumed {
            Ok(replayable) => self.perform(run, request, stored, replayable, deaths).await,
            Err(failure) => self.end_with(run, &record, Some((request, stored)), failure).await,
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
        let report = match replay::stopped(record, failure.clone()) {
            Ok(replayable) => {
                let recorded = Some(RecordedRun { replay: Arc::new(replayable.replay), host: ReplayHost::Tools });
                let id = Some(run.id().to_owned());
                let request = RunRequest { id, recorded, durable: Durability::Durable, ..request };
                self.runner.perform(request, Counted::No).await
            }
            Err(_) => {
                let report = Report::not_started(Outcome::Failed(failure), Duration::ZERO);
                RunReport::ended(run.id().to_owned(), Route::Refused, report)
            }
        };
        self.finish(&run, &caller, webhook.as_deref(), report).await;
    }

    /// Waits until the tools of the backends that the program names are known.
    async fn backends_known(&self, request: &RunRequest) {
        let RunRequest { text, caller, .. } = request;
        self.runner.environment.wait_for_named(text, caller, Readiness::Known, BACKEND_WAIT).await;
    }

    /// Whether a call of this target may be made again: it reads, says that it may, or takes an idempotency key.
    fn is_harmless(&self, target: &Target, caller: &CallerScope) -> bool {
        let (backend, tool) = match target {
            Target::Tool { backend, tool } => (backend, tool),
            Target::Function(name) => {
                return self.runner.functions(caller).get(name).is_some_and(|function| function.is_idempotent());
            }
        };
        let catalog = self.runner.bridge.catalog();
        let view = ScopedCatalog::new(&catalog, &caller.backends, &caller.tools);
        let is_harmless = |tool: ToolRef<'_>| {
            is_annotated_read_only(tool) || is_annotated_idempotent(tool) || proves_idempotency(tool)
        };
        view.tool(backend, tool).is_some_and(is_harmless)
    }
}

/// Whether the server says that calling the tool again with the same arguments changes nothing more.
fn is_annotated_idempotent(tool: ToolRef<'_>) -> bool {
    tool.tool().raw()["annotations"]["idempotentHint"] == serde_json::Value::Bool(true)
}

/// Names `fix_run` where a program failed after it had an effect.
fn add_fix_hint(report: &mut RunReport) {
    let effects = report.report.calls.iter().filter(|call| !call.read_only && call.state == CallState::Applied).count();
    let (id, outcome) = (&report.id, &mut report.report.outcome);
    if let Outcome::Failed(failure) = outcome
        && effects > 0
        && failure.code != Code::Aborted
    {
        let fix = format!(
            "fix_run({{ run_id: \"{id}\", code }}) runs a corrected program and keeps the {effects} effects of this run"
        );
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
