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

/// The settings of the found configuration hold for every program, as those of a named one do.
#[test]
fn the_configuration_that_is_found_holds_for_every_program() {
    let user = User::new();
    let demo = serde_json::json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    let settings = serde_json::json!({
        "functions": { "issueOf": { "tool": "tracker.get_issue" } },
        "sandbox": { "limits": { "chain": { "code": 200 }, "snippet": { "code": 40 }, "compute": { "code": 30 } } },
        "output": { "max_output_size": "1KB", "format": "compact" },
        "egress": ["127.0.0.1"],
    });
    let config = serde_json::json!({ "mcpServers": { "tracker": demo }, "toolgate": settings });
    let file = user.write(".config/toolgate/toolgate.json", &config.to_string());
    let named = ["--config", file.to_str().expect("UTF-8")];
    let in_both = |args: &[&str]| {
        let found = user.try_run(args);
        let with_name = user.try_run(&[args, &named].concat());
        assert_eq!((found.0, &found.1), (with_name.0, &with_name.1), "{args:?}: {} {}", found.2, with_name.2);
        found
    };
    let long = format!("return 1 // {}", "x".repeat(300));
    let (code, _, stderr) = in_both(&["run", "-e", &long]);
    assert!(code == 1 && stderr.contains("at most 200 are taken"), "{stderr}");
    let (code, _, stderr) = user.try_run(&["run", "--profile", "snippet", "-e", &long]);
    assert!(code == 1 && stderr.contains("at most 40 are taken"), "{stderr}");
    let (code, _, stderr) = user.try_run(&["compute", "(data) => 1 /* longer than it may be */"]);
    assert!(code == 1 && stderr.contains("at most 30 are taken"), "{stderr}");

    assert_eq!(in_both(&["run", "-e", "return (await issueOf({ number: 4 })).number"]).1.trim(), "4");
    // A host that egress names: the request is sent, and nothing listens.
    let fetch = "try { await httpCall({ url: 'http://127.0.0.1:1/' }) } catch (e) { return [e.name, e.code] }";
    let (code, output, stderr) = in_both(&["run", "-e", fetch]);
    assert!(code == 0 && !output.contains("ReferenceError"), "{output}{stderr}");
    assert!(output.starts_with("[\"ToolError\","), "without white space: {output}");
    let big = "return (await tracker.list_issues({})), 'y '.repeat(5000)";
    for args in [&["run", "-e", big][..], &["run", "-e", big, named[0], named[1]]] {
        let (code, output, stderr) = user.try_run(args);
        assert!(code == 0 && output.len() < 1_200, "{}: {stderr}", output.len());
    }

    let (code, _, stderr) = user.try_run(&["check", "-e", "return await tracker.get_isue({ number: 4 })"]);
    assert!(code == 1 && stderr.contains("Did you mean `get_issue`?"), "{stderr}");
    let (code, _, stderr) = user.try_run(&["check", "-e", &long]);
    assert!(code == 1 && stderr.contains("at most 200 are taken"), "{stderr}");
}

/// Whatever a server is called, and however the program means its tools, a found configuration does what a named one does.
#[test]
fn a_found_configuration_knows_every_name_that_a_named_one_knows() {
    let user = User::new();
    let demo = serde_json::json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    let config = serde_json::json!({ "mcpServers": { "delete": demo, "123start": demo, "Math": demo } });
    let file = user.write(".config/toolgate/toolgate.json", &config.to_string());
    for program in [
        "return (await delete_.get_issue({ number: 4 })).number",
        "return (await _123start.get_issue({ number: 4 })).number",
        "return (await Math_.get_issue({ number: 4 })).number",
    ] {
        assert_eq!(user.run(&["run", "-e", program]).trim(), "4", "{program}");
    }
    for (program, told) in [
        (r#"{"tool": "get_issue", "arguments": {"number": 4}}"#, "More than one backend has"),
        ("return await delet_.get_issue({ number: 4 })", "Did you mean `delete_`?"),
        ("return await get_issue({ number: 4 })", "`get_issue` is a tool"),
        ("return await delete_.get_isue({ number: 4 })", "Did you mean `get_issue`?"),
    ] {
        let found = user.try_run(&["run", "-e", program]);
        assert!(found.0 == 1 && found.2.contains(told), "{program}: {}", found.2);
        let named = user.try_run(&["run", "-e", program, "--config", file.to_str().expect("UTF-8")]);
        assert_eq!((found.0, found.1, found.2), named, "{program}");
    }
    let (code, _, stderr) = user.try_run(&["check", "-e", "await delete_.nope()"]);
    assert_eq!(code, 1, "{stderr}");
}

#[test]
fn a_call_as_json_without_its_server_is_a_call_of_the_found_configuration() {
    // Nothing is cached.
    let user = User::with_demo("tracker");
    let call = r#"{"tool": "get_issue", "arguments": {"number": 4}}"#;
    assert!(user.run(&["run", "-e", call]).contains("\"number\": 4"));
}

/// A server is started for a program that may use it, and for no other.
#[test]
fn a_program_that_names_no_server_starts_none() {
    let user = User::new();
    let config =
        serde_json::json!({ "mcpServers": { "marker": { "command": "touch", "args": [user.path("started")] } } });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    for args in [["run", "-e", "return 1"], ["check", "-e", "return 1"]] {
        user.run(&args);
    }
    user.run(&["compute", "() => 1"]);
    user.run(&["run", "--no-servers", "-e", "return typeof marker"]);
    user.run(&["run", "-e", "/* marker */ const r: Record<string, string> = { marker: 'marker' }; return r.marker"]);
    assert!(!user.path("started").exists());
    user.try_run(&["run", "-e", "return await marker.anything({})"]);
    assert!(user.path("started").exists());
}

#[test]
fn a_found_configuration_that_cannot_be_used_is_told() {
    let user = User::with_home_elsewhere();
    user.write("toolgate.json", r#"{ "mcpServers": { "notes": { "command": "notes" } } }"#);
    for args in [&["run", "-e", "return 1"][..], &["check", "-e", "return 1"], &["compute", "() => 1"]] {
        let (code, _, stderr) = user.try_run(args);
        assert!(code == 0 && stderr.contains("toolgate.json comes from this folder and is not trusted"), "{stderr}");
    }
    let (code, _, stderr) = user.try_run(&["run", "-e", "return await notes.list({})"]);
    assert!(code == 2 && stderr.contains("nothing of it was started"), "{stderr}");

    user.run(&["trust"]);
    let (_, _, stderr) = user.try_run(&["run", "-e", "return 1"]);
    assert_eq!(stderr, "");
    let user = User::new();
    user.write(
        ".config/toolgate/toolgate.json",
        r#"{ "toolgate": { "sandbox": { "limits": { "chain": { "time": 1 } } } } }"#,
    );
    for args in [&["run", "-e", "return 1"][..], &["check", "-e", "return 1"], &["compute", "() => 1"]] {
        let (code, _, stderr) = user.try_run(args);
        assert!(code == 0 && stderr.contains("the configuration cannot be used"), "{stderr}");
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
