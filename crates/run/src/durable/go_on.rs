//! Goes on with a run from its record, or ends one that cannot go on.
//!
//! What a run may do again is decided here; how it is executed is in `execute`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use toolgate_bridge::{ScopedCatalog, is_annotated_read_only};
use toolgate_catalog::ToolRef;
use toolgate_engine::host::Target;
use toolgate_engine::transcript::{Replay, StepEvent};
use toolgate_journal::durable::{DurableRun, PendingCall, TakenOver};
use toolgate_journal::entry::Event;
use toolgate_journal::recording::Record;
use toolgate_journal::replay::{self, NoReplay, SentCall};
use toolgate_journal::store::StoreError;
use toolgate_wire::{CallerScope, Code, Failure, FromWorker, Limit, LimitRequest, Outcome, Report};

use super::super::door::Door;
use super::super::request::{Durability, RecordedRun, ReplayHost, Route, RunReport, RunRequest};
use super::super::{Counted, Readiness};
use super::call_keys::{KeyForm, has_key};
use super::decision::{CallDecision, DecisionKind};
use super::execute::{Next, aborted};
use super::kept_effects::{Called, called};
use super::schemas::hash_of;
use super::staged::Reviewed;
use super::stored::StoredRequest;
use super::unsettled::{Settled, calls_of, own_names, schema_then};
use super::view::question_of;
use super::{DurableError, Inner};

/// How long a run that is taken over waits for the backends that its program names, and then for those that it has called: what is
/// known of their tools decides which calls may be made again.
const BACKEND_WAIT: Duration = Duration::from_secs(30);

