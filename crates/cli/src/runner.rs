//! From flags to a runner, and the signals that end a run.

use std::str::Utf8Error;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_config::checked::TypeScript;
use toolgate_engine::{Engine, EngineBuilder, EngineWithRuntime, IsolationMode, V8Settings};
use toolgate_gateway::bridge::Bridge;
use toolgate_gateway::run::{FixedEnvironment, RunReport, RunRequest, Runner};
use toolgate_gateway::runtime::program_types;
use toolgate_wire::{Code, LimitRequest, Profile};

use crate::commands::Usage;
use crate::commands::servers::ONE_CHECK_BUDGET;

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

/// Runs a program; Ctrl-C and SIGTERM end it as `ABORTED`, with the report of what it has done.
pub(crate) async fn run_until_signal(runner: &Runner, request: RunRequest) -> RunReport {
    let signals = tokio::spawn(cancel_on_signal(request.cancel.clone()));
    let run = runner.run(request).await;
    signals.abort();
    run
}

/// Cancels the token at Ctrl-C or SIGTERM.
pub(crate) async fn cancel_on_signal(token: CancellationToken) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut ended) = signal(SignalKind::terminate()) else { return };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = ended.recv() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = tokio::signal::ctrl_c().await;
    token.cancel();
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
