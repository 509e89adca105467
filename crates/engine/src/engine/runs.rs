//! A run's way through its queue, its worker and its judge.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use toolgate_wire::frame::{Layers, Question, Seed};
use toolgate_wire::{Code, Destination, Failure, Isolation, Limits, Logs, Outcome, Report, Start, Usage};

use super::{EngineChoice, Request};
use crate::cancel::{Cancel, Registered};
use crate::host::Host;
use crate::judge;
use crate::moving::Coming;
use crate::process::{Ended, Moves, NoWorker, Pool};
use crate::pump::{Driven, Job, wall_clock};
use crate::queue::{NoPlace, Place, Queue};
use crate::source::Compiled;
use crate::thread;
use crate::v8::{self, V8};

/// What all clones of an engine share: where runs wait, and where they are run.
pub(super) struct Runs {
    pub(super) executor: Executor,
    pub(super) v8: V8,
    pub(super) engine: EngineChoice,
    pub(super) rehearse: bool,
    pub(super) queue: Queue,
    pub(super) runtime: Handle,
    pub(super) disposed: AtomicBool,
}

/// Where QuickJS runs.
pub(super) enum Executor {
    Process(Pool),
    Thread,
}

/// A request that passed its checks.
pub(super) struct Accepted {
    pub(super) request: Request,
    pub(super) program: Compiled,
    pub(super) limits: Limits,
    pub(super) warnings: Vec<String>,
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    /// Made when nobody waits for this run any more. Apart from the caller's own wish, which other runs may share.
    pub(super) abandoned: Cancel,
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

impl Runs {
    pub(super) fn perform(&self, mut accepted: Accepted, place: Result<Place, NoPlace>) -> Report {
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
        let threshold = self.v8.settings().move_after + rereading(accepted.request.data.as_deref());
        let job = self.job(accepted);
        let accepted = &*accepted;
        let on_cancel = |stop: Box<dyn Fn() + Send + Sync>| accepted.on_cancel(stop);
        let start = || self.second_worker(pool, accepted);
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
                seed: request.seed.map_or_else(random_seed, Seed::from),
                now: wall_clock(),
                code: accepted.program.js().to_owned(),
                data: data.as_ref().map(|data| data.len() as u64),
                functions: request.host.functions(),
                tools: request.host.has_tools(),
                named: named(&*request.host, accepted.program.globals()),
            },
            data,
            deadline: accepted.deadline,
            host: request.host.clone(),
            observer: request.observer.clone(),
            runtime: self.runtime.clone(),
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

impl Drop for Runs {
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

/// What the program will ask for before anything else: the backends among the names that it uses.
fn named(host: &dyn Host, globals: &[String]) -> Vec<(String, Vec<u8>)> {
    /// A program that names more asks for the rest.
    const MOST: usize = 64 * 1024;
    if !host.has_tools() {
        return Vec::new();
    }
    let mut room = MOST;
    let answers = globals.iter().filter_map(|name| {
        let answer = host.answer(Question::Global, name)?.into_bytes();
        room = room.checked_sub(name.len() + answer.len())?;
        Some((name.clone(), answer))
    });
    answers.collect()
}

/// What a move costs more for a run with data: all of it is sent again and read there in full, where here it is read
/// as it is needed.
fn rereading(data: Option<&str>) -> Duration {
    const BYTES_A_MILLISECOND: usize = 50_000;
    Duration::from_millis((data.map_or(0, str::len) / BYTES_A_MILLISECOND) as u64)
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
pub(super) fn refusal(failure: Failure) -> Report {
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
fn random_seed() -> Seed {
    let mut crypto = [0; 32];
    if getrandom::fill(&mut crypto).is_err() {
        let (words, _) = crypto.as_chunks_mut();
        words.iter_mut().for_each(|word| *word = random_number().to_le_bytes());
    }
    Seed { math: random_number(), crypto }
}

/// The keys of a hash map are random, and another for each.
fn random_number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(wall_clock().to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{HostCall, HostFuture};

    struct Backends(Vec<(&'static str, String)>);

    impl Host for Backends {
        fn call(&self, _: HostCall) -> HostFuture {
            Box::pin(std::future::pending())
        }

        fn answer(&self, question: Question, name: &str) -> Option<String> {
            let known = self.0.iter().find(|(known, _)| *known == name && question == Question::Global)?;
            Some(known.1.clone())
        }

        fn has_tools(&self) -> bool {
            !self.0.is_empty()
        }
    }

    fn check(backends: Vec<(&'static str, String)>, globals: &[&str], expected: &[&str]) {
        let globals: Vec<_> = globals.iter().map(ToString::to_string).collect();
        let told = named(&Backends(backends), &globals);
        assert_eq!(told.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_program_is_told_of_the_backends_that_it_names() {
        check(vec![("exa", "{}".into()), ("git", "{}".into())], &["Math", "console", "git"], &["git"]);
        check(vec![], &["exa"], &[]);
    }

    #[test]
    fn what_is_told_ahead_is_bounded() {
        let large = "x".repeat(40 * 1024);
        check(vec![("a", large.clone()), ("b", large), ("c", "{}".into())], &["a", "b", "c"], &["a", "c"]);
    }
}
