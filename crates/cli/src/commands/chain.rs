//! `toolgate run` with tools, of a scripted file or of real servers: the result shaped, the calls listed.

use std::sync::Arc;

use toolgate_gateway::chain::{Chain, ChainRequest};
use toolgate_output::OutputSettings;
use toolgate_wire::{Profile, Report};

use super::Exit;
use super::servers::{Opened, spinner};
use crate::args::RunArgs;
use crate::engine;
use crate::print::console::Console;
use crate::print::report::{Origin, Shown};
use crate::print::{Style, error, escape, ledger, note, out};
use crate::tools;
use toolgate_engine::EngineWithRuntime;

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    let limits = args.bounds.limits();
    engine::memory_of(&limits, Profile::Chain)?;
    let code = args.file.code()?;
    let console = (!args.output.json).then(Console::start).transpose()?;
    let request = ChainRequest {
        code: code.clone(),
        limits,
        observer: console.as_ref().map(|console| Arc::new(console.observer()) as _),
        engine: args.bounds.engine(),
        ..ChainRequest::default()
    };
    let report = if args.servers.are_named() { over_servers(args, request)? } else { over_script(args, request)? };
    if let Some(console) = console {
        console.finish();
    }
    let shown = Shown { report, origin: Origin { name: args.file.to_string(), code } };
    if args.output.json {
        return shown.print(args.output);
    }
    note(ledger::table(&shown.report.calls, Style::stderr()));
    if shown.report.value().is_err() {
        return shown.print(args.output);
    }
    shown.warn();
    print(&shown.report, args)?;
    Ok(Exit::Done)
}

fn over_script(args: &RunArgs, request: ChainRequest) -> anyhow::Result<Report> {
    let bridge = tools::bridge(args.tools.as_ref())?;
    let started = EngineWithRuntime::start(engine::for_one_run(args.bounds.isolation()))?;
    let chain = Chain::new(started.engine.clone(), bridge);
    Ok(started.wait(chain.run(request)).report)
}

/// Starts the servers that the program names, and waits for them.
fn over_servers(args: &RunArgs, request: ChainRequest) -> anyhow::Result<Report> {
    let opened = Opened::with_isolation(&args.servers, args.bounds.isolation_if_asked())?;
    opened.within(async |gateway| {
        let catalog = gateway.catalog();
        let named = |name: &str| {
            let identifier = catalog.backend(name).map_or(name, |backend| backend.identifier());
            request.code.contains(name) || request.code.contains(identifier)
        };
        let spinner = spinner("starting servers");
        gateway.settled(gateway.config().settings.limits.start_timeout, named).await;
        spinner.finish_and_clear();
        let request = ChainRequest { functions: gateway.all_functions(), ..request };
        Ok(gateway.chain().run(request).await.report)
    })
}

/// The text that an agent would get.
fn print(report: &Report, args: &RunArgs) -> anyhow::Result<()> {
    let Ok(value) = report.value() else { return Ok(()) };
    let default = OutputSettings::default();
    let max = args.max_output.map_or(default.max_output_size, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let settings = OutputSettings { max_output_size: max, ..default };
    let mut keep = |kept: toolgate_output::results::Kept<'_>| match tools::results() {
        Ok(results) => results.keep(kept),
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
