//! `toolgate compute`: one function over data that stays here.

use std::sync::Arc;

use toolgate_output::OutputSettings;
use toolgate_run::{Door, RunRequest};
use toolgate_wire::Profile;

use super::run::print_shaped;
use super::{Exit, program_config};
use crate::args::programs::ComputeArgs;
use crate::args::servers::Servers;
use crate::print::console::Console;
use crate::print::report::{Origin, Shown};
use crate::runner::{memory_of, run_configured, run_once, text};
use crate::tools;

pub(crate) fn compute(args: ComputeArgs) -> anyhow::Result<Exit> {
    let limits = args.bounds.limits();
    let room = memory_of(&limits, Profile::Compute)?;
    let data = args.data.map_or(Ok(Ok("null".into())), |source| source.data(room))?;

    let config = program_config::settings_only(&Servers::default())?;
    let console = (!args.output.json).then(Console::start).transpose()?;
    let (run, settings) = match text(Some(data)) {
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
                Some(config) => run_configured(config, args.bounds.sandbox.isolation_if_asked(), request)?,
                None => {
                    let run = run_once(args.bounds.sandbox.isolation(), tools::bridge(None)?, request);
                    (run, OutputSettings::default())
                }
            }
        }
        Err(refused) => (*refused, OutputSettings::default()),
    };
    if let Some(console) = console {
        console.finish();
    }
    let origin = Origin { name: "code".into(), code: args.code };
    let shown = Shown { run, origin };
    let in_part = args.max_output.is_some() || args.intent.is_some();
    if args.output.json || !in_part || shown.run.report.value().is_err() {
        return shown.print(args.output);
    }
    shown.warn();
    print_shaped(&shown.run.report, args.max_output, args.intent.as_deref(), settings)?;
    Ok(Exit::Done)
}
