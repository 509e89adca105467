//! What a run may use: the profile's own limits, the configured ones, and the caller's wishes within them.

use std::time::Duration;

use toolgate_wire::{LimitRequest, Profile};

use super::messages::Whole;
use super::refusal::Refusal;
use toolgate_config::checked::{ProfileLimits, Profiles};

const MB: u64 = toolgate_wire::limits::MB;

/// What a caller wishes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wishes {
    pub(super) timeout_ms: Option<Whole>,
    pub(super) max_heap_mb: Option<Whole>,
}

/// The limits to run with. What is out of range is refused, with a pointer to the field.
pub(super) fn granted(profile: Profile, profiles: &Profiles, wishes: Wishes) -> Result<LimitRequest, Refusal> {
    let configured = match profile {
        Profile::Compute => &profiles.compute,
        Profile::Chain => &profiles.chain,
        Profile::Snippet => &profiles.snippet,
    };
    let mut limits = request(configured);
    if let Some(Whole(ms)) = wishes.timeout_ms {
        limits.wall = Some(wall(ms, profile, configured)?);
    }
    if let Some(Whole(mb)) = wishes.max_heap_mb {
        limits.memory = Some(memory(mb, profile, configured)?);
    }
    Ok(limits)
}

fn wall(ms: u64, profile: Profile, configured: &ProfileLimits) -> Result<Duration, Refusal> {
    let wall = Duration::from_millis(ms);
    let refused = |message: String| Refusal::field("/timeoutMs", message);
    let alone = LimitRequest { wall: Some(wall), ..LimitRequest::default() };
    alone.resolve(profile).map_err(|fault| refused(fault.to_string()))?;
    match configured.timeout {
        Some(most) if wall > most => Err(refused(format!("this service allows at most {} ms", most.as_millis()))),
        _ => Ok(wall),
    }
}

fn memory(mb: u64, profile: Profile, configured: &ProfileLimits) -> Result<u64, Refusal> {
    let bytes = mb.saturating_mul(MB);
    let refused = |message: String| Refusal::field("/maxHeapMB", message);
    let alone = LimitRequest { memory: Some(bytes), ..LimitRequest::default() };
    alone.resolve(profile).map_err(|_| refused(format!("must be between 2 and 1024 MB, got {mb}")))?;
    match configured.memory {
        Some(most) if bytes > most.get() => Err(refused(format!("this service allows at most {most}"))),
        _ => Ok(bytes),
    }
}

fn request(configured: &ProfileLimits) -> LimitRequest {
    let count = |number: Option<usize>| number.map(|number| number as u64);
    LimitRequest {
        wall: configured.timeout,
        memory: configured.memory.map(|bytes| bytes.get()),
        stack: configured.stack.map(|bytes| bytes.get()),
        code: count(configured.code),
        result: configured.result.map(|bytes| bytes.get()),
        result_depth: None,
        log_lines: count(configured.log_lines),
        calls: count(configured.calls),
        calls_in_flight: count(configured.calls_in_flight),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_config::values::Bytes;

    fn check(timeout_ms: Option<u64>, max_heap_mb: Option<u64>, expected: &str) {
        let chain = ProfileLimits {
            timeout: Some(Duration::from_secs(2)),
            memory: Some(Bytes::new(8 * MB)),
            ..ProfileLimits::default()
        };
        let profiles = Profiles { chain, ..Profiles::default() };
        let wishes = Wishes { timeout_ms: timeout_ms.map(Whole), max_heap_mb: max_heap_mb.map(Whole) };
        let found = match granted(Profile::Chain, &profiles, wishes) {
            Ok(limits) => format!("{:?} {:?}", limits.wall.map(|it| it.as_millis()), limits.memory.map(|it| it / MB)),
            Err(Refusal::BadInput { pointer, message }) => format!("{pointer}: {message}"),
            Err(other) => other.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_wish_is_granted_up_to_what_is_configured() {
        check(None, None, "Some(2000) Some(8)");
        check(Some(2000), Some(2), "Some(2000) Some(2)");
        check(Some(2001), None, "/timeoutMs: this service allows at most 2000 ms");
        check(None, Some(9), "/maxHeapMB: this service allows at most 8 MB");
    }

    #[test]
    fn what_no_engine_takes_is_refused_with_the_range() {
        check(Some(0), None, "/timeoutMs: timeout must be between 1 and 600000 milliseconds, got 0");
        check(None, Some(1), "/maxHeapMB: must be between 2 and 1024 MB, got 1");
        check(None, Some(u64::MAX), &format!("/maxHeapMB: must be between 2 and 1024 MB, got {}", u64::MAX));
    }
}
