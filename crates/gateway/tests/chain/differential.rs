//! Every text gives the same result, error and ledger with short cuts and without: invariant 4.

use std::sync::LazyLock;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolgate_run::{FastPaths, Route, RunRequest, Runner};
use toolgate_wire::LimitRequest;

use crate::programs::{CALLS, RECEIVERS, SHAPES, TEXTS, VALUES, tools};
use crate::runner::{Case, cases};
use crate::support::{asking, chain, run, shown};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        differential::every_shape_with_every_receiver,
        differential::every_shape_with_a_failing_tool,
        differential::every_argument,
        differential::every_call_in_three_shapes,
        differential::every_text,
        differential::short_cuts_are_taken,
        differential::a_call_that_takes_too_long,
        differential::a_cancelled_call,
        differential::limits_of_the_run,
    ]
}

pub(crate) static CHAIN: LazyLock<Runner> = LazyLock::new(|| chain(&tools()));

/// The two accounts of one request, with short cuts and without.
fn both(request: &RunRequest) -> (String, String) {
    let long = RunRequest { fast_paths: FastPaths::Off, ..request.clone() };
    (shown(&run(&CHAIN, request.clone())), shown(&run(&CHAIN, long)))
}

/// The texts on which the routes differ.
fn differences(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let compared = texts.into_iter().map(|text| {
        let (short, long) = both(&asking(text.as_str()));
        (short != long).then(|| format!("{text}\n  short cut: {short}  engine:    {long}"))
    });
    compared.flatten().collect()
}

#[track_caller]
fn agree(texts: impl IntoIterator<Item = String>) {
    let differences = differences(texts);
    assert!(differences.is_empty(), "{} texts differ:\n{}", differences.len(), differences.join("\n"));
}

pub(crate) fn agrees(text: &str) -> Result<(), String> {
    differences([text.to_owned()]).pop().map_or(Ok(()), Err)
}

pub(crate) fn every_shape_with_every_receiver() {
    let call = |receiver: &str| format!("{receiver}.find({{ query: 'tea' }})");
    agree(SHAPES.iter().flat_map(|shape| RECEIVERS.iter().map(move |receiver| shape.replace('@', &call(receiver)))));
}

pub(crate) fn every_shape_with_a_failing_tool() {
    agree(SHAPES.iter().map(|shape| shape.replace('@', "shop.fail({ value: 'it' })")));
    agree(SHAPES.iter().map(|shape| shape.replace('@', "my-backend.my-tool({ value: [1] })")));
    agree(SHAPES.iter().map(|shape| shape.replace('@', "other-one.strict-tool({ n: '1' })")));
}

pub(crate) fn every_argument() {
    agree(VALUES.iter().flat_map(|value| {
        [
            format!("return shop.echo({{ value: {value} }})"),
            format!("const r = await shop.echo({{ 'value': [{value}], }}); return r"),
        ]
    }));
}

pub(crate) fn every_call_in_three_shapes() {
    let shapes = ["@", "const r = await @; return r", "return [await @]"];
    agree(CALLS.iter().flat_map(|call| shapes.iter().map(move |shape| shape.replace('@', call))));
}

pub(crate) fn every_text() {
    agree(TEXTS.iter().map(ToString::to_string));
}

/// The comparison would prove nothing if both sides took one route.
pub(crate) fn short_cuts_are_taken() {
    let route = |code: &str| run(&CHAIN, asking(code)).route;
    let find = |receiver: &str| format!("const r = await {receiver}.find({{ query: 'a' }}); return r");
    for receiver in RECEIVERS {
        assert_eq!(route(&find(receiver)), Route::OneCall, "{receiver}");
    }
    assert_eq!(route("my-backend.my-tool({ value: 1 })"), Route::OneCall);
    assert_eq!(route("return __interfaces.shop"), Route::Introspection);
    assert_eq!(route("{\"tool\": \"shop.find\", \"arguments\": {\"query\": \"a\"}}"), Route::Direct);
    assert_eq!(route("return Math.max(5)"), Route::Script);
    let long = RunRequest { fast_paths: FastPaths::Off, ..asking(find("shop")) };
    assert_eq!(run(&CHAIN, long).route, Route::Script);
}

#[track_caller]
fn check(request: &RunRequest, expected: &str) {
    let (short, long) = both(request);
    assert_eq!(short, long);
    assert!(short.starts_with(expected), "{short}");
}

pub(crate) fn a_call_that_takes_too_long() {
    let limits = LimitRequest { wall: Some(Duration::from_millis(150)), ..LimitRequest::default() };
    check(
        &RunRequest { limits, ..asking("return shop.slow({})") },
        "failed TIMEOUT: the run took longer than its 150 ms",
    );
}

pub(crate) fn a_cancelled_call() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    check(&RunRequest { cancel, ..asking("return shop.slow({})") }, "failed ABORTED: cancelled before sandbox started");
}

pub(crate) fn limits_of_the_run() {
    let check =
        |code: &str, limits: LimitRequest, expected: &str| check(&RunRequest { limits, ..asking(code) }, expected);
    let none = LimitRequest::default;
    check("return shop.yes({})", LimitRequest { calls: Some(0), ..none() }, "failed RUNTIME");
    check("return shop.word({})", LimitRequest { result: Some(10), ..none() }, "failed OUTPUT_TOO_LARGE");
    check("return __interfaces", LimitRequest { result: Some(10), ..none() }, "failed OUTPUT_TOO_LARGE");
    check("return shop.long({})", LimitRequest { memory: Some(2 << 20), ..none() }, "failed MEMORY");
    check("return shop.rows({})", LimitRequest { memory: Some(2 << 20), ..none() }, "returned [");
    // What takes an interpreter the most memory for its length.
    check("return shop.few_hollow({})", LimitRequest { memory: Some(4 << 20), ..none() }, "returned [");
    for tool in ["hollow", "husks", "crumbs"] {
        let code = format!("return shop.{tool}({{}})");
        check(&code, none(), "returned [");
        check(&code, LimitRequest { memory: Some(16 << 20), ..none() }, "");
    }
    check("return shop.deep({})", LimitRequest { result_depth: Some(5), ..none() }, "returned ");
    check("return shop.yes({})", LimitRequest { code: Some(5), ..none() }, "failed INVALID_CODE");
    let deep = format!("return shop.echo({{ value: {}{} }})", "[".repeat(60), "]".repeat(60));
    check(&deep, LimitRequest { stack: Some(64 << 10), ..none() }, "failed RUNTIME: RangeError");
    check("return shop.deep({})", LimitRequest { stack: Some(64 << 10), ..none() }, "");
    let wide = format!("return shop.echo({{ value: [{}] }})", "[],".repeat(80_000));
    check(&wide, LimitRequest { memory: Some(2 << 20), ..none() }, "failed MEMORY");
    check(&wide, none(), "returned [[],");
    let long = format!("return shop.echo({{ value: '{}' }})", "x".repeat(250_000));
    check(&long, LimitRequest { memory: Some(2 << 20), ..none() }, "");
    let keys: String = (0..20_000).map(|n| format!("k{n}:1,")).collect();
    check(&format!("return shop.echo({{ value: {{{keys}}} }})"), LimitRequest { memory: Some(2 << 20), ..none() }, "");
    check("return shop.yes({})", LimitRequest { memory: Some(1), ..none() }, "failed INVALID_DATA");
}
