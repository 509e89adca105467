//! How much a run may use: one table of limits, with the name, unit, range and default of each.
//!
//! Configuration, HTTP requests, tool arguments and the engine validate against this table and nothing else, so a
//! value that one of them accepts is accepted by all. [`Limits`] are always in range: they are the defaults of a
//! profile or come from [`LimitRequest::resolve`].

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Profile;

/// One megabyte.
pub const MB: u64 = 1024 * 1024;

/// Largest JSON text of one call's arguments, in bytes.
pub const MAX_ARGUMENTS: usize = 16 * 1024 * 1024;
/// Longest name that a program may call or ask about, in bytes.
pub const MAX_NAME: usize = 64 * 1024;
/// Timers that a program may have running at one time.
pub const MAX_TIMERS: usize = 10_000;
/// Bytes of console output that a worker sends.
pub const MAX_LOG_BYTES: usize = 1024 * 1024;
/// Nesting of JSON text and of values that a worker reads or writes.
pub const MAX_JSON_DEPTH: u32 = 1_000;
/// Unhandled rejections that are reported on the console.
pub const MAX_UNHANDLED_REJECTIONS: usize = 100;
/// Bytes that one call of `crypto.getRandomValues` fills.
pub const MAX_RANDOM_BYTES: usize = 65_536;
/// Steps at each end of a path that an error message shows, such as `result.a.b`.
pub const MAX_PATH_STEPS: usize = 12;
/// Characters of one key in such a path.
pub const MAX_PATH_KEY: usize = 60;

/// One of the limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Time from acceptance to answer, including the time in the queue.
    Wall,
    /// Everything that the run allocates, including buffers and incoming data.
    Memory,
    /// The interpreter's stack.
    Stack,
    /// Length of the source.
    Code,
    /// Length of the result's JSON text.
    Result,
    /// Nesting of the result, below which values are replaced by a marker.
    ResultDepth,
    /// Lines of console output that are kept.
    LogLines,
    /// Host calls of the whole run.
    Calls,
    /// Host calls in progress at one time.
    CallsInFlight,
}

/// What the number of a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Bytes.
    Bytes,
    /// Unicode code points.
    Characters,
    /// Levels of nesting.
    Levels,
    /// Lines.
    Lines,
    /// Host calls.
    Calls,
}

impl Unit {
    /// The plural, as messages print it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Milliseconds => "milliseconds",
            Unit::Bytes => "bytes",
            Unit::Characters => "characters",
            Unit::Levels => "levels",
            Unit::Lines => "lines",
            Unit::Calls => "calls",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSpec {
    /// The limit.
    pub limit: Limit,
    /// Its key in configuration.
    pub key: &'static str,
    /// Its name in messages.
    pub name: &'static str,
    /// What its number counts.
    pub unit: Unit,
    /// Smallest accepted value.
    pub min: u64,
    /// Largest accepted value.
    pub max: u64,
    /// Defaults of [`Profile::Compute`], [`Profile::Chain`] and [`Profile::Snippet`]; `None`: not limited by default.
    pub defaults: [Option<u64>; 3],
}

/// All limits, in the order of [`Limit::ALL`].
static TABLE: [LimitSpec; 9] = {
    const fn row(
        limit: Limit,
        names: (&'static str, &'static str),
        unit: Unit,
        (min, max): (u64, u64),
        [compute, chain, snippet]: [u64; 3],
    ) -> LimitSpec {
        let defaults = [Some(compute), Some(chain), Some(snippet)];
        LimitSpec { limit, key: names.0, name: names.1, unit, min, max, defaults }
    }
    use Unit::{Bytes, Calls, Characters, Levels, Lines, Milliseconds};
    [
        row(Limit::Wall, ("timeout", "timeout"), Milliseconds, (1, 600_000), [5_000, 30_000, 3_000]),
        row(Limit::Memory, ("memory", "memory"), Bytes, (2 * MB, 1024 * MB), [128 * MB, 50 * MB, 16 * MB]),
        row(Limit::Stack, ("stack", "stack"), Bytes, (64 * 1024, 4 * MB), [512 * 1024; 3]),
        row(Limit::Code, ("code", "code length"), Characters, (1, MB), [65_536, 262_144, 12_000]),
        row(Limit::Result, ("result", "result size"), Bytes, (1, 64 * MB), [MB, 16 * MB, MB]),
        LimitSpec {
            limit: Limit::ResultDepth,
            key: "resultDepth",
            name: "result depth",
            unit: Levels,
            min: 1,
            max: MAX_JSON_DEPTH as u64,
            defaults: [None, None, Some(10)],
        },
        row(Limit::LogLines, ("logLines", "log lines"), Lines, (0, 10_000), [100, 1_000, 100]),
        row(Limit::Calls, ("calls", "host calls"), Calls, (0, 100_000), [0, 1_000, 100]),
        row(Limit::CallsInFlight, ("callsInFlight", "host calls in flight"), Calls, (1, 256), [64; 3]),
    ]
};

/// Wall time of a snippet in milliseconds. A request outside this range is clamped with a warning.
const SNIPPET_WALL_MS: RangeInclusive<u64> = 250..=5_000;

impl Limit {
    /// Every limit.
    pub const ALL: [Limit; 9] = [
        Limit::Wall,
        Limit::Memory,
        Limit::Stack,
        Limit::Code,
        Limit::Result,
        Limit::ResultDepth,
        Limit::LogLines,
        Limit::Calls,
        Limit::CallsInFlight,
    ];

