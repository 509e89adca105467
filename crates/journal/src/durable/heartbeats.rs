//! Prolongs the leases of the runs that this process owns, in one write for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Inner;
use super::run::DurableRun;
use crate::store::Lease;

/// How often a lease is prolonged, as a part of how long it lasts.
const HEARTBEATS_PER_LEASE: u32 = 3;
/// The shortest time between two heartbeats.
const MIN_HEARTBEAT_INTERVAL: Duration = Duration::from_millis(10);

/// The runs whose leases are prolonged.
#[derive(Default)]
pub(super) struct HeldRuns {
    runs: HashMap<String, Weak<DurableRun>>,
    is_beating: bool,
}

impl Inner {
    /// Prolongs the lease of this run from now on, until it is parked or dropped.
    pub(super) fn hold(self: &Arc<Self>, run: &Arc<DurableRun>) {
        let mut held = self.held.lock();
        held.runs.insert(run.id().to_owned(), Arc::downgrade(run));
        if !std::mem::replace(&mut held.is_beating, true) {
            tokio::spawn(heartbeats(Arc::downgrade(self)));
        }
    }

    /// The runs that are still used, with their leases. `None` if no run is used; the heartbeats stop then.
    pub(super) fn held(&self) -> Option<Vec<(Arc<DurableRun>, Lease)>> {
        let mut held = self.held.lock();
        held.runs.retain(|_, run| run.upgrade().is_some_and(|run| !run.is_parked()));
        let runs: Vec<_> = held.runs.values().filter_map(Weak::upgrade).map(|run| (run.clone(), run.lease())).collect();
        held.is_beating = !runs.is_empty();
        held.is_beating.then_some(runs)
    }

    /// The names of the runs that are still used.
    pub(super) fn held_names(&self) -> Vec<String> {
        let held = self.held.lock();
        held.runs.iter().filter(|(_, run)| run.strong_count() > 0).map(|(name, _)| name.clone()).collect()
    }

    async fn beat(&self, runs: Vec<(Arc<DurableRun>, Lease)>) {
        let names = runs.iter().map(|(run, _)| run.id().to_owned()).collect();
        // A store that is gone for a moment is asked again; the lease tells whether it was too long.
        let Ok(own) = self.store.heartbeat(&self.owner, names, self.ttl).await else { return };
        for (run, lease) in runs {
            // One that was parked meanwhile has given its lease back itself, and one that goes on has another.
            if run.is_parked() || run.lease() != lease {
                continue;
            }
            match own.iter().find(|held| held.lease == lease) {
                Some(held) if held.abort => run.aborted().cancel(),
                Some(_) => {}
                None => run.lost().cancel(),
            }
        }
    }
}

/// Prolongs leases while this process has runs.
async fn heartbeats(journal: Weak<Inner>) {
    loop {
        let Some(ttl) = journal.upgrade().map(|journal| journal.ttl) else { return };
        tokio::time::sleep((ttl / HEARTBEATS_PER_LEASE).max(MIN_HEARTBEAT_INTERVAL)).await;
        let Some(journal) = journal.upgrade() else { return };
        let Some(runs) = journal.held() else { return };
        journal.beat(runs).await;
    }
}
