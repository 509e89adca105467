//! A call to a backend that may not be up yet.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::step::shown_state;
use crate::backends::Backend;
use crate::bridge::{McpProvider, Provider, ProviderFuture, RequestContext, not_ready};

/// A run that waits for a backend ends this much before its own deadline, so that it can say what it waited for.
const FAREWELL: Duration = Duration::from_millis(500);

/// Waits for the backend as long as the call may, then calls it.
pub(super) struct Patient {
    backend: Backend,
    inner: std::sync::Arc<McpProvider>,
    timeout: Duration,
}

impl Patient {
    /// Calls get this long, unless they ask for another time.
    pub(super) fn new(backend: Backend, timeout: Duration) -> Self {
        Patient { inner: std::sync::Arc::new(McpProvider::new(backend.clone())), backend, timeout }
    }
}

impl Provider for Patient {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        let timeout = asked.timeout.unwrap_or(self.timeout);
        let asked = RequestContext { timeout: Some(timeout), ..asked };
        if self.backend.state().is_ready() {
            return self.inner.call(tool, arguments, asked);
        }
        let (backend, inner) = (self.backend.clone(), std::sync::Arc::clone(&self.inner));
        Box::pin(async move {
            let patience = patience(timeout, asked.deadline);
            let up = tokio::select! {
                () = asked.cancel.cancelled() => true,
                up = backend.ready(patience) => up.is_ok(),
            };
            if !up {
                return Err(not_ready(backend.name(), Some(&tool), &shown_state(&backend.state(), true)));
            }
            inner.call(tool, arguments, asked).await
        })
    }
}

/// How long to wait: the call's own time, but not to the very end of the run around it.
fn patience(timeout: Duration, deadline: Option<Instant>) -> Duration {
    let Some(deadline) = deadline else { return timeout };
    let left = deadline.saturating_duration_since(Instant::now());
    timeout.min(left.saturating_sub(FAREWELL.min(left / 4)))
}
