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
    assert!(text.contains("toolgate.json: 1. Next:") && text.contains("toolgate connect claude-code"), "{text}");
    user.write(".codex/config.toml", "");
    assert!(user.run(&[]).contains("toolgate connect codex "), "a client that is there");
    user.run(&["connect", "codex"]);
    let text = user.run(&[]);
    assert!(text.contains("in front of codex") && text.contains("toolgate ui"), "{text}");
    assert!(!text.contains("toolgate connect"), "that is done: {text}");
    user.write(".config/toolgate/toolgate.json", "{ \"mcpServers\": {");
    let text = user.run(&[]);
    assert!(text.contains("cannot be read") && text.contains("toolgate.json:1:"), "not as if there were none: {text}");
}

#[test]
fn what_is_missing_is_told_with_the_next_step() {
    let user = User::new();
    let check = |args: &[&str], code: i32, parts: &[&str]| {
        let (found, stdout, stderr) = user.try_run(args);
        assert_eq!((found, stdout.as_str()), (code, ""), "{args:?}: {stderr}");
        for part in parts {
            assert!(stderr.contains(part), "{args:?}: {stderr}");
        }
    };
    check(&["audit", "show"], 2, &["there is no audit log", "enabled"]);
    check(&["audit", "verify"], 1, &["there is no audit log", "enabled"]);
    check(&["remove", "x"], 2, &["no server named x", "there is no configuration"]);
    check(&["import"], 0, &["no servers found", "toolgate add NAME"]);
    check(&["add", "x"], 2, &["toolgate add x https://", "toolgate add x -- npx"]);
    check(&["list"], 2, &["toolgate init", "toolgate import", "--demo"]);
    check(&["add", "my server", "--", "x"], 0, &["programs call it `my_server`", "next: `toolgate list`"]);
    user.write(".config/toolgate/toolgate.json", "{");
    check(&["list"], 2, &["the configuration cannot be used:\n", "toolgate.json:1:"]);
}

#[test]
fn a_state_is_coloured_for_a_person_and_lines_up() {
    let user = User::with_demo("tracker");
    user.run(&["add", "dead", "--", "/no/such/program"]);
    let line = format!("NO_COLOR= '{}' list", env!("CARGO_BIN_EXE_toolgate"));
    let (_, screen) = user.in_terminal(&line, "");
    assert!(
        screen.contains("\u{1b}[32mready\u{1b}[0m ") && screen.contains("\u{1b}[1;31mfailed\u{1b}[0m"),
        "{screen:?}"
    );
    let (_, stdout, _) = user.try_run(&["list"]);
    assert!(!stdout.contains('\u{1b}'), "{stdout:?}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0].find("TOOLS"), lines[1].find('0'), "{stdout}");
    assert_eq!(lines[0].find("TOOLS"), lines[2].find("12"), "{stdout}");
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
