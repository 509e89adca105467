//! A user with an empty home, who runs commands; a browser; and a server behind OAuth.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::fake::{Behaviour, Fake};

/// The value of the variable that configurations of these tests name.
const CLIENT_SECRET: &str = "canary-client-secret";
/// What gateways of all tests replied over HTTP.
static REPLIES: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Answers the questions of a command at a terminal.
const ANSWERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/answers.py");

/// A server behind OAuth, on a runtime of its own.
pub(crate) struct Server {
    pub(crate) fake: Arc<Fake>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let fake = runtime.block_on(Fake::start(behaviour));
        Self { fake, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        self.fake.url()
    }
}

/// What one command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A user with an empty home. Everything that commands print is kept, to be searched for secrets.
pub(crate) struct User {
    home: TempDir,
    printed: Arc<Mutex<Vec<String>>>,
}

impl User {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), printed: Arc::default() }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Writes a file into the home and gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.home().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Writes the user's own configuration.
    pub(crate) fn config(&self, config: &Value) -> String {
        self.file(".config/toolgate/toolgate.json", &config.to_string())
    }

    /// Changes the configuration as a person with an editor does.
    pub(crate) fn edit_config(&self, change: impl FnOnce(&mut Value)) {
        let text = std::fs::read_to_string(self.home().join(".config/toolgate/toolgate.json")).unwrap();
        let mut config = serde_json::from_str(&text).unwrap();
        change(&mut config);
        self.config(&config);
    }

    pub(crate) fn start(&self, args: &[&str]) -> Running {
        self.start_with(args, &[])
    }

    /// Starts a command at a terminal of its own, which answers its questions.
    pub(crate) fn start_at_terminal(&self, answers: &str, args: &[&str], variables: &[(&str, &str)]) -> Running {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/answers.py");
        let words = [&[script, answers, env!("CARGO_BIN_EXE_toolgate")], args].concat();
        self.start_program("python3", &words, &[&[("TOOLGATE_LOG", "error"), ("NO_COLOR", "1")], variables].concat())
    }

    pub(crate) fn start_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Running {
        self.start_program(env!("CARGO_BIN_EXE_toolgate"), args, variables)
    }

    fn start_program(&self, program: &str, args: &[&str], variables: &[(&str, &str)]) -> Running {
        let mut command = self.command(program, variables);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = reader(child.stderr.take().unwrap());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Running {
            child,
            stdout: Some(stdout),
            stderr: Some(stderr),
            first: String::new(),
            printed: Arc::clone(&self.printed),
        }
    }

    fn command(&self, program: &str, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.home()).env_clear().env("HOME", self.home());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("CLIENT_SECRET", CLIENT_SECRET);
        command.env("TOOLGATE_LOG", "debug").envs(variables.iter().copied());
        command
    }

    /// Runs a command at a terminal with a browser. Each text that is typed comes after what is shown with it, and where that
    /// says that it is not shown, once that is so.
    pub(crate) fn run_at_terminal(&self, args: &[&str], answers: &[(&str, &str)]) -> Ran {
        let seconds = |shown: &str| (!shown.contains("not shown")).then_some(0.0);
        let browser =
            self.file("browser.py", "import sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n");
        let answers: Vec<_> = answers.iter().map(|(shown, typed)| (shown, typed, seconds(shown))).collect();
        let answers = serde_json::to_string(&answers).unwrap();
        let mut command = self.command("python3", &[("BROWSER", &format!("python3 {browser} %s"))]);
        let output = command.args([ANSWERS, &answers, env!("CARGO_BIN_EXE_toolgate")]).args(args).output().unwrap();
        let ran: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(ran["unanswered"], serde_json::json!([]), "{ran}");
        let text = |name: &str| ran[name].as_str().unwrap().replace("\r\n", "\n");
        let (stdout, stderr) = (text("stdout"), text("terminal"));
        self.printed.lock().unwrap().extend([stdout.clone(), stderr.clone()]);
        Ran { code: ran["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap(), stdout, stderr }
    }

    /// Runs a command with nothing on standard input.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.start(args).finish()
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut running = self.start(args);
        running.stdin.as_mut().unwrap().write_all(input.as_bytes()).unwrap();
        running.finish()
    }

    /// Runs a login and does what a person with a browser does.
    pub(crate) fn log_in(&self, args: &[&str]) -> Ran {
        let mut login = self.start(args);
        follow(&login.url());
        login.finish()
    }

    /// Searches every file of the home, everything that was printed, and the arguments of processes while they ran for what must
    /// not be there.
    #[track_caller]
    pub(crate) fn check_no_secret(&self) {
        let printed = self.printed.lock().unwrap();
        let leak = printed.iter().find(|text| text.contains("canary"));
        assert_eq!(leak, None, "printed");
        let replies = REPLIES.lock().unwrap();
        assert_eq!(replies.iter().find(|text| text.contains("canary")), None, "replied over HTTP");
        let mut files = Vec::new();
        collect(self.home(), &mut files);
        assert!(!files.is_empty());
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            assert!(!bytes.windows(6).any(|window| window == b"canary"), "{}", file.display());
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.is_file() {
            // A socket has no content.
            files.push(path);
        }
    }
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    stdout: Option<BufReader<std::process::ChildStdout>>,
    stderr: Option<std::thread::JoinHandle<String>>,
    first: String,
    printed: Arc<Mutex<Vec<String>>>,
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Running {
    /// The first line of standard output, which is the URL of a login.
    pub(crate) fn url(&mut self) -> String {
        let line = self.line();
        self.first.clone_from(&line);
        line.trim().to_owned()
    }

    /// The next line of standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        self.printed.lock().unwrap().push(line.clone());
        self.keep_arguments();
        line
    }

    /// Keeps the arguments of this process and of all that it started, to be searched for secrets: every user of a machine can
    /// read them.
    fn keep_arguments(&self) {
        let mut processes = vec![self.child.id()];
        while let Some(process) = processes.pop() {
            let Ok(arguments) = std::fs::read(format!("/proc/{process}/cmdline")) else { continue };
            self.printed.lock().unwrap().push(String::from_utf8_lossy(&arguments).into_owned());
            let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
            for thread in threads {
                let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
                processes.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            }
        }
    }

    pub(crate) fn finish(mut self) -> Ran {
        drop(self.child.stdin.take());
        let mut stdout = std::mem::take(&mut self.first);
        self.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let stderr = self.stderr.take().unwrap().join().unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        self.printed.lock().unwrap().extend([stdout.clone(), stderr.clone()]);
        Ran { code, stdout, stderr }
    }
}

