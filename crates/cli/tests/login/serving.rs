//! A gateway that runs while its user logs in, and while secrets change.

use std::io::Write;

use serde_json::{Value, json};

use crate::fake::Behaviour;
use crate::user::{Running, Server, User, wait_for};

/// Asks a gateway on its standard input and output.
fn ask(gateway: &mut Running, id: u64, method: &str, params: Value) -> Value {
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    writeln!(gateway.stdin.as_mut().unwrap(), "{message}").unwrap();
    loop {
        let line = gateway.line();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"));
        if answer["id"] == json!(id) {
            return answer;
        }
    }
}

fn open(user: &User) -> Running {
    let mut gateway = user.start(&["serve"]);
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    ask(&mut gateway, 1, "initialize", params);
    gateway
}

fn run(gateway: &mut Running, id: u64, code: &str) -> String {
    let answer = ask(gateway, id, "tools/call", json!({ "name": "call_tool_chain", "arguments": { "code": code } }));
    answer["result"].to_string()
}

#[test]
fn a_login_is_picked_up_without_a_restart() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url()]);
    let mut gateway = open(&user);
    let code = "try { return await notes.read({}) } catch (e) { return { code: e.code, command: e.data.command } }";
    let mut id = 2;
    let mut text = String::new();
    wait_for(|| {
        id += 1;
        text = run(&mut gateway, id, code);
        text.contains("NEEDS_LOGIN") || text.contains("needs login")
    });
    assert!(text.contains("toolgate login notes"), "{text}");
    assert_eq!(user.log_in(&["login", "notes"]).code, 0);
    wait_for(|| {
        id += 1;
        text = run(&mut gateway, id, code);
        text.contains("done")
    });
    // A login that ends while the gateway runs, and comes again.
    server.fake.revoke_access();
    server.fake.revoke_refresh();
    let refused = run(&mut gateway, id + 1, code);
    assert!(refused.contains("toolgate login notes"), "{refused}");
    assert_eq!(user.log_in(&["login", "notes"]).code, 0);
    id += 2;
    wait_for(|| {
        id += 1;
        run(&mut gateway, id, code).contains("done")
    });
    let ended = gateway.finish();
    assert_eq!(ended.code, 0, "{ended:?}");
    user.check_no_secret();
}

#[test]
fn a_secret_that_is_set_later_completes_a_server() {
    let user = User::new();
    let program = env!("CARGO_BIN_EXE_toolgate");
    let server = json!({ "command": program, "args": ["demo"], "env": { "DEMO_TOKEN": "${keyring:DEMO}" } });
    user.config(&json!({ "mcpServers": { "demo": server } }));
    let mut gateway = open(&user);
    let ask_keys = |gateway: &mut Running, id: u64| {
        let arguments = json!({ "tool_name": "demo.update_issue" });
        ask(gateway, id, "tools/call", json!({ "name": "get_required_keys_for_tool", "arguments": arguments }))
            .to_string()
    };
    let missing = ask_keys(&mut gateway, 2);
    assert!(missing.contains(r#"\"name\": \"DEMO\""#) && missing.contains("toolgate secret set DEMO"), "{missing}");
    assert!(missing.contains(r#"\"set\": false"#), "{missing}");
    assert_eq!(user.run_with_input(&["secret", "set", "DEMO"], "canary-demo").code, 0);
    let mut id = 2;
    wait_for(|| {
        id += 1;
        ask_keys(&mut gateway, id).contains(r#"\"set\": true"#)
    });
    assert_eq!(gateway.finish().code, 0);
    user.check_no_secret();
}
