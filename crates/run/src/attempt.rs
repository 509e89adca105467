//! One run, from admission to its report: limits, waiting for backends, plan, then one route.
//!
//! What is wrong with a program before it is run is found in `check`, what it may call is put together in `program_host`, and
//! `failure_hint` says what the catalog knows about a failure.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_bridge::{RunCalls, ScopedCatalog};
use toolgate_catalog::{BackendState, Catalog};
use toolgate_engine::{Host, Request};
use toolgate_functions::{CallContext, Hints, Registry};
use toolgate_journal::edited::LiveReads;
use toolgate_plan::{Call, Finding, FindingCode, Plan, Preflight, Program, Script};
use toolgate_policy::Policy;
use toolgate_wire::{
    CallRecord, CallState, CallerScope, Code, Failure, LimitRequest, Limits, Outcome, Profile, Report, Target, Warning,
};

use super::check::{not_a_program, stopped_by, unchecked, warning};
use super::failure_hint::with_hint;
use super::reachable::Reachable;
use super::request::{Durability, FastPaths, ReplayHost, Route, RunRequest};
use super::{Readiness, Runner, fast_path, introspect, out_of_range};
use crate::stage::{COMMIT_POINT, Staging};

/// Bytes of a context beyond which it is not looked into for hints of the request.
const MAX_HINTS: usize = 16 * 1024;
/// The part of a run's time that it may wait for backends to start.
const WAIT_SHARE: f64 = 0.9;
/// An interpreter needs at most this many times its length for a program that is one literal.
const CODE_SPREAD: u64 = 128;

/// A request whose limits are known, with everything that its calls need.
pub(super) struct Attempt<'a> {
    pub(super) runner: &'a Runner,
    pub(super) request: &'a RunRequest,
    /// The limits to run with.
    pub(super) limits: Limits,
    /// The same as they are handed to the engine, which says what it clamps.
    granted: LimitRequest,
    pub(super) since: Instant,
    pub(super) functions: Registry,
    pub(super) context: CallContext,
    /// Ends the calls that are in progress when the run ends, and not before: a program must not see them fail and go on.
    pub(super) calls: CancellationToken,
    _end_calls: DropGuard,
    /// What the policy keeps of this run.
    pub(super) run_calls: Arc<RunCalls>,
    /// The policy as the program is planned by; a call is decided by the one in force then.
    policy: Arc<Policy>,
}

impl<'a> Attempt<'a> {
    /// Runs a request.
    pub(super) async fn perform(runner: &'a Runner, request: &'a RunRequest, since: Instant) -> (Report, Route) {
        let attempt = match Attempt::admit(runner, request, since) {
            Ok(attempt) => attempt,
            Err(failure) => return refused(failure, Vec::new(), since),
        };
        let warnings = attempt.context.warnings.clone();
        let (mut report, route) = match (&request.recorded, request.profile) {
            (Some(recorded), _) => {
                let host: Arc<dyn Host> = match recorded.host.clone() {
                    ReplayHost::Tools => attempt.program_host(),
                    ReplayHost::Record(host) => host,
                    ReplayHost::RecordThenReads(host) => Arc::new(LiveReads::new(host, attempt.program_host())),
                };
                (Box::pin(attempt.in_engine(host, None, Watched::Yes)).await, Route::Script)
            }
            (None, Profile::Chain) => attempt.chain().await,
            (None, Profile::Compute | Profile::Snippet) => Box::pin(attempt.without_tools()).await,
        };
        report.warnings.extend(warnings.to_vec().into_iter().map(Warning::from));
        report.warnings.extend(calls_under_way(&report));
        (attempt.with_verdicts(report), route)
    }

    /// Runs a program that has no tools. It is checked like any other, against the host functions that it names.
    async fn without_tools(&self) -> (Report, Route) {
        // A host function may be a tool of a backend that is starting.
        if self.request.profile == Profile::Snippet {
            self.wait_for_backends(Readiness::Known).await;
        }
        let typed = self.function_types(None).await;
        let warnings: Vec<Warning> = typed.warnings.iter().map(warning).collect();
        if let Some(stopped) = stopped_by(&Preflight { errors: typed.errors, ..Preflight::default() }) {
            return refused(stopped, warnings, self.since);
        }
        let host = self.staged(Arc::new(self.host().without_tools()));
        let mut report = self.in_engine(host, None, Watched::Yes).await;
        report.warnings.extend(warnings);
        report.warnings.extend(typed.unchecked.map(unchecked));
        (report, Route::Script)
    }

