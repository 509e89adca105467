//! Executes an accepted run on a worker and builds its report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use toolgate_wire::frame::{Question, Seed};
use toolgate_wire::{
    Code, Destination, Failure, Interpreter, Isolation, IsolationLevel, Limits, Logs, Outcome, Report, Start, Usage,
    Warning,
};

use super::{EngineChoice, MigrationTarget, Request};
use crate::cancel::on_cancel;
use crate::host::Host;
use crate::migrate::{KnownPrograms, PendingWorker, ProgramKey, RacePolicy, Thresholds};
use crate::oom::{Baseline, OomCounters};
use crate::outcome;
use crate::process::{MigrationRequest, NoWorker, Pool, ProcessEnd, ReuseKey};
use crate::pump::{Driven, Job, wall_clock};
use crate::queue::NoSlot;
use crate::shared_core::CpuSet;
use crate::source::Compiled;
use crate::thread;
use crate::turns::{Permit, TurnQueue};
use crate::v8::{self, V8};

/// What all clones of an engine share.
pub(super) struct EngineState {
    pub(super) executor: Executor,
    pub(super) v8: V8,
    pub(super) engine: EngineChoice,
    pub(super) target: MigrationTarget,
    pub(super) race: RacePolicy,
    pub(super) programs: KnownPrograms,
    pub(super) queue: Arc<TurnQueue>,
    pub(super) runtime: Handle,
    pub(super) disposed: AtomicBool,
    pub(super) oom: OomCounters,
    /// The cores of the thread that built the engine.
    pub(super) cores: Option<CpuSet>,
}

/// Where QuickJS workers run.
pub(super) enum Executor {
    Process(Pool),
    Thread,
}

/// A request that passed its checks.
pub(super) struct AcceptedRun {
    pub(super) request: Request,
    pub(super) program: Compiled,
    pub(super) limits: Limits,
    pub(super) warnings: Vec<String>,
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    /// Child of the caller's token, which other runs may share. Also cancelled when the run's future is dropped.
    pub(super) cancel: CancellationToken,
    /// The cores that it may use.
    pub(super) cores: Option<CpuSet>,
    /// The OOM killer's count when the run was accepted.
    pub(super) oom_baseline: Baseline,
}

impl EngineState {
    pub(super) fn execute(&self, mut run: AcceptedRun, slot: Result<Permit, NoSlot>) -> Report {
        let queued = run.since.elapsed();
        let execution = match slot {
            Ok(_slot) => self.on_chosen_engine(&mut run),
            Err(NoSlot::Late) => Execution::failed(outcome::timeout(&run.limits)),
            Err(NoSlot::Cancelled) => Execution::failed(outcome::cancelled_before()),
            Err(NoSlot::Closed) => Execution::failed(outcome::disposed()),
            Err(NoSlot::Full) => Execution::failed(
                Failure::new(Code::Unavailable, "too many runs are waiting already")
                    .with_hint("try again shortly, or allow more concurrent runs"),
            ),
        };
        Report {
            outcome: execution.outcome,
            elapsed: run.since.elapsed(),
            logs: execution.logs,
            calls: execution.calls,
            has_unrecorded_calls: false,
            usage: Usage { queued_ms: queued.as_secs_f64() * 1e3, ..execution.usage },
            isolation: execution.isolation,
            engine: execution.engine,
            warnings: run.warnings.into_iter().map(Warning::from).collect(),
        }
    }

    fn on_chosen_engine(&self, run: &mut AcceptedRun) -> Execution {
        if run.request.engine.unwrap_or(self.engine) == EngineChoice::V8 {
            return self.on_v8(run);
        }
        match &self.executor {
            Executor::Process(pool) => self.in_process(pool, run),
            Executor::Thread => {
                let job = self.job(run);
                let driven = thread::run(job, |stop| on_cancel(&run.cancel, stop));
                let isolation = Isolation::of_thread();
                match driven {
                    Ok(driven) => self.finish(driven, ProcessEnd::Exit, run, isolation),
                    Err(error) => {
                        Execution::failed(Failure::new(Code::Unavailable, format!("no thread to run on: {error}")))
                    }
                }
            }
        }
    }

