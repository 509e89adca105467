//! `toolgate compute`: one function over data that stays here.

use std::sync::Arc;

use toolgate_engine::Request;
use toolgate_wire::{LimitRequest, Profile};

use super::Exit;
use crate::args::ComputeArgs;
use crate::engine::{self, Job};
use crate::print::console::Console;
use crate::print::report::{Origin, Shown};

pub(crate) fn compute(args: ComputeArgs) -> anyhow::Result<Exit> {
    let limits = LimitRequest { result: args.max_output, ..args.bounds.limits() };
    let room = engine::memory_of(&limits, Profile::Compute)?;
    let data = args.data.map_or(Ok(Ok("null".into())), |source| source.data(room))?;

    let console = (!args.output.json).then(Console::start).transpose()?;
    let request = Request {
        limits,
        engine: args.bounds.engine(),
        observer: console.as_ref().map(|console| Arc::new(console.observer()) as _),
        ..Request::new(Profile::Compute, args.code.clone())
    };
    let report = engine::perform(Job { request, data: Some(data), isolation: args.bounds.isolation() });
    if let Some(console) = console {
        console.finish();
    }
    let origin = Origin { name: "code".into(), code: args.code };
    Shown { report, origin }.print(args.output)
}
