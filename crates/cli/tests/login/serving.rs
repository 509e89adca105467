//! A gateway that runs while its user logs in, and while secrets change.

use std::io::Write;

use serde_json::{Value, json};

use crate::fake::Behaviour;
use crate::resource::request;
use crate::user::{Running, Server, User, follow, follow_without_redirect, wait_for};

/// Asks a gateway on its standard input and output.
pub(crate) fn ask(gateway: &mut Running, id: u64, method: &str, params: Value) -> Value {
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

pub(crate) fn open(user: &User) -> Running {
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
    let code = "return await notes.read({})";
    let mut id = 2;
    // The login that is there first, and one that ends while the gateway runs, and comes again.
    for _ in 0..2 {
        let mut paused = Value::Null;
        // Until it is known that the server wants a login, a call of its tools is one of a server that starts.
        wait_for(|| {
            id += 1;
            let call = json!({ "name": "call_tool_chain", "arguments": { "code": code } });
            let answer = ask(&mut gateway, id, "tools/call", call);
            paused = answer["result"]["_meta"]["toolgate/report"]["paused"].clone();
            !paused.is_null()
        });
        assert!(paused.to_string().contains("toolgate login notes"), "{paused}");
        assert_eq!(user.log_in(&["login", "notes"]).code, 0);
        wait_for(|| {
            id += 1;
            let call = json!({ "name": "run_status", "arguments": { "run_id": paused["runId"] } });
            ask(&mut gateway, id, "tools/call", call)["result"].to_string().contains("done")
        });
        id += 1;
        assert!(run(&mut gateway, id, code).contains("done"));
        server.fake.revoke_access();
        server.fake.revoke_refresh();
    }
    let ended = gateway.finish();
    assert_eq!(ended.code, 0, "{ended:?}");
    user.check_no_secret();
}

#[test]
fn a_durable_run_waits_for_logins_and_goes_on_by_itself() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url()]);
    let mut gateway = open(&user);
    let code = "console.log('begun'); return [await notes.read({}), await notes.write({})]";
    let arguments = json!({ "code": code, "durable": true });
    let mut id = 2;
    let mut begun = String::new();
    // Until it is known that the server wants a login, a call of its tools is one of a server that starts.
    wait_for(|| {
        id += 1;
        let call = json!({ "name": "call_tool_chain", "arguments": arguments });
        begun = ask(&mut gateway, id, "tools/call", call)["result"].to_string();
        begun.contains("paused")
    });
    assert!(begun.contains("toolgate login notes"), "{begun}");
    assert!(begun.contains("the button Log in on the page of `toolgate ui`"), "{begun}");
    let pending = || serde_json::from_str::<Value>(&user.run(&["pending", "--json"]).stdout).unwrap();
    let waiting = pending();
    assert_eq!((&waiting[0]["tool"], &waiting[0]["login"]), (&json!("read"), &json!("toolgate login notes")));
    let run = waiting[0]["runId"].as_str().unwrap().to_owned();
    assert_eq!(user.log_in(&["login", "notes"]).code, 0);
    // The call goes on by itself, and the next one needs more.
    let more = "toolgate login notes --scope read --scope write";
    wait_for(|| pending()[0]["login"] == more);
    assert_eq!(user.log_in(&more.split(' ').skip(1).collect::<Vec<_>>()).code, 0);
    let mut shown = Value::Null;
    wait_for(|| {
        shown = serde_json::from_str(&user.run(&["runs", "show", &run, "--json"]).stdout).unwrap();
        shown["status"] == "done"
    });
    assert_eq!(shown["report"]["value"], json!(["done", "done"]), "{shown}");
    let states: Vec<&Value> = shown["report"]["calls"].as_array().unwrap().iter().map(|call| &call["state"]).collect();
    assert_eq!(states, ["applied", "applied"]);
    assert_eq!(shown["report"]["logs"]["stdout"], json!(["begun"]), "the program was not begun anew");
    assert_eq!(gateway.finish().code, 0);
    user.check_no_secret();
}

