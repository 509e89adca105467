//! Checks the limits of a request, and names the field of an invalid one.
//!
//! The ranges are those of `wire` and the configuration; none are defined here.

use std::time::Duration;

use toolgate_run::Runner;
use toolgate_wire::limits::MB;
use toolgate_wire::{Limit, LimitFault, LimitRequest, Profile};

use super::messages::Whole;
use super::refusal::Refusal;

/// The limits that a request may name.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestedLimits {
    pub(super) timeout_ms: Option<Whole>,
    pub(super) max_heap_mb: Option<Whole>,
}

impl RequestedLimits {
    /// The limits to run with. A value out of range, or above the configured one, is refused with a pointer to its field.
    pub(super) fn checked(self, runner: &Runner, profile: Profile) -> Result<LimitRequest, Refusal> {
        let requested = LimitRequest {
            wall: self.timeout_ms.map(|Whole(ms)| Duration::from_millis(ms)),
            memory: self.max_heap_mb.map(|Whole(mb)| mb.saturating_mul(MB)),
            ..LimitRequest::default()
        };
        // Snippets clamp the time limit in other interfaces; here a value out of range is an error.
        if let Some(wall) = requested.get(Limit::Wall) {
            let range = Limit::Wall.range(Profile::Chain);
            if !range.contains(&wall) {
                let (min, max) = (*range.start(), *range.end());
                return Err(refused(&LimitFault::OutOfRange { limit: Limit::Wall, got: wall, min, max }));
            }
        }
        runner.limits(profile, &requested).map_err(|fault| refused(&fault))?;
        Ok(requested)
    }
}

fn refused(fault: &LimitFault) -> Refusal {
    match fault.limit() {
        Limit::Wall => Refusal::field("/timeoutMs", fault.to_string()),
        Limit::Memory => Refusal::field("/maxHeapMB", in_megabytes(fault)),
        _ => Refusal::field("", fault.to_string()),
    }
}

/// The message in megabytes, the unit of the field; the limit is in bytes.
fn in_megabytes(fault: &LimitFault) -> String {
    match fault {
        LimitFault::OutOfRange { got, min, max, .. } => {
            format!("must be between {} and {} MB, got {}", min / MB, max / MB, got / MB)
        }
        LimitFault::AboveConfigured { max, .. } => format!("this service allows at most {} MB", max / MB),
    }
}
