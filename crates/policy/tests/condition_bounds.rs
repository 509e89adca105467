//! What a hostile condition may cost: time, and bytes beside the arguments that it looks at.
//!
//! SECURITY.md: a condition cannot exhaust the host. The bounds here are far above what is measured, and far below what a condition
//! without a budget takes: they hold on a busy machine too.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_policy::condition::{Budget, Facts};
use toolgate_policy::{Condition, Traits};

#[path = "../../../tests/rust/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::Peak;

const MAX_BYTES: usize = 64 << 20;
const MAX_TIME: Duration = Duration::from_secs(10);

/// Reads a condition and evaluates it, within the bounds. Whether there was something to evaluate.
fn check(text: &str, args: &Value) -> bool {
    let facts = Facts {
        args,
        caller: "ci",
        profile: "chain",
        backend: "bank",
        tool: "pay",
        traits: Traits::UNKNOWN,
        in_run: 0,
        in_day: 0,
    };
    let (peak, since) = (Peak::begin(), Instant::now());
    let verdict = Condition::parse(text).map(|condition| condition.holds(&facts, &mut Budget::default()));
    let (bytes, time) = (peak.bytes(), since.elapsed());
    let shown: String = text.chars().take(80).collect();
    assert!(bytes <= MAX_BYTES, "{shown} took {bytes} bytes: {verdict:?}");
    assert!(time <= MAX_TIME, "{shown} took {time:?}: {verdict:?}");
    verdict.is_ok()
}

#[test]
fn a_condition_takes_bounded_time_and_memory_to_be_read() {
    let nested = |open: &str, close: &str, times: usize| format!("{}true{}", open.repeat(times), close.repeat(times));
    let repeated =
        |times: usize, depth: usize| (0..depth).fold("a".to_owned(), |inner, _| format!("({inner}){{{times}}}"));
    let args = json!({});
    for text in [
        nested("(", ")", 2_000),
        nested("!", "", 4_000),
        nested("true ? (", ") : false", 300),
        format!("args{} == 1", "[0]".repeat(1_300)),
        format!("args.a{} == 1", " + 1".repeat(1_000)),
        format!("[{}].all(x, true)", "1,".repeat(2_000)),
        format!("args.a.matches('{}')", repeated(100, 5)),
        format!("args.a.matches('{}')", repeated(10, 4)),
        format!("args.a.matches('{}')", "\\\\p{L}{50}".repeat(50)),
        "x".repeat(1 << 20),
    ] {
        check(&text, &args);
    }
}

#[test]
fn a_condition_takes_bounded_time_and_memory_over_hostile_arguments() {
    let many: Vec<u64> = (0..20_000).collect();
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let args = json!({ "list": many, "text": "a".repeat(8 << 20), "other": "a".repeat(8 << 20), "deep": deep });
    for text in [
        "args.list.all(x, args.list.all(y, x + y >= 0))",
        "args.list.map(x, args.list + args.list) == []",
        "args.list.map(x, args.text) == []",
        "args.list.map(x, [args.text + args.other]) == []",
        "args.list.filter(x, x in args.list).size() > 0",
        "args.text.matches('(a+)+$')",
        "args.text.matches('(a|aa)+b')",
        "args.text.contains(args.other)",
        "args.text + args.other == ''",
        "args.text.lowerAscii().upperAscii() == args.other",
        "string(args.text) + string(args.other) == ''",
        "args.deep == args.deep",
    ] {
        assert!(check(text, &args), "{text} cannot be read");
    }
}
