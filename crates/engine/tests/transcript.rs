//! A recorded run repeats itself without its host, goes on where its record ends, and stops at the first difference.

#![allow(clippy::print_stdout, reason = "the numbers of a long run are worth reading")]

#[path = "../../journal/tests/support/programs.rs"]
mod programs;
mod support;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::deno::deno;
use support::{process_builder, show};
use toolgate_engine::host::HeldBytes;
use toolgate_engine::transcript::{
    AfterReplay, Delivery, DigestKey, Durable, LineCheck, NotDurable, OpenCall, Recorder, Replay, Step, StepEvent,
};
use toolgate_engine::wire::frame::{End, Question, Target};
use toolgate_engine::wire::{CallId, CallState, Code, Failure, FromWorker, Profile, Report, Start, ToWorker};
use toolgate_engine::{
    Engine, EngineChoice, Functions, Host, HostCall, HostError, HostFuture, MigrationTarget, RacePolicy, Request,
    Reuse, V8Settings,
};

/// Keeps everything in memory, and what happened around calls with an effect.
struct Memory {
    key: DigestKey,
    began: Instant,
    kept: Mutex<Kept>,
    refuse: bool,
}

#[derive(Default)]
struct Kept {
    start: Option<(Start, Option<String>)>,
    steps: Vec<Step>,
    events: Vec<String>,
}

impl Memory {
    fn new(refuse: bool) -> Arc<Self> {
        Arc::new(Memory { key: DigestKey::random(), began: Instant::now(), kept: Mutex::default(), refuse })
    }

    fn push(&self, event: StepEvent) {
        let mut kept = self.kept.lock().expect("record");
        let number = kept.steps.len() as u64;
        kept.steps.push(Step { number, at: self.began.elapsed(), event });
    }

    fn note(&self, event: String) {
        self.kept.lock().expect("record").events.push(event);
    }

    /// The first `length` steps.
    fn replay(&self, length: usize, then: AfterReplay) -> Replay {
        let kept = self.kept.lock().expect("record");
        let (start, data) = kept.start.clone().expect("a start");
        let steps = kept.steps[..length].to_vec();
        Replay {
            start,
            data,
            key: self.key.clone(),
            steps,
            lines: LineCheck::Compared,
            left: None,
            then,
            unsent: HashSet::new(),
        }
    }

    fn length(&self) -> usize {
        self.kept.lock().expect("record").steps.len()
    }
}

impl Recorder for Memory {
    fn delivered(&self, delivery: Delivery<'_>) {
        match delivery.message {
            ToWorker::Start(start) => {
                let data = delivery.data.map(str::to_owned);
                self.kept.lock().expect("record").start = Some((Start::clone(start), data));
            }
            message => {
                if let ToWorker::Reply { id, .. } = message {
                    self.note(format!("delivered {}", id.0));
                }
                self.push(StepEvent::Delivered { message: message.clone(), state: delivery.state });
            }
        }
    }

    fn said(&self, frame: &FromWorker, read_only: bool) {
        self.push(StepEvent::Said { digest: self.key.digest(frame), then: frame.clone(), read_only });
    }

    fn before_effect(&self, id: CallId) -> Durable {
        self.note(format!("intent {}", id.0));
        let answer = if self.refuse { Err(NotDurable("the disk is full".into())) } else { Ok(()) };
        Box::pin(async move {
            tokio::task::yield_now().await;
            answer
        })
    }

    fn before_reply(&self, id: CallId, _: CallState, _: Result<&str, &str>) -> Durable {
        self.note(format!("answered {}", id.0));
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(())
        })
    }
}

/// Host functions that note what they were asked; `look` is known to change nothing.
struct Noting {
    functions: Functions,
    memory: Option<Arc<Memory>>,
}

impl Host for Noting {
    fn call(&self, call: HostCall) -> HostFuture {
        if let Some(memory) = &self.memory {
            memory.note(format!("made {}", call.target));
        }
        self.functions.call(call)
    }

