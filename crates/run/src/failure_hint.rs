//! What the catalog knows about a failure, which the engine does not: the hint of a program with tools.

use std::time::Duration;

use toolgate_bridge::{self as bridge, ScopedCatalog};
use toolgate_catalog::BackendState;
use toolgate_plan::FailureFacts;
use toolgate_wire::{CallErrorCode, Code, ErrorClass, Outcome, Profile, Report, Target};

use super::Readiness;
use super::attempt::Attempt;
use super::reachable::Reachable;
use super::request::RunRequest;

/// How long a failed program waits for backends that are still starting, for a hint about their tools.
const MAX_HINT_WAIT: Duration = Duration::from_secs(10);

impl Attempt<'_> {
    /// Looks for a hint once more where a name is not defined and backends were still starting: it may be one of their tools.
    pub(super) async fn with_late_hint(&self, report: Report, planned: ScopedCatalog<'_>) -> Report {
        let is_unknown_name = report
            .failure()
            .is_some_and(|failure| failure.code == Code::Runtime && failure.class == Some(ErrorClass::Reference));
        // Those that are up by now were not when the program was planned.
        let starting = planned.backends().filter(|backend| *backend.state() == BackendState::Starting);
        let waiting = starting.map(|backend| backend.name().to_owned()).collect::<Vec<_>>().join(" ");
        if !is_unknown_name || waiting.is_empty() {
            return report;
        }
        let RunRequest { text, caller, cancel, .. } = self.request;
        let within = MAX_HINT_WAIT.min(self.limits.wall.saturating_sub(self.since.elapsed()));
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.runner.environment.wait_for_named(&waiting, caller, Readiness::Known, within) => {}
        }
        let catalog = self.runner.bridge.catalog();
        with_hint(report, text, self.reachable(&catalog))
    }
}

/// Adds what the catalog knows about a failure, which the engine does not.
pub(super) fn with_hint(mut report: Report, code: &str, tools: Reachable<'_>) -> Report {
    let unready = unready_backend(&report, tools.view);
    if let Outcome::Failed(failure) = &mut report.outcome
        && failure.code == Code::Timeout
        && failure.hint.is_none()
    {
        failure.hint = toolgate_plan::hint_for_timeout(code, &tools);
    }
    if let Outcome::Failed(failure) = &mut report.outcome
        && failure.code == Code::Runtime
    {
        let facts =
            FailureFacts { source: code, class: failure.class, position: failure.position, profile: Profile::Chain };
        if let Some(hint) = unready.or_else(|| toolgate_plan::hint_for(&facts, &tools)) {
            failure.hint = Some(hint);
        }
    }
    report
}

/// What to say of the backend of the last call, if that was not sent because the backend is not up.
fn unready_backend(report: &Report, view: ScopedCatalog<'_>) -> Option<String> {
    let is_unready = |code: &CallErrorCode| {
        matches!(code, CallErrorCode::NotReady | CallErrorCode::FailedToStart | CallErrorCode::NeedsLogin)
    };
    let last = report.calls.last().filter(|call| call.error_code.as_ref().is_some_and(is_unready))?;
    let Target::Tool { backend, tool } = &last.target else { return None };
    let found = view.backend(backend).filter(|found| *found.state() != BackendState::Ready)?;
    found.tool(tool)?;
    Some(bridge::unready(found.name(), Some(tool), found.state()))
}
