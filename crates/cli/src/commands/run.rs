//! `toolgate run`: a program from a file, its result on standard output.
//!
//! With tools, of a scripted file or of real servers, the result is shaped and the calls are listed.

use std::io::IsTerminal;
use std::sync::Arc;

use toolgate_output::OutputSettings;
use toolgate_run::stage::Staging;
use toolgate_run::{Door, Durability, RunReport, RunRequest};
use toolgate_wire::{Profile, Report};

use super::fork;
use super::program_config::{self, ProgramConfig, ServerUse};
use super::replay::Recording;
use super::{Exit, Usage};
use crate::args::programs::RunArgs;
use crate::input::Source;
use crate::print::console::Console;
use crate::print::report::{Origin, Shown};
use crate::print::{Style, error, escape, ledger, note, out, review};
use crate::runner::{memory_of, object, run_configured, run_once, text};
use crate::tools;

pub(crate) fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let program = args.program.source();
    if program == Source::Stdin && args.context == Some(Source::Stdin) {
        return Err(Usage("only one of FILE and --context can be standard input".into()).into());
    }
    let profile = Profile::from(args.profile);
    if args.stage && profile != Profile::Chain {
        return Err(Usage("only programs of the profile chain are staged".into()).into());
    }
    let limits = args.bounds.limits();
    let room = memory_of(&limits, profile)?;
    let code = program.code()?;
    let context = args.context.as_ref().map(|source| source.data(room)).transpose()?;

    let config = configuration_of(&args, &code)?;
    let over_servers = config.as_ref().is_some_and(|it| it.servers == ServerUse::Started);
    // Before the program runs: its effects cannot be taken back where its cassette cannot be written.
    let recording = args.record.as_ref().map(|path| Recording::at(path, profile, &code)).transpose()?;
    let console = (!args.output.json).then(Console::start).transpose()?;
    // The run takes its configuration; what of it is secret is looked up after the run, which may log in.
    let recorded_config = recording.as_ref().and(config.as_ref()).map(|it| it.config.clone());
    let (mut run, settings) = match text(context).and_then(object) {
        Ok(data) => {
            let request = RunRequest {
                data,
                limits,
                seed: args.seed,
                engine: args.bounds.sandbox.engine(),
                observer: console.as_ref().map(|console| Arc::new(console.observer()) as _),
                door: Door::CommandLine,
                staging: if args.dry_run || args.stage { Staging::Wanted } else { Staging::No },
                durable: if args.stage { Durability::Durable } else { Durability::Volatile },
                ..RunRequest::new(profile, code.clone())
            };
            let request = match &recording {
                Some(recording) => recording.recorded(request),
                None => request,
            };
            match config {
                Some(config) => run_configured(config, args.bounds.sandbox.isolation_if_asked(), request)?,
                None => over_script(&args, request)?,
            }
        }
        Err(refused) => (*refused, OutputSettings::default()),
    };
    if let Some(console) = console {
        console.finish();
    }
    let saved = recording.map_or(Ok(()), |recording| recording.save(&mut run, recorded_config.as_ref()));
    let shown = Shown { run, origin: Origin { name: program.to_string(), code } };
    // What the run did is printed whether or not its cassette could be written.
    let end = print(&args, shown, over_servers, settings);
    saved.and(end)
}

/// Prints how the run ended, as far as it was not printed meanwhile.
fn print(args: &RunArgs, shown: Shown, over_servers: bool, settings: OutputSettings) -> anyhow::Result<Exit> {
    let run = &shown.run;
    if let Some(paused) = run.paused.as_ref().filter(|_| !args.output.json) {
        return Ok(fork::waits(paused));
    }
    if let Some(lines) = run.review.as_ref().filter(|_| !args.output.json) {
        // A program that needs a person before its first write has an end of its own.
        if !lines.is_empty() || run.report.failure().is_none() {
            review::print(lines)?;
        }
        if review::ended_early(lines) {
            return Ok(Exit::Done);
        }
    }
    let has_tools = args.tools.is_some() || over_servers || !shown.run.report.calls.is_empty();
    let in_part = args.max_output.is_some() || args.intent.is_some();
    if args.output.json || !(has_tools || in_part) {
        return shown.print(args.output);
    }
    if has_tools && shown.run.review.is_none() {
        note(ledger::table(&shown.run.report.calls, Style::stderr()));
    }
    // Cutting is for models: a person gets the whole, unless it was asked for in part.
    let whole = std::io::stdout().is_terminal() && !in_part;
    if whole || shown.run.report.value().is_err() {
        return shown.print(args.output);
    }
    shown.warn();
    print_shaped(&shown.run.report, args.max_output, args.intent.as_deref(), settings)?;
    Ok(Exit::Done)
}

/// The configuration of the run; none over the tools of a file, which take its place.
fn configuration_of(args: &RunArgs, code: &str) -> anyhow::Result<Option<ProgramConfig>> {
    match (&args.tools, args.no_servers) {
        (Some(_), _) => Ok(None),
        (None, true) => program_config::settings_only(&args.servers),
        (None, false) => program_config::for_program(&args.servers, code),
    }
}

/// Over the tools of a file; over none without one.
fn over_script(args: &RunArgs, request: RunRequest) -> anyhow::Result<(RunReport, OutputSettings)> {
    let bridge = tools::bridge(args.tools.as_ref())?;
    Ok((run_once(args.bounds.sandbox.isolation(), bridge, request), OutputSettings::default()))
}

/// Prints the text that an agent would get.
pub(super) fn print_shaped(
    report: &Report,
    max_output: Option<u64>,
    intent: Option<&str>,
    configured: OutputSettings,
) -> anyhow::Result<()> {
    let Ok(value) = report.value() else { return Ok(()) };
    let max = max_output.map_or(configured.max_output_size, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let settings = OutputSettings { max_output_size: max, ..configured };
    let mut keep = |kept: toolgate_output::results::Kept<'_>| match tools::results() {
        Ok(results) => results.try_keep(kept).unwrap_or_else(|fault| {
            error(&format!("the whole result cannot be kept: {fault}"));
            None
        }),
        Err(fault) => {
            error(&format!("{fault:#}"));
            None
        }
    };
    let response = toolgate_output::shape(value.get(), &settings, intent, &mut keep);
    out(escape::text(&response.text))?;
    if let Some(id) = response.result_id {
        note(Style::stderr().faint(format_args!("the whole result: toolgate result {id}")));
    }
    Ok(())
}
