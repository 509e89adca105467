//! How a program reaches tools, from `specs/names`, on every engine.
//!
//! A file has `tools` and `rows`: `code` and the value it `gives`. Every tool answers with its own name, so a row shows
//! which tool was really called.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::runner::{Case, cases};
use crate::support::{asking, chain, chain_on, engines, run, shown, specs, value};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        names::every_row_holds_on_every_engine,
        names::no_tool_is_called_before_the_program_calls_it,
        names::a_name_that_javascript_calls_is_refused_with_the_identifier,
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

/// The tools that JavaScript itself would call, if a backend had them under their own names.
const CALLED_IMPLICITLY: [&str; 5] = ["then", "toJSON", "toString", "toLocaleString", "valueOf"];

fn called_implicitly() -> Value {
    let backends = json!({ "b": CALLED_IMPLICITLY });
    tools(backends.as_object().expect("an object"))
}

pub(crate) fn no_tool_is_called_before_the_program_calls_it() {
    for (engine, running) in engines() {
        let chain = chain_on(running, &called_implicitly());
        for code in [
            "return typeof await b",
            "const give = async () => b; return typeof await give()",
            "console.log(b); return JSON.stringify({ b })",
            "try { return `${b}` + b } catch { return 1 }",
            "Object.keys(b); return typeof await Promise.all([b])",
        ] {
            let ran = run(&chain, asking(code));
            assert!(ran.report.calls.is_empty() && ran.report.failure().is_none(), "{engine}: {code}\n{}", shown(&ran));
        }
        let returned = run(&chain, asking("return b"));
        let failure = returned.report.failure().map(|failure| failure.message.as_str());
        assert_eq!(failure, Some("result.then_ is a function; call it or leave it out"), "{engine}");
        assert!(returned.report.calls.is_empty(), "{engine}: {}", shown(&returned));
    }
}

pub(crate) fn a_name_that_javascript_calls_is_refused_with_the_identifier() {
    let chain = chain(&called_implicitly());
    for name in CALLED_IMPLICITLY {
        let ran = run(&chain, asking(format!("return await b.{name}({{}})")));
        let expected = format!("failed INVALID_CODE: Backend `b` has no tool `{name}`; nothing was called");
        let text = shown(&ran);
        assert!(text.starts_with(&expected) && text.contains(&format!("Did you mean `{name}_`?")), "{text}");
        let called = run(&chain, asking(format!("return await b.{name}_({{}})")));
        assert_eq!(called.report.value().map(|value| value.get()), Ok(json!(["b", name]).to_string().as_str()));
        assert_eq!(called.report.calls[0].name(), format!("b.{name}_"));
    }
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
    let ran = run(&chain, toolgate_run::RunRequest { limits, ..asking(code) });
    assert_eq!(ran.report.value().map(|value| value.get()), Ok("[1000,10000,999]"), "{:?}", ran.report);
}
