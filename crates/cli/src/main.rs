//! The `toolgate` command.
//!
//! # Layout
//! - `args`: what can be typed; `units`: durations and sizes as people write them
//! - `commands`: one file a command
//! - `input`: files and standard input, bounded
//! - `engine`: from flags to an engine and a report
//! - `tools`: a scripted set of tools, and where long results are kept
//! - `children`: worker processes, seen from outside
//! - `print`: the only place that writes to a terminal

#![forbid(unsafe_code)]

mod args;
mod children;
mod commands;
mod engine;
mod input;
mod print;
mod tools;
mod units;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    // Before any thread exists: the engine starts this same program again to get its zygote.
    toolgate_guest::take_over_if_asked();
    let end = match Cli::parse().command {
        Command::Run(args) if args.tools.is_some() => commands::chain::run(&args),
        Command::Run(args) => commands::run::run(args),
        Command::Check(args) => commands::check::check(&args),
        Command::Result(args) => commands::result::result(args),
        Command::Compute(args) => commands::compute::compute(args),
        Command::Doctor(args) => commands::doctor::doctor(&args),
        Command::Bench(args) => commands::bench::bench(&args),
    };
    commands::exit_code(end)
}
