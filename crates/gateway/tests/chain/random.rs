//! Random programs for the differential test: calls as models write them, and calls that are almost right.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::differential::agrees;
use crate::programs::{CALLS, RECEIVERS, SHAPES, VALUES};
use crate::runner::{Case, cases};

/// Programs compared, each on both routes.
const PROGRAMS: u32 = 400;

pub(crate) fn cases() -> Vec<Case> {
    cases![
        random::programs_give_the_same_answer_on_both_paths,
        random::damaged_programs_give_the_same_answer_on_both_paths
    ]
}

/// The same programs every time, so that a failure is found again.
fn compare(programs: impl Strategy<Value = String>) {
    let config = Config { cases: PROGRAMS, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let compared = runner.run(&programs, |program| agrees(&program).map_err(TestCaseError::fail));
    assert!(compared.is_ok(), "{}", compared.unwrap_err());
}

pub(crate) fn programs_give_the_same_answer_on_both_paths() {
    compare(program());
}

/// One place is cut out, doubled, or replaced by something else.
pub(crate) fn damaged_programs_give_the_same_answer_on_both_paths() {
    let damage = prop::sample::select(vec![
        "", ";", ")", "(", "...", "await ", "?", ".", ",", "'", "\n", "shop", "/*", "1", "-", "=>",
    ]);
    compare((program(), any::<prop::sample::Index>(), 0..4_usize, damage).prop_map(|(program, at, length, by)| {
        let chars: Vec<char> = program.chars().collect();
        let start = at.index(chars.len() + 1);
        let end = (start + length).min(chars.len());
        chars[..start].iter().chain(&by.chars().collect::<Vec<_>>()).chain(&chars[end..]).collect()
    }));
}

fn program() -> impl Strategy<Value = String> {
    let shape = prop::sample::select(SHAPES.to_vec());
    (shape, call(), trivia()).prop_map(|(shape, call, trivia)| {
        let program = shape.replace('@', &call);
        // Between tokens and in strings alike: what is different then is different on both routes.
        program.replacen(' ', trivia, 2)
    })
}

fn trivia() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![" ", " ", " ", "\n", "\r\n", "\t", " /* c */ ", " // c\n", "\u{a0}", "\u{2028}", "  "])
}

fn call() -> impl Strategy<Value = String> {
    let receiver = prop::sample::select(RECEIVERS.to_vec());
    let tool =
        prop::sample::select(vec![".echo", "['echo']", ".fail", ".find", ".keys", ".nope", "[`echo`]", ".numbers"]);
    prop_oneof![
        6 => (receiver, tool, arguments()).prop_map(|(receiver, tool, arguments)| format!("{receiver}{tool}({arguments})")),
        1 => arguments().prop_map(|arguments| format!("my-backend.my-tool({arguments})")),
        1 => prop::sample::select(CALLS.iter().filter(|call| !call.contains("Date")).copied().collect::<Vec<_>>()).prop_map(str::to_owned),
    ]
}

fn arguments() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => literal().prop_map(|value| format!("{{ value: {value} }}")),
        2 => (key(), literal(), literal()).prop_map(|(key, one, other)| format!("{{ {key}: {one}, \"value\": {other}, }}")),
        1 => literal(),
        1 => Just(String::new()),
    ]
}

/// A literal, most of the time.
fn literal() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => prop::sample::select(VALUES.to_vec()).prop_map(str::to_owned),
        2 => any::<f64>().prop_map(|number| format!("{number:?}")),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<u64>().prop_map(|number| format!("{number:#x}")),
        2 => any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        1 => "[a-z \\\\'\"`$\\{\\}n]{0,8}".prop_map(|text| format!("`{text}`")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec((key(), inner.clone()), 0..4).prop_map(|fields| {
                let fields: Vec<_> = fields.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{ {} }}", fields.join(", "))
            }),
            inner.prop_map(|value| format!("({value})")),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z_$][a-z0-9_]{0,5}",
        2 => any::<u32>().prop_map(|index| index.to_string()),
        1 => (0..20_u32).prop_map(|index| format!("'{index}'")),
        1 => any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        1 => prop::sample::select(vec!["__proto__", "'__proto__'", "constructor", "toJSON", "[1 + 1]", "1.5", "get", "async", "\"then\""]).prop_map(str::to_owned),
    ]
}
