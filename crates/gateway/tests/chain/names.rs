//! How a program reaches tools, from `specs/names`, on every engine.
//!
//! A file has `tools` and `rows`: `code` and the value it `gives`. Every tool answers with its own name, so a row shows
//! which tool was really called.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::runner::{Case, cases};
use crate::support::{chain, chain_on, engines, specs, value};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        names::every_row_holds_on_every_engine,
        names::a_name_of_ten_thousand_characters_is_as_good_as_any,
        names::interfaces_are_read_only_when_they_are_touched,
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    rule: String,
    /// Names of backends, each with the names of its tools.
    backends: serde_json::Map<String, Value>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    code: String,
    gives: Value,
}

pub(crate) fn every_row_holds_on_every_engine() {
    let mut wrong = Vec::new();
    for (name, spec) in specs("names") {
        let spec: Spec = serde_json::from_value(spec).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (engine, running) in engines() {
            let chain = chain_on(running, &tools(&spec.backends));
            for row in &spec.rows {
                let given = value(&chain, &row.code);
                if serde_json::from_str::<Value>(&given).ok().as_ref() != Some(&row.gives) {
                    wrong.push(format!("{name} ({}) on {engine}: {}\ngives {given}", spec.rule, row.code));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Tools that answer with who they are.
fn tools(backends: &serde_json::Map<String, Value>) -> Value {
    let listed = backends.iter().map(|(backend, tools)| {
        let tools = tools.as_array().into_iter().flatten();
        let named = tools.map(|tool| json!({ "name": tool, "description": "d", "reply": [backend, tool] }));
        (backend.clone(), json!({ "tools": named.collect::<Vec<_>>() }))
    });
    json!({ "backends": listed.collect::<serde_json::Map<_, _>>() })
}

pub(crate) fn a_name_of_ten_thousand_characters_is_as_good_as_any() {
    let name = "n".repeat(10_000);
    let chain = chain(&json!({ "backends": {
        (name.clone()): { "tools": [{ "name": name, "reply": 1 }] },
        (format!("{name}!")): { "tools": [{ "name": name, "reply": 2 }] },
    } }));
    assert_eq!(value(&chain, &format!("return tools['{name}']['{name}']({{}})")), "1");
    assert_eq!(value(&chain, &format!("return tools['{name}!']['{name}']({{}})")), "2");
    assert_eq!(value(&chain, &format!("return globalThis['{name}']['{name}']({{}})")), "1");
    let short = "const [a, b] = Object.keys(tools); return [a.length < 200, b.length < 200, a !== b, \
                 await tools[a][Object.keys(tools[a])[0]]({}), await globalThis[b][Object.keys(tools[b])[0]]({})]";
    assert_eq!(value(&chain, short), "[true,true,true,1,2]");
}

/// A run costs the same with one backend or with a thousand: what is not touched is not asked for.
pub(crate) fn interfaces_are_read_only_when_they_are_touched() {
    let many = (0..1_000).map(|n| {
        (format!("b{n}"), json!({ "tools": [{ "name": "t", "description": "x".repeat(10_000), "reply": n }] }))
    });
    let chain = chain(&json!({ "backends": many.collect::<serde_json::Map<_, _>>() }));
    // All of it would be ten megabytes, and would not fit beside a copy of itself.
    let code = "return [Object.keys(__interfaces).length, __interfaces.b7.t.description.length, await b999.t({})]";
    let limits = toolgate_wire::LimitRequest { memory: Some(4 << 20), ..Default::default() };
    let ran = crate::support::run(&chain, toolgate_run::RunRequest { limits, ..crate::support::asking(code) });
    assert_eq!(ran.report.value().map(|value| value.get()), Ok("[1000,10000,999]"), "{:?}", ran.report);
}
