//! Waiting for backends of which nothing is known yet.
//!
//! With a cache nothing here takes time. Without one, a request right after the start would be answered
//! with "there are no tools", and an agent believes what it is told.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Shared;
use super::names::begins_with;
use toolgate_catalog::BackendState;
use toolgate_mcp::server::ToolCall;
use toolgate_wire::Access;

/// How long a request about tools waits for the first start of backends.
const FIRST_START_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until something is known of every backend that the caller may use.
pub(super) async fn for_all(shared: &Shared, access: &Access, cancel: &CancellationToken) {
    let settled = shared.gateway.settled(FIRST_START_TIMEOUT, |name| access.permits(name));
    tokio::select! {
        () = cancel.cancelled() => {}
        () = settled => {}
    }
}

/// Waits for the backend that a name in direct mode begins with, if its tools are not known. Why it is not up, if it does not come up.
pub(super) async fn for_owner(shared: &Shared, call: &ToolCall) -> Option<String> {
    let access = &call.scope.caller.backends;
    let backends = shared.gateway.backends();
    let mut owners = backends.iter().filter(|it| access.permits(it.name()) && begins_with(&call.name, it.name()));
    let owner = owners.find(|it| it.tools().is_empty() && !it.state().is_ready())?;
    tokio::select! {
        () = call.cancel.cancelled() => None,
        up = shared.gateway.come_up(owner) => up.err().map(|error| error.message),
    }
}

/// What to add to an answer about tools that may not be all there are.
pub(super) fn note(shared: &Shared, access: &Access) -> Option<String> {
    let catalog = shared.gateway.catalog();
    let permitted = catalog.backends().iter().filter(|backend| access.permits(backend.name()));
    let mut starting = Vec::new();
    let mut failed = Vec::new();
    for backend in permitted {
        match backend.state() {
            BackendState::Starting => starting.push(backend.name()),
            BackendState::Failed { .. } | BackendState::NeedsLogin { .. } if backend.tools().is_empty() => {
                failed.push(backend.name())
            }
            _ => {}
        }
    }
    let mut notes = Vec::new();
    if !starting.is_empty() {
        notes.push(format!(
            "still starting, so their tools are missing here: {}; ask again shortly",
            starting.join(", ")
        ));
    }
    if !failed.is_empty() {
        notes.push(format!("not running: {}; the resource toolgate://backends says why", failed.join(", ")));
    }
    (!notes.is_empty()).then(|| notes.join(". "))
}
