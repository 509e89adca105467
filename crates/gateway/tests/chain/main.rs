//! `call_tool_chain` over in-memory tools: the same answer on every route, names, hints, preflight, access.
//!
//! # Layout
//! - `runner`, `support`: the cases, and a chain to test
//! - `differential`, `programs`, `random`: every text with short cuts and without
//! - `hints`, `names`: the folders of `specs/`
//! - `calls`, `access`, `results`: what happens at the bridge, who may see what, what is kept
//! - `policy`: what is allowed, asked about and denied; `stage`, `stage_random`: writes that are reviewed first
//! - `parked`: runs that wait for a person with a worker that is a process

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod calls;
#[path = "../gateway/counting_store.rs"]
mod counting_store;
#[path = "../../../engine/tests/support/deno.rs"]
mod deno;
mod differential;
mod hints;
#[allow(dead_code, reason = "each test binary uses its own part")]
#[path = "../../../engine/tests/support/machine.rs"]
mod machine;
mod names;
mod parked;
mod policy;
mod programs;
mod random;
mod results;
mod runner;
mod stage;
mod stage_random;
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before any thread exists: the engine starts this same program again to get its zygote.
    toolgate_engine::take_over_if_asked();
    let cases = [
        differential::cases(),
        random::cases(),
        hints::cases(),
        names::cases(),
        calls::cases(),
        access::cases(),
        results::cases(),
        policy::cases(),
        stage::cases(),
        stage_random::cases(),
        parked::cases(),
    ];
    runner::run(cases.into_iter().flatten().collect())
}
