//! `toolgate run`: a program from a file, its result on standard output.

use std::sync::Arc;

use toolgate_engine::Request;
use toolgate_wire::Profile;

use super::{Exit, Usage};
use crate::args::RunArgs;
use crate::engine::{self, Job};
use crate::input::Source;
use crate::print::console::Console;
use crate::print::report::{Origin, Shown};

pub(crate) fn run(args: RunArgs) -> anyhow::Result<Exit> {
    if args.file == Source::Stdin && args.context == Some(Source::Stdin) {
        return Err(Usage("only one of FILE and --context can be standard input".into()).into());
    }
    let profile = Profile::from(args.profile);
    let limits = args.bounds.limits();
    let room = engine::memory_of(&limits, profile)?;
    let code = args.file.code()?;
    let context = args.context.map(|source| source.data(room)).transpose()?;

    let console = (!args.output.json).then(Console::start).transpose()?;
    let request = Request {
        limits,
        seed: args.seed,
        engine: args.bounds.engine(),
        observer: console.as_ref().map(|console| Arc::new(console.observer()) as _),
        ..Request::new(profile, code.clone())
    };
    let report = engine::perform(Job { request, data: context, isolation: args.bounds.isolation() });
    if let Some(console) = console {
        console.finish();
    }
    let origin = Origin { name: args.file.to_string(), code };
    Shown { report, origin }.print(args.output)
}
