//! Windows that share one gateway, and servers that are started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
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
    let (child, _) = daemon_at(&mut user.command(&["daemon"]), |_| {});
    child
}

/// The same with the path of its socket; `said` gets the later lines of its standard error.
fn daemon_at(command: &mut Command, said: impl Fn(&str) + Send + 'static) -> (Child, PathBuf) {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let path = |line: String| line.split_once("windows attach at ").map(|(_, path)| PathBuf::from(path.trim()));
    let socket = lines.by_ref().map_while(Result::ok).find_map(path).expect("the path of its socket");
    // Whatever else it says must not block it.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| said(&line)));
    (child, socket)
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().expect("kill runs").success());
}

fn end(mut child: Child) {
    signal(&child, "-TERM");
    assert!(child.wait().expect("it ends").success());
}

/// A function `mark` of programs, and what it posts to.
fn mark() -> (TcpListener, serde_json::Value) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    (listener, json!({ "mark": { "url": url, "timeout": "1m", "idempotent": true } }))
}

/// A call of `mark` that has arrived, to be answered.
fn marked(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("set");
    let arrived = std::cell::RefCell::new(None);
    wait_until("the program calls mark", || {
        *arrived.borrow_mut() = listener.accept().ok();
        arrived.borrow().is_some()
    });
    let (mut stream, _) = arrived.into_inner().expect("a connection");
    stream.set_nonblocking(false).expect("set");
    assert!(stream.read(&mut [0; 4096]).expect("a request") > 0);
    stream
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
    assert!(code == 2 && stderr.contains("no server named nothing: there are tracker"), "{stderr}");
    client.leave();
    let folder = user.home().join(".local/state/toolgate/run");
    let left = std::fs::read_dir(folder).expect("a folder").count();
    assert_eq!(left, 0, "sockets go with their gateways");
}

#[test]
fn a_daemon_that_is_told_to_end_gives_its_windows_the_reports_of_their_runs() {
    let (listener, functions) = mark();
    let limits = json!({ "limits": { "chain": { "timeout": "10m" } } });
    let (user, _) = with_own_server(json!({ "functions": functions, "sandbox": limits }));
    let mut running = daemon(&user);
    let mut client = Client::new(&user, &[]);
    let code = "await mark(); await new Promise(resolve => setTimeout(resolve, 600_000))";
    let call = json!({ "name": "call_tool_chain", "arguments": { "code": code } });
    client.send(&json!({ "jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": call }));
    let mut stream = marked(&listener);
    stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").expect("answered");
    signal(&running, "-TERM");
    let answer = loop {
        let message = client.next();
        if message["id"] == 99 {
            break message;
        }
    };
    let report = &answer["result"]["_meta"]["toolgate/report"];
    assert_eq!((&report["code"], &report["calls"][0]["name"]), (&json!("ABORTED"), &json!("mark")), "{answer}");
    assert!(running.wait().expect("it ends").success());
    assert_eq!(client.child.wait().expect("it ends").code(), Some(1), "its daemon is gone");
}

#[test]
fn a_daemon_that_is_started_anew_takes_over_durable_runs() {
    let (listener, functions) = mark();
    let user = User::new();
    let file = |name: &str| user.path(name).to_str().expect("UTF-8").to_owned();
    let runs = json!({ "store": file("runs.db"), "key_file": file("runs.key"), "lease": "400ms" });
    let config = json!({ "mcpServers": {}, "toolgate": { "functions": functions, "runs": runs } });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    let mut first = daemon(&user);
    let mut client = Client::new(&user, &[]);
    let call = json!({ "name": "call_tool_chain", "arguments": { "code": "return await mark()", "durable": true } });
    client.send(&json!({ "jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": call }));
    let unanswered = marked(&listener);
    first.kill().expect("killed");
    first.wait().expect("it ends");
    drop(unanswered);
    client.child.wait().expect("it ends");
    let second = daemon(&user);
    // No window has asked it for anything.
    let mut stream = marked(&listener);
    stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").expect("answered");
    wait_until("the run is done", || {
        user.json(&["runs", "list", "--status", "done", "--json"]).as_array().is_some_and(|runs| runs.len() == 1)
    });
    end(second);
}

