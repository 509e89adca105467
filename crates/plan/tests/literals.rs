//! Literal arguments against the engine: what the planner reads is what JavaScript would have serialised.

mod support;

use proptest::prelude::*;
use rquickjs::{Context, Runtime};
use serde_json::Value;
use support::Catalog;
use toolgate_plan::{Plan, plan};

fn planned(literal: &str) -> Option<Value> {
    match plan(&format!("return await db.find({{ value: {literal} }})"), &Catalog) {
        Plan::OneCall(call) => call.arguments.get("value").cloned(),
        Plan::Script(_) => None,
        other => panic!("{literal}: {other:?}"),
    }
}

fn evaluated(literal: &str) -> Value {
    let runtime = Runtime::new().expect("runtime");
    let context = Context::full(&runtime).expect("context");
    let text: String = context.with(|ctx| ctx.eval(format!("JSON.stringify(({literal}))"))).expect(literal);
    serde_json::from_str(&text).expect(literal)
}

/// The texts are compared, so that the order of keys counts too.
#[track_caller]
fn agree(literal: &str) {
    let planned = planned(literal).unwrap_or_else(|| panic!("not read: {literal}"));
    assert_eq!(planned.to_string(), evaluated(literal).to_string(), "{literal}");
}

#[test]
fn chosen_literals_mean_the_same() {
    for literal in [
        "0",
        "-0",
        "+0",
        "1.0",
        "0.1",
        "1e-7",
        "123456789012345680",
        "0xFFFFFFFFFFFFF",
        "0b1_0",
        "0o7_7",
        "5e-324",
        "1.7976931348623157e308",
        "'a\\\nb'",
        "'\\0\\b\\v\\'\\\"'",
        "\"\\u{10FFFF}\\uD83D\\uDE00\"",
        "`\\`\\${`",
        "'\u{2028}'",
        "''",
        "'é\\xe9'",
        "{ a: 1, 'a': 2, \"b\\u0062\": 3 }",
        "{ 1: 'x', 0: 'y', '-1': 'z', 1e3: 'w' }",
        "[[[]]]",
        "{ if: 1, class: 2 }",
        "{ a: { b: { 3: 1, 2: [true, null] } } }",
        "({ a: 1 })",
        "[ 1, 2, ]",
    ] {
        agree(literal);
    }
}

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z ]{1,4}",
        Just("\\n".to_owned()),
        Just("\\u00e9".to_owned()),
        Just("\\x41".to_owned()),
        Just("é".to_owned()),
        Just("😀".to_owned()),
        Just("\\\\".to_owned()),
    ];
    let quoted = prop::sample::select(vec!['"', '\'', '`']);
    (prop::collection::vec(part, 0..4), quoted).prop_map(|(parts, quote)| format!("{quote}{}{quote}", parts.concat()))
}

fn literal() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i32>().prop_map(|n| n.to_string()),
        any::<u32>().prop_map(|n| format!("0x{n:x}")),
        (0u32..1000, 0u32..1000, -20i32..20).prop_map(|(a, b, e)| format!("{a}.{b}e{e}")),
        (1u32..1000).prop_map(|n| format!("-{n}_000")),
    ];
    let leaf = prop_oneof![number, text(), Just("null".to_owned()), Just("true".to_owned()), Just("false".to_owned())];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let key = prop_oneof!["[a-c]", "'[a-d]'", "[0-9]", "\"[0-9]{1,2}\"", "'[0-9]{10,11}'"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec((key, inner), 0..6).prop_map(|entries| {
                let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{ {} }}", entries.join(", "))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_literals_mean_the_same(literal in literal()) {
        agree(&literal);
    }
}
