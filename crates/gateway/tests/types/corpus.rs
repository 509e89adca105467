//! Programs that run correctly are not refused: the texts of the differential test and the specifications.

use std::collections::BTreeSet;

use serde_json::Value;
use toolgate_gateway::run::Runner;

use crate::programs::{CALLS, RECEIVERS, SHAPES, TEXTS, VALUES, tools};
use crate::runner::{Case, cases};
use crate::world::{self, TYPES, asking, block_on, check};

pub(crate) fn cases() -> Vec<Case> {
    cases![corpus::the_differential_texts_are_not_refused, corpus::the_specifications_are_not_refused]
}

/// The programs that a type check refuses and that run without one.
fn wrongly_refused(typed: &Runner, untyped: &Runner, texts: impl IntoIterator<Item = String>) -> (usize, Vec<String>) {
    let mut count = 0;
    let mut wrong = Vec::new();
    for text in texts {
        count += 1;
        let Some(found) = check(typed, &text) else { continue };
        let before = untyped.check(&asking(&text)).map(|found| found.errors.len()).unwrap_or_default();
        if found.errors.len() > before && block_on(untyped.run(asking(&text))).report.failure().is_none() {
            wrong.push(format!("{text}\n  {:?}", found.errors));
        }
    }
    (count, wrong)
}

pub(crate) fn the_differential_texts_are_not_refused() {
    let typed = world::runner(&tools(), Some(std::sync::Arc::clone(&TYPES)));
    let untyped = world::runner(&tools(), None);
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

pub(crate) fn the_specifications_are_not_refused() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    let mut texts = BTreeSet::new();
    for part in ["guest", "hints", "names"] {
        for file in std::fs::read_dir(folder.join(part)).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            codes(&serde_json::from_str(&text).unwrap(), &mut texts);
        }
    }
    let typed = world::runner(&tools(), Some(std::sync::Arc::clone(&TYPES)));
    let untyped = world::runner(&tools(), None);
    let (count, wrong) = wrongly_refused(&typed, &untyped, texts);
    assert!(count > 100, "{count} texts");
    assert!(wrong.is_empty(), "{} of {count} are refused:\n{}", wrong.len(), wrong.join("\n"));
}