    fn in_process(&self, pool: &Pool, run: &mut AcceptedRun) -> Execution {
        let key = pool.reuse_key(|| reuse_key(run));
        let worker = match pool.take(run.deadline, key.as_ref()) {
            Ok(worker) => worker,
            Err(NoWorker::Late) => return Execution::failed(outcome::timeout(&run.limits)),
            Err(NoWorker::Start(error)) => {
                return Execution::failed(Failure::new(Code::Unavailable, error.to_string()).with_hint(DOCTOR_HINT));
            }
        };
        let layers = worker.layers();
        if !layers.seccomp {
            return no_seccomp(Isolation::of_process(layers));
        }
        let registered = on_cancel(&run.cancel, worker.killer());
        let rewound = worker.was_rewound();
        let known = self.may_migrate(run).then(|| self.known_program(run));
        let job = self.job(run);
        let run = &*run;
        let on_cancel = |stop: Box<dyn Fn() + Send + Sync>| on_cancel(&run.cancel, stop);
        let start = || self.start_target(pool, run);
        let race = self.race;
        let migration =
            known.map(|(_, thresholds)| MigrationRequest { thresholds, race, start: &start, on_cancel: &on_cancel });
        let (driven, process, used) = worker.run(job, migration);
        let moved = driven.moved;
        let layers = driven.target_layers.map_or(layers, |target| layers.weaker(target));
        let isolation = Isolation { rewound, ..Isolation::of_process(layers) };
        let execution = self.finish(driven, process, run, isolation);
        // What kills this run's worker must not kill the next run of it. A token that is cancelled from here on no longer
        // calls it.
        drop(registered);
        if let (Some(key), Some(used), Outcome::Returned(_)) = (key, used, &execution.outcome)
            && !run.cancel.is_cancelled()
        {
            pool.put_back(key, used);
        }
        pool.refill();
        if let Some((program, _)) = known {
            let computed = Duration::from_secs_f64(execution.usage.cpu_ms / 1e3);
            self.programs.remember(program, moved.map(|moved| moved.to), computed);
        }
        if moved.is_some() && self.target == MigrationTarget::V8 {
            self.refill_v8(run);
        }
        match moved.map(|moved| moved.to) {
            Some(Destination::V8) => Execution { engine: Interpreter::QuickJsThenV8, ..execution },
            _ => execution,
        }
    }

    /// Whether a run may migrate: the choice is [`EngineChoice::Auto`], and there is what it migrates to.
    fn may_migrate(&self, run: &AcceptedRun) -> bool {
        let choice = run.request.engine.unwrap_or(self.engine);
        let is_there = match self.target {
            MigrationTarget::V8 => self.v8.pool().is_ok(),
            MigrationTarget::QuickJs => true,
        };
        choice == EngineChoice::Auto && is_there
    }

    /// The program of a run that may migrate, and when it does.
    fn known_program(&self, run: &AcceptedRun) -> (ProgramKey, Thresholds) {
        let data = run.request.data.as_deref();
        let racing = self.v8.settings().move_after;
        let unknown = Thresholds { racing, alone: racing + data_migration_cost(data) };
        let program = self.programs.key(run.request.caller.as_deref(), run.request.profile, run.program.js(), data);
        (program, self.programs.thresholds(program, unknown))
    }

    /// Starts the worker that a run migrates to.
    fn start_target(&self, pool: &Pool, run: &AcceptedRun) -> std::io::Result<Box<dyn PendingWorker>> {
        if self.target == MigrationTarget::QuickJs {
            return pool.rehearsal_worker();
        }
        let v8 = self.v8.pool().map_err(std::io::Error::other)?;
        v8.target(v8::MemorySize::of(run.limits.memory))
    }

    /// Starts a V8 worker ahead, for the next run that migrates.
    fn refill_v8(&self, run: &AcceptedRun) {
        if let Ok(v8) = self.v8.pool() {
            v8.refill(v8::MemorySize::of(run.limits.memory));
        }
    }

