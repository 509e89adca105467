//! The one way from a request to a report.
//!
//! Every door translates its input into a [`RunRequest`] and gets a [`RunReport`]; no door builds a host, limits, a
//! deadline or a request of the engine. A program takes the cheapest path that is certain to mean the same.
//!
//! # Layout
//! - `request`: what is asked, and what comes back; `door`: where it is asked; `run_id`: the names of runs
//! - `environment`: configured limits, host functions, backends that are still starting
//! - `budgets`: the bytes that runs and callers have in flight
//! - `attempt`: one run from admission to its report; `check`: what is wrong with a program before it is run; `program_host`: what
//!   it may call; `failure_hint`: what the catalog knows about its failure
//! - [`durable`]: runs that outlive their process; `when_asked`: which runs become such, and when; `call_program`: a call in JSON
//!   as the program that such a run needs; `noted_calls`: the calls of other runs, noted while they go on; `failed_runs`: what those
//!   did that failed, to be kept by a correction
//! - `fast_path`: a program that is one call, without an interpreter; `introspect`: one that asks what tools there are
//! - `replay`: a recorded run as a request
//! - `reachable`: the catalog as the planner asks it
//! - `type_check`: the types of a program, before its first call
//! - [`stage`]: writes that are reviewed together before any is sent
//! - `explain`: a failed run in words for a model
//! - `history`: runs that have ended are recorded; `single_call`: so are calls without a program; `statistics`: sums and recent runs;
//!   `kept_notes`: what is noted of durable runs until they end; `metrics`: counters and log lines;
//!   `listen`: listeners that are notified of every run; `later`: the thread that notifies them of ends

#![forbid(unsafe_code)]

mod attempt;
mod budgets;
mod call_program;
mod check;
mod door;
pub mod durable;
mod environment;
mod explain;
mod failed_runs;
mod failure_hint;
mod fast_path;
mod history;
mod introspect;
mod kept_notes;
mod later;
mod listen;
mod metrics;
mod noted_calls;
mod program_host;
mod reachable;
mod replay;
mod request;
mod run_id;
mod single_call;
pub mod stage;
mod statistics;
mod type_check;
mod when_asked;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_catalog::{Backend, BackendState, Catalog, ToolRef};
use toolgate_engine::{ComputeOptions, Engine};
use toolgate_functions::{CallContext, FailedEffect, FunctionAnswer, FunctionError, Registry};
use toolgate_mcp::{RequestOrigin, TraceContext};
use toolgate_output::results::{Kept, ResultStore};
use toolgate_output::{OutputSettings, Response};
use toolgate_plan::Preflight;
use toolgate_wire::{
    ByteBudget, CallErrorCode, CallState, CallerScope, Code, Failure, LimitFault, LimitRequest, Profile, Report, Target,
};

use crate::stage::Staging;
use attempt::Attempt;
use budgets::CallerBudgets;
use durable::{DurableError, DurableRuns, DurableSlot, KeptEffects, not_begun};
use failed_runs::FailedRuns;
use toolgate_bridge::{self as bridge, Bridge, RequestContext, ScopedCatalog};
use when_asked::{AskingBackends, DurableAttempt, Watching};

pub use budgets::set_process_bytes;
pub use door::Door;
pub use environment::{Environment, FixedEnvironment, OpeningRuns, Readiness, Waiting};
pub use explain::explain;
pub use failed_runs::BeingCorrected;
pub use history::History;
pub use listen::{ArgumentsWanted, BegunCall, CallDetails, EndedRun, RunListener};
pub use metrics::{RUN_SECONDS, RunCounts, RunMetrics, TimeHistogram};
pub use noted_calls::NotedCalls;
pub use replay::{replay_engine, replay_request};
pub use request::{Durability, FastPaths, PausedRun, RecordedRun, ReplayHost, Route, RunReport, RunRequest, RunTrace};
pub use run_id::execution_id;
pub use single_call::{BegunSingleCall, SingleCall};
pub use statistics::Transfer;

pub use type_check::{LearnedResults, ProgramCheck, ProgramTypes, TypesNotChecked};