    /// Its row of the table.
    pub const fn spec(self) -> &'static LimitSpec {
        &TABLE[self as usize]
    }

    /// The values that a profile accepts.
    pub fn range(self, profile: Profile) -> RangeInclusive<u64> {
        match (self, profile) {
            (Limit::Wall, Profile::Snippet) => SNIPPET_WALL_MS,
            // A computation has no host functions: that defines the profile, and no setting changes it.
            (Limit::Calls, Profile::Compute) => 0..=0,
            _ => self.spec().min..=self.spec().max,
        }
    }

    /// The default of a profile; `None` when the profile sets no limit.
    pub fn default(self, profile: Profile) -> Option<u64> {
        let [compute, chain, snippet] = self.spec().defaults;
        match profile {
            Profile::Compute => compute,
            Profile::Chain => chain,
            Profile::Snippet => snippet,
        }
    }

    /// The value itself when the profile accepts it.
    pub fn check(self, profile: Profile, got: u64) -> Result<u64, LimitFault> {
        let range = self.range(profile);
        if range.contains(&got) {
            return Ok(got);
        }
        Err(LimitFault::OutOfRange { limit: self, got, min: *range.start(), max: *range.end() })
    }
}

/// Why a requested limit is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitFault {
    /// The value is outside the range of the limit.
    #[error("{} must be between {min} and {max} {}, got {got}", .limit.spec().name, .limit.spec().unit.name())]
    OutOfRange {
        /// The limit.
        limit: Limit,
        /// The requested value.
        got: u64,
        /// The smallest accepted value.
        min: u64,
        /// The largest accepted value.
        max: u64,
    },
    /// The value is in range but above what the operator configured.
    #[error("{} may be at most {max} {} here, got {got}", .limit.spec().name, .limit.spec().unit.name())]
    AboveConfigured {
        /// The limit.
        limit: Limit,
        /// The requested value.
        got: u64,
        /// The configured value.
        max: u64,
    },
}

impl LimitFault {
    /// The limit that was refused.
    pub fn limit(&self) -> Limit {
        match self {
            LimitFault::OutOfRange { limit, .. } | LimitFault::AboveConfigured { limit, .. } => *limit,
        }
    }
}

/// What a run may use. The host, the guest or the kernel enforces every field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// [`Limit::Wall`]
    pub wall: Duration,
    /// [`Limit::Memory`]
    pub memory: u64,
    /// [`Limit::Stack`]
    pub stack: u64,
    /// [`Limit::Code`]
    pub code: u64,
    /// [`Limit::Result`]
    pub result: u64,
    /// [`Limit::ResultDepth`]; `None`: only [`MAX_JSON_DEPTH`].
    pub result_depth: Option<u32>,
    /// [`Limit::LogLines`]
    pub log_lines: u64,
    /// [`Limit::Calls`]
    pub calls: u64,
    /// [`Limit::CallsInFlight`]
    pub calls_in_flight: u64,
}

impl Limits {
    /// The defaults of a profile.
    pub fn of(profile: Profile) -> Self {
        Limits::from_values(|limit| limit.default(profile))
    }

