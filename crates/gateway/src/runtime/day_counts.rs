//! The calls of a day in the store of durable runs, so that a restart and other replicas do not begin to count anew.
//!
//! The store is opened with the first call that a rule with a limit a day, or with `counts.day`, is about; a gateway without such
//! rules does not open it for this. While it cannot be used, such calls are denied.

use std::sync::{Arc, Weak};

use toolgate_bridge::{CountError, CountFuture, DayCounts};
use toolgate_journal::durable::Journal;
use toolgate_run::durable::{OpenError, journal_of};

use super::Gateway;

/// Counts in the store of a gateway.
pub(super) struct StoredCounts(Weak<Gateway>);

impl StoredCounts {
    pub(super) fn of(gateway: &Arc<Gateway>) -> Self {
        StoredCounts(Arc::downgrade(gateway))
    }

    async fn journal(&self) -> Result<Journal, CountError> {
        let gateway = self.0.upgrade().ok_or_else(|| CountError("the gateway has ended".to_owned()))?;
        gateway.journal().await.map_err(|error| CountError(error.to_string()))
    }
}

impl Gateway {
    /// The store of the configuration, opened once: a change of its settings needs a restart.
    pub(super) async fn journal(&self) -> Result<Journal, OpenError> {
        let open = || async {
            let config = self.config();
            journal_of(&config.settings.runs, &config.file).await
        };
        self.journal.get_or_try_init(open).await.cloned()
    }
}

impl DayCounts for StoredCounts {
    fn read(&self, day: u64, names: Vec<String>) -> CountFuture<'_> {
        Box::pin(async move {
            let counts = self.journal().await?.counts(day, &names).await;
            counts.map_err(|error| CountError(error.to_string()))
        })
    }

    fn add(&self, day: u64, names: Vec<String>) -> CountFuture<'_> {
        Box::pin(async move {
            let before = self.journal().await?.count(day, &names).await;
            before.map_err(|error| CountError(error.to_string()))
        })
    }

    fn take_back(&self, day: u64, names: Vec<(String, u64)>) {
        let (Ok(runtime), Some(gateway)) = (tokio::runtime::Handle::try_current(), self.0.upgrade()) else { return };
        runtime.spawn(async move {
            if let Ok(journal) = gateway.journal().await
                && let Err(error) = journal.uncount(day, &names).await
            {
                // The limit is reached earlier than it should be, which is the safe side.
                tracing::warn!(%error, "calls that were not sent still count in the limits of today");
            }
        });
    }
}
