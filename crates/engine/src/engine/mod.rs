//! The engine: takes a request and returns a report.
//!
//! # Layout
//! - `request`: what a caller asks for; `builder`: the settings of an engine
//! - `runs`: executes one accepted run and builds its report

mod builder;
mod request;
mod runs;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio_util::sync::DropGuard;
use toolgate_wire::{Code, Failure, Report};

pub use builder::EngineBuilder;
pub use request::{ComputeOptions, EngineChoice, IsolationMode, MigrationTarget, Request, UnknownEngine};

use crate::outcome;
use crate::process::StartError;
use crate::queue;
use crate::shared_core::cores_of_thread;
use crate::source::Compiled;
use crate::turns::TurnLoan;
use crate::v8::V8Status;
use runs::{AcceptedRun, EngineState, not_started};

/// Runs programs. Cheap to clone; all clones share workers and the queue.
#[derive(Clone)]
pub struct Engine(Arc<EngineState>);

impl Engine {
    /// An engine with the defaults.
    pub fn new() -> Result<Self, StartError> {
        EngineBuilder::default().build()
    }

    /// An engine with other settings.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// The program that can be started again as a jail for one that is not ours, and the layers that are left off; `None` if
    /// none can.
    pub fn jail(&self) -> Option<(&std::path::Path, toolgate_guest::lockdown::Without)> {
        self.0.v8.jail()
    }

    /// Runs a program. Dropping the future cancels the run.
    pub async fn run(&self, request: Request) -> Report {
        let accepted = match self.accept(request) {
            Ok(accepted) => accepted,
            Err(report) => return *report,
        };
        let slot = queue::enter(&self.0.queue, accepted.request.fairness, accepted.deadline, &accepted.cancel).await;
        let cancel_on_drop: DropGuard = accepted.cancel.clone().drop_guard();
        let inner = self.0.clone();
        let report = self.0.runtime.spawn_blocking(move || inner.execute(accepted, slot)).await;
        cancel_on_drop.disarm();
        report.unwrap_or_else(|_| not_started(Failure::new(Code::Unavailable, "the run was lost inside the engine")))
    }

    /// Runs a program on this thread. Must not be called from an async task.
    pub fn run_blocking(&self, request: Request) -> Report {
        let mut accepted = match self.accept(request) {
            Ok(accepted) => accepted,
            Err(report) => return *report,
        };
        // The thread is the caller's, and is to be as it was.
        accepted.cores = cores_of_thread();
        let slot = match self.0.queue.try_enter() {
            Some(slot) => Ok(slot),
            None => self.0.runtime.block_on(queue::enter(
                &self.0.queue,
                accepted.request.fairness,
                accepted.deadline,
                &accepted.cancel,
            )),
        };
        self.0.execute(accepted, slot)
    }

    /// Computation delegation: applies the function in `code` to `data` (JSON text). Only the result leaves the engine.
    pub async fn compute(&self, code: &str, data: impl Into<String>, options: ComputeOptions) -> Report {
        self.run(options.request(code, data.into())).await
    }

    /// [`Engine::compute`] on this thread. Must not be called from an async task.
    pub fn compute_blocking(&self, code: &str, data: impl Into<String>, options: ComputeOptions) -> Report {
        self.run_blocking(options.request(code, data.into()))
    }

    /// Whether programs can run on V8 here. Starts deno to get its version: too slow to call for every run.
    pub fn v8_status(&self) -> V8Status {
        self.0.v8.status()
    }

    /// Whether a run with this choice, or the engine's default, would find no interpreter.
    pub fn lacks(&self, engine: Option<EngineChoice>) -> bool {
        engine.unwrap_or(self.0.engine) == EngineChoice::V8 && self.0.v8.pool().is_err()
    }

    /// Why a worker could not be prepared for [reuse](EngineBuilder::reuse), if that was tried and failed.
    pub fn reuse_refusal(&self) -> Option<String> {
        self.0.reuse_refusal()
    }

    /// Lets one more run in until the loan is dropped: for a run that has a worker and waits for a person.
    pub fn lend_turn(&self) -> TurnLoan {
        self.0.queue.lend()
    }

    /// Ends the workers; every later run is `UNAVAILABLE`. Disposing twice does nothing.
    pub fn dispose(&self) {
        self.0.dispose();
    }

    /// Whether [`Engine::dispose`] was called.
    pub fn is_disposed(&self) -> bool {
        self.0.disposed.load(Ordering::Acquire)
    }

    /// Checks a request before it takes a slot or a worker, in the order that the documentation gives.
    fn accept(&self, mut request: Request) -> Result<AcceptedRun, Box<Report>> {
        let since = request.since.unwrap_or_else(Instant::now);
        if self.is_disposed() {
            return Err(Box::new(not_started(outcome::disposed())));
        }
        if request.cancel.is_cancelled() {
            return Err(Box::new(not_started(outcome::cancelled_before())));
        }
        let resolved = request.limits.resolve(request.profile);
        let resolved = resolved.map_err(|fault| Failure::new(Code::InvalidData, fault.to_string()));
        let checked = resolved.and_then(|resolved| {
            let program = Compiled::new(&request.code, request.compiled.take(), request.profile, &resolved.limits)?;
            Ok((resolved, program))
        });
        match checked {
            Ok((resolved, program)) => Ok(AcceptedRun {
                deadline: since + resolved.limits.wall,
                since,
                limits: resolved.limits,
                warnings: resolved.warnings,
                program,
                cancel: request.cancel.child_token(),
                oom_baseline: self.0.oom.baseline(),
                cores: self.0.cores,
                request,
            }),
            Err(failure) => Err(Box::new(Report { elapsed: since.elapsed(), ..not_started(failure) })),
        }
    }
}