pub use environment::permitted;

/// How long a check of a program that is not run waits for the type checker, which it may have to start.
pub const TYPE_CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes that a caller may ask an output to be shaped to, at every door.
pub const OUTPUT_SIZE: RangeInclusive<u64> = 256..=64 << 20;

/// Runs programs over an engine and a bridge. Clones are the same runner.
#[derive(Clone)]
pub struct Runner {
    engine: Engine,
    bridge: Arc<Bridge>,
    environment: Arc<dyn Environment>,
    history: Arc<History>,
    budgets: Arc<CallerBudgets>,
    /// Cancelled to abort all runs.
    abort: CancellationToken,
    /// The durable runs of this process.
    durable: DurableSlot,
    /// Volatile runs that failed after they had done something.
    failed_runs: Arc<FailedRuns>,
    /// Backends that have asked a person something inside a call.
    asking: AskingBackends,
}

impl Runner {
    /// A runner in these surroundings.
    pub fn new(engine: Engine, bridge: Arc<Bridge>, environment: Arc<dyn Environment>) -> Self {
        let abort = CancellationToken::new();
        let (history, budgets, durable) = (Arc::default(), Arc::default(), DurableSlot::default());
        let (failed_runs, asking) = (Arc::default(), AskingBackends::default());
        Runner { engine, bridge, environment, history, budgets, abort, durable, failed_runs, asking }
    }

    /// The durable runs of this process. Their store is opened when they are first asked for.
    ///
    /// # Errors
    /// If there is no store, or it cannot be opened.
    pub async fn durable(&self) -> Result<DurableRuns, DurableError> {
        match self.durable.get() {
            Some(runs) => Ok(runs),
            None => Ok(self.environment.durable_runs().await.ok_or(DurableError::NoStore)??),
        }
    }

    /// Notes the address of the page, which clients on this machine can be sent to. The first one stays.
    pub fn set_page(&self, address: String) {
        self.bridge.set_page(address);
    }

    /// The address of the page, where there is one.
    pub fn page(&self) -> Option<&str> {
        self.bridge.page()
    }

    /// Whether a program may call a tool whose rule says that it is staged.
    fn may_stage(&self, request: &RunRequest) -> bool {
        let policy = self.bridge.policy();
        request.profile == Profile::Chain
            && policy.may_stage()
            && self.route(request) != Route::Direct
            && self.may_call(request, |tool| bridge::stages(&policy, tool))
    }

    /// Whether a program may call such a tool, by the names in its text.
    fn may_call(&self, request: &RunRequest, wanted: impl FnMut(ToolRef<'_>) -> bool) -> bool {
        let catalog = self.bridge.catalog();
        let named = self.named_in_scope(request, &catalog).into_iter();
        let tools = named.flat_map(|backend| backend.tools().iter().map(move |entry| ToolRef { backend, entry }));
        tools.chain(self.named_aliases(request, &catalog)).any(wanted)
    }

    /// The backends that a program may reach, by the names in its text: its caller's, and those of functions that are tools.
    fn named_backends<'a>(&self, request: &'a RunRequest, catalog: &'a Catalog) -> Vec<&'a Backend> {
        let mut named = self.named_in_scope(request, catalog);
        named.extend(self.named_aliases(request, catalog).into_iter().map(|tool| tool.backend));
        named
    }

    /// The backends of its caller that a program may reach.
    fn named_in_scope<'a>(&self, request: &'a RunRequest, catalog: &'a Catalog) -> Vec<&'a Backend> {
        let caller = &request.caller;
        let view = ScopedCatalog::new(catalog, &caller.backends, &caller.tools);
        let is_named = |name: &str| request.text.contains(name);
        let reaches_all = ["tools", "__backends", "globalThis"].into_iter().any(is_named);
        view.backends().filter(|it| reaches_all || is_named(it.name()) || is_named(it.identifier())).collect()
    }

    /// The tools that a program may call by the names of host functions.
    fn named_aliases<'a>(&self, request: &RunRequest, catalog: &'a Catalog) -> Vec<ToolRef<'a>> {
        let functions = request.functions.clone().unwrap_or_else(|| self.functions(&request.caller));
        let is_named = |name: &str| request.text.contains(name) || request.text.contains("globalThis");
        let named = functions.iter().filter(|function| is_named(function.name().as_str()));
        let tools = named.filter_map(|function| function.tool());
        tools.filter_map(|alias| catalog.tool(&alias.backend, &alias.tool)).collect()
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs a program that does nothing: whether programs can be run, and what confines them. It calls nothing and is counted nowhere.
    pub async fn probe(&self, within: Duration) -> Report {
        let limits = LimitRequest { wall: Some(within), ..LimitRequest::default() };
        let options = ComputeOptions { limits, ..ComputeOptions::default() };
        self.engine.compute("() => 1", "null", options).await
    }

