//! Commands about durable runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use toolgate_config::values::{Period, Setting};

use super::programs::Output;
use super::servers::Servers;
use crate::units::size;

/// See `Command::Runs`.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, the newest first
    List(ListRunsArgs),
    /// Show a run: its status, the calls that wait, its report
    Show(ShowRunArgs),
    /// Print what happened in a run, one event on each line
    Events(ShowRunArgs),
    /// Abort a run; the process that executes it stops it
    Abort(ShowRunArgs),
    /// Forget runs that have ended
    Prune(PruneArgs),
    /// Write a run as a cassette, for `toolgate replay`, or as a page for people
    Export(ExportArgs),
}

/// Where runs are, and how they are shown.
#[derive(Debug, Args)]
pub(crate) struct RunStoreArgs {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// See `RunsCommand::List`.
#[derive(Debug, Args)]
pub(crate) struct ListRunsArgs {
    /// Only runs in this state
    #[arg(long, value_enum)]
    pub(crate) status: Option<Status>,
    /// Only runs of the key of this name; the local user has an empty name
    #[arg(long, value_name = "NAME")]
    pub(crate) caller: Option<String>,
    /// At most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) limit: u16,
    #[command(flatten)]
    pub(crate) store: RunStoreArgs,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Status {
    Running,
    Paused,
    Done,
}

/// One run.
#[derive(Debug, Args)]
pub(crate) struct ShowRunArgs {
    /// The id of the run, or its beginning
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) store: RunStoreArgs,
}

/// See `RunsCommand::Prune`.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Those that ended longer ago than this; otherwise than `toolgate.runs.keep`
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// The oldest, until all take no more than this; otherwise than `toolgate.runs.max_size`
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<u64>,
    #[command(flatten)]
    pub(crate) store: RunStoreArgs,
}

/// See `RunsCommand::Export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The id of the run, or its beginning
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// One page with everything in it, instead of a cassette
    #[arg(long)]
    pub(crate) html: bool,
    /// The file to write; otherwise standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// See `Command::Fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The id of the run, or its beginning
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// How many answered calls are kept; 0 begins anew, with the same random numbers
    #[arg(long, value_name = "NUMBER")]
    pub(crate) from: usize,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// See `Command::Pending`.
#[derive(Debug, Args)]
pub(crate) struct PendingArgs {
    /// Only of this run: its id, or its beginning
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) store: RunStoreArgs,
}

/// See `Command::Approve`.
#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The id of the run, or its beginning
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// The numbers of the calls, as `toolgate pending` shows them
    #[arg(value_name = "CALL", required = true)]
    pub(crate) calls: Vec<u32>,
    /// Send these arguments instead: JSON; for one call
    #[arg(long, value_name = "JSON")]
    pub(crate) arguments: Option<String>,
    /// Do not send it again, and give the program this answer: JSON; for one call whose effect is unknown
    #[arg(long, value_name = "JSON", conflicts_with = "arguments")]
    pub(crate) answer: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Approve later calls of the tool too: those of this run, of this session, or always those with the same arguments
    #[arg(long, value_enum, default_value_t = RememberFor::Once, conflicts_with = "answer")]
    pub(crate) remember: RememberFor,
    /// With `--remember always`: approve calls of which this condition over `args` holds, instead of the same arguments
    #[arg(long, value_name = "CONDITION")]
    pub(crate) when: Option<String>,
    #[command(flatten)]
    pub(crate) store: RunStoreArgs,
}

/// For which calls an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RememberFor {
    /// This one
    Once,
    /// The other calls of the tool in this run
    Run,
    /// Later calls of the caller, until the gateway that goes on with the run ends
    Session,
    /// Later calls of the caller, until `toolgate policy revoke`
    Always,
}

/// See `Command::Deny`.
#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The id of the run, or its beginning
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// The numbers of the calls, as `toolgate pending` shows them
    #[arg(value_name = "CALL", required = true)]
    pub(crate) calls: Vec<u32>,
    /// Why: the program and the report say it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// End the run as well
    #[arg(long)]
    pub(crate) stop: bool,
    #[command(flatten)]
    pub(crate) store: RunStoreArgs,
}

/// An age as the configuration writes it, such as 12h or 7d.
fn age(text: &str) -> Result<Duration, String> {
    Period::parse(text).map(Period::get)
}