/// What a command printed that a test ends is searched for secrets as well.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A process that outlives the command may have its output open: it is not waited for without end.
        let end = Instant::now() + Duration::from_secs(30);
        for output in [self.stdout.take().map(reader), self.stderr.take()].into_iter().flatten() {
            while !output.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            // A test that failed may have left the lock poisoned.
            if output.is_finished()
                && let (Ok(text), Ok(mut printed)) = (output.join(), self.printed.lock())
            {
                printed.push(text);
            }
        }
    }
}

fn reader(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Keeps a reply of a gateway, to be searched for secrets.
pub(crate) fn keep_reply(reply: &str) {
    REPLIES.lock().unwrap().push(reply.to_owned());
}

/// Opens a page as a browser does: to the end of its redirects.
pub(crate) fn follow(url: &str) {
    let next = follow_without_redirect(url);
    let (status, _) = get(&next);
    assert_eq!(status, 200, "{url}");
}

/// Opens a page and gives the address that it redirects to.
pub(crate) fn follow_without_redirect(url: &str) -> String {
    assert!(url.starts_with("http://127.0.0.1:"), "no URL was printed: {url:?}");
    let (status, head) = get(url);
    assert_eq!(status, 303, "{head}");
    let location = head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
    location.to_owned()
}

/// Opens a page, whatever it answers.
pub(crate) fn open_page(url: &str) {
    get(url);
}

/// Status and head of a page.
fn get(url: &str) -> (u16, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
}

/// Waits until something holds, as long as a slow machine may need.
#[track_caller]
pub(crate) fn wait_for(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "it never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn guide() -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/GUIDE.md");
    std::fs::read_to_string(guide).unwrap()
}

/// What the guide shows for a command.
#[track_caller]
pub(crate) fn check_guide(output: &str) {
    let guide = guide();
    for line in output.lines().filter(|line| !line.trim().is_empty()) {
        assert!(guide.contains(line.trim_end()), "docs/GUIDE.md does not show: {line}\nin: {output}");
    }
}

/// A row of `list` that the guide shows, whatever its milliseconds and the widths of its columns.
#[track_caller]
pub(crate) fn check_guide_row(row: &str) {
    let plain = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_time = |n: usize| words.get(n + 1) == Some(&"ms");
        let words = words.iter().enumerate().map(|(n, word)| if is_time(n) { "N" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let row = plain(row);
    assert!(guide().lines().any(|line| plain(line) == row), "docs/GUIDE.md does not show: {row}");
}