    /// The bridge behind it.
    pub fn bridge(&self) -> &Arc<Bridge> {
        &self.bridge
    }

    /// Statistics and recent runs.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Counts the bytes of answers that this caller has in flight.
    pub fn caller_budget(&self, caller: &CallerScope) -> ByteBudget {
        self.budgets.of(caller, self.environment.bytes_in_flight()).answers
    }

    /// The host functions that programs of this caller may call.
    pub fn functions(&self, caller: &CallerScope) -> Registry {
        self.environment.functions(caller)
    }

    /// Calls a host function outside a run, on behalf of this caller. A tool behind it is told of the trace.
    ///
    /// # Errors
    /// If the policy denies the call, or the function fails.
    pub async fn call_function(
        &self,
        caller: &CallerScope,
        name: &str,
        context: CallContext,
        args: Vec<Value>,
        trace: TraceContext,
    ) -> Result<FunctionAnswer, FunctionError> {
        let functions = self.functions(caller);
        let asked = RequestContext {
            budget: Some(self.caller_budget(caller)),
            trace: trace.clone(),
            ..RequestContext::of(caller)
        };
        let target = Target::Function(name.to_owned());
        let arguments = serde_json::to_string(&args).unwrap_or_default();
        let origin = RequestOrigin { trace, ..RequestOrigin::default() };
        let read_only = functions.get(name).is_some_and(|function| function.reads_only(&arguments));
        let (door, session, arguments) = (Door::Rpc, None, arguments.as_str());
        let single = SingleCall { door, caller, origin: &origin, session, target: &target, arguments, read_only };
        let begun = self.history.begin_call(single);
        let answer = self.bridge.call_function(&functions, name, context, args, asked).await;
        let (mut record, bytes) = (begun.record(), answer.as_ref().map_or(0, FunctionAnswer::text_len));
        match &answer {
            Ok(_) => record.applied(bytes),
            Err(error) => {
                record.failed(state_of(error.effect), &CallErrorCode::named(error.code_text()), &error.message)
            }
        }
        self.history.end_call(begun, record, bytes as u64);
        answer
    }

    /// The limits of a run that asks for these: with the configured ones where it asks for none.
    ///
    /// # Errors
    /// If a value is out of range, or above what is configured.
    pub fn limits(&self, profile: Profile, asked: &LimitRequest) -> Result<LimitRequest, LimitFault> {
        let configured = self.environment.limits(profile);
        let granted = match (profile, asked.wall, configured.wall) {
            // The wall time of a snippet is clamped, by the configuration as by the profile itself.
            (Profile::Snippet, Some(wall), Some(most)) if wall > most => {
                LimitRequest { wall: Some(most), ..asked.clone() }.within(&configured)?
            }
            _ => asked.within(&configured)?,
        };
        granted.resolve(profile)?;
        Ok(granted)
    }

