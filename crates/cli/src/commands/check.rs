//! `toolgate check`: what a program would call, and what is wrong with that, without running it.

use std::sync::Arc;

use toolgate_config::checked::TypeScript;
use toolgate_engine::{EngineWithRuntime, IsolationMode};
use toolgate_gateway::runtime::program_types;
use toolgate_plan::{Arguments, Finding, FindingCode, PlannedCall, Position, Preflight};
use toolgate_run::{
    FixedEnvironment, ProgramCheck, Readiness, Route, RunRequest, Runner, TYPE_CHECK_TIMEOUT, TypesNotChecked,
};
use toolgate_service::CheckReply;
use toolgate_wire::{Failure, Profile};

use super::servers::{Opened, wait_for_program};
use super::{Exit, program_config};
use crate::args::programs::CheckArgs;
use crate::print::report::Origin;
use crate::print::{Style, escape, excerpt, note, out};
use crate::runner::for_one_run;
use crate::tools;
use toolgate_wire::foreign_text::clipped;

/// Characters of a call's arguments that are listed.
const MAX_SHOWN: usize = 100;

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<Exit> {
    let program = args.program.source();
    let code = program.code()?;
    let request = RunRequest::new(Profile::Chain, code.clone());
    let origin = Origin { name: program.to_string(), code };
    let config = match &args.tools {
        Some(_) => None,
        None => program_config::for_program(&args.servers, &request.text)?,
    };
    let checked = match config {
        Some(found) => over_servers(found.config, &request)?,
        None => over_script(args, &request)?,
    };
    let (found, route) = checked;
    let is_good = found.as_ref().is_ok_and(|found| found.preflight.errors.is_empty());
    if args.json {
        out(escape::json(&serde_json::to_string(&CheckReply::new(found, route))?))?;
    } else {
        Checked::from(found).print(&origin)?;
    }
    Ok(if is_good { Exit::Done } else { Exit::Failed })
}

/// What a check found, and the route that the program would take.
type Found = (Result<ProgramCheck, Failure>, Route);

/// Against the tools of a file; against none without one.
fn over_script(args: &CheckArgs, request: &RunRequest) -> anyhow::Result<Found> {
    let bridge = tools::bridge(args.tools.as_ref())?;
    let started = EngineWithRuntime::start(for_one_run(IsolationMode::Thread))?;
    let types = program_types(&TypeScript::Found, TYPE_CHECK_TIMEOUT, &started.engine).ok();
    let environment = FixedEnvironment { types, ..FixedEnvironment::default() };
    let runner = Runner::new(started.engine.clone(), bridge, Arc::new(environment));
    Ok((started.wait(runner.check_types(request, TYPE_CHECK_TIMEOUT)), runner.route(request)))
}

/// Against the tools of a configuration's servers, as the cache or the servers that the program names have them.
fn over_servers(config: toolgate_config::Checked, request: &RunRequest) -> anyhow::Result<Found> {
    Opened::for_one_run(config, Some(IsolationMode::Thread))?.within(async |gateway| {
        wait_for_program(gateway, &request.text, &request.caller, Readiness::Known).await;
        let mut checked = gateway.runner().check_types(request, TYPE_CHECK_TIMEOUT).await;
        // The cache does not have the tool: the server itself says whether there is one.
        if checked.as_ref().is_ok_and(is_left_open) {
            wait_for_program(gateway, &request.text, &request.caller, Readiness::Ready).await;
            checked = gateway.runner().check_types(request, TYPE_CHECK_TIMEOUT).await;
        }
        Ok((checked, gateway.runner().route(request)))
    })
}

/// Whether a tool may be one that the cache does not know yet.
fn is_left_open(found: &ProgramCheck) -> bool {
    found.preflight.warnings.iter().any(|finding| finding.code == FindingCode::NotReady)
}

struct Checked {
    calls: Vec<PlannedCall>,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
    not_checked: Option<TypesNotChecked>,
}

struct Problem {
    code: String,
    message: String,
    position: Option<Position>,
    suggestion: Option<String>,
}

impl From<Result<ProgramCheck, Failure>> for Checked {
    fn from(checked: Result<ProgramCheck, Failure>) -> Self {
        let problems = |findings: Vec<Finding>| findings.into_iter().map(Problem::from).collect();
        match checked {
            Ok(ProgramCheck { preflight: Preflight { calls, errors, warnings }, not_checked }) => {
                Checked { calls, errors: problems(errors), warnings: problems(warnings), not_checked }
            }
            Err(failure) => {
                Checked { calls: Vec::new(), errors: vec![failure.into()], warnings: Vec::new(), not_checked: None }
            }
        }
    }
}

impl From<Finding> for Problem {
    fn from(it: Finding) -> Self {
        let code = it.code.as_str().to_owned();
        Problem { code, message: it.message, position: Some(it.position), suggestion: it.suggestion }
    }
}

impl From<Failure> for Problem {
    fn from(it: Failure) -> Self {
        Problem { code: it.code.name().to_owned(), message: it.message, position: it.position, suggestion: it.hint }
    }
}

impl Checked {
    fn print(&self, origin: &Origin) -> anyhow::Result<()> {
        for call in &self.calls {
            out(escape::line(&listed(call)))?;
        }
        let style = Style::stderr();
        for problem in &self.warnings {
            note(problem.text(&style.warn(format_args!("warning[{}]:", problem.code)), origin, style));
        }
        for problem in &self.errors {
            note(problem.text(&style.bad(format_args!("error[{}]:", problem.code)), origin, style));
        }
        if let Some(why) = &self.not_checked {
            note(format_args!("the types of the program were not checked: {why}"));
        }
        Ok(())
    }
}

impl Problem {
    fn text(&self, label: &str, origin: &Origin, style: Style) -> String {
        let mut text = format!("{label} {}", escape::message(&self.message));
        if let Some(at) = self.position {
            text += &format!("\n  {} {}:{}:{}", style.faint("-->"), origin.name, at.line, at.column);
            if let Some(lines) = excerpt::excerpt(&origin.code, at) {
                text += &format!("\n{lines}");
            }
        }
        if let Some(suggestion) = &self.suggestion {
            text += &format!("\n{} {}", style.strong("hint:"), escape::message(suggestion));
        }
        text
    }
}

/// `2:9 shop.find {"query":"tea"}`
fn listed(call: &PlannedCall) -> String {
    let place = call.position.map(|at| format!("{}:{} ", at.line, at.column)).unwrap_or_default();
    let arguments: String = match &call.arguments {
        Arguments::Known(value) => clipped(&value.to_string(), MAX_SHOWN).into_owned(),
        Arguments::Partial { literals, dynamic, open } => {
            let known = literals.iter().map(|(key, value)| format!("{key}: {value}"));
            let unknown = dynamic.iter().map(|key| format!("{key}: …"));
            let more = open.then(|| "…".to_owned());
            let text = format!("{{ {} }}", known.chain(unknown).chain(more).collect::<Vec<_>>().join(", "));
            clipped(&text, MAX_SHOWN).into_owned()
        }
        Arguments::Unknown => "…".to_owned(),
    };
    format!("{place}{}.{} {arguments}", call.backend, call.tool)
}
