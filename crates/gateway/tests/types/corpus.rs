//! Programs that run correctly are not refused: the texts of the differential test and the specifications, over tools that
//! declare what they return.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolgate_functions::{HostFunction, Param, Presence, Registry};
use toolgate_plan::{Finding, FindingCode};
use toolgate_run::Runner;

use crate::programs::{CALLS, RECEIVERS, SHAPES, TEXTS, VALUES, tools};
use crate::runner::{Case, cases};
use crate::world::{self, TYPES, asking, block_on, check};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        corpus::the_differential_texts_are_not_refused,
        corpus::the_specifications_are_not_refused,
        corpus::hostile_programs_are_left_to_the_sandbox,
    ]
}

/// The programs that a type check refuses and that run correctly without one. One that gets nothing, because it reads a
/// property that is not declared and not there, is refused rightly.
fn wrongly_refused(typed: &Runner, untyped: &Runner, texts: impl IntoIterator<Item = String>) -> (usize, Vec<String>) {
    let mut count = 0;
    let mut wrong = Vec::new();
    for text in texts {
        count += 1;
        let Some(found) = check(typed, &text) else { continue };
        let before = untyped.check(&asking(&text)).map(|found| found.errors.len()).unwrap_or_default();
        if found.errors.len() <= before {
            continue;
        }
        let report = block_on(untyped.run(asking(&text))).report;
        let reads_nothing = |error: &Finding| {
            matches!(error.code, FindingCode::UnknownProperty | FindingCode::MissingAwait)
                && report.value().is_ok_and(|value| value.get() == "null")
        };
        if report.failure().is_none() && !found.errors.iter().all(reads_nothing) {
            wrong.push(format!("{text}\n  {:?}", found.errors));
        }
    }
    (count, wrong)
}

pub(crate) fn the_differential_texts_are_not_refused() {
    let tools = with_results(tools());
    let typed = world::runner(&tools, Some(Arc::clone(&TYPES)));
    let untyped = world::runner(&tools, None);
    let wrong = check(&typed, "const rows = await shop.rows(); return rows.map(row => row.nmae)").unwrap();
    assert_eq!(wrong.errors.len(), 1, "the results are declared: {wrong:?}");
    let shapes = SHAPES.iter().flat_map(|shape| {
        RECEIVERS.iter().map(move |receiver| shape.replace('@', &format!("{receiver}.find({{ query: 'tea' }})")))
    });
    let calls = CALLS.iter().map(|call| format!("const r = await {call}; return r"));
    let values = VALUES.iter().map(|value| format!("const r = await shop.echo({{ value: {value} }}); return r"));
    let texts: BTreeSet<String> =
        shapes.chain(calls).chain(values).chain(TEXTS.iter().map(|text| (*text).to_owned())).collect();
    let (count, wrong) = wrongly_refused(&typed, &untyped, texts);
    assert!(count > 500, "{count} texts");
    assert!(wrong.is_empty(), "{} of {count} are refused:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every text under a key `code` of a specification.
fn codes(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                match value {
                    Value::String(text) if key == "code" => drop(found.insert(text.clone())),
                    _ => codes(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| codes(item, found)),
        _ => {}
    }
}

/// The tools of a specification; those of the differential test if it has none.
fn tools_of(specification: &Value) -> Value {
    if specification["tools"]["backends"].is_object() {
        return specification["tools"].clone();
    }
    let Some(backends) = specification["backends"].as_object() else { return tools() };
    let tool = |backend: &str, tool: &Value| json!({ "name": tool, "reply": [backend, tool] });
    let backends: Map<String, Value> = backends
        .iter()
        .filter_map(|(name, tools)| {
            let tools: Vec<Value> = tools.as_array()?.iter().map(|one| tool(name, one)).collect();
            Some((name.clone(), json!({ "tools": tools })))
        })
        .collect();
    json!({ "backends": backends })
}

pub(crate) fn the_specifications_are_not_refused() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    let (mut count, mut wrong) = (0, Vec::new());
    for part in ["guest", "hints", "names"] {
        for file in std::fs::read_dir(folder.join(part)).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let specification: Value = serde_json::from_str(&text).unwrap();
            let tools = with_results(tools_of(&specification));
            let typed = world::runner(&tools, Some(Arc::clone(&TYPES)));
            let untyped = world::runner(&tools, None);
            let mut texts = BTreeSet::new();
            codes(&specification, &mut texts);
            let (checked, refused) = wrongly_refused(&typed, &untyped, texts);
            count += checked;
            wrong.extend(refused);
        }
    }
    assert!(count > 100, "{count} texts");
    assert!(wrong.is_empty(), "{} of {count} are refused:\n{}", wrong.len(), wrong.join("\n"));
}