/// A program that was not asked for as a durable run begins again as one when a login is missing, if it has changed nothing. After a
/// change its call fails, and the next program is kept from its start.
#[test]
fn a_program_waits_for_a_login_and_goes_on_by_itself() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url()]);
    assert_eq!(user.log_in(&["login", "notes"]).code, 0);
    let mut gateway = open(&user);
    let more = "toolgate login notes --scope read --scope write";
    let changed = "const read = await notes.read({}); return [read, await notes.write({})]";
    let mut text = String::new();
    let mut id = 2;
    wait_for(|| {
        id += 1;
        text = run(&mut gateway, id, changed);
        text.contains(more)
    });
    assert!(text.contains("isError") && text.contains("has changed something already"), "{text}");
    // In another process nothing is known of that.
    assert_eq!(gateway.finish().code, 0);
    let mut gateway = open(&user);
    // Two writes that are refused at the same time have changed nothing either.
    for code in ["return await Promise.all([notes.write({}), notes.write({})])", changed] {
        // The server may still be starting.
        wait_for(|| {
            id += 1;
            text = run(&mut gateway, id, code);
            text.contains("is paused")
        });
        assert!(text.contains(more), "{text}");
    }
    let pending: Value = serde_json::from_str(&user.run(&["pending", "--json"]).stdout).unwrap();
    let mut runs: Vec<String> =
        pending.as_array().unwrap().iter().map(|it| it["runId"].as_str().unwrap().into()).collect();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs.len(), 2, "{pending}");
    assert_eq!(user.log_in(&more.split(' ').skip(1).collect::<Vec<_>>()).code, 0);
    let mut values = Vec::new();
    wait_for(|| {
        let report = |run: &String| -> Value {
            let shown = user.run(&["runs", "show", run, "--json"]).stdout;
            serde_json::from_str::<Value>(&shown).unwrap()["report"]["value"].clone()
        };
        values = runs.iter().map(report).collect();
        values.iter().all(|value| !value.is_null())
    });
    assert_eq!(values, [json!(["done", "done"]), json!(["done", "done"])]);
    // With the login there, nothing is kept any more.
    let kept = || serde_json::from_str::<Value>(&user.run(&["runs", "list", "--json"]).stdout).unwrap().to_string();
    let before = kept();
    let last = run(&mut gateway, id + 1, changed);
    assert!(last.contains("done") && !last.contains("paused"), "{last}");
    assert_eq!(kept(), before, "the tool answers, so the program was not kept");
    assert_eq!(gateway.finish().code, 0);
    user.check_no_secret();
}

#[test]
fn nobody_has_to_wait_for_a_login() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url()]);
    let mut gateway = open(&user);
    let code = "try { return await notes.read({}) } catch (e) { return e.code }";
    let arguments = json!({ "code": code, "durable": true });
    let mut id = 2;
    wait_for(|| {
        id += 1;
        let call = json!({ "name": "call_tool_chain", "arguments": arguments });
        ask(&mut gateway, id, "tools/call", call)["result"].to_string().contains("paused")
    });
    let waiting: Value = serde_json::from_str(&user.run(&["pending", "--json"]).stdout).unwrap();
    let (run, call) = (waiting[0]["runId"].as_str().unwrap(), waiting[0]["callId"].to_string());
    assert_eq!(user.run(&["deny", run, &call]).code, 0);
    let mut shown = Value::Null;
    wait_for(|| {
        shown = serde_json::from_str(&user.run(&["runs", "show", run, "--json"]).stdout).unwrap();
        shown["status"] == "done"
    });
    let report = &shown["report"];
    assert_eq!((&report["value"], &report["safe_to_retry"]), (&json!("NEEDS_LOGIN"), &json!(true)), "{shown}");
    assert_eq!(gateway.finish().code, 0);
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

/// A gateway over HTTP that asks for no token, and its address.
pub(crate) fn serve_http(user: &User, servers: &Value) -> (Running, String) {
    user.config(&json!({ "mcpServers": servers, "toolgate": { "http": { "auth": "none" } } }));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let gateway = user.start(&["serve", "--http", &address]);
    wait_for(|| std::net::TcpStream::connect(&address).is_ok());
    (gateway, address)
}

pub(crate) fn backend(address: &str, name: &str) -> Value {
    let (_, _, reply) = request(address, "GET /v1/backends", None, &Value::Null);
    let all = reply["backends"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|backend| backend["name"] == name).unwrap_or_default()
}

