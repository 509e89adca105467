//! A server that is down, or cannot be started as it is configured, costs its own tools and no others.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Client, User};

/// A user with a server that works, one that needs a variable and one that cannot be started.
fn with_bad_servers() -> User {
    let user = User::with_demo("tracker");
    user.run(&["add", "unset", "--env", "KEY=${NOT_SET_ANYWHERE}", "--", env!("CARGO_BIN_EXE_toolgate"), "demo"]);
    user.run(&["add", "dead", "--", "/no/such/program"]);
    user
}

#[test]
fn a_bad_server_is_down_and_the_gateway_is_not() {
    let user = with_bad_servers();
    let (code, stdout, _) = user.try_run(&["list", "--json"]);
    assert_eq!(code, 1, "something is not up");
    let listed: Value = serde_json::from_str(&stdout).expect("JSON");
    let state = |name: &str| {
        let row = listed["backends"].as_array().expect("rows").iter().find(|row| row["name"] == name).expect("a row");
        (row["state"].as_str().expect("a word").to_owned(), row["detail"].as_str().expect("a text").to_owned())
    };
    assert_eq!(state("tracker").0, "ready");
    assert_eq!(state("unset"), ("needs configuration".to_owned(), "set NOT_SET_ANYWHERE".to_owned()));
    assert_eq!(state("dead").0, "failed");
    let found = user.json(&["search", "get", "issue", "--limit", "1", "--json"]);
    assert_eq!(found["tools"][0]["tool"], "get_issue");
    assert_eq!(found["not_searched"].as_array().expect("a list").len(), 2, "{found}");
    user.run(&["call", "tracker.get_issue", r#"{"number": 3}"#]);
    let mut client = Client::new(&user, &[]);
    assert_eq!(client.chain("return (await tracker.get_issue({ number: 1 })).number"), json!(1));
    let backends = client.ask("resources/read", json!({ "uri": "toolgate://backends" }));
    assert!(backends.to_string().contains("needs configuration"), "{backends}");
    let keys = client.call("get_required_keys_for_tool", json!({ "tool_name": "unset.get_issue" }));
    let keys: Value = serde_json::from_str(keys["content"][0]["text"].as_str().expect("text")).expect("JSON");
    assert_eq!(keys["keys"], json!([{ "name": "NOT_SET_ANYWHERE", "kind": "variable", "set": false }]));
    let failed =
        client.chain("try { return await unset.get_issue({ number: 1 }) } catch (error) { return error.message }");
    assert!(failed.to_string().contains("NOT_SET_ANYWHERE"), "{failed}");
    let told = client.call("call_tool_chain", json!({ "code": "return await unset.get_issue({ number: 1 })" }));
    let told = told["content"][0]["text"].as_str().expect("text");
    assert_eq!(told.matches("NOT_SET_ANYWHERE").count(), 1, "said once: {told}");
    let info = client.call("tool_info", json!({ "tool_name": "unset.get_issue" }));
    let info = info["content"][0]["text"].as_str().expect("text");
    assert!(info.contains("NOT_SET_ANYWHERE"), "not as if there were no such tool: {info}");
    client.leave();
}

#[test]
fn search_never_says_that_nothing_fits_because_servers_failed() {
    let user = User::new();
    user.run(&["add", "dead", "--", "/no/such/program"]);
    let (code, stdout, stderr) = user.try_run(&["search", "issue"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("dead: ") && !stderr.contains("try other words"), "{stderr}");
    let (code, _, stderr) = user.try_run(&["describe", "dead.get_issue"]);
    assert!(code == 2 && stderr.contains("dead: "), "{stderr}");
    user.run(&["add", "tracker", "--", env!("CARGO_BIN_EXE_toolgate"), "demo"]);
    let (code, _, stderr) = user.try_run(&["call", "tracker.get_isue"]);
    assert!(code == 2 && stderr.contains("did you mean tracker.get_issue"), "{stderr}");
    assert!(!stderr.contains("dead"), "a server that cannot have it is not named: {stderr}");
}

#[test]
fn a_search_among_known_tools_does_not_wait_for_a_server_that_never_answers() {
    let user = User::with_demo("tracker");
    user.run(&["list"]);
    let demo = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    // Waiting for its start would take as long as the tests may.
    let config = json!({
        "mcpServers": { "tracker": demo, "silent": { "command": "/bin/sleep", "args": ["1000"] } },
        "toolgate": { "limits": { "start_timeout": "10m" } },
    });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    let (code, stdout, stderr) = user.try_run(&["search", "get", "issue"]);
    assert!(code == 0 && stdout.contains("tracker.get_issue"), "{stdout}{stderr}");
    assert!(stderr.contains("silent: still starting; `toolgate list` waits for it"), "{stderr}");
    assert!(user.run(&["call", "tracker.get_issue", r#"{"number":1}"#]).contains("\"number\": 1"));
}

#[test]
fn a_server_that_is_not_started_is_named_without_waiting_for_another() {
    let user = User::new();
    // Waiting for the start of `silent` would take as long as the tests may.
    let config = json!({
        "mcpServers": {
            "silent": { "command": "/bin/sleep", "args": ["1000"] },
            "unset": { "command": "x", "env": { "KEY": "${NOT_SET_ANYWHERE}" } },
            "off": { "command": "x", "disabled": true },
        },
        "toolgate": { "limits": { "start_timeout": "10m" } },
    });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    for command in ["call", "describe"] {
        let (code, _, stderr) = user.try_run(&[command, "unset.get_issue"]);
        assert!(code == 2 && stderr.contains("unset: needs configuration: set NOT_SET_ANYWHERE"), "{stderr}");
        let (code, _, stderr) = user.try_run(&[command, "off.get_issue"]);
        assert!(code == 2 && stderr.contains("off: disabled in the configuration"), "{stderr}");
    }
}

/// A program of the shell in the user's home.
fn write_program(user: &User, name: &str, command: &str) -> String {
    let program = user.path(name);
    std::fs::write(&program, format!("#!/bin/sh\n{command}\n")).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a program");
    program.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_call_by_hand_waits_for_a_server_that_comes_up_at_its_second_start() {
    let user = User::new();
    let started = user.path("started");
    let demo = format!("exec '{}' demo", env!("CARGO_BIN_EXE_toolgate"));
    let command = format!("if [ -e '{0}' ]; then {demo}; fi; : > '{0}'; exit 3", started.display());
    user.run(&["add", "late", "--", &write_program(&user, "server", &command)]);
    assert!(user.run(&["call", "late.get_issue", r#"{"number":7}"#]).contains("\"number\": 7"));
    assert!(started.exists());
    // One that does not come up says why.
    user.run(&["add", "dead", "--", "/no/such/program"]);
    let (code, _, stderr) = user.try_run(&["call", "dead.get_issue"]);
    assert!(code == 2 && stderr.contains("dead: can't run /no/such/program"), "{stderr}");
}

#[test]
fn why_a_server_does_not_start_is_said_without_its_secrets() {
    let user = User::new();
    user.write("token", "s3cr3tTOK99");
    let token = format!("${{file:{}}}", user.path("token").display());
    // Answers every request with an error that repeats its variable.
    let refuse = r#"n=0; while read l; do n=$((n+1)); echo '{"jsonrpc":"2.0","id":'$n',"error":{"code":1,"message":"bad token '$TOK'"}}'; done"#;
    let config = json!({
        "mcpServers": {
            "refusing": { "command": "sh", "args": ["-c", refuse], "env": { "TOK": token } },
            "path": { "command": format!("/no/{token}/x") },
            "argument": { "command": "sh", "args": ["-c", "echo \"bad argument $0\" >&2; exit 3", token] },
            "remote": { "url": format!("http://127.0.0.1:1/{token}/mcp") },
        },
        "toolgate": { "limits": { "start_timeout": "5s" } },
    });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    let (code, stdout, stderr) = user.try_run(&["list", "--json"]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    for shown in ["bad token [TOK]", "can't run /no/[secret]/x", "bad argument [secret]"] {
        assert!(stdout.contains(shown), "{shown}: {stdout}");
    }
    let log = std::fs::read_to_string(user.path(".local/state/toolgate/toolgate.log")).unwrap_or_default();
    assert!(![stdout, stderr, log].iter().any(|text| text.contains("s3cr3tTOK99")), "a secret is shown");
}

/// An MCP server whose every error repeats its variable and its argument, in the message and anywhere in the data.
const LEAKY_SERVER: &str = r#"
import json, os, sys
TOOLS = {"tools": [{"name": "fail", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}}, "serverInfo": {"name": "leaky", "version": "1"}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    found = {"initialize": HELLO, "tools/list": TOOLS, "ping": {}}.get(message["method"])
    if found is not None:
        reply["result"] = found
    else:
        token, argument, pin = os.environ["TOK"], sys.argv[1], int(os.environ["PIN"])
        data = {"env": {"TOK": token}, "args": ["with " + argument], token: 1, "pin": pin}
        reply["error"] = {"code": -32000, "message": "bad token " + token + " and " + argument, "data": data}
    print(json.dumps(reply), flush=True)
"#;

#[test]
fn an_error_of_a_server_is_told_without_its_secrets() {
    let user = User::new();
    user.write("token", "s3cr3tTOK99");
    user.write("argument", "s3cr3tARG77");
    let script = user.write("leaky.py", LEAKY_SERVER);
    let file = |name: &str| format!("${{file:{}}}", user.path(name).display());
    let server = json!({
        "command": "python3", "args": [script, file("argument")], "env": { "TOK": file("token"), "PIN": "9182736455" },
    });
    user.write(".config/toolgate/toolgate.json", &json!({ "mcpServers": { "leaky": server } }).to_string());
    user.write("fail.ts", "try { await leaky.fail({}) } catch (e) { return { message: e.message, data: e.data } }");
    user.write("thrown.ts", "await leaky.fail({})");
    let mut told = Vec::new();
    for args in [&["run", "fail.ts", "--json"][..], &["run", "thrown.ts", "--json"], &["call", "leaky.fail"]] {
        let (_, stdout, stderr) = user.try_run(args);
        assert!(format!("{stdout}{stderr}").contains("[TOK]"), "{args:?}: {stdout}{stderr}");
        told.extend([stdout, stderr]);
    }
    let caught: Value = serde_json::from_str(&told[0]).expect("a report");
    let data = json!({ "env": { "TOK": "[TOK]" }, "args": ["with [secret]"], "[TOK]": 1, "pin": "[PIN]" });
    assert_eq!(caught["value"]["data"]["data"], data, "{caught}");
    let mut client = Client::new(&user, &["--mode", "direct"]);
    told.push(client.reply("tools/call", json!({ "name": "leaky__fail", "arguments": {} })).to_string());
    assert!(told.iter().any(|text| text.contains("-32000") && text.contains("[TOK]")), "{told:?}");
    client.leave();
    told.push(std::fs::read_to_string(user.path(".local/state/toolgate/toolgate.log")).unwrap_or_default());
    for secret in ["s3cr3tTOK99", "s3cr3tARG77", "9182736455"] {
        assert!(!told.iter().any(|text| text.contains(secret)), "{secret} is shown: {told:?}");
    }
}

#[test]
fn types_of_known_servers_do_not_wait_for_one_that_never_answers() {
    let user = User::new();
    let demo = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    // Nothing is cached. Waiting for the start of all would take as long as the tests may.
    let config = json!({
        "mcpServers": { "tracker": demo, "silent": { "command": "/bin/sleep", "args": ["1000"] } },
        "toolgate": { "limits": { "start_timeout": "10m" } },
    });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    let (code, stdout, stderr) = user.try_run(&["types"]);
    assert_eq!(code, 1, "some are missing: {stderr}");
    assert!(stdout.contains("get_issue"), "{stdout}");
    assert!(stderr.contains("left out") && stderr.contains("silent: still starting"), "{stderr}");
    let file = user.path("tools.d.ts");
    let (code, _, stderr) = user.try_run(&["types", "--out", file.to_str().expect("UTF-8")]);
    assert!(code == 1 && stderr.contains("silent: still starting"), "{stderr}");
    assert!(std::fs::read_to_string(&file).expect("written").contains("get_issue"));
}

#[test]
fn what_is_in_the_cache_is_answered_without_the_server() {
    let user = User::new();
    let program = user.path("server");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_toolgate"), &program).expect("a link");
    user.run(&["add", "tracker", "--", program.to_str().expect("UTF-8"), "demo"]);
    user.run(&["list"]);
    // A server that never answers: waiting for it would take a minute.
    std::fs::remove_file(&program).expect("removed");
    std::os::unix::fs::symlink("/bin/cat", &program).expect("a link");
    assert!(user.run(&["describe", "tracker.get_issue"]).contains("get_issue"));
    assert_eq!(user.json(&["search", "get", "issue", "--json"])["tools"][0]["backend"], "tracker");
}

#[test]
fn a_hangup_reads_the_configuration_and_its_files_again() {
    let user = User::new();
    let demo =
        json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"], "envFile": user.path("later.env") });
    user.write(".config/toolgate/toolgate.json", &json!({ "mcpServers": { "tracker": demo } }).to_string());
    let mut client = Client::new(&user, &[]);
    user.write("later.env", "A=1\n");
    let pid = client.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().expect("kill runs").success());
    while client.next()["method"] != "notifications/tools/list_changed" {}
    assert_eq!(client.chain("return (await tracker.get_issue({ number: 1 })).number"), json!(1));
    client.leave();
}

#[test]
fn standard_error_that_nobody_reads_does_not_keep_serve_from_ending() {
    let user = User::with_demo("tracker");
    for signal in [None, Some("-TERM")] {
        let mut command = user.command(&["serve"]);
        command.env("TOOLGATE_LOG", "debug").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        drop(child.stderr.take());
        let mut input = child.stdin.take().expect("piped");
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
        writeln!(input, "{hello}").expect("written");
        let pid = child.id().to_string();
        match signal {
            None => drop(input),
            Some(signal) => {
                // Told to end while standard input stays open.
                std::process::Command::new("kill").args([signal, &pid]).status().expect("kill runs");
                std::mem::forget(input);
            }
        }
        let (ended, end) = channel();
        std::thread::spawn(move || ended.send(child.wait()));
        let status = end.recv_timeout(Duration::from_secs(120)).expect("it ends").expect("a status");
        // A signal may come before there is anybody to take it.
        assert!(status.success() || signal.is_some(), "{status}");
    }
}

/// One bad part of the file costs itself; what it costs is told wherever the configuration is read.
#[test]
fn a_bad_part_of_the_configuration_costs_no_other() {
    let user = User::new();
    let demo = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    let config = json!({
        "mcpServers": { "tracker": demo, "null": null, "list": [], "unset": demo, "filter": demo, " x": demo },
        "toolgate": {
            "backends": {
                "unset": { "timeout": "${NOT_SET_ANYWHERE}" }, "filter": { "allow": [""] }, "removed": { "timeout": "1s" },
            },
            "functions": {
                "stock": { "url": "http://127.0.0.1:9/", "headers": { "A": "${NOT_SET_ANYWHERE}" } },
                "gone": { "tool": "removed.get_issue" },
                "issue": { "tool": "tracker.get_issue" },
            },
            "data": { "sales": { "file": "${NOT_SET_ANYWHERE}" } },
        },
    });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    let (code, stdout, stderr) = user.try_run(&["list", "--json"]);
    assert_eq!(code, 1, "some are not up: {stderr}");
    let listed: Value = serde_json::from_str(&stdout).expect("JSON");
    let rows = listed["backends"].as_array().expect("rows");
    let states: Vec<(&str, &str)> =
        rows.iter().filter_map(|row| Some((row["name"].as_str()?, row["state"].as_str()?))).collect();
    let down = "needs configuration";
    assert_eq!(states, [("filter", down), ("list", down), ("null", down), ("tracker", "ready"), ("unset", down)]);
    let (_, stdout, stderr) = user.try_run(&["call", "tracker.get_issue", r#"{"number": 3}"#]);
    assert!(stdout.contains("\"number\""), "{stdout}{stderr}");
    for left_out in [
        "toolgate.functions.stock.headers.A: the environment variable NOT_SET_ANYWHERE is not set; the function is left out",
        "toolgate.functions.gone.tool: the server of this tool is not in mcpServers; the function is left out",
        "toolgate.data.sales.file: the environment variable NOT_SET_ANYWHERE is not set; the data is left out",
        "toolgate.backends.removed: no server of this name in mcpServers; these settings have no effect",
        "nor begin or end with white space; the server is left out",
    ] {
        assert!(stderr.contains(left_out), "{left_out}\n{stderr}");
    }
    let mut client = Client::new(&user, &[]);
    assert_eq!(client.chain("return (await issue({ number: 1 })).number"), json!(1));
    let failed = client.chain("try { return await filter.get_issue({ number: 1 }) } catch (e) { return e.message }");
    assert!(failed.to_string().contains("toolgate.backends.filter.allow[0]"), "{failed}");
    client.leave();
}

#[test]
fn a_server_that_a_function_uses_can_be_removed() {
    let user = User::new();
    let demo = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    let functions = json!({ "issue": { "tool": "other.get_issue" } });
    let config = json!({ "mcpServers": { "tracker": demo, "other": demo }, "toolgate": { "functions": functions } });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    user.run(&["remove", "other"]);
    let (code, _, stderr) = user.try_run(&["list"]);
    assert!(code == 0 && stderr.contains("the function is left out"), "{stderr}");
}
