//! One run, from admission to its report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_engine::{Host, Request};
use toolgate_functions::{CallContext, Hints, Registry};
use toolgate_journal::edited::LiveReads;
use toolgate_plan::{
    Call, FailureFacts, Finding, FindingCode, Form, Plan, Preflight, Program, Script, SyntaxFault, UnusableText,
};
use toolgate_policy::Policy;
use toolgate_typecheck::Unchecked;
use toolgate_wire::{
    CallErrorCode, CallRecord, CallState, CallerScope, Code, ErrorClass, Failure, LimitRequest, Limits, Outcome,
    Profile, Report, Target, Warning,
};

use super::durable::{KeptHost, KeyedHost};
use super::failed_runs::NotingHost;
use super::reachable::Reachable;
use super::request::{Durability, FastPaths, ReplayHost, Route, RunRequest};
use super::type_check::{ProgramCheck, TypeVerdict, TypesNotChecked, names_something};
use super::{Readiness, Runner, fast_path, introspect, out_of_range};
use crate::stage::{COMMIT_POINT, CommitHost, RehearsalHost, Staging};
use toolgate_bridge::{self as bridge, RequestContext, RunCalls, RunHost, ScopedCatalog};
use toolgate_catalog::{BackendState, Catalog};

/// Bytes of a context beyond which it is not looked into for hints of the request.
const MAX_HINTS: usize = 16 * 1024;
/// The part of a run's time that it may wait for backends to start.
const WAIT_SHARE: f64 = 0.9;
/// How long a failed program waits for backends that are still starting, for a hint about their tools.
const MAX_HINT_WAIT: Duration = Duration::from_secs(10);
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
    functions: Registry,
    context: CallContext,
    /// Ends the calls that are in progress when the run ends, and not before: a program must not see them fail and go on.
    calls: CancellationToken,
    _end_calls: DropGuard,
    /// What the policy keeps of this run.
    run_calls: Arc<RunCalls>,
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

    /// Checks how a program without tools uses the host functions. One that names none costs a look at its text.
    async fn function_types(&self, within: Option<Duration>) -> TypeVerdict {
        let text = &self.request.text;
        let is_named = |name: &String| text.contains("api") || text.contains(name.as_str());
        if self.runner.environment.types().is_none() || !self.functions.names().iter().any(is_named) {
            return TypeVerdict::default();
        }
        // A text that is no program is for the engine to refuse.
        let Ok(program) = toolgate_plan::compile(text, Form::Script) else { return TypeVerdict::default() };
        let nothing = Catalog::default();
        self.type_check(&program, self.reachable(&nothing), within).await
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

    /// See [`Runner::check`].
    pub(super) fn check(runner: &Runner, request: &RunRequest) -> Result<Preflight, Failure> {
        let attempt = Attempt::admit(runner, request, Instant::now())?;
        let catalog = runner.bridge.catalog();
        toolgate_plan::preflight(&request.text, &attempt.reachable(&catalog)).map_err(|unusable| match unusable {
            UnusableText::Syntax(fault) => not_a_program(fault),
            UnusableText::Call(fault) => Failure { code: Code::InvalidCode, ..not_a_program(fault) },
        })
    }

    /// See [`Runner::check_types`].
    pub(super) async fn check_types(
        runner: &Runner,
        request: &RunRequest,
        within: Duration,
    ) -> Result<ProgramCheck, Failure> {
        let mut check = ProgramCheck { preflight: Attempt::check(runner, request)?, ..ProgramCheck::default() };
        let attempt = Attempt::admit(runner, request, Instant::now())?;
        let catalog = runner.bridge.catalog();
        let tools = attempt.reachable(&catalog);
        if let Plan::Script(script) = attempt.plan(tools) {
            let is_unnamed = !names_something(&script.program, tools);
            if is_unnamed || runner.environment.types().is_none() {
                check.not_checked =
                    Some(if is_unnamed { TypesNotChecked::NoNames } else { TypesNotChecked::NoChecker });
                return Ok(check);
            }
            let typed = attempt.type_check(&script.program, tools, Some(within)).await;
            check.add(typed.after(&script.preflight.warnings));
        }
        Ok(check)
    }

    /// Checks the types of a program, where there is a checker.
    async fn type_check(&self, program: &Program, tools: Reachable<'_>, within: Option<Duration>) -> TypeVerdict {
        let Some(types) = self.runner.environment.types() else { return TypeVerdict::default() };
        let learned = self.runner.environment.learned();
        types.check(program, tools, learned, within).await
    }

    /// Everything that can be checked before anything is spent.
    fn admit(runner: &'a Runner, request: &'a RunRequest, since: Instant) -> Result<Self, Failure> {
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
    fn plan(&self, tools: Reachable<'_>) -> Plan {
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

    /// Looks for a hint once more where a name is not defined and backends were still starting: it may be one of their tools.
    async fn with_late_hint(&self, report: Report, planned: ScopedCatalog<'_>) -> Report {
        let is_unknown_name = report
            .failure()
            .is_some_and(|failure| failure.code == Code::Runtime && failure.class == Some(ErrorClass::Reference));
        // Those that are up by now were not when the program was planned.
        let starting = planned.backends().filter(|backend| *backend.state() == BackendState::Starting);
        let waiting = starting.map(|backend| backend.name().to_owned()).collect::<Vec<_>>().join(" ");
        if !is_unknown_name || waiting.is_empty() {
            return report;
        }
        let RunRequest { text, caller, cancel, .. } = self.request;
        let within = MAX_HINT_WAIT.min(self.limits.wall.saturating_sub(self.since.elapsed()));
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.runner.environment.wait_for_named(&waiting, caller, Readiness::Known, within) => {}
        }
        let catalog = self.runner.bridge.catalog();
        with_hint(report, text, self.reachable(&catalog))
    }

    /// What a program may call: with keys of its calls, and the effects of an earlier run that it keeps.
    fn program_host(&self) -> Arc<dyn Host> {
        let mut real: Arc<dyn Host> = Arc::new(self.host());
        if let Some(keys) = self.request.keys.clone() {
            let (bridge, caller) = (self.runner.bridge.clone(), self.request.caller.clone());
            real = Arc::new(KeyedHost { keys, bridge, caller, real });
        }
        if let Some(kept) = &self.request.kept {
            real = Arc::new(KeptHost::new(kept.clone(), self.runner.bridge.clone(), real));
        }
        // In front of what is kept: a kept answer is an effect of this run too.
        self.staged(self.noting(real))
    }

    /// The same for a program that is one call: it has no keys, keeps nothing and is not staged.
    pub(super) fn noting_host(&self) -> Arc<dyn Host> {
        self.noting(Arc::new(self.host()))
    }

    /// Notes the calls where the run may be corrected later.
    fn noting(&self, real: Arc<dyn Host>) -> Arc<dyn Host> {
        match &self.request.noted {
            Some(noted) => Arc::new(NotingHost::new(noted.clone(), self.runner.bridge.clone(), real)),
            None => real,
        }
    }

    /// The host of a staged run's rehearsal or commit.
    fn staged(&self, real: Arc<dyn Host>) -> Arc<dyn Host> {
        let (bridge, functions) = (self.runner.bridge.clone(), self.functions.clone());
        match &self.request.staging {
            Staging::No | Staging::Wanted => real,
            Staging::Rehearsal(rehearsal) => {
                let (rehearsal, learned) = (rehearsal.clone(), self.runner.environment.learned());
                Arc::new(RehearsalHost { rehearsal, bridge, functions, asked: self.asked(), learned, real })
            }
            Staging::Commit(commit) => {
                Arc::new(CommitHost { commit: commit.clone(), bridge, functions, asked: self.asked(), real })
            }
        }
    }

    /// What the program may call.
    pub(super) fn host(&self) -> RunHost {
        let configured = self.runner.environment.bytes_in_flight();
        let budgets = self.runner.budgets.of_run(&self.request.caller, self.limits.memory, configured);
        let request = RequestContext { budget: Some(budgets.answers), ..self.asked() };
        RunHost::new(self.runner.bridge.clone(), request)
            .with_functions(self.functions.clone(), self.context.clone())
            .with_argument_budget(budgets.arguments)
    }

    /// On whose behalf the program calls.
    fn asked(&self) -> RequestContext {
        RequestContext {
            cancel: self.calls.clone(),
            progress: self.request.progress.clone(),
            deadline: has_deadline(self.request).then(|| self.since + self.limits.wall),
            approver: self.request.approver.clone(),
            profile: Some(self.request.profile),
            run_id: self.request.id.clone(),
            run: Some(Arc::clone(&self.run_calls)),
            trace: self.request.trace_passed_on(),
            effects: self.request.effects,
            ..RequestContext::of(&self.request.caller)
        }
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
fn has_deadline(request: &RunRequest) -> bool {
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

/// Adds what the catalog knows about a failure, which the engine does not.
fn with_hint(mut report: Report, code: &str, tools: Reachable<'_>) -> Report {
    let unready = unready_backend(&report, tools.view);
    if let Outcome::Failed(failure) = &mut report.outcome
        && failure.code == Code::Timeout
        && failure.hint.is_none()
    {
        failure.hint = toolgate_plan::hint_for_timeout(code, &tools);
    }
    if let Outcome::Failed(failure) = &mut report.outcome
        && failure.code == Code::Runtime
    {
        let facts =
            FailureFacts { source: code, class: failure.class, position: failure.position, profile: Profile::Chain };
        if let Some(hint) = unready.or_else(|| toolgate_plan::hint_for(&facts, &tools)) {
            failure.hint = Some(hint);
        }
    }
    report
}

/// What to say of the backend of the last call, if that was not sent because the backend is not up.
fn unready_backend(report: &Report, view: ScopedCatalog<'_>) -> Option<String> {
    let is_unready = |code: &CallErrorCode| {
        matches!(code, CallErrorCode::NotReady | CallErrorCode::FailedToStart | CallErrorCode::NeedsLogin)
    };
    let last = report.calls.last().filter(|call| call.error_code.as_ref().is_some_and(is_unready))?;
    let Target::Tool { backend, tool } = &last.target else { return None };
    let found = view.backend(backend).filter(|found| *found.state() != BackendState::Ready)?;
    found.tool(tool)?;
    Some(bridge::unready(found.name(), Some(tool), found.state()))
}

/// The failure that a preflight's errors make: nothing was called.
fn stopped_by(preflight: &Preflight) -> Option<Failure> {
    let first = preflight.errors.first()?;
    let rest = preflight.errors.len() - 1;
    let more = if rest > 0 { format!(" (and {rest} more like it)") } else { String::new() };
    let message = format!("{}{more}; nothing was called", first.message);
    Some(Failure {
        position: Some(first.position),
        hint: first.suggestion.clone(),
        ..Failure::new(Code::InvalidCode, message)
    })
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

fn unchecked(why: Unchecked) -> Warning {
    Warning::Remark(format!("the types of the program were not checked: {why}"))
}

fn warning(finding: &Finding) -> Warning {
    let advice = finding.suggestion.as_ref().map(|advice| format!(" ({advice})")).unwrap_or_default();
    Warning::Finding { position: finding.position, message: format!("{}{advice}", finding.message) }
}

pub(super) fn not_a_program(fault: SyntaxFault) -> Failure {
    Failure { position: fault.position, hint: fault.hint, ..Failure::new(Code::Syntax, fault.message) }
}

fn refused(failure: Failure, warnings: Vec<Warning>, since: Instant) -> (Report, Route) {
    (Report { warnings, ..without_engine(Outcome::Failed(failure), since) }, Route::Refused)
}

/// The report of a run that needed no engine.
pub(super) fn without_engine(outcome: Outcome, since: Instant) -> Report {
    Report::not_started(outcome, since.elapsed())
}
