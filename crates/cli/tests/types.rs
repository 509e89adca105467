//! The type check at the command line, with the TypeScript that `./check` installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

mod support;
use support::script;

fn compiler() -> PathBuf {
    let installed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.check/typescript/node_modules/typescript/bin/tsc");
    let named = std::env::var_os("TOOLGATE_TSC").map(PathBuf::from);
    named.into_iter().chain([installed]).find(|path| path.is_file()).expect("a TypeScript 7: `./check` installs one")
}

fn toolgate(args: &[&str], tsc: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_toolgate")).args(args).env("TOOLGATE_TSC", tsc).output().expect("the binary ends")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

const WRONG: &str = "const page = await demo.list_issues({ limit: 2 });\nreturn page.issues.map(i => i.titel);";

#[test]
fn a_wrong_field_is_found_without_running_the_program() {
    let program = script("wrong.ts", WRONG);
    let checked = toolgate(&["check", program.path(), "--demo", "--json"], &compiler());
    let found = json(&checked);
    assert_eq!((checked.status.code(), &found["ok"]), (Some(1), &Value::Bool(false)), "{found}");
    let error = &found["errors"][0];
    assert_eq!((&error["code"], &error["line"], &error["column"]), (&"unknown_property".into(), &2.into(), &31.into()));
    assert!(error["suggestion"].as_str().is_some_and(|text| text.starts_with("Did you mean `title`?")), "{error}");
}

#[test]
fn a_run_with_a_wrong_field_calls_nothing() {
    let program = script("wrong.ts", WRONG);
    let report = json(&toolgate(&["run", program.path(), "--demo", "--json"], &compiler()));
    assert_eq!(report["code"], "INVALID_CODE", "{report}");
    assert_eq!(report["calls"], serde_json::json!([]), "{report}");
}

#[test]
fn the_programs_of_the_cookbook_are_not_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cookbook");
    for file in std::fs::read_dir(folder).expect("the folder") {
        let file = file.expect("a file").path();
        let checked = json(&toolgate(&["check", file.to_str().expect("UTF-8"), "--demo", "--json"], &compiler()));
        assert_eq!((&checked["ok"], &checked["errors"]), (&Value::Bool(true), &serde_json::json!([])), "{file:?}");
    }
}

#[test]
fn without_a_compiler_everything_is_as_before_and_doctor_says_so() {
    let nowhere = Path::new("/nowhere/tsc");
    let program = script("wrong.ts", WRONG);
    let report = json(&toolgate(&["run", program.path(), "--demo", "--json"], nowhere));
    assert_eq!((&report["value"], &report["warnings"]), (&serde_json::json!([null, null]), &serde_json::json!([])));
    let doctor = json(&toolgate(&["doctor", "--json"], nowhere));
    assert!(doctor["typescript"].as_str().is_some_and(|text| text.contains("/nowhere/tsc is not the tsc")), "{doctor}");
    let doctor = json(&toolgate(&["doctor", "--json"], &compiler()));
    assert!(doctor["typescript"].as_str().is_some_and(|text| text.starts_with("TypeScript 7.")), "{doctor}");
}

#[test]
fn declarations_are_kept_fresh_in_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(["types", "--demo", "--watch", folder.path().to_str().expect("UTF-8")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("standard error")));
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("toolgate.d.ts"))), "it says that it wrote");
    let text = std::fs::read_to_string(folder.path().join("toolgate.d.ts")).expect("the file");
    assert!(text.contains("list_issues("), "{text}");
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill").success());
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn what_is_learned_can_be_exported_and_imported() {
    let home = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.args(args).env("HOME", home.path()).env("XDG_CACHE_HOME", home.path().join("cache"));
        command.env("XDG_STATE_HOME", home.path().join("state")).output().expect("the binary ends")
    };
    let learned = run(&["types", "learn", "demo", "--demo"]);
    assert!(learned.status.success(), "{learned:?}");
    let said = String::from_utf8_lossy(&learned.stderr).into_owned();
    assert!(said.contains("those that only read, need no arguments and declare no result"), "{said}");
    let file = home.path().join("learned.json");
    let path = file.to_str().expect("UTF-8");
    let exported = r#"{"version":1,"backends":{"demo":{"list_issues":{"version":1,"results":4,"shape":{}}}}}"#;
    std::fs::write(&file, exported).expect("written");
    let imported = run(&["types", "import", path, "--demo"]);
    assert!(imported.status.success(), "{imported:?}");
    assert!(String::from_utf8_lossy(&imported.stderr).contains("imported the types of 1 tools"), "{imported:?}");
    std::fs::write(&file, r#"{"version":7}"#).expect("written");
    let refused = run(&["types", "import", path, "--demo"]);
    assert!(!refused.status.success(), "{refused:?}");
}
