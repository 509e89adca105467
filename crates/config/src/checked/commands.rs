//! Runs the commands of `${cmd:…}`, whose output is a value.
//!
//! Only for an environment that may run commands, and a file that allows them: reading a configuration must not execute
//! anything by itself. A command runs once for each reading, however often it is written.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// How often its end is looked for once its output has ended.
const EXIT_INTERVAL: Duration = Duration::from_millis(5);
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
        self.outputs.entry(line.to_owned()).or_insert_with(|| run(line, COMMAND_TIMEOUT, Group::here())).clone()
    }
}

/// The process group of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// One of its own, which is ended as a whole.
    Own,
    /// That of this process. Only the foreground group may read from a terminal, and a command may ask a person there.
    Shared,
}

impl Group {
    fn here() -> Self {
        let has_terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
        if has_terminal { Self::Shared } else { Self::Own }
    }
}

fn run(line: &str, timeout: Duration, group: Group) -> Result<String, String> {
    let deadline = Instant::now() + timeout;
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    if group == Group::Own {
        command.process_group(0);
    }
    let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let ended = output_and_status(&mut child, deadline).inspect_err(|_| end(&mut child, group));
    let (bytes, status) = ended.map_err(|failure| failure.message(timeout))?;
    if !status.success() {
        return Err(format!("failed: {status}"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "did not print UTF-8 text".to_owned())?;
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

/// Why a command has to be ended.
#[derive(Debug)]
enum CommandFailure {
    Late,
    TooLong,
    Lost(std::io::Error),
}

impl CommandFailure {
    fn message(self, timeout: Duration) -> String {
        match self {
            Self::Late => format!("did not end within {} seconds", timeout.as_secs()),
            Self::TooLong => format!("printed more than {MAX_OUTPUT_BYTES} bytes"),
            Self::Lost(error) => error.to_string(),
        }
    }
}

fn output_and_status(child: &mut Child, deadline: Instant) -> Result<(Vec<u8>, ExitStatus), CommandFailure> {
    let stdout = child.stdout.take();
    let (sender, receiver) = channel();
    // A process that the command leaves behind may hold the pipe open, so the reading is not waited for without end.
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|stdout| stdout.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut bytes));
        let _ = sender.send(read.map(|_| bytes));
    });
    let left = deadline.saturating_duration_since(Instant::now());
    let bytes = receiver.recv_timeout(left).map_err(|_| CommandFailure::Late)?.unwrap_or_default();
    if bytes.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(CommandFailure::TooLong);
    }
    // A command may close its output long before it ends.
    loop {
        match child.try_wait().map_err(CommandFailure::Lost)? {
            Some(status) => return Ok((bytes, status)),
            None if Instant::now() >= deadline => return Err(CommandFailure::Late),
            None => std::thread::sleep(EXIT_INTERVAL),
        }
    }
}

/// Kills a command that was not waited for yet, so that its process id is still its own.
fn end(child: &mut Child, group: Group) {
    if group == Group::Own {
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
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
        for group in [Group::Own, Group::Shared] {
            for line in ["sleep 1000", "exec >&-; sleep 1000"] {
                let failure = run(line, Duration::from_millis(300), group).unwrap_err();
                assert!(failure.contains("did not end"), "{line}: {failure}");
            }
        }
    }

    /// The state of a process, as the kernel shows it; none if there is no such process.
    #[cfg(target_os = "linux")]
    fn process_state(pid: &str) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_processes_of_a_command_end_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let line = format!("sleep 1000 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait", file.display());
        // On a loaded machine the first tries may end before the command has begun.
        for seconds in [1, 4, 16, 32] {
            assert!(run(&line, Duration::from_secs(seconds), Group::Own).is_err());
            if file.exists() {
                break;
            }
        }
        let pid = std::fs::read_to_string(&file).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while process_state(&pid).is_some_and(|state| state != 'Z') {
            assert!(Instant::now() < until, "{pid} still runs");
            std::thread::yield_now();
        }
    }
}
