//! Conditions: what they give, what they refuse, and that they agree with the evaluator of the crate `cel`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::objects::{Key, Map as CelMap};
use cel::{Context, Env, Value as CelValue};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_policy::condition::{Budget, Facts};
use toolgate_policy::{Condition, ConditionError, ConditionFault, Traits};

fn facts(args: &Value) -> Facts<'_> {
    Facts {
        args,
        caller: "ci",
        profile: "chain",
        backend: "bank",
        tool: "pay",
        traits: Traits { read_only: false, destructive: true, open_world: true, ..Traits::UNKNOWN },
        in_run: 3,
        in_day: 40,
    }
}

fn holds(text: &str, args: &Value) -> Result<bool, ConditionError> {
    let condition = Condition::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    condition.holds(&facts(args), &mut Budget::default())
}

fn check(text: &str, expected: bool) {
    let args = json!({
        "amount": 150, "rate": 1.5, "big": 9_007_199_254_740_993_u64, "huge": u64::MAX, "to": "mallory@evil.example",
        "tags": ["a", "b"], "ids": [1, 2, 3], "deep": { "x": { "y": null } }, "ok": true, "name": "Grüße",
    });
    assert_eq!(holds(text, &args), Ok(expected), "{text}");
}

#[test]
fn arguments_caller_tool_and_counts_can_be_looked_at() {
    check("args.amount > 100", true);
    check("args.amount > 100.5 && args.rate < 2", true);
    check("args.amount == 150.0", true);
    check("args['to'].endsWith('@evil.example')", true);
    check("args.to.startsWith('alice') || args.to.contains('mallory')", true);
    check("args.to.matches('^[a-z]+@evil[.]')", true);
    check("args.name.matches(r'^\\w+$')", true);
    check("has(args.memo)", false);
    check("has(args.deep.x) && !has(args.deep.z)", true);
    check("'b' in args.tags && !('c' in args.tags)", true);
    check("'amount' in args", true);
    check("size(args.ids) == 3 && args.name.size() == 5 && size(args.deep) == 1", true);
    check("args.ids.all(i, i > 0) && args.ids.exists(i, i == 2) && args.ids.exists_one(i, i > 2)", true);
    check("args.ids.filter(i, i > 1).map(i, i * 2) == [4, 6]", true);
    check("args.deep.all(key, key == 'x')", true);
    check("args.ids[0] == 1 && args.ids[2] == 3", true);
    check("args.deep.x.y == null", true);
    check("args.ok ? args.amount > 200 : true", false);
    check("caller == 'ci' && caller.name == 'ci' && profile == 'chain'", true);
    check("tool.backend == 'bank' && tool.name == 'pay' && tool.destructive && !tool.readOnly && tool.openWorld", true);
    check("counts.run >= 3 && counts.day == 40", true);
    check("double(args.amount) * 2.0 == 300.0 && int(args.rate) == 1 && string(args.amount) == '150'", true);
    check("args.to.lowerAscii() == args.to && 'ab'.upperAscii() == 'AB'", true);
    check("{'a': 1}['a'] == 1", true);
    check("args.big > 9007199254740992.0 && args.huge > 9223372036854775807", true);
    check("args.amount % 7 == 3 && -args.amount < 0 && args.amount - 1 == 149 && args.amount / 7 == 21", true);
}

#[test]
fn a_side_that_decides_makes_the_other_irrelevant() {
    check("args.missing > 1 || args.ok", true);
    check("args.ok || args.missing > 1", true);
    check("args.missing > 1 && !args.ok", false);
    check("!args.ok && args.missing > 1", false);
    check("[1, 'a', 3].exists(i, i > 2)", true);
    check("[1, 'a', 3].all(i, i > 2)", false);
}

#[test]
fn what_cannot_be_decided_is_an_error() {
    let args = json!({ "amount": "150", "n": 1, "list": [1, "x"], "max": i64::MAX });
    for text in [
        "args.missing > 1",
        "args.amount > 100",
        "args.n.x == 1",
        "args.list[7] == 1",
        "args.list.all(i, i > 0)",
        "args.max + 1 > 0",
        "args.n / 0 == 1",
        "args.n + 1.5 > 1.0",
        "args.n",
        "args.n && true",
        "int(args.amount) + int('x') > 1",
        "args.nothing.all(i, i)",
        "args.n in args.amount",
    ] {
        assert!(holds(text, &args).is_err(), "{text}");
    }
}

