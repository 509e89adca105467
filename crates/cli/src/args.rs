//! What can be typed: commands, flags and the help that teaches them.

pub(crate) mod bench;
mod examples;
pub(crate) mod log;
pub(crate) mod logins;
pub(crate) mod policy;
pub(crate) mod programs;
pub(crate) mod runs;
pub(crate) mod servers;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use toolgate_engine::Without;

use self::bench::{BENCH_EXAMPLES, BenchArgs, CHAOS_EXAMPLES, ChaosArgs};
use self::log::{AuditCommand, LogsArgs};
use self::logins::{LoginArgs, LogoutArgs, SecretCommand};
use self::policy::PolicyCommand;
use self::programs::{
    COMPUTE_EXAMPLES, CheckArgs, ComputeArgs, REPLAY_EXAMPLES, RESULT_EXAMPLES, RUN_EXAMPLES, ReplayArgs, ResultArgs,
    RunArgs, TestArgs,
};
use self::runs::{ApproveArgs, DenyArgs, ForkArgs, PendingArgs, RunsCommand};
use self::servers::{
    AddArgs, CallArgs, ConfigCommand, ConnectArgs, DaemonArgs, DescribeArgs, DisconnectArgs, ImportArgs, InitArgs,
    ListArgs, RemoveArgs, RestartArgs, SearchArgs, ServeArgs, TrustArgs, TypesArgs, UiArgs,
};

/// Runs code that an AI agent wrote, in a sealed process of its own.
///
/// The program gets no files, no network, no environment: only what it is given. It is killed at its deadline.
#[derive(Debug, Parser)]
#[command(name = "toolgate", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  toolgate ui --demo                                   the page in the browser, over the demo server
  toolgate run examples/tour.ts --demo                 a program over the demo, a real MCP server
  toolgate import                                      take over the servers of your MCP clients
  toolgate connect claude-code                         put Toolgate in front of an agent
  toolgate run examples/hello.ts                       run a TypeScript file
  echo 'return 6 * 7' | toolgate run -                 run what comes on standard input
  toolgate compute '(d) => d.length' --data big.json   one function over data that stays here
  toolgate doctor                                      what confines programs on this machine

