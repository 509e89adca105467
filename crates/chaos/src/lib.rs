//! Kills parts of a running gateway at random while programs run through it, and checks every answer and every effect.
//!
//! What `toolgate chaos` does. The gateway is this same program in a process of its own; behind it are MCP servers that write
//! each effect to a file, which outlives them. Workers, zygotes, V8 processes, servers, the gateway itself and, where there
//! is a `redis-server`, the Redis that holds its sessions are killed with SIGKILL. A program may fail because of that. It may not return a wrong value, and its report may not be wrong
//! about its effects: one that is said to be applied is there once, one that was not sent is not there, none is there twice.
//!
//! # Layout
//! - `counter`: the MCP server that counts; `gateway`: the gateway's process and connections to it
//! - `programs`: programs whose answers and effects are known; `doors`: how each is sent; `socket`: a WebSocket client
//! - `durable`: durable runs of gateways that share a store
//! - `load`: sends programs and checks what comes back; `sessions`: the same for RPC sessions; `redis`: their store; `processes`: processes as the kernel shows them

#![forbid(unsafe_code)]

mod counter;
mod doors;
mod durable;
mod gateway;
mod load;
mod processes;
mod programs;
mod redis;
mod sessions;
mod socket;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use parking_lot::Mutex;
use serde::Serialize;

use crate::gateway::{Files, Gateway};
use crate::load::{Load, Tally};
use crate::processes::{Process, Role};
use crate::redis::Redis;

pub use crate::counter::serve_counter;
pub use crate::durable::{DurableOptions, DurableSummary, durable};

/// The time between two kills.
const KILL_INTERVAL: Duration = Duration::from_millis(120);
/// Every so many kills, the gateway is killed.
const GATEWAY_KILL: u64 = 40;
/// Every so many kills, Redis is killed; it is away for up to this long.
const REDIS_KILL: u64 = 25;
const REDIS_AWAY: Duration = Duration::from_millis(400);
/// How long processes may take to end after their gateway.
const END_TIMEOUT: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_millis(50);
/// The largest number of mistakes that are described.
const MAX_DESCRIBED: usize = 20;

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program to start as the gateway.
    pub program: PathBuf,
    /// How long to kill.
    pub duration: Duration,
    /// How many clients send programs at one time.
    pub connections: usize,
    /// Determines what is killed.
    pub seed: u64,
}

/// What happened.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The seed of the choice of victims.
    pub seed: u64,
    /// Programs that were answered.
    pub runs: u64,
    /// Programs whose answer was the one of an undisturbed run.
    pub right: u64,
    /// RPC sessions that were opened and used.
    pub sessions: u64,
    /// Programs that failed, by code: something they needed was killed.
    pub disturbed: BTreeMap<String, u64>,
    /// Programs whose connection ended with the gateway.
    pub cut_off: u64,
    /// Processes that were killed, by kind.
    pub killed: BTreeMap<&'static str, u64>,
    /// Effects that servers wrote down.
    pub effects: u64,
    /// Wrong values, wrong failures, and reports that are wrong about effects; the first ones in words.
    pub mistakes: Vec<String>,
    /// The number of mistakes.
    pub wrong: u64,
    /// Processes that were left behind.
    pub left_behind: u64,
    /// The gateway's anonymous and shared bytes at the end.
    pub memory_bytes: u64,
}

impl Summary {
    /// Whether everything held, and the programs were not all disturbed.
    pub fn holds(&self) -> bool {
        self.wrong == 0 && self.left_behind == 0 && self.right > 0 && self.sessions > 0
    }
}

/// A seed that is short enough to be typed.
///
/// # Errors
/// If the machine has no random numbers.
pub fn random_seed() -> anyhow::Result<u64> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes).into())
}

/// Runs programs through a gateway whose parts are killed.
///
/// # Errors
/// If a gateway cannot be started.
pub fn chaos(options: &Options) -> anyhow::Result<Summary> {
    let redis = Redis::start()?;
    let files = Files::new(&options.program, redis.as_ref().map(Redis::url).as_deref())?;
    let load = Load::new(&files);
    let gateway = Mutex::new(Gateway::start(&options.program, &files)?);
    let mut killer = Killer::new(options.seed, redis);
    let tally = std::thread::scope(|scope| {
        let mut clients: Vec<_> = (0..options.connections).map(|_| scope.spawn(|| load.send_until_told())).collect();
        clients.push(scope.spawn(|| load.use_sessions_until_told()));
        let killed = killer.kill_for(options, &files, &load, &gateway);
        load.stop.store(true, Ordering::Relaxed);
        let joined = clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Tally::of_a_panic()));
        let tally = joined.fold(Tally::default(), Tally::plus);
        killed.map(|()| tally)
    })?;
    let gateway = gateway.into_inner();
    let process = gateway.process();
    killer.see(process);
    let memory_bytes = process.and_then(Process::memory).unwrap_or_default();
    gateway.stop()?;
    let left_behind = killer.left_behind();
    let written = std::fs::read_to_string(files.effects()).context("the list of effects")?;
    let mistakes = tally.mistakes(&counted(&written));
    Ok(Summary {
        seed: options.seed,
        runs: tally.runs,
        right: tally.right,
        sessions: tally.sessions,
        disturbed: tally.disturbed.clone(),
        cut_off: tally.cut_off,
        killed: killer.killed,
        effects: written.lines().count() as u64,
        wrong: mistakes.len() as u64,
        mistakes: mistakes.into_iter().take(MAX_DESCRIBED).collect(),
        left_behind,
        memory_bytes,
    })
}

