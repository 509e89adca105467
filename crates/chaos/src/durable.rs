//! Durable runs of gateways that share a store, while gateways and workers are killed: every run ends, no effect is lost, none is
//! made twice, and what is unsure is labelled.
//!
//! A client that loses its gateway asks another one, under the same idempotency key. Calls that wait for a person are approved by
//! whichever client sees them. What was done is read from the file of the counting servers, which outlives everything.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use crate::gateway::{Connection, Files, Gateway, SERVERS};
use crate::processes::{Process, Role};
use crate::{MAX_DESCRIBED, Random, counted};

/// The mean time between two kills; of these every third is of a gateway. Some run ends between two kills, so that a slow machine
/// makes progress.
const KILL_INTERVAL: Duration = Duration::from_millis(400);
const GATEWAY_KILL: u64 = 3;
/// After each such part of the runs there is a kill at the latest, so that there are some on a fast machine.
const MIN_KILLS: u64 = 12;
/// Time between two checks whether a kill is due.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// A run that has not ended after so long is lost.
const RUN_TIMEOUT: Duration = Duration::from_secs(300);
/// Attempts to start a gateway again, and the time between them.
const MAX_STARTS: u32 = 20;
const START_INTERVAL: Duration = Duration::from_millis(250);
/// Before a gateway is asked again that did not answer.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// What to do.
#[derive(Debug, Clone)]
pub struct DurableOptions {
    /// The program to start as gateways.
    pub program: PathBuf,
    /// How many runs there are.
    pub runs: u64,
    /// How many gateways share the store.
    pub replicas: usize,
    /// Where runs are kept, as `postgres://…`; in an SQLite file when absent.
    pub store: Option<String>,
    /// How many runs are open at one time.
    pub connections: usize,
    /// Determines programs and victims.
    pub seed: u64,
}

/// What happened.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DurableSummary {
    /// The seed of programs and victims.
    pub seed: u64,
    /// The kind of store: `sqlite` or `postgres`.
    pub store: &'static str,
    /// Gateways that shared it.
    pub gateways: usize,
    /// How long it took.
    pub seconds: f64,
    /// Runs that ended.
    pub runs: u64,
    /// Runs that returned, with exactly the effects that they report.
    pub right: u64,
    /// Runs that ended with a call which is labelled as unknown.
    pub unknown: u64,
    /// Decisions about calls that waited for a person.
    pub decisions: u64,
    /// Processes that were killed, by kind.
    pub killed: BTreeMap<&'static str, u64>,
    /// Effects that servers wrote down.
    pub effects: u64,
    /// Runs that did not end, effects that are reported and were not made, or made and not reported.
    pub lost: u64,
    /// Effects that were made more than once.
    pub doubled: u64,
    /// Runs that ended otherwise than they should.
    pub wrong: u64,
    /// The first mistakes, in words.
    pub mistakes: Vec<String>,
}

impl DurableSummary {
    /// Whether nothing was lost or doubled, and some run returned.
    pub fn holds(&self) -> bool {
        self.lost + self.doubled + self.wrong == 0 && self.right > 0
    }
}

/// How a run ended.
enum Ended {
    /// With its report.
    Report(Value),
    /// Not at all.
    Lost(String),
}

/// The runs of one test.
struct Runs<'a> {
    options: &'a DurableOptions,
    replicas: &'a [Files],
    next: AtomicU64,
    decisions: AtomicU64,
    ended: Mutex<HashMap<u64, Ended>>,
    /// Whether a gateway is missing, so that runs need not end.
    is_given_up: AtomicBool,
}

