//! Programs with tools, from outside: `run --tools`, `check`, `result`.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use support::{script, toolgate, toolgate_with_input};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/demo.json");
const CHAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/chain.ts");

#[test]
fn the_example_of_the_readme_shows_a_chain_with_its_ledger() {
    let ran = toolgate(&["run", CHAIN, "--tools", DEMO]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let value: Value = serde_json::from_str(&ran.stdout).expect("pretty JSON");
    assert_eq!(value, json!({ "best": "Faro", "looked_at": 3, "note": "Go to Faro" }));
    let said: Vec<&str> = ran.stderr.lines().map(str::trim).collect();
    assert_eq!(
        said.get(..4),
        Some(&["| Lisbon: 21.3 degrees", "| Porto: 17.0 degrees", "| Faro: 26.0 degrees", "5 calls"][..])
    );
    let calls: Vec<_> = said.iter().skip(4).map(|line| line.split_whitespace().take(2).collect::<Vec<_>>()).collect();
    let forecast = vec!["weather-service.get-forecast", "applied"];
    let expected =
        [vec!["travel.cities", "applied"], forecast.clone(), forecast.clone(), forecast, vec!["notes.add", "applied"]];
    assert_eq!(calls, expected);
}

#[test]
fn the_ledger_is_in_the_report() {
    let ran = toolgate(&["run", CHAIN, "--tools", DEMO, "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    let names: Vec<_> = report["calls"].as_array().expect("calls").iter().map(|call| &call["name"]).collect();
    assert_eq!(names.len(), 5, "{report}");
    assert_eq!((&report["ok"], &report["safe_to_retry"], names[4]), (&json!(true), &json!(false), &json!("notes.add")));
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_returned_string_is_the_text_it_is() {
    let ran = toolgate_with_input(&["run", "-", "--tools", DEMO], "return 'two\\nlines'");
    assert_eq!(ran.stdout, "two\nlines\n");
}

#[test]
fn a_program_with_tools_runs_on_the_engine_that_was_asked_for() {
    let code = "const text = 'x'; return await notes.add({ text })";
    let program = script("chain.ts", code);
    let output = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(["run", program.path(), "--tools", DEMO, "--engine", "v8", "--json"])
        .env("TOOLGATE_DENO", "/nowhere/deno")
        .output()
        .expect("the binary ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["code"], "UNAVAILABLE", "{report}");
    assert!(report["error"].as_str().is_some_and(|error| error.starts_with("/nowhere/deno is not")), "{report}");
}

#[test]
fn one_call_needs_no_engine_and_looks_the_same() {
    let direct = r#"{"tool": "notes.add", "arguments": {"text": "x"}}"#;
    let engine = |code: &str| {
        let ran = toolgate_with_input(&["run", "-", "--tools", DEMO, "--json"], code);
        let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
        assert_eq!(report["value"], json!({ "saved": true, "text": "x" }), "{report}");
        report["engine"].as_str().expect("a name").to_owned()
    };
    assert_eq!(engine(direct), "none");
    assert_eq!(engine("return await notes.add({ text: 'x' })"), "none");
    assert_eq!(engine("const text = 'x'; return await notes.add({ text })"), "quickjs");
}

#[test]
fn what_must_go_wrong_is_said_before_anything_is_called() {
    let code = "await notes.add({ text: 'x' });\nreturn await travel.citys({})";
    let ran = toolgate_with_input(&["run", "-", "--tools", DEMO], code);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.starts_with("no calls\nerror[INVALID_CODE]: Backend `travel` has no tool `citys`"), "{ran:?}");
    assert!(ran.stderr.contains("stdin:2:21") && ran.stderr.contains("hint: Did you mean `cities`?"), "{ran:?}");
}

#[test]
fn a_check_lists_the_calls_and_runs_nothing() {
    let ran = toolgate(&["check", CHAIN, "--tools", DEMO]);
    assert_eq!(ran.code, 0, "{ran:?}");
    insta::assert_snapshot!(ran.stdout, @r#"
    7:30 travel.cities {"country":"Portugal"}
    10:58 weather-service.get-forecast { city: … }
    19:20 notes.add { text: … }
    "#);
    assert_eq!(findings(&ran.stderr), "");
}

/// What a check found, without the note of a machine that has no TypeScript to check types with.
fn findings(stderr: &str) -> String {
    let is_note = |line: &&str| line.starts_with("the types of the program were not checked");
    stderr.lines().filter(|line| !is_note(line)).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn a_check_that_finds_an_error_exits_with_one() {
    let code = "notes.add({ text: 'never awaited' });\nreturn await travel.cities({ country: 1 })";
    let ran = toolgate_with_input(&["check", "-", "--tools", DEMO], code);
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!(findings(&ran.stderr), @r"
    warning[not_awaited]: The call of notes.add is never awaited
      --> stdin:1:1
       |
     1 | notes.add({ text: 'never awaited' });
       | ^
    hint: Write `await` before it.
    error[invalid_arguments]: travel.cities: `country` must be a string, got a number
      --> stdin:2:28
       |
     2 | return await travel.cities({ country: 1 })
       |                            ^
    ");
    let json = toolgate_with_input(&["check", "-", "--tools", DEMO, "--json"], code);
    let checked: Value = serde_json::from_str(&json.stdout).expect("an object");
    assert_eq!((json.code, &checked["ok"]), (1, &json!(false)));
    assert_eq!(
        checked["calls"][1],
        json!({
            "name": "travel.cities", "backend": "travel", "tool": "cities", "line": 2, "column": 14,
            "arguments": { "country": 1 },
        })
    );
    assert_eq!(checked["path"], "script");
    assert_eq!(
        (&checked["errors"][0]["code"], &checked["warnings"][0]["line"]),
        (&json!("invalid_arguments"), &json!(1))
    );
}

#[test]
fn a_check_has_the_code_of_the_run() {
    for (text, code) in [(r#"{"tool": "travel.nope"}"#, "INVALID_CODE"), ("return (", "SYNTAX")] {
        let checked = toolgate_with_input(&["check", "-", "--tools", DEMO, "--json"], text);
        let checked: Value = serde_json::from_str(&checked.stdout).expect("an object");
        let ran = toolgate_with_input(&["run", "-", "--tools", DEMO, "--json"], text);
        let ran: Value = serde_json::from_str(&ran.stdout).expect("a report");
        assert_eq!((&checked["errors"][0]["code"], &ran["code"]), (&json!(code), &json!(code)), "{checked} {ran}");
        assert_eq!((&checked["path"], &checked["typesChecked"]), (&json!("refused"), &json!(false)), "{checked}");
    }
}

#[test]
fn a_check_of_what_is_no_program_says_where() {
    let ran = toolgate_with_input(&["check", "-"], "return (");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.starts_with("error[SYNTAX]:"), "{ran:?}");
}

/// The binary with a cache of its own.
fn with_cache(cache: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(args)
        .env("XDG_CACHE_HOME", cache)
        .output()
        .expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

#[test]
fn a_long_result_is_kept_and_can_be_read_later() {
    let cache = tempfile::tempdir().expect("a folder");
    let rows = "return { results: { items: Array.from({ length: 3000 }, (_, n) => ({ id: n, name: `row ${n}`, error: n === 77 ? 'broken' : '' })) } }";
    let file = script("rows.ts", rows);
    let run = |more: &[&str]| {
        let args = [&["run", file.path(), "--tools", DEMO][..], more].concat();
        let (code, shown, said) = with_cache(cache.path(), &args);
        assert_eq!(code, 0, "{said}");
        let id = said
            .lines()
            .last()
            .and_then(|line| line.strip_prefix("the whole result: toolgate result "))
            .expect("an id");
        assert!(shown.contains("% reduced]") && shown.contains(id), "{shown}");
        (shown, id.to_owned())
    };
    let (_, id) = run(&[]);
    let read = |more: &[&str]| with_cache(cache.path(), &[&["result", id.as_str()][..], more].concat());
    assert_eq!(read(&["--path", "results.items[77].error"]), (0, "broken\n".into(), String::new()));
    assert_eq!(read(&["--lines", "1-2"]), (0, "{\n  \"results\": {\n".into(), String::new()));
    assert!(read(&["--grep", "BROKEN"]).1.contains("results.items[77].error: broken"));
    assert!(read(&["--path", "results.nope"]).2.contains("no results.nope: results has the keys items"));
    assert_eq!(read(&["--path", "results.nope"]).0, 1);
    assert!(read(&["--max-output", "100"]).1.len() <= 101);

    let (short, _) = run(&["--max-output", "2KB"]);
    assert!(short.len() <= 2_049, "{}", short.len());
    let (meant, _) = run(&["--intent", "broken"]);
    assert!(meant.contains("broken"), "{meant}");
}

#[test]
fn the_result_of_a_computation_is_shown_in_part_where_that_is_asked_for() {
    let cache = tempfile::tempdir().expect("a folder");
    let rows = "() => Array.from({ length: 3000 }, (_, n) => ({ id: n, error: n === 77 ? 'broken' : '' }))";
    let compute = |more: &[&str]| with_cache(cache.path(), &[&["compute", rows][..], more].concat());
    let (code, short, said) = compute(&["--max-output", "2KB"]);
    assert_eq!((code, short.len() <= 2_049), (0, true), "{short}");
    let id = said.lines().last().and_then(|line| line.strip_prefix("the whole result: toolgate result "));
    let (_, kept, _) = with_cache(cache.path(), &["result", id.expect("an id"), "--path", "[77].error"]);
    assert_eq!(kept, "broken\n");
    assert!(compute(&["--intent", "broken", "--max-output", "2KB"]).1.contains("broken"));
    let (_, whole, said) = compute(&[]);
    assert!(whole.contains("2999") && !said.contains("the whole result"), "{said}");
}

#[test]
fn what_is_not_kept_is_said_so() {
    let cache = tempfile::tempdir().expect("a folder");
    let (code, stdout, stderr) = with_cache(cache.path(), &["result", "res_00112233445566778899aabbccddeeff"]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("res_00112233445566778899aabbccddeeff"), "{stderr}");
    assert!(with_cache(cache.path(), &["result", "../../x"]).2.contains("not a result id"));
}

#[test]
fn wrong_usage_exits_with_two() {
    let check = |args: &[&str], message: &str| {
        let ran = toolgate(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
    };
    let bad = script("tools.json", r#"{"backends": {"a": {"tools": [{"nam": "x"}]}}}"#);
    check(&["run", CHAIN, "--tools", bad.path()], "does not describe tools: unknown field `nam`");
    check(&["run", CHAIN, "--tools", "no.json"], "cannot read no.json");
    check(&["run", CHAIN, "--tools", DEMO, "--demo"], "cannot be used with");
    check(&["result", "x", "--lines", "0-3"], "not a line range");
    check(&["result", "x", "--path", "a["], "not a key path");
}

#[test]
fn nothing_a_tool_says_drives_a_terminal() {
    let tools = script(
        "tools.json",
        json!({ "backends": { "b\u{1b}[2J": { "tools": [{ "name": "t\u{9b}", "reply": "\u{1b}]0;x\u{7}" }, { "name": "f", "error": { "message": "\u{1b}[31m" } }] } } })
            .to_string(),
    );
    let code = "const [b] = Object.values(tools); try { await b.f({}) } catch {} const n = Object.keys(b); return await b[n[1]]({})";
    let file = script("a.ts", code);
    let ran = toolgate(&["run", file.path(), "--tools", tools.path()]);
    let harmless = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(harmless(&ran.stdout) && harmless(&ran.stderr), "{ran:?}");
}
