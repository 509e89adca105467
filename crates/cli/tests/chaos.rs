//! Kills under load: no wrong answer, no effect twice, nothing left behind.

use std::process::Command;

use serde_json::Value;

#[test]
fn a_minute_of_kills_leaves_no_wrong_answer() {
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    let output = chaos.args(["chaos", "--duration", "45s", "--json"]).output().expect("chaos runs");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{summary}\n{told}");
    for kind in ["gateway", "server", "worker or zygote"] {
        assert!(summary["killed"][kind].as_u64() > Some(0), "{kind}: {summary}");
    }
    assert!(summary["effects"].as_u64() > Some(0), "{summary}");
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