    /// Only [`Limit::ResultDepth`] may be absent; the table has a value for every other limit.
    fn from_values(value: impl Fn(Limit) -> Option<u64>) -> Self {
        let number = |limit: Limit| value(limit).unwrap_or(limit.spec().max);
        Limits {
            wall: Duration::from_millis(number(Limit::Wall)),
            memory: number(Limit::Memory),
            stack: number(Limit::Stack),
            code: number(Limit::Code),
            result: number(Limit::Result),
            result_depth: value(Limit::ResultDepth).map(|depth| u32::try_from(depth).unwrap_or(MAX_JSON_DEPTH)),
            log_lines: number(Limit::LogLines),
            calls: number(Limit::Calls),
            calls_in_flight: number(Limit::CallsInFlight),
        }
    }
}

/// Changes to the limits of a profile; an absent field means the profile's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitRequest {
    /// [`Limit::Wall`]
    pub wall: Option<Duration>,
    /// [`Limit::Memory`]
    pub memory: Option<u64>,
    /// [`Limit::Stack`]
    pub stack: Option<u64>,
    /// [`Limit::Code`]
    pub code: Option<u64>,
    /// [`Limit::Result`]
    pub result: Option<u64>,
    /// [`Limit::ResultDepth`]
    pub result_depth: Option<u32>,
    /// [`Limit::LogLines`]
    pub log_lines: Option<u64>,
    /// [`Limit::Calls`]
    pub calls: Option<u64>,
    /// [`Limit::CallsInFlight`]
    pub calls_in_flight: Option<u64>,
}

/// Limits in range, with a warning for every value that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The limits to run with.
    pub limits: Limits,
    /// One sentence for each value that was clamped.
    pub warnings: Vec<String>,
}