fn refuses(text: &str, expected: &str) {
    let found = Condition::parse(text).map_err(|fault| fault.to_string());
    assert_eq!(found.map(|_| ()), Err(expected.to_owned()), "{text}");
}

#[test]
fn what_is_wrong_with_a_condition_is_said_when_it_is_read() {
    refuses("arg.amount > 1", "no variable named arg: a condition has args, caller, counts, profile and tool");
    refuses("counts.hour > 1", "counts has no field hour: it has run and day");
    refuses("tool.nmae == 'x'", "tool has no field nmae: it has backend, name, readOnly, destructive and openWorld");
    refuses("caller.id == 'x'", "caller has no field id: it has name");
    refuses("fetch(args.url)", "no function named fetch with 1 arguments in a condition");
    refuses("args.to.matches(args.pattern)", "the pattern of matches must be a text in quotes");
    refuses("args.amount + 1", "it does not give true or false");
    refuses("'yes'", "it does not give true or false");
    refuses("tool == 1", "tool or counts without a field cannot be used in a condition");
    refuses(
        "args.to.matches('(((((a{100}){100}){100}){100}){100})')",
        "the pattern of matches cannot be used: it is too complex",
    );
    refuses("b'x' == args.x", "a text of bytes cannot be used in a condition");
    for broken in ["", "args.amount >", "args..x", "(", "args.x ==== 1", "args.x;", "a b", "'open"] {
        assert!(matches!(Condition::parse(broken), Err(ConditionFault::Syntax(_))), "{broken}");
    }
    assert!(matches!(Condition::parse("args.to.matches('(')"), Err(ConditionFault::Pattern(_))));
}

/// SECURITY.md: a condition cannot exhaust the host, whatever it says and whatever the arguments are.
#[test]
fn a_hostile_condition_is_refused_or_bounded() {
    let nested = |open: &str, close: &str, times: usize| format!("{}true{}", open.repeat(times), close.repeat(times));
    for text in [
        nested("(", ")", 2_000),
        nested("!", "", 4_000),
        nested("true ? (", ") : false", 300),
        format!("{}true", "true ? true : ".repeat(290)),
        format!("args{} == 1", "[0]".repeat(1_300)),
        format!("{}1 == 1", "-".repeat(4_000)),
        format!("args.a{} == 1", " + 1".repeat(1_000)),
        format!("true{}", " && true".repeat(500)),
        "x".repeat(5_000),
        format!("[{}].all(x, true)", "1,".repeat(2_000)),
    ] {
        // Whatever the verdict is: there is one.
        if let Ok(condition) = Condition::parse(&text) {
            let _ = condition.holds(&facts(&json!({})), &mut Budget::default());
        }
    }
    assert_eq!(Condition::parse(&"x".repeat(5_000)), Err(ConditionFault::TooLong));
    assert_eq!(Condition::parse(&format!("args.a{} == 1", " + 1".repeat(1_000))), Err(ConditionFault::TooComplex));
}

#[test]
fn hostile_arguments_use_up_the_budget_and_no_more() {
    let many: Vec<u64> = (0..20_000).collect();
    let args = json!({ "list": many, "text": "a".repeat(8 << 20), "other": "a".repeat(8 << 20) });
    for text in [
        "args.list.all(x, args.list.all(y, x + y >= 0))",
        "args.list.map(x, args.list + args.list) == []",
        "args.list.filter(x, x in args.list).size() > 0",
        "args.list == args.list && args.list == args.list && args.list == args.list && args.list == args.list && args.list == args.list",
        "args.text.matches('(a+)+$')",
        "args.text.contains(args.other)",
        "args.text + args.other == ''",
        "args.text == args.other",
    ] {
        assert_eq!(holds(text, &args), Err(ConditionError::OverBudget), "{text}");
    }
    assert_eq!(holds("args.list.all(x, x >= 0)", &json!({ "list": (0..5_000).collect::<Vec<u64>>() })), Ok(true));
    let small = json!({ "text": "a".repeat(100_000) });
    assert_eq!(holds("args.text.matches('^(a+)+$')", &small), Ok(true));
}

