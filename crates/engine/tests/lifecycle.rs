//! How engines, zygotes and workers end: nothing is lost, nothing stays, nobody else notices.

#![allow(clippy::print_stdout, reason = "a process of the test talks to it")]

mod support;

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::sched_getaffinity;
use serde_json::json;
use support::machine::{Child, children, children_of};
use support::{eventually, process_builder, show, thread_builder};
use tokio::sync::Notify;
use toolgate_engine::wire::{Code, LimitRequest, Profile, Report};
use toolgate_engine::{CancellationToken, ComputeOptions, Engine, Functions, Request, WorkerCommand};

/// Tests here look at this process's children, so one runs at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn code(report: &Report) -> Option<Code> {
    report.failure().map(|failure| failure.code)
}

fn message(report: &Report) -> &str {
    report.failure().map_or("", |failure| &failure.message)
}

fn value(report: &Report) -> &str {
    report.value().map_or("failed", |value| value.get())
}

/// A host function that says when it is called and then never answers.
fn held() -> (Arc<Functions>, Arc<Notify>) {
    let called = Arc::new(Notify::new());
    let tell = called.clone();
    let functions = Functions::new().with("hold", move |_| {
        tell.notify_one();
        std::future::pending()
    });
    (Arc::new(functions), called)
}

/// A run that stands in a host call, and what cancels it.
async fn standing(engine: &Engine) -> (tokio::task::JoinHandle<Report>, CancellationToken) {
    let (host, called) = held();
    let cancel = CancellationToken::new();
    let request = Request { host, cancel: cancel.clone(), ..Request::new(Profile::Chain, "await hold()") };
    let engine = engine.clone();
    let run = tokio::spawn(async move { engine.run(request).await });
    called.notified().await;
    (run, cancel)
}

/// A run that burns the processor, known to have started.
async fn burning(engine: &Engine) -> (tokio::task::JoinHandle<Report>, CancellationToken) {
    let started = Arc::new(Notify::new());
    let tell = started.clone();
    let host = Functions::new().with("started", move |_| {
        tell.notify_one();
        async { Ok(json!(null)) }
    });
    let cancel = CancellationToken::new();
    let code = "await started(); for (;;) (3n ** 20000n) ** 2n";
    let request = Request { host: Arc::new(host), cancel: cancel.clone(), ..Request::new(Profile::Chain, code) };
    let engine = engine.clone();
    let run = tokio::spawn(async move { engine.run(request).await });
    started.notified().await;
    (run, cancel)
}

async fn one_more(engine: &Engine) {
    let report = engine.run(Request::new(Profile::Chain, "return 1 + 1")).await;
    assert_eq!(value(&report), "2", "{}", show(&report));
}

fn zygotes() -> Vec<Child> {
    // A zygote leads its process group; its forks are members of it.
    let leads = |child: &Child| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap_or_default();
        let group = stat.rsplit_once(')').and_then(|(_, tail)| tail.split_whitespace().nth(2)?.parse::<u32>().ok());
        group == Some(child.pid)
    };
    children().into_iter().filter(|child| !child.is_zombie() && leads(child)).collect()
}