    /// Says what a person changed or why one stopped the run, which the program itself may not tell.
    fn with_verdicts(&self, mut report: Report) -> Report {
        let edited = report.calls.iter().filter_map(|call| {
            let decision = call.decision.as_ref()?;
            let (asked, sent) = (decision.asked_arguments.as_ref()?, decision.sent_arguments.as_ref()?);
            Some(format!("a person changed the arguments of {}: {sent} was sent instead of {asked}", call.name()))
        });
        let edited: Vec<Warning> = edited.map(Warning::Remark).collect();
        report.warnings.extend(edited);
        if let (Some(reason), Outcome::Failed(failure)) = (self.run_calls.stopped_because(), &mut report.outcome)
            && failure.code == Code::Aborted
        {
            failure.message = format!("a person stopped the run: {reason}");
        }
        if let (Some(watch), Outcome::Failed(failure)) = (&self.request.watch, &mut report.outcome)
            && failure.code == Code::Aborted
            && watch.begins_again()
        {
            failure.message = "a person has to be asked: the run begins again as one that can wait".to_owned();
        }
        report
    }

    /// See [`Runner::route`].
    pub(super) fn route(runner: &Runner, request: &RunRequest) -> Route {
        if request.profile != Profile::Chain {
            let admitted = Attempt::admit(runner, request, Instant::now());
            return if admitted.is_ok() { Route::Script } else { Route::Refused };
        }
        Attempt::direct_call(runner, request).map_or_else(|route| route, |_| Route::Direct)
    }

    /// The call that a text in JSON describes; `Err` with the path of any other text.
    pub(super) fn direct_call(runner: &Runner, request: &RunRequest) -> Result<Call, Route> {
        let attempt = Attempt::admit(runner, request, Instant::now()).map_err(|_| Route::Refused)?;
        match attempt.plan(attempt.reachable(&runner.bridge.catalog())) {
            Plan::Direct(call) => Ok(call),
            Plan::Fault(_) | Plan::BadCall(_) => Err(Route::Refused),
            Plan::Introspect(_) => Err(Route::Introspection),
            Plan::OneCall(_) => Err(Route::OneCall),
            Plan::Script(_) => Err(Route::Script),
        }
    }

    /// Everything that can be checked before anything is spent.
    pub(super) fn admit(runner: &'a Runner, request: &'a RunRequest, since: Instant) -> Result<Self, Failure> {
        if request.cancel.is_cancelled() {
            return Err(Failure::new(Code::Aborted, "cancelled before sandbox started"));
        }
        let granted = runner.limits(request.profile, &request.limits).map_err(|fault| out_of_range(&fault))?;
        let limits = granted.resolve(request.profile).map_err(|fault| out_of_range(&fault))?.limits;
        let length = request.text.chars().count() as u64;
        if length > limits.code {
            let message = format!("the code has {length} characters; at most {} are taken", limits.code);
            return Err(Failure::new(Code::InvalidCode, message));
        }
        let functions = match request.profile {
            Profile::Compute => Registry::new(),
            Profile::Chain | Profile::Snippet => {
                request.functions.clone().unwrap_or_else(|| runner.functions(&request.caller))
            }
        };
        let calls = CancellationToken::new();
        let context = CallContext {
            hints: hints(request.data.as_deref()),
            cancel: calls.clone(),
            deadline: has_deadline(request).then(|| (since + limits.wall).into()),
            ..CallContext::default()
        };
        if let (Some(asked), Some(given)) =
            (request.limits.wall, granted.wall.filter(|given| request.limits.wall > Some(*given)))
        {
            let (asked, given) = (asked.as_millis(), given.as_millis());
            context.warnings.add(format!("timeout lowered from {asked} ms to {given} ms: more is not configured"));
        }
        let _end_calls = calls.clone().drop_guard();
        let policy = runner.bridge.policy();
        let run_calls = Arc::new(RunCalls::new(request.cancel.clone()).watched_by(request.watch.clone()));
        Ok(Attempt {
            runner,
            request,
            limits,
            granted,
            since,
            functions,
            context,
            calls,
            _end_calls,
            run_calls,
            policy,
        })
    }

