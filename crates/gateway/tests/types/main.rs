//! The type check before the first call, with a real TypeScript in its jail: what it finds, what it must not refuse, and
//! what a hostile program can make of it.
//!
//! # Layout
//! - `world`: tools with declared results, with a checker and without
//! - `findings`: what is certain, what is a warning, what is nothing; `changes`: programs that change types
//! - `corpus`: programs that run correctly are not refused
//! - `random`, `generate`: the same for random programs, and how many damaged ones are found
//! - `hostile`: budgets and bounds

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod changes;
mod corpus;
mod findings;
mod generate;
mod hostile;
#[allow(dead_code, reason = "shared with another test")]
#[path = "../chain/programs.rs"]
mod programs;
mod random;
#[path = "../chain/runner.rs"]
mod runner;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before any thread exists: the engine starts this same program again to get its zygote and its jails.
    toolgate_engine::take_over_if_asked();
    let cases = [findings::cases(), changes::cases(), corpus::cases(), random::cases(), hostile::cases()];
    runner::run(cases.into_iter().flatten().collect())
}
