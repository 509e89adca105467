//! Random policies against a plain evaluator that is written from the documentation alone: no order, no index, no budget.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_policy::condition::{Budget, Facts};
use toolgate_policy::{
    Action, CallCounts, Cause, Condition, Foreknown, Policy, PolicyCall, Rule, TraitFilter, TraitSource, Traits,
};

const PATHS: [&str; 5] = ["bank.pay", "bank.get", "git.push", "git.list_all", "fetch"];
const CALLERS: [&str; 3] = ["local", "ci", "ci-2"];

/// What the documentation says, one sentence after the other.
fn reference(
    rules: &[Rule],
    default: Action,
    call: &PolicyCall<'_>,
    run: &CallCounts,
    day: &CallCounts,
) -> (Action, Option<String>) {
    let about_tool = |rule: &Rule| {
        let wanted = |wanted: Option<bool>, is: bool| wanted.is_none() || wanted == Some(is);
        call.paths.iter().any(|path| glob(rule.tool.as_str(), path))
            && wanted(rule.traits.read_only, call.traits.read_only)
            && wanted(rule.traits.destructive, call.traits.destructive)
            && wanted(rule.traits.open_world, call.traits.open_world)
    };
    // `None`: the condition fails.
    let holds = |rule: &Rule| -> Option<bool> {
        let caller = rule.callers.is_empty() || rule.callers.iter().any(|it| glob(it.as_str(), call.caller));
        let profile = rule.profiles.is_empty() || rule.profiles.iter().any(|it| it == call.profile);
        if !caller || !profile {
            return Some(false);
        }
        let facts = Facts {
            args: call.args,
            caller: call.caller,
            profile: call.profile,
            backend: call.backend,
            tool: call.tool,
            traits: call.traits,
            in_run: run.of_tool(call.paths[0]),
            in_day: day.of_tool(call.paths[0]),
        };
        match &rule.when {
            None => Some(true),
            Some(when) => when.holds(&facts, &mut Budget::default()).ok(),
        }
    };
    let mut about: Vec<&Rule> = rules.iter().filter(|rule| about_tool(rule)).collect();
    let specific = |rule: &Rule| {
        let text = rule.tool.as_str();
        let literals = text.chars().filter(|c| *c != '*' && *c != '?').count();
        let conditions = usize::from(rule.when.is_some())
            + usize::from(!rule.callers.is_empty())
            + usize::from(!rule.profiles.is_empty())
            + [rule.traits.read_only, rule.traits.destructive, rule.traits.open_world].iter().flatten().count();
        (literals == text.chars().count(), literals, conditions)
    };
    about.sort_by_key(|rule| std::cmp::Reverse(specific(rule)));
    let used_up = |rule: &Rule| {
        rule.limits.run.is_some_and(|limit| run.of_rule(rule) >= limit)
            || rule.limits.day.is_some_and(|limit| day.of_rule(rule) >= limit)
    };
    let of = |action: Action| about.iter().filter(move |rule| rule.action == action);
    if let Some(rule) = of(Action::Deny).find(|rule| holds(rule) != Some(false)) {
        return (Action::Deny, Some(rule.id.clone()));
    }
    if let Some(rule) = of(Action::Ask).find(|rule| holds(rule) != Some(false)) {
        let action = if used_up(rule) { Action::Deny } else { Action::Ask };
        return (action, Some(rule.id.clone()));
    }
    if let Some(rule) = of(Action::Allow).find(|rule| holds(rule) != Some(false)) {
        let allowed = holds(rule) == Some(true) && !used_up(rule);
        return (if allowed { Action::Allow } else { Action::Deny }, Some(rule.id.clone()));
    }
    match of(Action::Allow).next() {
        Some(rule) if default == Action::Allow => (Action::Deny, Some(rule.id.clone())),
        _ => (default, None),
    }
}

/// By recursion, as one would say it.
fn glob(pattern: &str, name: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => name.is_empty(),
        Some('*') => {
            (0..=name.len()).filter(|at| name.is_char_boundary(*at)).any(|at| glob(rest.as_str(), &name[at..]))
        }
        Some(letter) => {
            let mut name = name.chars();
            name.next().is_some_and(|first| (letter == '?' || letter == first) && glob(rest.as_str(), name.as_str()))
        }
    }
}

fn condition() -> impl Strategy<Value = Option<Condition>> {
    let texts = vec![
        "args.n > 1",
        "args.n > 100",
        "has(args.n)",
        "args.text == 'x'",
        "caller == 'ci'",
        "counts.run < 2",
        "counts.day > 0",
        "tool.readOnly",
        "true",
        "false",
        "args.n / 0 > 1",
        "args.list.exists(i, i == 2)",
        "profile == 'chain' && args.n < 3",
    ];
    prop::option::of(prop::sample::select(texts).prop_map(|text| Condition::parse(text).expect("a condition")))
}

