//! `call_tool_chain`: one text from an agent, run on the cheapest road that is certain to mean the same.
//!
//! # Layout
//! - `tools`: the catalog as the planner asks it
//! - `short_cut`: a text that is one call, without an engine; `canonical`: its answer as JavaScript would print it
//! - `introspect`: a text that only asks what tools there are
//! - `explain`: a failed run in words that teach; `kept`: computing on what an answer left out
//!
//! Every road ends in the same [`Report`], and the planner can be switched off: the answers stay, slower.

mod canonical;
mod explain;
mod introspect;
mod kept;
mod short_cut;
mod tools;

use std::sync::Arc;
use std::time::Instant;

use toolgate_engine::{CancellationToken, Engine, EngineChoice, Host, Observer, Request};
use toolgate_plan::{FailureFacts, Finding, Plan, Preflight, Program, Script, SyntaxFault};
use toolgate_wire::{
    CallState, Code, Failure, Interpreter, Isolation, LimitRequest, Limits, Logs, Outcome, Position, Profile, Report,
    Target, Usage,
};

use crate::bridge::{self, Asked, Bridge, RunHost, View};
use crate::catalog::{Backend, BackendState, Catalog};
use crate::functions::{CallContext, Registry};
use crate::output::{self, OutputSettings, Response};
use crate::store::results::ResultStore;
use tools::Reachable;

pub use explain::explain;
pub use kept::query;

/// Which road a text took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Road {
    /// JSON that names one tool.
    Direct,
    /// A question about tools, answered from the catalog.
    Introspection,
    /// A program that is one call.
    OneCall,
    /// A program for an engine.
    Script,
    /// Nothing ran: the text is no program, or its calls cannot succeed.
    Refused,
}

impl Road {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Road::Direct => "direct",
            Road::Introspection => "introspection",
            Road::OneCall => "one_call",
            Road::Script => "script",
            Road::Refused => "refused",
        }
    }
}

/// One text to run.
#[derive(Clone, Default)]
pub struct ChainRequest {
    /// The text.
    pub code: String,
    /// Changes to the limits of [`Profile::Chain`].
    pub limits: LimitRequest,
    /// Who asks.
    pub asked: Asked,
    /// Host functions beside the tools.
    pub functions: Registry,
    /// What host functions know of the request.
    pub context: CallContext,
    /// Who listens.
    pub observer: Option<Arc<dyn Observer>>,
    /// The interpreter; the engine's own choice when absent.
    pub engine: Option<EngineChoice>,
    /// Whether every text goes to the engine. The answers are the same.
    pub no_short_cuts: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct ChainReport {
    /// The run.
    pub report: Report,
    /// The road it took.
    pub road: Road,
}

/// Runs texts over a bridge.
#[derive(Clone)]
pub struct Chain {
    engine: Engine,
    bridge: Arc<Bridge>,
}

impl Chain {
    /// A chain over an engine and a bridge.
    pub fn new(engine: Engine, bridge: Arc<Bridge>) -> Self {
        Chain { engine, bridge }
    }