#[test]
fn conditions_of_one_call_share_a_budget() {
    let args = json!({ "list": (0..5_000).collect::<Vec<u64>>() });
    let condition = Condition::parse("args.list.all(x, x >= 0)").expect("a condition");
    let mut budget = Budget::default();
    let answers: Vec<_> = (0..10).map(|_| condition.holds(&facts(&args), &mut budget)).collect();
    assert_eq!(answers.first(), Some(&Ok(true)));
    assert_eq!(answers.last(), Some(&Err(ConditionError::OverBudget)));
}

/// What the crate's own evaluator says.
fn by_crate(text: &str, args: &Value) -> Option<bool> {
    static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));
    let env = Arc::clone(&ENV);
    let program = env.compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut context = Context::with_env(env);
    context.add_variable_from_value("args", cel_value(args));
    match program.execute(&context) {
        Ok(CelValue::Bool(value)) => Some(value),
        _ => None,
    }
}

fn cel_value(json: &Value) -> CelValue {
    match json {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => CelValue::Int(number),
            None => CelValue::Float(number.as_f64().expect("a number")),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(cel_value).collect())),
        Value::Object(fields) => {
            let entry = |(key, value): (&String, &Value)| (Key::String(Arc::new(key.clone())), cel_value(value));
            CelValue::Map(CelMap { map: Arc::new(fields.iter().map(entry).collect::<HashMap<_, _>>()) })
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        prop::sample::select(vec![0.5, -1.5, 2.0, 3.25]).prop_map(Value::from),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["args.a", "args.b", "args.c", "args", "args.a.a", "args['b']", "args.b[0]"])
            .prop_map(str::to_owned),
        prop::sample::select(vec![
            "true", "false", "null", "0", "1", "-2", "1.5", "2.0", "'a'", "'ab'", "''", "[1, 'a']", "{'a': 1}"
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec!["has(args.a)", "has(args.a.b)", "size(args.b)"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operator =
            prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*", "/", "%", "in"]);
        prop_oneof![
            (inner.clone(), operator, inner.clone())
                .prop_map(|(one, operator, other)| format!("({one} {operator} {other})")),
            inner.clone().prop_map(|one| format!("!({one})")),
            inner.clone().prop_map(|one| format!("-({one})")),
            inner.clone().prop_map(|one| format!("size({one})")),
            inner.clone().prop_map(|one| format!("[{one}, 1]")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one})[{other}]")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("(({a}) ? ({b}) : ({c}))")),
            (inner.clone(), prop::sample::select(vec!["startsWith", "endsWith", "contains"]), inner.clone())
                .prop_map(|(one, function, other)| format!("({one}).{function}({other})")),
            (inner.clone(), prop::sample::select(vec!["all", "exists", "exists_one", "filter", "map"]), inner.clone())
                .prop_map(|(list, function, body)| format!("({list}).{function}(x, x == 1 || ({body}))")),
            inner.clone().prop_map(|one| format!("({one}).matches('^a*b?$')")),
            (inner.clone(), inner)
                .prop_map(|(list, body)| format!("({list}).filter(x, x != 'a').map(x, ({body})).size()")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1_000), ..ProptestConfig::default() })]

    #[test]
    fn it_gives_what_the_crate_gives(text in expression(), a in value(), b in value()) {
        let args = json!({ "a": a, "b": b });
        let text = format!("({text}) == true");
        let ours = match Condition::parse(&text) {
            Ok(condition) => condition.holds(&facts(&args), &mut Budget::default()).ok(),
            Err(ConditionFault::TooComplex) => return Ok(()),
            Err(fault) => return Err(TestCaseError::fail(format!("{text}: {fault}"))),
        };
        // The crate adds the keys of a map to a list, in no order; CEL has no such sum, and here it is an error.
        if ours.is_none() && text.contains(" + ") {
            return Ok(());
        }
        prop_assert_eq!(ours, by_crate(&text, &args), "{} {}", text, args);
    }
}
