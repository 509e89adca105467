//! The run of README that is killed and finishes, as it is written there.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The commands of the example, and the lines that README shows as their output.
fn example() -> (String, Vec<String>) {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).expect("README.md");
    let blocks = readme.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.into_iter().find(|block| block.contains("kill -9")).expect("the example");
    let is_command = |line: &&str| line.starts_with("$ ");
    let commands: Vec<&str> = block.lines().filter(is_command).map(|line| line.trim_start_matches("$ ")).collect();
    let shown = block.lines().filter(|line| !is_command(line)).map(str::to_owned).collect();
    (commands.join("\n"), shown)
}

#[test]
fn the_example_of_readme_is_killed_and_finishes() {
    let (commands, shown) = example();
    let folder = tempfile::tempdir().expect("a folder");
    let program = Path::new(env!("CARGO_BIN_EXE_toolgate")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a search path"));
    // What is left running ends with the example.
    let script = format!("{commands}\necho; kill $!; wait");
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(folder.path()).env("HOME", folder.path()).env("PATH", path);
    for variable in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
        bash.env_remove(variable);
    }
    let output = bash.output().expect("bash");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(folder.path().join("gate.log")).unwrap_or_default();
    let told = || format!("{stdout}\n{stderr}\n{log}");
    // One JSON object follows the other, with or without a line break between them.
    let answers: Vec<Value> = serde_json::Deserializer::from_str(&stdout).into_iter().map_while(Result::ok).collect();
    let [begun, ended] = answers.as_slice() else { panic!("two answers: {}", told()) };
    assert_eq!((&begun["runId"], &ended["runId"]), (&ended["runId"], &begun["runId"]), "{}", told());
    assert_eq!((&begun["status"], &ended["status"]), (&"running".into(), &"done".into()), "{}", told());
    let value = format!(r#""value":{}"#, ended["report"]["value"]);
    assert!(shown.last().is_some_and(|line| line.contains(&value)), "README shows {shown:?}: {}", told());
    assert_eq!(ended["report"]["calls"].as_array().map(Vec::len), Some(3), "each call once: {}", told());
}
