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
            print::error(&with_causes(&error));
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}
