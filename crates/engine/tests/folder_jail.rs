//! The jail of the type checker: what is in it reads the folder that it is in and the system's libraries, and nothing else; it
//! reaches no network, starts no program and makes no file.
//!
//! The jailed program is a copy of `perl`, which needs nothing but its own file and tries what its script says. Every attempt
//! works where the layers are left off, so an attempt that fails in the jail fails because of it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The layers of the jail that can be left off.
const ALL_LAYERS: &str = "landlock,namespaces,seccomp";
/// Where the jail shows the folder of its program.
const FOLDER: &str = "/program";

/// A folder with a program and a file beside it, which another user may write to.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // By another process: a child that another test starts meanwhile would inherit the descriptor of a file that is written here, and
    // a program that is open for writing cannot be executed.
    let copied = Command::new("cp").arg("/usr/bin/perl").arg(folder.path().join("tsc")).status();
    assert!(copied.expect("cp runs").success(), "there is a perl");
    std::fs::write(folder.path().join("library"), "worked").unwrap();
    folder
}

/// What a script prints in the jail, without some of its layers.
fn said(folder: &TempDir, without: &str, script: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate-worker"));
    command.arg0("toolgate-folder-jail").args([without, "1000000000"]).arg(folder.path().join("tsc")).arg("-");
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("a jail");
    let script = format!("$| = 1; {script}; print ' end'");
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// An attempt that works without the layers, and not in the jail, where the script goes on after it.
#[track_caller]
fn check_held(attempt: &str) {
    let folder = folder();
    let worked = said(&folder, ALL_LAYERS, attempt);
    assert!(worked.starts_with("worked"), "without a jail: {attempt}: {worked}");
    assert_eq!(said(&folder, "", attempt), " end", "{attempt}");
}

fn print_file(path: &Path) -> String {
    format!("open(F, '<', '{}') and print <F>", path.display())
}

fn print_if_any(path: &str) -> String {
    format!("opendir(D, '{path}') and print 'worked'")
}

#[test]
fn the_type_checkers_jail_reads_the_folder_of_its_program() {
    let own = print_file(&Path::new(FOLDER).join("library"));
    assert_eq!(said(&folder(), "", &own), "worked end");
}

#[test]
fn the_type_checkers_jail_reads_and_lists_nothing_else() {
    let other = folder();
    check_held(&print_file(&other.path().join("library")));
    check_held(&print_if_any(&other.path().display().to_string()));
    check_held(&print_if_any("/etc"));
    check_held(&print_if_any("/proc/self/fd"));
}

#[test]
fn the_type_checkers_jail_makes_no_file() {
    let other = folder();
    check_held(&format!("open(F, '>', '{}/made') and print 'worked'", other.path().display()));
    let own = format!("open(F, '>', '{FOLDER}/made') and print 'worked'");
    assert_eq!(said(&folder(), "", &own), " end");
}

#[test]
fn the_type_checkers_jail_starts_no_program() {
    check_held("exec('/bin/echo', 'worked')");
    check_held("my $child = fork; defined $child and print 'worked'");
}

#[test]
fn the_type_checkers_jail_reaches_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = format!("pack('S n C4 x8', 2, {port}, 127, 0, 0, 1)");
    check_held(&format!("socket(S, 2, 1, 0) and connect(S, {address}) and print 'worked'"));
}
