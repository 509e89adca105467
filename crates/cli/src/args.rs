//! What can be typed: commands, flags and the help that teaches them.

pub(crate) mod logins;
pub(crate) mod policy;
pub(crate) mod runs;
pub(crate) mod servers;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use toolgate_engine::{EngineChoice, IsolationMode, Without};
use toolgate_output::results::{KeyPath, LineRange};
use toolgate_wire::{LimitRequest, Profile};

use self::logins::{LoginArgs, LogoutArgs, SecretCommand};
use self::policy::PolicyCommand;
use self::runs::{ApproveArgs, DenyArgs, ForkArgs, PendingArgs, RunsCommand};
use self::servers::{
    AddArgs, CallArgs, ConfigCommand, ConnectArgs, DaemonArgs, DescribeArgs, DisconnectArgs, ImportArgs, InitArgs,
    ListArgs, RemoveArgs, RestartArgs, SearchArgs, ServeArgs, Servers, TrustArgs, TypesArgs, UiArgs,
};
use crate::input::Source;
use crate::units::{duration, size};

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
  toolgate run examples/tour.ts --demo                 a program over a real MCP server, the demo inside
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
    Serve(ServeArgs),
    /// Open the page in the browser: backends, runs, tools, a playground
    ///
    /// Serves it at an address of this machine until Ctrl-C, and prints a link that signs one browser in. `serve --http`
    /// has the same page at its address, for a key or the token of its user.
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
    Import(ImportArgs),
    /// Add a server to the configuration: a program after --, a URL, or an HTTP API with an OpenAPI document
    Add(AddArgs),
    /// Remove a server from the configuration
    Remove(RemoveArgs),
    /// Connect to all servers and show state, tools, latency and logins
    List(ListArgs),
    /// Log in at a server that asks for it, with a browser
    ///
    /// Prints a URL, and opens it in a browser where there is one. The browser comes back to this machine by itself. From
    /// another machine, open the URL there and paste the address of the page that it ends at, which cannot be shown there.
    Login(LoginArgs),
    /// Forget the login at a server
    Logout(LogoutArgs),
    /// Keep secrets in the keyring of the system, or in encrypted files, for ${keyring:NAME} in configurations
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Find tools by what they do
    Search(SearchArgs),
    /// Describe a tool: schema, types, a ready call
    Describe(DescribeArgs),
    /// Call a tool
    Call(CallArgs),
    /// About the rules that allow, ask about or deny tool calls
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Print TypeScript declarations of all tools, for editors
    Types(TypesArgs),
    /// Put Toolgate into the configuration of an MCP client; a backup is kept
    ///
    /// Servers that Toolgate serves can be taken out of the client in the same step, so that they are not started twice.
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
    #[command(subcommand)]
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
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Show the log lines of `serve` and `ui`, also of those that an MCP client started
    Logs(LogsArgs),
    /// Show what confines programs on this machine, layer by layer
    ///
    /// Starts a real worker and looks at it from outside; no other program is executed. Exit code 0 when programs can be run in a process of their own,
    /// 1 when they cannot.
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

/// See [`Command::Audit`].
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check the chain of the audit log, archives included
    ///
    /// Exit code 0 when every line follows from the one before it, 1 otherwise. A line that was changed, added, moved or
    /// removed is found. What was cut off at the end is not, unless you name a hash that an earlier check printed.
    Verify(AuditVerifyArgs),
    /// Show calls of the audit log, the last ones first: who, what, which rule, who approved it
    ///
    /// Of the log itself; archives are read by `verify` alone.
    Show(AuditShowArgs),
}

/// See [`AuditCommand::Show`].
#[derive(Debug, Args)]
pub(crate) struct AuditShowArgs {
    /// The log; otherwise the one of the configuration, or ~/.local/state/toolgate/audit.jsonl
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Only calls of this run, by its id or its beginning
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Only calls of tools with this text in their name
    #[arg(long, value_name = "TEXT")]
    pub(crate) tool: Option<String>,
    /// How many calls
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub(crate) lines: usize,
    /// Print the lines as they are: one JSON object each
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`AuditCommand::Verify`].
#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// The log; otherwise the one of the configuration, or ~/.local/state/toolgate/audit.jsonl
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// A hash that must be in the chain: the head that an earlier check printed
    #[arg(long, value_name = "HASH")]
    pub(crate) expect: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`Command::Logs`].
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// How many lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    pub(crate) lines: usize,
    /// Go on with lines as they come, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only lines of this level or worse
    #[arg(long, value_enum, default_value = "debug")]
    pub(crate) level: LogLevel,
    /// Print the lines as they are: one JSON object each
    #[arg(long)]
    pub(crate) json: bool,
}

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LogLevel {
    /// Something does not work
    Error,
    /// Something is wrong
    Warn,
    /// One line for each run
    Info,
    /// One line for each call
    Debug,
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

/// See [`Command::Run`].
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("toolset").args(["tools", "config", "demo", "no_servers"])))]
pub(crate) struct RunArgs {
    /// The program, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Source,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    /// The kind of run: its globals and default limits
    #[arg(long, value_enum, default_value = "chain")]
    pub(crate) profile: RunProfile,
    /// Tools that the program can call, as a JSON file describes and plays them
    ///
    /// The result is then shaped for a context window, and the calls are listed on standard error.
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<Source>,
    /// Run over the servers of a configuration, or of the demo
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Start no servers, also if a configuration is found and the program names one
    #[arg(long)]
    pub(crate) no_servers: bool,
    /// With tools: keep only the parts of a long result that have to do with this
    #[arg(long, value_name = "TEXT")]
    pub(crate) intent: Option<String>,
    /// With tools: the most bytes of result to print; the rest is kept
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) max_output: Option<u64>,
    /// JSON that the program sees as `context`, from a file or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<Source>,
    /// Where random numbers start; the same seed gives the same numbers
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Send no write: reads run, every other call gets a placeholder, and the review is printed
    #[arg(long, conflicts_with = "record")]
    pub(crate) dry_run: bool,
    /// Write a cassette: everything that the program got and said, for `replay`; secrets become stand-ins
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

