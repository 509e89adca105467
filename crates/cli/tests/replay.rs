//! A run as a file, and the run again from it: `run --record` and `replay`.

#[path = "../../engine/tests/support/deno.rs"]
mod deno;
mod support;

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use support::{Ran, Script, script, toolgate};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/demo.json");
const CHAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/chain.ts");

/// Records a program over the demo's tools; returns what the command did and its cassette.
fn record(code: &str, more: &[&str]) -> (Ran, Script) {
    let (program, cassette) = (script("program.ts", code), script("run.jsonl", ""));
    let ran = toolgate(&[&["run", program.path(), "--record", cassette.path(), "--json"], more].concat());
    (ran, cassette)
}

fn replay(cassette: &Script, more: &[&str]) -> Ran {
    toolgate(&[&["replay", cassette.path()], more].concat())
}

fn text(cassette: &Script) -> String {
    std::fs::read_to_string(cassette.path()).expect("a cassette")
}

#[test]
fn a_replay_prints_the_recorded_report_byte_for_byte() {
    let chain = std::fs::read_to_string(CHAIN).expect("the example");
    let failing = "console.log(1); const t = await travel.cities({ country: 'Portugal' }); t.missing.name";
    let random = "await sleep(3); return [Math.random(), crypto.randomUUID(), Date.now(), \
                  await Promise.race([travel.cities({ country: 'Portugal' }), sleep(5000)])]";
    for (code, end) in [(chain.as_str(), 0), (failing, 1), (random, 0)] {
        let (ran, cassette) = record(code, &["--tools", DEMO]);
        assert_eq!(ran.code, end, "{ran:?}");
        let again = replay(&cassette, &["--json"]);
        assert_eq!(again.stdout, ran.stdout, "{code}");
        assert_eq!(again.code, end, "{again:?}");
        let asserted = replay(&cassette, &["--assert", "--isolation", "thread"]);
        assert_eq!(asserted.code, 0, "{asserted:?}");
    }
}

/// Recorded on either engine, repeated on V8. A record of V8 has questions about tools in it, which QuickJS does not ask.
#[test]
fn a_cassette_is_replayed_on_the_other_engine_byte_for_byte() {
    let deno = deno::deno();
    let deno = deno.to_str().expect("UTF-8");
    let with_deno = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_toolgate"));
        let output = command.args(args).env("TOOLGATE_DENO", deno).output().expect("it starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Ran { code: output.status.code().expect("a code"), stdout: text(output.stdout), stderr: text(output.stderr) }
    };
    let chain = std::fs::read_to_string(CHAIN).expect("the example");
    let timers = "const order = []; await Promise.all([30, 10, 20].map(async ms => { await sleep(ms); order.push(ms); })); \
                  console.log(order.join()); return [order, Math.random(), (await travel.cities({ country: 'Portugal' })).length]";
    let failing = "await notes.add({ text: 'a' }); throw new Error('on purpose')";
    for (code, end) in [(chain.as_str(), 0), (timers, 0), (failing, 1)] {
        let program = script("program.ts", code);
        for recorded_on in ["quickjs", "v8"] {
            let cassette = script("run.jsonl", "");
            let record = [
                "run",
                program.path(),
                "--tools",
                DEMO,
                "--record",
                cassette.path(),
                "--json",
                "--engine",
                recorded_on,
            ];
            let ran = with_deno(&record);
            assert_eq!(ran.code, end, "{ran:?}");
            let again = with_deno(&["replay", cassette.path(), "--json", "--assert", "--engine", "v8"]);
            assert_eq!(
                (again.code, &again.stdout),
                (0, &ran.stdout),
                "recorded on {recorded_on}: {code}\n{}",
                again.stderr
            );
        }
    }
}

#[test]
fn a_replay_shows_what_the_run_showed() {
    let (_, cassette) = record(&std::fs::read_to_string(CHAIN).expect("the example"), &["--tools", DEMO]);
    let again = replay(&cassette, &[]);
    assert_eq!(again.code, 0, "{again:?}");
    let value: Value = serde_json::from_str(&again.stdout).expect("pretty JSON");
    assert_eq!(value["best"], "Faro");
    assert!(
        again.stderr.starts_with("| Lisbon: 21.3 degrees\n") && again.stderr.contains("5 calls"),
        "{}",
        again.stderr
    );
}

