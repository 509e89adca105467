//! Runs the real binary, away from whatever this test's own environment sets.

#![allow(dead_code, reason = "each test file is a program of its own and uses what it needs")]

use std::io::Write;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What one command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the command with nothing on standard input.
pub(crate) fn toolgate(args: &[&str]) -> Ran {
    toolgate_with_input(args, "")
}

/// Runs the command with this on standard input.
pub(crate) fn toolgate_with_input(args: &[&str], input: impl AsRef<[u8]>) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(args)
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.as_ref().to_owned();
    // From a thread of its own: a command may end, or print much, before it has read everything.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("the binary ends");
    writer.join().expect("the writer ends");
    Ran {
        code: output.status.code().expect("an exit code"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// A file that lives as long as this does.
pub(crate) struct Script {
    path: String,
    _folder: TempDir,
}

impl Script {
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// A file of this name and content, in a folder of its own.
pub(crate) fn script(name: &str, content: impl AsRef<[u8]>) -> Script {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("written");
    Script { path: path.to_str().expect("UTF-8").to_owned(), _folder: folder }
}
