//! What a backend offers besides tools: resources, templates of resources, prompts.
//!
//! Lists are kept for as long as they are right; what is asked for by name never is. It takes its turn among the calls of
//! tools, under the same limits.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::backend::{Backend, answered};
use super::call::CallError;
use toolgate_mcp::client::{ClientRequest, ItemList, ListKind, TooMany, Watching};
use toolgate_mcp::result::ToolResult;
use toolgate_mcp::{InteractiveClient, TraceContext};
use toolgate_wire::ByteBudget;

/// Why changes of a resource will not be told of.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WatchError {
    /// The backend tells of none.
    #[error("{0} does not tell of changes of its resources")]
    NotSupported(Arc<str>),
    /// Too many of its resources are watched already.
    #[error("too many resources of {0} are watched already")]
    TooMany(Arc<str>),
    /// It was asked and did not agree.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Backend {
    /// Wants to hear of changes of a resource until the answer is dropped; they come as
    /// [`Updated`](super::BackendChange::Updated).
    pub async fn watch_resource(&self, uri: &str) -> Result<Watching, WatchError> {
        let within = self.shared.spec.timeout;
        self.ready(within).await?;
        let session = self.shared.session().ok_or_else(|| self.not_ready())?;
        if !session.reports_updates() {
            return Err(WatchError::NotSupported(Arc::clone(&self.shared.name)));
        }
        let crowded = |TooMany| WatchError::TooMany(Arc::clone(&self.shared.name));
        let watching = self.shared.watchlist.add(uri).map_err(crowded)?;
        let settled = timeout(within, watching.settled()).await;
        settled.map_err(|_| CallError::Timeout { after: within })?.map_err(|error| self.explain(error))?;
        Ok(watching)
    }

    /// Counts everything that is watched as changed: news of it may have been lost.
    pub fn mark_watched_stale(&self) {
        self.shared.watchlist.mark_all_stale();
    }

    /// Whether it is up and says that it has such things.
    pub fn has(&self, kind: ListKind) -> bool {
        self.shared.session().is_some_and(|session| session.has(kind))
    }

    /// What it lists now; nothing if it is not up, has none, or does not answer in time.
    pub async fn list(&self, kind: ListKind, within: Duration) -> Arc<ItemList> {
        let Some(session) = self.shared.session() else { return Arc::default() };
        let list = self.attempt(session, (), |session, ()| async move { session.list(kind, within).await });
        match timeout(within, list).await {
            Ok(Ok(list)) => list,
            Ok(Err(error)) => {
                tracing::warn!(backend = self.name(), %error, "its {} can't be listed", kind.key());
                Arc::default()
            }
            Err(_) => Arc::default(),
        }
    }

    /// Asks it for something; gives the result as it came, counted in `budget`; it is told of the trace in `_meta`. Dropping the future cancels the request.
    pub async fn ask(
        &self,
        request: ClientRequest,
        client: Option<&InteractiveClient>,
        caller: u64,
        budget: ByteBudget,
        trace: &TraceContext,
    ) -> Result<ToolResult, CallError> {
        let within = self.shared.spec.timeout;
        self.ready(within).await?;
        let _permit = self.turn(caller).await?;
        // It may have been lost while the request waited for its turn.
        self.ready(within).await?;
        let session = self.shared.session().ok_or_else(|| self.not_ready())?;
        let ask = self.attempt(session, request, |session, request| {
            let budget = budget.clone();
            async move { session.ask(request, client, budget, trace).await }
        });
        let result = timeout(within, ask).await.map_err(|_| CallError::Timeout { after: within })?;
        answered(result.map_err(|error| self.explain(error))?, client.is_some())
    }
}
