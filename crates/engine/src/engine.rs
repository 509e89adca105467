//! The engine: takes a request, gives a report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use toolgate_guest::lockdown::Without;
use toolgate_plan::Program;
use toolgate_wire::frame::Layers;
use toolgate_wire::{
    Code, Destination, Failure, Isolation, LimitRequest, Limits, Logs, Outcome, Profile, Report, Start, Usage,
};

use crate::cancel::{Cancel, Registered};
use crate::host::{Functions, Host};
use crate::judge;
use crate::moving::Coming;
use crate::observer::Observer;
use crate::process::{Ended, Moves, NoWorker, Pool, StartError, WorkerCommand, Zygote};
use crate::pump::{Driven, Job, wall_clock};
use crate::queue::{NoPlace, Place, Queue};
use crate::source::Compiled;
use crate::thread;
use crate::v8::{self, V8, V8Settings, V8Status};

/// What keeps a program from the rest of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IsolationMode {
    /// A fresh process under an operating-system jail.
    #[cfg_attr(target_os = "linux", default)]
    Process,
    /// A thread of this process: nothing but the interpreter itself.
    #[cfg_attr(not(target_os = "linux"), default)]
    Thread,
}

/// The interpreter that a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// QuickJS first; a run that computes for long moves to V8, if there is one.
    #[default]
    Auto,
    /// QuickJS only.
    QuickJs,
    /// V8 only; `UNAVAILABLE` where there is none.
    V8,
}

impl EngineChoice {
    /// The name used on the command line, in requests and in configuration.
    pub fn name(self) -> &'static str {
        match self {
            EngineChoice::Auto => "auto",
            EngineChoice::QuickJs => "quickjs",
            EngineChoice::V8 => "v8",
        }
    }
}

/// The text names no engine.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an engine: use auto, quickjs or v8")]
pub struct UnknownEngine(String);

impl std::str::FromStr for EngineChoice {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        let all = [EngineChoice::Auto, EngineChoice::QuickJs, EngineChoice::V8];
        all.into_iter().find(|choice| choice.name() == text).ok_or_else(|| UnknownEngine(text.to_owned()))
    }
}

/// One run that is asked for.
#[derive(Clone)]
pub struct Request {
    /// The program.
    pub code: String,
    /// The same program, where the caller has compiled it already; makes a second parse unnecessary.
    pub compiled: Option<Program>,
    /// The kind of run.
    pub profile: Profile,
    /// Changes to the profile's limits.
    pub limits: LimitRequest,
    /// JSON text: what a computation is over, or the program's global `context`.
    pub data: Option<String>,
    /// What the program may call.
    pub host: Arc<dyn Host>,
    /// How the caller takes the request back.
    pub cancel: Cancel,
    /// Who listens.
    pub observer: Option<Arc<dyn Observer>>,
    /// Where random numbers start; chosen at random when absent.
    pub seed: Option<u64>,
    /// The interpreter; the engine's own choice when absent.
    pub engine: Option<EngineChoice>,
}

impl Request {
    /// A request with the profile's limits, no data and an empty host.
    pub fn new(profile: Profile, code: impl Into<String>) -> Self {
        Request {
            code: code.into(),
            compiled: None,
            profile,
            limits: LimitRequest::default(),
            data: None,
            host: Arc::new(Functions::new()),
            cancel: Cancel::new(),
            observer: None,
            seed: None,
            engine: None,
        }
    }
}

/// How an engine is made.
#[derive(Debug, Clone)]
pub struct EngineBuilder {
    isolation: IsolationMode,
    engine: EngineChoice,
    v8: V8Settings,
    rehearse: bool,
    worker: WorkerCommand,
    without: Without,
    concurrent: usize,
    waiting: usize,
    ahead: usize,
}

impl Default for EngineBuilder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        EngineBuilder {
            isolation: IsolationMode::default(),
            engine: EngineChoice::default(),
            v8: V8Settings::default(),
            rehearse: false,
            worker: WorkerCommand::default(),
            without: Without::default(),
            concurrent: (2 * cores).max(8),
            waiting: 1024,
            ahead: 4,
        }
    }
}

impl EngineBuilder {
    /// Process or thread.
    pub fn isolation(self, isolation: IsolationMode) -> Self {
        EngineBuilder { isolation, ..self }
    }