/// The value comes from a command: no change of a file tells the daemon of it.
#[test]
fn a_hangup_of_an_attached_window_has_the_daemon_read_its_configuration_again() {
    let user = User::new();
    let word = user.path("word").to_str().expect("UTF-8").to_owned();
    let server = json!({
        "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"], "env": { "WORD": format!("${{cmd:cat {word}}}") },
    });
    let config = json!({ "mcpServers": { "tracker": server }, "toolgate": { "secrets": { "commands": true } } });
    user.write(".config/toolgate/toolgate.json", &config.to_string());
    let running = daemon(&user);
    let mut client = Client::new(&user, &[]);
    let failed = client.call("call_tool_chain", json!({ "code": ONE }));
    assert_eq!(failed["isError"], true, "{failed}");
    user.write("word", "x\n");
    signal(&client.child, "-HUP");
    while client.next()["method"] != "notifications/tools/list_changed" {}
    assert_eq!(client.chain(ONE), json!(1));
    client.leave();
    end(running);
}

#[test]
fn a_daemon_without_free_descriptors_takes_windows_again_later() {
    let (user, program) = with_own_server(json!({}));
    let daemon = user.command(&["daemon"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 128; exec \"$0\" daemon"]).arg(daemon.get_program());
    limited.current_dir(user.path("")).stdin(Stdio::null());
    for (name, value) in daemon.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let (failed, failure) = std::sync::mpsc::channel();
    let (running, socket) = daemon_at(&mut limited, move |line| {
        if line.contains("accepting a connection at the shared socket failed") {
            let _ = failed.send(());
        }
    });
    // They say nothing: each holds a descriptor of the daemon for as long as it may take for its first line.
    let held: Vec<UnixStream> = (0..200).map(|_| UnixStream::connect(&socket).expect("connected")).collect();
    failure.recv_timeout(WAIT_TIMEOUT).expect("it has no descriptor left");
    drop(held);
    let mut client = Client::new(&user, &[]);
    assert_eq!(client.chain(ONE), json!(1));
    assert!(socket.exists());
    let mut second = Client::new(&user, &[]);
    assert_eq!(second.chain(ONE), json!(1));
    assert_eq!(processes_with(&program), 1, "both are attached");
    client.leave();
    second.leave();
    end(running);
}

/// A Unix socket path is limited to about a hundred bytes, so below a deep folder no socket can be bound.
#[test]
fn a_window_whose_daemon_cannot_be_started_serves_itself() {
    let (user, _) = with_own_server(json!({ "share": true }));
    let state = user.path(&"deep/".repeat(30));
    let mut command = user.command(&["serve"]);
    let errors = user.path("errors");
    command.env("XDG_STATE_HOME", &state).stderr(std::fs::File::create(&errors).expect("a file"));
    let mut client = Client::start(&mut command);
    assert_eq!(client.chain(ONE), json!(1));
    client.leave();
    let said = std::fs::read_to_string(errors).expect("readable");
    assert!(said.contains("no daemon could be started (exit status: 1)"), "{said}");
}

#[test]
fn a_window_whose_client_has_left_ends_though_the_daemon_hangs() {
    let (user, _) = with_own_server(json!({}));
    let (running, socket) = daemon_at(&mut user.command(&["daemon"]), |_| {});
    end(running);
    let hanging = UnixListener::bind(&socket).expect("a socket");
    let mut window = user.command(&["serve"]).stdout(Stdio::null()).spawn().expect("the binary starts");
    let (mut stream, _) = hanging.accept().expect("a window");
    let mut hello = String::new();
    BufReader::new(stream.try_clone().expect("a copy")).read_line(&mut hello).expect("a line");
    assert!(hello.contains("attach"), "{hello}");
    stream.write_all(b"{\"ok\":true,\"message\":\"attached\"}\n").expect("written");
    // Its standard input is at its end, and the conversation stays open.
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(window.wait()));
    let status = end.recv_timeout(WAIT_TIMEOUT).expect("it ends").expect("a status");
    assert!(status.success(), "{status}");
    drop(stream);
}
