//! How much a run may use.
//!
//! `Limits` are always in range: they are the profile's defaults, or come from
//! [`LimitRequest::resolve`], which refuses what is out of range and names the range.

use std::time::Duration;

use crate::Profile;

/// One megabyte, as limits count it.
pub const MB: u64 = 1024 * 1024;

/// The longest JSON text of one call's arguments, in bytes.
pub const MAX_ARGUMENTS: usize = 16 * 1024 * 1024;

/// The longest name that a program may call or ask about, in bytes; catalogs have far shorter ones.
pub const MAX_NAME: usize = 64 * 1024;

/// What a run may use. Every field is enforced by the host, the guest or the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// From acceptance to answer, waiting in the queue included.
    pub wall: Duration,
    /// Bytes of everything the run allocates, buffers and incoming data included.
    pub memory: u64,
    /// Bytes of the interpreter's stack.
    pub stack: u64,
    /// Characters of source.
    pub code: u64,
    /// Bytes of the result's JSON text.
    pub result: u64,
    /// Nesting of the result, past which values become a marker; `None`: only the serialiser's own bound.
    pub result_depth: Option<u32>,
    /// Lines of console output kept.
    pub log_lines: u64,
    /// Host calls in the whole run.
    pub calls: u64,
    /// Host calls under way at one time.
    pub calls_in_flight: u64,
}

impl Limits {
    /// The defaults of a profile.
    pub fn of(profile: Profile) -> Self {
        let shared = Limits {
            wall: Duration::from_secs(5),
            memory: 128 * MB,
            stack: 512 * 1024,
            code: 65_536,
            result: MB,
            result_depth: None,
            log_lines: 100,
            calls: 0,
            calls_in_flight: 64,
        };
        match profile {
            Profile::Compute => shared,
            Profile::Chain => Limits {
                wall: Duration::from_secs(30),
                memory: 50 * MB,
                code: 262_144,
                result: 16 * MB,
                log_lines: 1_000,
                calls: 1_000,
                ..shared
            },
            Profile::Snippet => Limits {
                wall: Duration::from_secs(3),
                memory: 16 * MB,
                code: 12_000,
                result_depth: Some(10),
                calls: 100,
                ..shared
            },
        }
    }
}

/// The hard range of each limit, both ends included.
pub mod range {
    use std::ops::RangeInclusive;

    use super::MB;

    /// Milliseconds of wall time.
    pub const WALL_MS: RangeInclusive<u64> = 1..=600_000;
    /// Milliseconds of wall time of a snippet; other values are clamped, not refused.
    pub const SNIPPET_WALL_MS: RangeInclusive<u64> = 250..=5_000;
    /// Bytes of memory.
    pub const MEMORY: RangeInclusive<u64> = 2 * MB..=1024 * MB;
    /// Bytes of stack.
    pub const STACK: RangeInclusive<u64> = 64 * 1024..=4 * MB;
    /// Characters of source.
    pub const CODE: RangeInclusive<u64> = 1..=MB;
    /// Bytes of result.
    pub const RESULT: RangeInclusive<u64> = 1..=64 * MB;
    /// Levels of result.
    pub const RESULT_DEPTH: RangeInclusive<u64> = 1..=1_000;
    /// Lines of console output.
    pub const LOG_LINES: RangeInclusive<u64> = 0..=10_000;
    /// Host calls.
    pub const CALLS: RangeInclusive<u64> = 0..=100_000;
    /// Host calls under way at one time.
    pub const CALLS_IN_FLIGHT: RangeInclusive<u64> = 1..=256;
}

/// A limit that was asked for lies outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be between {min} and {max} {unit}, got {got}")]
pub struct LimitFault {
    /// Which limit.
    pub name: &'static str,
    /// The value asked for.
    pub got: u64,
    /// The smallest that is taken.
    pub min: u64,
    /// The largest that is taken.
    pub max: u64,
    /// What the numbers count.
    pub unit: &'static str,
}

/// What a caller asks for; an absent field means the profile's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitRequest {
    /// Wall time.
    pub wall: Option<Duration>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Bytes of stack.
    pub stack: Option<u64>,
    /// Characters of source.
    pub code: Option<u64>,
    /// Bytes of result.
    pub result: Option<u64>,
    /// Levels of result.
    pub result_depth: Option<u32>,
    /// Lines of console output.
    pub log_lines: Option<u64>,
    /// Host calls.
    pub calls: Option<u64>,
    /// Host calls under way at one time.
    pub calls_in_flight: Option<u64>,
}

