//! `toolgate fork`: a new run that keeps the first answered calls of a durable run and goes on live from there.
//!
//! The run is executed here, over the servers of the configuration, and kept in the store like every durable run: a service
//! with the same store goes on with it if this process dies.

use anyhow::Context;
use toolgate_run::durable::{DurableError, DurableRuns, ForkedRun};
use toolgate_run::{PausedRun, RunReport};

use super::runs::{RunStore, find, line_of};
use super::servers::Opened;
use super::{Exit, Usage};
use crate::args::runs::ForkArgs;
use crate::print::report::{Origin, Shown};
use crate::print::{Style, counted, escape, ledger, note};
use crate::runner::cancel_on_signal;

pub(crate) fn fork(args: &ForkArgs) -> anyhow::Result<Exit> {
    let opened = Opened::new(&args.servers)?;
    let shown = opened.within(async |gateway| {
        let runs = gateway.keep_runs().await.context("cannot open the store of durable runs")?;
        let row = find(&RunStore::of(runs.journal().clone()), &args.run).await?;
        let forked = runs.fork(&row.run, None, args.from).await.map_err(|error| match error {
            DurableError::Fork(fault) => anyhow::Error::from(Usage(fault.to_string())),
            other => other.into(),
        })?;
        announce(args, &forked);
        let code = code_of(&runs, &forked.run).await;
        let origin = Origin { name: forked.run.clone(), code };
        Ok(Shown { run: until_end(&runs, forked).await?, origin })
    })?;
    if args.output.json {
        return shown.print(args.output);
    }
    note(ledger::table(&shown.run.report.calls, Style::stderr()));
    match &shown.run.paused {
        Some(paused) => Ok(waits(paused)),
        None => shown.print(args.output),
    }
}

/// What a person should know before the first call is made.
fn announce(args: &ForkArgs, forked: &ForkedRun) {
    if args.output.json {
        return;
    }
    let style = Style::stderr();
    let kept = counted(args.from, "answered call");
    note(style.faint(format_args!("the run {} keeps {kept}", escape::line(&forked.run))));
    if forked.left_out > 0 {
        let effects = counted(forked.left_out, "effect");
        let warning = style.warn("warning:");
        note(format_args!(
            "{warning} {effects} of the earlier run may be made again, because the fork does not keep them"
        ));
    }
}

/// The end of the run, or its pause; Ctrl-C and SIGTERM abort it.
async fn until_end(runs: &DurableRuns, forked: ForkedRun) -> anyhow::Result<RunReport> {
    let id = forked.run.clone();
    let cancelled = tokio_util::sync::CancellationToken::new();
    let signals = cancel_on_signal(cancelled.clone());
    let mut ending = std::pin::pin!(runs.end_of_fork(forked));
    let report = tokio::select! {
        report = &mut ending => report,
        () = cancelled.cancelled() => {
            runs.abort(&id, None).await?;
            ending.await
        }
    };
    signals.abort();
    Ok(report)
}

/// The program, to point into.
async fn code_of(runs: &DurableRuns, run: &str) -> String {
    let record = runs.journal().header(run).await.unwrap_or_default();
    let code = record.header().and_then(|header| record.blobs.text(&header.code).ok());
    code.map(str::to_owned).unwrap_or_default()
}

/// Says what a run waits for, and how a person decides.
pub(super) fn waits(paused: &PausedRun) -> Exit {
    let run = escape::line(&paused.run_id);
    note(format_args!("the run {run} waits for decisions:"));
    for call in &paused.pending {
        note(line_of(&paused.run_id, call));
    }
    note(format_args!(
        "decide with `toolgate approve {run} CALL` or `toolgate deny {run} CALL`; a gateway with the same store goes on with it"
    ));
    Exit::Failed
}
