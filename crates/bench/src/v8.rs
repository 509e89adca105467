//! Runs on V8, and runs that move to it. Without a deno these rows say what is missing.

use std::time::Duration;

use toolgate_engine::{Engine, EngineChoice, Request};
use toolgate_wire::{LimitRequest, Profile};

use super::meter::{Meter, Samples, timed};
use toolgate_engine::EngineWithRuntime;

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

pub(super) fn nbody(meter: &Meter, choice: EngineChoice) -> anyhow::Result<Samples> {
    let started = with_v8()?;
    let limits = LimitRequest { wall: Some(Duration::from_secs(120)), ..LimitRequest::default() };
    let request = Request { engine: Some(choice), limits, ..Request::new(Profile::Chain, NBODY) };
    meter.sample(|| {
        std::thread::sleep(WARM_UP);
        timed("5", || started.engine.run_blocking(request.clone()))
    })
}

/// An engine whose first V8 worker is on its way up.
fn with_v8() -> anyhow::Result<EngineWithRuntime> {
    let started = EngineWithRuntime::start(Engine::builder())?;
    let first = Request { engine: Some(EngineChoice::V8), ..Request::new(Profile::Chain, "return 1") };
    if let Some(failure) = started.engine.run_blocking(first).failure() {
        anyhow::bail!("{failure}");
    }
    Ok(started)
}
