//! `toolgate compute`: one function over data that stays here.

use std::sync::Arc;

use toolgate_run::{Door, RunRequest};
use toolgate_wire::{LimitRequest, Profile};

use super::{Exit, program_config};
use crate::args::programs::ComputeArgs;
use crate::args::servers::Servers;
use crate::print::console::Console;
use crate::print::report::{Origin, Shown};
use crate::runner::{memory_of, run_configured, run_once, text};
use crate::tools;

pub(crate) fn compute(args: ComputeArgs) -> anyhow::Result<Exit> {
    let limits = LimitRequest { result: args.max_output, ..args.bounds.limits() };
    let room = memory_of(&limits, Profile::Compute)?;
    let data = args.data.map_or(Ok(Ok("null".into())), |source| source.data(room))?;

    let config = program_config::settings_only(&Servers::default())?;
    let console = (!args.output.json).then(Console::start).transpose()?;
    let run = match text(Some(data)) {
        Ok(data) => {
            let request = RunRequest {
                data,
                limits,
                engine: args.bounds.sandbox.engine(),
                observer: console.as_ref().map(|console| Arc::new(console.observer()) as _),
                door: Door::CommandLine,
                ..RunRequest::new(Profile::Compute, args.code.clone())
            };
            match config {
                Some(config) => run_configured(config, args.bounds.sandbox.isolation_if_asked(), request)?.0,
                None => run_once(args.bounds.sandbox.isolation(), tools::bridge(None)?, request),
            }
        }
        Err(refused) => *refused,
    };
    if let Some(console) = console {
        console.finish();
    }
    let origin = Origin { name: "code".into(), code: args.code };
    Shown { run, origin }.print(args.output)
}
