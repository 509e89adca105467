//! From flags to an engine, and from a request to a report, whatever happens on the way.

use std::str::Utf8Error;
use std::time::Duration;

use toolgate_engine::{Engine, EngineBuilder, EngineWithRuntime, IsolationMode, Request, V8Settings};
use toolgate_wire::{
    Code, Failure, Interpreter, Isolation, LimitRequest, Logs, Outcome, Profile, Report, Usage as Used,
};

use crate::commands::Usage;

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
    match EngineWithRuntime::start(for_one_run(job.isolation)) {
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
