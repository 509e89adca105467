//! A user with a home of its own, and an MCP client of the `toolgate serve` that he starts.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Calls a tool of the demo server; the answer is 20.
pub(crate) const COUNT: &str = "return (await demo.list_issues({ limit: 20 })).issues.length";

pub(crate) struct User {
    folder: TempDir,
    /// The command line that starts the binary: its own arguments follow.
    prefix: Vec<String>,
}

impl User {
    /// One with a configuration of the demo server.
    pub(crate) fn new() -> Self {
        let user = User { folder: tempfile::tempdir().expect("a folder"), prefix: Vec::new() };
        std::fs::create_dir(user.home()).expect("a folder");
        user.configure(&json!({}));
        user
    }

    /// The same with more settings below `toolgate`.
    pub(crate) fn configure(&self, settings: &Value) {
        let demo = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
        let config = json!({ "mcpServers": { "demo": demo }, "toolgate": settings });
        std::fs::write(self.config(), config.to_string()).expect("written");
    }

    /// Starts the binary by another program, which gets the binary and its arguments.
    pub(crate) fn with_prefix(mut self, words: &[&str]) -> Self {
        self.prefix = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("toolgate.json")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file beside the home.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_toolgate");
        let mut words = self.prefix.iter().map(String::as_str).chain([program]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(args).current_dir(self.folder.path()).env("HOME", self.home());
        for name in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "COLUMNS"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Exit code, standard output and standard error.
    pub(crate) fn run(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.command(args).output().expect("the binary runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
        (output.status.code().unwrap_or_else(|| panic!("{args:?} {}: {stderr}", output.status)), stdout, stderr)
    }

    /// A program over the configured servers.
    pub(crate) fn run_program(&self, code: &str, args: &[&str]) -> (i32, String, String) {
        let file = self.write("program.js", code);
        let config = self.config().display().to_string();
        self.run(&[&["run", file.as_str(), "--config", config.as_str()], args].concat())
    }

    /// A client of a gateway with the user's configuration.
    pub(crate) fn serve(&self) -> Client {
        Client::start(&mut self.command(&["serve", "--config", &self.config().display().to_string()]))
    }
}

/// An MCP client of the legacy era.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: std::thread::JoinHandle<String>,
    id: u64,
}

impl Client {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = child.stderr.take().expect("piped");
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut client = Client { input: child.stdin.take(), child, output, errors, id: 0 };
        let about = json!({ "name": "test", "version": "1" });
        client.ask("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about }));
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("open"), "{message}").expect("written");
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }

    /// The results of some requests that are under way at one time, in their order.
    pub(crate) fn ask_all(&mut self, method: &str, all: &[Value]) -> Vec<Value> {
        let first = self.id + 1;
        for params in all {
            self.id += 1;
            self.send(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }));
        }
        let mut answers = vec![Value::Null; all.len()];
        let mut missing = all.len();
        while missing > 0 {
            let message = self.next();
            let Some(id) = message["id"].as_u64().filter(|id| *id >= first) else { continue };
            let place = usize::try_from(id - first).expect("an id of ours");
            answers[place] = message.get("result").or(message.get("error")).expect("an answer").clone();
            missing -= 1;
        }
        answers
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.ask_all(method, &[params]).remove(0)
    }

    /// The text of the answers to some programs at one time.
    pub(crate) fn chains(&mut self, codes: &[&str]) -> Vec<String> {
        let call = |code: &&str| json!({ "name": "call_tool_chain", "arguments": { "code": code } });
        let answers = self.ask_all("tools/call", &codes.iter().map(call).collect::<Vec<_>>());
        let text = |answer: &Value| answer["content"][0]["text"].as_str().map_or(answer.to_string(), str::to_owned);
        answers.iter().map(text).collect()
    }

    pub(crate) fn chain(&mut self, code: &str) -> String {
        self.chains(&[code]).remove(0)
    }

    /// Closes the pipe, as a client does that goes away; what the gateway wrote to standard error.
    pub(crate) fn leave(mut self) -> String {
        self.input.take();
        let status = self.child.wait().expect("it ends");
        let errors = self.errors.join().expect("no panic");
        assert!(status.success(), "{status}: {errors}");
        assert!(!errors.contains("panicked"), "{errors}");
        errors
    }
}
