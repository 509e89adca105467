//! Limits that differ from the profiles' own, within what the engine can hold to.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::checker::Checker;
use super::value;
use crate::raw;
use crate::values::Bytes;

/// Limits for each profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profiles {
    /// Pure functions over data.
    pub compute: ProfileLimits,
    /// Chains of tool calls.
    pub chain: ProfileLimits,
    /// Quick snippets.
    pub snippet: ProfileLimits,
}

/// The limits that were set; the rest is the profile's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProfileLimits {
    /// Wall time.
    pub timeout: Option<Duration>,
    /// Everything the run allocates.
    pub memory: Option<Bytes>,
    /// The stack.
    pub stack: Option<Bytes>,
    /// Characters of code.
    pub code: Option<usize>,
    /// Bytes of the result.
    pub result: Option<Bytes>,
    /// Lines of console output.
    pub log_lines: Option<usize>,
    /// Host calls of one run.
    pub calls: Option<usize>,
    /// Host calls at the same time.
    pub calls_in_flight: Option<usize>,
}

const WALL: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(600);
const SNIPPET_WALL: RangeInclusive<Duration> = Duration::from_millis(250)..=Duration::from_secs(5);
const MEMORY: RangeInclusive<Bytes> = Bytes::new(1 << 20)..=Bytes::new(4 << 30);
const STACK: RangeInclusive<Bytes> = Bytes::new(64 << 10)..=Bytes::new(8 << 20);
const RESULT: RangeInclusive<Bytes> = Bytes::new(1 << 10)..=Bytes::new(64 << 20);

pub(super) fn check(checker: &mut Checker<'_>, raw: &raw::Profiles) -> Profiles {
    // A compute run calls nothing: that is what the profile means, and no setting changes it.
    Profiles {
        compute: profile(checker, &value(&raw.compute), &WALL, 0..=0),
        chain: profile(checker, &value(&raw.chain), &WALL, 0..=100_000),
        snippet: profile(checker, &value(&raw.snippet), &SNIPPET_WALL, 0..=100_000),
    }
}

fn profile(
    checker: &mut Checker<'_>,
    raw: &raw::Profile,
    wall: &RangeInclusive<Duration>,
    calls: RangeInclusive<usize>,
) -> ProfileLimits {
    ProfileLimits {
        timeout: checker.period_within(&raw.timeout, wall),
        memory: checker.size(&raw.memory, &MEMORY),
        stack: checker.size(&raw.stack, &STACK),
        code: checker.count(&raw.code, 1..=1_048_576),
        result: checker.size(&raw.result, &RESULT),
        log_lines: checker.count(&raw.log_lines, 0..=10_000),
        calls: checker.count(&raw.calls, calls),
        calls_in_flight: checker.count(&raw.calls_in_flight, 1..=1024),
    }
}
