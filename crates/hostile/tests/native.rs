//! Native code inside the jail: what it tries must not work, and must not cost the host anything.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_engine::host::{HeldBytes, Question, Target};
use toolgate_engine::wire::{CallId, LimitRequest, Profile, Report};
use toolgate_engine::{Engine, Functions, Host, HostCall, HostFuture, Request, WorkerCommand};

/// Everything a worker may do, most of it with some arguments only; each of the rest must kill it.
const ALLOWED: [i64; 13] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_mmap,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_clock_gettime,
    libc::SYS_prlimit64,
    libc::SYS_exit_group,
    libc::SYS_exit,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
];
/// The kernel's own trampolines, which it keeps from every filter; outside a probe they do nothing or kill.
const PROBES: [i64; 2] = [335, 336];
/// Past the last system call of the newest kernels.
const NUMBERS: i64 = 500;
/// The bit that marks a call of the x32 kind.
const X32: i64 = 0x4000_0000;
const KILLED_BY_THE_FILTER: &str = "the sandbox died of signal 31";

/// A host with the functions that the attacks call, and one large backend.
struct AttackedHost(Functions);

impl Host for AttackedHost {
    fn call(&self, call: HostCall) -> HostFuture {
        match &call.target {
            Target::Function(_) | Target::Tool { .. } => self.0.call(call),
        }
    }

    fn answer(&self, _: &Question) -> Option<String> {
        Some(json!({ "name": "large", "tools": [], "filling": "x".repeat(1_000_000) }).to_string())
    }

    fn functions(&self) -> Vec<String> {
        self.0.functions()
    }

    fn has_tools(&self) -> bool {
        true
    }

    fn take_held(&self, id: CallId) -> Option<HeldBytes> {
        self.0.take_held(id)
    }
}

fn host() -> Arc<dyn Host> {
    let functions = Functions::new()
        .with("echo", |args: Value| async move { Ok(args[0].clone()) })
        .with("never", |_| std::future::pending())
        .with("big", |args: Value| async move {
            Ok(Value::String("x".repeat(usize::try_from(args[0].as_u64().unwrap_or(0)).unwrap_or(0))))
        });
    Arc::new(AttackedHost(functions))
}

fn engine() -> Engine {
    let worker = WorkerCommand::Program(env!("CARGO_BIN_EXE_toolgate-hostile-worker").into());
    Engine::builder().worker_command(worker).build().expect("a process engine")
}

/// Time for an attack that ends by itself, on a busy machine.
const PLENTY: Duration = Duration::from_secs(10);
/// Time for one that only the deadline ends.
const LITTLE: Duration = Duration::from_millis(700);

async fn order(engine: &Engine, order: &str, wall: Duration) -> Report {
    let limits = LimitRequest { wall: Some(wall), ..LimitRequest::default() };
    engine.run(Request { limits, host: host(), ..Request::new(Profile::Chain, format!("return \"do {order}\"")) }).await
}

/// What came of it, in a line.
fn outcome(report: &Report) -> String {
    match report.value() {
        Ok(value) => value.get().to_owned(),
        Err(failure) => failure.to_string(),
    }
}