    /// The interpreter of runs that do not choose one.
    pub fn engine(self, engine: EngineChoice) -> Self {
        EngineBuilder { engine, ..self }
    }

    /// How V8 is used.
    pub fn v8(self, v8: V8Settings) -> Self {
        EngineBuilder { v8, ..self }
    }

    /// Moves runs to a second QuickJS worker instead of V8: the same road, without its cost. For tests of moving.
    #[doc(hidden)]
    pub fn rehearse_moves(self) -> Self {
        EngineBuilder { rehearse: true, ..self }
    }

    /// The program that is started as the zygote.
    pub fn worker_command(self, worker: WorkerCommand) -> Self {
        EngineBuilder { worker, ..self }
    }

    /// Leaves layers of confinement off, for diagnosis: an engine without seccomp refuses every run.
    pub fn without(self, without: Without) -> Self {
        EngineBuilder { without, ..self }
    }

    /// Runs at one time.
    pub fn max_concurrent_runs(self, concurrent: usize) -> Self {
        EngineBuilder { concurrent: concurrent.max(1), ..self }
    }

    /// Runs that may wait for a place.
    pub fn max_waiting_runs(self, waiting: usize) -> Self {
        EngineBuilder { waiting, ..self }
    }

    /// Workers forked ahead; zero forks when a run needs one.
    pub fn workers_ahead(self, ahead: usize) -> Self {
        EngineBuilder { ahead, ..self }
    }

    /// Makes the engine. Needs a tokio runtime around it, for host calls that wait.
    pub fn build(self) -> Result<Engine, StartError> {
        let v8 = V8::new(self.v8, &self.worker, self.without);
        let executor = match self.isolation {
            IsolationMode::Process => {
                Executor::Process(Pool::new(Zygote::new(self.worker, self.without)?, self.ahead)?)
            }
            IsolationMode::Thread => Executor::Thread,
        };
        let runtime = Handle::try_current().map_err(|error| StartError::Io(std::io::Error::other(error)))?;
        let queue = Queue::new(self.concurrent, self.waiting);
        let disposed = AtomicBool::new(false);
        Ok(Engine(Arc::new(Inner {
            executor,
            v8,
            engine: self.engine,
            rehearse: self.rehearse,
            queue,
            runtime,
            disposed,
        })))
    }
}

/// Runs programs. Cheap to clone; all clones share workers and the queue.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    executor: Executor,
    v8: V8,
    engine: EngineChoice,
    rehearse: bool,
    queue: Queue,
    runtime: Handle,
    disposed: AtomicBool,
}

enum Executor {
    Process(Pool),
    Thread,
}

impl Engine {
    /// An engine with the defaults.
    pub fn new() -> Result<Self, StartError> {
        EngineBuilder::default().build()
    }

    /// An engine with other settings.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Runs a program. Dropping the future cancels the run.
    pub async fn run(&self, request: Request) -> Report {
        let accepted = match self.accept(request) {
            Ok(accepted) => accepted,
            Err(report) => return *report,
        };
        let place = self.0.queue.enter(accepted.deadline, &accepted.request.cancel).await;
        let cancel = CancelOnDrop(Some(accepted.abandoned.clone()));
        let inner = self.0.clone();
        let report = self.0.runtime.spawn_blocking(move || inner.perform(accepted, place)).await;
        cancel.disarm();
        report.unwrap_or_else(|_| refusal(Failure::new(Code::Unavailable, "the run was lost inside the engine")))
    }

    /// Runs a program on this thread. Must not be called from async code.
    pub fn run_blocking(&self, request: Request) -> Report {
        let accepted = match self.accept(request) {
            Ok(accepted) => accepted,
            Err(report) => return *report,
        };
        let place = match self.0.queue.try_enter() {
            Some(place) => Ok(place),
            None => self.0.runtime.block_on(self.0.queue.enter(accepted.deadline, &accepted.request.cancel)),
        };
        self.0.perform(accepted, place)
    }

    /// Computation delegation: applies a function to data that stays here; only the result leaves.
    ///
    /// `data` is JSON text.
    pub async fn compute(&self, code: &str, data: impl Into<String>, options: ComputeOptions) -> Report {
        self.run(options.request(code, data.into())).await
    }