    async fn chain(&self) -> (Report, Route) {
        self.wait_for_backends(Readiness::Known).await;
        let mut catalog = self.runner.bridge.catalog();
        let mut plan = self.plan(self.reachable(&catalog));
        // A tool that only the cache does not have may be there once its backend is up.
        if lacks_tools(&plan, self.reachable(&catalog))
            && catalog.backends().iter().any(|backend| *backend.state() != BackendState::Ready)
        {
            self.wait_for_backends(Readiness::Ready).await;
            catalog = self.runner.bridge.catalog();
            plan = self.plan(self.reachable(&catalog));
        }
        let tools = self.reachable(&catalog);
        match plan {
            Plan::Fault(fault) => refused(not_a_program(fault), Vec::new(), self.since),
            Plan::BadCall(fault) => {
                refused(Failure { code: Code::InvalidCode, ..not_a_program(fault) }, Vec::new(), self.since)
            }
            Plan::Introspect(query) => {
                match fast_path::plain(&introspect::answer(&query, tools.view, tools.functions), &self.limits) {
                    Some(value) => (without_engine(Outcome::Returned(value), self.since), Route::Introspection),
                    None => Box::pin(self.program(tools)).await,
                }
            }
            // A call without a program has no record to go on from, and keeps nothing.
            Plan::Direct(_) if self.needs_program() => {
                let message = "a durable, staged or corrected run needs a program, and this is a call in JSON";
                refused(Failure::new(Code::InvalidCode, message), Vec::new(), self.since)
            }
            Plan::Direct(call) => {
                let preflight = toolgate_plan::preflight_call(&call, &tools);
                if let Some(stopped) = stopped_by(&preflight) {
                    return refused(stopped, Vec::new(), self.since);
                }
                let mut report = fast_path::direct(self, call).await;
                report.warnings.extend(preflight.warnings.iter().map(warning));
                (with_hint(report, &self.request.text, tools), Route::Direct)
            }
            Plan::OneCall(call) => {
                (with_hint(fast_path::one_call(self, call).await, &self.request.text, tools), Route::OneCall)
            }
            // In memory of its own: a future that is one call stays small, and it is moved several times on its way.
            Plan::Script(script) => Box::pin(self.script(script, tools)).await,
        }
    }

    /// Whether a call in JSON, which is no program, is refused.
    fn needs_program(&self) -> bool {
        let RunRequest { durable, staging, kept, .. } = self.request;
        *durable == Durability::Durable || staging.is_on() || kept.is_some()
    }

    /// Waits for backends that the program seems to name.
    async fn wait_for_backends(&self, until: Readiness) {
        let RunRequest { text, caller, cancel, .. } = self.request;
        let within = self.limits.wall.mul_f64(WAIT_SHARE).saturating_sub(self.since.elapsed());
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.runner.environment.wait_for_named(text, caller, until, within) => {}
        }
    }

    pub(super) fn reachable<'c>(&'c self, catalog: &'c Catalog) -> Reachable<'c> {
        let caller = &self.request.caller;
        let view = ScopedCatalog::new(catalog, &caller.backends, &caller.tools);
        let environment = &*self.runner.environment;
        let keys = self.request.keys.as_ref();
        Reachable { view, functions: &self.functions, policy: &self.policy, caller: &caller.name, environment, keys }
    }

    /// The path of a program; where fast paths are off, or a program may make no calls, only the engine's.
    pub(super) fn plan(&self, tools: Reachable<'_>) -> Plan {
        let text = &self.request.text;
        let plan = toolgate_plan::plan(text, &tools);
        // Only an engine reads the data, and says what is wrong with it.
        let RunRequest { fast_paths, data, recorder, staging, kept, .. } = self.request;
        let is_plain = data.is_none() && recorder.is_none() && !staging.is_on() && kept.is_none();
        let allowed = *fast_paths == FastPaths::Allowed && is_plain;
        let fast = match &plan {
            Plan::OneCall(_) => allowed && self.limits.calls > 0 && is_ample(&self.limits, text.len()),
            Plan::Introspect(_) => allowed && is_ample(&self.limits, text.len()),
            Plan::Direct(_) | Plan::Script(_) | Plan::Fault(_) | Plan::BadCall(_) => true,
        };
        if fast {
            return plan;
        }
        toolgate_plan::script(text, &tools).map_or_else(Plan::Fault, |script| Plan::Script(Box::new(script)))
    }

    /// Runs a program in the engine, whatever cheaper path there is.
    async fn program(&self, tools: Reachable<'_>) -> (Report, Route) {
        match toolgate_plan::script(&self.request.text, &tools) {
            Ok(script) => self.script(Box::new(script), tools).await,
            Err(fault) => refused(not_a_program(fault), Vec::new(), self.since),
        }
    }

    async fn script(&self, script: Box<Script>, tools: Reachable<'_>) -> (Report, Route) {
        let warnings = script.preflight.warnings.iter().map(warning).collect::<Vec<_>>();
        if let Some(stopped) = stopped_by(&script.preflight) {
            return refused(stopped, warnings, self.since);
        }
        let typed = self.type_check(&script.program, tools, None).await.after(&script.preflight.warnings);
        let warnings: Vec<Warning> = warnings.into_iter().chain(typed.warnings.iter().map(warning)).collect();
        if let Some(stopped) = stopped_by(&Preflight { errors: typed.errors, ..Preflight::default() }) {
            return refused(stopped, warnings, self.since);
        }
        let mut report = self.in_engine(self.program_host(), Some(script.program), Watched::Yes).await;
        if let Staging::Rehearsal(_) = self.request.staging {
            forget_unsent(&mut report);
        }
        report.warnings.extend(warnings);
        report.warnings.extend(typed.unchecked.map(unchecked));
        let report = with_hint(report, &self.request.text, tools);
        (self.with_late_hint(report, tools.view).await, Route::Script)
    }

    pub(super) async fn in_engine(&self, host: Arc<dyn Host>, compiled: Option<Program>, watched: Watched) -> Report {
        let RunRequest { text, profile, data, cancel, engine, seed, recorded, .. } = self.request;
        let (observer, recorder) = match watched {
            Watched::Yes => (self.request.observer.clone(), self.request.recorder.clone()),
            Watched::No => (None, None),
        };
        let run = Request {
            limits: self.granted.clone(),
            since: Some(self.since),
            host,
            compiled,
            data: data.clone(),
            cancel: cancel.clone(),
            observer,
            recorder,
            replay: recorded.as_ref().map(|recorded| recorded.replay.clone()),
            engine: *engine,
            seed: *seed,
            fairness: self.request.caller.fairness.unwrap_or_default(),
            caller: Some(caller_id(&self.request.caller)),
            ..Request::new(*profile, text.clone())
        };
        self.runner.engine.run(run).await
    }
}

