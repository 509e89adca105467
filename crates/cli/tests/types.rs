//! The type check at the command line, with the TypeScript that `./check` installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

mod support;
use support::script;

fn compiler() -> PathBuf {
    let installed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.check/typescript/node_modules/typescript/bin/tsc");
    let named = std::env::var_os("TOOLGATE_TSC").map(PathBuf::from);
    named.into_iter().chain([installed]).find(|path| path.is_file()).expect("a TypeScript 7: `./check` installs one")
}

fn toolgate(args: &[&str], tsc: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_toolgate")).args(args).env("TOOLGATE_TSC", tsc).output().expect("the binary ends")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// What a check of types ends with and says. On a busy machine the checker may take longer to start than it waits.
fn check(program: &str) -> (Option<i32>, Value) {
    let once = || {
        let checked = toolgate(&["check", program, "--demo", "--json"], &compiler());
        (checked.status.code(), json(&checked))
    };
    (0..20).map(|_| once()).find(|(_, checked)| checked["typesChecked"] == true).expect("a check of the types")
}

const WRONG: &str = "const page = await demo.list_issues({ limit: 2 });\nreturn page.issues.map(i => i.titel);";

#[test]
fn a_wrong_field_is_found_without_running_the_program() {
    let program = script("wrong.ts", WRONG);
    let (code, found) = check(program.path());
    assert_eq!((code, &found["ok"]), (Some(1), &Value::Bool(false)), "{found}");
    let error = &found["errors"][0];
    assert_eq!((&error["code"], &error["line"], &error["column"]), (&"unknown_property".into(), &2.into(), &31.into()));
    assert!(error["suggestion"].as_str().is_some_and(|text| text.starts_with("Did you mean `title`?")), "{error}");
}

#[test]
fn a_run_with_a_wrong_field_calls_nothing() {
    let program = script("wrong.ts", WRONG);
    // On a busy machine the checker takes longer to start than a run waits by default.
    let config = serde_json::json!({
        "mcpServers": { "demo": { "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] } },
        "toolgate": { "limits": { "type_check": "10s" } },
    });
    let config = script("toolgate.json", config.to_string());
    let report = json(&toolgate(&["run", program.path(), "--config", config.path(), "--json"], &compiler()));
    assert_eq!(report["code"], "INVALID_CODE", "{report}");
    assert_eq!(report["calls"], serde_json::json!([]), "{report}");
}

/// The first block of this language after a heading of `docs/TYPES.md`.
fn block_after(heading: &str, language: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/TYPES.md");
    let text = std::fs::read_to_string(file).expect("the document");
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).expect("the heading");
    let (_, block) = section.split_once(&format!("```{language}\n")).expect("the block");
    block.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn the_transcript_over_the_demo_server_is_what_a_run_prints() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    let config = serde_json::json!({
        "mcpServers": { "demo": { "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] } },
        "toolgate": { "limits": { "type_check": "10s" } },
    });
    write("toolgate.json", &config.to_string());
    write("demo.ts", &block_after("demo", "ts"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.args(["run", "demo.ts", "--config", "toolgate.json"]).current_dir(folder.path());
    let output = command.env("TOOLGATE_TSC", compiler()).output().expect("the binary ends");
    let printed = [&output.stdout[..], &output.stderr[..]].concat();
    assert_eq!(String::from_utf8_lossy(&printed).trim_end(), block_after("demo", "text").trim_end());
}

#[test]
fn the_programs_of_the_cookbook_are_not_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cookbook");
    for file in std::fs::read_dir(folder).expect("the folder") {
        let file = file.expect("a file").path();
        let (_, checked) = check(file.to_str().expect("UTF-8"));
        assert_eq!((&checked["ok"], &checked["errors"]), (&Value::Bool(true), &serde_json::json!([])), "{file:?}");
    }
}

#[test]
fn without_a_compiler_everything_is_as_before_and_doctor_says_so() {
    let nowhere = Path::new("/nowhere/tsc");
    let program = script("wrong.ts", WRONG);
    let report = json(&toolgate(&["run", program.path(), "--demo", "--json"], nowhere));
    assert_eq!((&report["value"], &report["warnings"]), (&serde_json::json!([null, null]), &serde_json::json!([])));
    let doctor = json(&toolgate(&["doctor", "--json"], nowhere));
    assert!(doctor["typescript"].as_str().is_some_and(|text| text.contains("/nowhere/tsc is not the tsc")), "{doctor}");
    let doctor = json(&toolgate(&["doctor", "--json"], &compiler()));
    assert!(doctor["typescript"].as_str().is_some_and(|text| text.starts_with("TypeScript 7.")), "{doctor}");
}

#[test]
fn a_check_says_when_it_checked_no_types() {
    let program = script("wrong.ts", WRONG);
    let nowhere = Path::new("/nowhere/tsc");
    let checked = toolgate(&["check", program.path(), "--demo"], nowhere);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(0), "{said}");
    assert!(said.contains("the types of the program were not checked: there is no TypeScript 7"), "{said}");
    let checked = json(&toolgate(&["check", program.path(), "--demo", "--json"], nowhere));
    assert_eq!(checked["typesChecked"], false, "{checked}");
    assert!(checked["typesNotChecked"].as_str().is_some_and(|why| why.contains("toolgate doctor")), "{checked}");
    let (_, checked) = check(program.path());
    assert_eq!((&checked["typesChecked"], &checked["typesNotChecked"]), (&Value::Bool(true), &Value::Null));
}

/// A user's folders, and a configuration with one server whose tools declare no results. `order` only reads; most others
/// have effects, and some never answer.
struct User {
    home: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/tests/fixtures/backend.py");
        let config = serde_json::json!({
            "mcpServers": { "f": { "command": "python3", "args": [server, "--reads", "order"] } },
            "toolgate": { "http": { "auth": "none" } },
        });
        std::fs::write(home.path().join("toolgate.json"), config.to_string()).expect("written");
        User { home }
    }

    /// The same whose runs, and learned types, are in the database at this address.
    fn with_database(url: &str) -> Self {
        let user = User::new();
        let file = user.home.path().join("toolgate.json");
        let mut config: Value = serde_json::from_slice(&std::fs::read(&file).expect("the file")).expect("JSON");
        config["toolgate"]["runs"] = serde_json::json!({ "store": url });
        std::fs::write(file, config.to_string()).expect("written");
        user
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.args(args).arg("--config").arg(self.home.path().join("toolgate.json"));
        command.env("HOME", self.home.path()).env("TOOLGATE_TSC", compiler());
        for (name, folder) in [("XDG_CACHE_HOME", "cache"), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")]
        {
            command.env(name, self.home.path().join(folder));
        }
        command
    }

    /// What it says on standard output and on standard error.
    fn run(&self, args: &[&str]) -> (String, String) {
        let output = self.command(args).output().expect("the binary ends");
        assert!(output.status.success(), "{args:?}: {output:?}");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }
}

const LEARNED: &str = "order(args?: {}): Promise<{ a: number; m: number; z: number }> // learned from 1 result";

#[test]
fn what_is_learned_is_shown_exported_and_imported() {
    let user = User::new();
    let (learned, said) = user.run(&["types", "learn", "f"]);
    // One tool: a call of any other would have an effect, crash the server or never be answered.
    assert_eq!(learned.trim(), LEARNED, "{said}");
    assert!(said.contains("called 1 of "), "{said}");
    let file = user.home.path().join("learned.json");
    let path = file.to_str().expect("UTF-8");
    user.run(&["types", "export", path]);
    let exported = std::fs::read_to_string(&file).expect("the file");
    // 18446744073709551615 is in the result.
    assert!(exported.contains("\"order\"") && !exported.contains("1844674"), "{exported}");

    let other = User::new();
    let (before, _) = other.run(&["describe", "f.order"]);
    assert!(!before.contains("learned"), "{before}");
    let (_, said) = other.run(&["types", "import", path]);
    assert!(said.contains("imported the types of 1 tool\n"), "{said}");
    let (described, _) = other.run(&["describe", "f.order"]);
    assert!(described.contains("// learned from 1 result"), "{described}");
    let (found, _) = other.run(&["search", "order", "--json"]);
    assert!(found.contains("// learned from 1 result"), "{found}");
    let (declared, _) = other.run(&["types"]);
    assert!(declared.contains("// learned from 1 result"), "{declared}");

    std::fs::write(&file, r#"{"version":7}"#).expect("written");
    assert!(!other.command(&["types", "import", path]).output().expect("it ends").status.success());
}

/// A database of learned types that is gone is told of once, and what is learned is kept in the file meanwhile.
#[test]
fn without_their_database_learned_types_are_kept_in_the_file() {
    // A port that no server listens at.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let user = User::with_database(&format!("postgres://user:canary-pass@127.0.0.1:{port}/toolgate"));
    let (learned, said) = user.run(&["types", "learn", "f"]);
    assert_eq!(learned.trim(), LEARNED, "{said}");
    let (described, _) = user.run(&["describe", "f.order"]);
    assert!(described.contains("// learned from 1 result"), "{described}");
    let file = user.home.path().join("exported.json");
    user.run(&["types", "export", file.to_str().expect("UTF-8")]);
    assert!(std::fs::read_to_string(&file).expect("the file").contains("\"order\""));
    // A gateway says so in its log.
    let mut serve = user.command(&["serve", "--http", "127.0.0.1:0"]);
    let mut child = serve
        .env("TOOLGATE_LOG", "warn")
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("standard error")));
    let is_told = |line: &String| line.contains("learned types are not shared with other replicas for now");
    let mut lines = lines.map_while(Result::ok);
    // It ends in order from the moment it listens.
    let (mut told, mut listens) = (None, false);
    while told.is_none() || !listens {
        let line = lines.next().expect("it says so");
        listens |= line.contains("listening at");
        told = told.or(Some(line).filter(is_told));
    }
    assert!(told.as_ref().is_some_and(|told| !told.contains("canary-pass")), "{told:?}");
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill").success());
    assert_eq!(lines.find(is_told), None, "once");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn declarations_follow_what_is_learned() {
    let user = User::new();
    let folder = user.home.path().join("src");
    std::fs::create_dir(&folder).expect("a folder");
    let watch = ["types", "--watch", folder.to_str().expect("UTF-8")];
    let mut child = user.command(&watch).stderr(std::process::Stdio::piped()).spawn().expect("the binary starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("standard error")));
    let mut wrote = || {
        assert!(lines.any(|line| line.is_ok_and(|line| line.contains("toolgate.d.ts"))), "it says that it wrote");
        std::fs::read_to_string(folder.join("toolgate.d.ts")).expect("the file")
    };
    let first = wrote();
    assert!(first.contains("order(") && !first.contains("learned from"), "{first}");
    // Another process learns something.
    user.run(&["types", "learn", "f"]);
    let second = wrote();
    assert!(second.contains("// learned from 1 result"), "{second}");
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill").success());
    assert!(child.wait().expect("it ends").success());
}

/// `toolgate serve --http` of a user.
struct Http {
    child: std::process::Child,
    at: String,
}

impl Http {
    fn start(user: &User) -> Self {
        let mut command = user.command(&["serve", "--http", "127.0.0.1:0"]);
        command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("piped")));
        let line = lines.find_map(|line| Some(line.ok()?.split_once("http://")?.1.to_owned())).expect("an address");
        std::thread::spawn(move || lines.for_each(drop));
        let end = line.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':').unwrap_or(line.len());
        Http { child, at: line[..end].to_owned() }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(&self.at).expect("connected");
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let length = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{length}{body}").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let json = answer.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{answer}"));
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}

/// What a stream sends until it has sent this text.
fn read_until(stream: &mut std::net::TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut part = [0; 4096];
    while !text.contains(wanted) {
        let read = std::io::Read::read(stream, &mut part).expect("readable");
        assert!(read > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    text
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_http_api_checks_types_and_shows_learned_ones() {
    let user = User::new();
    user.run(&["types", "learn", "f"]);
    let http = Http::start(&user);
    let code = "const r = await f.order(); const p = f.order(); return [r, p.a.toFixed()]";
    let code = serde_json::json!({ "code": code }).to_string();
    // On a busy machine the checker may take longer to start than one check waits.
    let checks = (0..20).map(|_| http.ask("POST", "/v1/check", &code));
    let checked = checks.into_iter().find(|checked| checked["typesChecked"] == true).expect("a check");
    let error = &checked["errors"][0];
    assert_eq!((&checked["ok"], &error["code"]), (&Value::Bool(false), &"missing_await".into()), "{checked}");
    assert_eq!((&error["line"], &checked["typesChecked"]), (&1.into(), &Value::Bool(true)), "{checked}");
    let told: Vec<&Value> = [&checked["errors"], &checked["warnings"]]
        .into_iter()
        .flat_map(|list| list.as_array().expect("a list"))
        .filter(|one| one["code"] == "missing_await")
        .collect();
    assert_eq!(told.len(), 1, "told once: {checked}");
    let fine = http.ask("POST", "/v1/check", r#"{"code":"const r = await f.order(); return [r.a]"}"#);
    assert_eq!((&fine["ok"], &fine["errors"]), (&Value::Bool(true), &serde_json::json!([])), "{fine}");
    let tool = http.ask("GET", "/v1/tools/f/order", "");
    assert_eq!(tool["signature"], LEARNED, "{tool}");
    assert!(tool["types"].as_str().is_some_and(|types| types.contains("// learned from 1 result")), "{tool}");
    let tools = http.ask("GET", "/v1/tools?query=order&limit=1", "");
    assert_eq!(tools["tools"][0]["signature"], LEARNED, "{tools}");
}

#[test]
fn a_learned_type_that_becomes_wider_is_an_event() {
    let user = User::new();
    let http = Http::start(&user);
    let mut events = std::net::TcpStream::connect(&http.at).expect("connected");
    events.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a timeout");
    std::io::Write::write_all(&mut events, b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    read_until(&mut events, "event: begin");
    for value in ["{ id: 7 }", "{ id: null }"] {
        let code = serde_json::json!({ "code": format!("const q = {value}; return await f.echo(q)") });
        let report = http.ask("POST", "/v1/run", &code.to_string());
        assert_eq!(report["ok"], Value::Bool(true), "{report}");
    }
    read_until(&mut events, "event: types");
}

/// What the head of the file says: a module in which `return` is no error, with tools, host functions, `context` and `console`,
/// beside the declarations of a browser and without them. A backend called `fetch` does not collide with them.
#[test]
fn the_declarations_type_check_with_a_program_in_the_form_of_a_module() {
    let home = tempfile::tempdir().expect("a folder");
    let demo = serde_json::json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    let config = serde_json::json!({
        "mcpServers": { "demo": demo, "fetch": demo, "my-notes": demo },
        "toolgate": { "egress": "all", "functions": { "issueOf": { "tool": "demo.get_issue" } } },
    });
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).expect("written");
    write("config.json", &config.to_string());
    let written = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(["types", "--config", "config.json", "--out", "tools.d.ts"])
        .current_dir(home.path())
        .env("HOME", home.path())
        .output()
        .expect("the binary ends");
    assert!(written.status.success(), "{written:?}");
    let module = |line: &str| {
        format!(
            "export default async () => {{
               console.log(context.limit);
               const page = await demo.list_issues({{ limit: 2 }});
               const one = await issueOf({{ number: page.issues[0].number }});
               const notes = [await my_notes.list_notes({{}}), await fetch_.list_notes({{}})];
               const answer = await httpCall({{ url: \"https://example.com\" }});
               {line}
               return [one, notes, answer, page.issues.map((issue) => issue.title)];
             }};"
        )
    };
    let check = |lib: &str| {
        let mut tsc = Command::new(compiler());
        tsc.args(["--noEmit", "--strict", "--target", "es2023", "--module", "esnext", "--lib", lib]);
        let output = tsc.args(["module.ts", "tools.d.ts"]).current_dir(home.path()).output().expect("tsc runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    write("module.ts", &module(""));
    for lib in ["es2023", "es2023,dom"] {
        assert_eq!(check(lib), "", "{lib}");
    }
    write("module.ts", &module("page.issues[0].titel;"));
    assert!(check("es2023").contains("'titel' does not exist"), "a wrong field is found");
}
