//! Flags of `bench` and `chaos`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::units::duration;

/// See `Command::Bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure; everything when absent, `data` for its three sizes
    #[arg(value_name = "WORKLOAD")]
    pub(crate) workloads: Vec<String>,
    /// Samples to take of each workload, instead of its own number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) runs: Option<u32>,
    /// Use all cores for every row; otherwise all rows but `throughput` stay on one
    #[arg(long)]
    pub(crate) all_cores: bool,
    /// List the workloads and what each measures
    #[arg(long)]
    pub(crate) list: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const BENCH_EXAMPLES: &str = "\
Examples:
  toolgate bench                      every workload, as a table
  toolgate bench warm calls --json    two of them, one JSON object a line
  toolgate bench data --runs 20       data-1000, data-10000 and data-100000, 20 samples each";

/// See `Command::Chaos`.
#[derive(Debug, Args)]
pub(crate) struct ChaosArgs {
    /// How long to kill
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// How many clients send programs at one time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) connections: u16,
    /// Determines what is killed; otherwise random, and printed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Kill nothing: send this many programs, and print the gateway's memory fifty times
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) soak: Option<u64>,
    /// Kill gateways and workers under this many durable runs, until all have ended: is an effect lost or doubled?
    #[arg(long, value_name = "RUNS", conflicts_with = "soak", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) durable: Option<u64>,
    /// With --durable: how many gateways share the store
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(crate) replicas: u16,
    /// With --durable: where runs are kept, as postgres://…, or sqlite for a file; each of several in turn
    #[arg(long, value_name = "STORE", value_parser = chaos_store)]
    pub(crate) store: Vec<ChaosStore>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Be the server that writes effects to this file
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) counter: Option<PathBuf>,
}

pub(super) const CHAOS_EXAMPLES: &str = "\
Examples:
  toolgate chaos                      a minute of kills
  toolgate chaos --duration 10m --seed 7
  toolgate chaos --soak 500000        half a million programs through one gateway: is its memory flat?
  toolgate chaos --durable 10000      durable runs while gateways and workers are killed: is an effect lost or doubled?
  toolgate chaos --durable 10000 --connections 32 --store sqlite --store postgres://toolgate@localhost/runs
  toolgate chaos --durable 2000 --replicas 3 --store postgres://toolgate@localhost/runs";

/// Where the durable runs of a test are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ChaosStore {
    /// In an SQLite file.
    #[default]
    Sqlite,
    /// In this PostgreSQL database.
    Postgres(String),
}

fn chaos_store(text: &str) -> Result<ChaosStore, String> {
    match text {
        "sqlite" => Ok(ChaosStore::Sqlite),
        url if ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) => {
            Ok(ChaosStore::Postgres(url.to_owned()))
        }
        _ => Err("use sqlite, or the URL of a database such as postgres://toolgate@localhost/runs".to_owned()),
    }
}
