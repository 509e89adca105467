//! Flags of `audit` and `logs`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::servers::Servers;

/// See `Command::Audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check the chain of the audit log, archives included
    ///
    /// Exit code 0 when every line follows from the one before it, 1 otherwise. A line that was changed, added, moved or
    /// removed is found. The last line, and what was cut off after it, are not in the hash of a later line: name a hash that an earlier
    /// check printed (--expect) to find a change there.
    Verify(AuditVerifyArgs),
    /// Show calls of the audit log, the last ones first: who, what, which rule, who approved it
    ///
    /// Of the log and its archives.
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
    #[arg(long, value_name = "HASH", value_parser = hash)]
    pub(crate) expect: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A hash as `verify` prints it; capital digits are the same ones.
fn hash(text: &str) -> Result<String, String> {
    match text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("a hash has 64 hexadecimal digits".to_owned()),
    }
}

/// See `Command::Logs`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_has_64_digits_in_either_case() {
        let digits = "0123456789abcdef".repeat(4);
        assert_eq!(hash(&digits), Ok(digits.clone()));
        assert_eq!(hash(&digits.to_uppercase()), Ok(digits.clone()));
        for wrong in ["", "abc", &digits[1..], &format!("{digits}0"), &digits.replace('f', "g")] {
            assert!(hash(wrong).is_err(), "{wrong}");
        }
    }
}