    /// [`Engine::compute`] on this thread. Must not be called from async code.
    pub fn compute_blocking(&self, code: &str, data: impl Into<String>, options: ComputeOptions) -> Report {
        self.run_blocking(options.request(code, data.into()))
    }

    /// Whether programs can be run on V8 here; asks deno for its version, so not for every run.
    pub fn v8_status(&self) -> V8Status {
        self.0.v8.status()
    }

    /// Whether the interpreter that a request names, or the engine's own, is not there at all.
    pub fn lacks(&self, engine: Option<EngineChoice>) -> bool {
        engine.unwrap_or(self.0.engine) == EngineChoice::V8 && self.0.v8.pool().is_err()
    }

    /// Ends the workers; every later run is `UNAVAILABLE`. Doing it again does nothing.
    pub fn dispose(&self) {
        self.0.dispose();
    }

    /// Whether [`Engine::dispose`] was called: then no run will ever be taken again.
    pub fn is_disposed(&self) -> bool {
        self.0.disposed.load(Ordering::Acquire)
    }

    /// Everything that can be checked before anything is spent, in the documented order.
    fn accept(&self, mut request: Request) -> Result<Accepted, Box<Report>> {
        let since = Instant::now();
        if self.is_disposed() {
            return Err(Box::new(refusal(judge::disposed())));
        }
        if request.cancel.is_cancelled() {
            return Err(Box::new(refusal(judge::cancelled_before())));
        }
        let resolved = request.limits.resolve(request.profile);
        let resolved = resolved.map_err(|fault| Failure::new(Code::InvalidData, fault.to_string()));
        let checked = resolved.and_then(|resolved| {
            let program = Compiled::new(&request.code, request.compiled.take(), request.profile, &resolved.limits)?;
            Ok((resolved, program))
        });
        match checked {
            Ok((resolved, program)) => Ok(Accepted {
                deadline: since + resolved.limits.wall,
                since,
                limits: resolved.limits,
                warnings: resolved.warnings,
                program,
                request,
                abandoned: Cancel::new(),
            }),
            Err(failure) => Err(Box::new(Report { elapsed: since.elapsed(), ..refusal(failure) })),
        }
    }
}

/// How a computation is to be run.
#[derive(Debug, Clone, Default)]
pub struct ComputeOptions {
    /// Changes to the limits of [`Profile::Compute`].
    pub limits: LimitRequest,
    /// How the caller takes the request back.
    pub cancel: Cancel,
}

impl ComputeOptions {
    fn request(self, code: &str, data: String) -> Request {
        let request = Request::new(Profile::Compute, code);
        Request { limits: self.limits, cancel: self.cancel, data: Some(data), ..request }
    }
}

/// A request that passed its checks.
struct Accepted {
    request: Request,
    program: Compiled,
    limits: Limits,
    warnings: Vec<String>,
    since: Instant,
    deadline: Instant,
    /// Made when nobody waits for this run any more. Apart from the caller's own wish, which other runs may share.
    abandoned: Cancel,
}

impl Accepted {
    fn is_cancelled(&self) -> bool {
        self.request.cancel.is_cancelled() || self.abandoned.is_cancelled()
    }

    /// Calls `stop` when either wish is made.
    fn on_cancel(&self, stop: impl Fn() + Send + Sync + 'static) -> [Registered; 2] {
        let stop = Arc::new(stop);
        [&self.request.cancel, &self.abandoned].map(|wish| {
            let stop = stop.clone();
            wish.on_cancel(move || stop())
        })
    }
}

impl Inner {
    fn perform(&self, mut accepted: Accepted, place: Result<Place, NoPlace>) -> Report {
        let queued = accepted.since.elapsed();
        let done = match place {
            Ok(_place) => self.execute(&mut accepted),
            Err(NoPlace::Late) => Done::failed(judge::timeout(&accepted.limits)),
            Err(NoPlace::Cancelled) => Done::failed(judge::cancelled_before()),
            Err(NoPlace::Closed) => Done::failed(judge::disposed()),
            Err(NoPlace::Full) => Done::failed(
                Failure::new(Code::Unavailable, "too many runs are waiting already")
                    .with_hint("try again shortly, or allow more concurrent runs"),
            ),
        };
        Report {
            outcome: done.outcome,
            elapsed: accepted.since.elapsed(),
            logs: done.logs,
            calls: done.calls,
            usage: Usage { queued_ms: queued.as_secs_f64() * 1e3, ..done.usage },
            isolation: done.isolation,
            engine: done.engine,
            warnings: accepted.warnings,
        }
    }