async fn check(engine: &Engine, what: &str, expected: &str) {
    let wall = if expected == "TIMEOUT" { LITTLE } else { PLENTY };
    let report = order(engine, what, wall).await;
    assert!(outcome(&report).contains(expected), "{what}: wanted {expected}, got {}", outcome(&report));
    assert!(report.elapsed < wall + Duration::from_secs(1), "{what} took {:?}", report.elapsed);
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).expect("a number") * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_system_call_off_the_list_kills() {
    let engine = engine();
    let allowed: BTreeSet<i64> = ALLOWED.into();
    let mut numbers: Vec<i64> = (0..NUMBERS).filter(|number| !allowed.contains(number)).collect();
    numbers.extend([X32, X32 + libc::SYS_read, X32 + libc::SYS_write, X32 + 520, -1, i64::from(i32::MAX)]);
    let mut alive = Vec::new();
    for number in numbers {
        let report = order(&engine, &format!("call {number}"), PLENTY).await;
        if cfg!(target_arch = "x86_64") && PROBES.contains(&number) {
            let harmless = ["died of signal", "came back with -1"];
            assert!(harmless.iter().any(|end| outcome(&report).contains(end)), "{number}: {}", outcome(&report));
        } else if !outcome(&report).contains(KILLED_BY_THE_FILTER) {
            alive.push(format!("{number}: {}", outcome(&report)));
        }
    }
    assert!(alive.is_empty(), "{alive:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attack_on_the_kernel_kills_the_attacker() {
    let engine = engine();
    for attack in [
        "map-rwx",
        "map-exec",
        "map-the-socket",
        "make-code-executable",
        "make-code-writable",
        "open",
        "open-own-memory",
        "open-own-maps",
        "open-parents-environment",
        "open-by-old-number",
        "socket",
        "pass-a-descriptor",
        "kill-parent",
        "kill-group",
        "trace-parent",
        "read-parents-memory",
        "execute",
        "fork",
        "thread",
        // As its zygote does it: only the worker's own filter stands against these.
        "fork-as-a-zygote",
        "look-at-the-socket",
        "copy-the-socket",
        "copy-onto-the-socket",
        "close-the-others",
        "outlive-the-host",
        "no-new-privileges",
        "another-filter",
        "read-descriptor-1",
        "read-descriptor-3",
        "write-descriptor-2",
        "write-descriptor-with-high-bits",
        "close-the-socket",
        "limits-of-parent",
        // Calls that are allowed, with arguments that are not.
        "map-shared",
        "map-shared-validated",
        "map-fixed",
        "map-growing-down",
        "map-locked",
        "map-populated",
        "map-huge-pages",
        "map-without-access",
        "map-read-only",
        "map-with-a-descriptor",
        "move-memory-onto-code",
        "move-memory-and-keep-it",
        "advise-huge-pages",
        "advise-merging",
        "advise-collapse",
        "advise-poison",
        "advise-populate",
        "advise-no-fork",
        "read-the-wall-clock",
        "read-the-time-since-boot",
        "read-the-clock-of-the-process",
        "read-the-clock-of-another",
        "limit-addresses",
        "limit-files",
        "read-a-limit",
    ] {
        check(&engine, &format!("try {attack}"), KILLED_BY_THE_FILTER).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_limit_of_the_kernel_can_be_raised_or_passed() {
    let engine = engine();
    check(&engine, "try raise-memory", "refused").await;
    check(&engine, "try raise-time", "refused").await;
    check(&engine, "try use-all-memory", "refused").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_or_spins_is_one_failed_run() {
    let engine = engine();
    check(&engine, "try crash", "RUNTIME: the sandbox died of signal 11").await;
    check(&engine, "try abort", "RUNTIME: the sandbox died of signal").await;
    check(&engine, "try spin", "TIMEOUT").await;
    check(&engine, "say nothing", "RUNTIME: the sandbox ended without an answer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_a_worker_discards_stays_with_all_others() {
    let engine = engine();
    for _ in 0..3 {
        // It dies of it where its code is on huge pages, and reads it again from the file where it is not.
        let report = order(&engine, "try throw-code-away", PLENTY).await;
        let ends = ["died of signal", "came back with 0"];
        assert!(ends.iter().any(|end| outcome(&report).contains(end)), "{}", outcome(&report));
        check(&engine, "say slowly", "\"in the end\"").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_breaks_the_form_ends_the_run() {
    let engine = engine();
    let breach = "RUNTIME: the sandbox was stopped: it sent";
    for what in [
        "nonsense",
        "a-kind-that-is-none",
        "an-empty-frame",
        "too-long",
        "trailing-bytes",
        "a-text-that-is-none",
        "ready-again",
        "arguments-that-are-not-json",
        "arguments-that-are-not-text",
        "arguments-too-long",
        "a-name-too-long",
        "a-number-twice",
        "calls-in-flight-beyond-the-limit",
        "calls-beyond-the-limit",
        "a-question-too-long",
        "timers-for-ever",
        "a-timer-twice",
        "lines-for-ever",
        "a-line-too-long",
        "not-json",
        "not-utf8",
        "two-values",
    ] {
        check(&engine, &format!("say {what}"), breach).await;
    }
    check(&engine, "say slowly-for-ever", "TIMEOUT").await;
    check(&engine, "say longer-than-it-is", "RUNTIME: the sandbox ended without an answer").await;
    check(&engine, "say cut-off", "RUNTIME: the sandbox ended without an answer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_believed_only_about_itself() {
    let engine = engine();
    check(&engine, "say slowly", "\"in the end\"").await;
    check(&engine, "say done-twice", "\"first\"").await;
    check(&engine, "say done-then-a-call", "\"first\"").await;
    check(&engine, "say a-number-again-after-its-answer", "both were answered").await;
    check(&engine, "say a-timer-of-no-time", "armed").await;
    check(&engine, "say a-result-too-large", "OUTPUT_TOO_LARGE").await;
    check(&engine, "say an-unknown-function", "refused").await;
    check(&engine, "say an-unknown-tool", "refused").await;
    for code in ["unavailable", "aborted", "invalid-code"] {
        check(&engine, &format!("say {code}"), "RUNTIME: forged").await;
    }
    let report = order(&engine, "say a-message-too-long", PLENTY).await;
    assert!(outcome(&report).len() < 10_000, "a message of {} bytes", outcome(&report).len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_never_reads_or_never_stops_costs_the_host_little() {
    let engine = engine();
    check(&engine, "say a-timer-of-no-time", "armed").await;
    let before = resident();
    for what in
        ["replies-never-read", "answers-never-read", "timers-never-heard", "cancels-for-ever", "half-a-frame-for-ever"]
    {
        let report = order(&engine, &format!("say {what}"), LITTLE).await;
        assert!(report.failure().is_some(), "{what}: {}", outcome(&report));
        assert!(report.elapsed < Duration::from_secs(3), "{what} took {:?}", report.elapsed);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 160 * 1024 * 1024, "the host grew by {grown} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_serves_on_after_every_attack() {
    let engine = engine();
    for what in ["try open", "say nonsense", "try crash", "say too-long", "try fork", "say nothing"] {
        order(&engine, what, PLENTY).await;
        check(&engine, "say slowly", "\"in the end\"").await;
    }
}
