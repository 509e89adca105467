//! The limits of the run profiles, validated with the ranges that the engine uses (`wire::Limit`).

use std::time::Duration;

use toolgate_wire::{Limit, LimitRequest, Profile, Profiles};

use super::checker::Checker;
use super::value;
use crate::raw;
use crate::values::Bytes;

pub(super) fn check(checker: &mut Checker<'_>, raw: &raw::Profiles) -> Profiles<LimitRequest> {
    Profiles {
        compute: limits(checker, &value(&raw.compute), Profile::Compute),
        chain: limits(checker, &value(&raw.chain), Profile::Chain),
        snippet: limits(checker, &value(&raw.snippet), Profile::Snippet),
    }
}

fn limits(checker: &mut Checker<'_>, raw: &raw::Profile, profile: Profile) -> LimitRequest {
    let bounds = |limit: Limit| limit.range(profile);
    let counts = |limit: Limit| {
        let range = bounds(limit);
        let usize_of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        usize_of(*range.start())..=usize_of(*range.end())
    };
    let sizes = |limit: Limit| {
        let range = bounds(limit);
        Bytes::new(*range.start())..=Bytes::new(*range.end())
    };
    let wall = bounds(Limit::Wall);
    let wall = Duration::from_millis(*wall.start())..=Duration::from_millis(*wall.end());
    let number = |count: Option<usize>| count.map(|count| count as u64);
    let size = |bytes: Option<Bytes>| bytes.map(Bytes::get);
    LimitRequest {
        wall: checker.period_within(&raw.timeout, &wall),
        memory: size(checker.size(&raw.memory, &sizes(Limit::Memory))),
        stack: size(checker.size(&raw.stack, &sizes(Limit::Stack))),
        code: number(checker.count(&raw.code, counts(Limit::Code))),
        result: size(checker.size(&raw.result, &sizes(Limit::Result))),
        result_depth: None,
        log_lines: number(checker.count(&raw.log_lines, counts(Limit::LogLines))),
        calls: number(checker.count(&raw.calls, counts(Limit::Calls))),
        calls_in_flight: number(checker.count(&raw.calls_in_flight, counts(Limit::CallsInFlight))),
    }
}