/// Whether a call of the run has to end by a time that is known now. The time of a durable run goes on later when it waits for a
/// person, and the engine ends it.
pub(super) fn has_deadline(request: &RunRequest) -> bool {
    request.durable != Durability::Durable
}

/// Who may get a worker of this caller again: as narrow as the caller's budgets.
fn caller_id(caller: &CallerScope) -> Arc<str> {
    format!("{:?} {}", caller.fairness, caller.name).into()
}

/// Whether the request's observer and recorder are told of a run in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    /// They are.
    Yes,
    /// They are not: the run only works out what a fast path has done.
    No,
}

/// Whether the program would be refused, or calls a tool that is not known of a backend that is not up.
fn lacks_tools(plan: &Plan, tools: Reachable<'_>) -> bool {
    match plan {
        Plan::BadCall(_) => true,
        Plan::Script(script) => {
            let is_unready = |finding: &Finding| finding.code == FindingCode::NotReady;
            !script.preflight.errors.is_empty() || script.preflight.warnings.iter().any(is_unready)
        }
        Plan::Direct(call) => tools.view.tool(&call.backend, &call.tool).is_none(),
        Plan::Fault(_) | Plan::OneCall(_) | Plan::Introspect(_) => false,
    }
}

/// Corrects the calls of a rehearsal, which sends nothing but reads: what was not answered was not sent, and that the program depends
/// on a value is no call.
fn forget_unsent(report: &mut Report) {
    report.calls.retain(|call| call.target != Target::Function(COMMIT_POINT.to_owned()));
    let unanswered = report.calls.iter_mut().filter(|call| !call.read_only && call.state == CallState::Unknown);
    unanswered.for_each(|call| call.state = CallState::NotSent);
}

/// What the context says about the request, such as a location.
fn hints(context: Option<&str>) -> Hints {
    let text = context.map(str::trim_start).filter(|text| text.len() <= MAX_HINTS && text.starts_with('{'));
    text.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok()).map(Hints::new).unwrap_or_default()
}

/// Whether a program of that length certainly meets no limit of the interpreter, whose verdict a fast path cannot know.
fn is_ample(limits: &Limits, code: usize) -> bool {
    limits.stack >= Limits::of(Profile::Chain).stack && code as u64 * CODE_SPREAD <= limits.memory
}

/// A program that ended well did not wait for these calls, so that their effects are unknown.
fn calls_under_way(report: &Report) -> Option<Warning> {
    let is_open = |call: &&CallRecord| call.state == CallState::Unknown && call.error_code.is_none();
    let subject = match report.value().ok().map(|_| report.calls.iter().filter(is_open).count())? {
        0 => return None,
        1 => "1 call was".to_owned(),
        count => format!("{count} calls were"),
    };
    let advice = "await every call, several by `await Promise.all(…)`";
    Some(Warning::Remark(format!("{subject} still under way when the program ended: {advice}")))
}

fn refused(failure: Failure, warnings: Vec<Warning>, since: Instant) -> (Report, Route) {
    (Report { warnings, ..without_engine(Outcome::Failed(failure), since) }, Route::Refused)
}

/// The report of a run that needed no engine.
pub(super) fn without_engine(outcome: Outcome, since: Instant) -> Report {
    Report::not_started(outcome, since.elapsed())
}
