//! Wrong usage: exit code 2, nothing on standard output, a message that says what to do.

mod support;

use support::{script, toolgate, toolgate_with_input};

fn check(args: &[&str], message: &str) {
    let ran = toolgate(args);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.contains(message), "{}", ran.stderr);
}

#[test]
fn a_file_that_is_not_there() {
    check(&["run", "no/such/file.ts"], "cannot read no/such/file.ts: No such file or directory");
    check(&["compute", "d => d", "--data", "no.json"], "cannot read no.json: No such file or directory");
}

#[test]
fn a_folder_is_no_program() {
    check(&["run", env!("CARGO_MANIFEST_DIR")], "Is a directory");
}

#[test]
fn a_program_must_be_text() {
    let file = script("binary.ts", b"return '\xff\xfe'");
    check(&["run", file.path()], "is not UTF-8 text: invalid utf-8 sequence of 1 bytes from index 8");
}

#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    check(&["run", "/dev/zero"], "/dev/zero has more than 4194304 bytes: no program is that long");
    check(&["compute", "d => d", "--data", "/dev/zero", "--memory", "4MB"], "--memory gives more");
}

#[test]
fn nothing_on_standard_input_is_no_program() {
    check(&["run", "-"], "nothing came on standard input");
}

#[test]
fn a_limit_out_of_range_is_answered_with_the_range() {
    let file = script("ok.ts", "return 1");
    let limit = |flag, value, message| check(&["run", file.path(), flag, value], message);
    limit("--timeout", "0s", "timeout must be between 1 and 600000 milliseconds, got 0");
    limit("--timeout", "11m", "timeout must be between 1 and 600000 milliseconds, got 660000");
    limit("--memory", "1KB", "memory must be between 2097152 and 1073741824 bytes, got 1024");
    check(&["compute", "d => d", "--memory", "1KB"], "memory must be between 2097152 and 1073741824 bytes, got 1024");
}

#[test]
fn a_value_that_cannot_be_read_is_answered_with_examples() {
    check(&["run", "x.ts", "--timeout", "2"], "such as 500ms, 2s or 1m");
    check(&["run", "x.ts", "--memory", "lots"], "such as 65536, 64KB or 64MB");
    check(&["run", "x.ts", "--profile", "compute"], "[possible values: chain, snippet]");
    check(&["run", "x.ts", "--isolation", "none"], "[possible values: process, thread]");
    check(&["run", "x.ts", "--seed", "x"], "invalid value");
}

#[test]
fn standard_input_cannot_be_two_things() {
    let ran = toolgate_with_input(&["run", "-", "--context", "-"], "return 1");
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("only one of FILE and --context"), "{ran:?}");
}

#[test]
fn a_name_in_a_message_cannot_drive_a_terminal() {
    check(&["run", "\u{1b}[31m"], r"cannot read \u{1b}[31m: No such file");
    check(&["bench", "\u{1b}[31m"], r"no workload named `\u{1b}[31m`");
}

#[test]
fn commands_and_flags_that_do_not_exist() {
    check(&["fly"], "unrecognized subcommand 'fly'");
    check(&["run"], "<FILE>");
    check(&["run", "x.ts", "--fast"], "unexpected argument '--fast'");
    check(&["bench", "wurm"], "no workload named `wurm`: there are cold, warm, calls");
    check(&["doctor", "--without", "luck"], "[possible values: landlock, namespaces, seccomp]");
}

#[test]
fn help_teaches() {
    let help = |args: &[&str]| {
        let ran = toolgate(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        ran.stdout
    };
    insta::assert_snapshot!("help", help(&["--help"]));
    insta::assert_snapshot!("help-run", help(&["run", "--help"]));
    insta::assert_snapshot!("help-replay", help(&["replay", "--help"]));
    insta::assert_snapshot!("help-check", help(&["check", "--help"]));
    insta::assert_snapshot!("help-result", help(&["result", "--help"]));
    insta::assert_snapshot!("help-compute", help(&["compute", "--help"]));
    insta::assert_snapshot!("help-doctor", help(&["doctor", "--help"]));
    insta::assert_snapshot!("help-bench", help(&["bench", "--help"]));
}

/// With `--json` standard output is one JSON object also where nothing was carried out, in the form of the HTTP service.
fn check_json(args: &[&str], code: &str, message: &str) {
    let ran = toolgate(args);
    assert_eq!(ran.code, 2, "{ran:?}");
    let said: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(said["error"]["code"], code, "{said}");
    assert!(said["error"]["message"].as_str().is_some_and(|it| it.contains(message)), "{said}");
    assert!(ran.stderr.contains(message), "{}", ran.stderr);
}

#[test]
fn wrong_usage_is_json_where_json_is_asked_for() {
    check_json(&["run", "no.ts", "--json"], "INVALID_INPUT", "cannot read no.ts");
    check_json(&["list", "--json", "--config", "no.json"], "INVALID_INPUT", "no such file: no.json");
    check_json(&["describe", "demo.list_isues", "--demo", "--json"], "INVALID_INPUT", "did you mean demo.list_issues");
    check_json(&["call", "demo.list_issues", "{bad", "--demo", "--json"], "INVALID_INPUT", "no JSON object");
    check_json(&["bench", "nothing", "--json"], "INVALID_INPUT", "no workload named `nothing`");
    check_json(&["logs", "--json", "--level", "loud"], "INVALID_INPUT", "invalid value 'loud'");
    // A command that has said it in its own form says it once.
    check_json(&["call", "demo.list_isues", "--demo", "--json"], "UNKNOWN", "did you mean demo.list_issues");
    // The words behind -- are no flags of this program.
    check(&["add", "", "--", "x", "--json"], "error: ");
}

#[test]
fn a_server_that_is_misspelt_is_answered_with_the_name_that_may_be_meant() {
    for command in [&["restart", "dmo"][..], &["login", "dmo"], &["logout", "dmo"], &["types", "learn", "dmo"]] {
        check(&[command, &["--demo"]].concat(), "no server named dmo: did you mean demo?");
    }
    check(&["restart", "bank", "--demo"], "no server named bank: there are demo");
    check(&["connect", "claud-code"], "no client `claud-code`: did you mean claude-code?");
    let config = script("misspelt.json", r#"{"mcpServers": {"demo": {"command": "x"}}}"#);
    check(&["remove", "dmo", "--config", config.path()], "no server named dmo: did you mean demo?");
}
