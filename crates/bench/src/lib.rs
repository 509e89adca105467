//! The numbers of docs/SPECIFICATION.md, measured on this machine: what `toolgate bench` prints.
//!
//! # Layout
//! - `workloads`: the rows, in one table that grows by one line a row
//! - `meter`: samples, statistics, calibration; `one_core`: where rows of one core run
//! - `hosts`: what the programs of the rows call
//! - `natural`: programs as people write them, over records, on every interpreter
//! - `latency`, `durable`, `resume`, `chain`, `policy`, `search`, `types`, `data`, `cliffs`, `v8`, `kill`, `memory`, `throughput`, `http`, `gateway`, `telemetry`, `openapi`: how each row
//!   is measured

#![forbid(unsafe_code)]

mod chain;
mod cliffs;
mod data;
mod durable;
mod gateway;
mod hosts;
mod http;
mod kill;
mod latency;
mod learning;
mod memory;
mod meter;
mod natural;
#[cfg_attr(not(target_os = "linux"), path = "one_core_other.rs")]
mod one_core;
mod openapi;
mod policy;
mod resume;
mod search;
mod telemetry;
mod throughput;
mod types;
mod v8;
mod workloads;

use indicatif::ProgressBar;

pub use self::meter::{Cores, Row};
pub use self::workloads::Workload;

use self::meter::Meter;
use self::workloads::WORKLOADS;

/// Every workload, in the order of the table.
pub fn workloads() -> &'static [Workload] {
    &WORKLOADS
}

/// A name that no workload and no group of workloads has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no workload named {0:?}")]
pub struct UnknownWorkload(pub String);

/// The workloads that were asked for, each once, in the order of the table; all of them for no names.
pub fn choose(names: &[String]) -> Result<Vec<&'static Workload>, UnknownWorkload> {
    if let Some(unknown) = names.iter().find(|name| !WORKLOADS.iter().any(|workload| workload.answers_to(name))) {
        return Err(UnknownWorkload(unknown.clone()));
    }
    let wanted = |workload: &&Workload| names.is_empty() || names.iter().any(|name| workload.answers_to(name));
    Ok(WORKLOADS.iter().filter(wanted).collect())
}

/// Measures one workload with `runs` samples, counted on `progress`.
pub fn measure(workload: &'static Workload, runs: u32, cores: Cores, progress: ProgressBar) -> anyhow::Result<Row> {
    Meter { runs, progress }.row(workload, cores)
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
        check(&["cliffs"], &["context-10000", "keys-1000", "keys-10000", "reply-1mb"]);
        check(&["natural-csv-v8"], &["natural-csv-v8"]);
        check(&["warm", "cold", "warm"], &["cold", "warm"]);
    }

    #[test]
    fn an_unknown_name_is_refused() {
        let refusal = choose(&["wurm".into()]).expect_err("unknown").to_string();
        assert_eq!(refusal, "no workload named \"wurm\"");
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), WORKLOADS.len());
    }
}
