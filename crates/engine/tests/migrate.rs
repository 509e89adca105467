//! A run that moves to another worker makes every call once and gives the same result.
//!
//! Most runs rehearse the move with a second QuickJS worker, which takes the same path as a move to
//! V8 and costs a millisecond; a few hundred go to V8 itself.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use support::deno::deno;
use support::{process_builder, show};
use toolgate_engine::wire::{Destination, Interpreter, Profile, Report};
use toolgate_engine::{
    CancellationToken, Engine, EngineBuilder, EngineChoice, Functions, HostError, MigrationTarget, RacePolicy, Request,
    V8Settings,
};

/// Processor time after which runs of one engine move.
const THRESHOLDS: [Duration; 4] =
    [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(1), Duration::from_millis(4)];
const REHEARSED: u64 = 2_000;
const ON_V8: u64 = 120;

/// Numbers that depend on a seed alone.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A program of a few random steps, some of which go round a loop `work` times and more. Every call has its own
/// number, so one made twice shows.
fn program(seed: u64, work: u64) -> String {
    let mut dice = Dice(seed);
    let mut code = format!("const out = []; let n = 0;\nfor (let i = 0; i < {work}; i++) n = i % 2;\n");
    for _ in 0..1 + dice.below(6) {
        let times = 1 + dice.below(4);
        code.push_str(&match dice.below(9) {
            0 => "out.push(await count(n++));\n".to_owned(),
            1 => format!("out.push(await Promise.all(Array.from({{ length: {times} }}, () => count(n++))));\n"),
            2 => format!("{{ let s = 0; for (let i = 0; i < {}; i++) s += i % 7; out.push(s); }}\n", work * times),
            3 => "out.push(await count(Math.floor(Math.random() * 1e9), n++));\n".to_owned(),
            4 => "try { await fail(n++); } catch (e) { out.push(e.message); }\n".to_owned(),
            5 => format!("await sleep({});\n", dice.below(3)),
            6 => "console.log('step', n, out.length);\n".to_owned(),
            7 => format!("for (let i = 0; i < {times}; i++) {{ setTimeout(() => out.push(i), i); }} await sleep(5);\n"),
            _ => "out.push(await later(n++), crypto.randomUUID());\n".to_owned(),
        });
    }
    code.push_str("return out;");
    code
}

/// Host functions that keep a list of what they were asked.
fn host(asked: &Arc<Mutex<Vec<Value>>>) -> Functions {
    let note = |asked: &Arc<Mutex<Vec<Value>>>, args: &Value| asked.lock().expect("list").push(args.clone());
    let (count, fail, later) = (asked.clone(), asked.clone(), asked.clone());
    Functions::new()
        .with("count", move |args: Value| {
            note(&count, &args);
            async move { Ok(json!({ "got": args })) }
        })
        .with("fail", move |args: Value| {
            note(&fail, &args);
            async move { Err(HostError::new("BROKEN", format!("cannot do {}", args[0]))) }
        })
        .with("later", move |args: Value| {
            note(&later, &args);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(args)
            }
        })
}

struct Run {
    report: Report,
    asked: Vec<Value>,
}

async fn run(engine: &Engine, code: &str, choice: EngineChoice) -> Run {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let request = Request {
        host: Arc::new(host(&asked)),
        seed: Some(7),
        engine: Some(choice),
        ..Request::new(Profile::Chain, code)
    };
    let report = engine.run(request).await;
    let asked = asked.lock().expect("list").clone();
    Run { report, asked }
}

/// Runs a program with a move and without; gives where it went.
async fn check(engine: &Engine, code: &str) -> Option<Destination> {
    let stayed = run(engine, code, EngineChoice::QuickJs).await;
    let moved = run(engine, code, EngineChoice::Auto).await;
    assert_eq!(moved.asked, stayed.asked, "calls of\n{code}\n{:?}", moved.report.usage);
    assert_eq!(show(&moved.report), show(&stayed.report), "outcome of\n{code}\n{:?}", moved.report.usage);
    assert_eq!(moved.report.calls.len(), stayed.report.calls.len(), "ledger of\n{code}");
    moved.report.usage.moved.map(|moved| moved.to)
}

