//! Processes that execute durable runs are killed with SIGKILL; others go on.
//!
//! Without a test harness, because the program starts itself as the process that is killed.

#![allow(clippy::print_stdout, reason = "standard output is how the two processes talk")]

mod support;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use support::programs::{Dice, program};
use support::{engine, facts, host};
use toolgate_engine::host::{HeldBytes, Question, Target};
use toolgate_engine::transcript::{Delivery, Durable, Recorder};
use toolgate_engine::wire::{CallId, CallState, FromWorker, Profile, ToWorker};
use toolgate_engine::{Host, HostCall, HostError, HostFuture, Request};
use toolgate_journal::durable::{Began, DurableRun, Journal};
use toolgate_journal::replay::{self, NoReplay, Replayable};
use toolgate_journal::seal::Sealer;
use toolgate_journal::store::Find;
use toolgate_journal::store::sqlite::SqliteStore;

const RUNS: u64 = 40;
/// How often the process of one run is killed.
const KILLS: u32 = 3;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("execute") => execute(Path::new(&args[2]), args[3].parse().expect("a seed")),
        Some("--list") => {}
        _ => no_effect_is_lost_or_doubled_by_sigkill(),
    }
}

/// A backend whose effects are lines of a file, which outlive the process.
struct FileHost(PathBuf);

impl Host for FileHost {
    fn call(&self, call: HostCall) -> HostFuture {
        let Target::Tool { tool, .. } = &call.target else {
            return Box::pin(async { Err(HostError::not_sent("UNKNOWN", "no such function")) });
        };
        if tool == "find" {
            return host().call(call);
        }
        let args: Value = serde_json::from_str(&call.args).unwrap_or_default();
        let (is_broken, path) = (tool == "broken", self.0.clone());
        Box::pin(async move {
            let mut file = OpenOptions::new().append(true).create(true).open(path).expect("a file");
            file.write_all(format!("{}\n", args["k"]).as_bytes()).expect("written");
            println!("effect");
            tokio::task::yield_now().await;
            match is_broken {
                true => Err(HostError::new("BROKEN", "it is broken")),
                false => Ok(json!({ "saved": args }).to_string()),
            }
        })
    }

    fn answer(&self, question: &Question) -> Option<String> {
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

/// Says when a reply is delivered: a process that is killed then has kept it.
struct Announcing(Arc<DurableRun>);

impl Recorder for Announcing {
    fn delivered(&self, delivery: Delivery<'_>) {
        self.0.delivered(delivery);
        if matches!(delivery.message, ToWorker::Reply { .. }) {
            println!("reply");
        }
    }

    fn said(&self, frame: &FromWorker, read_only: bool) {
        self.0.said(frame, read_only);
    }

    fn before_effect(&self, id: CallId) -> Durable {
        self.0.before_effect(id)
    }

    fn before_reply(&self, id: CallId, state: CallState, body: Result<&str, &str>) -> Durable {
        self.0.before_reply(id, state, body)
    }
}

/// Begins the run of a seed, or goes on with it.
#[tokio::main]
async fn execute(folder: &Path, seed: u64) {
    let code = program(&mut Dice(seed));
    let store = SqliteStore::open(&folder.join("runs.db")).expect("a store");
    let sealer = Sealer::from_file(&folder.join("key")).expect("a key");
    let journal = Journal::new(Arc::new(store), sealer, "killed".into(), Duration::ZERO);
    let name = format!("run_{seed}");
    let find = Find { run: Some(name.clone()), most: 1, ..Find::default() };
    let new = Request::new(Profile::Chain, code.clone());
    let (request, run) = if journal.store().find(find).await.expect("found").is_empty() {
        let facts = toolgate_journal::recording::RunFacts { run: name, ..facts(&new) };
        let Began::New(run) = journal.begin(facts, None).await.expect("begun") else { panic!("it is new") };
        (new, run)
    } else {
        let taken = journal.take_over(Some(&name)).await.expect("claimed").expect("its owner was killed");
        match replay::resume(&taken.record, &mut |_| false) {
            Ok(Replayable { replay, .. }) => (Request { replay: Some(Arc::new(replay)), ..new }, taken.run),
            Err(NoReplay::NotStarted) => (new, taken.run),
            Err(other) => panic!("{other}"),
        }
    };
    let host = Arc::new(FileHost(folder.join(format!("effects_{seed}"))));
    let report = engine().run(Request { host, recorder: Some(Arc::new(Announcing(run.clone()))), ..request }).await;
    let text = serde_json::to_string(&report).expect("JSON");
    run.finish(&text).await.expect("finished");
    println!("ended {text}");
}

/// Starts a process; kills it after some of its effects and replies, or reads its report.
fn live(folder: &Path, seed: u64, events: Option<u64>) -> Option<Value> {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["execute", folder.to_str().expect("UTF-8"), &seed.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut left = events.unwrap_or(u64::MAX);
    for line in lines {
        let line = line.expect("a line");
        if let Some(report) = line.strip_prefix("ended ") {
            child.wait().expect("ended");
            return Some(serde_json::from_str(report).expect("a report"));
        }
        if left == 0 {
            child.kill().expect("killed");
            child.wait().expect("ended");
            return None;
        }
        left -= 1;
    }
    panic!("the process of run {seed} ended by itself: {:?}", child.wait());
}

fn no_effect_is_lost_or_doubled_by_sigkill() {
    let folder = tempfile::tempdir().expect("folder");
    let (mut killed, mut unknown, mut resumed) = (0, 0, 0);
    for seed in 0..RUNS {
        let mut dice = Dice(seed ^ 0xdead);
        let (mut ended, before) = (None, killed);
        for _ in 0..KILLS {
            ended = live(folder.path(), seed, Some(dice.below(6)));
            if ended.is_some() {
                break;
            }
            killed += 1;
        }
        let report = ended.or_else(|| live(folder.path(), seed, None)).expect("an end");
        let mut effects: BTreeMap<String, u32> = BTreeMap::new();
        let file = File::open(folder.path().join(format!("effects_{seed}")));
        for line in file.into_iter().flat_map(|file| BufReader::new(file).lines()) {
            *effects.entry(line.expect("a line")).or_default() += 1;
        }
        let code = program(&mut Dice(seed));
        assert!(effects.values().all(|times| *times == 1), "made twice in run {seed}: {effects:?}\n{code}");
        if report["ok"] == true {
            resumed += u64::from(killed > before);
            let mut done: Vec<String> =
                report["value"].as_array().expect("numbers").iter().map(ToString::to_string).collect();
            done.sort();
            let made: Vec<&String> = effects.keys().filter(|key| !key.contains("broken")).collect();
            assert_eq!(done.iter().collect::<Vec<_>>(), made, "lost in run {seed}\n{code}");
        } else {
            let error = report["error"].as_str().unwrap_or_default();
            assert!(error.contains("whose effect is unknown") && report["safe_to_retry"] == false, "{report}\n{code}");
            unknown += 1;
        }
    }
    let counts = format!("{RUNS} runs: {killed} processes killed, {resumed} runs resumed, {unknown} ended unknown");
    assert!(killed > RUNS / 4 && resumed > 0, "{counts}");
    println!("{counts}");
}
