//! Windows that share one gateway, and servers that are started again.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Client, User, processes_with};

/// No test waits longer than this for anything.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A user with the demo server as a program of its own name, so that its processes can be counted.
fn with_own_server(settings: serde_json::Value) -> (User, String) {
    let user = User::new();
    let program = user.path("own-server");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_toolgate"), &program).expect("a link");
    let program = program.to_str().expect("UTF-8").to_owned();
    let config = json!({ "mcpServers": { "tracker": { "command": program, "args": ["demo"] } }, "toolgate": settings });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    (user, program)
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_true() {
        assert!(since.elapsed() < WAIT_TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A daemon that windows can attach to.
fn daemon(user: &User) -> Child {
    let mut child = user.command(&["daemon"]).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let first = lines.next().expect("a line").expect("UTF-8");
    assert!(first.contains("windows attach at"), "{first}");
    // Whatever else it says must not block it.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn end(mut child: Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
    assert!(child.wait().expect("it ends").success());
}

const ONE: &str = "return (await tracker.get_issue({ number: 1 })).number";

#[test]
fn windows_attach_to_a_running_daemon_and_share_its_servers() {
    let (user, program) = with_own_server(json!({}));
    let running = daemon(&user);
    let (_, _, stderr) = user.try_run(&["daemon"]);
    assert!(stderr.contains("runs already"), "{stderr}");
    let mut one = Client::new(&user, &[]);
    let mut two = Client::new(&user, &["--mode", "direct"]);
    assert_eq!(one.chain(ONE), json!(1));
    let issue = two.call("tracker__get_issue", json!({ "number": 2 }));
    assert!(issue.to_string().contains("\"number\":2"), "each window has its own mode: {issue}");
    assert_eq!(processes_with(&program), 1, "one server for both");
    one.leave();
    assert!(two.call("tracker__get_issue", json!({ "number": 3 })).to_string().contains("\"number\":3"));
    let (code, _, stderr) = user.try_run(&["restart", "tracker"]);
    assert!(code == 0 && stderr.contains("tracker: ready"), "{stderr}");
    assert_eq!(processes_with(&program), 1);
    two.leave();
    end(running);
    wait_until("no server is left", || processes_with(&program) == 0);
    // Without a daemon a window serves itself.
    let mut alone = Client::new(&user, &[]);
    assert_eq!(alone.chain(ONE), json!(1));
    alone.leave();
}

#[test]
fn with_share_the_first_window_starts_the_daemon_and_it_ends_after_the_last() {
    let (user, program) = with_own_server(json!({ "share": true }));
    let mut one = Client::new(&user, &[]);
    assert_eq!(one.chain(ONE), json!(1));
    let mut two = Client::new(&user, &[]);
    assert_eq!(two.chain(ONE), json!(1));
    assert_eq!(processes_with(&program), 1, "one server for both");
    one.leave();
    assert_eq!(two.chain(ONE), json!(1), "the first window was no host of the second");
    // A window that is killed has left too.
    two.child.kill().expect("killed");
    two.child.wait().expect("it ends");
    wait_until("no server is left", || processes_with(&program) == 0);
    let home = user.home().to_str().expect("UTF-8").to_owned();
    wait_until("no daemon is left", || processes_with(&home) == 0);
}

/// Approvals for a session are in the memory of the gateway: `policy` reaches it by its socket.
#[test]
fn approvals_of_a_running_gateway_are_listed_and_revoked() {
    let rule = json!({ "tool": "tracker.create_note", "do": "ask" });
    let (user, _) = with_own_server(json!({ "policy": [rule] }));
    let json = |args: &[&str]| -> serde_json::Value {
        let (code, stdout, stderr) = user.try_run(&[args, &["--json"]].concat());
        assert_eq!(code, 0, "{args:?}: {stderr}");
        serde_json::from_str(&stdout).expect("JSON")
    };
    let remembered = || json(&["policy", "list"])["remembered"].as_array().expect("a list").clone();
    assert!(remembered().is_empty(), "no gateway runs");
    let saves = |name: &str| format!("return (await tracker.create_note({{ name: '{name}', text: 'x' }})).saved");
    let mut client = Client::new(&user, &[]);
    let waits = client.call("call_tool_chain", json!({ "code": saves("a") }));
    assert!(waits.to_string().contains("is paused"), "{waits}");
    let pending = json(&["pending"]);
    let (run, call) = (pending[0]["runId"].as_str().expect("a run"), pending[0]["callId"].to_string());
    json(&["approve", run, &call, "--remember", "session"]);
    wait_until("the gateway remembers it", || !remembered().is_empty());
    let listed = remembered();
    assert_eq!((&listed[0]["rule"]["tool"], &listed[0]["caller"]), (&json!("tracker.create_note"), &json!("local")));
    let (_, stdout, _) = user.try_run(&["policy", "list"]);
    let name = listed[0]["id"].as_str().expect("a name");
    assert!(stdout.contains(name) && stdout.contains("the session"), "{stdout}");
    assert_eq!(client.chain(&saves("b")), json!("b"), "no person is asked");
    assert_eq!(user.try_run(&["policy", "revoke", name]).0, 0);
    assert!(remembered().is_empty());
    assert_eq!(user.try_run(&["policy", "revoke", name]).0, 2, "it is gone");
    let waits = client.call("call_tool_chain", json!({ "code": saves("c") }));
    assert!(waits.to_string().contains("is paused"), "{waits}");
    client.leave();
}

#[test]
fn restart_starts_a_failed_server_again_wherever_it_runs() {
    let user = User::new();
    let ready = user.path("ready");
    let script = format!("test -e '{}' && exec '{}' demo", ready.display(), env!("CARGO_BIN_EXE_toolgate"));
    user.run(&["add", "tracker", "--", "sh", "-c", &script]);
    let (code, _, stderr) = user.try_run(&["restart", "tracker"]);
    assert!(code == 1 && stderr.contains("no Toolgate runs with this configuration"), "{stderr}");
    let mut client = Client::new(&user, &[]);
    let failed = client.call("call_tool_chain", json!({ "code": ONE, "timeout": 1000 }));
    assert_eq!(failed["isError"], true, "{failed}");
    std::fs::write(&ready, "").expect("a file");
    let (code, _, stderr) = user.try_run(&["restart", "tracker"]);
    assert!(code == 0 && stderr.contains("tracker: ready"), "{stderr}");
    assert_eq!(client.chain(ONE), json!(1));
    let (code, _, stderr) = user.try_run(&["restart", "nothing"]);
    assert!(code == 1 && stderr.contains("there is no such server"), "{stderr}");
    client.leave();
    let folder = user.home().join(".local/state/toolgate/run");
    let left = std::fs::read_dir(folder).expect("a folder").count();
    assert_eq!(left, 0, "sockets go with their gateways");
}