#[test]
fn a_run_that_was_stopped_is_replayed_to_its_end() {
    let (ran, cassette) = record("console.log('here'); await sleep(60000); return 1", &["--timeout", "3s"]);
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    assert_eq!(report["code"], "TIMEOUT", "{report}");
    let again = replay(&cassette, &["--assert", "--json"]);
    assert_eq!((again.code, again.stdout), (0, ran.stdout));
}

#[test]
fn a_changed_answer_is_a_difference() {
    let code = "const [c] = await travel.cities({ country: 'Portugal' }); return await notes.add({ text: c.name })";
    let (_, cassette) = record(code, &["--tools", DEMO]);
    let changed = script("changed.jsonl", text(&cassette).replacen("Lisbon", "London", 1));
    let again = replay(&changed, &["--assert"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.stderr.contains("error[DIVERGED]"), "{}", again.stderr);
    assert!(again.stderr.contains(r#"now it called notes.add with {"text":"London"}"#), "{}", again.stderr);
    assert_eq!(replay(&changed, &[]).code, 1);
}

#[test]
fn a_changed_program_gets_the_recorded_answers() {
    let (_, cassette) = record("return (await travel.cities({ country: 'Portugal' })).length", &["--tools", DEMO]);
    let edited = |code: &str| replay(&cassette, &["--edit", script("edited.ts", code).path()]);
    let names = edited("return (await travel.cities({ country: 'Portugal' })).map((c) => c.name).join()");
    assert_eq!((names.code, names.stdout.as_str()), (0, "\"Lisbon,Porto,Faro\"\n"), "{names:?}");
    let other = edited("return await travel.cities({ country: 'Spain' })");
    assert_eq!(other.code, 1);
    let nearest = r#"travel.cities was recorded with other arguments; the nearest are {"country":"Portugal"}"#;
    assert!(other.stderr.contains(nearest), "{}", other.stderr);
    let broken = edited("return (");
    assert!(broken.code == 1 && broken.stderr.contains("error[SYNTAX]"), "{broken:?}");
}

#[test]
fn secrets_are_not_in_a_cassette_and_it_still_replays() {
    const SECRET: &str = "hunter2-is-my-Secret";
    let context = script("context.json", format!(r#"{{"user":"ann","password":"{SECRET}"}}"#));
    let code = "console.log(context.user); return { length: context.password.length, password: context.password }";
    let (ran, cassette) = record(code, &["--context", context.path()]);
    assert!(ran.stdout.contains(SECRET), "the run itself has it: {ran:?}");
    let kept = text(&cassette);
    assert!(!kept.contains(SECRET) && kept.contains("ann"), "{kept}");
    assert_eq!(replay(&cassette, &["--assert"]).code, 0);
}

#[test]
fn what_cannot_be_recorded_or_replayed_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new.jsonl");
    let program = script("program.ts", "return 1");
    toolgate(&["run", program.path(), "--record", path.to_str().expect("UTF-8")]);
    assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    let path = folder.path().join("none.jsonl");
    let program = script("program.ts", "return (");
    let ran = toolgate(&["run", program.path(), "--record", path.to_str().expect("UTF-8")]);
    assert!(ran.stderr.contains("nothing was recorded: no program was started"), "{ran:?}");
    assert!(!path.exists());
    let text = script("notes.txt", "not a cassette\n");
    let ran = replay(&text, &[]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("notes.txt: line 1 is not an entry of a cassette"), "{ran:?}");
}

/// The server tells the program everything that it was started with.
#[test]
fn secrets_of_a_backend_are_not_in_a_cassette() {
    const BY_NAME: &str = "opensesame-of-the-backend";
    const BY_FORM: &str = "canary-of-the-backend-93ac";
    const OF_FILE: &str = "the words of a file";
    let (server, file) =
        (env!("CARGO_MANIFEST_DIR").to_owned() + "/../gateway/tests/fixtures/backend.py", script("t", OF_FILE));
    let env = serde_json::json!({
        "API_TOKEN": BY_NAME, "SETTING": BY_FORM, "OTHER": format!("${{file:{}}}", file.path()), "LEVEL": "us-east-1",
    });
    let server = serde_json::json!({ "command": "python3", "args": [server], "env": env });
    let config = script("toolgate.json", serde_json::json!({ "mcpServers": { "f": server } }).to_string());
    let code = "const { env } = await f.environment({}); console.log(env.API_TOKEN); \
                return { token: env.API_TOKEN, setting: `<${env.SETTING}>`, json: JSON.stringify(env), level: env.LEVEL }";
    let (ran, cassette) = record(code, &["--config", config.path()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for secret in [BY_NAME, BY_FORM, OF_FILE] {
        assert!(ran.stdout.contains(secret), "the run itself has it: {ran:?}");
        assert!(!text(&cassette).contains(secret), "{secret} is in the cassette");
    }
    assert!(text(&cassette).contains("us-east-1") && text(&cassette).contains("environment"), "{}", text(&cassette));
    // The program runs with the stand-ins, and gives the report of the cassette.
    let again = replay(&cassette, &["--json", "--assert"]);
    assert_eq!(again.code, 0, "{again:?}");
    let report: Value = serde_json::from_str(&again.stdout).expect("a report");
    assert_eq!(report["value"]["token"].as_str().map(str::len), Some(BY_NAME.len()), "{report}");
    let (stand_in, logged) = (&report["value"]["token"], &report["logs"]["stdout"][0]);
    assert_eq!(stand_in, logged, "the same stand-in everywhere");
    let kept = text(&cassette).lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect::<Vec<_>>();
    let kept = kept.iter().find_map(|line| line["report"]["report"].as_str()).expect("a report");
    assert_eq!(again.stdout.trim_end(), kept, "byte for byte");
}

/// Has a server write JSON as PHP, .NET and Go do, and letters that are not of ASCII as Python does.
const SPELLING: &str = r#"
import json, runpy, sys
plain = json.dumps
def spelled(value):
    text = plain(value)
    for letter, escape in (("/", "\\/"), ("+", "\\u002B"), ("&", "\\u0026"), ("<", "\\u003c")):
        text = text.replace(letter, escape)
    return text
json.dumps = spelled
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"#;

#[test]
fn a_secret_that_a_server_spells_with_escapes_is_not_in_a_cassette() {
    const SECRET: &str = "Ab9Tq/x+7KdRw&Qz3<Wé81";
    let (spelling, server) = (
        script("spelling.py", SPELLING),
        env!("CARGO_MANIFEST_DIR").to_owned() + "/../gateway/tests/fixtures/backend.py",
    );
    let server = serde_json::json!({
        "command": "python3", "args": [spelling.path(), server], "env": { "API_TOKEN": SECRET },
    });
    let config = script("toolgate.json", serde_json::json!({ "mcpServers": { "f": server } }).to_string());
    let code = "const { env } = await f.environment({}); console.log(JSON.stringify({ env })); \
                return { length: env.API_TOKEN.length, token: env.API_TOKEN }";
    let (ran, cassette) = record(code, &["--config", config.path()]);
    assert!(ran.code == 0 && ran.stdout.contains(SECRET), "the run itself has it: {ran:?}");
    let kept = text(&cassette);
    assert!(kept.contains(r"\\u002B"), "the reply has the escapes of the server: {kept}");
    for part in ["Ab9Tq", "7KdRw"] {
        assert!(!kept.contains(part), "{part} in {kept}");
    }
    let again = replay(&cassette, &["--json", "--assert"]);
    assert!(again.code == 0 && !again.stdout.contains("Ab9Tq"), "{again:?}");
    let shown = replay(&cassette, &["--edit", script("e.ts", "return (await f.environment({})).env").path()]);
    assert!(shown.code == 0 && !shown.stdout.contains("Ab9Tq"), "{shown:?}");
}

/// A program with an effect, which is told on standard error.
const NOTED: &str = "await notes.add({ text: 'a' }); console.log('done'); return 7";

fn record_to(path: &str, more: &[&str]) -> Ran {
    let program = script("program.ts", NOTED);
    toolgate(&[&["run", program.path(), "--tools", DEMO, "--record", path], more].concat())
}

#[test]
fn a_cassette_that_cannot_be_written_stops_the_run_before_its_first_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing/run.jsonl");
    for path in [missing.as_path(), folder.path()] {
        let path = path.to_str().expect("UTF-8");
        let ran = record_to(path, &[]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
        assert!(ran.stderr.contains(&format!("cannot write {path}")), "{ran:?}");
        assert!(!ran.stderr.contains("done") && !ran.stderr.contains("notes.add"), "nothing was run: {ran:?}");
    }
}

#[test]
fn a_run_is_told_where_its_cassette_could_not_be_written_after_it() {
    for (more, value) in [(&[][..], "7\n"), (&["--json"][..], r#""value":7"#)] {
        let ran = record_to("/dev/full", more);
        assert!(ran.code == 1 && ran.stdout.contains(value), "{ran:?}");
        assert!(ran.stderr.contains("cannot write /dev/full"), "{ran:?}");
        assert!(!ran.stderr.contains("toolgate replay"), "{ran:?}");
    }
}

#[test]
fn a_cassette_takes_the_place_of_an_earlier_one_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, link) = (folder.path().join("run.jsonl"), folder.path().join("link.jsonl"));
    let names = || {
        let entries = std::fs::read_dir(folder.path()).expect("a folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    std::fs::write(&file, "an earlier one, which is longer than the cassette\n".repeat(1000)).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("its mode");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let ran = record_to(link.to_str().expect("UTF-8"), &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(toolgate(&["replay", file.to_str().expect("UTF-8"), "--assert"]).code, 0);
    assert_eq!(names(), ["link.jsonl", "run.jsonl"], "nothing is left beside it");
    assert!(link.is_symlink());
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
    // No room for the new one: the earlier one stays, and the run is told.
    let before = std::fs::read(&file).expect("a cassette");
    let program = script("long.ts", "return 'x'.repeat(300000)");
    let path = file.to_str().expect("UTF-8");
    let bounded = "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"";
    let ran = in_shell(bounded, &["run", program.path(), "--record", path, "--isolation", "thread"]);
    assert!(
        ran.code == 1 && ran.stdout.contains("xxx") && ran.stderr.contains(&format!("cannot write {path}")),
        "{ran:?}"
    );
    assert_eq!(std::fs::read(&file).expect("a cassette"), before);
    assert_eq!(names(), ["link.jsonl", "run.jsonl"]);
}

/// Runs the command by a line for the shell, which has the command as `"$0" "$@"`.
fn in_shell(line: &str, args: &[&str]) -> Ran {
    let mut command = std::process::Command::new("bash");
    let output = command.args(["-c", line, env!("CARGO_BIN_EXE_toolgate")]).args(args).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code().expect("a code"), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_cassette_goes_to_standard_output_and_to_pipes() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = script("program.ts", "return 7");
    let out = folder.path().join("out");
    let to_file = format!("exec \"$0\" \"$@\" > {}", out.display());
    for (line, path) in
        [("exec \"$0\" \"$@\" | cat", "/dev/stdout"), (&to_file, "/dev/stdout"), (&to_file, "/dev/fd/1")]
    {
        let ran = in_shell(line, &["run", program.path(), "--record", path]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let printed = if ran.stdout.is_empty() { std::fs::read_to_string(&out).expect("a file") } else { ran.stdout };
        let (cassette, value) = printed.trim_end().rsplit_once('\n').expect("lines");
        assert_eq!(value, "7", "{line} {path}");
        assert_eq!(replay(&script("run.jsonl", format!("{cassette}\n")), &["--assert"]).code, 0, "{line} {path}");
    }
    let pipe = folder.path().join("pipe").display().to_string();
    let line = format!("mkfifo {pipe}; cat {pipe} >&2 & \"$0\" \"$@\"; code=$?; wait; exit $code");
    let ran = in_shell(&line, &["run", program.path(), "--record", &pipe]);
    assert!(ran.code == 0 && ran.stdout == "7\n" && ran.stderr.contains(r#""step":0"#), "{ran:?}");
}

#[test]
fn a_damaged_cassette_is_refused_with_the_name_of_the_file() {
    let (_, cassette) = record("console.log(1); return 7", &[]);
    let whole = text(&cassette);
    let report = whole.lines().last().expect("a report");
    let no_report = format!(r#"{{"step":{},"at":1,"report":{{"report":"nothing"}}}}"#, whole.lines().count() - 1);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("damaged.jsonl");
    let shown = file.to_str().expect("UTF-8");
    for (damaged, message) in [
        (String::new(), "the file is empty"),
        (
            whole.replacen(r#""version":1"#, r#""version":"one""#, 1),
            "line 1 is not an entry of a cassette: `header.version`",
        ),
        (whole.replacen("return 7", "return 8", 1), "the program of the record has the hash"),
        (whole.replace(report, &no_report), "the report of the record is no report"),
    ] {
        assert_ne!(damaged, whole, "{message}");
        std::fs::write(&file, damaged).expect("written");
        let ran = toolgate(&["replay", shown, "--assert"]);
        assert!(ran.code == 2 && ran.stderr.contains(&format!("{shown}: {message}")), "{ran:?}");
        let tested = toolgate(&["test", folder.path().to_str().expect("UTF-8")]);
        assert!(tested.code == 1 && tested.stdout.contains(&format!("{shown}: {message}")), "{tested:?}");
    }
}

#[test]
fn a_folder_of_cassettes_is_tested() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    for number in 0..3 {
        let code = script("p.js", format!("console.log({number}); return {number} + 1"));
        let ran = toolgate(&["run", code.path(), "--record", &file(&format!("{number}.jsonl"))]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let dir = folder.path().to_str().expect("UTF-8");
    let ran = toolgate(&["test", dir]);
    assert_eq!((ran.code, ran.stdout.matches("ok ").count()), (0, 3), "{ran:?}");
    // A report that says something else.
    let text = std::fs::read_to_string(file("1.jsonl")).expect("a cassette");
    let wrong = text.replace(r#"\"value\":2"#, r#"\"value\":7"#);
    assert_ne!(text, wrong);
    std::fs::write(file("1.jsonl"), &wrong).expect("written");
    let ran = toolgate(&["test", dir, "--junit", &file("report.xml")]);
    assert!(ran.code == 1 && ran.stdout.contains("FAILED") && ran.stdout.contains("1.jsonl"), "{ran:?}");
    let xml = std::fs::read_to_string(file("report.xml")).expect("a report");
    assert!(xml.contains(r#"tests="3" failures="1""#), "{xml}");
    let ran = toolgate(&["test", dir, "--update"]);
    assert!(ran.code == 0 && ran.stdout.contains("updated"), "{ran:?}");
    assert_eq!(toolgate(&["test", dir]).code, 0, "the report is what the program gives");
    std::fs::write(file("1.jsonl"), "not a cassette").expect("written");
    assert_eq!(toolgate(&["test", dir]).code, 1);
    let empty = tempfile::tempdir().expect("a folder");
    assert_eq!(toolgate(&["test", empty.path().to_str().expect("UTF-8")]).code, 2);
}

#[test]
fn a_changed_program_reads_live_what_was_not_recorded() {
    let code = "const issue = await demo.get_issue({ number: 1 }); \
                const note = await demo.create_note({ name: 'a', text: issue.title }); return [issue.number, note.saved]";
    let (ran, cassette) = record(code, &["--demo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let program = script(
        "edited.ts",
        "const issue = await demo.get_issue({ number: 1 }); const other = await demo.get_issue({ number: 2 }); \
         const note = await demo.create_note({ name: 'a', text: issue.title }); \
         let refused = 'sent'; try { await demo.create_note({ name: 'b', text: 'new' }); } catch (e) { refused = e; } \
         const notes = await demo.list_notes({}); \
         return { other: other.number, note: note.saved, code: refused.code, why: refused.message, notes }",
    );
    let offline = replay(&cassette, &["--edit", program.path(), "--json"]);
    let report: Value = serde_json::from_str(&offline.stdout).expect("a report");
    assert!(report["error"].as_str().is_some_and(|error| error.contains("other arguments")), "{report}");
    let live = replay(&cassette, &["--edit", program.path(), "--live", "read", "--demo", "--json"]);
    let report: Value = serde_json::from_str(&live.stdout).unwrap_or_else(|_| panic!("{live:?}"));
    let value = &report["value"];
    assert_eq!((&value["other"], &value["note"]), (&Value::from(2), &Value::from("a")), "{report}");
    assert_eq!(value["code"], "NOT_RECORDED", "an effect is not sent: {report}");
    assert!(value["why"].as_str().is_some_and(|why| why.contains("not known to change nothing")), "{report}");
    assert!(!value["notes"].to_string().contains("\"a\""), "the recorded note was not written again: {report}");
    let without = toolgate(&["replay", cassette.path(), "--live", "read"]);
    assert_eq!(without.code, 2, "--live is for a changed program: {without:?}");
}

/// How many cassettes are tested: 100, or as many as a long run asks for.
fn cassettes() -> usize {
    std::env::var("TOOLGATE_CASSETTES").ok().and_then(|number| number.parse().ok()).unwrap_or(100)
}

/// A folder with so many cassettes of a few programs.
fn folder_of_cassettes(count: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let programs = [
        std::fs::read_to_string(CHAIN).expect("the example"),
        "await sleep(3); return [Math.random(), (await travel.cities({ country: 'Portugal' })).length]".to_owned(),
        "console.log('a'); throw new Error('no')".to_owned(),
    ];
    let recorded: Vec<String> = programs.iter().map(|code| text(&record(code, &["--tools", DEMO]).1)).collect();
    for number in 0..count {
        let cassette = &recorded[number % recorded.len()];
        std::fs::write(folder.path().join(format!("{number}.jsonl")), cassette).expect("written");
    }
    folder
}

#[test]
fn many_cassettes_are_tested_at_once() {
    let folder = folder_of_cassettes(cassettes());
    let since = std::time::Instant::now();
    let tested = toolgate(&["test", folder.path().to_str().expect("UTF-8"), "--json"]);
    println!("{} cassettes in {:?}", cassettes(), since.elapsed());
    assert_eq!(tested.code, 0, "{}", tested.stderr);
    let one = folder.path().join("0.jsonl");
    let changed = std::fs::read_to_string(&one).expect("a cassette").replace("Faro", "Roma");
    std::fs::write(&one, changed).expect("written");
    let tested = toolgate(&["test", folder.path().to_str().expect("UTF-8")]);
    assert_eq!(tested.code, 1, "one differs: {}", tested.stdout);
}

#[test]
fn a_test_of_cassettes_opens_no_socket_of_a_network() {
    let folder = folder_of_cassettes(6);
    let trace = folder.path().join("trace");
    let trace = trace.to_str().expect("UTF-8");
    let strace = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new("strace");
        command.args(["-f", "-q", "-e", "trace=socket,connect", "-o", trace, program]).args(args);
        command.output().is_ok_and(|output| output.status.success())
    };
    // Some containers do not permit tracing, and some machines have no strace.
    if !strace("true", &[]) {
        println!("strace cannot trace here");
        return;
    }
    let toolgate = env!("CARGO_BIN_EXE_toolgate");
    assert!(strace(toolgate, &["test", folder.path().to_str().expect("UTF-8")]), "all are the same");
    let traced = std::fs::read_to_string(trace).expect("a trace");
    assert!(!traced.contains("AF_INET"), "{traced}");
    // What is looked for would be seen.
    strace("bash", &["-c", "echo > /dev/tcp/127.0.0.1/1"]);
    let traced = std::fs::read_to_string(trace).expect("a trace");
    assert!(traced.contains("AF_INET"), "{traced}");
}