impl LimitRequest {
    /// The requested value of a limit, in the unit of the table.
    pub fn get(&self, limit: Limit) -> Option<u64> {
        match limit {
            Limit::Wall => self.wall.map(|wall| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
            Limit::Memory => self.memory,
            Limit::Stack => self.stack,
            Limit::Code => self.code,
            Limit::Result => self.result,
            Limit::ResultDepth => self.result_depth.map(u64::from),
            Limit::LogLines => self.log_lines,
            Limit::Calls => self.calls,
            Limit::CallsInFlight => self.calls_in_flight,
        }
    }

    /// The same request with one value changed.
    pub fn with(mut self, limit: Limit, value: u64) -> Self {
        match limit {
            Limit::Wall => self.wall = Some(Duration::from_millis(value)),
            Limit::Memory => self.memory = Some(value),
            Limit::Stack => self.stack = Some(value),
            Limit::Code => self.code = Some(value),
            Limit::Result => self.result = Some(value),
            Limit::ResultDepth => self.result_depth = Some(u32::try_from(value).unwrap_or(u32::MAX)),
            Limit::LogLines => self.log_lines = Some(value),
            Limit::Calls => self.calls = Some(value),
            Limit::CallsInFlight => self.calls_in_flight = Some(value),
        }
        self
    }

    /// Every value that the profile does not accept, in the order of the table.
    pub fn faults(&self, profile: Profile) -> Vec<LimitFault> {
        let requested = Limit::ALL.into_iter().filter_map(|limit| Some((limit, self.get(limit)?)));
        requested.filter_map(|(limit, value)| limit.check(profile, value).err()).collect()
    }

    /// The values of `self`, and those of `configured` where `self` has none. A value above a configured one is
    /// refused: what the operator configured is the most that a caller gets.
    pub fn within(&self, configured: &LimitRequest) -> Result<LimitRequest, LimitFault> {
        let mut granted = configured.clone();
        for limit in Limit::ALL {
            match (self.get(limit), configured.get(limit)) {
                (Some(got), Some(max)) if got > max => {
                    return Err(LimitFault::AboveConfigured { limit, got, max });
                }
                (Some(got), _) => granted = granted.with(limit, got),
                (None, _) => {}
            }
        }
        Ok(granted)
    }

    /// The profile's limits with these changes. A snippet's wall time is clamped; everything else out of range is refused.
    pub fn resolve(&self, profile: Profile) -> Result<Resolved, LimitFault> {
        let (request, warnings) = match profile {
            Profile::Snippet => self.with_clamped_wall(),
            Profile::Compute | Profile::Chain => (self.clone(), Vec::new()),
        };
        if let Some(fault) = request.faults(profile).into_iter().next() {
            return Err(fault);
        }
        let limits = Limits::from_values(|limit| request.get(limit).or_else(|| limit.default(profile)));
        Ok(Resolved { limits, warnings })
    }

    fn with_clamped_wall(&self) -> (LimitRequest, Vec<String>) {
        let Some(ms) = self.get(Limit::Wall) else { return (self.clone(), Vec::new()) };
        let (min, max) = (*SNIPPET_WALL_MS.start(), *SNIPPET_WALL_MS.end());
        let clamped = ms.clamp(min, max);
        let warning = format!("timeout clamped from {ms} ms to {clamped} ms: a snippet may take {min} to {max} ms");
        (self.clone().with(Limit::Wall, clamped), if clamped == ms { Vec::new() } else { vec![warning] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(request: LimitRequest) -> String {
        request.resolve(Profile::Chain).expect_err("out of range").to_string()
    }

    #[test]
    fn every_limit_has_its_own_row() {
        for limit in Limit::ALL {
            assert_eq!(limit.spec().limit, limit);
        }
    }

    #[test]
    fn an_empty_request_is_the_profiles_defaults() {
        for profile in Profile::ALL {
            let resolved = LimitRequest::default().resolve(profile).expect("defaults are in range");
            assert_eq!(resolved, Resolved { limits: Limits::of(profile), warnings: vec![] });
        }
    }

    #[test]
    fn the_defaults_and_both_ends_of_every_range_are_accepted_and_nothing_beyond() {
        for profile in Profile::ALL {
            for limit in Limit::ALL {
                let (min, max) = limit.range(profile).into_inner();
                let accepts = |value| limit.check(profile, value).is_ok();
                assert!(accepts(min) && accepts(max) && !accepts(max + 1), "{limit:?} of {profile}");
                assert!(min == 0 || !accepts(min - 1), "{limit:?} of {profile}");
                assert!(limit.default(profile).is_none_or(accepts), "{limit:?} of {profile}");
            }
        }
    }

    #[test]
    fn what_the_table_accepts_is_what_a_run_gets() {
        for profile in Profile::ALL {
            for limit in Limit::ALL {
                for value in [*limit.range(profile).start(), *limit.range(profile).end()] {
                    let request = LimitRequest::default().with(limit, value);
                    let limits = request.resolve(profile).expect("in range").limits;
                    let given = Limits::from_values(|it| if it == limit { Some(value) } else { it.default(profile) });
                    assert_eq!((request.get(limit), limits), (Some(value), given), "{limit:?} of {profile}");
                }
            }
        }
    }

    #[test]
    fn a_refusal_names_the_range() {
        let request = LimitRequest { memory: Some(5), ..Default::default() };
        assert_eq!(refused(request), "memory must be between 2097152 and 1073741824 bytes, got 5");
    }

    #[test]
    fn all_faults_are_found_at_once() {
        let request = LimitRequest { memory: Some(5), calls: Some(100_001), ..Default::default() };
        let limits: Vec<_> = request.faults(Profile::Chain).iter().map(LimitFault::limit).collect();
        assert_eq!(limits, [Limit::Memory, Limit::Calls]);
    }

    #[test]
    fn zero_wall_time_is_refused() {
        let request = LimitRequest { wall: Some(Duration::ZERO), ..Default::default() };
        assert_eq!(refused(request), "timeout must be between 1 and 600000 milliseconds, got 0");
    }

    #[test]
    fn a_computation_makes_no_calls() {
        let request = LimitRequest { calls: Some(1), ..Default::default() };
        let fault = request.resolve(Profile::Compute).expect_err("refused");
        assert_eq!(fault.to_string(), "host calls must be between 0 and 0 calls, got 1");
    }

    #[test]
    fn a_snippets_wall_time_is_clamped_with_a_warning() {
        let request = LimitRequest { wall: Some(Duration::from_secs(60)), ..Default::default() };
        let resolved = request.resolve(Profile::Snippet).expect("clamped");
        assert_eq!(resolved.limits.wall, Duration::from_secs(5));
        assert_eq!(resolved.warnings, ["timeout clamped from 60000 ms to 5000 ms: a snippet may take 250 to 5000 ms"]);
    }

    #[test]
    fn a_configured_value_is_the_default_and_the_most() {
        let configured = LimitRequest { memory: Some(8 * MB), calls: Some(5), ..Default::default() };
        let asked = LimitRequest { memory: Some(4 * MB), ..Default::default() };
        let granted = asked.within(&configured).expect("below");
        assert_eq!((granted.memory, granted.calls, granted.stack), (Some(4 * MB), Some(5), None));
        let asked = LimitRequest { memory: Some(9 * MB), ..Default::default() };
        let fault = asked.within(&configured).expect_err("above");
        assert_eq!(fault.to_string(), "memory may be at most 8388608 bytes here, got 9437184");
    }
}
