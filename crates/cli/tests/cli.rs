//! The real binary, from outside: exit codes, what goes where, and the form of `--json`.

mod support;

use serde_json::{Value, json};
use support::{Ran, script, toolgate, toolgate_with_input};

/// The one report object on standard output.
fn report(ran: &Ran) -> Value {
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
    serde_json::from_str(&ran.stdout).expect("a JSON object")
}

#[test]
fn a_result_is_json_on_stdout_and_the_console_is_on_stderr() {
    let ran = toolgate_with_input(&["run", "-"], "console.log('one'); console.error('two'); return { a: [1] }");
    assert_eq!(ran.code, 0);
    assert_eq!(ran.stdout, "{\n  \"a\": [\n    1\n  ]\n}\n");
    assert_eq!(ran.stderr, "| one\n| two\n");
}

#[test]
fn a_console_line_is_never_one_of_our_own() {
    let code = "console.log('error[MEMORY]: out\\nhint: more'); console.warn('warning: late'); throw new Error('real')";
    let ran = toolgate(&["run", "-e", code]);
    let ours: Vec<&str> = ran.stderr.lines().filter(|line| !line.starts_with("| ")).collect();
    assert!(ours[0].starts_with("error[RUNTIME]: Error: real"), "{ran:?}");
    // The rest is the place in the program.
    assert!(ours[1..].iter().all(|line| line.starts_with(' ')), "{ran:?}");
}

#[test]
fn a_returned_string_is_json_too() {
    assert_eq!(toolgate_with_input(&["run", "-"], "return 'a\"b'").stdout, "\"a\\\"b\"\n");
}

#[test]
fn a_program_can_stand_on_the_command_line() {
    let ran = toolgate(&["run", "-e", "console.log('one'); return -1"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "-1\n", "| one\n"));
    let ran = toolgate(&["run", "--eval", "-1 +"]);
    assert!(ran.stderr.contains("command line:1:"), "{ran:?}");
    assert_eq!(toolgate(&["check", "-e", "return 1"]).code, 0);

    let both = toolgate(&["run", "-e", "return 1", "file.ts"]);
    assert_eq!(both.code, 2, "{both:?}");
    let neither = toolgate(&["run"]);
    assert!(neither.code == 2 && neither.stderr.contains("<FILE>"), "{neither:?}");
}

#[test]
fn the_example_of_the_readme_runs() {
    let hello = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello.ts");
    let ran = toolgate(&["run", hello]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let value: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(value, json!({ "orders": 3, "total": 2640, "dearest": "bread" }));
    assert_eq!(ran.stderr.lines().count(), 3);
}

#[test]
fn code_that_fails_exits_with_one_and_says_where() {
    let file = script("bad.ts", "const a: number = 1;\nconst b = = a;\n");
    let ran = toolgate(&["run", file.path()]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.starts_with("error[SYNTAX]: "), "{ran:?}");
    assert!(ran.stderr.contains("bad.ts:2:11\n   |\n 2 | const b = = a;\n   |           ^"), "{}", ran.stderr);
}

#[test]
fn a_thrown_error_is_a_runtime_failure() {
    let ran = toolgate_with_input(&["run", "-"], "throw new Error('out of memory')");
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.starts_with("error[RUNTIME]: Error: out of memory"), "{ran:?}");
}

#[test]
fn an_endless_program_is_stopped() {
    let ran = toolgate_with_input(&["run", "-", "--timeout", "100ms", "--json"], "while (true) {}");
    assert_eq!(ran.code, 1);
    assert_eq!(report(&ran)["code"], "TIMEOUT");
}

#[test]
fn the_report_of_a_result_has_the_documented_form() {
    let ran = toolgate_with_input(&["run", "-", "--json"], "console.log('x'); console.warn('y'); return [1]");
    let report = report(&ran);
    let keys: Vec<_> = report.as_object().expect("an object").keys().cloned().collect();
    let expected = "ok value safe_to_retry executionMs logs calls usage isolation engine warnings executionId path";
    assert_eq!(keys.join(" "), expected);
    assert_eq!((&report["ok"], &report["value"]), (&json!(true), &json!([1])));
    assert_eq!(report["logs"], json!({ "stdout": ["x"], "stderr": ["y"], "dropped": 0 }));
    assert!(report["executionMs"].as_f64() > Some(0.0));
    assert_eq!(report["isolation"]["mode"], "process");
    assert_eq!(ran.stderr, "", "the console is in the report");
}

#[test]
fn the_report_of_a_failure_has_the_documented_form() {
    let ran = toolgate_with_input(&["run", "-", "--json"], "let = ");
    let report = report(&ran);
    assert_eq!(ran.code, 1);
    assert_eq!(
        (&report["ok"], &report["code"], &report["safe_to_retry"]),
        (&json!(false), &json!("SYNTAX"), &json!(true))
    );
    assert!(report["error"].is_string() && report["line"] == 1 && report["column"].is_u64(), "{report}");
    for key in ["hint", "executionMs", "logs", "calls", "usage", "isolation", "engine"] {
        assert!(report.get(key).is_some(), "{key} in {report}");
    }
}

#[test]
fn thread_isolation_is_said_in_the_report() {
    let ran = toolgate_with_input(&["run", "-", "--isolation", "thread", "--json"], "return 1");
    assert_eq!(report(&ran)["isolation"]["mode"], "thread");
}

