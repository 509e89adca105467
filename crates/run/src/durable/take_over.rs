//! Finds runs that are due, and forgets old ones.
//!
//! A run is due when its owner shows no sign of life, was decided while it was paused, is to be aborted, or waits for its
//! turn. All processes with the same store look; the store gives each run to one of them.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolgate_journal::store::{Lease, StoreError};

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
async fn take_all(inner: &Arc<Inner>, stop: &CancellationToken) -> Result<(), StoreError> {
    while let Some(busy) = inner.busy_callers() {
        if stop.is_cancelled() {
            return Ok(());
        }
        let Some(lease) = inner.journal.claim(None, busy).await? else { return Ok(()) };
        inner.take(lease).await;
    }
    Ok(())
}

impl Inner {
    /// Goes on with a run that is decided. One that waits here with its worker is claimed at once, without a look for what is due
    /// in the store; the store still gives it to one process alone.
    pub(super) fn wake(self: &Arc<Self>, run: &str, caller: &str) {
        if !self.parked.has(run) || !self.has_room_for(caller) || self.stop.is_cancelled() {
            return self.due.notify_one();
        }
        let (inner, run) = (self.clone(), run.to_owned());
        // A task of its own: the request that decides may be dropped before the claim is answered.
        self.tasks.spawn(async move {
            match inner.journal.claim(Some(&run), Vec::new()).await {
                Ok(Some(lease)) => inner.take(lease).await,
                // It is taken already, or is found when the store can be reached again.
                Ok(None) | Err(_) => inner.due.notify_one(),
            }
        });
    }

    /// Goes on with a run that was claimed: with the worker that waits with it, or from its record.
    async fn take(self: &Arc<Self>, lease: Lease) {
        let Some(lease) = self.parked.claimed(lease) else { return };
        let run = lease.run.clone();
        match self.journal.own(lease).await {
            Ok(taken) => self.resume(taken),
            // It is claimed again when it was not held for some leases; others need not wait for it.
            Err(error) => tracing::warn!(run, %error, "a run cannot go on here"),
        }
    }
}
