//! Doctor tells the truth, also when a layer is missing.

mod support;

use serde_json::Value;
use support::toolgate;

fn doctor(args: &[&str]) -> (i32, Value) {
    let ran = toolgate(&[&["doctor", "--json"], args].concat());
    (ran.code, serde_json::from_str(&ran.stdout).expect("one JSON object"))
}

fn layer<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let layers = diagnosis["layers"].as_array().expect("a list");
    layers.iter().find(|layer| layer["name"] == name).expect("a layer of that name")
}

#[test]
fn a_machine_that_can_run_programs_is_told_so() {
    let (code, diagnosis) = doctor(&[]);
    assert_eq!((code, &diagnosis["ok"]), (0, &Value::Bool(true)), "{diagnosis:#}");
    for required in ["process", "seccomp", "no_new_privs", "pidfd"] {
        assert_eq!(layer(&diagnosis, required)["active"], true, "{diagnosis:#}");
    }
}

#[test]
fn a_missing_layer_is_told_and_the_others_still_hold() {
    let (code, diagnosis) = doctor(&["--without", "landlock", "--without", "namespaces"]);
    assert_eq!(code, 0);
    for name in ["landlock", "namespaces"] {
        assert_eq!(layer(&diagnosis, name)["active"], false);
        assert_eq!(layer(&diagnosis, name)["note"], "Left off by --without.");
    }
    assert_eq!(layer(&diagnosis, "seccomp")["active"], true);
}

#[test]
fn without_seccomp_nothing_runs_and_doctor_fails() {
    let (code, diagnosis) = doctor(&["--without", "seccomp"]);
    assert_eq!((code, &diagnosis["ok"]), (1, &Value::Bool(false)));
    assert_eq!(layer(&diagnosis, "seccomp")["active"], false);
    assert_eq!(layer(&diagnosis, "process")["active"], false);
    assert_eq!(layer(&diagnosis, "no_new_privs")["active"], true, "what the worker still had is told");
    assert!(diagnosis["error"].as_str().is_some_and(|error| error.starts_with("UNAVAILABLE")), "{diagnosis:#}");
}

#[test]
fn for_a_person_there_is_a_line_a_layer() {
    let ran = toolgate(&["doctor", "--without", "landlock"]);
    assert!(ran.stdout.contains("\n  off  landlock        Left off by --without.\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n  on   seccomp  "), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn the_configured_deno_is_the_one_that_is_looked_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("toolgate.json");
    let config = r#"{ "mcpServers": {}, "toolgate": { "engines": { "v8": { "deno": "/nowhere/deno" } } } }"#;
    std::fs::write(&file, config).expect("a file");
    let (code, diagnosis) = doctor(&["--config", file.to_str().expect("UTF-8")]);
    let said = diagnosis["v8"].as_str().expect("a sentence");
    assert_eq!(code, 0, "V8 is not needed for anything");
    assert!(said.starts_with("/nowhere/deno is not a deno program: install deno"), "{said}");
}

#[test]
fn what_a_server_with_a_sandbox_has_is_told() {
    let (_, diagnosis) = doctor(&[]);
    let said = diagnosis["serverSandbox"].as_str().expect("a sentence");
    let support = toolgate_mcp::client::StdioSandbox::support();
    assert_eq!(said.starts_with("no server"), support.refusal.is_some(), "{said}");
    assert_eq!(said.contains("a cgroup for memory"), support.refusal.is_none() && support.cgroup, "{said}");
}

#[test]
fn processes_that_are_to_be_used_again_are_tried() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("toolgate.json");
    let config = r#"{ "mcpServers": {}, "toolgate": { "sandbox": { "reuse": "same_caller" } } }"#;
    std::fs::write(&file, config).expect("a file");
    let config = file.to_str().expect("UTF-8");
    let (code, diagnosis) = doctor(&["--config", config]);
    assert_eq!(code, 0, "programs run in any case");
    let said = diagnosis["reuse"].as_str().expect("a sentence");
    let works = said == "a process is put back and used again for runs of the same caller";
    assert!(works || said.contains("so every run gets a fresh one"), "{said}");
    assert_eq!(doctor(&[]).1["reuse"], Value::Null, "reuse is not configured");
    // Without seccomp nothing runs, so nothing can be used again.
    let (_, diagnosis) = doctor(&["--config", config, "--without", "seccomp"]);
    assert!(diagnosis["reuse"].as_str().is_some_and(|said| said.contains("cannot be put back here")), "{diagnosis:#}");
}
