//! From flags to an engine, and from a request to a report, whatever happens on the way.

use std::str::Utf8Error;
use std::time::Duration;

use tokio::runtime::Runtime;
use toolgate_engine::{Engine, EngineBuilder, IsolationMode, Request, V8Settings};
use toolgate_wire::{
    Code, Failure, Interpreter, Isolation, LimitRequest, Logs, Outcome, Profile, Report, Usage as Used,
};

use crate::commands::Usage;

/// An engine with the runtime that its host calls wait on.
pub(crate) struct Started {
    // Before the runtime: fields are dropped in this order, and workers end before what answers them.
    pub(crate) engine: Engine,
    runtime: Runtime,
}

impl Started {
    /// Waits for what needs the runtime.
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

/// Starts an engine. The calling thread stays outside the runtime, so it may block.
pub(crate) fn start(builder: EngineBuilder) -> anyhow::Result<Started> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let engine = {
        let _inside = runtime.enter();
        builder.build()?
    };
    Ok(Started { engine, runtime })
}

/// Nothing ahead: a second worker would be started for nobody.
pub(crate) fn for_one_run(isolation: IsolationMode) -> EngineBuilder {
    let v8 = V8Settings { ahead: 0, ..V8Settings::default() };
    Engine::builder().isolation(isolation).workers_ahead(0).v8(v8)
}

/// One run on an engine of its own.
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) data: Option<Result<String, Utf8Error>>,
    pub(crate) isolation: IsolationMode,
}

/// Runs it. What cannot even be started is a report too, so that `--json` has one form.
pub(crate) fn perform(job: Job) -> Report {
    let data = match job.data.transpose() {
        Ok(data) => data,
        Err(error) => return refused(Code::InvalidData, format!("the data is not JSON: {error}")),
    };
    match start(for_one_run(job.isolation)) {
        Ok(started) => started.engine.run_blocking(Request { data, ..job.request }),
        Err(error) => refused(Code::Unavailable, format!("{error:#}")),
    }
}

/// The memory that a run with these limits has; limits out of range are wrong usage.
pub(crate) fn memory_of(limits: &LimitRequest, profile: Profile) -> Result<u64, Usage> {
    limits.resolve(profile).map(|resolved| resolved.limits.memory).map_err(|fault| Usage(fault.to_string()))
}

fn refused(code: Code, message: String) -> Report {
    Report {
        outcome: Outcome::Failed(Failure::new(code, message)),
        elapsed: Duration::ZERO,
        logs: Logs::default(),
        calls: Vec::new(),
        usage: Used::default(),
        isolation: Isolation::default(),
        engine: Interpreter::None,
        warnings: Vec::new(),
    }
}
