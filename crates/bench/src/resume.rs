//! How long a decision takes to reach the call that waits for it, in a run that has made 200 calls.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use toolgate_bridge::{Answer, Bridge, Provider, ProviderFuture, RequestContext};
use toolgate_catalog::{BackendState, Catalog, CatalogHandle, Listing, Tool};
use toolgate_engine::{Engine, EngineWithRuntime};
use toolgate_journal::durable::Journal;
use toolgate_journal::seal::Sealer;
use toolgate_journal::store::sqlite::SqliteStore;
use toolgate_policy::{Action, Policy, Rule};
use toolgate_run::durable::{CallDecision, DecisionKind, DurableRuns, DurableSettings, LocalCaller, RunStatus};
use toolgate_run::{FixedEnvironment, RunRequest, Runner};
use toolgate_wire::Profile;

use super::meter::{Meter, Samples, micros};

/// Reads two hundred records, then pays, which a person is asked about.
const PROGRAM: &str = "let sum = 0; for (let id = 0; id < 200; id++) sum += (await bank.read({ id })).amount; \
     return (await bank.pay({ amount: sum })).paid";

/// Tells when the payment is made.
struct Bank(mpsc::UnboundedSender<Instant>);

impl Provider for Bank {
    fn call(&self, tool: String, arguments: Map<String, Value>, _: RequestContext) -> ProviderFuture {
        let answer = if tool == "pay" {
            // Sending fails only after the benchmark has ended.
            let _ = self.0.send(Instant::now());
            json!({ "paid": arguments["amount"] })
        } else {
            json!({ "id": arguments["id"], "amount": 2, "note": "x".repeat(200) })
        };
        Box::pin(std::future::ready(Ok(Answer::Value(answer))))
    }
}

/// A decision that continues a worker which waits.
pub(super) fn parked(meter: &Meter) -> anyhow::Result<Samples> {
    resumed(meter, DurableSettings::default())
}

/// A decision that repeats the record of the run.
pub(super) fn replayed(meter: &Meter) -> anyhow::Result<Samples> {
    resumed(meter, DurableSettings { park_time: Duration::ZERO, ..DurableSettings::default() })
}

fn resumed(meter: &Meter, settings: DurableSettings) -> anyhow::Result<Samples> {
    let started = EngineWithRuntime::start(Engine::builder())?;
    let folder = Folder::new()?;
    let (paid, mut payments) = mpsc::unbounded_channel();
    let runs = started.wait(async { durable_runs(&folder, &started, Bank(paid), settings) })?;
    let samples = meter.sample(|| started.wait(one(&runs, &mut payments)));
    started.wait(runs.stop(Duration::from_secs(10)));
    samples
}

async fn one(runs: &DurableRuns, payments: &mut mpsc::UnboundedReceiver<Instant>) -> anyhow::Result<f64> {
    let run = runs.begin(RunRequest::new(Profile::Chain, PROGRAM), None, None).await?.run;
    let call_id = loop {
        let view = runs.wait(&run, None, Duration::from_secs(10)).await?;
        ensure!(view.summary.status != RunStatus::Done, "it ended without a question: {:?}", view.report);
        if let (RunStatus::Paused, Some(question)) = (view.summary.status, view.pending.first()) {
            break question.call_id;
        }
    };
    let (by, at) = (String::new(), 0);
    let decision = CallDecision {
        call_id,
        decision: DecisionKind::Approve,
        arguments: None,
        reason: None,
        remember: None,
        by,
        at,
    };
    let since = Instant::now();
    runs.decide(&run, None, vec![decision]).await?;
    let reached = payments.recv().await.context("no payment")?;
    while runs.wait(&run, None, Duration::from_secs(10)).await?.summary.status != RunStatus::Done {}
    Ok(micros(reached.duration_since(since)))
}

fn durable_runs(
    folder: &Folder,
    started: &EngineWithRuntime,
    bank: Bank,
    settings: DurableSettings,
) -> anyhow::Result<DurableRuns> {
    let read = json!({ "name": "read", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } });
    let pay = json!({ "name": "pay", "inputSchema": { "type": "object" } });
    let tools = [read, pay].into_iter().filter_map(Tool::from_raw).collect();
    let listing = Listing { name: "bank".to_owned(), state: BackendState::Ready, tools, tags: Vec::new() };
    let bridge = Bridge::new(CatalogHandle::new(Catalog::new(vec![listing])));
    bridge.provide("bank", Arc::new(bank));
    bridge.set_policy(Policy::new(vec![Rule::new("policy[0]", "bank.pay", Action::Ask)], Action::Allow));
    let runner = Runner::new(started.engine.clone(), Arc::new(bridge), Arc::new(FixedEnvironment::default()));
    let store = SqliteStore::open(&folder.0.join("runs.db"))?;
    let journal = Journal::new(Arc::new(store), Sealer::new([1; 32])?, "bench".into(), Duration::from_secs(60));
    Ok(DurableRuns::start(journal.with_max_open(u64::MAX), runner, Arc::new(LocalCaller), settings))
}

/// A folder that goes away with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("toolgate-bench-resume-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
