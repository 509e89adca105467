//! One file a command, and how each of them ends.

pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod chaos;
pub(crate) mod check;
pub(crate) mod client_check;
pub(crate) mod compute;
pub(crate) mod doctor;
pub(crate) mod fork;
pub(crate) mod logins;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod policy;
pub(crate) mod program_config;
pub(crate) mod replay;
pub(crate) mod result;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod servers;
pub(crate) mod shell;
pub(crate) mod test;

use std::fmt;
use std::process::ExitCode;

use serde_json::json;

use crate::print;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done,
    /// It was carried out, and what was asked failed.
    Failed,
}

/// The command was used wrongly: nothing was carried out.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error and what caused it; a cause that an error names itself is not said twice.
fn with_causes(error: &anyhow::Error) -> String {
    error
        .chain()
        .skip(1)
        .map(ToString::to_string)
        .fold(error.to_string(), |said, cause| if said.contains(&cause) { said } else { format!("{said}: {cause}") })
}

/// What the shell sees. Says on standard error what went wrong, unless the command did already.
pub(crate) fn exit_code(end: anyhow::Result<Exit>) -> ExitCode {
    match end {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Failed) => ExitCode::from(1),
        Err(error) => {
            let message = with_causes(&error);
            let is_usage = error.is::<Usage>();
            print_as_json(if is_usage { "INVALID_INPUT" } else { "FAILED" }, &message);
            print::error(&message);
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}

/// The command line could not be read, or asks for help.
pub(crate) fn refused_arguments(error: &clap::Error) -> ! {
    if error.use_stderr() {
        let message = error.render().to_string();
        print_as_json("INVALID_INPUT", message.trim().trim_start_matches("error: "));
    }
    error.exit()
}

/// What went wrong as the HTTP service says it, where `--json` asks for JSON and nothing else was printed: a program that reads standard
/// output finds JSON there in any case.
fn print_as_json(code: &str, message: &str) {
    let asks = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    if asks && !print::has_output() {
        let failure = json!({ "error": { "code": code, "message": message } });
        // Standard error says it as well, also where standard output cannot be written.
        let _ = print::out(print::escape::json(&failure.to_string()));
    }
}