    /// Runs a program to its end. Dropping the future ends it.
    ///
    /// The request is in memory of its own, and so is what few runs need: the future of a run is moved several times on its way
    /// to the task that polls it.
    pub fn run(&self, request: RunRequest) -> impl Future<Output = RunReport> + Send + '_ {
        let mut request = Box::new(request);
        async move {
            let is_begun = request.recorder.is_some() || request.recorded.is_some();
            let (mut watch, mut not_kept) = (None, None);
            if request.durable == Durability::WhenAsked {
                if !is_begun && self.may_wait(&request) {
                    match Box::pin(self.run_waiting(&mut request)).await {
                        DurableAttempt::Over(report) => return *report,
                        DurableAttempt::NotBegun(why) => not_kept = why,
                    }
                }
                request.durable = Durability::Volatile;
                // What is kept of an earlier run is used up by the first attempt.
                let may_begin_again = !is_begun && request.kept.is_none();
                watch = if may_begin_again { Watching::begin(&mut request) } else { None };
            }
            if request.durable == Durability::Durable && !is_begun {
                return match Box::pin(self.durable()).await {
                    Ok(runs) => Box::pin(runs.run(*request)).await,
                    Err(error) => not_begun(&error, request.kept.as_deref()),
                };
            }
            if matches!(request.staging, Staging::Wanted) {
                return Box::pin(self.dry_run(*request)).await;
            }
            // Dropping this future keeps what the run did.
            let (noted, kept) = (self.failed_runs.note(&mut request).map(Box::new), request.kept.clone());
            let mut report = self.perform(&mut request, Counted::Yes).await;
            if let Some(watch) = watch.filter(|watch| self.begins_again(watch, &report)) {
                request.noted = None;
                if let Some(noted) = noted {
                    noted.discard();
                }
                return Box::pin(self.begin_again(request, watch)).await;
            }
            report.report.warnings.extend(not_kept);
            kept.iter().for_each(|kept| kept.mark(&mut report));
            if let Some(noted) = noted {
                noted.ended(&report);
            }
            report
        }
    }

    /// What an agent can do about a run of this caller that failed after it had an effect, where its report does not say it.
    pub fn advice(&self, run: &RunReport, caller: &CallerScope) -> Option<String> {
        self.failed_runs.advice(run, &caller.name)
    }

    /// What a volatile run of this caller did before it failed, for a corrected program that keeps it, and how that is to last; `None`
    /// if there was no such run in this process, or it is forgotten. Others cannot correct the run until this one has ended.
    ///
    /// # Errors
    /// If the run is being corrected already.
    pub fn correct(
        &self,
        run: &str,
        caller: &CallerScope,
    ) -> Result<Option<(Arc<KeptEffects>, Durability)>, BeingCorrected> {
        let found = self.failed_runs.correct(run, &caller.name)?;
        Ok(found.map(|(kept, durable)| (Arc::new(kept), durable)))
    }

    async fn perform(&self, request: &mut RunRequest, counted: Counted) -> RunReport {
        let since = Instant::now();
        let in_flight = self.history.metrics().begin(request.door, &request.caller.name);
        let noted_as = || request.noted.as_ref().map(|noted| noted.run().to_owned());
        let id = request.id.clone().or_else(noted_as).unwrap_or_else(execution_id);
        // A token of its own: cancelling the caller's would say that the report is not wanted.
        request.cancel = request.cancel.child_token();
        request.trace = self.history.wants_traces().then(|| Arc::new(RunTrace::new(&request.origin.trace)));
        let calls = match counted {
            Counted::Yes | Counted::No => self.history.note_calls(request, &id, since),
            Counted::Never => None,
        };
        let request = &*request;
        let mut performing = std::pin::pin!(Attempt::perform(self, request, since));
        let (mut report, route) = tokio::select! {
            biased;
            performed = &mut performing => performed,
            // A durable run is not aborted with this process, but given to another one.
            () = self.abort.cancelled(), if counted != Counted::No => {
                request.cancel.cancel();
                performing.await
            }
        };
        report.elapsed = since.elapsed();
        let report = RunReport::ended(id, route, report);
        let calls = calls.map(|calls| calls.take()).unwrap_or_default();
        match counted {
            Counted::Yes => self.history.record(request, &calls, &report),
            Counted::No => self.history.keep_notes(&report.id, request, calls),
            Counted::Never => {}
        }
        in_flight.end();
        report
    }

    /// Aborts the runs in flight, and every later one: each ends as `ABORTED` with its report.
    pub fn abort_runs(&self) {
        self.abort.cancel();
    }

    /// The backends that a caller may use, and whether each is ready for calls.
    pub fn backends_ready(&self, caller: &CallerScope) -> Vec<(String, bool)> {
        let catalog = self.bridge.catalog();
        let view = ScopedCatalog::new(&catalog, &caller.backends, &caller.tools);
        view.backends().map(|it| (it.name().to_owned(), *it.state() == BackendState::Ready)).collect()
    }

    /// How results are shaped unless a caller asks for something else.
    pub fn output(&self) -> OutputSettings {
        self.environment.output()
    }

    /// The results that are kept for a caller.
    pub fn results(&self, caller: &CallerScope) -> Option<ResultStore> {
        self.environment.results().map(|results| results.of(&caller.name))
    }

    /// Shapes the value of a run for a context window. What is left out is kept whole for the caller.
    pub fn shape(
        &self,
        run: &RunReport,
        caller: &CallerScope,
        settings: &OutputSettings,
        intent: Option<&str>,
    ) -> Option<Response> {
        let value = run.report.value().ok()?.get();
        let results = self.results(caller);
        let mut keep = |kept: Kept<'_>| results.as_ref().and_then(|results| results.keep(kept));
        let response = toolgate_output::shape(value, settings, intent, &mut keep);
        let transfer =
            Transfer { processed: response.bytes_processed as u64, returned: response.bytes_returned as u64 };
        self.history.shaped(&run.id, transfer);
        Some(response)
    }

    /// What was learned of results, if anything learns from them.
    pub fn learned(&self) -> Option<Arc<dyn LearnedResults>> {
        self.environment.learned()
    }

    /// The path that a program would take. A script that would be stopped is a script.
    pub fn route(&self, request: &RunRequest) -> Route {
        Attempt::route(self, request)
    }

    /// Looks over a program without running it: the calls it would make and what is wrong with them.
    ///
    /// # Errors
    /// If the text is no program.
    pub fn check(&self, request: &RunRequest) -> Result<Preflight, Failure> {
        Attempt::check(self, request)
    }

    /// The same with a check of its types, where there is a checker. `within` is how long that may take.
    ///
    /// # Errors
    /// If the text is no program.
    pub async fn check_types(&self, request: &RunRequest, within: Duration) -> Result<ProgramCheck, Failure> {
        Attempt::check_types(self, request, within).await
    }
}

