//! Runs the commands of `${cmd:…}`, whose output is a value.
//!
//! Only for an environment that may run commands, and a file that allows them: reading a configuration must not execute
//! anything by itself. A command runs once for each reading, however often it is written.

use std::collections::HashMap;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of its output, in bytes.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;

/// The outputs of the commands that have run.
#[derive(Default)]
pub(super) struct Commands {
    outputs: HashMap<String, Result<String, String>>,
    /// How many values asked for an output.
    uses: usize,
}

impl Commands {
    /// Grows with every value that asks for an output.
    pub(super) fn uses(&self) -> usize {
        self.uses
    }

    /// The output of a shell command without its last line break, or the reason why the command failed.
    pub(super) fn output(&mut self, line: &str) -> Result<String, String> {
        self.uses += 1;
        self.outputs.entry(line.to_owned()).or_insert_with(|| run(line, COMMAND_TIMEOUT)).clone()
    }
}

fn run(line: &str, timeout: Duration) -> Result<String, String> {
    let spawned =
        Command::new("sh").args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = spawned.map_err(|error| format!("cannot be started: {error}"))?;
    let stdout = child.stdout.take();
    let (sender, receiver) = channel();
    // A process that the command leaves behind may hold the pipe open, so the reading is not waited for without end.
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|stdout| stdout.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut bytes));
        let _ = sender.send(read.map(|_| bytes));
    });
    let Ok(bytes) = receiver.recv_timeout(timeout) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("did not end within {} seconds", timeout.as_secs()));
    };
    let bytes = bytes.unwrap_or_default();
    if bytes.len() as u64 > MAX_OUTPUT_BYTES {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("printed more than {MAX_OUTPUT_BYTES} bytes"));
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("failed: {status}"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "did not print UTF-8 text".to_owned())?;
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_the_value() {
        let mut commands = Commands::default();
        assert_eq!(commands.output("printf 'a b\\n'"), Ok("a b".to_owned()));
        assert!(commands.output("exit 3").unwrap_err().contains('3'));
        assert!(commands.output("head -c 70000 /dev/zero").unwrap_err().contains("more than"));
    }

    #[test]
    fn a_command_runs_once_for_each_reading() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("echo x >> '{0}/count'; wc -l < '{0}/count'", folder.path().display());
        let mut commands = Commands::default();
        let first = commands.output(&line).unwrap();
        assert_eq!(commands.output(&line).unwrap(), first);
        assert_eq!(std::fs::read_to_string(folder.path().join("count")).unwrap(), "x\n");
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        assert!(run("sleep 1000", Duration::from_millis(1)).unwrap_err().contains("did not end"));
    }
}