const RUN_EXAMPLES: &str = "\
Examples:
  toolgate run script.ts --timeout 2s --memory 64MB
  toolgate run script.ts --context order.json --seed 7
  toolgate run examples/tour.ts --demo                 over the demo server, a real process
  toolgate run script.ts                               over the configured servers that it names
  toolgate run script.ts --config toolgate.json        over the servers of another file
  toolgate run examples/chain.ts --tools examples/demo.json
  echo 'return crypto.randomUUID()' | toolgate run - --profile snippet
  toolgate run script.ts --dry-run                     which writes it would send, without sending any
  toolgate run script.ts --json | jq .usage            the whole report as one JSON object";

/// See [`Command::Replay`].
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The cassette that `run --record` wrote
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Run this changed program against the recorded answers; a call that was not recorded fails
    #[arg(long, value_name = "PROGRAM", conflicts_with = "assert")]
    pub(crate) edit: Option<Source>,
    /// Make calls of the changed program that were not recorded, if they are known to change nothing
    #[arg(long, value_enum, requires = "edit")]
    pub(crate) live: Option<LiveCalls>,
    /// The servers of such calls
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Fail unless the report equals the recorded one, byte for byte; what is measured is the record's
    #[arg(long)]
    pub(crate) assert: bool,
    /// What keeps the program from the rest of the machine
    #[arg(long, value_enum)]
    isolation: Option<Isolation>,
    /// The interpreter; that of the record when absent
    #[arg(long, value_enum)]
    engine: Option<Interpreter>,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl ReplayArgs {
    /// The interpreter asked for.
    pub(crate) fn engine(&self) -> Option<EngineChoice> {
        self.engine.map(EngineChoice::from)
    }

    /// The isolation asked for, or the platform's default.
    pub(crate) fn isolation(&self) -> IsolationMode {
        self.isolation_if_asked().unwrap_or_default()
    }

    /// The isolation asked for.
    pub(crate) fn isolation_if_asked(&self) -> Option<IsolationMode> {
        self.isolation.map(IsolationMode::from)
    }
}

/// Which calls that were not recorded are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LiveCalls {
    /// Those that only read
    Read,
}

/// See `Command::Test`.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// The folder with cassettes (*.jsonl), and those below it
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Write the new report into a cassette whose report differs, unless its program diverges
    #[arg(long)]
    pub(crate) update: bool,
    /// Write the results in the form of JUnit
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Print one JSON object for each cassette
    #[arg(long)]
    pub(crate) json: bool,
    /// What keeps the programs from the rest of the machine
    #[arg(long, value_enum)]
    isolation: Option<Isolation>,
}

impl TestArgs {
    /// The isolation asked for, or the platform's default.
    pub(crate) fn isolation(&self) -> IsolationMode {
        self.isolation.map(IsolationMode::from).unwrap_or_default()
    }
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  toolgate run examples/tour.ts --demo --record tour.jsonl
  toolgate replay tour.jsonl --assert                  the same run again, without the server
  toolgate replay tour.jsonl --edit changed.ts         a changed program, the same answers";

/// See [`Command::Check`].
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The program, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Source,
    /// Tools that the program can call, as for `run`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "demo"])]
    pub(crate) tools: Option<Source>,
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print one JSON object: calls, errors, warnings
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`Command::Result`].
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// The id that the footer of the result names
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Only the value at this path, such as `results.items[3]`
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<KeyPath>,
    /// Only these lines, such as 10-40
    #[arg(long, value_name = "LINES")]
    pub(crate) lines: Option<LineRange>,
    /// Only what contains this, in any case
    #[arg(long, value_name = "TEXT")]
    pub(crate) grep: Option<String>,
    /// The most bytes to print
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "200000")]
    pub(crate) max_output: u64,
}