/// Whether the end of an execution is the end of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// It is, and statistics count it.
    Yes,
    /// The run may go on elsewhere.
    No,
    /// It is a repetition: nothing is done, so no listener hears of it.
    Never,
}

fn out_of_range(fault: &LimitFault) -> Failure {
    Failure::new(Code::InvalidData, fault.to_string())
}

/// What is known of the effect of a host function that failed.
fn state_of(effect: FailedEffect) -> CallState {
    match effect {
        FailedEffect::NotSent => CallState::NotSent,
        FailedEffect::Failed => CallState::Failed,
        FailedEffect::Unknown => CallState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_catalog::{Catalog, CatalogHandle};
    use toolgate_engine::{EngineWithRuntime, IsolationMode};

    #[test]
    fn the_futures_of_runs_and_calls_are_small() {
        let bridge = Arc::new(Bridge::new(CatalogHandle::new(Catalog::new(Vec::new()))));
        let engine = Engine::builder().workers_ahead(0).isolation(IsolationMode::Thread);
        let started = EngineWithRuntime::start(engine).expect("an engine");
        let runner = Runner::new(started.engine.clone(), bridge.clone(), Arc::new(FixedEnvironment::default()));
        let run = size_of_val(&runner.run(RunRequest::new(Profile::Chain, "return 1")));
        let call = size_of_val(&bridge.call("a", "b", serde_json::Map::new(), RequestContext::default()));
        // Each is copied whenever it is moved; what few of them need is in memory of its own.
        assert!(run <= 4_096 && call <= 2_048, "a run has {run} bytes, a call {call}");
    }
}