/// Executes random programs as durable runs while gateways and workers are killed.
///
/// # Errors
/// If a gateway cannot be started.
pub fn durable(options: &DurableOptions) -> anyhow::Result<DurableSummary> {
    let since = Instant::now();
    let files = Files::durable(&options.program, options.store.as_deref())?;
    let replicas: Vec<Files> = (0..options.replicas.max(1)).map(|number| files.beside(number)).collect();
    let mut gateways = Vec::new();
    for replica in &replicas {
        gateways.push(Gateway::start(&options.program, replica)?);
    }
    let (next, decisions, ended) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
    let runs = Runs { options, replicas: &replicas, next, decisions, ended, is_given_up: AtomicBool::new(false) };
    let is_over = AtomicBool::new(false);
    let killed = std::thread::scope(|scope| {
        let runs = &runs;
        let working: Vec<_> =
            (0..options.connections).map(|client| scope.spawn(move || runs.work(client as u64))).collect();
        let killing = scope.spawn(|| {
            let killed = kill_until(runs, &mut gateways, &is_over);
            if killed.is_err() {
                runs.is_given_up.store(true, Ordering::Relaxed);
                // Ends the requests that clients wait for.
                gateways.iter_mut().for_each(Gateway::kill);
            }
            killed
        });
        for client in working {
            // A client that panics leaves its run without an end, which is found below.
            let _ = client.join();
        }
        is_over.store(true, Ordering::Relaxed);
        killing.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the killer panicked")))
    })?;
    for gateway in gateways {
        gateway.stop()?;
    }
    let written = std::fs::read_to_string(files.effects()).context("the list of effects")?;
    Ok(DurableSummary {
        store: if options.store.is_some() { "postgres" } else { "sqlite" },
        gateways: replicas.len(),
        seconds: since.elapsed().as_secs_f64(),
        ..runs.summary(killed, &written)
    })
}

/// Kills gateways and workers until told to stop; a gateway is started again at once.
fn kill_until(
    runs: &Runs<'_>,
    gateways: &mut [Gateway],
    is_over: &AtomicBool,
) -> anyhow::Result<BTreeMap<&'static str, u64>> {
    let (mut random, mut killed) = (Random(runs.options.seed ^ 0xdead), BTreeMap::new());
    let numbers: Vec<usize> = (0..gateways.len()).collect();
    let mut count = 0;
    loop {
        let (since, pause) = (Instant::now(), KILL_INTERVAL.mul_f64(random.share() * 2.0));
        let before = runs.ended();
        while !is_due(runs.ended() - before, runs.options.runs, since.elapsed() >= pause) {
            if is_over.load(Ordering::Relaxed) {
                return Ok(killed);
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        let Some(number) = random.choose(&numbers).copied() else { break };
        let (Some(gateway), Some(files)) = (gateways.get_mut(number), runs.replicas.get(number)) else { break };
        if (count + 1) % GATEWAY_KILL == 0 {
            count += 1;
            gateway.kill();
            *killed.entry("gateway").or_default() += 1;
            *gateway = start_again(runs.options, files)?;
            continue;
        }
        let family = gateway.process().map(Process::descendants).unwrap_or_default();
        let workers: Vec<_> = family.iter().filter(|(_, role)| *role == Role::Worker).collect();
        if let Some((worker, _)) = random.choose(&workers) {
            count += 1;
            worker.kill();
            *killed.entry("worker or zygote").or_default() += 1;
        }
    }
    Ok(killed)
}

/// Whether to kill again, by the runs that ended since the last kill.
fn is_due(ended: u64, runs: u64, is_time: bool) -> bool {
    ended >= (runs / MIN_KILLS).max(1) || (is_time && ended > 0)
}

/// Starts a gateway that was killed. What it was just starting may hold its socket for a moment longer.
fn start_again(options: &DurableOptions, files: &Files) -> anyhow::Result<Gateway> {
    let mut started = Gateway::start(&options.program, files);
    for _ in 0..MAX_STARTS {
        if started.is_ok() {
            break;
        }
        std::thread::sleep(START_INTERVAL);
        started = Gateway::start(&options.program, files);
    }
    started
}

impl Runs<'_> {
    /// Takes one run after the other, and sees each to its end.
    fn work(&self, client: u64) {
        let mut random = Random(self.options.seed.wrapping_add(client).wrapping_mul(7919));
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.options.runs || self.is_given_up() {
                return;
            }
            let ended = self.see_through(number, &mut random);
            self.ended.lock().insert(number, ended);
        }
    }

    /// How many have ended.
    fn ended(&self) -> u64 {
        self.ended.lock().len() as u64
    }

    fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    fn see_through(&self, number: u64, random: &mut Random) -> Ended {
        let (since, code) = (Instant::now(), program(self.options.seed, number));
        let mut last = "no gateway answered".to_owned();
        while since.elapsed() < RUN_TIMEOUT && !self.is_given_up() {
            match self.follow(number, &code, random) {
                Ok(Some(report)) => return Ended::Report(report),
                Ok(None) => {}
                Err(error) => {
                    last = error.to_string();
                    std::thread::sleep(RETRY_INTERVAL);
                }
            }
        }
        Ended::Lost(format!("run {number} did not end: {last}"))
    }

    /// Begins a run, or finds it, and follows it at one gateway until that is gone.
    fn follow(&self, number: u64, code: &str, random: &mut Random) -> std::io::Result<Option<Value>> {
        let Some(replica) = random.choose(self.replicas) else { return Ok(None) };
        let mut connection = replica.connect()?;
        let body = json!({ "code": code, "durable": true });
        let begun = connection.post_once("/v1/runs", &body, &format!("run{number}"))?;
        let Some(run) = text_of(expect(begun, 202)?, "runId") else { return Ok(None) };
        while !self.is_given_up() {
            let state = expect(connection.get(&format!("/v1/runs/{run}?wait=1"))?, 200)?;
            if state["status"] == "done" {
                return Ok(Some(state["report"].clone()));
            }
            self.approve(&mut connection, &run, &state)?;
        }
        Ok(None)
    }

    /// Approves what waits. Another client, or this one before, may have decided: the first decision holds.
    fn approve(&self, connection: &mut Connection, run: &str, state: &Value) -> std::io::Result<()> {
        let waiting = state["pending"].as_array().into_iter().flatten();
        let decisions: Vec<Value> =
            waiting.map(|call| json!({ "callId": call["callId"], "decision": "approve" })).collect();
        if decisions.is_empty() {
            return Ok(());
        }
        self.decisions.fetch_add(decisions.len() as u64, Ordering::Relaxed);
        let answer = connection.post(&format!("/v1/runs/{run}/decisions"), &json!({ "decisions": decisions }))?;
        expect(answer, 200).map(drop)
    }

    fn summary(&self, killed: BTreeMap<&'static str, u64>, written: &str) -> DurableSummary {
        let counts = counted(written);
        let mut summary = DurableSummary {
            seed: self.options.seed,
            decisions: self.decisions.load(Ordering::Relaxed),
            killed,
            effects: written.lines().count() as u64,
            ..DurableSummary::default()
        };
        let mut by_run: HashMap<&str, BTreeMap<&str, u64>> = HashMap::new();
        for (id, count) in &counts {
            let (run, effect) = id.split_once('-').unwrap_or((*id, ""));
            by_run.entry(run).or_default().insert(effect, *count);
        }
        let ended = self.ended.lock();
        for number in 0..self.options.runs {
            let effects = by_run.remove(format!("r{number}").as_str()).unwrap_or_default();
            summary.add(number, ended.get(&number), &effects);
        }
        summary.mistakes.truncate(MAX_DESCRIBED);
        summary
    }
}

