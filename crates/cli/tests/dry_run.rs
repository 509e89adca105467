//! `toolgate run --dry-run`: which writes a program would send.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn run(code: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools.json");
    let text =
        json!({ "type": "object", "properties": { "id": { "type": "integer" }, "open": { "type": "boolean" } } });
    let script = json!({ "backends": { "tracker": { "tools": [
        { "name": "create", "reply": { "id": 7, "open": true }, "outputSchema": text },
        { "name": "close", "reply": "closed" },
        { "name": "list_open", "reply": [3], "annotations": { "readOnlyHint": true } },
    ] } } });
    std::fs::write(&tools, script.to_string()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(["run", "-", "--dry-run", "--tools", tools.to_str().unwrap()])
        .args(options)
        .env("HOME", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

const CODE: &str = "const [open] = await tracker.list_open({}); const made = await tracker.create({ of: open });
    await tracker.close({ id: made.id }); return { made: made.id };";

#[test]
fn a_dry_run_prints_the_review_and_the_value_with_marks() {
    let output = run(CODE, &[]);
    let (printed, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{said}");
    for part in [
        "1 tracker.create  {\"of\":3}\n",
        "2 tracker.close  {\"id\":\"⟦#1/id of tracker.create⟧\"}\n  /id is filled in with /id of line 1\n",
        "⟦#1/id of tracker.create⟧",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

#[test]
fn a_dry_run_as_json_has_the_review() {
    let report: Value = serde_json::from_slice(&run(CODE, &["--json"]).stdout).unwrap();
    assert_eq!(report["review"][1]["arguments"], json!({ "id": "⟦#1/id of tracker.create⟧" }), "{report}");
    assert_eq!((&report["ok"], &report["calls"][1]["state"]), (&json!(true), &json!("not_sent")), "{report}");
}

#[test]
fn a_dry_run_ends_where_the_program_depends_on_a_write() {
    let output = run("const made = await tracker.create({}); if (made.open) await tracker.close({}); return 1", &[]);
    let (printed, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{said}");
    assert_eq!(printed, "1 tracker.create  {}\n");
    assert!(said.contains("what follows depends on the value /open of line 1"), "{said}");
    let output = run("return 1", &[]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("the program sends no write"));
}
