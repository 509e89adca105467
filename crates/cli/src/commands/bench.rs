//! `toolgate bench`: prints what the benchmark measures.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use toolgate_bench::{Cores, Row, UnknownWorkload, Workload, choose, measure, workloads};

use super::{Exit, Usage};
use crate::args::bench::BenchArgs;
use crate::print::{Style, error, escape, out};

pub(crate) fn bench(args: &BenchArgs) -> anyhow::Result<Exit> {
    if args.list {
        return list();
    }
    let chosen = choose(&args.workloads).map_err(|unknown| Usage(refusal(&unknown)))?;
    if !args.json {
        out(heading(Style::stdout()))?;
    }
    let mut exit = Exit::Done;
    for workload in chosen {
        match row(workload, args) {
            Ok(row) if args.json => out(serde_json::to_string(&row)?)?,
            Ok(row) => out(row.line())?,
            Err(failure) => {
                error(&format!("{}: {failure:#}", workload.name));
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}

/// What was typed may hold anything, so it is escaped.
fn refusal(UnknownWorkload(name): &UnknownWorkload) -> String {
    let known: Vec<_> = workloads().iter().map(|workload| workload.name).collect();
    format!("no workload named `{}`: there are {}", escape::line(name), known.join(", "))
}

fn row(workload: &'static Workload, args: &BenchArgs) -> anyhow::Result<Row> {
    let runs = args.runs.unwrap_or(workload.runs);
    let progress = progress_bar(workload.name, runs);
    let cores = if args.all_cores { Cores::All } else { workload.cores };
    let row = measure(workload, runs, cores, progress.clone());
    progress.finish_and_clear();
    row
}

/// Visible only to a person.
fn progress_bar(name: &'static str, runs: u32) -> ProgressBar {
    let target =
        if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("  {msg:<27} {bar:40} {pos}/{len}");
    let bar = ProgressBar::with_draw_target(Some(runs.into()), target).with_message(name);
    bar.enable_steady_tick(Duration::from_millis(200));
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn heading(style: Style) -> String {
    let columns = format!(
        "  {:<27} {:>7} {:>12} {:>12} {:>12}  {:<7} {:>11}",
        "workload", "n", "p50", "p99", "mean", "unit", "calibration"
    );
    style.strong(columns)
}

fn list() -> anyhow::Result<Exit> {
    for workload in workloads() {
        out(format_args!("  {:<27} {}", workload.name, workload.what))?;
    }
    Ok(Exit::Done)
}