/// One that is gone already needs no killing.
fn kill(pid: u32) {
    Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status().expect("kill");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_zygote_serves_run_after_run() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().build().expect("engine");
    one_more(&engine).await;
    let pids = || zygotes().iter().map(|zygote| zygote.pid).collect::<Vec<_>>();
    let before = pids();
    assert_eq!(before.len(), 1, "{before:?}");
    for _ in 0..40 {
        one_more(&engine).await;
    }
    assert_eq!(pids(), before, "its own filter must not kill it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zygote_is_replaced_after_its_forks_and_no_run_notices() {
    let _alone = ALONE.lock().await;
    let forks = NonZeroU32::new(8).expect("a number");
    let engine = process_builder().forks_per_zygote(forks).build().expect("engine");
    let mut seen = BTreeSet::new();
    let mut runs = 0;
    while seen.len() < 4 {
        let report = engine.run(Request::new(Profile::Chain, format!("return {runs} * 2"))).await;
        assert_eq!(value(&report), (runs * 2).to_string(), "{}", show(&report));
        runs += 1;
        assert!(runs < 2000, "the zygote is never replaced: {seen:?}");
        seen.extend(zygotes().iter().map(|zygote| zygote.pid));
    }
    // A zygote that was replaced ends, and so does the worker with which the next one was tried.
    eventually("one zygote is left, and nothing waits to be reaped", || {
        zygotes().len() == 1 && children().iter().all(|child| !child.is_zombie())
    })
    .await;
    engine.dispose();
    eventually("nothing is left", || children().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_next_zygote_that_hangs_stops_neither_runs_nor_dispose() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().expect("folder");
    let (command, hangs) = (folder.path().join("worker"), folder.path().join("hangs"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_toolgate-worker"), &command).expect("link");
    std::fs::write(&hangs, "#!/bin/sh\nexec /bin/sleep 600\n").expect("script");
    std::fs::set_permissions(&hangs, PermissionsExt::from_mode(0o755)).expect("permissions");
    let forks = NonZeroU32::new(100).expect("a number");
    let builder = process_builder().worker_command(WorkerCommand::Program(command.clone()));
    let engine = builder.forks_per_zygote(forks).build().expect("engine");
    one_more(&engine).await;
    std::fs::remove_file(&command).expect("link");
    std::os::unix::fs::symlink(&hangs, &command).expect("link");
    let mut hung = Vec::new();
    for _ in 0..200 {
        one_more(&engine).await;
        hung.extend(zygotes().into_iter().filter(|zygote| zygote.name == "sleep").map(|zygote| zygote.pid));
        if !hung.is_empty() {
            break;
        }
    }
    assert_eq!(hung.len(), 1, "a zygote that hangs");
    // Once the next zygote has had its time, it is gone, and workers are reaped as before.
    let since = Instant::now();
    while children().iter().any(|child| hung.contains(&child.pid)) {
        assert!(since.elapsed() < Duration::from_secs(120), "the zygote that hangs is killed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    one_more(&engine).await;
    eventually("nothing waits to be reaped", || children().iter().all(|child| !child.is_zombie())).await;
    let disposed = tokio::task::spawn_blocking(move || engine.dispose());
    tokio::time::timeout(Duration::from_secs(60), disposed).await.expect("dispose returns").expect("no panic");
    eventually("nothing is left", || children().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forks_of_a_replaced_zygote_that_sent_no_frame_are_reaped() {
    let _alone = ALONE.lock().await;
    let forks = NonZeroU32::new(8).expect("a number");
    let engine = process_builder().forks_per_zygote(forks).build().expect("engine");
    one_more(&engine).await;
    let first = zygotes().first().map(|zygote| zygote.pid).expect("a zygote");
    // Like a fork: a child of this process, in the zygote's process group, of which the engine knows no process id.
    let mut fork = Command::new("true");
    let fork = fork.process_group(i32::try_from(first).expect("a process id")).spawn().expect("a process").id();
    eventually("it has ended", || children().iter().any(|child| child.pid == fork && child.is_zombie())).await;
    let mut runs = 0;
    while children().iter().any(|child| child.pid == fork) {
        one_more(&engine).await;
        runs += 1;
        assert!(runs < 2000, "it stays a zombie");
    }
    assert!(zygotes().iter().all(|zygote| zygote.pid != first), "not while its zygote is in use");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disposing_while_a_zygote_is_replaced_leaves_nothing_behind() {
    let _alone = ALONE.lock().await;
    for _ in 0..10 {
        let engine = process_builder().forks_per_zygote(NonZeroU32::MIN).build().expect("engine");
        one_more(&engine).await;
        engine.dispose();
        eventually("nothing is left", || children().is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_the_zygote_under_load_loses_no_run() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().max_concurrent_runs(4).build().expect("engine");
    one_more(&engine).await;
    let done = Arc::new(AtomicUsize::new(0));
    let runs: Vec<_> = (0..300)
        .map(|n| {
            let (engine, done) = (engine.clone(), done.clone());
            tokio::spawn(async move {
                let report = engine.run(Request::new(Profile::Chain, format!("return {n} * 2"))).await;
                done.fetch_add(1, Ordering::Relaxed);
                (n, report)
            })
        })
        .collect();
    for round in 1..=5 {
        eventually("some runs are done", || done.load(Ordering::Relaxed) >= round * 40).await;
        let mut found = Vec::new();
        eventually("there is a zygote to kill", || {
            found = zygotes();
            !found.is_empty()
        })
        .await;
        found.iter().for_each(|zygote| kill(zygote.pid));
    }
    for run in runs {
        let (n, report) = run.await.expect("joined");
        assert_eq!(value(&report), (n * 2).to_string(), "run {n}: {}", show(&report));
    }
    engine.dispose();
    eventually("nothing is left", || children().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_somebody_else_kills_did_not_run_out_of_memory() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().workers_ahead(0).build().expect("engine");
    let (run, _cancel) = standing(&engine).await;
    let zygotes: Vec<u32> = zygotes().iter().map(|zygote| zygote.pid).collect();
    let workers: Vec<Child> = children().into_iter().filter(|child| !zygotes.contains(&child.pid)).collect();
    assert_eq!(workers.len(), 1, "{workers:?}");
    kill(workers[0].pid);
    let report = run.await.expect("joined");
    assert_eq!(code(&report), Some(Code::Runtime), "{}", show(&report));
    assert!(message(&report).starts_with("the sandbox was killed by signal 9 from outside"), "{}", show(&report));
    one_more(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dispose_ends_everything_and_may_be_repeated() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().build().expect("engine");
    one_more(&engine).await;
    assert!(!children().is_empty());
    engine.dispose();
    engine.dispose();
    engine.clone().dispose();
    eventually("nothing is left", || children().is_empty()).await;
    let report = engine.run(Request::new(Profile::Chain, "return 1")).await;
    assert_eq!((code(&report), message(&report)), (Some(Code::Unavailable), "this engine was disposed of"));
    let report = engine.compute("not even code", "not even data", ComputeOptions::default()).await;
    assert_eq!(code(&report), Some(Code::Unavailable), "disposed is looked at first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dispose_takes_runs_under_way_with_it() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().max_concurrent_runs(1).build().expect("engine");
    let (running, _) = standing(&engine).await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run(Request::new(Profile::Chain, "return 1")).await }
    });
    tokio::task::yield_now().await;
    engine.dispose();
    for run in [running, waiting] {
        let report = run.await.expect("joined");
        assert_eq!(code(&report), Some(Code::Unavailable), "{}", show(&report));
    }
    eventually("nothing is left", || children().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_an_engine_disposes_of_it() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().build().expect("engine");
    one_more(&engine).await;
    drop(engine);
    eventually("nothing is left", || children().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_before_the_start_starts_nothing() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().workers_ahead(0).build().expect("engine");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let options = ComputeOptions { cancel, ..ComputeOptions::default() };
    let report = engine.compute("not even code", "not even data", options).await;
    assert_eq!((code(&report), message(&report)), (Some(Code::Aborted), "cancelled before sandbox started"));
    assert_eq!(children(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_a_run_kills_it_at_once_and_twice_is_harmless() {
    let _alone = ALONE.lock().await;
    for engine in [process_builder(), thread_builder()].map(|builder| builder.build().expect("engine")) {
        let (run, cancel) = standing(&engine).await;
        cancel.cancel();
        cancel.cancel();
        let report = run.await.expect("joined");
        assert_eq!((code(&report), message(&report)), (Some(Code::Aborted), "cancelled during sandbox execution"));
        cancel.cancel();
        one_more(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_reaches_code_that_no_interrupt_sees() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().build().expect("engine");
    let (run, cancel) = burning(&engine).await;
    cancel.cancel();
    assert_eq!(code(&run.await.expect("joined")), Some(Code::Aborted));
    one_more(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_after_the_end_does_nothing() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().build().expect("engine");
    let cancel = CancellationToken::new();
    let request = Request { cancel: cancel.clone(), ..Request::new(Profile::Chain, "return 'done'") };
    let report = engine.run(request).await;
    cancel.cancel();
    assert_eq!(value(&report), "\"done\"");
    one_more(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_in_the_queue_does_not_wait_for_a_place() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().max_concurrent_runs(1).build().expect("engine");
    let (running, running_cancel) = standing(&engine).await;
    let cancel = CancellationToken::new();
    let waiting = tokio::spawn({
        let (engine, cancel) = (engine.clone(), cancel.clone());
        async move { engine.run(Request { cancel, ..Request::new(Profile::Chain, "return 1") }).await }
    });
    tokio::task::yield_now().await;
    cancel.cancel();
    let report = waiting.await.expect("joined");
    assert_eq!((code(&report), message(&report)), (Some(Code::Aborted), "cancelled before sandbox started"));
    assert!(!running.is_finished());
    running_cancel.cancel();
    running.await.expect("joined");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_run_kills_it_and_not_those_that_share_its_handle() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().workers_ahead(0).build().expect("engine");
    let (host, called) = held();
    let cancel = CancellationToken::new();
    let request =
        Request { host: host.clone(), cancel: cancel.clone(), ..Request::new(Profile::Chain, "await hold()") };
    let dropped = tokio::spawn({
        let (engine, request) = (engine.clone(), request.clone());
        async move { engine.run(request).await }
    });
    called.notified().await;
    let kept = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run(request).await }
    });
    called.notified().await;
    dropped.abort();
    eventually("only the zygote and one worker are left", || children().len() == 2).await;
    assert!(!kept.is_finished() && !cancel.is_cancelled());
    cancel.cancel();
    assert_eq!(code(&kept.await.expect("joined")), Some(Code::Aborted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbours_are_never_disturbed() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().build().expect("engine");
    let (host, release) = {
        let release = Arc::new(Notify::new());
        let wait = release.clone();
        let functions = Functions::new().with("wait", move |_| {
            let wait = wait.clone();
            async move {
                wait.notified().await;
                Ok(json!("released"))
            }
        });
        (Arc::new(functions), release)
    };
    let request = Request { host, ..Request::new(Profile::Chain, "return await wait()") };
    let neighbour = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run(request).await }
    });
    let limits = LimitRequest { wall: Some(Duration::from_millis(200)), ..LimitRequest::default() };
    let timeout = Request { limits, ..Request::new(Profile::Chain, "for (;;);") };
    assert_eq!(code(&engine.run(timeout).await), Some(Code::Timeout));
    let hungry = Request::new(Profile::Chain, "const a = []; for (;;) a.push(new Array(1000).fill(0))");
    assert_eq!(code(&engine.run(hungry).await), Some(Code::Memory));
    let (run, cancel) = burning(&engine).await;
    cancel.cancel();
    assert_eq!(code(&run.await.expect("joined")), Some(Code::Aborted));
    assert!(!neighbour.is_finished());
    release.notify_one();
    assert_eq!(value(&neighbour.await.expect("joined")), "\"released\"");
}

/// Cores that the pump's thread may run on, and the fewest that a child of this process may.
fn cores() -> (u32, u32) {
    let count = |pid: Option<Pid>| sched_getaffinity(pid).ok().map(|set| set.count());
    let children = children().into_iter().filter(|child| !child.is_zombie());
    let fewest = children.filter_map(|child| count(Pid::from_raw(child.pid.cast_signed()))).min();
    (count(None).unwrap_or(0), fewest.unwrap_or(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_run_shares_a_core_with_its_worker_and_a_long_one_gives_it_up() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().build().expect("engine");
    let all = cores().0;
    if all < 2 {
        return;
    }
    let host = Arc::new(Functions::new().with("cores", |_| std::future::ready(Ok(json!(cores())))));
    let code = "const first = await cores(); await sleep(100); return [first, await cores()]";
    let runs = tokio::task::spawn_blocking(move || {
        // A busy machine may be late with the first call.
        let shared = (0..200).find_map(|_| {
            let report = engine.run_blocking(Request { host: host.clone(), ..Request::new(Profile::Chain, code) });
            let counts: [(u32, u32); 2] = serde_json::from_str(value(&report)).expect("two counts");
            (counts[0] == (1, 1)).then_some(counts[1])
        });
        (shared, cores().0)
    });
    let (shared, afterwards) = runs.await.expect("joined");
    assert_eq!(shared.expect("a run on one core"), (all, all), "the run has lasted");
    assert_eq!(afterwards, all, "the caller's thread is as it was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_unavailable_at_once() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().max_concurrent_runs(1).max_waiting_runs(0).build().expect("engine");
    let (running, cancel) = standing(&engine).await;
    let since = Instant::now();
    let report = engine.run(Request::new(Profile::Chain, "return 1")).await;
    assert_eq!((code(&report), message(&report)), (Some(Code::Unavailable), "too many runs are waiting already"));
    assert!(since.elapsed() < Duration::from_secs(5));
    cancel.cancel();
    running.await.expect("joined");
    one_more(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_counts_against_the_deadline() {
    let _alone = ALONE.lock().await;
    let engine = process_builder().max_concurrent_runs(1).build().expect("engine");
    let (running, cancel) = standing(&engine).await;
    let limits = LimitRequest { wall: Some(Duration::from_millis(100)), ..LimitRequest::default() };
    let report = engine.run(Request { limits, ..Request::new(Profile::Chain, "return 1") }).await;
    assert_eq!((code(&report), message(&report)), (Some(Code::Timeout), "the run took longer than its 100 ms"));
    assert!(report.usage.queued_ms >= 99.0, "{}", report.usage.queued_ms);
    assert!(!running.is_finished());
    cancel.cancel();
    running.await.expect("joined");
}

/// The order in which runs of these callers start, after they lined up in this one.
async fn order_of(callers: &[u64]) -> Vec<usize> {
    let _alone = ALONE.lock().await;
    let engine = process_builder().max_concurrent_runs(1).build().expect("engine");
    let (running, cancel) = standing(&engine).await;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for (n, fairness) in callers.iter().copied().enumerate() {
        let seen = order.clone();
        let host = Functions::new().with("here", move |_| {
            seen.lock().expect("lock").push(n);
            async { Ok(json!(null)) }
        });
        let request = Request { host: Arc::new(host), fairness, ..Request::new(Profile::Chain, "await here()") };
        let mut run = Box::pin({
            let engine = engine.clone();
            async move { engine.run(request).await }
        });
        // Polled once, it stands in the line; the next one comes after it.
        assert!(std::future::poll_fn(|context| std::task::Poll::Ready(run.as_mut().poll(context).is_pending())).await);
        waiting.push(tokio::spawn(run));
    }
    cancel.cancel();
    running.await.expect("joined");
    for run in waiting {
        run.await.expect("joined");
    }
    order.lock().expect("lock").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_is_first_come_first_served() {
    assert_eq!(order_of(&[0; 10]).await, (0..10).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_take_turns_in_the_queue() {
    assert_eq!(order_of(&[1, 1, 1, 1, 2, 3, 2]).await, [0, 4, 5, 1, 6, 2, 3]);
}

/// The environment variable that makes this test program the host that is to be killed.
const BE_THE_HOST: &str = "TOOLGATE_TEST_BE_THE_HOST";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_the_host_leaves_no_process_behind() {
    if std::env::var_os(BE_THE_HOST).is_some() {
        be_the_host().await;
    }
    let _alone = ALONE.lock().await;
    let mut host = Command::new(std::env::current_exe().expect("path"))
        .args(["killing_the_host_leaves_no_process_behind", "--exact", "--nocapture"])
        .env(BE_THE_HOST, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("a host");
    let mut says = std::io::BufReader::new(host.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("the host runs") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut says, &mut line).expect("read") > 0, "the host ended early");
    }
    let family = children_of(host.id());
    assert!(family.len() >= 3, "a zygote, a burning worker and idle ones: {family:?}");
    host.kill().expect("killed");
    host.wait().expect("waited");
    let alive = |child: &Child| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    eventually("every process of the dead host is gone", || !family.iter().any(alive)).await;
}

/// Burns in one worker, says so and waits to be killed.
async fn be_the_host() {
    let engine = process_builder().build().expect("engine");
    let (run, _) = burning(&engine).await;
    println!("the host runs");
    let _ = run.await;
}
