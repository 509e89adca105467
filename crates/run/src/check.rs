//! What is wrong with a program, found before it is run: by its text, and by its types where there is a checker.

use std::time::{Duration, Instant};

use toolgate_catalog::Catalog;
use toolgate_plan::{Finding, Form, Plan, Preflight, Program, SyntaxFault, UnusableText};
use toolgate_typecheck::Unchecked;
use toolgate_wire::{Code, Failure, Warning};

use super::Runner;
use super::attempt::Attempt;
use super::reachable::Reachable;
use super::request::RunRequest;
use super::type_check::{ProgramCheck, TypeVerdict, TypesNotChecked, names_something};

impl Attempt<'_> {
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
    pub(super) async fn type_check(
        &self,
        program: &Program,
        tools: Reachable<'_>,
        within: Option<Duration>,
    ) -> TypeVerdict {
        let Some(types) = self.runner.environment.types() else { return TypeVerdict::default() };
        let learned = self.runner.environment.learned();
        types.check(program, tools, learned, within).await
    }

    /// Checks how a program without tools uses the host functions. One that names none costs a look at its text.
    pub(super) async fn function_types(&self, within: Option<Duration>) -> TypeVerdict {
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
}

/// The failure that a preflight's errors make: nothing was called.
pub(super) fn stopped_by(preflight: &Preflight) -> Option<Failure> {
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

/// Says that types were not checked.
pub(super) fn unchecked(why: Unchecked) -> Warning {
    Warning::Remark(format!("the types of the program were not checked: {why}"))
}

/// A finding as the report has it.
pub(super) fn warning(finding: &Finding) -> Warning {
    let advice = finding.suggestion.as_ref().map(|advice| format!(" ({advice})")).unwrap_or_default();
    Warning::Finding { position: finding.position, message: format!("{}{advice}", finding.message) }
}

/// The failure of a text that cannot be run.
pub(super) fn not_a_program(fault: SyntaxFault) -> Failure {
    Failure { position: fault.position, hint: fault.hint, ..Failure::new(Code::Syntax, fault.message) }
}
