//! A call to a backend that may not be up yet.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use toolgate_backends::Backend;
use toolgate_bridge::{McpProvider, Provider, ProviderFuture, RequestContext, not_ready};

/// A run that waits for a backend ends this much before its own deadline, so that it can say what it waited for.
const DEADLINE_MARGIN: Duration = Duration::from_millis(500);

/// Waits for the backend as long as the call may, then calls it.
pub(super) struct WaitUntilReady {
    backend: Backend,
    inner: std::sync::Arc<McpProvider>,
    timeout: Duration,
}

impl WaitUntilReady {
    /// Calls get this long, unless they ask for another time.
    pub(super) fn new(backend: Backend, timeout: Duration) -> Self {
        WaitUntilReady { inner: std::sync::Arc::new(McpProvider::new(backend.clone())), backend, timeout }
    }
}

impl Provider for WaitUntilReady {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        let timeout = asked.timeout.unwrap_or(self.timeout);
        let asked = RequestContext { timeout: Some(timeout), ..asked };
        if self.backend.state().is_ready() {
            return self.inner.call(tool, arguments, asked);
        }
        self.retry();
        let (backend, inner) = (self.backend.clone(), std::sync::Arc::clone(&self.inner));
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

    fn has_more_tools(&self) -> bool {
        self.inner.has_more_tools()
    }

    fn retry(&self) {
        self.backend.retry_failed_start();
    }
}

/// How long to wait: the call's own time, but not to the very end of the run around it.
fn wait_time(timeout: Duration, deadline: Option<Instant>) -> Duration {
    let Some(deadline) = deadline else { return timeout };
    let left = deadline.saturating_duration_since(Instant::now());
    timeout.min(left.saturating_sub(DEADLINE_MARGIN.min(left / 4)))
}
