//! Kills under load: no wrong answer, no effect twice, nothing left behind.

#[path = "../../engine/tests/support/deno.rs"]
mod deno;

use std::process::{Command, Stdio};

use deno::deno;
use serde_json::Value;

#[test]
fn a_minute_of_kills_leaves_no_wrong_answer() {
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    chaos.args(["chaos", "--duration", "45s", "--json"]).env("TOOLGATE_DENO", deno());
    let output = chaos.output().expect("chaos runs");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{summary}\n{told}");
    for kind in ["gateway", "server", "worker or zygote", "v8"] {
        assert!(summary["killed"][kind].as_u64() > Some(0), "{kind}: {summary}");
    }
    assert!(summary["effects"].as_u64() > Some(0), "{summary}");
    // Sessions are used in any case, and their Redis is killed where there is one.
    assert!(summary["sessions"].as_u64() > Some(0), "{summary}");
    if Command::new("redis-server").arg("--version").output().is_ok() {
        assert!(summary["killed"]["redis"].as_u64() > Some(0), "{summary}");
    }
}

/// All processes below one, by what the kernel shows.
fn descendants(of: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").expect("proc").flatten();
    let pids: Vec<u32> = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let parents: Vec<(u32, u32)> = pids.into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = vec![of];
    let mut next = 0;
    while let Some(member) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, parent)| *parent == member).map(|(pid, _)| *pid));
        next += 1;
    }
    family.split_off(1)
}

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = std::time::Instant::now();
    while !is_so() {
        assert!(since.elapsed() < std::time::Duration::from_secs(60), "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_killed_chaos_leaves_nothing_behind() {
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    let mut chaos = chaos.args(["chaos", "--duration", "10m"]).spawn().expect("chaos runs");
    let mut family = Vec::new();
    // The gateway, its guard, its servers and a zygote at least.
    wait_until("chaos starts processes", || {
        family = descendants(chaos.id());
        family.len() > 6
    });
    chaos.kill().expect("killed");
    chaos.wait().expect("it ended");
    wait_until("everything ends", || !family.iter().any(|pid| is_running(*pid)));
}

#[test]
fn a_gateway_that_cannot_be_started_again_ends_the_durable_runs() {
    // Another name of the program, which is removed once gateways run.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("folder");
    let program = folder.path().join("toolgate");
    std::fs::hard_link(env!("CARGO_BIN_EXE_toolgate"), &program).expect("link");
    let mut chaos = Command::new(&program);
    let chaos = chaos.args(["chaos", "--durable", "1000000", "--replicas", "2", "--seed", "7"]);
    let chaos = chaos.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("chaos runs");
    // Two gateways, their guards, their servers and zygotes.
    wait_until("chaos starts gateways", || descendants(chaos.id()).len() > 12);
    std::fs::remove_file(&program).expect("removed");
    let since = std::time::Instant::now();
    let output = chaos.wait_with_output().expect("it ended");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("the gateway does not start"), "{told}");
    assert!(since.elapsed() < std::time::Duration::from_secs(150), "clients wait for their runs: {told}");
}

#[test]
fn a_short_soak_ends_with_right_answers() {
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    let output = chaos.args(["chaos", "--soak", "280", "--connections", "4", "--json"]).output().expect("chaos runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout);
    let last: Value = lines.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    assert_eq!(last["runs"], 280, "{lines}");
}

#[test]
fn durable_runs_lose_and_double_nothing_when_gateways_and_workers_are_killed() {
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    let chaos =
        chaos.args(["chaos", "--durable", "120", "--replicas", "2", "--seed", "7", "--store", "sqlite", "--json"]);
    let output = chaos.output().expect("chaos runs");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{summary}\n{told}");
    assert_eq!(
        (&summary["lost"], &summary["doubled"], &summary["wrong"]),
        (&0.into(), &0.into(), &0.into()),
        "{summary}"
    );
    assert_eq!((&summary["runs"], &summary["store"]), (&120.into(), &"sqlite".into()), "{summary}");
    assert!(summary["right"].as_u64() > Some(0), "{summary}");
    for kind in ["gateway", "worker or zygote"] {
        assert!(summary["killed"][kind].as_u64() > Some(0), "{kind}: {summary}");
    }
    assert!(summary["decisions"].as_u64() > Some(0), "{summary}");
}
