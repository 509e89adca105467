//! Runs a second with eight under way all the time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use toolgate_engine::{Engine, Request};
use toolgate_wire::Profile;

use super::hosts::Records;
use super::latency::{CALLER, CALLS, CALLS_RESULT, check_rewinding, reusing_engine};
use super::meter::{Meter, Samples, must_return};
use toolgate_engine::EngineWithRuntime;

const THREADS: u32 = 8;
/// Each gives one rate, so that the row shows how steady it is.
const BATCHES: u32 = 10;

pub(super) fn measure(meter: &Meter) -> anyhow::Result<Samples> {
    let started = EngineWithRuntime::start(Engine::builder())?;
    rates(meter, &started.engine, &request())
}

/// The same with workers that are put back after each run.
pub(super) fn rewound(meter: &Meter) -> anyhow::Result<Samples> {
    let started = EngineWithRuntime::start(reusing_engine())?;
    check_rewinding(&started.engine, &request())?;
    rates(meter, &started.engine, &request())
}

fn request() -> Request {
    Request { host: Records::new(), caller: Some(CALLER.into()), ..Request::new(Profile::Chain, CALLS) }
}

/// Runs a second, batch by batch.
fn rates(meter: &Meter, engine: &Engine, request: &Request) -> anyhow::Result<Samples> {
    let batch = meter.runs.div_ceil(BATCHES);
    let batches = meter.runs.div_ceil(batch);
    let values = (0..batches)
        .map(|_| {
            let rate = rate(engine, request, batch)?;
            meter.progress.inc(batch.into());
            Ok(rate)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Samples { n: (batch * batches) as usize, values })
}

/// Runs a second over one batch.
fn rate(engine: &Engine, request: &Request, batch: u32) -> anyhow::Result<f64> {
    let taken = AtomicU32::new(0);
    let expected = CALLS_RESULT.to_string();
    let serve = || {
        while taken.fetch_add(1, Ordering::Relaxed) < batch {
            must_return(&engine.run_blocking(request.clone()), &expected)?;
        }
        anyhow::Ok(())
    };
    let since = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(serve)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a run was lost"))?)
    })?;
    Ok(f64::from(batch) / since.elapsed().as_secs_f64())
}
