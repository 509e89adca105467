//! Private memory of sandboxes that are all alive at once.
//!
//! Each program stands still at a host call that is answered only after every process was looked at.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;
use toolgate_engine::host::HeldBytes;
use toolgate_engine::wire::CallId;
use toolgate_engine::{Engine, Host, HostCall, HostError, HostFuture, Request};
use toolgate_wire::Profile;

use super::meter::{Meter, Samples, must_return};
use toolgate_engine::EngineWithRuntime;
use toolgate_engine::inspect::{children, private_memory};

const PROGRAM: &str = "await api.hold(); return 1";
/// How long all programs may take to arrive at their call.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(20);

/// Answers `hold` when it is told to, and says when one arrived.
struct Gate {
    arrived: Sender<()>,
    open: watch::Receiver<bool>,
}

impl Host for Gate {
    fn call(&self, _: HostCall) -> HostFuture {
        // The receiver is gone when the measurement was given up.
        let _ = self.arrived.send(());
        let mut open = self.open.clone();
        Box::pin(async move {
            open.wait_for(|open| *open).await.map_err(|_| HostError::new("GONE", "the measurement was given up"))?;
            Ok("null".into())
        })
    }

    fn functions(&self) -> Vec<String> {
        vec!["hold".into()]
    }

    fn take_held(&self, _: CallId) -> Option<HeldBytes> {
        None
    }
}

pub(super) fn measure(meter: &Meter) -> anyhow::Result<Samples> {
    let sandboxes = meter.runs as usize;
    let started = EngineWithRuntime::start(Engine::builder().workers_ahead(0).max_concurrent_runs(sandboxes))?;
    // The first run starts the zygote, so that the only new children afterwards are the workers.
    must_return(&started.engine.run_blocking(Request::new(Profile::Chain, "return 1")), "1")?;
    let before = children();

    let (arrived, arrivals) = channel();
    let (open, opened) = watch::channel(false);
    let host: Arc<dyn Host> = Arc::new(Gate { arrived, open: opened });
    std::thread::scope(|scope| {
        let hold = || {
            let request = Request { host: host.clone(), ..Request::new(Profile::Chain, PROGRAM) };
            must_return(&started.engine.run_blocking(request), "1")
        };
        let held: Vec<_> = (0..sandboxes).map(|_| scope.spawn(hold)).collect();
        let all_here = (0..sandboxes).try_for_each(|_| {
            meter.progress.inc(1);
            arrivals.recv_timeout(MEASURE_TIMEOUT).context("not every sandbox came to its call in time")
        });
        let measured = all_here.and_then(|()| look(&before, sandboxes));
        // Whatever was found, let everybody go: the scope waits for its threads.
        let _ = open.send(true);
        for thread in held {
            thread.join().map_err(|_| anyhow::anyhow!("a run was lost"))??;
        }
        measured
    })
}

/// The private memory of every child that was not there before.
fn look(before: &BTreeSet<u32>, expected: usize) -> anyhow::Result<Samples> {
    let workers: Vec<u32> = children().difference(before).copied().collect();
    anyhow::ensure!(workers.len() == expected, "{} workers instead of {expected}", workers.len());
    let bytes = workers.into_iter().map(|pid| private_memory(pid).map(|bytes| bytes as f64));
    let values = bytes.collect::<Result<Vec<_>, _>>().context("looking into a sealed worker takes root")?;
    Ok(values.into())
}