    fn on_v8(&self, run: &mut AcceptedRun) -> Execution {
        let pool = match self.v8.pool() {
            Ok(pool) => pool,
            Err(missing) => return Execution::failed(Failure::new(Code::Unavailable, missing)),
        };
        let size = v8::MemorySize::of(run.limits.memory);
        let worker = match pool.take(size, run.deadline) {
            Ok(worker) => worker,
            Err(v8::NoWorker::Late) => return Execution::failed(outcome::timeout(&run.limits)),
            Err(v8::NoWorker::Start(error)) => {
                let failure = Failure::new(Code::Unavailable, format!("no V8 worker: {error}"));
                return Execution::failed(failure.with_hint(DOCTOR_HINT));
            }
        };
        let isolation = Isolation::of_process(worker.layers());
        if !isolation.seccomp {
            return no_seccomp(isolation);
        }
        let _registered = on_cancel(&run.cancel, worker.killer());
        let (driven, process) = worker.run(self.job(run));
        pool.refill(size);
        Execution { engine: Interpreter::V8, ..self.finish(driven, process, run, isolation) }
    }

    fn finish(&self, driven: Driven, process: ProcessEnd, run: &AcceptedRun, isolation: Isolation) -> Execution {
        let cancelled = run.cancel.is_cancelled();
        let mut usage = Usage { moved: driven.moved, ..Usage::default() };
        let outcome = match driven.end {
            Ok(finished) => {
                usage.memory_bytes = finished.memory;
                usage.cpu_ms = finished.cpu.as_secs_f64() * 1e3;
                outcome::from_end(finished.end, &run.limits, &run.program, cancelled)
            }
            Err(_) if !cancelled && self.disposed.load(Ordering::Acquire) => Outcome::Failed(outcome::disposed()),
            Err(lost) => {
                let killer = || self.oom.killer(run.oom_baseline);
                Outcome::Failed(outcome::from_exit(&lost, process, &run.limits, cancelled, killer))
            }
        };
        Execution { outcome, logs: driven.logs, calls: driven.calls, usage, isolation, engine: Interpreter::QuickJs }
    }

    fn job(&self, run: &mut AcceptedRun) -> Job {
        let wall = worker_time(run.deadline.saturating_duration_since(Instant::now()));
        let (start, data) = match &run.request.replay {
            Some(replay) => {
                let limits = Limits { wall, ..replay.start.limits.clone() };
                (Start { limits, ..replay.start.clone() }, replay.data.clone())
            }
            None => {
                let data = run.request.data.take();
                (start(run, wall, data.as_ref().map(|data| data.len() as u64)), data)
            }
        };
        let request = &run.request;
        Job {
            start,
            data,
            deadline: run.deadline,
            host: request.host.clone(),
            observer: request.observer.clone(),
            recorder: request.recorder.clone(),
            replay: request.replay.clone(),
            runtime: self.runtime.clone(),
            cores: run.cores,
            core: None,
        }
    }

    pub(super) fn reuse_refusal(&self) -> Option<String> {
        match &self.executor {
            Executor::Process(pool) => pool.reuse_refusal(),
            Executor::Thread => None,
        }
    }

    pub(super) fn dispose(&self) {
        if !self.disposed.swap(true, Ordering::AcqRel) {
            self.queue.close();
            if let Executor::Process(pool) = &self.executor {
                pool.stop();
            }
            self.v8.stop();
        }
    }
}

impl Drop for EngineState {
    fn drop(&mut self) {
        self.dispose();
    }
}

const DOCTOR_HINT: &str =
    "`toolgate doctor` shows what this machine supports; `--isolation thread` runs without a process";

/// What executing a run adds to its report.
struct Execution {
    outcome: Outcome,
    logs: Logs,
    calls: Vec<toolgate_wire::CallRecord>,
    usage: Usage,
    isolation: Isolation,
    engine: Interpreter,
}

impl Execution {
    fn failed(failure: Failure) -> Self {
        Execution {
            outcome: Outcome::Failed(failure),
            logs: Logs::default(),
            calls: Vec::new(),
            usage: Usage::default(),
            isolation: Isolation::default(),
            engine: Interpreter::None,
        }
    }
}

/// Who may get the worker of a run again. A run that repeats a record has limits of its own.
fn reuse_key(run: &AcceptedRun) -> Option<ReuseKey> {
    if run.request.replay.is_some() {
        return None;
    }
    let caller = run.request.caller.clone()?;
    Some(ReuseKey { caller, profile: run.request.profile, limits: run.limits.clone() })
}

