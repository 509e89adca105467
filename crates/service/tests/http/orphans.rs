//! What becomes of backends when the process that started them is killed.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process_group};

use crate::harness::{Case, cases};
use crate::processes;

pub(crate) fn cases() -> Vec<Case> {
    cases![a_killed_process_leaves_no_backend_behind]
}

async fn a_killed_process_leaves_no_backend_behind() {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../gateway/tests/fixtures/backend.py");
    let process = processes::start(format!("parent {}", script.display())).await;
    let group = Pid::from_raw(process.line.parse().expect("a number")).expect("a process");
    assert!(members(group) >= 2, "a server and its child");
    process.kill().await;
    let gone = async {
        while members(group) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), gone).await;
    // Whatever a failure leaves behind ends here.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    assert!(ended.is_ok(), "a process outlived its parent");
}

/// How many processes of a group run; one that waits to be buried does not.
fn members(group: Pid) -> usize {
    if test_kill_process_group(group).is_err() {
        return 0;
    }
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let belongs = |entry: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        fields.next().is_some_and(|state| state != "Z")
            && fields.nth(1).and_then(|field| field.parse().ok()) == Some(group.as_raw_nonzero().get())
    };
    processes.filter(belongs).count()
}
