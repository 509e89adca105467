//! `toolgate compute`: one function over data that stays here.

use std::sync::Arc;

use toolgate_gateway::run::{Door, RunRequest};
use toolgate_wire::{LimitRequest, Profile};

use super::Exit;
use crate::args::programs::ComputeArgs;
use crate::print::console::Console;
use crate::print::report::{Origin, Shown};
use crate::runner::{memory_of, run_once, text};
use crate::tools;

pub(crate) fn compute(args: ComputeArgs) -> anyhow::Result<Exit> {
    let limits = LimitRequest { result: args.max_output, ..args.bounds.limits() };
    let room = memory_of(&limits, Profile::Compute)?;
    let data = args.data.map_or(Ok(Ok("null".into())), |source| source.data(room))?;

    let console = (!args.output.json).then(Console::start).transpose()?;
    let run = match text(Some(data)) {
        Ok(data) => {
            let request = RunRequest {
                data,
                limits,
                engine: args.bounds.engine(),
                observer: console.as_ref().map(|console| Arc::new(console.observer()) as _),
                door: Door::CommandLine,
                ..RunRequest::new(Profile::Compute, args.code.clone())
            };
            run_once(args.bounds.isolation(), tools::bridge(None)?, request)
        }
        Err(refused) => *refused,
    };
    if let Some(console) = console {
        console.finish();
    }
    let origin = Origin { name: "code".into(), code: args.code };
    Shown { run, origin }.print(args.output)
}
