//! The output pipeline holds at most three times its input: the input itself, what the result store
//! keeps of it, and the pipeline's own working memory, at the moment when these are the most.
//!
//! The input is the JSON text of the returned value. Memory is what was asked of the allocator, and a
//! buffer that grows counts twice while it is copied, so the figures do not depend on the allocator.

#![allow(clippy::print_stdout, reason = "what was measured is printed")]

#[path = "../../../tests/rust/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::Peak;
use serde_json::{Map, Value, json};
use toolgate_output::results::{ResultLimits, ResultStore};
use toolgate_output::{OutputSettings, shape};

/// The most bytes above those at the start that were alive at once.
fn peak_of<R>(work: impl FnOnce() -> R) -> usize {
    let peak = Peak::begin();
    let result = work();
    let bytes = peak.bytes();
    drop(result);
    bytes
}

/// Intents and settings, and how many times the input may be held with them, itself included. Only who asks for an
/// answer as long as the input has more than three: the answer itself.
fn requests(size: usize) -> [(Option<&'static str>, OutputSettings, f64); 6] {
    let all = OutputSettings::default();
    let cut = OutputSettings { auto_chunk_json: false, ..all.clone() };
    let half = OutputSettings { max_output_size: size / 2, ..cut.clone() };
    let long = OutputSettings { max_output_size: size, ..cut.clone() };
    [
        (None, all.clone(), 3.0),
        (Some("rare"), all.clone(), 3.0),
        (Some("common"), all, 3.0),
        (Some("common"), cut, 3.0),
        (None, half, 3.0),
        (Some("common"), long, 3.5),
    ]
}

fn check(shape_of_input: &str, input: &str) {
    assert!(input.len() > 1_000_000, "{shape_of_input} has only {} bytes", input.len());
    let mut over = Vec::new();
    for (intent, settings, most) in requests(input.len()) {
        let store = ResultStore::new(ResultLimits::default());
        let peak = peak_of(|| shape(input, &settings, intent, &mut |kept| store.keep(kept)));
        let times = 1.0 + peak as f64 / input.len() as f64;
        let figure = format!("{shape_of_input}, {intent:?}, {} bytes at most: {times:.2} x", settings.max_output_size);
        println!("{figure}");
        over.extend((times > most).then_some(figure));
    }
    assert!(over.is_empty(), "{}", over.join("\n"));
}

/// Every fortieth is rare, all others are common.
fn word(n: usize) -> &'static str {
    if n % 40 == 7 { "rare" } else { "common" }
}

fn rows(count: usize) -> Value {
    (0..count)
        .map(|n| json!({ "id": n, "name": format!("row {n}"), "kind": word(n), "note": "lorem ipsum ".repeat(6) }))
        .collect()
}

fn mixed(count: usize) -> Value {
    let value = |n: usize| match n % 4 {
        0 => json!(word(n)),
        1 => json!([n, word(n), { "deep": [n, null, true] }]),
        2 => json!({ "text": format!("{} ", word(n)).repeat(n % 90), "n": n }),
        _ => json!(n as f64 / 7.0),
    };
    Value::Object(Map::from_iter((0..count).map(|n| (format!("key_{n}"), value(n)))))
}

fn lines(count: usize) -> String {
    (0..count).map(|n| format!("line {n} tells of something {} at \"{n}\"\n", word(n))).collect()
}

#[test]
fn a_list_of_like_objects() {
    check("rows", &rows(8_000).to_string());
    check("rows of 4 MB", &rows(32_000).to_string());
}

#[test]
fn a_nested_list() {
    check("nested rows", &json!({ "total": 1, "results": { "items": rows(10_000) }, "next": null }).to_string());
}

#[test]
fn unlike_values() {
    check("mixed", &mixed(20_000).to_string());
    check("numbers", &Value::from_iter((0..350_000).map(|n| json!(n % 10))).to_string().replace(',', ", "));
}

#[test]
fn json_in_a_string() {
    check("rows in a string", &json!(rows(8_000).to_string()).to_string());
    let half = rows(8_000).to_string().replacen("lorem", "\\ud800", 1);
    check("rows with half a character", &half);
    check("the same in a string", &json!(half).to_string());
}

#[test]
fn long_texts() {
    check("lines", &json!(lines(30_000)).to_string());
    check("paragraphs", &json!(lines(30_000).replace('\n', "\n\n")).to_string());
    check("one line", &json!(lines(30_000).replace('\n', " ")).to_string());
    check("one line without escapes", &json!("common words ".repeat(100_000)).to_string());
    check("one string of half characters", &format!("\"{}\"", "\\ud800 common ".repeat(80_000)));
}

#[test]
fn deep_json() {
    check("arrays in arrays", &("[".repeat(600_000) + &"]".repeat(600_000)));
    check("objects in objects", &("{\"common\":".repeat(110_000) + "1" + &"}".repeat(110_000)));
    check(
        "lists a hundred deep",
        &format!("[{}]", vec!["[".repeat(100) + "\"rare\"" + &"]".repeat(100); 5_000].join(",")),
    );
}

#[test]
fn what_is_no_json() {
    check("no JSON", &lines(30_000));
}