    fn execute(&self, accepted: &mut Accepted) -> Done {
        if accepted.request.engine.unwrap_or(self.engine) == EngineChoice::V8 {
            return self.on_v8(accepted);
        }
        match &self.executor {
            Executor::Process(pool) => self.in_process(pool, accepted),
            Executor::Thread => {
                let job = self.job(accepted);
                let driven = thread::run(job, |stop| accepted.on_cancel(stop));
                let isolation = Isolation { mode: "thread", ..Isolation::default() };
                match driven {
                    Ok(driven) => self.judged(driven, Ended::Exit, accepted, isolation),
                    Err(error) => {
                        Done::failed(Failure::new(Code::Unavailable, format!("no thread to run on: {error}")))
                    }
                }
            }
        }
    }

    fn in_process(&self, pool: &Pool, accepted: &mut Accepted) -> Done {
        let worker = match pool.take(accepted.deadline) {
            Ok(worker) => worker,
            Err(NoWorker::Late) => return Done::failed(judge::timeout(&accepted.limits)),
            Err(NoWorker::Start(error)) => {
                return Done::failed(Failure::new(Code::Unavailable, error.to_string()).with_hint(DOCTOR));
            }
        };
        let isolation = isolation(worker.layers());
        if !isolation.seccomp {
            return no_seccomp(isolation);
        }
        let _registered = accepted.on_cancel(worker.killer());
        let job = self.job(accepted);
        let accepted = &*accepted;
        let on_cancel = |stop: Box<dyn Fn() + Send + Sync>| accepted.on_cancel(stop);
        let start = || self.second_worker(pool, accepted);
        let threshold = self.v8.settings().move_after;
        let moves = self.may_move(accepted).then_some(Moves { threshold, start: &start, on_cancel: &on_cancel });
        let (driven, ended) = worker.run(job, moves);
        let moved = driven.moved;
        let done = self.judged(driven, ended, accepted, isolation);
        pool.refill();
        if moved.is_some() && !self.rehearse {
            self.warm_up_again(accepted);
        }
        match moved.map(|moved| moved.to) {
            Some(Destination::V8) => Done { engine: "quickjs+v8", ..done },
            _ => done,
        }
    }

    /// Whether a run may go on elsewhere: it was left to the engine, and there is an elsewhere.
    fn may_move(&self, accepted: &Accepted) -> bool {
        let choice = accepted.request.engine.unwrap_or(self.engine);
        choice == EngineChoice::Auto && (self.rehearse || self.v8.pool().is_ok())
    }

    /// Where a run that computes for long goes on.
    fn second_worker(&self, pool: &Pool, accepted: &Accepted) -> std::io::Result<Box<dyn Coming>> {
        if self.rehearse {
            return pool.understudy();
        }
        let v8 = self.v8.pool().map_err(std::io::Error::other)?;
        v8.second(v8::Size::of(accepted.limits.memory))
    }

    /// The next run that moves finds a worker that is up.
    fn warm_up_again(&self, accepted: &Accepted) {
        if let Ok(v8) = self.v8.pool() {
            v8.refill(v8::Size::of(accepted.limits.memory));
        }
    }

    fn on_v8(&self, accepted: &mut Accepted) -> Done {
        let pool = match self.v8.pool() {
            Ok(pool) => pool,
            Err(missing) => return Done::failed(Failure::new(Code::Unavailable, missing)),
        };
        let size = v8::Size::of(accepted.limits.memory);
        let worker = match pool.take(size, accepted.deadline) {
            Ok(worker) => worker,
            Err(v8::NoWorker::Late) => return Done::failed(judge::timeout(&accepted.limits)),
            Err(v8::NoWorker::Start(error)) => {
                let failure = Failure::new(Code::Unavailable, format!("no V8 worker: {error}"));
                return Done::failed(failure.with_hint(DOCTOR));
            }
        };
        let isolation = isolation(worker.layers());
        if !isolation.seccomp {
            return no_seccomp(isolation);
        }
        let _registered = accepted.on_cancel(worker.killer());
        let (driven, ended) = worker.run(self.job(accepted));
        pool.refill(size);
        Done { engine: "v8", ..self.judged(driven, ended, accepted, isolation) }
    }