/// A line of a soak test.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SoakLine {
    /// Programs so far.
    pub runs: u64,
    /// The gateway's anonymous and shared bytes.
    pub memory_bytes: u64,
    /// Its open files.
    pub open_files: usize,
    /// Median milliseconds of the programs since the last line.
    pub p50_ms: f64,
    /// Their 99th percentile.
    pub p99_ms: f64,
}

/// Programs after which a gateway has what it keeps: caches, pools, the records of recent runs.
const WARM_UP_RUNS: u64 = 20_000;
/// What the memory of a gateway may grow by after that, however many programs it runs.
const MAX_GROWTH_BYTES: u64 = 16 << 20;

/// The memory after the warm-up, which later memory is compared with.
#[derive(Default)]
struct SoakMemory(Option<(u64, u64)>);

impl SoakMemory {
    /// Fails if the memory grew by more than a gateway may.
    fn check(&mut self, line: &SoakLine) -> anyhow::Result<()> {
        if line.runs < WARM_UP_RUNS {
            return Ok(());
        }
        let (runs, memory_bytes) = *self.0.get_or_insert((line.runs, line.memory_bytes));
        let grew = line.memory_bytes.saturating_sub(memory_bytes);
        anyhow::ensure!(
            grew <= MAX_GROWTH_BYTES,
            "the gateway's memory grew by {grew} bytes from program {runs} to program {}; at most {MAX_GROWTH_BYTES} are \
             expected",
            line.runs
        );
        Ok(())
    }
}

/// Parts of a soak test after the warm-up below which its latency is not compared.
const MIN_COMPARED_PARTS: usize = 10;
/// What the median latency of the last fifth may be of that of the first fifth.
const MAX_SLOWDOWN: f64 = 1.5;

/// Median milliseconds of the parts after the warm-up.
#[derive(Default)]
struct SoakLatency(Vec<f64>);

impl SoakLatency {
    fn add(&mut self, line: &SoakLine) {
        if line.runs >= WARM_UP_RUNS {
            self.0.push(line.p50_ms);
        }
    }

    /// Fails if the last fifth of the programs took much longer than the first.
    fn check(&self) -> anyhow::Result<()> {
        if self.0.len() < MIN_COMPARED_PARTS {
            return Ok(());
        }
        let fifth = self.0.len() / 5;
        let (first, last) = (median(&self.0[..fifth]), median(&self.0[self.0.len() - fifth..]));
        anyhow::ensure!(
            last <= first * MAX_SLOWDOWN,
            "the median latency of the last fifth of the programs is {last:.2} ms, and that of the first fifth after the warm-up \
             {first:.2} ms; at most {MAX_SLOWDOWN} times as much is expected"
        );
        Ok(())
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Runs many programs through one gateway, of which nothing is killed, and tells its memory after each part.
///
/// # Errors
/// If the gateway cannot be started, an answer is wrong, its memory grows and grows, or it becomes slower.
pub fn soak(
    program: &Path,
    runs: u64,
    connections: usize,
    mut tell: impl FnMut(SoakLine) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let files = Files::new(program, None)?;
    let load = Load::new(&files);
    let gateway = Gateway::start(program, &files)?;
    let process = gateway.process().context("the gateway's process")?;
    let part = (runs / 50).max(1);
    let (mut memory, mut latency) = (SoakMemory::default(), SoakLatency::default());
    let mut done = 0;
    while done < runs {
        let until = (done + part).min(runs);
        let tallies = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..connections).map(|_| scope.spawn(|| load.send_up_to(until))).collect();
            clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Tally::of_a_panic())).collect::<Vec<_>>()
        });
        let tally = tallies.into_iter().fold(Tally::default(), Tally::plus);
        if let Some(mistake) = tally.wrong.first().cloned().or_else(|| tally.first_disturbance()) {
            anyhow::bail!("{mistake}");
        }
        done = until;
        let line = SoakLine {
            runs: done,
            memory_bytes: process.memory().unwrap_or_default(),
            open_files: process.open_files().unwrap_or_default(),
            p50_ms: tally.percentile(0.5),
            p99_ms: tally.percentile(0.99),
        };
        tell(line)?;
        memory.check(&line)?;
        latency.add(&line);
    }
    latency.check()?;
    gateway.stop()
}

/// How often each effect was written down.
pub(crate) fn counted(written: &str) -> HashMap<&str, u64> {
    let mut counts = HashMap::new();
    for id in written.lines() {
        *counts.entry(id).or_default() += 1;
    }
    counts
}

