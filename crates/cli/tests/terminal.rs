//! `toolgate run` and `toolgate call` at a terminal: the person there decides about calls that a rule asks about.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

const ANSWERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/answers.py");
const MENU: &str = "[s]top? ";

/// A home folder with a configuration that asks about long notes of the demo server.
struct User(tempfile::TempDir);

/// How a command at the terminal ended.
#[derive(Debug)]
struct Ran {
    code: i64,
    stdout: String,
    /// What was shown, and typed.
    terminal: String,
}

impl User {
    fn new() -> Self {
        let user = User(tempfile::tempdir().expect("a folder"));
        let servers = json!({ "demo": { "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] } });
        let policy = json!([
            { "tool": "demo.create_note", "when": "size(args.text) > 10", "do": "ask", "reason": "Long notes are read first." },
        ]);
        user.write("toolgate.json", &json!({ "mcpServers": servers, "toolgate": { "policy": policy } }).to_string());
        user
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_string_lossy().into_owned()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.path()).env("HOME", self.0.path()).env("NO_COLOR", "1").stdin(Stdio::null());
        for name in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "COLUMNS"] {
            command.env_remove(name);
        }
        command
    }

    fn config(&self) -> String {
        self.0.path().join("toolgate.json").to_string_lossy().into_owned()
    }

    /// Runs a command at a terminal. Each text that is typed comes after what is shown with it, and so many seconds later.
    fn at_terminal(&self, args: &[&str], answers: &[(&str, &str, f64)]) -> Ran {
        let mut command = self.command("python3");
        command.args([ANSWERS, &json!(answers).to_string(), env!("CARGO_BIN_EXE_toolgate")]).args(args);
        let output = command.args(["--config", &self.config()]).output().expect("python3 runs");
        let ran: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(ran["unanswered"], json!([]), "{ran}");
        let text = |name: &str| ran[name].as_str().expect("a text").replace("\r\n", "\n");
        Ran { code: ran["code"].as_i64().expect("a code"), stdout: text("stdout"), terminal: text("terminal") }
    }
}

/// Saves a note and gives what is saved.
const SAVES: &str = "await demo.create_note({ name: 'n', text: 'a long note about nothing' }); \
                     return (await demo.read_note({ name: 'n' })).text";

#[test]
fn the_person_approves_edits_denies_or_stops() {
    let user = User::new();
    let program = user.write("p.ts", SAVES);
    let approved = user.at_terminal(&["run", &program], &[(MENU, "a", 0.0)]);
    assert_eq!((approved.code, approved.stdout.trim()), (0, "a long note about nothing"), "{approved:?}");
    let shown = "demo.create_note waits for your decision: Long notes are read first.\n  \
                 {\"name\":\"n\",\"text\":\"a long note about nothing\"}\n";
    assert!(approved.terminal.contains(shown), "{approved:?}");

    // What does not fit the schema is asked again.
    let edits = [
        (MENU, "e", 0.0),
        ("as JSON: ", r#"{"name": "n", "text": 7}"#, 0.0),
        (MENU, "e", 0.0),
        ("as JSON: ", r#"{"name": "n", "text": "edited"}"#, 0.0),
    ];
    let edited = user.at_terminal(&["run", &program], &edits);
    assert_eq!((edited.code, edited.stdout.trim()), (0, "edited"), "{edited:?}");
    assert!(edited.terminal.contains("the arguments do not fit demo.create_note"), "{edited:?}");
    assert!(edited.terminal.contains("a person changed the arguments of demo.create_note"), "{edited:?}");

    let catches =
        user.write("q.ts", &format!("try {{ {SAVES} }} catch (error) {{ return [error.code, error.message] }}"));
    let denied = user.at_terminal(&["run", &catches], &[(MENU, "d", 0.0), ("(may be empty): ", "too long", 0.0)]);
    assert_eq!(denied.code, 0, "{denied:?}");
    assert!(denied.stdout.contains("DENIED") && denied.stdout.contains("too long"), "{denied:?}");

    let stopped = user.at_terminal(&["run", &catches], &[(MENU, "s", 0.0), ("(may be empty): ", "enough", 0.0)]);
    assert_eq!(stopped.code, 1, "{stopped:?}");
    assert!(stopped.terminal.contains("a person stopped the run: enough"), "{stopped:?}");
}

#[test]
fn calls_that_wait_together_are_asked_about_in_turn() {
    let user = User::new();
    let program = user.write(
        "p.ts",
        "const make = (name) => demo.create_note({ name, text: `the long note ${name}` }); \
         const made = await Promise.allSettled(['a', 'b', 'c'].map(make)); \
         return made.map((one) => one.value?.saved ?? one.reason.code).join()",
    );
    let answers = [(MENU, "a", 0.0), (MENU, "d", 0.0), ("(may be empty): ", "", 0.0), (MENU, "a", 0.0)];
    let each = user.at_terminal(&["run", &program], &answers);
    assert_eq!((each.code, each.stdout.trim()), (0, "a,DENIED,c"), "{each:?}");
    // One approval for the run answers the others.
    let all = user.at_terminal(&["run", &program], &[(MENU, "r", 0.0)]);
    assert_eq!((all.code, all.stdout.trim()), (0, "a,b,c"), "{all:?}");
    assert_eq!(all.terminal.matches("waits for your decision").count(), 1, "{all:?}");
}

/// The review of a staged program at the terminal: every write is a line, also one that no rule asks about.
#[test]
fn a_staged_program_is_reviewed_at_the_terminal() {
    let user = User::new();
    let program = user.write(
        "p.ts",
        "const a = await demo.create_note({ name: 'a', text: 'one' }); \
         const b = await demo.create_note({ name: 'b', text: `after ${a.saved}` }); \
         return b.saved",
    );
    let sent = user.at_terminal(&["run", &program, "--stage"], &[(MENU, "a", 0.0), (MENU, "a", 0.0)]);
    assert_eq!((sent.code, sent.stdout.trim()), (0, "b"), "{sent:?}");
    assert!(sent.terminal.contains("demo.create_note waits for your decision: the run is staged"), "{sent:?}");
    assert!(sent.terminal.contains("/text is filled in with /saved of line 1"), "{sent:?}");
    let stopped = user.at_terminal(&["run", &program, "--stage"], &[(MENU, "s", 0.0), ("(may be empty): ", "", 0.0)]);
    assert!(stopped.code == 1 && stopped.terminal.contains("a person stopped the run"), "{stopped:?}");
    // Nobody is at a terminal: the run waits in the store.
    let mut command = user.command(env!("CARGO_BIN_EXE_toolgate"));
    let waits = command.args(["run", &program, "--stage", "--config", &user.config()]).output().expect("toolgate runs");
    let said = String::from_utf8_lossy(&waits.stderr).into_owned();
    assert_eq!(waits.status.code(), Some(1), "{said}");
    let run = said.split("the run ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an id");
    assert!(said.contains(&format!("`toolgate approve {run} CALL`")), "{said}");
    let mut command = user.command(env!("CARGO_BIN_EXE_toolgate"));
    let pending = command.args(["pending", "--json", "--config", &user.config()]).output().expect("toolgate runs");
    let pending: Value = serde_json::from_slice(&pending.stdout).expect("JSON");
    assert_eq!((&pending[0]["runId"], pending.as_array().map(Vec::len)), (&json!(run), Some(2)), "{pending}");
}

/// The time of the person is not the program's.
#[test]
fn a_program_waits_longer_than_its_timeout() {
    let user = User::new();
    let program = user.write("p.ts", SAVES);
    let late = user.at_terminal(&["run", &program, "--timeout", "10s"], &[(MENU, "a", 11.0)]);
    assert_eq!((late.code, late.stdout.trim()), (0, "a long note about nothing"), "{late:?}");
}

#[test]
fn ctrl_c_at_a_question_ends_the_run() {
    let user = User::new();
    let program = user.write("p.ts", SAVES);
    let ended = user.at_terminal(&["run", &program], &[(MENU, "\u{3}", 0.0)]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.terminal.contains("ABORTED") && ended.stdout.is_empty(), "{ended:?}");
}

#[test]
fn one_call_is_asked_about_too() {
    let user = User::new();
    let call = ["call", "demo.create_note", r#"{"name": "n", "text": "a long note about nothing"}"#];
    let approved = user.at_terminal(&call, &[(MENU, "a", 0.0)]);
    assert!(approved.code == 0 && approved.stdout.contains("\"saved\": \"n\""), "{approved:?}");
    let edits = [
        (MENU, "e", 0.0),
        ("as JSON: ", "{}", 0.0),
        (MENU, "e", 0.0),
        ("as JSON: ", r#"{"name": "m", "text": "short"}"#, 0.0),
    ];
    let edited = user.at_terminal(&call, &edits);
    assert!(edited.code == 0 && edited.stdout.contains("\"saved\": \"m\""), "{edited:?}");
    let denied = user.at_terminal(&call, &[(MENU, "d", 0.0), ("(may be empty): ", "no notes", 0.0)]);
    assert!(
        denied.code == 1 && denied.terminal.contains("DENIED: a person denied demo.create_note: no notes"),
        "{denied:?}"
    );
}

#[test]
fn without_a_terminal_the_next_step_is_said() {
    let user = User::new();
    let program = user.write("p.ts", SAVES);
    let call = r#"{"name": "n", "text": "a long note about nothing"}"#;
    for args in [&["run", &program][..], &["call", "demo.create_note", call]] {
        let output =
            user.command(env!("CARGO_BIN_EXE_toolgate")).args(args).args(["--config", &user.config()]).output();
        let output = output.expect("the binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(
            stderr.contains("a person must approve demo.create_note") && stderr.contains("at a terminal"),
            "{stderr}"
        );
    }
}
