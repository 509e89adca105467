//! A call to a backend that may not be up yet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::is_shown;
use toolgate_backends::{Backend, BackendState};
use toolgate_bridge::{ComingUp, McpProvider, Provider, ProviderFuture, RequestContext, not_ready};
use toolgate_catalog::Catalog;
use toolgate_engine::HostError;

/// A run that waits for a backend ends this much before its own deadline, so that it can say what it waited for.
const DEADLINE_MARGIN: Duration = Duration::from_millis(500);

/// Waits for the backend as long as the call may, then calls it.
pub(super) struct WaitUntilReady {
    backend: Backend,
    inner: Arc<McpProvider>,
    timeout: Duration,
    catalog: watch::Receiver<Catalog>,
}

impl WaitUntilReady {
    /// Calls get this long, unless they ask for another time. The catalog is the one that shows the backend's tools.
    pub(super) fn new(backend: Backend, timeout: Duration, catalog: watch::Receiver<Catalog>) -> Self {
        WaitUntilReady { inner: Arc::new(McpProvider::new(backend.clone())), backend, timeout, catalog }
    }
}

impl Provider for WaitUntilReady {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        let timeout = asked.timeout.unwrap_or(self.timeout);
        let asked = RequestContext { timeout: Some(timeout), ..asked };
        if self.backend.state().is_ready() {
            return self.inner.call(tool, arguments, asked);
        }
        self.backend.retry_failed_start();
        let (backend, inner) = (self.backend.clone(), Arc::clone(&self.inner));
        Box::pin(async move {
            let wait_time = wait_time(timeout, asked.deadline);
            let up = tokio::select! {
                () = asked.cancel.cancelled() => true,
                up = backend.ready(wait_time) => up.is_ok(),
            };
            if !up {
                return Err(not_ready(backend.name(), Some(&tool), &backend.state().in_catalog(true)));
            }
            inner.call(tool, arguments, asked).await
        })
    }

    fn come_up(&self, asked: &RequestContext) -> ComingUp {
        let (backend, catalog) = (self.backend.clone(), self.catalog.clone());
        let within = wait_time(start_time(&backend), asked.deadline);
        let cancel = asked.cancel.clone();
        Box::pin(async move {
            tokio::select! {
                // The caller finds out.
                () = cancel.cancelled() => Ok(()),
                up = come_up(&backend, catalog, within) => up,
            }
        })
    }

    fn has_more_tools(&self) -> bool {
        self.inner.has_more_tools()
    }
}

/// Waits until a backend is up and the catalog shows its tools, at most for `within`. Starts it again if its last start failed some
/// seconds ago. An error says why it is not up.
pub(super) async fn come_up(
    backend: &Backend,
    mut catalog: watch::Receiver<Catalog>,
    within: Duration,
) -> Result<(), HostError> {
    let last_failure = match backend.state() {
        BackendState::Failed { reason, .. } => Some(reason),
        _ => None,
    };
    backend.retry_failed_start();
    let is_up = async {
        let up = backend.ready(within).await.is_ok();
        if up {
            // The catalog follows the backends by events, which may be on their way.
            let _ = catalog.wait_for(|catalog| is_shown(catalog, backend)).await;
        }
        up
    };
    if timeout(within, is_up).await.unwrap_or(false) {
        return Ok(());
    }
    let state = backend.state();
    let mut error = not_ready(backend.name(), None, &state.in_catalog(false));
    if let Some(reason) = last_failure.filter(|_| state.may_become_ready()) {
        error.message += &format!(" Its last start failed: {reason}");
        error.data.iter_mut().for_each(|data| data["reason"] = json!(reason));
    }
    Err(error)
}

/// How long a start may take, until its failure is known.
pub(super) fn start_time(backend: &Backend) -> Duration {
    backend.spec().start_timeout.saturating_add(DEADLINE_MARGIN)
}

/// How long to wait: the call's own time, but not to the very end of the run around it.
fn wait_time(timeout: Duration, deadline: Option<Instant>) -> Duration {
    let Some(deadline) = deadline else { return timeout };
    let left = deadline.saturating_duration_since(Instant::now());
    timeout.min(left.saturating_sub(DEADLINE_MARGIN.min(left / 4)))
}
