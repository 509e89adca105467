//! Workers that are used again for the same caller: a rewound process gives what a fresh one gives.

#[path = "support/rewinding.rs"]
mod rewinding;
mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rewinding::permits_rewinding;
use serde_json::json;
use support::{Case, load, process_builder, show, specs};
use toolgate_engine::wire::{Code, LimitRequest, Profile, Report};
use toolgate_engine::{Engine, EngineChoice, Functions, Request, Reuse};

fn reusing_engine() -> Engine {
    process_builder().reuse(Reuse::SameCaller).engine(EngineChoice::QuickJs).build().expect("a process engine")
}

fn request(caller: &str, code: &str) -> Request {
    Request { caller: Some(caller.into()), ..Request::new(Profile::Chain, code) }
}

async fn run(engine: &Engine, caller: &str, code: &str) -> Report {
    engine.run(request(caller, code)).await
}

fn value(report: &Report) -> &str {
    report.value().map(|value| value.get()).unwrap_or_else(|failure| panic!("{failure}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_serves_the_same_caller_again() {
    if !permits_rewinding() {
        return;
    }
    let engine = reusing_engine();
    let first = run(&engine, "ada", "globalThis.left = 1; return 1").await;
    assert_eq!((value(&first), first.isolation.rewound), ("1", false));
    let second = run(&engine, "ada", "return typeof left").await;
    assert_eq!((value(&second), second.isolation.rewound), ("\"undefined\"", true));
    let report = serde_json::to_value(&second).expect("JSON");
    assert_eq!(report["isolation"]["rewound"], json!(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_process_is_the_default_and_the_report_says_nothing_of_it() {
    let engine = process_builder().engine(EngineChoice::QuickJs).build().expect("a process engine");
    for _ in 0..3 {
        let report = serde_json::to_value(run(&engine, "ada", "return 1").await).expect("JSON");
        assert_eq!(report["isolation"]["rewound"], json!(null));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_caller_kind_or_limit_gets_a_fresh_process() {
    if !permits_rewinding() {
        return;
    }
    let engine = reusing_engine();
    let mine = request("ada", "return 1");
    let limits = |wall, memory| LimitRequest { wall, memory, ..LimitRequest::default() };
    let others = [
        Request { caller: Some("grace".into()), ..mine.clone() },
        Request { caller: None, ..mine.clone() },
        Request { profile: Profile::Snippet, ..mine.clone() },
        Request { limits: limits(Some(Duration::from_secs(3)), None), ..mine.clone() },
        Request { limits: limits(None, Some(32 * 1024 * 1024)), ..mine.clone() },
    ];
    for other in others {
        assert_eq!(value(&engine.run(mine.clone()).await), "1");
        let report = engine.run(other.clone()).await;
        assert!(!report.isolation.rewound, "{:?} {:?} {:?}", other.caller, other.profile, other.limits);
    }
    assert!(engine.run(mine).await.isolation.rewound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_fails_leaves_no_worker_behind() {
    if !permits_rewinding() {
        return;
    }
    let engine = reusing_engine();
    let limits =
        LimitRequest { wall: Some(Duration::from_secs(10)), memory: Some(16 * 1024 * 1024), ..LimitRequest::default() };
    let failing = [
        ("throw new Error('no')", Code::Runtime),
        ("while (true) {}", Code::Timeout),
        ("const all = []; while (true) all.push(new Uint8Array(1e6))", Code::Memory),
        ("return () => 1", Code::Runtime),
    ];
    for (code, expected) in failing {
        let first = engine.run(Request { limits: limits.clone(), ..request("ada", code) }).await;
        assert_eq!(first.failure().map(|failure| failure.code), Some(expected), "{code}");
        let next = engine.run(Request { limits: limits.clone(), ..request("ada", "await 1") }).await;
        assert!(!next.isolation.rewound, "after {code}");
        // That one returned a value. It is used up, so that the next program begins with a fresh one.
        let used = engine.run(Request { limits: limits.clone(), ..request("ada", "throw 1") }).await;
        assert!(used.isolation.rewound, "after {code}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_comes_late_never_reaches_the_next_run() {
    let engine = reusing_engine();
    let functions = Functions::new().with("slow", |args: serde_json::Value| async move {
        tokio::time::sleep(Duration::from_millis(args[0].as_u64().unwrap_or(0))).await;
        Ok(args[0].clone())
    });
    let host = Arc::new(functions);
    for pause in 0..12 {
        // The call is the first of both runs, so that a stray reply would answer the second one's.
        let code = format!("slow({pause}); await Promise.resolve(); return 'left'");
        let left = engine.run(Request { host: host.clone(), ..request("ada", &code) }).await;
        assert_eq!(value(&left), "\"left\"");
        let next = engine.run(Request { host: host.clone(), ..request("ada", "return await slow(77)") }).await;
        assert_eq!(value(&next), "77", "after a pause of {pause}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_is_replaced_after_some_hundred_runs() {
    if !permits_rewinding() {
        return;
    }
    let engine = reusing_engine();
    let mut fresh = Vec::new();
    for n in 0..300 {
        let report = run(&engine, "ada", &format!("return {n}")).await;
        assert_eq!(value(&report), n.to_string());
        if !report.isolation.rewound {
            fresh.push(n);
        }
    }
    assert_eq!(fresh.first(), Some(&0));
    // A process may be replaced sooner: its processor time is bounded too.
    assert!((2..30).contains(&fresh.len()), "{fresh:?}");
    assert!(fresh.windows(2).all(|pair| pair[1] - pair[0] <= 257) && 300 - fresh[fresh.len() - 1] <= 257, "{fresh:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_a_run_used_is_given_back_and_zeroed() {
    if !permits_rewinding() {
        return;
    }
    let large = "const all = []; for (let i = 0; i < 20; i++) all.push('x'.repeat(1e6) + i); return all.length";
    for _ in 0..5 {
        // One of its own each time: a worker is put back only as long as it has used little processor time.
        let engine = reusing_engine();
        assert_eq!(value(&run(&engine, "ada", large).await), "20");
        let small = run(&engine, "ada", "return new Uint8Array(3e6).every((byte) => byte === 0)").await;
        assert_eq!((value(&small), small.isolation.rewound), ("true", true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_at_one_time_never_share_a_process() {
    let engine = reusing_engine();
    let lane = |lane: usize| {
        let engine = engine.clone();
        async move {
            for n in 0..40 {
                let code =
                    format!("const mine = {n}; globalThis.n = (globalThis.n ?? 0) + 1; await 1; return [mine, n]");
                assert_eq!(value(&run(&engine, "ada", &code).await), format!("[{n},1]"), "lane {lane}");
            }
        }
    };
    let lanes: Vec<_> = (0..6).map(|n| tokio::spawn(lane(n))).collect();
    for lane in lanes {
        lane.await.expect("a lane");
    }
}

/// Everything of a report that depends neither on time nor on whether the worker rehearsed.
fn shown(report: &Report) -> String {
    let calls: Vec<_> = report.calls.iter().map(|call| (call.name(), call.state, call.reply_bytes)).collect();
    format!("{} | {calls:?} | {:?}", show(report), report.warnings)
}

/// Cases that are quick and end by themselves.
fn quick_cases() -> Vec<Case> {
    let cases = load(&specs().join("guest")).into_iter();
    let is_quick = |case: &Case| case.wall() > Duration::from_secs(1) && !case.ends_at_its_deadline();
    cases.filter(|case| case.expected_on("process").is_some() && is_quick(case)).collect()
}

/// A program of a caller, and the one after it.
struct Pairs {
    engine: Engine,
    fresh_engine: Engine,
    fresh: HashMap<usize, String>,
    cases: Vec<Case>,
    rewound: usize,
}

impl Pairs {
    /// Runs `a`, then `b` of the same caller; the second must be what it is in a fresh process.
    async fn check(&mut self, a: usize, b: usize) -> Result<(), TestCaseError> {
        let (a, case) = (&self.cases[a], &self.cases[b]);
        let caller: Option<Arc<str>> = Some(format!("{} {}", a.name, case.name).into());
        let second = Request { caller: caller.clone(), ..case.request() };
        let first = Request { caller, profile: second.profile, limits: second.limits.clone(), ..a.request() };
        self.engine.run(first).await;
        let report = self.engine.run(second).await;
        self.rewound += usize::from(report.isolation.rewound);
        if !self.fresh.contains_key(&b) {
            let fresh = self.fresh_engine.run(case.request()).await;
            self.fresh.insert(b, shown(&fresh));
        }
        prop_assert_eq!(&shown(&report), &self.fresh[&b], "{} after {}", case.name, a.name);
        Ok(())
    }
}

#[test]
fn a_program_gives_the_same_after_any_other_as_in_a_fresh_process() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
    let _in_runtime = runtime.enter();
    let fresh_engine = process_builder().engine(EngineChoice::QuickJs).build().expect("a process engine");
    let cases = quick_cases();
    let count = cases.len();
    assert!(count > 100, "{count} cases");
    let pairs = Pairs { engine: reusing_engine(), fresh_engine, fresh: HashMap::new(), cases, rewound: 0 };
    let pairs = std::cell::RefCell::new(pairs);
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 64;
    }
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let outcome = runner.run(&(0..count, 0..count), |(a, b)| runtime.block_on(pairs.borrow_mut().check(a, b)));
    outcome.unwrap_or_else(|fault| panic!("{fault}"));
    let (rewound, cases) = (pairs.borrow().rewound, runner.config().cases as usize);
    assert!(!permits_rewinding() || rewound > cases / 4, "{rewound} of {cases} were rewound");
}
