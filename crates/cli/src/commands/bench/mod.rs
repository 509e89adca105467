//! `toolgate bench`: the numbers of docs/SPECIFICATION.md, measured on this machine.
//!
//! # Layout
//! - `workloads`: the rows, in one table that grows by one line a row
//! - `meter`: samples, statistics, calibration, cores
//! - `hosts`: what the programs of the rows call
//! - `latency`, `chain`, `data`, `kill`, `memory`, `throughput`, `http`, `gateway`: how each row is measured

mod chain;
mod data;
mod gateway;
mod hosts;
mod http;
mod kill;
mod latency;
mod memory;
mod meter;
mod throughput;
mod v8;
mod workloads;

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use self::meter::{Cores, Meter, Row};
use self::workloads::{WORKLOADS, Workload};
use super::{Exit, Usage};
use crate::args::BenchArgs;
use crate::print::{Style, error, out};

pub(crate) fn bench(args: &BenchArgs) -> anyhow::Result<Exit> {
    if args.list {
        return list();
    }
    let chosen = choose(&args.workloads)?;
    if !args.json {
        out(heading(Style::stdout()))?;
    }
    let mut exit = Exit::Done;
    for workload in chosen {
        match measure(workload, args) {
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

/// The rows that were asked for, each once, in the order of the table.
fn choose(names: &[String]) -> Result<Vec<&'static Workload>, Usage> {
    if let Some(unknown) = names.iter().find(|name| !WORKLOADS.iter().any(|workload| workload.answers_to(name))) {
        let known: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
        let message =
            format!("no workload named `{}`: there are {}", crate::print::escape::line(unknown), known.join(", "));
        return Err(Usage(message));
    }
    let wanted = |workload: &&Workload| names.is_empty() || names.iter().any(|name| workload.answers_to(name));
    Ok(WORKLOADS.iter().filter(wanted).collect())
}

fn measure(workload: &'static Workload, args: &BenchArgs) -> anyhow::Result<Row> {
    let runs = args.runs.unwrap_or(workload.runs);
    let progress = progress_bar(workload.name, runs);
    let cores = if args.all_cores { Cores::All } else { workload.cores };
    let row = Meter { runs, progress: progress.clone() }.row(workload, cores);
    progress.finish_and_clear();
    row
}

/// Visible only to a person.
fn progress_bar(name: &'static str, runs: u32) -> ProgressBar {
    let target =
        if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("  {msg:<14} {bar:40} {pos}/{len}");
    let bar = ProgressBar::with_draw_target(Some(runs.into()), target).with_message(name);
    bar.enable_steady_tick(Duration::from_millis(200));
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn heading(style: Style) -> String {
    let columns = format!(
        "  {:<14} {:>7} {:>12} {:>12} {:>12}  {:<7} {:>11}",
        "workload", "n", "p50", "p99", "mean", "unit", "calibration"
    );
    style.strong(columns)
}

fn list() -> anyhow::Result<Exit> {
    for workload in WORKLOADS {
        out(format_args!("  {:<14} {}", workload.name, workload.what))?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(asked: &[&str], chosen: &[&str]) {
        let asked: Vec<_> = asked.iter().map(ToString::to_string).collect();
        let names: Vec<_> = choose(&asked).expect("known").iter().map(|workload| workload.name).collect();
        assert_eq!(names, chosen);
    }

    #[test]
    fn a_group_stands_for_its_rows_and_a_name_for_one() {
        check(&["data"], &["data-1000", "data-10000", "data-100000"]);
        check(&["kill"], &["kill"]);
        check(&["warm", "cold", "warm"], &["cold", "warm"]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let refusal = choose(&["wurm".into()]).expect_err("unknown").to_string();
        assert!(refusal.contains("`wurm`") && refusal.contains("kill-native"), "{refusal}");
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), WORKLOADS.len());
    }
}
