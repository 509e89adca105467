//! What a person at a terminal gets: whole results, words while waiting, the next step, declarations for an editor.

use serde_json::Value;

use super::User;

#[test]
fn on_a_terminal_a_result_is_shown_whole() {
    let user = User::with_demo("tracker");
    // Far beyond what is given to a model.
    let program = "const one = await tracker.get_issue({ number: 1 }); return Array.from({ length: 40000 }, (_, i) => 'row ' + i + ' of ' + one.number)";
    user.write("big.ts", program);
    let (code, screen) = user.on_terminal(&["run", "big.ts"], "");
    assert!(code == 0 && screen.contains("row 39999 of 1"), "{code}, {} bytes", screen.len());
    let (code, stdout, _) = user.try_run(&["run", "big.ts"]);
    assert!(code == 0 && stdout.len() < 210_000, "in a pipe it is given as to a model: {} bytes", stdout.len());
}

#[test]
fn run_uses_the_configuration_that_is_found_if_the_program_names_a_server() {
    let user = User::with_demo("tracker");
    user.write("uses.ts", "return (await tracker.get_issue({ number: 4 })).number");
    assert_eq!(user.run(&["run", "uses.ts"]).trim(), "4");
    let (code, _, stderr) = user.try_run(&["run", "uses.ts", "--no-servers"]);
    assert_eq!(code, 1, "{stderr}");
    user.write("plain.ts", "return 1");
    assert_eq!(user.run(&["run", "plain.ts", "--profile", "snippet", "--demo"]).trim(), "1");
}

#[test]
fn check_knows_the_tools_of_a_configuration() {
    let user = User::with_demo("tracker");
    user.write("wrong.ts", "return await tracker.get_isue({ number: 4 })");
    let file = user.path(".config/toolgate/toolgate.json");
    // The second time the tools are known from the cache, which cannot say that there is no such tool.
    for _ in 0..2 {
        let (code, _, stderr) = user.try_run(&["check", "wrong.ts", "--config", file.to_str().expect("UTF-8")]);
        assert!(code == 1 && stderr.contains("Did you mean `get_issue`?"), "{stderr}");
        user.run(&["list"]);
    }
}

#[test]
fn declarations_have_functions_and_globals() {
    let user = User::new();
    let demo = serde_json::json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    let config = serde_json::json!({ "mcpServers": { "tracker": demo }, "toolgate": { "egress": "all" } });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    user.run(&["types", "--out", "tools.d.ts"]);
    let text = std::fs::read_to_string(user.path("tools.d.ts")).expect("written");
    for part in [
        "declare const tracker",
        "declare const context",
        "declare var console",
        "declare function httpCall",
        "export default async",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn toolgate_alone_says_the_next_step() {
    let user = User::new();
    assert!(user.run(&[]).contains("toolgate import"));
    user.run(&["add", "x", "--", "x"]);
    let text = user.run(&[]);
    assert!(text.contains("toolgate.json: 1. Next:") && text.contains("toolgate connect"), "{text}");
}

#[test]
fn completions_and_keys_are_made() {
    let user = User::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(user.run(&["completions", shell]).contains("disconnect"), "{shell}");
    }
    let made: Value = user.json(&["key", "new", "--json"]);
    let (key, hash) = (made["key"].as_str().expect("a key"), made["hash"].as_str().expect("a hash"));
    let file = user.write("key", key);
    let sum = std::process::Command::new("sha256sum").arg(file).output().expect("sha256sum runs").stdout;
    let sum = String::from_utf8(sum).expect("text");
    assert_eq!(hash.strip_prefix("sha256:"), sum.split_whitespace().next());
    assert_ne!(user.json(&["key", "new", "--json"])["key"], key);
}

#[test]
fn waiting_is_shown_with_words_to_a_person_only() {
    let user = User::with_demo("tracker");
    let (_, screen) = user.on_terminal(&["list"], "");
    assert!(screen.contains("connecting to tracker"), "{screen}");
    let (_, stdout, stderr) = user.try_run(&["list"]);
    assert!(!format!("{stdout}{stderr}").contains("connecting"), "{stderr}");
}