impl Inner {
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
    pub(super) async fn go_on(&self, taken: TakenOver, deaths: u32) -> Option<Next> {
        let TakenOver { record, run } = taken;
        let row = match self.journal.row(run.id()).await {
            Ok(row) => row,
            // Whether it was aborted is not known. Its lease ends, and it is taken over again.
            Err(error) => {
                tracing::warn!(run = run.id(), %error, "a run cannot go on here");
                return None;
            }
        };
        let failed = |code: Code, message: String| Err(Failure::new(code, message));
        let (mut request, mut stored) = match self.request_of(&record) {
            Ok(found) => found,
            Err(failure) => {
                self.end_with(run, &record, None, failure).await;
                return None;
            }
        };
        let carried = stored.take_carried();
        if let Some(fixed) = &stored.fixes {
            let kept = match carried {
                Some(carried) => Ok(carried),
                None => self.effects_of(fixed).await,
            };
            match kept {
                Ok(kept) => {
                    kept.without(&record, &self.runner.bridge);
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
            self.end_with(run, &record, Some((request, stored)), aborted()).await;
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
            Err(aborted())
        } else {
            self.backends_known(&record, &request).await;
            let asked = match self.journal.pending(run.id()).await {
                Ok(asked) => asked,
                // Its lease ends, and it is taken over again.
                Err(error) => {
                    tracing::warn!(run = run.id(), %error, "a run cannot go on here");
                    return None;
                }
            };
            match replay::resume(&record, &mut self.harmless(&record, &request, &asked, stored.keys)) {
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
        let stored = stored_of(record).ok_or_else(unreadable)?;
        let code = record.blobs.text(&header.code).map_err(|_| unreadable())?;
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
        if let Ok(configured) = self.runner.limits(header.profile, &LimitRequest::default()) {
            request.limits = lowered(request.limits, &configured);
        }
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
            // The record may still say which door it came by.
            None => {
                let door = stored_of(record).map_or(Door::Durable, |stored| stored.door());
                (RunRequest { door, ..RunRequest::new(profile, "") }, None)
            }
        };
        let mut request = Box::new(request);
        let mut report = match replay::stopped(record, failure.clone()) {
            Ok(replayable) => {
                let replay = Arc::new(replayable.replay);
                let recorded = Some(RecordedRun { replay: replay.clone(), host: ReplayHost::Tools });
                let id = Some(run.id().to_owned());
                (request.id, request.recorded, request.durable) = (id, recorded, Durability::Durable);
                let mut report = self.runner.perform(&mut request, Counted::No).await;
                report.report.has_unrecorded_calls |= lacks_effects(&report.report, &replay);
                report
            }
            Err(fault) => {
                let has_unrecorded_calls = fault != NoReplay::NotStarted;
                let report = Report::not_started(Outcome::Failed(failure), Duration::ZERO);
                RunReport::ended(run.id().to_owned(), Route::Refused, Report { has_unrecorded_calls, ..report })
            }
        };
        // What was called beyond the end of the record is not known.
        report.report.has_unrecorded_calls |= replay::is_truncated(record);
        request.kept.iter().for_each(|kept| kept.mark(&mut report));
        self.finish(&run, &request, webhook.as_deref(), report).await;
    }

    /// Waits until the tools of the backends that the program names are known, and until those that the run has called are up:
    /// the cache may have tools as they were before an upgrade, and a schema, an annotation and a place for a key of today decide
    /// what is asked and what is sent again. One that does not come up in time is taken as the cache has it.
    async fn backends_known(&self, record: &Record, request: &RunRequest) {
        let RunRequest { text, caller, .. } = request;
        let environment = &self.runner.environment;
        environment.wait_for_named(text, caller, Readiness::Known, BACKEND_WAIT).await;
        let called = self.called_names(record);
        environment.wait_for_named(&called, caller, Readiness::Ready, BACKEND_WAIT).await;
    }

    /// The backends and the functions that a record has calls of, one a line.
    fn called_names(&self, record: &Record) -> String {
        let called = record.entries.iter().filter_map(|entry| match &entry.event {
            Event::Call(call) => Some(Target::from(&call.target)),
            _ => None,
        });
        let called: HashSet<Target> = called.collect();
        let names = called.iter().map(|target| match own_names(&self.runner.bridge, target) {
            Target::Tool { backend, .. } => backend,
            Target::Function(name) => name,
        });
        names.collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>().join("\n")
    }

    /// Says of calls that were sent whether they may be made again.
    fn harmless<'a>(
        &'a self,
        record: &'a Record,
        request: &'a RunRequest,
        asked: &'a [PendingCall],
        keys: KeyForm,
    ) -> impl FnMut(SentCall<'_>) -> bool + 'a {
        let calls = calls_of(record);
        // Answers of an earlier run, each for one call.
        let mut answered: HashMap<Called, usize> = HashMap::new();
        move |call| {
            if let Some(kept) = &request.kept {
                let called = called(&self.runner.bridge, call.target, call.args);
                let most = kept.answers(&called);
                let used = answered.entry(called).or_default();
                if *used < most {
                    *used += 1;
                    return true;
                }
            }
            // What a person edits is sent as it is, with or without a key.
            let is_edited = is_edited(asked, &own_names(&self.runner.bridge, call.target));
            // The schema of today says nothing about the key of a call that was sent under another one, or before one was known.
            let then = schema_then(&calls, call.id, call.target);
            let is_changed = then != hash_of(&self.runner.bridge, &request.caller, call.target);
            self.is_harmless(call, &request.caller, !is_edited && !is_changed, keys)
        }
    }

    /// Whether a call may be made again: it reads, says that it may, or has an idempotency key.
    /// `may_have_key`: the key that a call has now is the one that it was sent with.
    fn is_harmless(&self, call: SentCall<'_>, caller: &CallerScope, may_have_key: bool, keys: KeyForm) -> bool {
        let (backend, tool) = match call.target {
            Target::Tool { backend, tool } => (backend, tool),
            Target::Function(name) => {
                return self.runner.functions(caller).get(name).is_some_and(|function| function.is_idempotent());
            }
        };
        let catalog = self.runner.bridge.catalog();
        let view = ScopedCatalog::new(&catalog, &caller.backends, &caller.tools);
        let is_harmless = |tool: ToolRef<'_>| {
            is_annotated_read_only(tool)
                || tool.tool().is_idempotent()
                || (may_have_key && has_key(tool, call.args, keys))
        };
        view.tool(backend, tool).is_some_and(is_harmless)
    }
}

/// What is kept of the request in a record.
fn stored_of(record: &Record) -> Option<StoredRequest> {
    let text = record.blobs.text(record.header()?.request.as_ref()?).ok()?;
    serde_json::from_str(text).ok()
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

/// The limits of a request, none above what is configured.
fn lowered(asked: LimitRequest, configured: &LimitRequest) -> LimitRequest {
    let lower = |limits: LimitRequest, limit: Limit| match (limits.get(limit), configured.get(limit)) {
        (Some(got), Some(most)) if got > most => limits.with(limit, most),
        _ => limits,
    };
    Limit::ALL.into_iter().fold(asked, lower)
}

/// Whether a record has calls that may have had an effect and that the report does not have: the run ended before all of its
/// record was repeated.
pub(super) fn lacks_effects(report: &Report, replay: &Replay) -> bool {
    let is_effect =
        |event: &StepEvent| matches!(event, StepEvent::Said { then: FromWorker::Call { .. }, read_only: false, .. });
    let recorded = replay.steps.iter().filter(|step| is_effect(&step.event)).count();
    report.calls.iter().filter(|call| !call.read_only).count() < recorded
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_wire::limits::MB;

    #[test]
    fn limits_are_lowered_to_what_is_configured() {
        let configured = LimitRequest { memory: Some(8 * MB), calls: Some(5), ..LimitRequest::default() };
        let wall = Some(Duration::from_secs(9));
        let asked = LimitRequest { wall, memory: Some(16 * MB), calls: Some(4), ..LimitRequest::default() };
        let expected = LimitRequest { memory: Some(8 * MB), ..asked.clone() };
        assert_eq!(lowered(asked, &configured), expected);
        assert_eq!(lowered(LimitRequest::default(), &configured), LimitRequest::default(), "the configured ones hold");
    }
}
