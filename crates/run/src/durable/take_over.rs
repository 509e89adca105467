//! Finds runs that are due, and forgets old ones.
//!
//! A run is due when its owner shows no sign of life, was decided while it was paused, is to be aborted, or waits for its
//! turn. All processes with the same store look; the store gives each run to one of them.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Inner;

/// How often old runs are looked for.
const PRUNE_INTERVAL: Duration = Duration::from_secs(600);

/// Takes over runs until `stop` is cancelled.
pub(super) async fn watch(runs: Weak<Inner>, stop: CancellationToken) {
    let mut pruned: Option<Instant> = None;
    let mut is_reachable = true;
    loop {
        let Some(inner) = runs.upgrade() else { return };
        let found = take_all(&inner, &stop).await;
        // A store that is gone is reported once, not with every look.
        match found {
            Err(error) if is_reachable => {
                is_reachable = false;
                tracing::warn!(%error, "runs cannot be taken over");
            }
            Err(_) => {}
            Ok(()) => is_reachable = true,
        }
        if pruned.is_none_or(|last| last.elapsed() >= PRUNE_INTERVAL) {
            pruned = Some(Instant::now());
            if let Err(error) = inner.journal.store().prune(inner.settings.retention).await {
                tracing::warn!(%error, "old runs cannot be forgotten");
            }
        }
        let interval = inner.settings.look_interval;
        let waiting = async {
            tokio::select! {
                () = inner.due.notified() => {}
                () = tokio::time::sleep(interval) => {}
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = waiting => {}
        }
    }
}

/// Takes what is due, as long as there is room.
async fn take_all(inner: &Arc<Inner>, stop: &CancellationToken) -> Result<(), toolgate_journal::store::StoreError> {
    while let Some(busy) = inner.busy_callers() {
        if stop.is_cancelled() {
            return Ok(());
        }
        let Some(lease) = inner.journal.claim(None, busy).await? else { return Ok(()) };
        // A worker that waits with the run goes on at once; otherwise the record is repeated.
        let Some(lease) = inner.parked.claimed(lease) else { continue };
        let run = lease.run.clone();
        match inner.journal.own(lease).await {
            Ok(taken) => inner.resume(taken),
            // It is claimed again when it was not held for some leases; others need not wait for it.
            Err(error) => tracing::warn!(run, %error, "a run cannot go on here"),
        }
    }
    Ok(())
}
