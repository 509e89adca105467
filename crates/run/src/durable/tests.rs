//! What a process does with the places of its runs.

use toolgate_bridge::Bridge;
use toolgate_catalog::{Catalog, CatalogHandle};
use toolgate_engine::{Engine, IsolationMode};
use toolgate_journal::seal::Sealer;
use toolgate_journal::store::memory::MemoryStore;
use toolgate_wire::Profile;

use super::*;
use crate::FixedEnvironment;

/// Durable runs in memory. A lease lasts longer than a test.
fn in_memory() -> DurableRuns {
    let engine = Engine::builder().isolation(IsolationMode::Thread).build().expect("an engine");
    let bridge = Arc::new(Bridge::new(CatalogHandle::new(Catalog::default())));
    let runner = Runner::new(engine, bridge, Arc::new(FixedEnvironment::default()));
    let sealer = Sealer::new([1; 32]).expect("a key");
    let journal = Journal::new(Arc::new(MemoryStore::new()), sealer, "one".into(), Duration::from_secs(3600));
    DurableRuns::start(journal, runner, Arc::new(LocalCaller), DurableSettings::default())
}

/// A run in the store that nothing executes.
async fn stored(runs: &DurableRuns) -> Arc<DurableRun> {
    let (profile, code) = (Profile::Chain, "return 1".to_owned());
    let facts = RunFacts { run: "stored".into(), profile, code, caller: String::new(), request: None };
    match runs.journal().begin(facts, None).await {
        Ok(Began::New(run)) => run,
        _ => panic!("it is new"),
    }
}

async fn ended(runs: &DurableRuns, run: &str) {
    while runs.wait(run, None, Duration::from_secs(1)).await.expect("a view").summary.status != RunStatus::Done {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_task_panics_gives_its_place_up() {
    let runs = in_memory();
    let run = stored(&runs).await;
    runs.0.spawn(&run, String::new(), async { panic!("for once") });
    while runs.0.live.lock().contains_key("stored") {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_waits_for_its_turn() {
    let runs = in_memory();
    let run = runs.begin(RunRequest::new(Profile::Chain, "return 1"), None, None).await.expect("begun").run;
    ended(&runs, &run).await;
    let busy = stored(&runs).await;
    for number in 0..MAX_LIVE_OF_CALLER {
        let (caller, run, task) = (String::new(), busy.clone(), Arc::new(()));
        let live = LiveRun { caller, run, approver: None, is_parked: false, task };
        runs.0.live.lock().insert(format!("busy {number}"), live);
    }
    let forked = runs.fork(&run, None, 0).await.expect("forked").run;
    assert!(!runs.0.live.lock().contains_key(&forked), "it would be one too many");
    runs.0.live.lock().clear();
    runs.0.due.notify_one();
    ended(&runs, &forked).await;
}
