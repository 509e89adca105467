//! What durability costs: runs whose calls are recorded into a store on disk.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use toolgate_engine::host::{HeldBytes, Target};
use toolgate_engine::transcript::Recorder;
use toolgate_engine::wire::CallId;
use toolgate_engine::{Engine, EngineWithRuntime, Host, HostCall, HostFuture, Request};
use toolgate_journal::durable::{Began, DurableRun, Journal};
use toolgate_journal::recording::RunFacts;
use toolgate_journal::seal::Sealer;
use toolgate_journal::store::sqlite::SqliteStore;
use toolgate_wire::Profile;

use super::hosts::Records;
use super::latency::{CALLS, CALLS_RESULT};
use super::meter::{Meter, Samples, timed};

/// One call that may have an effect.
const WRITE: &str = "return (await api.record(1)).text.length";

/// [`Records`], whose calls are known to change nothing.
struct Reading(Arc<Records>);

impl Host for Reading {
    fn call(&self, call: HostCall) -> HostFuture {
        self.0.call(call)
    }

    fn functions(&self) -> Vec<String> {
        self.0.functions()
    }

    fn is_read_only(&self, _: &Target) -> bool {
        true
    }

    fn take_held(&self, id: CallId) -> Option<HeldBytes> {
        self.0.take_held(id)
    }
}

/// A store in a folder that goes away with it.
struct Store {
    folder: PathBuf,
    journal: Journal,
}

impl Store {
    fn open() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("toolgate-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let store = SqliteStore::open(&folder.join("runs.db"))?;
        let journal = Journal::new(Arc::new(store), Sealer::new([1; 32])?, "bench".into(), Duration::from_secs(3600));
        Ok(Store { folder, journal: journal.with_max_open(u64::MAX) })
    }

    async fn begin(&self, number: u64, code: &str) -> anyhow::Result<Arc<DurableRun>> {
        let facts = RunFacts {
            run: format!("run{number}"),
            profile: Profile::Chain,
            code: code.to_owned(),
            caller: String::new(),
            request: None,
        };
        match self.journal.begin(facts, None).await? {
            Began::New(run) => Ok(run),
            Began::Existing { run } => anyhow::bail!("{run} was there"),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Twenty calls that only read, recorded. The run is in the store before and gets its report after what is timed.
pub(super) fn calls(meter: &Meter) -> anyhow::Result<Samples> {
    let mut calls = reading_calls()?;
    meter.sample(|| calls.run(true))
}

/// One call with an effect: its intent is on disk before it is made, and its reply before the program gets it.
pub(super) fn write(meter: &Meter) -> anyhow::Result<Samples> {
    let mut write = StoredRuns::start(WRITE, Records::new(), Records::TEXT)?;
    meter.sample(|| write.run(true))
}

/// [`calls`] in percent of the same runs without a recorder.
pub(super) fn cost(meter: &Meter) -> anyhow::Result<Samples> {
    let calls = RefCell::new(reading_calls()?);
    meter.compare(|| calls.borrow_mut().run(true), || calls.borrow_mut().run(false))
}

fn reading_calls() -> anyhow::Result<StoredRuns> {
    StoredRuns::start(CALLS, Arc::new(Reading(Records::new())), CALLS_RESULT)
}

/// Runs of one program, each of which is in a store from before it begins until after it has ended.
struct StoredRuns {
    store: Store,
    started: EngineWithRuntime,
    code: &'static str,
    host: Arc<dyn Host>,
    expected: String,
    number: u64,
    /// Begun before the pause that precedes a sample: begin and end are commits that are synced, and what follows one at once is
    /// slower.
    next: Arc<DurableRun>,
}

impl StoredRuns {
    fn start(code: &'static str, host: Arc<dyn Host>, expected: usize) -> anyhow::Result<Self> {
        let (store, started) = (Store::open()?, EngineWithRuntime::start(Engine::builder())?);
        let next = started.wait(store.begin(0, code))?;
        Ok(StoredRuns { store, started, code, host, expected: expected.to_string(), number: 0, next })
    }

    /// Microseconds of one run, with its messages recorded or not.
    fn run(&mut self, is_recorded: bool) -> anyhow::Result<f64> {
        let request = Request { host: self.host.clone(), ..Request::new(Profile::Chain, self.code) };
        let recorder = is_recorded.then(|| self.next.clone() as Arc<dyn Recorder>);
        let request = Request { recorder, ..request };
        let took = timed(&self.expected, || self.started.engine.run_blocking(request))?;
        self.started.wait(self.next.finish("{}"))?;
        self.number += 1;
        self.next = self.started.wait(self.store.begin(self.number, self.code))?;
        Ok(took)
    }
}