impl DurableSummary {
    fn add(&mut self, number: u64, ended: Option<&Ended>, effects: &BTreeMap<&str, u64>) {
        let doubled = effects.iter().filter(|(_, count)| **count > 1);
        for (effect, count) in doubled {
            self.doubled += 1;
            self.mistakes.push(format!("run {number}: effect {effect} was made {count} times"));
        }
        let report = match ended {
            Some(Ended::Report(report)) => report,
            Some(Ended::Lost(why)) => {
                self.lost += 1;
                return self.mistakes.push(why.clone());
            }
            None => {
                self.lost += 1;
                return self.mistakes.push(format!("run {number}: its client failed"));
            }
        };
        self.runs += 1;
        if report["ok"] != true {
            // What is unsure is said, with what not to do about it.
            let is_unknown = |call: &Value| call["state"] == "unknown";
            let names_unknown = report["calls"].as_array().is_some_and(|calls| calls.iter().any(is_unknown));
            if report["code"] == "RUNTIME" && names_unknown && report["safe_to_retry"] == false {
                self.unknown += 1;
            } else {
                self.wrong += 1;
                self.mistakes.push(format!("run {number}: {report}"));
            }
            return;
        }
        let told: BTreeSet<&str> = report["value"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let made: BTreeSet<&str> = effects.keys().copied().collect();
        let differing = told.symmetric_difference(&made).count() as u64;
        if differing == 0 {
            self.right += 1;
        } else {
            self.lost += differing;
            self.mistakes
                .push(format!("run {number}: the report lists the calls {told:?}, the server counted {made:?}"));
        }
    }
}

/// The body of an answer with this status.
fn expect((status, body): (u16, Value), expected: u16) -> std::io::Result<Value> {
    if status == expected { Ok(body) } else { Err(std::io::Error::other(format!("HTTP {status}: {body}"))) }
}

fn text_of(value: Value, name: &str) -> Option<String> {
    value[name].as_str().map(str::to_owned)
}

/// A program of random steps with calls, races, timers, failures and approvals. Each of its writes has a name of its own, and it
/// returns the names of those whose answers it got.
fn program(seed: u64, number: u64) -> String {
    let mut random = Random(seed ^ number.wrapping_mul(0x9e37_79b9));
    let [first, second] = SERVERS;
    let mut code = format!(
        "let n = 0; const done = [];
         const call = async (server, k) => {{ await server.apply({{ id: 'r{number}-' + k, delayMs: 2 }}); done.push(k); return k; }};
         const write = () => call({first}, 'w' + n++);
         const approved = () => call({second}, 'a' + n++);
"
    );
    let steps = [
        "await write();",
        "await approved();",
        "await Promise.all([write(), write(), write()]);",
        "await Promise.all([write(), approved()]);",
        "await Promise.race([write(), second.read({ id: 'x', delayMs: 4 })]);",
        "await Promise.race([write(), sleep(1)]); await write();",
        "try { await first.apply(JSON.parse('{\"id\": 7}')); } catch (error) { await write(); }",
        "for (let i = 0; i < 3; i++) setTimeout(write, 3 - i); await sleep(8);",
        "if ((await first.read({ id: 'y' })).id === 'y') await write();",
        "if (Math.random() < 0.5) { await sleep(1); await write(); }",
        "for (let i = 0; i < 4; i++) { await write(); await sleep(30); }",
    ];
    let count = 1 + (random.share() * 5.0) as usize;
    for _ in 0..count {
        code.extend(random.choose(&steps).copied());
        code.push('\n');
    }
    // A race leaves writes behind: the program waits for them, so that what it returns is everything.
    code.push_str("while (done.length < n) await sleep(1);\nreturn done;");
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(report: Value, effects: &[(&str, u64)]) -> DurableSummary {
        let mut summary = DurableSummary::default();
        summary.add(1, Some(&Ended::Report(report)), &effects.iter().copied().collect());
        summary
    }

    #[test]
    fn what_is_lost_doubled_or_wrong_is_counted() {
        let right = summary(json!({ "ok": true, "value": ["w0", "a1"] }), &[("w0", 1), ("a1", 1)]);
        assert!(right.holds() && right.right == 1, "{right:?}");
        let lost = summary(json!({ "ok": true, "value": ["w0", "a1"] }), &[("w0", 1)]);
        assert_eq!((lost.lost, lost.holds()), (1, false));
        let untold = summary(json!({ "ok": true, "value": ["w0"] }), &[("w0", 1), ("w1", 1)]);
        assert_eq!((untold.lost, untold.holds()), (1, false));
        let doubled = summary(json!({ "ok": true, "value": ["w0"] }), &[("w0", 2)]);
        assert_eq!((doubled.doubled, doubled.holds()), (1, false));
        let failed = |state: &str, safe_to_retry: bool| {
            let calls = [json!({ "state": "applied" }), json!({ "state": state })];
            let report = json!({ "ok": false, "code": "RUNTIME", "calls": calls, "safe_to_retry": safe_to_retry });
            summary(report, &[("w0", 1)])
        };
        let unsure = failed("unknown", false);
        assert_eq!((unsure.unknown, unsure.wrong), (1, 0));
        let unlabelled = failed("unknown", true);
        assert_eq!((unlabelled.unknown, unlabelled.wrong), (0, 1));
        let known = failed("failed", false);
        assert_eq!((known.unknown, known.wrong), (0, 1));
        let mut gone = DurableSummary::default();
        gone.add(1, None, &BTreeMap::new());
        assert_eq!((gone.lost, gone.holds()), (1, false));
    }

    #[test]
    fn a_kill_is_due_after_a_time_with_progress_or_a_part_of_the_runs() {
        assert!(!is_due(0, 120, true), "a slow machine makes progress");
        assert!(is_due(1, 120, true) && !is_due(9, 120, false));
        assert!(is_due(10, 120, false), "a fast machine ends no runs without kills");
        assert!(is_due(1, 3, false) && !is_due(0, 3, false));
    }

    #[test]
    fn a_seed_gives_the_same_program() {
        assert_eq!(program(1, 2), program(1, 2));
        assert_ne!(program(1, 2), program(1, 3));
    }
}
