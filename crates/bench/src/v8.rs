//! Runs on V8, and runs that move to it. Without a deno these rows say what is missing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use toolgate_engine::{ComputeOptions, Engine, EngineChoice, EngineWithRuntime, Request};
use toolgate_wire::{LimitRequest, Profile};

use super::data::{self, customers};
use super::meter::{Meter, Samples, must_return, timed};

/// Five bodies that pull at each other: about 200 ms on V8.
const NBODY: &str = "\
const bodies = Array.from({ length: 5 }, (_, i) => ({ x: i, y: i * 2, z: i * 3, vx: 0, vy: 0, vz: 0, m: 1 + i }));
for (let step = 0; step < 1500000; step++) {
  for (let i = 0; i < 5; i++) {
    const p = bodies[i];
    for (let j = i + 1; j < 5; j++) {
      const q = bodies[j];
      const dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z;
      const squared = dx * dx + dy * dy + dz * dz + 0.01;
      const pull = 0.001 / (squared * Math.sqrt(squared));
      p.vx -= dx * q.m * pull; p.vy -= dy * q.m * pull; p.vz -= dz * q.m * pull;
      q.vx += dx * p.m * pull; q.vy += dy * p.m * pull; q.vz += dz * p.m * pull;
    }
  }
  for (const p of bodies) { p.x += 0.001 * p.vx; p.y += 0.001 * p.vy; p.z += 0.001 * p.vz; }
}
return bodies.length;";

/// How long a worker that is started ahead may take to come up between two samples.
pub(super) const WARM_UP: Duration = Duration::from_millis(400);

pub(super) fn warm(meter: &Meter) -> anyhow::Result<Samples> {
    let started = with_v8()?;
    let request = Request { engine: Some(EngineChoice::V8), ..Request::new(Profile::Chain, "return 1+1") };
    meter.sample(|| {
        std::thread::sleep(WARM_UP);
        timed("2", || started.engine.run_blocking(request.clone()))
    })
}

/// What a short run takes where it may move to V8, beside QuickJS alone.
pub(super) fn short_runs(meter: &Meter) -> anyhow::Result<Samples> {
    let started = with_v8()?;
    let timed = |engine| {
        let request = Request { engine: Some(engine), ..Request::new(Profile::Chain, "return 1+1") };
        timed("2", || started.engine.run_blocking(request))
    };
    meter.compare(|| timed(EngineChoice::Auto), || timed(EngineChoice::QuickJs))
}

/// With `auto`, the program is known from the samples that do not count.
pub(super) fn nbody(meter: &Meter, choice: EngineChoice) -> anyhow::Result<Samples> {
    let started = with_v8()?;
    meter.sample(|| {
        std::thread::sleep(WARM_UP);
        timed("5", || started.engine.run_blocking(nbody_request(choice)))
    })
}

/// The same on `auto`, each time for a caller whose program the engine does not know.
pub(super) fn nbody_first(meter: &Meter) -> anyhow::Result<Samples> {
    let started = with_v8()?;
    let mut callers = new_callers();
    meter.sample(|| {
        std::thread::sleep(WARM_UP);
        let request = Request { caller: callers.next(), ..nbody_request(EngineChoice::Auto) };
        timed("5", || started.engine.run_blocking(request))
    })
}

fn nbody_request(choice: EngineChoice) -> Request {
    let limits = LimitRequest { wall: Some(Duration::from_secs(120)), ..LimitRequest::default() };
    Request { engine: Some(choice), limits, ..Request::new(Profile::Chain, NBODY) }
}

/// Callers that the engine has not met: a program is known for one caller only.
pub(super) fn new_callers() -> impl Iterator<Item = Arc<str>> {
    (0_u32..).map(|number| format!("bench {number}").into())
}

/// The filter of `data-100000` on V8.
pub(super) fn filter(meter: &Meter) -> anyhow::Result<Samples> {
    let (data, names) = customers(100_000);
    let expected = serde_json::to_string(&names)?;
    let started = with_v8()?;
    let limits = LimitRequest { wall: Some(Duration::from_secs(60)), ..LimitRequest::default() };
    meter.sample(|| {
        std::thread::sleep(WARM_UP);
        let data = data.clone();
        let options = ComputeOptions { limits: limits.clone(), engine: Some(EngineChoice::V8), ..Default::default() };
        timed(&expected, || started.engine.compute_blocking(data::CODE, data, options))
    })
}

/// `/proc` counts processor time in `USER_HZ`, which is 100 on Linux.
const MICROS_PER_TICK: f64 = 1e4;
/// Runs that one value of [`replacement`] is the mean of, because a tick is long.
const REPLACEMENTS: u32 = 5;

/// Processor time that a run of `return 1+1` on V8 costs, nearly all of it the worker that is started for the next one.
pub(super) fn replacement(meter: &Meter) -> anyhow::Result<Samples> {
    let started = with_v8()?;
    let request = Request { engine: Some(EngineChoice::V8), ..Request::new(Profile::Chain, "return 1+1") };
    meter.sample(|| {
        std::thread::sleep(WARM_UP);
        let before = ended_children_time()?;
        for _ in 0..REPLACEMENTS {
            must_return(&started.engine.run_blocking(request.clone()), "2")?;
            std::thread::sleep(WARM_UP);
        }
        Ok((ended_children_time()? - before) / f64::from(REPLACEMENTS))
    })
}

/// Processor time, in microseconds, of all child processes that have ended.
fn ended_children_time() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("cannot read this process's times")?;
    children_ticks(&stat).map(|ticks| ticks * MICROS_PER_TICK).context("no times of ended children")
}

/// `cutime` and `cstime`. The program's name, in parentheses, may have spaces.
fn children_ticks(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(13)?.parse::<f64>().ok()? + fields.get(14)?.parse::<f64>().ok()?)
}

/// An engine whose first V8 worker is on its way up.
pub(super) fn with_v8() -> anyhow::Result<EngineWithRuntime> {
    let started = EngineWithRuntime::start(Engine::builder())?;
    let first = Request { engine: Some(EngineChoice::V8), ..Request::new(Profile::Chain, "return 1") };
    if let Some(failure) = started.engine.run_blocking(first).failure() {
        anyhow::bail!("{failure}");
    }
    Ok(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_ended_children_is_read_behind_a_name_with_spaces() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 11 12 130 14 20 0 1 0";
        assert_eq!(children_ticks(stat), Some(144.0));
        assert_eq!(children_ticks("7 (a"), None);
    }
}
