//! The `toolgate` command.
//!
//! # Layout
//! - `args`: what can be typed; `units`: durations and sizes as people write them
//! - `commands`: one file a command; `browser`: starts the browser of the user
//! - `consent`: consent to files that come from a folder
//! - `input`: files and standard input, bounded
//! - `runner`: from flags to a runner, and the signals that end a run
//! - `terminal`: asks the person at the terminal about calls that wait
//! - `tools`: a scripted set of tools, and where long results are kept
//! - `log`: log lines on standard error that hold up nothing
//! - `print`: the only place that writes to a terminal

#![forbid(unsafe_code)]

mod args;
mod browser;
mod commands;
mod consent;
mod input;
mod log;
mod print;
mod runner;
mod terminal;
mod tools;
mod units;

use std::process::ExitCode;

use clap::Parser;

use args::log::AuditCommand;
use args::servers::ConfigCommand;
use args::{Cli, Command, KeyCommand};

fn main() -> ExitCode {
    // Before any thread exists: the engine starts this same program again to get its zygote.
    toolgate_guest::take_over_if_asked();
    hide_memory();
    toolgate_guest::give_back_freed_memory();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => match args::servers::forgotten_dashes(&error) {
            Some(message) => return commands::exit_code(Err(commands::Usage(message).into())),
            None => commands::refused_arguments(&error),
        },
    };
    let Some(command) = cli.command else { return commands::exit_code(commands::shell::next_step()) };
    let end = match command {
        Command::Serve(args) => commands::servers::serve::serve(&args),
        Command::Ui(args) => commands::servers::ui::ui(&args),
        #[cfg(unix)]
        Command::Daemon(args) => commands::servers::sharing::daemon(&args),
        #[cfg(unix)]
        Command::Restart(args) => commands::servers::sharing::restart(&args),
        Command::Init(args) => commands::servers::edit::init(&args),
        Command::Import(args) => commands::servers::import::import(&args),
        Command::Add(args) => commands::servers::edit::add(&args),
        Command::Remove(args) => commands::servers::edit::remove(&args),
        Command::List(args) => commands::servers::list::list(&args),
        Command::Login(args) => commands::logins::login::login(&args),
        Command::Logout(args) => commands::logins::login::logout(&args),
        Command::Secret(command) => commands::logins::secret::secret(&command),
        Command::Search(args) => commands::servers::find::search(&args),
        Command::Describe(args) => commands::servers::find::describe(&args),
        Command::Call(args) => commands::servers::call::call(&args),
        Command::Policy(command) => commands::policy::policy(&command),
        Command::Types(args) => commands::servers::find::types(&args),
        Command::Connect(args) => commands::servers::connect::connect(&args),
        Command::Config(ConfigCommand::Schema) => commands::servers::edit::schema(),
        Command::Disconnect(args) => commands::servers::connect::disconnect(&args),
        Command::Trust(args) => commands::servers::trust::trust(&args),
        Command::Completions(args) => commands::shell::completions(&args),
        Command::Man => commands::man::man(),
        Command::Key(KeyCommand::New(args)) => commands::shell::new_key(&args),
        Command::Demo => commands::servers::serve::demo(),
        Command::Run(args) => commands::run::run(args),
        Command::Replay(args) => commands::replay::replay(&args),
        Command::Test(args) => commands::test::test(&args),
        Command::Runs(command) => commands::runs::runs(&command),
        Command::Fork(args) => commands::fork::fork(&args),
        Command::Pending(args) => commands::runs::pending(&args),
        Command::Approve(args) => commands::runs::approve(&args),
        Command::Deny(args) => commands::runs::deny(&args),
        Command::Check(args) => commands::check::check(&args),
        Command::Result(args) => commands::result::result(args),
        Command::Compute(args) => commands::compute::compute(args),
        Command::Audit(AuditCommand::Verify(args)) => commands::audit::verify(&args),
        Command::Audit(AuditCommand::Show(args)) => commands::audit::show(&args),
        Command::Logs(args) => commands::logs::logs(&args),
        Command::Doctor(args) => commands::doctor::doctor(&args),
        Command::Bench(args) => commands::bench::bench(&args),
        Command::Chaos(args) => commands::chaos::chaos(&args),
    };
    commands::exit_code(end)
}

/// Keeps other processes of this user, such as the MCP servers that it starts, from reading the memory and the
/// environment of this process, which hold the secrets of all servers. It writes no core file either. Programs that it
/// starts have settings of their own again.
fn hide_memory() {
    // The kernel refuses only values that it does not know.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