fn rule() -> impl Strategy<Value = Rule> {
    let tools = prop::sample::select(vec![
        "bank.pay",
        "bank.*",
        "*",
        "*.pay",
        "git.*",
        "git.list_*",
        "b?nk.get",
        "fetch",
        "f*",
        "bank.p*",
        "nothing.*",
    ]);
    let action = prop::sample::select(vec![Action::Allow, Action::Ask, Action::Deny]);
    let flag = || prop::option::weighted(0.15, any::<bool>());
    let globs = |texts: Vec<&'static str>| {
        prop::collection::vec(prop::sample::select(texts).prop_map(toolgate_policy::Glob::new), 0..2)
    };
    let profiles = prop::collection::vec(prop::sample::select(vec!["chain", "direct"]).prop_map(str::to_owned), 0..2);
    let limit = || prop::option::weighted(0.2, 0_u64..3);
    (
        tools,
        action,
        (flag(), flag(), flag()),
        globs(vec!["local", "ci*", "ci"]),
        profiles,
        condition(),
        (limit(), limit()),
    )
        .prop_map(|(tool, action, traits, callers, profiles, when, (run, day))| Rule {
            traits: TraitFilter { read_only: traits.0, destructive: traits.1, open_world: traits.2 },
            callers,
            profiles,
            when,
            expiry: Duration::from_secs(60),
            limits: toolgate_policy::CallLimits { run, day },
            ..Rule::new("", tool, action)
        })
}

fn usage(counts: &[(usize, usize, u8)], rules: &[Rule]) -> CallCounts {
    let mut usage = CallCounts::default();
    for (path, rule, times) in counts {
        let rule = rules.get(rule % rules.len().max(1));
        (0..*times).for_each(|_| usage.add(PATHS[path % PATHS.len()], rule));
    }
    usage
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(500), ..ProptestConfig::default() })]

    #[test]
    fn every_decision_is_the_one_of_the_documentation(
        rules in prop::collection::vec(rule(), 0..30),
        default in prop::sample::select(vec![Action::Allow, Action::Ask, Action::Deny]),
        counts in prop::collection::vec((0_usize..5, 0_usize..30, 0_u8..3), 0..4),
        n in prop::sample::select(vec![json!({}), json!({ "n": 2 }), json!({ "n": "2" }), json!({ "n": 500, "text": "x", "list": [1, 2] })]),
        traits in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let rules: Vec<Rule> =
            rules.into_iter().enumerate().map(|(index, rule)| Rule { id: format!("policy[{index}]"), ..rule }).collect();
        let policy = Policy::new(rules.clone(), default);
        let (run, day) = (usage(&counts, &rules), usage(&counts, &rules));
        for path in PATHS {
            for caller in CALLERS {
                for profile in ["chain", "direct"] {
                    let (backend, tool) = path.split_once('.').unwrap_or(("", path));
                    let paths = [path, "bank.other"];
                    let traits = Traits { read_only: traits.0, destructive: traits.1, open_world: traits.2, source: TraitSource::Verb };
                    let call = PolicyCall { paths: &paths, backend, tool, traits, caller, profile, args: &n };
                    let found = policy.decide(&call, &run, &day);
                    let (action, rule) = reference(&rules, default, &call, &run, &day);
                    prop_assert_eq!(found.action, action, "{} by {} of {:?}", path, caller, rules);
                    prop_assert_eq!(found.rule.as_ref().map(|rule| rule.id.clone()), rule);
                    // What is foreseen for all arguments holds for these, unless a limit is reached meanwhile.
                    for known in [Foreknown::No, Foreknown::Yes] {
                        if let Some(foreseen) = policy.foresee(&call, known).filter(|_| found.cause != Cause::LimitReached) {
                            prop_assert_eq!(foreseen.action, found.action, "foreseen of {:?}", rules);
                        }
                    }
                }
            }
        }
    }
}

fn decided(rules: &[(&str, Action, Option<&str>)], args: Value) -> String {
    let rules = rules.iter().enumerate().map(|(index, (tool, action, when))| Rule {
        when: when.map(|when| Condition::parse(when).expect("a condition")),
        ..Rule::new(format!("policy[{index}]"), *tool, *action)
    });
    let policy = Policy::new(rules.collect(), Action::Allow);
    let call = PolicyCall {
        paths: &["bank.pay"],
        backend: "bank",
        tool: "pay",
        traits: Traits::UNKNOWN,
        caller: "local",
        profile: "chain",
        args: &args,
    };
    let decision = policy.decide(&call, &CallCounts::default(), &CallCounts::default());
    format!("{}: {}", decision.action, decision.reason())
}

#[test]
fn deny_wins_over_ask_and_ask_over_allow() {
    use Action::{Allow, Ask, Deny};
    let all = [("bank.pay", Allow, None), ("*", Ask, None), ("*.pay", Deny, None)];
    assert_eq!(decided(&all, json!({})), "deny: policy[2] denies it");
    assert_eq!(decided(&all[..2], json!({})), "ask: policy[1] asks a person first");
    assert_eq!(decided(&all[..1], json!({})), "allow: policy[0] allows it");
    assert_eq!(decided(&[], json!({})), "allow: no rule is about it");
}

#[test]
fn a_condition_that_fails_counts_against_the_call() {
    use Action::{Allow, Ask, Deny};
    let failed = "the condition of policy[0] cannot be evaluated: there is no amount";
    let with = |action| decided(&[("bank.pay", action, Some("args.amount < 100"))], json!({}));
    assert_eq!(with(Deny), format!("deny: {failed}"));
    assert_eq!(with(Ask), format!("ask: {failed}"));
    assert_eq!(with(Allow), format!("deny: {failed}"));
}

#[test]
fn a_tool_is_allowed_only_as_its_rule_says() {
    let rules = [("bank.pay", Action::Allow, Some("args.amount < 100"))];
    assert_eq!(decided(&rules, json!({ "amount": 50 })), "allow: policy[0] allows it");
    let denied = "deny: policy[0] allows this tool only under conditions that do not hold here";
    assert_eq!(decided(&rules, json!({ "amount": 100 })), denied);
}
