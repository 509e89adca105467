//! Flags of the commands that run a program, or repeat a run: `run`, `replay`, `test`, `check`, `result`, `compute`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use toolgate_engine::{EngineChoice, IsolationMode};
use toolgate_output::Intent;
use toolgate_output::results::{KeyPath, LineRange};
use toolgate_wire::{LimitRequest, Profile};

use super::servers::Servers;
use crate::input::Source;
use crate::units::{duration, size};

/// See `Command::Run`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("toolset").args(["tools", "config", "demo", "no_servers"])))]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
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
    /// Keep only the parts of a long result that have to do with this
    #[arg(long, value_name = "TEXT")]
    pub(crate) intent: Option<Intent>,
    /// The most bytes of result to print; the rest is kept
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
    /// Send no write before all of them were reviewed: at the terminal, or elsewhere with `toolgate approve`
    #[arg(long, conflicts_with_all = ["record", "dry_run", "tools"])]
    pub(crate) stage: bool,
    /// Write a cassette: everything that the program got and said, for `replay`; secrets become stand-ins
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Where the program of `run` and `check` comes from.
#[derive(Debug, Args)]
pub(crate) struct ProgramArgs {
    /// The program, or - for standard input
    #[arg(value_name = "FILE", required_unless_present = "eval")]
    file: Option<Source>,
    /// The program itself, instead of a file
    #[arg(short, long, value_name = "CODE", conflicts_with = "file", allow_hyphen_values = true)]
    eval: Option<String>,
}

impl ProgramArgs {
    /// The text of the command line, or the file. The parser asks for one of the two.
    pub(crate) fn source(&self) -> Source {
        match &self.eval {
            Some(code) => Source::CommandLine(code.clone()),
            None => self.file.clone().unwrap_or(Source::Stdin),
        }
    }
}

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  toolgate run -e 'return 6 * 7'
  toolgate run script.ts --timeout 2s --memory 64MB
  toolgate run script.ts --context order.json --seed 7
  toolgate run examples/tour.ts --demo                 over the demo server, a real process
  toolgate run script.ts                               over the configured servers that it names
  toolgate run script.ts --config toolgate.json        over the servers of another file
  toolgate run examples/chain.ts --tools examples/demo.json
  echo 'return crypto.randomUUID()' | toolgate run - --profile snippet
  toolgate run script.ts --dry-run                     which writes it would send, without sending any
  toolgate run script.ts --stage                       review its writes together, then send them
  toolgate run script.ts --json | jq .usage            the whole report as one JSON object";

/// See `Command::Replay`.
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
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    #[command(flatten)]
    pub(crate) output: Output,
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

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  toolgate run examples/tour.ts --demo --record tour.jsonl
  toolgate replay tour.jsonl --assert                  the same run again, without the server
  toolgate replay tour.jsonl --edit changed.ts         a changed program, the same answers";

/// See `Command::Check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    /// Tools that the program can call, as for `run`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "demo"])]
    pub(crate) tools: Option<Source>,
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print one JSON object: calls, errors, warnings
    #[arg(long)]
    pub(crate) json: bool,
}

/// See `Command::Result`.
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

pub(super) const RESULT_EXAMPLES: &str = "\
Examples:
  toolgate result res_00112233445566778899aabbccddeeff
  toolgate result res_00112233445566778899aabbccddeeff --path 'results.items[3]'
  toolgate result res_00112233445566778899aabbccddeeff --lines 10-40 --grep error";

/// See `Command::Compute`.
#[derive(Debug, Args)]
pub(crate) struct ComputeArgs {
    /// The function, such as '(data) => data.length'
    #[arg(value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) code: String,
    /// JSON data, from a file (.jsonl and .ndjson: a value on each line) or - for standard input; `null` when absent
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<Source>,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    /// Keep only the parts of a long result that have to do with this
    #[arg(long, value_name = "TEXT")]
    pub(crate) intent: Option<Intent>,
    /// The most bytes of result to print; the rest is kept
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) max_output: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(super) const COMPUTE_EXAMPLES: &str = "\
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
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
}

impl Bounds {
    /// The limits asked for.
    pub(crate) fn limits(&self) -> LimitRequest {
        LimitRequest { wall: self.timeout, memory: self.memory, ..LimitRequest::default() }
    }
}

/// Flags that say what runs a program, and where.
#[derive(Debug, Args)]
pub(crate) struct Sandbox {
    /// What keeps the program from the rest of the machine
    #[arg(long, value_enum)]
    isolation: Option<Isolation>,
    /// The interpreter; V8 needs a deno. A replay takes that of its record when absent
    #[arg(long, value_enum)]
    engine: Option<Interpreter>,
}

impl Sandbox {
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

/// From whatever was typed: a path need not be text.
impl From<OsString> for Source {
    fn from(name: OsString) -> Self {
        if name == "-" { Source::Stdin } else { Source::File(name.into()) }
    }
}