    fn functions(&self) -> Vec<String> {
        self.functions.functions()
    }

    fn answer(&self, question: &Question) -> Option<String> {
        let tools = json!({ "name": "shop", "id": "shop", "tools": [{ "name": "price", "id": "price" }] });
        let is_known = [Question::Backend("shop".into()), Question::Global("shop".into())].contains(question);
        is_known.then(|| tools.to_string())
    }

    fn has_tools(&self) -> bool {
        true
    }

    fn is_read_only(&self, target: &Target) -> bool {
        *target == Target::Function("look".into())
    }

    fn take_held(&self, id: CallId) -> Option<HeldBytes> {
        self.functions.take_held(id)
    }
}

type Asked = Arc<Mutex<Vec<Value>>>;

fn host(asked: &Asked, memory: Option<Arc<Memory>>) -> Arc<Noting> {
    let noting = |asked: &Asked| {
        let asked = asked.clone();
        move |args: Value| {
            asked.lock().expect("list").push(args.clone());
            async move { Ok(json!({ "got": args })) }
        }
    };
    let failing = asked.clone();
    let functions = Functions::new().with("write", noting(asked)).with("look", noting(asked)).with("fail", {
        move |args: Value| {
            failing.lock().expect("list").push(args.clone());
            async move { Err(HostError::unknown("BROKEN", format!("cannot do {}", args[0]))) }
        }
    });
    Arc::new(Noting { functions, memory })
}

const PROGRAM: &str = "
    console.log('begin', context.name);
    const out = [await write(1), await look(2), typeof shop.price];
    try { await fail(3); } catch (e) { out.push([e.code, e.message]); console.error(e.message); }
    out.push(await Promise.race([write(4), sleep(60000)]));
    setTimeout(() => out.push('late'), 5);
    await sleep(10);
    out.push(Math.random(), crypto.randomUUID(), Date.now(), await Promise.all([look(5), write(6), look(7)]));
    return out;";

async fn record(engine: &Engine, code: &str) -> (Report, Arc<Memory>, Vec<Value>) {
    let (asked, memory) = (Asked::default(), Memory::new(false));
    let request = Request {
        host: host(&asked, Some(memory.clone())),
        data: Some(json!({ "name": "x".repeat(100_000) }).to_string()),
        recorder: Some(memory.clone()),
        engine: Some(EngineChoice::QuickJs),
        ..Request::new(Profile::Chain, code)
    };
    let report = engine.run(request).await;
    let asked = asked.lock().expect("list").clone();
    (report, memory, asked)
}

async fn replay(engine: &Engine, code: &str, replay: Replay) -> (Report, Vec<Value>) {
    replay_on(engine, EngineChoice::QuickJs, code, replay).await
}

async fn replay_on(engine: &Engine, choice: EngineChoice, code: &str, replay: Replay) -> (Report, Vec<Value>) {
    let asked = Asked::default();
    let request = Request {
        host: host(&asked, None),
        replay: Some(Arc::new(replay)),
        engine: Some(choice),
        ..Request::new(Profile::Chain, code)
    };
    let report = engine.run(request).await;
    let asked = asked.lock().expect("list").clone();
    (report, asked)
}

fn ended() -> AfterReplay {
    AfterReplay::Stop(Failure::new(Code::Timeout, "the record ended"))
}

/// What reports of one program have in common wherever it ran: no times.
fn comparable(report: &Report) -> (String, Value) {
    let calls = report.calls.iter().map(|call| {
        let mut call = serde_json::to_value(call).expect("JSON");
        call.as_object_mut().expect("object").remove("ms");
        call
    });
    (show(report), json!([calls.collect::<Vec<_>>(), report.logs]))
}