    /// The bridge behind it.
    pub fn bridge(&self) -> &Arc<Bridge> {
        &self.bridge
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs one text to its end.
    pub async fn run(&self, request: ChainRequest) -> ChainReport {
        let since = Instant::now();
        let limits = match admitted(&request) {
            Ok(limits) => limits,
            Err(failure) => return refused(failure, Vec::new(), since),
        };
        let catalog = self.bridge.catalog();
        let tools = request.reachable(&catalog);
        match planned(&request, &limits, tools) {
            Plan::Fault(fault) => refused(not_a_program(fault), Vec::new(), since),
            Plan::BadCall(fault) => {
                refused(Failure { code: Code::InvalidCode, ..not_a_program(fault) }, Vec::new(), since)
            }
            Plan::Introspect(query) => match short_cut::plain(&introspect::answer(&query, tools.view), &limits) {
                Some(value) => {
                    let report = without_engine(Outcome::Returned(value), since);
                    ChainReport { report, road: Road::Introspection }
                }
                None => self.program(&request, tools, since).await,
            },
            Plan::Direct(call) => {
                if let Some(stopped) = stopped_by(&toolgate_plan::preflight_call(&call, &tools)) {
                    return refused(stopped, Vec::new(), since);
                }
                let report = short_cut::direct(self, &request, call, &limits, since).await;
                ChainReport { report: with_hint(report, &request.code, tools), road: Road::Direct }
            }
            Plan::OneCall(call) => {
                let report = short_cut::one_call(self, &request, call, &limits, since).await;
                ChainReport { report: with_hint(report, &request.code, tools), road: Road::OneCall }
            }
            Plan::Script(script) => self.script(&request, *script, tools, since).await,
        }
    }

    /// Runs a text in the engine, whatever cheaper road there is.
    async fn program(&self, request: &ChainRequest, tools: Reachable<'_>, since: Instant) -> ChainReport {
        match toolgate_plan::script(&request.code, &tools) {
            Ok(script) => self.script(request, script, tools, since).await,
            Err(fault) => refused(not_a_program(fault), Vec::new(), since),
        }
    }

    async fn script(
        &self,
        request: &ChainRequest,
        script: Script,
        tools: Reachable<'_>,
        since: Instant,
    ) -> ChainReport {
        let warnings = script.preflight.warnings.iter().map(sentence).collect::<Vec<_>>();
        if let Some(stopped) = stopped_by(&script.preflight) {
            return refused(stopped, warnings, since);
        }
        let host = Arc::new(self.host(request));
        let mut report = self.in_engine(request.clone(), host, script.program).await;
        report.warnings.extend(warnings);
        ChainReport { report: with_hint(report, &request.code, tools), road: Road::Script }
    }

    fn host(&self, request: &ChainRequest) -> RunHost {
        RunHost::new(self.bridge.clone(), request.asked.clone())
            .with_functions(request.functions.clone(), request.context.clone())
    }

    async fn in_engine(&self, request: ChainRequest, host: Arc<dyn Host>, program: Program) -> Report {
        let following = Following::new(&request.asked);
        let run = Request {
            limits: request.limits,
            host,
            compiled: Some(program),
            cancel: following.cancel.clone(),
            observer: request.observer,
            engine: request.engine,
            ..Request::new(Profile::Chain, request.code)
        };
        self.engine.run(run).await
    }
}

/// The road that a text would take, without taking it. A script that would be stopped is a script.
pub fn plan(bridge: &Bridge, request: &ChainRequest) -> Road {
    let catalog = bridge.catalog();
    match admitted(request).map(|limits| planned(request, &limits, request.reachable(&catalog))) {
        Err(_) | Ok(Plan::Fault(_) | Plan::BadCall(_)) => Road::Refused,
        Ok(Plan::Direct(_)) => Road::Direct,
        Ok(Plan::Introspect(_)) => Road::Introspection,
        Ok(Plan::OneCall(_)) => Road::OneCall,
        Ok(Plan::Script(_)) => Road::Script,
    }
}

/// Looks over a text without running it: the calls it would make and what is wrong with them.
///
/// # Errors
/// If the text is no program.
pub fn check(bridge: &Bridge, request: &ChainRequest) -> Result<Preflight, Failure> {
    admitted(request)?;
    let catalog = bridge.catalog();
    toolgate_plan::preflight(&request.code, &request.reachable(&catalog)).map_err(not_a_program)
}

impl ChainRequest {
    fn reachable<'a>(&'a self, catalog: &'a Catalog) -> Reachable<'a> {
        Reachable { view: View::new(catalog, &self.asked.access), functions: &self.functions }
    }
}

/// The road of a text; where short cuts are off, or a program may make no calls, only the engine's.
fn planned(request: &ChainRequest, limits: &Limits, tools: Reachable<'_>) -> Plan {
    let plan = toolgate_plan::plan(&request.code, &tools);
    let short = match &plan {
        Plan::OneCall(_) => !request.no_short_cuts && limits.calls > 0 && is_ample(limits, request.code.len()),
        Plan::Introspect(_) => !request.no_short_cuts && is_ample(limits, request.code.len()),
        Plan::Direct(_) | Plan::Script(_) | Plan::Fault(_) | Plan::BadCall(_) => true,
    };
    if short {
        return plan;
    }
    toolgate_plan::script(&request.code, &tools).map_or_else(Plan::Fault, |script| Plan::Script(Box::new(script)))
}

/// An interpreter needs at most this many times its length for a program that is one literal.
const CODE_SPREAD: u64 = 128;

/// Whether a text of that length certainly meets no limit of the interpreter, whose verdict a short cut could not know.
fn is_ample(limits: &Limits, code: usize) -> bool {
    limits.stack >= Limits::of(Profile::Chain).stack && code as u64 * CODE_SPREAD <= limits.memory
}

/// Adds what can be said of a failure by who knows the tools, which the engine does not.
fn with_hint(mut report: Report, code: &str, tools: Reachable<'_>) -> Report {
    let unready = unready_backend(&report, tools.view);
    if let Outcome::Failed(failure) = &mut report.outcome
        && failure.code == Code::Runtime
    {
        let position = failure.position;
        let facts =
            FailureFacts { source: code, error_name: error_name(&failure.message), position, profile: Profile::Chain };
        if let Some(hint) = unready.or_else(|| toolgate_plan::hint_for(&facts, &tools)) {
            failure.hint = Some(hint);
        }
    }
    report
}

/// What is to say of the backend of the last call, if that was not sent because the backend is not up.
fn unready_backend(report: &Report, view: View<'_>) -> Option<String> {
    let last = report.calls.last().filter(|call| call.state == CallState::NotSent)?;
    let Target::Tool { backend, tool } = &last.target else { return None };
    let named = |it: &&Backend| it.name() == backend && it.tool(tool).is_some();
    let backend = view.backends().filter(|it| *it.state() != BackendState::Ready).find(named)?;
    Some(bridge::unready(backend.name(), Some(tool), backend.state()))
}

/// Shapes a returned value for a context window; what is left out is kept whole.
pub fn shape(
    report: &Report,
    settings: &OutputSettings,
    intent: Option<&str>,
    results: &ResultStore,
) -> Option<Response> {
    let value = report.value().ok()?;
    Some(output::shape(value.get(), settings, intent, &mut |kept| results.keep(kept)))
}

/// The limits of the request, once its text is short enough for them.
fn admitted(request: &ChainRequest) -> Result<Limits, Failure> {
    let resolved = request.limits.resolve(Profile::Chain);
    let limits = resolved.map_err(|fault| Failure::new(Code::InvalidData, fault.to_string()))?.limits;
    let length = request.code.chars().count() as u64;
    if length > limits.code {
        let message = format!("the code has {length} characters; at most {} are taken", limits.code);
        return Err(Failure::new(Code::InvalidCode, message));
    }
    if request.asked.cancel.is_cancelled() {
        return Err(Failure::new(Code::Aborted, "cancelled before sandbox started"));
    }
    Ok(limits)
}

/// An engine's wish that is made when the caller's token is.
pub(crate) struct Following {
    pub(crate) cancel: CancellationToken,
    task: tokio::task::AbortHandle,
}

impl Following {
    pub(crate) fn new(asked: &Asked) -> Self {
        let cancel = CancellationToken::new();
        let (wish, token) = (cancel.clone(), asked.cancel.clone());
        let task = tokio::spawn(async move {
            token.cancelled().await;
            wish.cancel();
        });
        Following { cancel, task: task.abort_handle() }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The failure that a preflight's errors make: nothing was called.
fn stopped_by(preflight: &Preflight) -> Option<Failure> {
    let first = preflight.errors.first()?;
    let rest = preflight.errors.len() - 1;
    let more = if rest > 0 { format!(" (and {rest} more like it)") } else { String::new() };
    Some(Failure {
        code: Code::InvalidCode,
        message: format!("{}{more}; nothing was called", first.message),
        position: Some(first.position),
        hint: first.suggestion.clone(),
    })
}

fn sentence(finding: &Finding) -> String {
    let Position { line, column } = finding.position;
    let advice = finding.suggestion.as_ref().map(|advice| format!(" ({advice})")).unwrap_or_default();
    format!("{line}:{column}: {}{advice}", finding.message)
}

fn not_a_program(fault: SyntaxFault) -> Failure {
    Failure { code: Code::Syntax, message: fault.message, position: fault.position, hint: fault.hint }
}

/// `TypeError` of `TypeError: x is not a function`.
fn error_name(message: &str) -> Option<&str> {
    let (name, _) = message.split_once(':')?;
    name.ends_with("Error").then_some(name)
}

fn refused(failure: Failure, warnings: Vec<String>, since: Instant) -> ChainReport {
    let report = Report { warnings, ..without_engine(Outcome::Failed(failure), since) };
    ChainReport { report, road: Road::Refused }
}

/// The report of a run that needed no engine.
fn without_engine(outcome: Outcome, since: Instant) -> Report {
    Report {
        outcome,
        elapsed: since.elapsed(),
        logs: Logs::default(),
        calls: Vec::new(),
        usage: Usage::default(),
        isolation: Isolation::default(),
        engine: Interpreter::None,
        warnings: Vec::new(),
    }
}
