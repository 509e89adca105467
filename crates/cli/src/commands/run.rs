//! `toolgate run`: a program from a file, its result on standard output.
//!
//! With tools, of a scripted file or of real servers, the result is shaped and the calls are listed.

use std::io::IsTerminal;
use std::sync::Arc;

use toolgate_config::{Env, edit, lookup};
use toolgate_gateway::run::{Door, Readiness, RunReport, RunRequest};
use toolgate_gateway::stage::Staging;
use toolgate_output::OutputSettings;
use toolgate_wire::{Profile, Report};

use super::replay::Recording;
use super::servers::{Opened, spinner};
use super::{Exit, Usage};
use crate::args::programs::RunArgs;
use crate::input::Source;
use crate::print::console::Console;
use crate::print::report::{Origin, Shown};
use crate::print::{Style, error, escape, ledger, note, out, review};
use crate::runner::{memory_of, run_once, run_until_signal, text};
use crate::tools;

pub(crate) fn run(args: RunArgs) -> anyhow::Result<Exit> {
    if args.file == Source::Stdin && args.context == Some(Source::Stdin) {
        return Err(Usage("only one of FILE and --context can be standard input".into()).into());
    }
    let profile = Profile::from(args.profile);
    let limits = args.bounds.limits();
    let room = memory_of(&limits, profile)?;
    let code = args.file.code()?;
    let context = args.context.as_ref().map(|source| source.data(room)).transpose()?;

    let over_servers_too = uses_servers(&args, &code)?;
    let console = (!args.output.json).then(Console::start).transpose()?;
    let recording = args.record.as_ref().map(|_| Recording::of(profile, &code));
    let mut run = match text(context) {
        Ok(data) => {
            let request = RunRequest {
                data,
                limits,
                seed: args.seed,
                engine: args.bounds.engine(),
                observer: console.as_ref().map(|console| Arc::new(console.observer()) as _),
                door: Door::CommandLine,
                staging: if args.dry_run { Staging::Wanted } else { Staging::No },
                ..RunRequest::new(profile, code.clone())
            };
            let request = match &recording {
                Some(recording) => recording.recorded(request),
                None => request,
            };
            if over_servers_too { over_servers(&args, request)? } else { over_script(&args, request)? }
        }
        Err(refused) => *refused,
    };
    if let Some(console) = console {
        console.finish();
    }
    if let (Some(recording), Some(path)) = (recording, &args.record) {
        recording.save(&mut run, path)?;
    }
    if let Some(lines) = run.review.as_ref().filter(|_| !args.output.json) {
        review::print(lines)?;
        if review::ended_early(lines) {
            return Ok(Exit::Done);
        }
    }
    let shown = Shown { run, origin: Origin { name: args.file.to_string(), code } };
    let has_tools = args.tools.is_some() || over_servers_too;
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
    print(&shown.run.report, &args)?;
    Ok(Exit::Done)
}

/// Whether the run is over servers: those that were asked for, or those of a configuration that the program names.
fn uses_servers(args: &RunArgs, code: &str) -> anyhow::Result<bool> {
    if args.servers.are_named() {
        return Ok(true);
    }
    if args.no_servers || args.tools.is_some() {
        return Ok(false);
    }
    // A configuration that cannot be read is no reason not to run a program that needs none.
    let Ok(Some(found)) = lookup::find(None, &Env::of_process()) else { return Ok(false) };
    let names = edit::server_names(&found.path).unwrap_or_default();
    Ok(names.iter().any(|name| mentions(code, name)))
}

/// Whether a program seems to use a server: by its name, or as the identifier that stands for it.
fn mentions(code: &str, name: &str) -> bool {
    let identifier: String = name.chars().map(|c| if c.is_alphanumeric() || c == '$' { c } else { '_' }).collect();
    !name.is_empty() && (code.contains(name) || code.contains(&identifier))
}

/// Over the tools of a file; over none without one.
fn over_script(args: &RunArgs, request: RunRequest) -> anyhow::Result<RunReport> {
    let bridge = tools::bridge(args.tools.as_ref())?;
    Ok(run_once(args.bounds.isolation(), bridge, request))
}

/// Over the servers of a configuration. The run itself waits for those that the program names.
fn over_servers(args: &RunArgs, request: RunRequest) -> anyhow::Result<RunReport> {
    let opened = Opened::with_isolation(&args.servers, args.bounds.isolation_if_asked())?;
    opened.within(async |gateway| {
        let spinner = spinner("starting the servers that the program names");
        // A server may take longer to start than a program to run: that time is not the program's.
        let within = gateway.config().settings.limits.start_timeout;
        gateway.wait_for_named(&request.text, &request.caller, Readiness::Ready, within).await;
        spinner.finish_and_clear();
        Ok(run_until_signal(gateway.runner(), request).await)
    })
}

/// The text that an agent would get.
fn print(report: &Report, args: &RunArgs) -> anyhow::Result<()> {
    let Ok(value) = report.value() else { return Ok(()) };
    let default = OutputSettings::default();
    let max = args.max_output.map_or(default.max_output_size, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let settings = OutputSettings { max_output_size: max, ..default };
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
    let response = toolgate_output::shape(value.get(), &settings, args.intent.as_deref(), &mut keep);
    out(escape::text(&response.text))?;
    if let Some(id) = response.result_id {
        note(Style::stderr().faint(format_args!("the whole result: toolgate result {id}")));
    }
    Ok(())
}