#[test]
fn a_login_is_begun_over_http_and_ends_with_a_browser_of_this_machine() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    let program = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    let (gateway, address) = serve_http(&user, &json!({ "notes": { "url": server.url() }, "local": program }));
    let begin = |name: &str, body: Value| request(&address, &format!("POST /v1/backends/{name}/login"), None, &body);
    let url = |reply: &(u16, String, Value)| reply.2["url"].as_str().unwrap_or_else(|| panic!("{reply:?}")).to_owned();
    wait_for(|| backend(&address, "notes")["action"] == "log-in");
    for (name, body, status) in [
        ("nothing", json!({}), 404),
        ("local", json!({}), 400),
        ("notes", json!({ "scopes": ["a b"] }), 400),
        ("notes", json!({ "scopes": vec!["a"; 65] }), 400),
    ] {
        let refused = begin(name, body);
        assert!(refused.0 == status && refused.2["error"]["message"].is_string(), "{name}: {refused:?}");
    }
    // A login that its person refuses is told, and can be begun again.
    let refused = begin("notes", json!({}));
    assert!(refused.0 == 201 && refused.1.contains("cache-control: no-store"), "{refused:?}");
    let ends_at = follow_without_redirect(&url(&refused));
    let (start, rest) = ends_at.split_once("code=").unwrap();
    let rest = rest.split_once('&').map_or("", |(_, rest)| rest);
    crate::user::open_page(&format!("{start}error=access_denied&{rest}"));
    wait_for(|| backend(&address, "notes")["lastError"].as_str().is_some_and(|text| text.contains("access_denied")));
    let status = |name: &str| request(&address, &format!("GET /v1/backends/{name}/login"), None, &Value::Null);
    let (code, _, reply) = status("notes");
    assert_eq!((code, &reply["loggedIn"], &reply["waiting"]), (200, &json!(false), &json!(false)), "{reply}");
    assert!(reply["failure"].as_str().is_some_and(|text| text.contains("access_denied")), "{reply}");
    assert_eq!((status("nothing").0, status("local").0), (404, 400));
    // One that is begun anew ends the one before.
    let before = begin("notes", json!({}));
    let begun = begin("notes", json!({}));
    assert_eq!((before.0, begun.0), (201, 201), "{before:?} {begun:?}");
    assert_eq!(status("notes").2["waiting"], true);
    follow(&url(&begun));
    wait_for(|| backend(&address, "notes")["state"] == "ready");
    wait_for(|| status("notes").2["waiting"] == false);
    let reply = status("notes").2;
    assert_eq!(
        (&reply["loggedIn"], &reply["scopes"], &reply["renewed"]),
        (&json!(true), &json!(["read"]), &json!(true))
    );
    assert!(
        reply["issuer"] == server.fake.origin && reply["expiresAt"].is_u64() && reply["failure"].is_null(),
        "{reply}"
    );
    let again = begin("notes", json!({}));
    assert!(again.0 == 200 && again.2["url"].is_null(), "{again:?}");
    // A call that needs more goes on after a login for that.
    let (_, _, waits) = request(&address, "POST /v1/run", None, &json!({ "code": "return await notes.write({})" }));
    let question = &waits["paused"]["pending"][0];
    assert_eq!(question["login"], "toolgate login notes --scope read --scope write", "{waits}");
    let reason = question["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("The user can also log in at http://{address}/#/pending")), "{reason}");
    let run = format!("GET /v1/runs/{}", waits["paused"]["runId"].as_str().unwrap());
    follow(&url(&begin("notes", json!({ "scopes": ["write"] }))));
    wait_for(|| request(&address, &run, None, &Value::Null).2["report"]["value"] == "done");
    drop(gateway);
    user.check_no_secret();
}

#[test]
fn a_write_that_a_rule_asks_about_waits_also_in_the_first_run_of_an_empty_home() {
    let user = User::new();
    let demo = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    let policy = json!([{ "tool": "demo.create_note", "do": "ask" }]);
    user.config(&json!({ "mcpServers": { "demo": demo }, "toolgate": { "policy": policy } }));
    let mut gateway = open(&user);
    // No tool of the server is known yet: nothing is in the cache, and it is started by the call.
    let paused = run(&mut gateway, 2, "return await demo.create_note({ name: 'first', text: 'x' })");
    assert!(paused.contains("is paused"), "{paused}");
    assert_eq!(gateway.finish().code, 0);
}
