//! Waits for a run's turn to execute. The time in the queue counts against the run's deadline.

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::turns::{NoPermit, Permit, TurnQueue};

/// Why a run may not execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// Too many runs are waiting already.
    Full,
    /// The deadline passed.
    Late,
    /// The engine was disposed of.
    Closed,
    /// The caller cancelled.
    Cancelled,
}

/// A permit, as soon as it is this caller's turn.
pub(crate) async fn enter(
    queue: &Arc<TurnQueue>,
    caller: u64,
    deadline: Instant,
    cancel: &CancellationToken,
) -> Result<Permit, NoSlot> {
    tokio::select! {
        biased;
        permit = queue.enter(caller) => permit.map_err(|refused| match refused {
            NoPermit::Full => NoSlot::Full,
            NoPermit::Closed => NoSlot::Closed,
        }),
        () = cancel.cancelled() => Err(NoSlot::Cancelled),
        () = tokio::time::sleep_until(deadline.into()) => Err(NoSlot::Late),
    }
}
