//! The benchmark's rows: each measures something, in its own unit, and says so in the documented form.

mod support;

use serde_json::Value;
use support::toolgate;

fn rows(args: &[&str]) -> Vec<Value> {
    let ran = toolgate(&[&["bench", "--json"], args].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "no progress bar in a pipe");
    ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

fn check(row: &Value, workload: &str, unit: &str) {
    let keys: Vec<_> = row.as_object().expect("an object").keys().cloned().collect();
    assert_eq!(keys, ["workload", "n", "p50", "p99", "mean", "unit", "calibration"]);
    assert_eq!((&row["workload"], &row["unit"]), (&workload.into(), &unit.into()));
    // `kill` may be stopped on its deadline to the microsecond; `gateway-call` is the difference of two latencies, which on a
    // loaded machine may be anything.
    let least = match workload {
        "kill" => -f64::MIN_POSITIVE,
        "gateway-call" => f64::NEG_INFINITY,
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
        "gateway-memory",
        "openapi-load",
        "openapi-memory",
    ];
    // Looking into a sealed worker takes root.
    if rustix::process::geteuid().is_root() {
        small.insert(9, "memory");
    }
    let rows = rows(&[&["--runs", "2"], &small[..]].concat());
    assert_eq!(rows.len(), small.len());
    for (row, name) in rows.iter().zip(small) {
        let unit = match name {
            "memory" | "gateway-memory" | "openapi-memory" => "bytes",
            "throughput" | "http" => "per_s",
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
    assert_eq!(natural.len(), 63);
    let mut small: Vec<&str> = vec!["context-10000", "keys-1000", "keys-10000", "reply-1mb"];
    small.extend(natural.iter().map(String::as_str).filter(|name| name.ends_with("-quickjs")));
    // A row with a wrong answer is an error.
    let rows = rows(&[&["--runs", "1"], &small[..]].concat());
    assert_eq!(rows.len(), small.len());
    for (row, name) in rows.iter().zip(small) {
        check(row, name, "us");
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
