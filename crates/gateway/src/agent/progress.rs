//! A line for each tool call of a chain, as it starts and as it ends, and what long calls say meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use toolgate_engine::Observer;
use toolgate_engine::host::Target;
use toolgate_wire::{CallRecord, CallState};

use super::uri::shown;
use toolgate_mcp::Progress;

/// Messages of nested calls that may wait.
const NESTED: usize = 64;

/// One client's view of one run. The numbers only ever grow, whatever the calls inside count.
pub(super) struct Steps {
    client: mpsc::Sender<Progress>,
    step: AtomicU64,
}

impl Steps {
    pub(super) fn new(client: mpsc::Sender<Progress>) -> Arc<Self> {
        Arc::new(Steps { client, step: AtomicU64::new(0) })
    }

    /// Where the calls inside report to.
    pub(super) fn nested(self: &Arc<Self>) -> mpsc::Sender<Progress> {
        let (sender, mut receiver) = mpsc::channel::<Progress>(NESTED);
        let steps = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(progress) = receiver.recv().await {
                steps.tell(in_words(&progress));
            }
        });
        sender
    }

    /// A client that does not keep up loses lines; the run must not wait for it.
    fn tell(&self, message: String) {
        let step = self.step.fetch_add(1, Ordering::Relaxed) + 1;
        let _ = self.client.try_send(Progress { progress: step as f64, total: None, message: Some(message) });
    }
}

fn in_words(progress: &Progress) -> String {
    let far = match progress.total {
        Some(total) => format!("{}/{total}", progress.progress),
        None => progress.progress.to_string(),
    };
    match &progress.message {
        Some(message) => format!("{far} {}", shown(message)),
        None => far,
    }
}

impl Observer for Steps {
    fn call_began(&self, target: &Target) {
        self.tell(format!("{} started", shown(&target.to_string())));
    }

    fn call_ended(&self, record: &CallRecord) {
        let name = shown(&record.name());
        let end = match (record.state, &record.error) {
            (CallState::Applied, _) => "finished".to_owned(),
            (_, Some(error)) => format!("failed: {}", shown(error)),
            (_, None) => "failed".to_owned(),
        };
        self.tell(format!("{name} {end} ({:.0} ms)", record.ms));
    }
}