const RESULT_EXAMPLES: &str = "\
Examples:
  toolgate result res_00112233445566778899aabbccddeeff
  toolgate result res_00112233445566778899aabbccddeeff --path 'results.items[3]'
  toolgate result res_00112233445566778899aabbccddeeff --lines 10-40 --grep error";

/// See [`Command::Compute`].
#[derive(Debug, Args)]
pub(crate) struct ComputeArgs {
    /// The function, such as '(data) => data.length'
    #[arg(value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) code: String,
    /// JSON data, from a file or - for standard input; `null` when absent
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<Source>,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    /// The most bytes that the result's JSON may have
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) max_output: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

const COMPUTE_EXAMPLES: &str = "\
Examples:
  toolgate compute '(data) => data.filter(d => d.risk > 90).map(d => d.name)' --data customers.json
  curl -s https://example.com/items.json | toolgate compute '(d) => d.items.length' --data -
  toolgate compute '() => 2 ** 32'";

/// Flags that bound a run.
#[derive(Debug, Args)]
pub(crate) struct Bounds {
    /// Wall time, such as 500ms, 2s or 1m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Memory of everything the program allocates, such as 64MB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// What keeps the program from the rest of the machine
    #[arg(long, value_enum)]
    isolation: Option<Isolation>,
    /// The interpreter; V8 needs a deno
    #[arg(long, value_enum)]
    engine: Option<Interpreter>,
}

impl Bounds {
    /// The limits asked for.
    pub(crate) fn limits(&self) -> LimitRequest {
        LimitRequest { wall: self.timeout, memory: self.memory, ..LimitRequest::default() }
    }

    /// The interpreter asked for.
    pub(crate) fn engine(&self) -> Option<EngineChoice> {
        self.engine.map(EngineChoice::from)
    }

    /// The isolation asked for, or the platform's default.
    pub(crate) fn isolation(&self) -> IsolationMode {
        self.isolation_if_asked().unwrap_or_default()
    }

    /// The isolation asked for.
    pub(crate) fn isolation_if_asked(&self) -> Option<IsolationMode> {
        self.isolation.map(IsolationMode::from)
    }
}

impl From<Isolation> for IsolationMode {
    fn from(isolation: Isolation) -> Self {
        match isolation {
            Isolation::Process => IsolationMode::Process,
            Isolation::Thread => IsolationMode::Thread,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Isolation {
    /// A fresh process under an operating-system jail
    Process,
    /// A thread of this process: the interpreter alone
    Thread,
}

/// What runs a program.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Interpreter {
    /// QuickJS; a run that computes for long moves to V8
    Auto,
    /// QuickJS only: starts in microseconds
    Quickjs,
    /// V8 only: for heavy computation
    V8,
}

impl From<Interpreter> for EngineChoice {
    fn from(interpreter: Interpreter) -> Self {
        match interpreter {
            Interpreter::Auto => EngineChoice::Auto,
            Interpreter::Quickjs => EngineChoice::QuickJs,
            Interpreter::V8 => EngineChoice::V8,
        }
    }
}

/// Profiles that take a whole program.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RunProfile {
    /// Tool calls, timers, console: 30 s, 50 MB
    Chain,
    /// A quick snippet: 3 s, 16 MB
    Snippet,
}

impl From<RunProfile> for Profile {
    fn from(profile: RunProfile) -> Self {
        match profile {
            RunProfile::Chain => Profile::Chain,
            RunProfile::Snippet => Profile::Snippet,
        }
    }
}

/// How the end of a run is shown.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// Print one report object: outcome, logs, calls, usage, isolation
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

/// See [`Command::Bench`].
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

const BENCH_EXAMPLES: &str = "\
Examples:
  toolgate bench                      every workload, as a table
  toolgate bench warm calls --json    two of them, one JSON object a line
  toolgate bench data --runs 20       data-1000, data-10000 and data-100000, 20 samples each";

/// See [`Command::Chaos`].
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
    /// With --durable: where runs are kept, as postgres://…; otherwise in an SQLite file
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Be the server that writes effects to this file
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) counter: Option<PathBuf>,
}

const CHAOS_EXAMPLES: &str = "\
Examples:
  toolgate chaos                      a minute of kills
  toolgate chaos --duration 10m --seed 7
  toolgate chaos --soak 500000        half a million programs through one gateway: is its memory flat?
  toolgate chaos --durable 10000      durable runs while gateways and workers are killed: is an effect lost or doubled?
  toolgate chaos --durable 2000 --replicas 3 --store postgres://toolgate@localhost/runs";

/// From whatever was typed: a path need not be text.
impl From<OsString> for Source {
    fn from(name: OsString) -> Self {
        if name == "-" { Source::Stdin } else { Source::File(name.into()) }
    }
}