Exit codes: 0 the program returned, 1 it failed, 2 the command was used wrongly.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Be the MCP server that agents talk to, in front of all configured ones
    ///
    /// On standard input and output, which is how MCP clients start it; or over HTTP. Answers at once from the tool cache
    /// while the servers start. Changes of the configuration file are picked up while it runs.
    #[command(after_help = examples::SERVE)]
    Serve(ServeArgs),
    /// Open the page in the browser: backends, runs, tools, a playground
    ///
    /// Serves it at an address of this machine until Ctrl-C, and prints a link that signs one browser in. `serve --http`
    /// has the same page at its address, for a key or the token of its user.
    #[command(after_help = examples::UI)]
    Ui(UiArgs),
    /// Be one gateway for all windows: `serve` attaches to it while it runs
    ///
    /// In the foreground, until it is ended. The servers are started once, in this folder and with this environment. With
    /// `toolgate.share` in the configuration, `serve` starts it by itself.
    #[cfg(unix)]
    Daemon(DaemonArgs),
    /// Start a server again in every Toolgate that runs with the configuration
    ///
    /// Exit code 0 when it is up everywhere, 1 when it is not or no Toolgate runs.
    #[cfg(unix)]
    Restart(RestartArgs),
    /// Write a first configuration file
    Init(InitArgs),
    /// Take over the servers that MCP clients on this machine have
    #[command(after_help = examples::IMPORT)]
    Import(ImportArgs),
    /// Add a server to the configuration: a program after --, a URL, or an HTTP API with an OpenAPI document
    Add(AddArgs),
    /// Remove a server from the configuration
    Remove(RemoveArgs),
    /// Connect to all servers and show state, tools, latency and logins
    #[command(after_help = examples::LIST)]
    List(ListArgs),
    /// Log in at a server that asks for it, with a browser
    ///
    /// Prints a URL, and opens it in a browser where there is one. The browser comes back to this machine by itself. From
    /// another machine, open the URL there and paste the address of the page that it ends at, which cannot be shown there.
    #[command(after_help = examples::LOGIN)]
    Login(LoginArgs),
    /// Forget the login at a server
    Logout(LogoutArgs),
    /// Keep secrets in the keyring of the system, or in encrypted files, for ${keyring:NAME} in configurations
    #[command(subcommand, after_help = examples::SECRET)]
    Secret(SecretCommand),
    /// Find tools by what they do
    #[command(after_help = examples::SEARCH)]
    Search(SearchArgs),
    /// Describe a tool: schema, types, a ready call
    #[command(after_help = examples::DESCRIBE)]
    Describe(DescribeArgs),
    /// Call a tool
    #[command(after_help = examples::CALL)]
    Call(CallArgs),
    /// About the rules that allow, ask about or deny tool calls
    #[command(subcommand, after_help = examples::POLICY)]
    Policy(PolicyCommand),
    /// Print TypeScript declarations of all tools, for editors
    #[command(after_help = examples::TYPES)]
    Types(TypesArgs),
    /// Put Toolgate into the configuration of an MCP client; a backup is kept
    ///
    /// Servers that Toolgate serves can be taken out of the client in the same step, so that they are not started twice.
    #[command(after_help = examples::CONNECT)]
    Connect(ConnectArgs),
    /// Take Toolgate out of an MCP client, and put back what `connect` took out
    Disconnect(DisconnectArgs),
    /// Trust the configuration file of this folder as it is now
    ///
    /// A file that Toolgate finds in a folder may come from someone else, and its servers are programs that are started.
    /// So its content is used only once it is trusted, and again after each change. Files in your own configuration folder
    /// and files named with --config need no trust.
    Trust(TrustArgs),
    /// About configuration files
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell
    ///
    /// For bash: toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate
    Completions(CompletionsArgs),
    /// Print the manual page
    #[command(hide = true)]
    Man,
    /// About API keys of the HTTP service
    #[command(subcommand, after_help = examples::KEY)]
    Key(KeyCommand),
    /// Be a small MCP server: issues, notes, a clock, a slow tool, a failing tool
    ///
    /// On standard input and output. It is what --demo puts behind the gateway.
    Demo,
    /// Run a JavaScript or TypeScript program and print its result
    ///
    /// The program is the body of an async function (`return` and `await` work), a module with `export default` or
    /// `export function main`, or an async arrow function. Its result is printed as JSON on standard output, its console
    /// on standard error.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Repeat a recorded run: no tool is called, no server started
    ///
    /// The program gets the messages that it got then, and what it says is compared. The first difference ends it as
    /// DIVERGED. Exit code as for `run`; with --assert 0 when the report equals the recorded one, 1 otherwise.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Replay all cassettes of a folder: each must give its recorded report
    ///
    /// No server is started and no socket opened. Exit code 0 when all are the same, 1 otherwise.
    Test(TestArgs),
    /// About durable runs: list, show, abort, forget, export them
    ///
    /// Works on the store of the configuration, whether or not a service runs. Runs are begun with POST /v1/runs.
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Begin a run that keeps the first answered calls of a durable run and goes on live from there
    ///
    /// Calls that are not kept are made, also where the earlier run made them: count the effects before.
    Fork(ForkArgs),
    /// Show the calls of paused runs that wait for a decision
    Pending(PendingArgs),
    /// Let calls be made that wait for a decision; a service with the same store goes on with their run
    Approve(ApproveArgs),
    /// Refuse calls that wait for a decision: they fail with DENIED
    Deny(DenyArgs),
    /// Look over a program's tool calls without running it
    ///
    /// Lists the calls on standard output and what is wrong with them on standard error. Exit code 0 when nothing must go
    /// wrong, 1 otherwise.
    Check(CheckArgs),
    /// Read a result of which `run --tools` showed a part
    ///
    /// Results are kept for an hour, 64 MB of them. Path, lines and text each narrow what the one before left.
    #[command(after_help = RESULT_EXAMPLES)]
    Result(ResultArgs),
    /// Apply one function to JSON data and print its result
    ///
    /// The function runs where the data is; only its result leaves. It must be one plain (not async) function expression.
    #[command(after_help = COMPUTE_EXAMPLES)]
    Compute(ComputeArgs),
    /// About the audit log
    #[command(subcommand, after_help = examples::AUDIT)]
    Audit(AuditCommand),
    /// Show the log lines of `serve` and `ui`, also of those that an MCP client started
    #[command(after_help = examples::LOGS)]
    Logs(LogsArgs),
    /// Show what confines programs on this machine, layer by layer
    ///
    /// Starts a real worker and looks at it from outside; no other program is executed. Exit code 0 when programs can be run in a process of their own,
    /// 1 when they cannot.
    #[command(after_help = examples::DOCTOR)]
    Doctor(DoctorArgs),
    /// Measure speed and size on this machine
    ///
    /// Each row comes with `calibration`: the microseconds that a fixed loop took on this machine at that moment, so that
    /// numbers of different machines and hours can be compared.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Kill parts of a gateway at random while programs run through it, and check every answer and every effect
    ///
    /// Starts a gateway of its own with servers that count; nothing that is configured is touched. Exit code 0 when no
    /// answer was wrong, no effect was made twice or misreported, and no process was left behind.
    #[command(after_help = CHAOS_EXAMPLES)]
    Chaos(ChaosArgs),
}

/// See [`Command::Completions`].
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// See [`Command::Key`].
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key, and print it with the entry for the configuration
    New(KeyNewArgs),
}

/// See [`KeyCommand::New`].
#[derive(Debug, Args)]
pub(crate) struct KeyNewArgs {
    /// Its name in the configuration, for logs
    #[arg(value_name = "NAME", default_value = "client")]
    pub(crate) name: String,
    /// Print one JSON object: key, hash
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`Command::Doctor`].
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Leave a layer off, to see what doctor says when it is missing
    #[arg(long, value_name = "LAYER", value_enum)]
    pub(crate) without: Vec<Layer>,
    /// Be an MCP server whose one tool tells what its client does with a question to the user
    #[arg(long, conflicts_with_all = ["without", "config", "json"])]
    pub(crate) client: bool,
    /// The configuration that may name a deno; otherwise ./toolgate.* or the one in ~/.config/toolgate
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl DoctorArgs {
    /// The layers to leave off.
    pub(crate) fn left_off(&self) -> Without {
        Without {
            landlock: self.without.contains(&Layer::Landlock),
            namespaces: self.without.contains(&Layer::Namespaces),
            seccomp: self.without.contains(&Layer::Seccomp),
        }
    }
}

/// Layers that can be left off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layer {
    Landlock,
    Namespaces,
    Seccomp,
}

impl Layer {
    /// Its name in doctor's answer.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Layer::Landlock => "landlock",
            Layer::Namespaces => "namespaces",
            Layer::Seccomp => "seccomp",
        }
    }
}