/// The message that begins a run.
fn start(run: &AcceptedRun, wall: Duration, data: Option<u64>) -> Start {
    let request = &run.request;
    Start {
        profile: request.profile,
        limits: Limits { wall, ..run.limits.clone() },
        seed: request.seed.map_or_else(random_seed, Seed::from),
        now: wall_clock(),
        code: run.program.js().to_owned(),
        data,
        functions: request.host.functions(),
        tools: request.host.has_tools(),
        named: named(&*request.host, run.program.globals()),
    }
}

/// Answers to the questions that the program will ask first: about the backends among the global names that it uses.
fn named(host: &dyn Host, globals: &[String]) -> Vec<(String, Vec<u8>)> {
    /// Bytes of names and answers; the program asks for the rest itself.
    const MAX_BYTES: usize = 64 * 1024;
    if !host.has_tools() {
        return Vec::new();
    }
    let mut room = MAX_BYTES;
    let answers = globals.iter().filter_map(|name| {
        let answer = host.answer(&Question::Global(name.clone()))?.into_bytes();
        room = room.checked_sub(name.len() + answer.len())?;
        Some((name.clone(), answer))
    });
    answers.collect()
}

/// Additional cost of migrating a run with data. The data is sent again, and V8 parses all of it, while QuickJS parses
/// only what the program reads.
fn data_migration_cost(data: Option<&str>) -> Duration {
    const BYTES_PER_MS: usize = 50_000;
    Duration::from_millis((data.map_or(0, str::len) / BYTES_PER_MS) as u64)
}

/// The result when the worker has no seccomp filter: the program is not run, and the report shows the other layers.
fn no_seccomp(isolation: Isolation) -> Execution {
    let failure = Failure::new(Code::Unavailable, "this system provides no seccomp filter, so no program is run");
    Execution {
        isolation: Isolation { mode: IsolationLevel::None, ..isolation },
        ..Execution::failed(failure.with_hint(DOCTOR_HINT))
    }
}

/// The report of a run for which no program was started.
pub(super) fn not_started(failure: Failure) -> Report {
    Report::not_started(Outcome::Failed(failure), Duration::ZERO)
}

/// The wall time that a worker gets: slightly less than the time left, so that it can report where the program was
/// stopped before the host kills it.
fn worker_time(left: Duration) -> Duration {
    let margin = (left / 50).min(Duration::from_millis(5));
    (left - margin).max(Duration::from_millis(1))
}

/// Seeds that a program cannot predict.
fn random_seed() -> Seed {
    let mut crypto = [0; 32];
    if getrandom::fill(&mut crypto).is_err() {
        let (words, _) = crypto.as_chunks_mut();
        words.iter_mut().for_each(|word| *word = random_number().to_le_bytes());
    }
    Seed { math: random_number(), crypto }
}

/// A number from the keys of a new hash map, which the standard library draws at random.
fn random_number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(wall_clock().to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{HeldBytes, HostCall, HostFuture};

    struct Backends(Vec<(&'static str, String)>);

    impl Host for Backends {
        fn call(&self, _: HostCall) -> HostFuture {
            Box::pin(std::future::pending())
        }

        fn answer(&self, question: &Question) -> Option<String> {
            let Question::Global(name) = question else { return None };
            let known = self.0.iter().find(|(known, _)| known == name)?;
            Some(known.1.clone())
        }

        fn has_tools(&self) -> bool {
            !self.0.is_empty()
        }

        fn take_held(&self, _: toolgate_wire::CallId) -> Option<HeldBytes> {
            None
        }
    }

    fn check(backends: Vec<(&'static str, String)>, globals: &[&str], expected: &[&str]) {
        let globals: Vec<_> = globals.iter().map(ToString::to_string).collect();
        let sent = named(&Backends(backends), &globals);
        assert_eq!(sent.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn answers_about_named_backends_are_sent_ahead() {
        check(vec![("exa", "{}".into()), ("git", "{}".into())], &["Math", "console", "git"], &["git"]);
        check(vec![], &["exa"], &[]);
    }

    #[test]
    fn what_is_sent_ahead_is_bounded() {
        let large = "x".repeat(40 * 1024);
        check(vec![("a", large.clone()), ("b", large), ("c", "{}".into())], &["a", "b", "c"], &["a", "c"]);
    }
}
