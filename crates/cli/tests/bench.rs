//! The benchmark's rows: each measures something, in its own unit, and says so in the documented form.

#[path = "../../engine/tests/support/deno.rs"]
mod deno;
#[path = "../../engine/tests/support/rewinding.rs"]
mod rewinding;
mod support;

use std::process::Command;

use deno::deno;
use rewinding::permits_rewinding;
use serde_json::Value;
use support::toolgate;

fn rows(args: &[&str]) -> Vec<Value> {
    let ran = toolgate(&[&["bench", "--json"], args].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "no progress bar in a pipe");
    ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// Rows that need a V8.
fn rows_of_v8(args: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    let ran = command.args(["bench", "--json"]).args(args).env("TOOLGATE_DENO", deno()).output().expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

fn check(row: &Value, workload: &str, unit: &str) {
    let keys: Vec<_> = row.as_object().expect("an object").keys().cloned().collect();
    assert_eq!(keys, ["workload", "n", "p50", "p99", "mean", "unit", "calibration"]);
    assert_eq!((&row["workload"], &row["unit"]), (&workload.into(), &unit.into()));
    // `kill` may be stopped on its deadline to the microsecond; `gateway-call` and `policy` are the difference of two latencies,
    // which on a loaded machine may be anything.
    let least = match workload {
        "kill" => -f64::MIN_POSITIVE,
        "gateway-call" | "policy" => f64::NEG_INFINITY,
        _ => 0.0,
    };
    for number in ["p50", "p99", "mean"] {
        assert!(row[number].as_f64() > Some(least), "{number} in {row}");
    }
    for number in ["n", "calibration"] {
        assert!(row[number].as_f64() > Some(0.0), "{number} in {row}");
    }
}

#[test]
fn every_row_is_measured_in_its_unit() {
    let mut small = vec![
        "cold",
        "warm",
        "calls",
        "parallel",
        "names",
        "policy",
        "policy-decision",
        "data-1000",
        "kill",
        "kill-native",
        "throughput",
        "http",
        "http-latency",
        "gateway-call",
        "telemetry-off",
        "telemetry-on",
        "telemetry-cost",
        "gateway-start",
        "gateway-start-10000",
        "gateway-memory",
        "gateway-memory-10000",
        "openapi-load",
        "openapi-memory",
    ];
    // Looking into a sealed worker takes root.
    if rustix::process::geteuid().is_root() {
        small.insert(10, "memory");
    }
    if permits_rewinding() {
        let after_http = small.iter().position(|name| *name == "http-latency").expect("a row");
        small.insert(after_http, "rewound-http");
    }
    let rows = rows(&[&["--runs", "2"], &small[..]].concat());
    assert_eq!(rows.len(), small.len());
    for (row, name) in rows.iter().zip(small) {
        let unit = match name {
            "memory" | "gateway-memory" | "gateway-memory-10000" | "openapi-memory" => "bytes",
            "throughput" | "http" | "rewound-http" => "per_s",
            "telemetry-cost" => "percent",
            _ => "us",
        };
        check(row, name, unit);
    }
}

#[test]
fn data_stands_for_its_three_sizes() {
    let rows = rows(&["data", "--runs", "1"]);
    assert_eq!(rows.len(), 3);
    for (row, name) in rows.iter().zip(["data-1000", "data-10000", "data-100000"]) {
        check(row, name, "us");
    }
}

#[test]
fn natural_programs_and_cliffs_give_their_answers() {
    let listed = toolgate(&["bench", "--list"]).stdout;
    let named = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let natural: Vec<String> = listed.lines().filter_map(named).filter(|name| name.starts_with("natural-")).collect();
    assert_eq!(natural.len(), 84);
    let mut small: Vec<&str> = vec!["context-10000", "keys-1000", "keys-10000", "reply-1mb"];
    small.extend(natural.iter().map(String::as_str).filter(|name| name.ends_with("-quickjs")));
    // A row with a wrong answer is an error.
    let rows = rows(&[&["--runs", "1"], &small[..]].concat());
    assert_eq!(rows.len(), small.len());
    for (row, name) in rows.iter().zip(small) {
        check(row, name, "us");
    }
}

/// Each of the 21 programs is run on both interpreters, then on auto, which does not know it and then does; a wrong answer is an
/// error.
#[test]
fn natural_programs_give_their_answers_on_v8_and_auto() {
    let rows = rows_of_v8(&["--runs", "21", "auto-to-better"]);
    assert_eq!(rows.len(), 1);
    check(&rows[0], "auto-to-better", "percent");
}

#[test]
fn rows_of_v8_are_measured() {
    let small =
        ["data-100000-v8", "v8-replacement", "natural-filter-v8", "natural-filter-auto", "natural-filter-auto-first"];
    let rows = rows_of_v8(&[&["--runs", "1"], &small[..]].concat());
    assert_eq!(rows.len(), small.len());
    for (row, name) in rows.iter().zip(small) {
        check(row, name, "us");
    }
}

#[test]
fn rows_of_v8_and_auto_without_a_deno_say_what_is_missing() {
    for name in
        ["v8-warm", "nbody-auto", "auto-data", "natural-filter-auto", "natural-filter-auto-first", "auto-to-better"]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.args(["bench", "--json", "--runs", "1", name]).env("TOOLGATE_DENO", "/nowhere/deno");
        let ran = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0), "{name}: {said}");
        assert!(said.contains("/nowhere/deno"), "{name}: {said}");
    }
}

#[test]
fn for_a_person_there_is_a_table() {
    let ran = toolgate(&["bench", "warm", "--runs", "1"]);
    let mut lines = ran.stdout.lines();
    assert!(lines.next().is_some_and(|heading| heading.trim_start().starts_with("workload ")), "{ran:?}");
    assert!(lines.next().is_some_and(|row| row.trim_start().starts_with("warm ")), "{ran:?}");
}

#[test]
fn the_list_says_what_each_row_measures() {
    insta::assert_snapshot!(toolgate(&["bench", "--list"]).stdout);
}
