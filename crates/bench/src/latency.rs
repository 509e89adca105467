//! Whole runs, one at a time, from request to report.

use std::sync::Arc;

use anyhow::ensure;
use toolgate_engine::{Engine, EngineBuilder, Host, Request, Reuse};
use toolgate_wire::Profile;

use super::hosts::{ManyTools, Records};
use super::meter::{Meter, Samples, timed};
use toolgate_engine::EngineWithRuntime;

const SUM: &str = "return 1+1";

/// Twenty calls, one after another; also what `throughput` runs.
pub(super) const CALLS: &str = "\
let length = 0;
for (let i = 0; i < 20; i++) {
  const record = await api.record(i);
  length += record.text.length;
}
return length;";
/// What [`CALLS`] gives.
pub(super) const CALLS_RESULT: usize = 20 * Records::TEXT;

const PARALLEL: &str = "\
const records = await Promise.all(Array.from({ length: 100 }, (_, i) => api.record(i)));
return records.reduce((length, record) => length + record.text.length, 0);";

const NAMES: &str = "return typeof backend_7.tool_3 === 'function' ? 1+1 : 0";

pub(super) fn cold(meter: &Meter) -> anyhow::Result<Samples> {
    let request = Request::new(Profile::Chain, SUM);
    let started = EngineWithRuntime::start(Engine::builder().workers_ahead(0))?;
    meter.sample_in_a_row(|| timed("2", || started.engine.run_blocking(request.clone())))
}

pub(super) fn warm(meter: &Meter) -> anyhow::Result<Samples> {
    measure(meter, &Request::new(Profile::Chain, SUM), "2")
}

pub(super) fn calls(meter: &Meter) -> anyhow::Result<Samples> {
    with_host(meter, CALLS, Records::new(), &CALLS_RESULT.to_string())
}

/// [`warm`] with a worker that is put back after each run.
pub(super) fn rewound_warm(meter: &Meter) -> anyhow::Result<Samples> {
    measure_rewound(meter, Request::new(Profile::Chain, SUM), "2")
}

/// [`calls`] with a worker that is put back after each run.
pub(super) fn rewound_calls(meter: &Meter) -> anyhow::Result<Samples> {
    let request = Request { host: Records::new(), ..Request::new(Profile::Chain, CALLS) };
    measure_rewound(meter, request, &CALLS_RESULT.to_string())
}

/// An engine that uses workers again, for requests of [`CALLER`].
pub(super) fn reusing_engine() -> EngineBuilder {
    Engine::builder().reuse(Reuse::SameCaller)
}

/// The caller of all runs that share workers.
pub(super) const CALLER: &str = "bench";

/// Runs in a row, so that putting the worker back is part of what is measured.
fn measure_rewound(meter: &Meter, request: Request, expected: &str) -> anyhow::Result<Samples> {
    let request = Request { caller: Some(CALLER.into()), ..request };
    let started = EngineWithRuntime::start(reusing_engine())?;
    let run = || started.engine.run_blocking(request.clone());
    check_rewinding(&started.engine, &request)?;
    meter.sample_in_a_row(|| timed(expected, run))
}

/// Fails where workers cannot be put back.
pub(super) fn check_rewinding(engine: &Engine, request: &Request) -> anyhow::Result<()> {
    engine.run_blocking(request.clone());
    let again = engine.run_blocking(request.clone());
    ensure!(again.isolation.rewound, "this system does not permit a host to put its workers back");
    Ok(())
}

pub(super) fn parallel(meter: &Meter) -> anyhow::Result<Samples> {
    with_host(meter, PARALLEL, Records::new(), &(100 * Records::TEXT).to_string())
}

pub(super) fn names(meter: &Meter) -> anyhow::Result<Samples> {
    with_host(meter, NAMES, ManyTools::new(50, 20), "2")
}

/// [`names`] beside [`warm`].
pub(super) fn names_to_warm(meter: &Meter) -> anyhow::Result<Samples> {
    let started = EngineWithRuntime::start(Engine::builder())?;
    let names = Request { host: ManyTools::new(50, 20), ..Request::new(Profile::Chain, NAMES) };
    let warm = Request::new(Profile::Chain, SUM);
    let run = |request: &Request| timed("2", || started.engine.run_blocking(request.clone()));
    meter.compare(|| run(&names), || run(&warm))
}

fn with_host(meter: &Meter, code: &str, host: Arc<dyn Host>, expected: &str) -> anyhow::Result<Samples> {
    let request = Request { host, ..Request::new(Profile::Chain, code) };
    measure(meter, &request, expected)
}

fn measure(meter: &Meter, request: &Request, expected: &str) -> anyhow::Result<Samples> {
    let started = EngineWithRuntime::start(Engine::builder())?;
    meter.sample(|| {
        let request = request.clone();
        timed(expected, || started.engine.run_blocking(request))
    })
}