    fn judged(&self, driven: Driven, ended: Ended, accepted: &Accepted, isolation: Isolation) -> Done {
        let cancelled = accepted.is_cancelled();
        let mut usage = Usage { moved: driven.moved, ..Usage::default() };
        let outcome = match driven.end {
            Ok(finished) => {
                usage.memory_bytes = finished.memory;
                usage.cpu_ms = finished.cpu.as_secs_f64() * 1e3;
                judge::spoken(finished.end, &accepted.limits, &accepted.program, cancelled)
            }
            Err(_) if !cancelled && self.disposed.load(Ordering::Acquire) => Outcome::Failed(judge::disposed()),
            Err(lost) => Outcome::Failed(judge::unspoken(&lost, ended, &accepted.limits, cancelled)),
        };
        Done { outcome, logs: driven.logs, calls: driven.calls, usage, isolation, engine: "quickjs" }
    }

    fn job(&self, accepted: &mut Accepted) -> Job {
        let data = accepted.request.data.take();
        let request = &accepted.request;
        let left = accepted.deadline.saturating_duration_since(Instant::now());
        Job {
            start: Start {
                profile: request.profile,
                limits: Limits { wall: politely(left), ..accepted.limits.clone() },
                seed: request.seed.unwrap_or_else(random_seed),
                now: wall_clock(),
                code: accepted.program.js().to_owned(),
                data: data.as_ref().map(|data| data.len() as u64),
                functions: request.host.functions(),
                tools: request.host.has_tools(),
            },
            data,
            deadline: accepted.deadline,
            host: request.host.clone(),
            observer: request.observer.clone(),
            runtime: self.runtime.clone(),
        }
    }

    fn dispose(&self) {
        if !self.disposed.swap(true, Ordering::AcqRel) {
            self.queue.close();
            if let Executor::Process(pool) = &self.executor {
                pool.stop();
            }
            self.v8.stop();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.dispose();
    }
}

const DOCTOR: &str = "`toolgate doctor` says what this machine gives; `--isolation thread` runs without a process";

/// The parts of a report that the executor knows.
struct Done {
    outcome: Outcome,
    logs: Logs,
    calls: Vec<toolgate_wire::CallRecord>,
    usage: Usage,
    isolation: Isolation,
    engine: &'static str,
}

impl Done {
    fn failed(failure: Failure) -> Self {
        Done {
            outcome: Outcome::Failed(failure),
            logs: Logs::default(),
            calls: Vec::new(),
            usage: Usage::default(),
            isolation: Isolation { mode: "none", ..Isolation::default() },
            engine: "none",
        }
    }
}

/// Nothing is run without a filter; the report says what there was.
fn no_seccomp(isolation: Isolation) -> Done {
    let failure = Failure::new(Code::Unavailable, "this system gives no seccomp filter, so nothing is run");
    Done { isolation: Isolation { mode: "none", ..isolation }, ..Done::failed(failure.with_hint(DOCTOR)) }
}

fn isolation(layers: Layers) -> Isolation {
    Isolation {
        mode: "process",
        seccomp: layers.seccomp,
        landlock: layers.landlock,
        no_new_privs: layers.no_new_privs,
        no_exec_memory: layers.no_exec_memory,
        namespaces: if layers.namespaces { vec!["net", "ipc", "uts"] } else { Vec::new() },
        private_user: layers.private_user,
    }
}

/// The report of a run that never came to be.
fn refusal(failure: Failure) -> Report {
    let done = Done::failed(failure);
    Report {
        outcome: done.outcome,
        elapsed: Duration::ZERO,
        logs: done.logs,
        calls: done.calls,
        usage: done.usage,
        isolation: done.isolation,
        engine: "none",
        warnings: Vec::new(),
    }
}

/// The time that a worker is told: a little less than there is, so that it can say where it was stopped
/// before it is killed.
fn politely(left: Duration) -> Duration {
    let margin = (left / 50).min(Duration::from_millis(5));
    (left - margin).max(Duration::from_millis(1))
}

/// A seed that no program can know beforehand.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(wall_clock().to_bits())
}

/// Cancels when dropped, unless the run came to its end.
struct CancelOnDrop(Option<Cancel>);

impl CancelOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(cancel) = &self.0 {
            cancel.cancel();
        }
    }
}