/// The hostile programs that call host functions do to the language what they can. What is promised of them, the sandbox
/// keeps while they run: the type check refuses none. They are not run here, where they would harm the test itself; those
/// that name no function are not checked.
pub(crate) fn hostile_programs_are_left_to_the_sandbox() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs/hostile");
    let mut runners: BTreeMap<String, (Runner, Runner)> = BTreeMap::new();
    let (mut count, mut wrong) = (0, Vec::new());
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        for case in cases.iter().filter(|case| case["functions"].is_array()) {
            let (typed, untyped) = runners.entry(case["functions"].to_string()).or_insert_with(|| {
                let no_tools = json!({ "backends": {} });
                let with = |types| world::runner_with(&no_tools, types, functions_of(case));
                (with(Some(Arc::clone(&TYPES))), with(None))
            });
            let code = case["code"].as_str().unwrap();
            let Some(found) = check(typed, code) else { continue };
            count += 1;
            let before = untyped.check(&asking(code)).map(|found| found.errors.len()).unwrap_or_default();
            if found.errors.len() > before {
                wrong.push(format!("{code}\n  {:?}", found.errors));
            }
        }
    }
    assert!(count > 40, "{count} programs that call a function");
    assert!(wrong.is_empty(), "{} are refused:\n{}", wrong.len(), wrong.join("\n"));
}

/// The functions of a hostile case; only `big` returns what can be declared, a text.
fn functions_of(case: &Value) -> Registry {
    let function = |name: &Value| {
        let all = Param { name: "of".into(), schema: json!({}), presence: Presence::Rest, description: String::new() };
        let result = if name == "big" { json!({ "type": "string" }) } else { json!({}) };
        let builder = HostFunction::builder(name.as_str().unwrap()).param(all).returns(result);
        builder.handle(|_, _| async { Ok(json!(null)) }).unwrap()
    };
    case["functions"].as_array().into_iter().flatten().map(function).collect()
}

/// Declares what each tool returns: exactly what it replies. Without that, no result has a property that is not there.
fn with_results(mut tools: Value) -> Value {
    for backend in tools["backends"].as_object_mut().into_iter().flat_map(|backends| backends.values_mut()) {
        for tool in backend["tools"].as_array_mut().into_iter().flatten() {
            if let Some(reply) = tool.get("reply").filter(|_| tool.get("outputSchema").is_none()) {
                tool["outputSchema"] = schema_of(reply, 0);
            }
        }
    }
    tools
}

/// How deep a result is declared.
const MAX_DEPTH: usize = 20;

/// The schema of a value. A text with a placeholder may become anything.
fn schema_of(value: &Value, depth: usize) -> Value {
    match value {
        _ if depth > MAX_DEPTH => json!({}),
        Value::Null => json!({ "type": "null" }),
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Number(_) => json!({ "type": "number" }),
        Value::String(text) if text.contains("{{") => json!({}),
        Value::String(_) => json!({ "type": "string" }),
        Value::Array(items) => {
            let mut kinds: Vec<Value> = Vec::new();
            for item in items.iter().take(100).map(|item| schema_of(item, depth + 1)) {
                if !kinds.contains(&item) {
                    kinds.push(item);
                }
            }
            match kinds.as_slice() {
                [] => json!({ "type": "array" }),
                [one] => json!({ "type": "array", "items": one }),
                several => json!({ "type": "array", "items": { "anyOf": several } }),
            }
        }
        Value::Object(fields) => {
            let properties: Map<String, Value> =
                fields.iter().map(|(key, value)| (key.clone(), schema_of(value, depth + 1))).collect();
            let required: Vec<&String> = fields.keys().collect();
            json!({ "type": "object", "properties": properties, "required": required })
        }
    }
}
