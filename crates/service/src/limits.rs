//! The limits that a caller asks for, and which field of its request they came from.

use std::time::Duration;

use toolgate_gateway::run::Runner;
use toolgate_wire::limits::MB;
use toolgate_wire::{Limit, LimitFault, LimitRequest, Profile};

use super::messages::Whole;
use super::refusal::Refusal;

/// The limits that a request may name.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AskedLimits {
    pub(super) timeout_ms: Option<Whole>,
    pub(super) max_heap_mb: Option<Whole>,
}

impl AskedLimits {
    /// The limits to run with. What is out of range, or above what is configured, is refused with a pointer to the field.
    pub(super) fn checked(self, runner: &Runner, profile: Profile) -> Result<LimitRequest, Refusal> {
        let asked = LimitRequest {
            wall: self.timeout_ms.map(|Whole(ms)| Duration::from_millis(ms)),
            memory: self.max_heap_mb.map(|Whole(mb)| mb.saturating_mul(MB)),
            ..LimitRequest::default()
        };
        // Snippets are clamped elsewhere; here an exact answer is worth more than a lenient one.
        if let Some(wall) = asked.get(Limit::Wall) {
            let range = Limit::Wall.range(Profile::Chain);
            if !range.contains(&wall) {
                let (min, max) = (*range.start(), *range.end());
                return Err(refused(&LimitFault::OutOfRange { limit: Limit::Wall, got: wall, min, max }));
            }
        }
        runner.limits(profile, &asked).map_err(|fault| refused(&fault))?;
        Ok(asked)
    }
}

fn refused(fault: &LimitFault) -> Refusal {
    match fault.limit() {
        Limit::Wall => Refusal::field("/timeoutMs", fault.to_string()),
        Limit::Memory => Refusal::field("/maxHeapMB", in_megabytes(fault)),
        _ => Refusal::field("", fault.to_string()),
    }
}

/// The field counts megabytes, the limit bytes.
fn in_megabytes(fault: &LimitFault) -> String {
    match fault {
        LimitFault::OutOfRange { got, min, max, .. } => {
            format!("must be between {} and {} MB, got {}", min / MB, max / MB, got / MB)
        }
        LimitFault::AboveConfigured { max, .. } => format!("this service allows at most {} MB", max / MB),
    }
}
