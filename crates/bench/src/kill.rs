//! How long after its deadline a program that does not end is gone.

use std::time::{Duration, Instant};

use toolgate_engine::{Engine, Request};
use toolgate_wire::{Code, LimitRequest, Profile};

use super::meter::{Meter, Samples, micros};
use toolgate_engine::EngineWithRuntime;

const DEADLINE: Duration = Duration::from_millis(100);

/// A loop that the interpreter can be stopped in.
pub(super) fn polite(meter: &Meter) -> anyhow::Result<Samples> {
    overshoot(meter, "while(true){}")
}

/// A loop that spends its time inside single native operations.
pub(super) fn native(meter: &Meter) -> anyhow::Result<Samples> {
    overshoot(meter, "for(;;)(3n**200000n)**2n")
}

fn overshoot(meter: &Meter, code: &str) -> anyhow::Result<Samples> {
    let started = EngineWithRuntime::start(Engine::builder())?;
    let limits = LimitRequest { wall: Some(DEADLINE), ..LimitRequest::default() };
    let request = Request { limits, ..Request::new(Profile::Chain, code) };
    meter.sample(|| {
        let since = Instant::now();
        let report = started.engine.run_blocking(request.clone());
        let elapsed = since.elapsed();
        match report.failure() {
            Some(failure) if failure.code == Code::Timeout => Ok(micros(elapsed.saturating_sub(DEADLINE))),
            Some(failure) => anyhow::bail!("the loop ended otherwise: {failure}"),
            None => anyhow::bail!("the endless loop returned"),
        }
    })
}
