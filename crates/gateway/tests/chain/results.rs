//! What an answer leaves out is kept, and can be read and computed on.

use serde_json::{Value, json};
use toolgate_engine::ComputeOptions;
use toolgate_output::OutputSettings;
use toolgate_output::results::{Reading, ResultLimits, ResultStore};

use crate::runner::{Case, cases};
use crate::support::{asking, block_on, chain, engines, run};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        results::nothing_is_lost,
        results::a_kept_text_is_a_string_to_compute_on,
        results::what_is_not_kept_is_said_so
    ]
}

/// Runs the code and shapes its value; gives the text and the id under which the whole is kept.
fn shaped(results: &ResultStore, reply: &Value, code: &str) -> (String, String) {
    let chain = chain(&json!({ "backends": { "db": { "tools": [{ "name": "rows", "reply": reply }] } } }));
    let ran = run(&chain, asking(code));
    let value = ran.report.value().expect("a value");
    let response =
        toolgate_output::shape(value.get(), &OutputSettings::default(), None, &mut |kept| results.keep(kept));
    let id = response.result_id.expect("some of it was left out");
    (response.text, id.to_string())
}

fn compute(results: &ResultStore, id: &str, code: &str) -> String {
    let engine = engines()[0].1.clone();
    match results.data(id) {
        Ok(data) => block_on(engine.compute(code, data, ComputeOptions::default()))
            .value()
            .map_or_else(|failure| failure.to_string(), |value| value.get().to_owned()),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn nothing_is_lost() {
    let results = ResultStore::new(ResultLimits::default());
    let rows = Value::from_iter((0..2_000).map(|n| json!({ "id": n, "name": format!("row {n}"), "price": n * 2 })));
    // With a short cut and without one the same is kept.
    for code in ["db.rows({})", "const all = await db.rows({}); return { all }.all"] {
        let (text, id) = shaped(&results, &rows, code);
        assert!(text.len() < 80_000 && text.contains(&id), "{text}");
        assert_eq!(
            compute(&results, &id, "(data) => data.filter(d => d.price > 3990).map(d => d.id)"),
            "[1996,1997,1998,1999]"
        );
        let reading = Reading { path: Some("[1999].name".parse().expect("a path")), ..Reading::default() };
        assert_eq!(results.read(&id, &reading).expect("kept"), "row 1999");
        assert_eq!(
            compute(&results, &id, "(data) => data.nope.x"),
            "RUNTIME: TypeError: cannot read property 'x' of undefined"
        );
        assert_eq!(compute(&results, &id, "async (data) => 1").split(':').next(), Some("INVALID_CODE"));
    }
}

pub(crate) fn a_kept_text_is_a_string_to_compute_on() {
    let results = ResultStore::new(ResultLimits::default());
    let log: String = (0..20_000).map(|n| format!("line {n} \"quoted\" é\n")).collect();
    let (_, id) = shaped(&results, &json!(log), "return await db.rows({})");
    assert_eq!(
        compute(&results, &id, "(data) => [typeof data, data.split('\\n')[7]]"),
        r#"["string","line 7 \"quoted\" é"]"#
    );
    let reading = Reading { lines: Some("8-9".parse().expect("lines")), ..Reading::default() };
    assert_eq!(results.read(&id, &reading).expect("kept"), "line 7 \"quoted\" é\nline 8 \"quoted\" é");
}

pub(crate) fn what_is_not_kept_is_said_so() {
    let results = ResultStore::new(ResultLimits::default());
    let said = compute(&results, "res_00112233445566778899aabbccddeeff", "(data) => 1");
    assert!(said.contains("res_00112233445566778899aabbccddeeff"), "{said}");
    assert!(compute(&results, "../../etc/passwd", "(data) => 1").starts_with("not a result id"));
}