/// Limits in range, and what had to be changed to get there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The limits to run with.
    pub limits: Limits,
    /// A sentence for each value that was clamped.
    pub warnings: Vec<String>,
}

impl LimitRequest {
    /// The profile's limits with these changes.
    pub fn resolve(&self, profile: Profile) -> Result<Resolved, LimitFault> {
        let default = Limits::of(profile);
        let mut warnings = Vec::new();
        let wall = match self.wall {
            Some(asked) => wall_time(asked, profile, &mut warnings)?,
            None => default.wall,
        };
        let depth = self.result_depth.map(|depth| check("result depth", depth.into(), range::RESULT_DEPTH, "levels"));
        let limits = Limits {
            wall,
            memory: pick("memory", self.memory, default.memory, range::MEMORY, "bytes")?,
            stack: pick("stack", self.stack, default.stack, range::STACK, "bytes")?,
            code: pick("code length", self.code, default.code, range::CODE, "characters")?,
            result: pick("result size", self.result, default.result, range::RESULT, "bytes")?,
            result_depth: depth.transpose()?.map(|depth| depth as u32).or(default.result_depth),
            log_lines: pick("log lines", self.log_lines, default.log_lines, range::LOG_LINES, "lines")?,
            calls: pick("host calls", self.calls, default.calls, range::CALLS, "calls")?,
            calls_in_flight: pick(
                "host calls in flight",
                self.calls_in_flight,
                default.calls_in_flight,
                range::CALLS_IN_FLIGHT,
                "calls",
            )?,
        };
        Ok(Resolved { limits, warnings })
    }
}

fn wall_time(asked: Duration, profile: Profile, warnings: &mut Vec<String>) -> Result<Duration, LimitFault> {
    let ms = u64::try_from(asked.as_millis()).unwrap_or(u64::MAX);
    if profile == Profile::Snippet {
        let clamped = ms.clamp(*range::SNIPPET_WALL_MS.start(), *range::SNIPPET_WALL_MS.end());
        if clamped != ms {
            warnings.push(format!("timeout clamped from {ms} ms to {clamped} ms: a snippet may take 250 to 5000 ms"));
        }
        return Ok(Duration::from_millis(clamped));
    }
    check("timeout", ms, range::WALL_MS, "milliseconds").map(Duration::from_millis)
}

type Range = std::ops::RangeInclusive<u64>;

fn pick(
    name: &'static str,
    asked: Option<u64>,
    default: u64,
    range: Range,
    unit: &'static str,
) -> Result<u64, LimitFault> {
    asked.map_or(Ok(default), |value| check(name, value, range, unit))
}

fn check(name: &'static str, got: u64, range: Range, unit: &'static str) -> Result<u64, LimitFault> {
    if range.contains(&got) {
        return Ok(got);
    }
    Err(LimitFault { name, got, min: *range.start(), max: *range.end(), unit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(request: LimitRequest) -> String {
        request.resolve(Profile::Chain).expect_err("out of range").to_string()
    }

    #[test]
    fn an_empty_request_is_the_profiles_defaults() {
        for profile in Profile::ALL {
            let resolved = LimitRequest::default().resolve(profile).expect("defaults are in range");
            assert_eq!(resolved, Resolved { limits: Limits::of(profile), warnings: vec![] });
        }
    }

    #[test]
    fn a_refusal_names_the_range() {
        let request = LimitRequest { memory: Some(5), ..Default::default() };
        assert_eq!(refused(request), "memory must be between 2097152 and 1073741824 bytes, got 5");
    }

    #[test]
    fn zero_wall_time_is_refused() {
        let request = LimitRequest { wall: Some(Duration::ZERO), ..Default::default() };
        assert_eq!(refused(request), "timeout must be between 1 and 600000 milliseconds, got 0");
    }

    #[test]
    fn a_snippets_wall_time_is_clamped_with_a_warning() {
        let request = LimitRequest { wall: Some(Duration::from_secs(60)), ..Default::default() };
        let resolved = request.resolve(Profile::Snippet).expect("clamped");
        assert_eq!(resolved.limits.wall, Duration::from_secs(5));
        assert_eq!(resolved.warnings, ["timeout clamped from 60000 ms to 5000 ms: a snippet may take 250 to 5000 ms"]);
    }
}