#[test]
fn context_and_seed_reach_the_program() {
    let context = script("context.json", r#"{"n": 41}"#);
    let args = ["run", "-", "--seed", "7", "--context", context.path()];
    let code = "return [context.n + 1, Math.random()]";
    let first = toolgate_with_input(&args, code);
    assert!(first.stdout.starts_with("[\n  42,"), "{first:?}");
    assert_eq!(first.stdout, toolgate_with_input(&args, code).stdout);
}

#[test]
fn a_snippets_timeout_is_clamped_with_a_warning() {
    let ran = toolgate_with_input(&["run", "-", "--profile", "snippet", "--timeout", "1m"], "return 1");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1\n"));
    assert!(ran.stderr.starts_with("warning: timeout clamped from 60000 ms to 5000 ms"), "{ran:?}");
}

#[test]
fn compute_applies_a_function_to_data() {
    let data = script("data.json", r#"[{"n":"a","risk":95},{"n":"b","risk":5}]"#);
    let code = "(data) => data.filter(d => d.risk > 90).map(d => d.n)";
    let ran = toolgate(&["compute", code, "--data", data.path()]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "[\n  \"a\"\n]\n"));
}

#[test]
fn compute_without_data_gets_null() {
    assert_eq!(toolgate(&["compute", "(d) => d === null"]).stdout, "true\n");
}

#[test]
fn compute_reads_data_from_standard_input() {
    assert_eq!(toolgate_with_input(&["compute", "(d) => d.a", "--data", "-"], r#"{"a":12345678901234567890}"#).code, 0);
}

#[test]
fn compute_reads_a_value_on_each_line_of_a_file_of_json_lines() {
    for name in ["data.jsonl", "data.ndjson"] {
        let data = script(name, "{\"n\": 1}\r\n\n [2] \n");
        let ran = toolgate(&["compute", "(d) => [d.length, d[0].n, d[1][0]]", "--data", data.path(), "--json"]);
        assert_eq!(report(&ran)["value"], json!([2, 1, 2]), "{ran:?}");
    }
    let wrong = script("data.jsonl", "{\"n\": 1\n");
    let ran = toolgate(&["compute", "(d) => 1", "--data", wrong.path(), "--json"]);
    assert_eq!(report(&ran)["code"], "INVALID_DATA", "{ran:?}");
}

#[test]
fn a_context_is_an_object() {
    for text in ["5", "[1]", "null", " \"x\" "] {
        let context = script("context.json", text);
        let ran = toolgate(&["run", "-e", "return context", "--context", context.path(), "--json"]);
        assert_eq!((ran.code, &report(&ran)["code"]), (1, &json!("INVALID_DATA")), "{text}: {ran:?}");
    }
}

#[test]
fn an_empty_text_is_no_program() {
    for text in ["", " \n\t", "```ts\n\n```"] {
        let ran = toolgate(&["run", "-e", text, "--json"]);
        assert_eq!((ran.code, &report(&ran)["code"]), (1, &json!("SYNTAX")), "{text:?}: {ran:?}");
        assert_eq!(toolgate(&["check", "-e", text]).code, 1, "{text:?}");
    }
}

#[test]
fn data_that_is_not_json_is_invalid_data() {
    for data in [&b"{x"[..], b"", b"\"\xff\"", b"[1,]", b"1 2"] {
        let ran = toolgate_with_input(&["compute", "(d) => 1", "--data", "-", "--json"], data);
        assert_eq!((ran.code, &report(&ran)["code"]), (1, &json!("INVALID_DATA")), "{ran:?}");
    }
}

#[test]
fn an_output_past_its_bound_is_refused() {
    let ran = toolgate(&["compute", "() => 'x'.repeat(2 ** 20)", "--json"]);
    assert_eq!(report(&ran)["code"], "OUTPUT_TOO_LARGE");
}

#[test]
fn the_guard_names_what_it_refuses() {
    let ran = toolgate(&["compute", "async () => 1", "--json"]);
    assert_eq!(report(&ran)["code"], "INVALID_CODE");
    assert!(report(&ran)["error"].as_str().is_some_and(|error| error.contains("async")), "{ran:?}");
}

#[test]
fn numbers_and_surrogates_pass_as_they_are() {
    let ran = toolgate_with_input(&["run", "-"], r"return ['\ud800', 9007199254740993n.toString(), 2**53]");
    assert_eq!(ran.stdout, "[\n  \"\\ud800\",\n  \"9007199254740993\",\n  9007199254740992\n]\n");
}

#[test]
fn guest_text_cannot_drive_a_terminal() {
    let code = r"console.log('\x1b[2J\x9b31m'); return { ['\x9b\u202e']: '\x1b]0;x\x07\x7f' }";
    for json in [false, true] {
        let args: &[&str] = if json { &["run", "-", "--json"] } else { &["run", "-"] };
        let ran = toolgate_with_input(args, code);
        let harmless = |text: &str| text.chars().all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}'));
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(harmless(&ran.stdout) && harmless(&ran.stderr), "{ran:?}");
    }
    let thrown = toolgate_with_input(&["run", "-"], r"throw new Error('\x1b[31m')");
    assert!(thrown.stderr.contains(r"\u{1b}[31m"), "{thrown:?}");
}
