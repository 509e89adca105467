//! From flags to a runner, and the signals that end a run.

use std::str::Utf8Error;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolgate_bridge::Bridge;
use toolgate_config::checked::TypeScript;
use toolgate_engine::{Engine, EngineBuilder, EngineWithRuntime, IsolationMode, StartError, V8Settings};
use toolgate_gateway::runtime::program_types;
use toolgate_output::{OutputFormat, OutputSettings};
use toolgate_run::{Durability, FixedEnvironment, Readiness, RunReport, RunRequest, Runner};
use toolgate_wire::{Code, LimitRequest, Profile};

use crate::commands::Usage;
use crate::commands::program_config::{ProgramConfig, ServerUse};
use crate::commands::servers::{ONE_CHECK_BUDGET, Opened, wait_for_program};
use crate::{consent, terminal};

/// An engine for one run: nothing is started ahead for a second one.
pub(crate) fn for_one_run(isolation: IsolationMode) -> EngineBuilder {
    let v8 = V8Settings { ahead: 0, ..V8Settings::default() };
    Engine::builder().isolation(isolation).workers_ahead(0).v8(v8)
}

/// Runs one program over a bridge, on an engine of its own. A failure to start is a report too, so that `--json` has one form.
pub(crate) fn run_once(isolation: IsolationMode, bridge: Arc<Bridge>, request: RunRequest) -> RunReport {
    let started = match EngineWithRuntime::start(for_one_run(isolation)) {
        Ok(started) => started,
        Err(error) => return RunReport::refused(Code::Unavailable, error.to_string()),
    };
    let types = program_types(&TypeScript::Found, ONE_CHECK_BUDGET, &started.engine).ok();
    let environment = FixedEnvironment { types, ..FixedEnvironment::default() };
    let runner = Runner::new(started.engine.clone(), bridge, Arc::new(environment));
    started.wait(run_until_signal(&runner, request))
}

/// Runs one program under a configuration, and says how its result is shaped. The run itself waits for the servers that
/// the program names.
pub(crate) fn run_configured(
    found: ProgramConfig,
    isolation: Option<IsolationMode>,
    request: RunRequest,
) -> anyhow::Result<(RunReport, OutputSettings)> {
    let opened = match Opened::for_one_run(found.config, isolation) {
        Ok(opened) => opened,
        Err(error) => {
            let refused = error.downcast::<StartError>()?;
            return Ok((RunReport::refused(Code::Unavailable, refused.to_string()), OutputSettings::default()));
        }
    };
    opened.within(async |gateway| {
        if found.servers == ServerUse::Started {
            // A server may take longer to start than a program to run: that time is not the program's.
            wait_for_program(gateway, &request.text, &request.caller, Readiness::Ready).await;
        }
        let output = for_a_person(gateway.runner().output());
        // What is recorded to a file, and a dry run, begin no durable run.
        let is_dry = request.staging.is_on() && request.durable != Durability::Durable;
        let is_plain = request.recorder.is_none() && !is_dry;
        let run = match is_plain && consent::is_interactive() {
            true => terminal::run(gateway.runner(), request).await,
            false => run_until_signal(gateway.runner(), request).await,
        };
        Ok((run, output))
    })
}

/// The configured shape of results; `auto`, which is for models, is indented JSON here.
fn for_a_person(configured: OutputSettings) -> OutputSettings {
    match configured.format {
        OutputFormat::Auto => OutputSettings { format: OutputFormat::Pretty, ..configured },
        OutputFormat::Pretty | OutputFormat::Compact | OutputFormat::Table => configured,
    }
}

/// Runs a program; Ctrl-C and SIGTERM end it as `ABORTED`, with the report of what it has done.
pub(crate) async fn run_until_signal(runner: &Runner, request: RunRequest) -> RunReport {
    let signals = cancel_on_signal(request.cancel.clone());
    // A durable run reads this token alone.
    let request = RunRequest { withdrawn: Some(request.cancel.clone()), ..request };
    let run = runner.run(request).await;
    signals.abort();
    run
}

/// Starts a task that cancels the token at Ctrl-C or SIGTERM. The handlers are in place when this returns: without one, a signal that
/// arrives before the task has run would end the process.
#[cfg(unix)]
pub(crate) fn cancel_on_signal(token: CancellationToken) -> JoinHandle<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let handlers =
        signal(SignalKind::interrupt()).and_then(|interrupt| Ok((interrupt, signal(SignalKind::terminate())?)));
    tokio::spawn(async move {
        let Ok((mut interrupt, mut terminate)) = handlers else { return };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        token.cancel();
    })
}

/// Starts a task that cancels the token at Ctrl-C.
#[cfg(not(unix))]
pub(crate) fn cancel_on_signal(token: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        token.cancel();
    })
}

/// The memory that a run with these limits has; limits out of range are wrong usage.
pub(crate) fn memory_of(limits: &LimitRequest, profile: Profile) -> Result<u64, Usage> {
    limits.resolve(profile).map(|resolved| resolved.limits.memory).map_err(|fault| Usage(fault.to_string()))
}

/// Data that is text, or the report of data that is not.
pub(crate) fn text(data: Option<Result<String, Utf8Error>>) -> Result<Option<String>, Box<RunReport>> {
    let refused = |error| Box::new(RunReport::refused(Code::InvalidData, format!("the data is not JSON: {error}")));
    data.transpose().map_err(refused)
}

/// Data that is an object, as the `context` of a program is at every door, or the report of data that is not. What is not JSON is
/// refused by the run.
pub(crate) fn object(data: Option<String>) -> Result<Option<String>, Box<RunReport>> {
    let is_other = |text: &String| {
        toolgate_json::check(text).is_some()
            && toolgate_json::Value::of(text.trim()).shape() != toolgate_json::Shape::Object
    };
    if data.as_ref().is_some_and(is_other) {
        return Err(Box::new(RunReport::refused(Code::InvalidData, "the context is no JSON object".to_owned())));
    }
    Ok(data)
}