/// Runs `runs` random programs over engines with all thresholds; gives how many moved.
async fn check_many(runs: u64, work: u64, builder: impl Fn() -> EngineBuilder, v8: V8Settings) -> usize {
    let engines = THRESHOLDS.map(|move_after| {
        let settings = V8Settings { move_after, ..v8.clone() };
        builder().v8(settings).build().expect("an engine")
    });
    let lanes = engines.into_iter().enumerate().map(|(lane, engine)| {
        tokio::spawn(async move {
            let mut moved = 0;
            for seed in (0..runs).filter(|seed| *seed as usize % THRESHOLDS.len() == lane) {
                moved += usize::from(check(&engine, &program(seed, work)).await == Some(Destination::V8));
            }
            moved
        })
    });
    let mut moved = 0;
    for lane in lanes.collect::<Vec<_>>() {
        moved += lane.await.expect("a lane");
    }
    moved
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_is_made_once_wherever_the_run_moves() {
    let moved = check_many(
        REHEARSED,
        10_000,
        || process_builder().migrates_to(MigrationTarget::QuickJs).race(RacePolicy::Never),
        V8Settings::default(),
    )
    .await;
    assert!(moved > REHEARSED as usize / 4, "only {moved} of {REHEARSED} runs moved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_is_made_once_when_the_run_moves_to_v8() {
    let v8 = V8Settings { deno: Some(deno()), ..V8Settings::default() };
    let moved = check_many(ON_V8, 1_000_000, process_builder, v8).await;
    assert!(moved > ON_V8 as usize / 4, "only {moved} of {ON_V8} runs moved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_is_made_once_whichever_worker_is_ahead() {
    let builder = || process_builder().migrates_to(MigrationTarget::QuickJs).race(RacePolicy::Always);
    check_many(REHEARSED / 4, 10_000, builder, V8Settings::default()).await;
    let v8 = V8Settings { deno: Some(deno()), ..V8Settings::default() };
    let moved = check_many(ON_V8 / 4, 1_000_000, || process_builder().race(RacePolicy::Always), v8).await;
    assert!(moved > 0, "no run moved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ended_before_its_target_is_left_alone_the_next_time() {
    let v8 = V8Settings { move_after: Duration::from_millis(2), ..V8Settings::default() };
    let builder = process_builder()
        .migrates_to(MigrationTarget::QuickJs)
        .race(RacePolicy::Always)
        .engine(EngineChoice::Auto)
        .v8(v8);
    let engine = builder.build().expect("an engine");
    let rounds = Arc::new(Mutex::new(0));
    let run = async |code: &str, times: u32| {
        *rounds.lock().expect("a number") = times;
        let asked = rounds.clone();
        let host = Functions::new().with("rounds", move |_| {
            let times = *asked.lock().expect("a number");
            async move { Ok(json!(times)) }
        });
        engine.run(Request { host: Arc::new(host), ..Request::new(Profile::Chain, code) }).await.usage.moved
    };
    // Which of two equal workers ends first is not certain, so several programs try; the source has a head start.
    for number in 0..50 {
        let code = format!("let s = {number}; for (let i = await rounds(); i > 0; i--) s += i % 7; return s;");
        if run(&code, 300_000).await.is_some_and(|moved| moved.to == Destination::StayedLost) {
            // Half of the work is less than what it is left alone for, and more than the two milliseconds.
            assert_eq!(run(&code, 150_000).await, None);
            return;
        }
    }
    panic!("the target was always ahead");
}

fn moving_engine(move_after: Duration) -> Engine {
    let v8 = V8Settings { deno: Some(deno()), move_after, ..V8Settings::default() };
    process_builder().engine(EngineChoice::Auto).v8(v8).build().expect("an engine")
}

const SPIN: &str = "let s = 0; for (let i = 0; i < 1e8; i++) s += i % 7;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_computes_goes_on_on_v8() {
    let engine = moving_engine(Duration::from_millis(20));
    let code =
        format!("console.log('once'); out = await count(1); {SPIN} await count(2); return s;").replace("out = ", "");
    let run = run(&engine, &code, EngineChoice::Auto).await;
    let moved = run.report.usage.moved.expect("a move");
    assert_eq!((moved.to, run.report.engine), (Destination::V8, Interpreter::QuickJsThenV8));
    assert!(moved.at_ms >= 20.0 && moved.cost_ms > 0.0, "{moved:?}");
    assert_eq!(run.report.value().expect("a value").get(), "299999995");
    assert_eq!(run.report.logs.stdout, ["once"]);
    assert_eq!(run.asked, [json!([1]), json!([2])]);
    assert_isolation_of_both(&run.report);
}

/// QuickJS runs without executable memory and V8 does not: a program that both executed may not claim it.
fn assert_isolation_of_both(report: &Report) {
    let isolation = &report.isolation;
    assert!(isolation.seccomp && isolation.no_new_privs && !isolation.no_exec_memory, "{isolation:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_does_something_else_on_v8_stays() {
    let engine = moving_engine(Duration::from_millis(20));
    // The text of this error is the interpreter's own.
    let code = "try { null.x } catch (e) { await count(e.message); } \
                let s = 0; for (let i = 0; i < 3e7; i++) s += i % 7; await count(2); return s;";
    let run = run(&engine, code, EngineChoice::Auto).await;
    let moved = run.report.usage.moved.expect("a try");
    assert_eq!((moved.to, run.report.engine), (Destination::StayedDiverged, Interpreter::QuickJs));
    assert_eq!(run.report.value().expect("a value").get(), "89999995");
    assert_eq!(run.asked, [json!(["cannot read property 'x' of null"]), json!([2])]);
    // V8 executed the program too, up to where it behaved differently.
    assert_isolation_of_both(&run.report);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_run_never_moves() {
    let engine = moving_engine(Duration::from_secs(5));
    let run = run(&engine, "await count(1); await sleep(30); return 1", EngineChoice::Auto).await;
    assert_eq!((run.report.usage.moved, run.report.engine), (None, Interpreter::QuickJs));
    assert!(run.report.isolation.no_exec_memory, "{:?}", run.report.isolation);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_run_keeps_its_deadline() {
    let engine = moving_engine(Duration::from_millis(20));
    let limits = toolgate_engine::wire::LimitRequest { wall: Some(Duration::from_millis(5000)), ..Default::default() };
    let request = Request { limits, ..Request::new(Profile::Chain, "while (true) {}") };
    let report = engine.run(request).await;
    let failure = report.failure().expect("a timeout");
    assert_eq!(failure.message, "the run took longer than its 5000 ms");
    assert!(report.elapsed < Duration::from_secs(20), "{:?}", report.elapsed);
    assert_eq!(report.engine, Interpreter::QuickJsThenV8, "{:?}", report.usage);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_run_can_be_cancelled() {
    let engine = moving_engine(Duration::from_millis(20));
    let cancel = CancellationToken::new();
    let wish = cancel.clone();
    let host = Functions::new().with("stop", move |_| {
        wish.cancel();
        async { Ok(Value::Null) }
    });
    let code = format!("{SPIN} await stop(); while (true) {{}}");
    let report = engine.run(Request { host: Arc::new(host), cancel, ..Request::new(Profile::Chain, code) }).await;
    assert_eq!(report.failure().expect("a failure").code.name(), "ABORTED");
    assert_eq!(report.engine, Interpreter::QuickJsThenV8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_deno_everything_stays_on_quickjs() {
    let v8 = V8Settings { deno: Some("/nowhere/deno".into()), move_after: Duration::ZERO, ..V8Settings::default() };
    let engine = process_builder().engine(EngineChoice::Auto).v8(v8).build().expect("an engine");
    let auto = run(&engine, "return 1", EngineChoice::Auto).await.report;
    assert_eq!((auto.engine, auto.usage.moved), (Interpreter::QuickJs, None));
    let asked = run(&engine, "return 1", EngineChoice::V8).await.report;
    let failure = asked.failure().expect("a failure");
    assert_eq!(failure.code.name(), "UNAVAILABLE");
    assert!(failure.message.contains("npm install -g deno"), "{}", failure.message);
}
