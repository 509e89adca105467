//! Durable runs: nothing is lost and nothing is made twice, whenever the process that executes them dies.

#![allow(clippy::print_stdout, reason = "the numbers of a long run are worth reading")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use support::postgres::Server;
use support::programs::{Dice, program};
use support::{engine, facts, host, record, run_again, stable};
use toolgate_engine::host::{HeldBytes, Target};
use toolgate_engine::wire::{CallId, CallState, Code, Profile, Report, Warning};
use toolgate_engine::{CancellationToken, Engine, Host, HostCall, HostError, HostFuture, Request};
use toolgate_journal::durable::{Began, Decision, DurableRun, Journal};
use toolgate_journal::recording::RunFacts;
use toolgate_journal::replay::{self, Replayable};
use toolgate_journal::seal::Sealer;
use toolgate_journal::store::memory::MemoryStore;
use toolgate_journal::store::sqlite::SqliteStore;
use toolgate_journal::store::{
    Begun, Claim, Decided, Find, Held, Lease, Leave, NewRun, PendingRow, Prune, Rows, RunRow, RunStatus, Store,
    StoreError, StoreFuture,
};

const HOUR: Duration = Duration::from_secs(3600);

fn journal(store: Arc<dyn Store>, ttl: Duration) -> Journal {
    Journal::new(store, Sealer::new([3; 32]).expect("key"), "here".into(), ttl)
}

fn named(run: &str, code: &str) -> RunFacts {
    RunFacts { run: run.into(), ..facts(&Request::new(Profile::Chain, code)) }
}

async fn begin(journal: &Journal, run: &str, code: &str) -> Arc<DurableRun> {
    match journal.begin(named(run, code), None).await.expect("begun") {
        Began::New(run) => run,
        Began::Existing { run } => panic!("{run} was there"),
    }
}

