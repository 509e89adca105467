//! `toolgate policy`: what can be typed about rules.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::servers::Servers;

/// See `Command::Policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print a first policy for the tools of all servers, for review
    ///
    /// Reads are allowed, the rest is asked about. What a tool does is known from its annotations, from presets for well-known
    /// servers, or from the verb of its name; each rule says from which.
    Draft(DraftArgs),
    /// Say what the policy does to a call, and which rule decides
    ///
    /// For example: toolgate policy explain 'bank.pay({ amount: 500 })'
    Explain(ExplainArgs),
    /// Compare the policy with expected decisions, one JSON object a line
    ///
    /// {"tool": "bank.pay", "arguments": {"amount": 500}, "expect": "ask"}. A line may also have caller, profile, annotations and
    /// counts ({"run": 3, "day": 10}). No server is started, so that annotations are those of the line. Exit code 1 when a
    /// decision is another one.
    Test(TestArgs),
    /// List the rules of the configuration in the order in which they decide, and approvals that are remembered
    List(ListArgs),
    /// Forget an approval that is remembered, by its name in `policy list`
    Revoke(RevokeArgs),
    /// Print rules from the permissions of Claude Code and the approval modes of Codex, for review
    ///
    /// Without files: from the settings of this user and this folder.
    Import(ImportArgs),
}

/// See [`PolicyCommand::Draft`].
#[derive(Debug, Args)]
pub(crate) struct DraftArgs {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print every tool with what is known about it as well
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`PolicyCommand::Explain`].
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// The call: backend.tool, and its arguments in brackets
    #[arg(value_name = "CALL")]
    pub(crate) call: String,
    /// The arguments as JSON, if they are not in the call
    #[arg(value_name = "ARGUMENTS")]
    pub(crate) arguments: Option<String>,
    /// The caller, by the name of its key
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) caller: String,
    /// The kind of run: chain, snippet, compute or direct
    #[arg(long, value_name = "KIND", default_value = "chain", value_parser = ["chain", "snippet", "compute", "direct"])]
    pub(crate) profile: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`PolicyCommand::Test`].
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// The expected decisions
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`PolicyCommand::List`].
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`PolicyCommand::Revoke`].
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// The name, such as remembered-0123456789ab
    #[arg(value_name = "NAME")]
    pub(crate) id: String,
}

/// See [`PolicyCommand::Import`].
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Settings of Claude Code (settings.json) or of Codex (config.toml)
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print what was left out as well
    #[arg(long)]
    pub(crate) json: bool,
}
