//! Durable runs as tests look at them and decide about them. Nothing waits without a limit.

use std::time::Duration;

use serde_json::Value;
use toolgate_run::durable::{CallDecision, DecisionKind, DurableRuns, RunStatus, RunView};

/// How long a run may take to come to what a test waits for, also on a machine that is busy with other tests.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval between looks at something that announces no changes.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The run once it is as the test wants it.
pub(crate) async fn until(runs: &DurableRuns, run: &str, is_so: impl Fn(&RunView) -> bool) -> RunView {
    let waiting = async {
        loop {
            let view = runs.wait(run, None, Duration::from_secs(1)).await.unwrap();
            if is_so(&view) {
                return view;
            }
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, waiting).await.expect("the run does not come to it")
}

/// The run once it has ended.
pub(crate) async fn ended(runs: &DurableRuns, run: &str) -> RunView {
    until(runs, run, is_done).await
}

/// The run once it has ended, or waits for something undecided.
pub(crate) async fn settled(runs: &DurableRuns, run: &str) -> RunView {
    let waits = |view: &RunView| view.summary.status == RunStatus::Paused && !view.pending.is_empty();
    until(runs, run, |view| is_done(view) || waits(view)).await
}

/// Waits until something holds.
pub(crate) async fn holds(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("in vain: {what}"));
}

pub(crate) fn is_done(view: &RunView) -> bool {
    view.summary.status == RunStatus::Done
}

/// The report of a run that has ended.
pub(crate) fn report(view: &RunView) -> Value {
    serde_json::from_str(view.report.as_ref().expect("an end").get()).unwrap()
}

pub(crate) fn decision(call_id: u32, decision: DecisionKind) -> CallDecision {
    let (by, at) = (String::new(), 0);
    CallDecision { call_id, decision, arguments: None, reason: None, remember: None, by, at }
}