fn engine() -> Engine {
    process_builder().build().expect("an engine")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_run_repeats_without_its_host() {
    let engine = engine();
    let (report, memory, asked) = record(&engine, PROGRAM).await;
    assert_eq!(asked.len(), 7, "{}", show(&report));
    let (again, asked) = replay(&engine, PROGRAM, memory.replay(memory.length(), ended())).await;
    assert_eq!(comparable(&again), comparable(&report));
    assert_eq!(asked, [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_of_quickjs_repeats_on_v8() {
    let v8 = V8Settings { deno: Some(deno()), ..V8Settings::default() };
    let engine = process_builder().v8(v8).build().expect("an engine");
    let (report, memory, _) = record(&engine, PROGRAM).await;
    let recorded = Replay { lines: LineCheck::Counted, ..memory.replay(memory.length(), ended()) };
    let (again, asked) = replay_on(&engine, EngineChoice::V8, PROGRAM, recorded).await;
    assert_eq!(comparable(&again), comparable(&report));
    assert_eq!((asked.len(), again.engine.name()), (0, "v8"));
}

/// A random program that calls the functions of this file.
fn random_program(seed: u64) -> String {
    let code = programs::program(&mut programs::Dice(seed));
    // Its own function has the name of one of ours.
    code.replace("write", "put")
        .replace("db.save({ k })", "write(k)")
        .replace("(await db.find({ n })).found.n", "(await look(n)).got[0]")
        .replace("db.find({ n })", "look(n)")
        .replace("db.broken({ k: 'broken' + n++ })", "fail('broken' + n++)")
}

/// 20 programs, or as many as a long run asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_records_of_quickjs_repeat_on_v8() {
    let asked = std::env::var("TOOLGATE_REPLAY_PROGRAMS").ok().and_then(|number| number.parse().ok());
    let count = asked.unwrap_or(20);
    let v8 = V8Settings { deno: Some(deno()), ..V8Settings::default() };
    let engine = process_builder().v8(v8).build().expect("an engine");
    for seed in 0..count {
        let code = random_program(seed);
        let (report, memory, _) = record(&engine, &code).await;
        let recorded = Replay { lines: LineCheck::Counted, ..memory.replay(memory.length(), ended()) };
        let (again, asked) = replay_on(&engine, EngineChoice::V8, &code, recorded).await;
        assert_eq!((asked.len(), again.engine.name()), (0, "v8"), "run {seed}: {}\n{code}", show(&again));
        assert_eq!(comparable(&again), comparable(&report), "run {seed}\n{code}");
        assert!(report.failure().is_none(), "run {seed}: {}\n{code}", show(&report));
    }
    println!("{count} programs recorded on QuickJS and repeated on V8, all equal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_repeats_a_record_has_a_fresh_process() {
    const SUM: &str = "return 1+1";
    let engine = process_builder().reuse(Reuse::SameCaller).build().expect("an engine");
    let (_, memory, _) = record(&engine, SUM).await;
    let of_caller = || Request { caller: Some("ada".into()), ..Request::new(Profile::Chain, SUM) };
    engine.run(of_caller()).await;
    let recorded = Arc::new(memory.replay(memory.length(), ended()));
    let again = engine.run(Request { replay: Some(recorded), ..of_caller() }).await;
    assert!(again.value().is_ok() && !again.isolation.rewound, "{again:?}");
}

/// What to do with the calls without a reply in the first `length` steps: they are all harmless here.
fn make_all(replay: &Replay) -> AfterReplay {
    let calls = replay.steps.iter().filter_map(|step| match &step.event {
        StepEvent::Said { then: FromWorker::Call { id, .. }, .. } => Some((*id, OpenCall::Make)),
        _ => None,
    });
    AfterReplay::GoOn(calls.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_wherever_its_record_ends() {
    const STEADY: &str = "
        const out = [await write(1), typeof tools.shop.price];
        setTimeout(() => out.push('second'), 6); setTimeout(() => out.push('first'), 2);
        const both = await Promise.all([look(2), write(3)]);
        await sleep(9); out.push(both); console.log(out.length);
        try { await fail(4); } catch (e) { out.push(e.message); }
        return [out, Math.random()];";
    let engine = engine();
    let (report, memory, asked) = record(&engine, STEADY).await;
    let all = memory.replay(memory.length(), ended()).steps;
    let asks = |step: &Step| matches!(step.event, StepEvent::Said { then: FromWorker::Ask(_), .. });
    assert!(all.iter().any(asks), "a question is among the steps");
    for length in 0..=memory.length() {
        let cut = memory.replay(length, ended());
        let answered = cut
            .steps
            .iter()
            .filter(|step| matches!(step.event, StepEvent::Delivered { message: ToWorker::Reply { .. }, .. }));
        let (then, answered) = (make_all(&cut), answered.count());
        let (again, made) = replay(&engine, STEADY, Replay { then, ..cut }).await;
        assert_eq!(comparable(&again), comparable(&report), "cut after {length} steps");
        assert_eq!(made.len(), asked.len() - answered, "cut after {length} steps");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_difference_ends_the_run() {
    let engine = engine();
    let (_, memory, _) = record(&engine, "await look(1); await write({ to: 'a' }); return 1").await;
    let (_, other, _) = record(&engine, "await look(1); await write({ to: 'b' }); return 1").await;
    let start = other.replay(0, ended()).start;
    let changed = Replay { start, ..memory.replay(memory.length(), ended()) };
    let (report, asked) = replay(&engine, "", changed).await;
    let failure = report.failure().expect("a difference");
    assert_eq!(failure.code, Code::Diverged);
    assert_eq!(
        failure.message,
        "step 2 differs from the record: then the program called write with [{\"to\":\"a\"}], now it called write \
         with [{\"to\":\"b\"}]"
    );
    assert_eq!((asked.len(), report.calls.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_end_is_a_difference() {
    let engine = engine();
    let (_, memory, _) = record(&engine, "return 1").await;
    let (_, other, _) = record(&engine, "return 2").await;
    let changed = Replay { start: other.replay(0, ended()).start, ..memory.replay(1, ended()) };
    let (report, _) = replay(&engine, "", changed).await;
    let failure = report.failure().expect("a difference");
    assert_eq!(failure.code, Code::Diverged);
    assert!(failure.message.ends_with("then the program returned 1, now it returned 2"), "{}", failure.message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_was_ended_from_outside_ends_the_same() {
    let engine = engine();
    let (_, memory, _) = record(&engine, "console.log(1); await look(1); return 1").await;
    let (report, _) = replay(&engine, "", memory.replay(2, ended())).await;
    let failure = report.failure().expect("a failure");
    assert_eq!((failure.code, failure.message.as_str()), (Code::Timeout, "the record ended"));
    assert_eq!((report.logs.stdout.len(), report.calls.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_effect_is_unknown_is_named_and_not_repeated() {
    let engine = engine();
    let code = "return await Promise.all([look(1), write(2)])";
    let (_, memory, _) = record(&engine, code).await;
    let mut kept = memory.replay(memory.length(), ended());
    kept.steps.retain(|step| matches!(step.event, StepEvent::Said { then: FromWorker::Call { .. }, .. }));
    let unknown = OpenCall::Unknown { known: "sent at 10:04:11, no answer".into() };
    let open = kept.steps.iter().zip([OpenCall::Make, unknown]).filter_map(|(step, open)| match &step.event {
        StepEvent::Said { then: FromWorker::Call { id, .. }, .. } => Some((*id, open)),
        _ => None,
    });
    let then = AfterReplay::GoOn(open.collect());
    let (report, asked) = replay(&engine, code, Replay { then, ..kept }).await;
    let failure = report.failure().expect("a failure");
    assert!(failure.message.ends_with("write (sent at 10:04:11, no answer)"), "{}", failure.message);
    assert_eq!((failure.code, asked.len(), report.safe_to_retry()), (Code::Runtime, 0, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_answer_is_delivered_and_the_call_not_repeated() {
    let engine = engine();
    let code = "return [await write(1), await write(2)]";
    let (_, memory, _) = record(&engine, code).await;
    let kept = memory.replay(1, ended());
    let StepEvent::Said { then: FromWorker::Call { id, .. }, .. } = &kept.steps[0].event else {
        panic!("{:?}", kept.steps)
    };
    let answered = OpenCall::Answered { state: CallState::Applied, body: Ok(b"\"kept\"".to_vec()) };
    let then = AfterReplay::GoOn(HashMap::from([(*id, answered)]));
    let (report, asked) = replay(&engine, code, Replay { then, ..kept }).await;
    assert_eq!(report.value().expect("a value").get(), r#"["kept",{"got":[2]}]"#);
    assert_eq!(asked, [json!([2])]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_waits_for_its_intent_and_its_reply_for_the_record() {
    let (report, memory, _) = record(&engine(), "await look(1); await write(2); return 1").await;
    let events = memory.kept.lock().expect("record").events.clone();
    assert_eq!(report.calls.len(), 2);
    assert!(events[0] == "made look" && events[1].starts_with("delivered "), "{events:?}");
    let write = events[2].strip_prefix("intent ").expect("an intent").to_owned();
    let expected = ["made write".to_owned(), format!("answered {write}"), format!("delivered {write}")];
    assert_eq!(events[3..], expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_cannot_be_made_durable_is_refused_and_reads_go_on() {
    let (asked, memory) = (Asked::default(), Memory::new(true));
    let code = "const out = []; for (const f of [look, write, look]) try { await f(1); out.push('ok') } \
                catch (e) { out.push(e.code, e.message) } return out";
    let request = Request { host: host(&asked, None), recorder: Some(memory), ..Request::new(Profile::Chain, code) };
    let report = engine().run(request).await;
    assert_eq!(
        report.value().expect("a value").get(),
        r#"["ok","NOT_DURABLE","write was not called, because it could not be made durable: the disk is full","ok"]"#
    );
    assert_eq!(asked.lock().expect("list").len(), 2);
    assert_eq!((report.calls[1].state, report.safe_to_retry()), (CallState::NotSent, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_moves_is_recorded_once() {
    let v8 = V8Settings { move_after: Duration::ZERO, ..V8Settings::default() };
    let engine = process_builder()
        .migrates_to(MigrationTarget::QuickJs)
        .race(RacePolicy::Never)
        .v8(v8)
        .build()
        .expect("an engine");
    let code = "let s = 0; for (let i = 0; i < 300000; i++) s += i % 7; console.log('once'); await write(s); \
                for (let i = 0; i < 300000; i++) s += i % 7; await write(s); return s;";
    let (asked, memory) = (Asked::default(), Memory::new(false));
    let recorder = Some(memory.clone() as Arc<dyn Recorder>);
    let choice = Some(EngineChoice::Auto);
    let host = host(&asked, None);
    let request = Request { host, recorder, engine: choice, ..Request::new(Profile::Chain, code) };
    let report = engine.run(request).await;
    assert!(report.usage.moved.is_some(), "{:?}", report.usage);
    let said = memory.replay(memory.length(), ended()).steps.into_iter().filter_map(|step| match step.event {
        StepEvent::Said { then: FromWorker::Done { end: End::Returned(_), .. }, .. } => Some("done"),
        StepEvent::Said { then: FromWorker::Log { .. }, .. } => Some("line"),
        StepEvent::Said { .. } => Some("call"),
        StepEvent::Delivered { .. } => None,
    });
    assert_eq!(said.collect::<Vec<_>>(), ["line", "call", "call", "done"]);
    let (again, _) = replay(&engine, code, memory.replay(memory.length(), ended())).await;
    assert_eq!(comparable(&again), comparable(&report));
}
