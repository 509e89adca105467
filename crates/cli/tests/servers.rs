//! The commands about MCP servers, with the demo server as a real process behind them.

#[path = "servers/clients.rs"]
mod clients;
#[path = "servers/down.rs"]
mod down;
#[path = "servers/person.rs"]
mod person;
#[path = "servers/sharing.rs"]
mod sharing;
mod support;
#[path = "servers/trust.rs"]
mod trust;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A user with a home folder of its own, in which commands are run unless they are run in a folder below it.
struct User {
    folder: TempDir,
    cwd: &'static str,
}

impl User {
    fn new() -> Self {
        User { folder: tempfile::tempdir().expect("a folder"), cwd: "" }
    }

    /// One who works in a folder below the home folder.
    fn with_home_elsewhere() -> Self {
        let user = User { cwd: "work/project", ..User::new() };
        std::fs::create_dir_all(user.home().join(user.cwd)).expect("a folder");
        user
    }

    fn home(&self) -> &Path {
        self.folder.path()
    }

    /// A file in the working folder.
    fn write(&self, name: &str, text: &str) -> std::path::PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("written");
        path
    }

    /// Exit code and screen of a command on a terminal, at which this is typed.
    fn on_terminal(&self, args: &[&str], typed: &str) -> (i32, String) {
        let line: Vec<String> =
            [env!("CARGO_BIN_EXE_toolgate")].iter().chain(args).map(|word| format!("'{word}'")).collect();
        self.in_terminal(&line.join(" "), typed)
    }

    /// The same for a line of the shell.
    fn in_terminal(&self, line: &str, typed: &str) -> (i32, String) {
        let mut command = Command::new("script");
        command.args(["-qec", line, "/dev/null"]).current_dir(self.path("")).env("HOME", self.home());
        for name in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"] {
            command.env_remove(name);
        }
        command.env("NO_COLOR", "1").env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("script runs");
        let mut input = child.stdin.take().expect("piped");
        input.write_all(typed.as_bytes()).expect("typed");
        // The terminal stays until the command ends: its end of input would be typed too.
        let output = std::thread::spawn(move || child.wait_with_output().expect("it ends"));
        let output = output.join().expect("no panic");
        drop(input);
        (output.status.code().expect("an exit code"), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// One with a configuration of the demo server, under this name.
    fn with_demo(name: &str) -> Self {
        let user = User::new();
        user.run(&["add", name, "--", env!("CARGO_BIN_EXE_toolgate"), "demo"]);
        user
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.args(args).current_dir(self.path("")).env("HOME", self.home());
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_CACHE_HOME").env_remove("XDG_STATE_HOME");
        command.env_remove("COLUMNS").stdin(Stdio::null());
        command
    }

    /// Exit code, standard output and standard error.
    fn try_run(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.command(args).output().expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
    }

    /// The standard output of a command that does what it is asked.
    fn run(&self, args: &[&str]) -> String {
        let (code, stdout, stderr) = self.try_run(args);
        assert_eq!(code, 0, "{args:?}: {stdout}{stderr}");
        stdout
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(args)).expect("JSON")
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.home().join(self.cwd).join(name)
    }
}