/// Chooses what to kill, and remembers all processes that it saw.
struct Killer {
    random: Random,
    seen: HashSet<Process>,
    killed: BTreeMap<&'static str, u64>,
    redis: Option<Redis>,
}

impl Killer {
    fn new(seed: u64, redis: Option<Redis>) -> Self {
        Killer { random: Random(seed), seen: HashSet::new(), killed: BTreeMap::new(), redis }
    }

    fn kill_for(
        &mut self,
        options: &Options,
        files: &Files,
        load: &Load<'_>,
        gateway: &Mutex<Gateway>,
    ) -> anyhow::Result<()> {
        let since = Instant::now();
        let mut count = 0;
        while since.elapsed() < options.duration {
            std::thread::sleep(KILL_INTERVAL.mul_f64(self.random.share() * 2.0));
            count += 1;
            if count % REDIS_KILL == 0 {
                self.kill_redis(load)?;
            }
            let mut gateway = gateway.lock();
            let family = self.see(gateway.process());
            if count % GATEWAY_KILL == 0 {
                load.while_gateway_dies(|| gateway.kill());
                *self.killed.entry("gateway").or_default() += 1;
                *gateway = Gateway::start(&options.program, files)?;
                continue;
            }
            let roles = [Role::Worker, Role::V8, Role::Server];
            let present: Vec<_> = roles.into_iter().filter(|role| family.iter().any(|(_, it)| it == role)).collect();
            let Some(role) = self.random.choose(&present).copied() else { continue };
            let victims: Vec<_> = family.iter().filter(|(_, it)| *it == role).collect();
            if let Some((victim, _)) = self.random.choose(&victims) {
                victim.kill();
                *self.killed.entry(name_of(role)).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Kills Redis and starts it again after a while.
    fn kill_redis(&mut self, load: &Load<'_>) -> anyhow::Result<()> {
        let Some(redis) = &mut self.redis else { return Ok(()) };
        load.redis_kills.fetch_add(1, Ordering::SeqCst);
        redis.kill();
        std::thread::sleep(REDIS_AWAY.mul_f64(self.random.share()));
        redis.start_again()?;
        load.redis_kills.fetch_add(1, Ordering::SeqCst);
        *self.killed.entry("redis").or_default() += 1;
        Ok(())
    }

    fn see(&mut self, gateway: Option<Process>) -> Vec<(Process, Role)> {
        let family = gateway.map(Process::descendants).unwrap_or_default();
        self.seen.extend(family.iter().map(|(process, _)| *process));
        family
    }

    /// How many of the processes that were seen are still there when all had time to end.
    fn left_behind(&mut self) -> u64 {
        let since = Instant::now();
        loop {
            self.seen.retain(|process| process.is_alive());
            if self.seen.is_empty() || since.elapsed() > END_TIMEOUT {
                return self.seen.len() as u64;
            }
            std::thread::sleep(PROBE_INTERVAL);
        }
    }
}

fn name_of(role: Role) -> &'static str {
    match role {
        Role::Worker => "worker or zygote",
        Role::V8 => "v8",
        Role::Server => "server",
    }
}

/// Numbers that a seed determines (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let index = self.next().checked_rem(from.len() as u64)?;
        from.get(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[(u64, u64)]) -> Option<String> {
        let mut memory = SoakMemory::default();
        let check = |&(runs, megabytes): &(u64, u64)| {
            let memory_bytes = megabytes << 20;
            memory.check(&SoakLine { runs, memory_bytes, open_files: 30, p50_ms: 1.0, p99_ms: 9.0 }).err()
        };
        lines.iter().find_map(check).map(|error| error.to_string())
    }

    #[test]
    fn a_gateway_that_becomes_slower_after_its_warm_up_is_told() {
        let check = |p50_of: fn(u64) -> f64, parts: u64| {
            let mut latency = SoakLatency::default();
            for part in 0..parts {
                let (runs, p50_ms) = ((part + 1) * 10_000, p50_of(part));
                latency.add(&SoakLine { runs, memory_bytes: 0, open_files: 0, p50_ms, p99_ms: 9.0 });
            }
            latency.check().err().map(|error| error.to_string())
        };
        // The first part is the warm-up.
        assert_eq!(check(|part| if part == 0 { 0.1 } else { 1.0 + part as f64 / 100.0 }, 50), None);
        assert_eq!(check(|part| if part == 45 { 90.0 } else { 1.0 }, 50), None);
        let slower = check(|part| 1.0 + part as f64 / 10.0, 50).expect("it is slower");
        assert!(slower.contains("the last fifth"), "{slower}");
        assert_eq!(check(|part| part as f64, 10), None);
    }

    #[test]
    fn a_gateway_that_grows_after_its_warm_up_is_told() {
        assert_eq!(check(&[(1_000, 30), (20_000, 80), (40_000, 96), (500_000, 60)]), None);
        let grew = check(&[(1_000, 30), (20_000, 80), (40_000, 90), (60_000, 97)]).expect("it grew");
        assert!(grew.contains("from program 20000 to program 60000"), "{grew}");
    }
}