fn text(report: &Report) -> String {
    serde_json::to_string(report).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_run_is_in_the_store_with_its_report() {
    let journal = journal(Arc::new(MemoryStore::new()), HOUR);
    let code = "return [await db.find({ id: 1 }), await db.save({ big: 'x'.repeat(100000) })]";
    let run = begin(&journal, "a", code).await;
    let request = Request { host: host(), recorder: Some(run.clone()), ..Request::new(Profile::Chain, code) };
    let report = engine().run(request).await;
    run.finish(&text(&report)).await.expect("finished");
    let record = journal.load("a").await.expect("a record");
    let again = run_again(&engine(), replay::offline(&record).expect("replayable")).await;
    assert_eq!(stable(&again), stable(&report));
    let row = &journal.store().find(Find { most: 1, ..Find::default() }).await.expect("found")[0];
    assert_eq!((row.status, row.entries), (RunStatus::Done, record.entries.len() as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_holds_nothing_that_can_be_read() {
    const CANARY: &str = "canary-8f1b2c";
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(&folder.path().join("runs.db")).expect("a store");
    let journal = journal(Arc::new(store), HOUR);
    let code =
        format!("await db.save({{ text: '{CANARY}'.repeat(9000) }}); console.log('{CANARY}'); return '{CANARY}'");
    let run = begin(&journal, "a", &code).await;
    let request = Request { host: host(), recorder: Some(run.clone()), ..Request::new(Profile::Chain, code.clone()) };
    let report = engine().run(request).await;
    run.pause(&[(toolgate_engine::wire::CallId(9), format!("pay {CANARY}?"))], None).await.expect("paused");
    let decided = journal.decide("a", toolgate_engine::wire::CallId(9), CANARY).await;
    assert_eq!(decided, Ok(Decision::Now));
    assert!(report.value().is_ok(), "{:?}", report.failure());
    let files = std::fs::read_dir(folder.path()).expect("folder").flatten();
    let bytes: Vec<u8> = files.flat_map(|file| std::fs::read(file.path()).expect("file")).collect();
    assert!(bytes.len() > 90_000);
    assert!(!bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes()), "the store shows the canary");
    let record = journal.load("a").await.expect("a record");
    assert!(serde_json::to_string(&record.entries).expect("JSON").contains(CANARY));
    let pending = journal.pending("a").await.expect("pending");
    assert_eq!((pending[0].question.as_str(), pending[0].decision.as_deref()), ("pay canary-8f1b2c?", Some(CANARY)));
    let other = Journal::new(
        Arc::new(SqliteStore::open(&folder.path().join("runs.db")).expect("a store")),
        Sealer::new([4; 32]).expect("key"),
        "there".into(),
        HOUR,
    );
    assert!(matches!(other.load("a").await, Err(StoreError::Damaged(_))), "another key opens nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_only_reads_writes_nothing_until_it_ends() {
    let store = Arc::new(MemoryStore::new());
    let journal = journal(store.clone(), HOUR);
    let code = "for (let i = 0; i < 20; i++) await db.find({ i }); return 1";
    let run = begin(&journal, "a", code).await;
    let request = Request { host: host(), recorder: Some(run.clone()), ..Request::new(Profile::Chain, code) };
    let report = engine().run(request).await;
    assert_eq!(store.read("a").await.expect("rows").entries.len(), 1, "the header");
    run.finish(&text(&report)).await.expect("finished");
    assert!(store.read("a").await.expect("rows").entries.len() > 40);
}

/// What waits in memory to be written is bounded: a run that only reads is written too when it has read much.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_reads_much_is_written_before_it_ends() {
    let store = Arc::new(MemoryStore::new());
    let journal = journal(store.clone(), HOUR);
    let code = "const big = 'x'.repeat(3e6); for (let i = 0; i < 3; i++) await db.find({ i, big }); return 1";
    let run = begin(&journal, "a", code).await;
    let request = Request { host: host(), recorder: Some(run.clone()), ..Request::new(Profile::Chain, code) };
    let report = engine().run(request).await;
    let written = async {
        while store.read("a").await.expect("rows").entries.len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), written).await.expect("it is written");
    run.finish(&text(&report)).await.expect("finished");
    let record = journal.load("a").await.expect("the record");
    let again = run_again(&engine(), replay::offline(&record).expect("a whole record")).await;
    assert_eq!(stable(&again), stable(&report));
    // What is shown of it has the beginnings of its texts.
    let shown = journal.beginnings("a", 0, 100, 1000).await.expect("entries");
    assert_eq!(shown.entries.len(), record.entries.len());
    let lengths: Vec<_> = shown.blobs.iter().map(|(_, text)| text.len()).collect();
    assert!(lengths.len() >= 6 && lengths.iter().all(|length| *length <= 1000), "{lengths:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_idempotency_key_is_the_same_run_of_a_caller() {
    let journal = journal(Arc::new(MemoryStore::new()), HOUR);
    let begin = async |run: &str, caller: &str| {
        let facts = RunFacts { caller: caller.into(), ..named(run, "return 1") };
        match journal.begin(facts, Some("key")).await.expect("begun") {
            Began::New(run) => format!("new {}", run.id()),
            Began::Existing { run } => run,
        }
    };
    assert_eq!(begin("a", "ann").await, "new a");
    assert_eq!(begin("b", "ann").await, "a");
    assert_eq!(begin("c", "bob").await, "new c");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_taken_over_makes_no_more_effects() {
    let store = Arc::new(MemoryStore::new());
    let (old, new) = (journal(store.clone(), Duration::ZERO), journal(store, HOUR));
    let code = "const out = []; for (const f of [db.find, db.save]) try { await f({}); out.push('ok') } \
                catch (e) { out.push(e.code) } return out";
    let run = begin(&old, "a", code).await;
    assert!(new.take_over(Some("a")).await.expect("claimed").is_some());
    let request = Request { host: host(), recorder: Some(run.clone()), ..Request::new(Profile::Chain, code) };
    let report = engine().run(request).await;
    assert_eq!(report.value().expect("a value").get(), r#"["ok","NOT_DURABLE"]"#);
    assert!(run.lost().is_cancelled());
    assert!(matches!(run.finish("{}").await, Err(StoreError::Fenced(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_full_refuses_effects_and_lets_reads_go_on() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(&folder.path().join("runs.db")).expect("a store");
    let journal = journal(Arc::new(store.clone()), HOUR);
    let code = "const out = []; for (const f of [db.find, db.save, db.find]) \
                try { await f({ big: 'x'.repeat(300000) }); out.push('ok') } catch (e) { out.push(e.message) } return out";
    let run = begin(&journal, "a", code).await;
    store.limit(100 * 1024).expect("a limit");
    let request = Request { host: host(), recorder: Some(run.clone()), ..Request::new(Profile::Chain, code) };
    let report = engine().run(request).await;
    let value: Vec<String> = serde_json::from_str(report.value().expect("a value").get()).expect("texts");
    assert_eq!((value[0].as_str(), value[2].as_str()), ("ok", "ok"));
    let refused = "db.save was not called, because it could not be made durable: the journal's store is full";
    assert!(value[1].starts_with(refused), "{}", value[1]);
    assert_eq!(report.calls[1].state, CallState::NotSent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_becomes_read_only_refuses_effects_and_lets_reads_go_on() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(&folder.path().join("runs.db")).expect("a store");
    let journal = journal(Arc::new(store.clone()), HOUR);
    let code = "const out = []; for (const f of [db.save, db.find, db.save, db.find]) \
                try { await f({ id: out.length }); out.push('ok') } catch (e) { out.push(`${e.code} ${e.message}`) } return out";
    let run = begin(&journal, "a", code).await;
    // Before the program: its first effect is the one that is refused.
    store.set_read_only(true).expect("a store");
    let request = Request { host: host(), recorder: Some(run.clone()), ..Request::new(Profile::Chain, code) };
    let within = Duration::from_secs(60);
    let report = tokio::time::timeout(within, engine().run(request)).await.expect("nothing hangs");
    let value: Vec<String> = serde_json::from_str(report.value().expect("a value").get()).expect("texts");
    assert_eq!((value[1].as_str(), value[3].as_str()), ("ok", "ok"), "{value:?}");
    for (call, told) in [(0, &value[0]), (2, &value[2])] {
        let refused = "NOT_DURABLE db.save was not called, because it could not be made durable: the journal's store is read-only";
        assert!(told.starts_with(refused), "{told}");
        assert_eq!(report.calls[call].state, CallState::NotSent);
    }
    // The end waits for the store too, and says so; nothing of the run is lost once it can be written.
    let end = tokio::time::timeout(within, run.finish(&text(&report))).await.expect("nothing hangs");
    assert!(matches!(end, Err(StoreError::ReadOnly(_))), "{end:?}");
    let row = journal.row("a").await.expect("it can be read").expect("a run");
    assert_eq!(row.status, RunStatus::Running);
    assert!(journal.begin(named("b", code), None).await.is_err(), "no new run begins");
    store.set_read_only(false).expect("a store");
    run.finish_again().await.expect("it ends");
    let record = journal.load("a").await.expect("a record");
    let again = run_again(&engine(), replay::offline(&record).expect("a whole record")).await;
    assert_eq!(stable(&again), stable(&report));
}

/// A record that is full has no more intents. An effect is sent then only when the store knows it: the process that takes the run over must
/// not make the effect again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_beyond_the_bound_of_a_record_waits_until_the_store_knows_of_the_bound() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(&folder.path().join("runs.db")).expect("a store");
    let journal = journal(Arc::new(store.clone()), HOUR).with_max_record_bytes(100_000);
    let code = "await db.find({ big: 'x'.repeat(200000) }); \
                try { await db.save({ id: 1 }); return 'sent' } catch (error) { return error.code }";
    let run = begin(&journal, "a", code).await;
    let request = Request { host: host(), recorder: Some(run.clone()), ..Request::new(Profile::Chain, code) };
    let report = engine().run(request.clone()).await;
    assert_eq!(report.value().expect("a value").get(), r#""sent""#);
    let record = journal.load("a").await.expect("a record");
    assert!(matches!(replay::resume(&record, &mut |_| true), Err(replay::NoReplay::Truncated(_))), "{record:?}");
    assert!(matches!(run.remark(), Some(Warning::RecordFull { .. })));

    let run = begin(&journal, "b", code).await;
    store.limit(10 * 1024).expect("a limit");
    let report = engine().run(Request { recorder: Some(run.clone()), ..request }).await;
    assert_eq!(report.value().expect("a value").get(), r#""NOT_DURABLE""#);
    assert_eq!(report.calls[1].state, CallState::NotSent);
}

/// A run whose end could not be written is not held any more: the same process takes it over, when no other is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_its_process_has_given_up_is_taken_over_by_it() {
    let journal = journal(Arc::new(MemoryStore::new()), Duration::from_millis(20));
    let run = begin(&journal, "a", "return 1").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(journal.take_over(None).await.expect("a store").is_none(), "it still has the run");
    drop(run);
    let taken = async {
        loop {
            match journal.take_over(None).await.expect("a store") {
                Some(taken) => return taken,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let taken = tokio::time::timeout(Duration::from_secs(60), taken).await.expect("it is taken over");
    taken.run.finish("{}").await.expect("it ends");
}

/// A process that dies after a number of steps: writes to the store, and calls that arrive at the backend.
struct Life {
    steps_left: AtomicI64,
    /// Whether the step at which it dies still happens.
    takes_last: bool,
    is_dead: AtomicBool,
    died: CancellationToken,
}

/// What happens to one step of a life.
enum StepFate {
    Happens,
    HappensAndDies,
    Never,
}

impl Life {
    fn new(steps: i64, takes_last: bool) -> Arc<Self> {
        let died = CancellationToken::new();
        Arc::new(Life { steps_left: AtomicI64::new(steps), takes_last, is_dead: AtomicBool::new(false), died })
    }

    fn step(&self) -> StepFate {
        if self.is_dead.load(Ordering::SeqCst) {
            return StepFate::Never;
        }
        match self.steps_left.fetch_sub(1, Ordering::SeqCst) {
            1.. => StepFate::Happens,
            0 => {
                self.is_dead.store(true, Ordering::SeqCst);
                self.died.cancel();
                if self.takes_last { StepFate::HappensAndDies } else { StepFate::Never }
            }
            ..0 => StepFate::Never,
        }
    }

    fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }
}

/// The store as a mortal process sees it: after its death nothing reaches it.
struct MortalStore {
    store: Arc<dyn Store>,
    life: Arc<Life>,
}

impl Store for MortalStore {
    fn append(&self, lease: Lease, from: u64, rows: Rows) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            match self.life.step() {
                StepFate::Happens => self.store.append(lease, from, rows).await,
                StepFate::HappensAndDies => {
                    self.store.append(lease, from, rows).await?;
                    std::future::pending().await
                }
                StepFate::Never => std::future::pending().await,
            }
        })
    }

    fn append_and_leave(&self, lease: Lease, from: u64, rows: Rows, how: Leave) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            match self.life.step() {
                StepFate::Happens => self.store.append_and_leave(lease, from, rows, how).await,
                StepFate::HappensAndDies => {
                    self.store.append_and_leave(lease, from, rows, how).await?;
                    std::future::pending().await
                }
                StepFate::Never => std::future::pending().await,
            }
        })
    }

    fn begin(&self, run: NewRun) -> StoreFuture<'_, Begun> {
        self.store.begin(run)
    }

    fn open_bytes(&self, run: &str) -> StoreFuture<'_, u64> {
        self.store.open_bytes(run)
    }

    fn read(&self, run: &str) -> StoreFuture<'_, Rows> {
        self.store.read(run)
    }

    fn claim(&self, claim: Claim) -> StoreFuture<'_, Option<Lease>> {
        self.store.claim(claim)
    }

    /// A lease of no time is never prolonged: the next process takes over at once.
    fn heartbeat(&self, _: &str, _: Vec<String>, _: Duration) -> StoreFuture<'_, Vec<Held>> {
        Box::pin(std::future::pending())
    }

    fn entries(&self, run: &str, from: u64, most: usize) -> StoreFuture<'_, Vec<Vec<u8>>> {
        self.store.entries(run, from, most)
    }

    fn blob(&self, run: &str, name: &str) -> StoreFuture<'_, Option<Vec<u8>>> {
        self.store.blob(run, name)
    }

    fn abort(&self, run: &str) -> StoreFuture<'_, ()> {
        self.store.abort(run)
    }

    fn leave(&self, lease: Lease, how: Leave) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if self.life.is_dead() { std::future::pending().await } else { self.store.leave(lease, how).await }
        })
    }

    fn pending(&self, run: &str) -> StoreFuture<'_, Vec<PendingRow>> {
        self.store.pending(run)
    }

    fn decide(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, Decided> {
        self.store.decide(run, call, decision)
    }

    fn amend(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, ()> {
        self.store.amend(run, call, decision)
    }

    fn find(&self, find: Find) -> StoreFuture<'_, Vec<RunRow>> {
        self.store.find(find)
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.store.prune(prune)
    }

    fn counts(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>> {
        self.store.counts(day, names)
    }

    fn count(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>> {
        self.store.count(day, names)
    }

    fn uncount(&self, day: u64, names: Vec<(String, u64)>) -> StoreFuture<'_, ()> {
        self.store.uncount(day, names)
    }
}

/// What the backend has done, over all lives.
type Effects = Arc<Mutex<BTreeMap<String, u32>>>;

/// The backend as a mortal process sees it: a call may arrive without its reply coming back, or not at all.
struct MortalHost {
    effects: Effects,
    life: Arc<Life>,
}

impl Host for MortalHost {
    fn call(&self, call: HostCall) -> HostFuture {
        let Target::Tool { tool, .. } = &call.target else {
            return Box::pin(async { Err(HostError::not_sent("UNKNOWN", "no such function")) });
        };
        if tool == "find" {
            return host().call(call);
        }
        let args: Value = serde_json::from_str(&call.args).unwrap_or_default();
        let (is_broken, effects, life) = (tool == "broken", self.effects.clone(), self.life.clone());
        Box::pin(async move {
            tokio::task::yield_now().await;
            let fate = life.step();
            if !matches!(fate, StepFate::Never) {
                *effects.lock().entry(args["k"].to_string()).or_default() += 1;
            }
            match fate {
                StepFate::Happens if is_broken => Err(HostError::new("BROKEN", "it is broken")),
                StepFate::Happens => Ok(json!({ "saved": args }).to_string()),
                StepFate::HappensAndDies | StepFate::Never => std::future::pending().await,
            }
        })
    }

    fn answer(&self, question: &toolgate_engine::host::Question) -> Option<String> {
        host().answer(question)
    }

    fn has_tools(&self) -> bool {
        true
    }

    fn is_read_only(&self, target: &Target) -> bool {
        host().is_read_only(target)
    }

    fn take_held(&self, _: CallId) -> Option<HeldBytes> {
        None
    }
}

/// How a run ended after all its lives.
enum Ended {
    Returned(BTreeSet<String>),
    /// A call was in progress when a process died, and is named.
    Unknown,
}

/// Runs a program through processes that die until one does not.
async fn live_on(
    engine: &Engine,
    store: Arc<dyn Store>,
    name: &str,
    code: &str,
    dice: &mut Dice,
) -> (Ended, Effects, u32) {
    let effects = Effects::default();
    let mut deaths = 0;
    loop {
        // The third life is not cut off, so that every run ends.
        let steps = if deaths < 2 { i64::try_from(dice.below(14)).expect("small") } else { i64::MAX };
        let life = Life::new(steps, dice.below(2) == 0);
        let mortal = Arc::new(MortalStore { store: store.clone(), life: life.clone() });
        let journal = journal(mortal, Duration::ZERO);
        let work = one_life(engine, &journal, name, code, MortalHost { effects: effects.clone(), life: life.clone() });
        tokio::select! {
            ended = work => return (ended, effects, deaths),
            () = life.died.cancelled() => deaths += 1,
        }
    }
}

async fn one_life(engine: &Engine, journal: &Journal, name: &str, code: &str, host: MortalHost) -> Ended {
    let host = Arc::new(host);
    let known = journal.store().find(Find { run: Some(name.into()), most: 1, ..Find::default() }).await.expect("found");
    if let Some(row) = known.first().filter(|row| row.status == RunStatus::Done) {
        // The process died after it had written the end of the run.
        let report: Value =
            serde_json::from_str(&journal.report(row).await.expect("read").expect("a report")).expect("JSON");
        let Some(done) = report["value"].as_array() else {
            assert!(report.to_string().contains("whose effect is unknown"), "{report}");
            return Ended::Unknown;
        };
        return Ended::Returned(done.iter().map(ToString::to_string).collect());
    }
    let (request, run) = if known.is_empty() {
        let run = begin(journal, name, code).await;
        (Request::new(Profile::Chain, code), run)
    } else {
        let taken = journal.take_over(Some(name)).await.expect("claimed").expect("its owner is dead");
        match replay::resume(&taken.record, &mut |_| false) {
            Ok(Replayable { code, replay, header, .. }) => {
                let request = Request { replay: Some(Arc::new(replay)), ..Request::new(header.profile, code) };
                (request, taken.run)
            }
            // It died before the program started, so it starts now.
            Err(replay::NoReplay::NotStarted) => (Request::new(Profile::Chain, code), taken.run),
            Err(other) => panic!("{other}"),
        }
    };
    let report = engine.run(Request { host, recorder: Some(run.clone()), ..request }).await;
    run.finish(&text(&report)).await.expect("finished");
    match report.failure() {
        None => {
            let done: Vec<Value> = serde_json::from_str(report.value().expect("a value").get()).expect("numbers");
            Ended::Returned(done.iter().map(ToString::to_string).collect())
        }
        Some(failure) if failure.code == Code::Runtime && failure.message.contains("whose effect is unknown") => {
            assert!(!report.safe_to_retry());
            Ended::Unknown
        }
        Some(failure) => panic!("{failure}\n{code}"),
    }
}

/// Runs random programs through random deaths; returns how many died at all and how many ended unknown.
async fn check_lives(runs: u64, store: Arc<dyn Store>) -> (u64, u64) {
    let engine = engine();
    let (mut died, mut unknown) = (0, 0);
    for seed in 0..runs {
        let mut dice = Dice(seed);
        let code = program(&mut dice);
        let (ended, effects, deaths) = live_on(&engine, store.clone(), &format!("run_{seed}"), &code, &mut dice).await;
        died += u64::from(deaths > 0);
        let effects = effects.lock();
        let doubled: Vec<_> = effects.iter().filter(|(_, times)| **times > 1).collect();
        assert!(doubled.is_empty(), "made twice: {doubled:?} in run {seed}\n{code}");
        match ended {
            Ended::Returned(done) => {
                let made: BTreeSet<String> = effects.keys().filter(|key| !key.contains("broken")).cloned().collect();
                assert_eq!(done, made, "lost in run {seed}\n{code}");
            }
            Ended::Unknown => {
                assert!(deaths > 0, "unknown without a death in run {seed}\n{code}");
                unknown += 1;
            }
        }
    }
    (died, unknown)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_effect_is_lost_or_doubled_in_memory() {
    let (died, unknown) = check_lives(300, Arc::new(MemoryStore::new())).await;
    assert!(died > 100 && unknown < died, "{died} died, {unknown} unknown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_effect_is_lost_or_doubled_in_sqlite() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(&folder.path().join("runs.db")).expect("a store");
    let (died, unknown) = check_lives(60, Arc::new(store)).await;
    assert!(died > 20 && unknown < died, "{died} died, {unknown} unknown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_effect_is_lost_or_doubled_in_postgres() {
    let mut server = Server::start().await;
    let store = server.store().await;
    let (died, unknown) = check_lives(60, Arc::new(store)).await;
    assert!(died > 20 && unknown < died, "{died} died, {unknown} unknown");
}

/// How many programs are recorded and repeated: 300, or as many as a long run asks for.
fn repeated() -> u64 {
    std::env::var("TOOLGATE_REPLAY_PROGRAMS").ok().and_then(|number| number.parse().ok()).unwrap_or(300)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_programs_repeat_from_their_records() {
    let engine = engine();
    let count = repeated();
    for seed in 0..count {
        let code = program(&mut Dice(seed));
        let run = record(&engine, Request::new(Profile::Chain, code.clone())).await;
        let again = run_again(&engine, replay::offline(&run.record).expect("replayable")).await;
        assert_eq!(stable(&again), stable(&run.report), "run {seed}\n{code}");
    }
    println!("{count} programs recorded and repeated on QuickJS, all equal");
}