/// An MCP client of the legacy era on the other end of `toolgate serve`.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Client {
    fn new(user: &User, args: &[&str]) -> Self {
        Self::start(&mut user.command(&[&["serve"], args].concat()))
    }

    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut client = Client { input: child.stdin.take(), child, output, id: 0 };
        let about = json!({ "name": "test", "version": "1" });
        client.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about }));
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("open"), "{message}").expect("written");
    }

    /// The result of a request; notifications that come first are passed over.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.reply(method, params)["result"].clone()
    }

    /// The whole reply, which may be an error.
    fn reply(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }));
        loop {
            let message = self.next();
            if message["id"] == self.id {
                return message;
            }
        }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON on standard output")
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// What a program returned.
    fn chain(&mut self, code: &str) -> Value {
        let result = self.call("call_tool_chain", json!({ "code": code }));
        let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// Closes the pipe, as a client does that goes away.
    fn leave(mut self) {
        self.input.take();
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// Processes with this word on their command line.
fn processes_with(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

#[test]
fn the_readmes_first_command_runs_a_chain_over_a_real_server() {
    let tour = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tour.ts");
    let user = User::new();
    let (code, stdout, stderr) = user.try_run(&["run", tour.to_str().expect("UTF-8"), "--demo"]);
    assert_eq!(code, 0, "{stderr}");
    insta::assert_snapshot!("tour", stdout);
    for tool in ["demo.list_issues", "demo.get_issue", "demo.current_time", "demo.create_note"] {
        assert!(stderr.contains(tool), "{stderr}");
    }
}

/// The demo server starts with the command, so nothing is known of its tools when the program fails.
#[test]
fn a_typo_over_the_demo_is_explained_by_its_tools() {
    let user = User::new();
    for (code, expected) in [
        ("return await list_isues({})", "Did you mean `demo.list_issues({…})`?"),
        ("return await demo.list_isues({})", "Did you mean `list_issues`?"),
        ("return await dmo.list_issues({})", "Did you mean `demo`?"),
        ("return await toolgate.list_issues({})", "call it as `demo.list_issues({…})`"),
    ] {
        let file = user.folder.path().join("typo.ts");
        std::fs::write(&file, code).expect("a file");
        let (_, _, stderr) = user.try_run(&["run", file.to_str().expect("UTF-8"), "--demo"]);
        assert!(stderr.contains(expected) && !stderr.contains("still starting"), "{code}\n{stderr}");
    }
}

#[test]
fn an_agent_searches_asks_and_runs_in_a_sealed_process() {
    let user = User::with_demo("tracker");
    let mut client = Client::new(&user, &[]);
    let found = client.call("search_tools", json!({ "task_description": "get one issue", "limit": 3 }));
    assert!(found["content"][0]["text"].as_str().expect("text").contains("tracker.get_issue"));
    let code = "const page = await tracker.list_issues({ limit: 5 }); return page.issues.map(i => i.number)";
    assert_eq!(client.chain(code), json!([1, 2, 3, 4, 5]));
    let result = client.call("call_tool_chain", json!({ "code": "console.log('x'); return 1" }));
    let report = &result["_meta"]["toolgate/report"];
    assert_eq!((&report["isolation"]["mode"], &report["isolation"]["seccomp"]), (&json!("process"), &json!(true)));
    let logo = client.call("call_tool_chain", json!({ "code": "return await tracker.show_logo({})" }));
    let kinds: Vec<&str> =
        logo["content"].as_array().expect("blocks").iter().filter_map(|it| it["type"].as_str()).collect();
    assert!(kinds.contains(&"image"), "{logo}");
    let snippet = client.call("run_code", json!({ "code": "return 6 * 7" }));
    assert_eq!(snippet["structuredContent"]["result"], 42);
    client.leave();
}

#[test]
fn a_second_start_answers_from_the_cache() {
    let user = User::new();
    let program = user.path("server");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_toolgate"), &program).expect("a link");
    user.run(&["add", "tracker", "--", program.to_str().expect("UTF-8"), "demo"]);
    let mut first = Client::new(&user, &[]);
    first.chain("return await tracker.get_issue({ number: 1 })");
    first.leave();
    // The server can't be started any more, and its tools are still known.
    std::fs::remove_file(&program).expect("removed");
    let mut second = Client::new(&user, &[]);
    let info = second.call("tool_info", json!({ "tool_name": "tracker.get_issue" }));
    assert!(info["content"][0]["text"].as_str().expect("text").contains("get_issue(args"), "{info}");
    second.leave();
}

#[test]
fn the_command_line_chooses_the_engine() {
    let user = User::with_demo("demo");
    let mut client = Client::start(user.command(&["serve", "--engine", "v8"]).env("TOOLGATE_DENO", "/nowhere/deno"));
    // There is none here, so that the flag is the only reason to look for one.
    let answer = client.call("call_tool_chain", json!({ "code": "return [1].map((x) => x + 1)" }));
    assert!(answer["isError"] == true && answer.to_string().contains("deno"), "{answer}");
    client.leave();
}

#[test]
fn a_saved_configuration_is_picked_up_while_it_serves() {
    let user = User::with_demo("one");
    let mut client = Client::new(&user, &[]);
    assert_eq!(client.chain("return (await one.get_issue({ number: 1 })).number"), json!(1));
    user.run(&["add", "two", "--", env!("CARGO_BIN_EXE_toolgate"), "demo"]);
    while client.next()["method"] != "notifications/tools/list_changed" {}
    assert_eq!(client.chain("return (await two.get_issue({ number: 2 })).number"), json!(2));
    client.leave();
}

#[test]
fn direct_mode_passes_tools_through() {
    let user = User::with_demo("tracker");
    let mut client = Client::new(&user, &["--mode", "direct"]);
    // The list is complete once the server is up, of which clients are told.
    let mut names = Vec::new();
    while names.is_empty() {
        let tools = client.ask("tools/list", json!({}))["tools"].clone();
        names =
            tools.as_array().expect("a list").iter().filter_map(|it| it["name"].as_str().map(str::to_owned)).collect();
    }
    assert!(
        names.contains(&"tracker__get_issue".to_owned()) && !names.contains(&"call_tool_chain".to_owned()),
        "{names:?}"
    );
    let result = client.call("tracker__get_issue", json!({ "number": 7 }));
    assert_eq!(result["structuredContent"]["number"], 7);
    client.leave();
}

#[test]
fn a_client_that_goes_away_takes_every_process_with_it() {
    let user = User::new();
    let mark = user.path("mark").to_string_lossy().into_owned();
    user.run(&["add", "marked", "--", "sh", "-c", "exec \"$0\" demo", env!("CARGO_BIN_EXE_toolgate"), &mark]);
    let mut client = Client::new(&user, &[]);
    client.chain("return await marked.get_issue({ number: 1 })");
    // Still in a long call when the client leaves.
    let slow = json!({ "name": "call_tool_chain", "arguments": { "code": "return await marked.slow_task({ seconds: 300 })" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": slow }));
    client.leave();
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn servers_are_listed_searched_described_and_called() {
    let user = User::with_demo("tracker");
    let listed = user.json(&["list", "--json"]);
    let row = &listed["backends"][0];
    assert_eq!((&row["name"], &row["state"], &row["tools"]), (&json!("tracker"), &json!("ready"), &json!(12)));
    assert!(row["ready_ms"].as_f64().expect("a time") > 0.0);
    let found = user.json(&["search", "get", "issue", "--limit", "1", "--json"]);
    assert_eq!(found["tools"][0]["tool"], "get_issue");
    insta::assert_snapshot!("describe", user.run(&["describe", "tracker.current_time"]));
    let issue: Value = serde_json::from_str(&user.run(&["call", "get_issue", r#"{"number": 3}"#])).expect("JSON");
    assert_eq!(issue["number"], 3);
    let (code, _, stderr) = user.try_run(&["call", "tracker.always_fails", r#"{"message": "no \u001b[31mluck"}"#]);
    assert_eq!((code, stderr.contains("no \\u{1b}[31mluck")), (1, true), "{stderr}");
    user.run(&["types", "--out", "tools.d.ts"]);
    assert!(std::fs::read_to_string(user.path("tools.d.ts")).expect("written").contains("declare const tracker"));
}

/// One with a server whose tools answer as they are asked to.
fn with_echo() -> User {
    let user = User::new();
    let script = format!("{}/../gateway/tests/fixtures/backend.py", env!("CARGO_MANIFEST_DIR"));
    user.run(&["add", "odd", "--", "python3", &script]);
    user
}

#[test]
fn a_deep_result_is_printed_and_deep_arguments_are_refused_as_such() {
    let user = with_echo();
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let printed = user.run(&["call", "odd.say", &json!({ "texts": [nested(300)] }).to_string()]);
    assert_eq!(printed.replace([' ', '\n'], ""), nested(300));
    let (code, _, stderr) = user.try_run(&["call", "odd.echo", &format!("{{\"x\": {}}}", nested(300))]);
    assert!(code == 2 && stderr.contains("the arguments are nested deeper than 127 levels"), "{stderr}");
    let program = "let x = []; for (let i = 0; i < 300; i++) x = [x]; return await odd.echo({ x })";
    let (code, _, stderr) = user.try_run(&["run", "-e", program]);
    assert!(code == 1 && stderr.contains("nested deeper than 127 levels"), "{stderr}");
}

#[test]
fn a_call_that_fails_is_json_on_standard_output_where_that_is_asked_for() {
    let user = with_echo();
    for (tool, exit, code) in [("odd.nope", 2, "UNKNOWN"), ("nope.echo", 2, "UNKNOWN"), ("odd.crash", 1, "CRASHED")] {
        let (ended, stdout, stderr) = user.try_run(&["call", tool, "--json"]);
        let printed: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{tool}: {error} {stderr}"));
        assert_eq!((ended, &printed["error"]["code"]), (exit, &json!(code)), "{tool}: {printed}");
        assert!(printed["error"]["message"].is_string(), "{printed}");
    }
}

#[test]
fn host_functions_are_searched_and_described_like_tools() {
    let user = User::new();
    let stock = json!({ "url": "http://127.0.0.1:9/", "description": "Tells the stock of an article.",
        "schema": { "type": "object", "required": ["article"], "properties": { "article": { "type": "string" } } } });
    let config = json!({ "mcpServers": {}, "toolgate": { "functions": { "api.stock": stock } } });
    std::fs::write(user.path("functions.json"), config.to_string()).expect("written");
    let found = user.json(&["search", "stock of an article", "--json", "--config", "functions.json"]);
    let function = &found["functions"][0];
    assert_eq!((&function["name"], &found["tools"]), (&json!("api.stock"), &json!([])), "{found}");
    assert_eq!(function["input_schema"]["required"], json!(["article"]));
    for args in [&["search", "stock of an article"][..], &["describe", "api.stock"]] {
        let text = user.run(&[args, &["--config", "functions.json"]].concat());
        let expected = "api.stock\n  Tells the stock of an article.\n  await api.stock(argument: { article: string }): Promise<unknown>";
        assert_eq!(text.trim_end(), expected, "{args:?}");
    }
}

#[test]
fn a_configuration_is_written_extended_and_reduced() {
    let user = User::new();
    user.run(&["init"]);
    assert_eq!(user.try_run(&["init"]).0, 2);
    user.run(&["add", "remote", "https://remote.invalid/mcp", "--header", "Authorization=Bearer ${TOKEN:-none}"]);
    user.run(&["add", "local", "--env", "A=b=c", "--", "prog", "--flag"]);
    assert_eq!(user.try_run(&["add", "local", "--", "prog"]).0, 2);
    let text = std::fs::read_to_string(user.path("toolgate.json")).expect("written");
    assert!(text.contains("https://remote.invalid/mcp") && text.contains("b=c") && text.contains("--flag"), "{text}");
    user.run(&["remove", "remote"]);
    assert!(!std::fs::read_to_string(user.path("toolgate.json")).expect("written").contains("remote.invalid"));
    assert_eq!(user.try_run(&["remove", "remote"]).0, 2);
    let schema = user.json(&["config", "schema"]);
    assert_eq!(schema["title"], "Toolgate configuration");
}

#[test]
fn a_server_that_cannot_work_as_it_is_written_is_refused_or_told_when_it_is_added() {
    let user = User::new();
    let (code, _, stderr) = user.try_run(&["add", "x", "http://"]);
    assert!(code == 2 && stderr.contains("mcpServers.x.url"), "{stderr}");
    assert!(!user.path(".config/toolgate/toolgate.json").exists(), "nothing is written");
    user.run(&["add", "later", "https://${NOT_SET_ANYWHERE}/mcp", "--offline"]);
    let (code, _, stderr) = user.try_run(&["add", "old", "https://127.0.0.1:1/sse", "--transport", "sse", "--offline"]);
    assert!(code == 0 && stderr.contains("the HTTP+SSE transport is not supported"), "{stderr}");
    let servers = json!({ "mcpServers": { "older": { "type": "sse", "url": "https://127.0.0.1:1/sse" } } });
    let file = user.write("client.json", &servers.to_string());
    let (code, _, stderr) = user.try_run(&["import", file.to_str().expect("UTF-8")]);
    assert!(code == 0 && stderr.contains("the HTTP+SSE transport is not supported"), "{stderr}");
    let (code, _, stderr) = user.try_run(&["search", "issues", "--limit", "0"]);
    assert!(code == 2 && stderr.contains("--limit"), "{stderr}");
}

#[test]
fn clients_are_imported_from_and_connected() {
    let user = User::new();
    std::fs::create_dir_all(user.path(".cursor")).expect("a folder");
    let servers = json!({ "mcpServers": { "theirs": { "command": "prog" }, "toolgate": { "command": "toolgate", "args": ["serve"] } } });
    std::fs::write(user.path(".cursor/mcp.json"), servers.to_string()).expect("written");
    let shown = user.json(&["import", "cursor", "--dry-run", "--json"]);
    assert_eq!(shown["servers"][0]["result"], "would be added");
    assert!(!user.path("toolgate.json").exists());
    user.run(&["import"]);
    assert!(!user.path("toolgate.json").exists(), "the user's own folder is the place");
    let own = user.path(".config/toolgate/toolgate.json");
    assert!(std::fs::read_to_string(own).expect("written").contains("theirs"));
    user.run(&["connect", "claude-code", "--mode", "both"]);
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(user.path(".claude.json")).expect("written")).expect("JSON");
    let args = &written["mcpServers"]["toolgate"]["args"];
    assert_eq!(
        (&args[0], &args[1], &args[3], &args[4]),
        (&json!("serve"), &json!("--config"), &json!("--mode"), &json!("both"))
    );
    assert_eq!(user.try_run(&["connect", "emacs"]).0, 2);
}

#[test]
fn without_a_configuration_every_command_says_what_to_do() {
    let user = User::new();
    for args in [&["serve"][..], &["list"], &["search", "x"], &["types"], &["connect", "cursor"]] {
        let (code, stdout, stderr) = user.try_run(args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.contains("toolgate init"), "{stderr}");
    }
    std::fs::write(
        user.path("toolgate.json"),
        r#"{"mcpServers": {"a": {}, "b": {"command": "x", "env": {"K": "${UNSET}"}}}}"#,
    )
    .expect("written");
    user.run(&["trust"]);
    let (code, stdout, _) = user.try_run(&["list"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("set UNSET") && stdout.contains("neither a command nor a url"), "{stdout}");
    std::fs::write(user.path("toolgate.json"), r#"{"mcpServers": {}, "toolgate": {"mode": "no"}}"#).expect("written");
    let (code, _, stderr) = user.try_run(&["list", "--config", "toolgate.json"]);
    assert!(code == 2 && stderr.contains("toolgate.json:1:"), "{stderr}");
}

#[test]
fn a_server_that_does_not_come_up_is_shown_with_its_reason() {
    let user = User::new();
    user.run(&["add", "bad", "--", "/no/such/program"]);
    let (code, stdout, _) = user.try_run(&["list", "--json"]);
    assert_eq!(code, 1);
    let listed: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(listed["backends"][0]["state"], "failed");
}

#[test]
fn over_http_the_same_gateway_answers_at_mcp() {
    let user = User::with_demo("tracker");
    let mut command = user.command(&["serve", "--http", "127.0.0.1:0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
    let (mut line, mut stderr) = (String::new(), BufReader::new(child.stderr.take().expect("piped")));
    stderr.read_line(&mut line).expect("an address");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split(',').next()).expect("an address").to_owned();
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let refused = post(&address, "/mcp", &body.to_string(), "");
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a path");
    let file = line.trim().rsplit(' ').next().expect("a path");
    let token = std::fs::read_to_string(file).expect("a token");
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    let answer = post(&address, "/mcp", &body.to_string(), &bearer);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"toolgate\""), "{answer}");
    let run = post(&address, "/v1/run", r#"{"code": "return 1 + 1"}"#, &bearer);
    assert!(run.starts_with("HTTP/1.1 200") && run.contains("\"result\":2"), "{run}");
    // Asked to end, it ends by itself.
    Command::new("kill").arg(child.id().to_string()).status().expect("kill runs");
    assert!(child.wait().expect("it ends").success());
}

fn post(address: &str, path: &str, body: &str, headers: &str) -> String {
    use std::io::Read;
    let mut stream = std::net::TcpStream::connect(address).expect("a connection");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
