//! Validates the rules of the policy. A rule that cannot be used is an error of the whole file: without its policy, the
//! gateway does not run.

use std::collections::BTreeSet;

use toolgate_policy::{Action, CallLimits, Condition, Glob, Policy, Rule, TraitFilter};

use super::checker::Checker;
use crate::raw::reader::closest;
use crate::raw::{self, Located, RawAnnotations, RawCallLimits};
use crate::values::{BackendName, PolicyAction, PolicyAnnotation};

/// What the names of built-in host functions with a dot begin with.
const BUILTIN_FUNCTIONS: &str = "api";
/// The most rules of a policy.
const MAX_RULES: usize = 10_000;

/// Checks all rules of a file.
pub(super) fn check(checker: &mut Checker<'_>, toolgate: &raw::Toolgate, servers: &BTreeSet<BackendName>) -> Policy {
    let default = checker.get(&toolgate.policy_default).map_or(Action::Allow, action);
    let Some(list) = &toolgate.policy else { return Policy::new(Vec::new(), default) };
    if list.value.len() > MAX_RULES {
        checker.wrong(&list.place, format!("has more than {MAX_RULES} rules"), "");
        return Policy::new(Vec::new(), Action::Deny);
    }
    let rules = list.value.iter().filter_map(|raw| rule(checker, raw)).collect();
    list.value.iter().for_each(|raw| look_for_server(checker, toolgate, servers, &raw.value));
    Policy::new(rules, default)
}

/// Warns of a rule whose tool is of a server that is not configured: it decides about no call, and a person who misspelt the name believes that it
/// does. Programs may spell a server with other signs between its letters; host functions may have a dot too.
fn look_for_server(
    checker: &mut Checker<'_>,
    toolgate: &raw::Toolgate,
    servers: &BTreeSet<BackendName>,
    rule: &raw::PolicyRule,
) {
    let Some(tool) = &rule.tool else { return };
    let pattern = tool.value.text.as_str();
    let Some((server, _)) = pattern.split_once('.').filter(|(server, _)| !server.contains(['*', '?', '$'])) else {
        return;
    };
    let letters =
        |name: &str| name.to_lowercase().chars().filter(|letter| letter.is_alphanumeric()).collect::<String>();
    // The name of a server may have dots.
    let is_named = |name: &BackendName| {
        letters(name.as_str()) == letters(server)
            || pattern.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.'))
    };
    let functions = toolgate.functions.iter().flat_map(|table| &table.value.0);
    let is_function = server == BUILTIN_FUNCTIONS
        || functions
            .map(|(name, _)| &name.value)
            .any(|name| name.strip_prefix(server).is_some_and(|rest| rest.starts_with('.')));
    if is_function || servers.iter().any(is_named) {
        return;
    }
    let known: Vec<&str> = servers.iter().map(BackendName::as_str).collect();
    let near = closest(server, &known).map(|near| format!("did you mean {near}?")).unwrap_or_default();
    checker.warn(&tool.place, format!("the rule is about no call: there is no server named {server}"), near);
}

fn rule(checker: &mut Checker<'_>, raw: &Located<raw::PolicyRule>) -> Option<Rule> {
    // `toolgate.policy[2]` is shown as `policy[2]`.
    let id = raw.place.path.strip_prefix("toolgate.").unwrap_or(&raw.place.path).to_owned();
    let (place, raw) = (&raw.place, &raw.value);
    let tool = checker.get(&raw.tool);
    let when = raw.when.as_ref().and_then(|when| condition(checker, when));
    let traits = raw.annotations.as_ref().map(|it| annotations(checker, it)).unwrap_or_default();
    let limits = raw.limits.as_ref().map(|it| limits(checker, it)).unwrap_or_default();
    let does = match &raw.action {
        Some(_) => checker.get(&raw.action).map(action),
        None => {
            checker.wrong(place, "the rule does not say what happens", "add do: allow, ask or deny");
            None
        }
    };
    let (callers, approvers) = (checker.list(&raw.callers), checker.list(&raw.approvers));
    let profiles = checker.list(&raw.profiles).unwrap_or_default();
    let (reason, expiry) = (checker.get(&raw.reason), checker.period(&raw.expiry));
    for (setting, used) in [
        ("approvers", raw.approvers.is_some()),
        ("expiry", raw.expiry.is_some()),
        ("stage", super::flag(&raw.stage, false)),
    ] {
        if used && does.is_some_and(|does| does != Action::Ask) {
            checker.warn(place, format!("{setting} has no effect: the rule asks no one"), "");
        }
    }
    if raw.limits.is_some() && does == Some(Action::Deny) {
        checker.warn(place, "limits has no effect: the rule lets nothing through", "");
    }
    let globs = |of: Option<Vec<crate::values::Glob>>| {
        of.unwrap_or_default().iter().map(|glob| Glob::new(glob.to_string())).collect::<Vec<_>>()
    };
    let tool = tool.map_or_else(|| "*".to_owned(), |tool| tool.to_string());
    let plain = Rule::new(id, tool, does?);
    Some(Rule {
        traits,
        callers: globs(callers),
        profiles: profiles.into_iter().map(|profile| profile.word().to_owned()).collect(),
        when,
        reason,
        approvers: globs(approvers),
        expiry: expiry.unwrap_or(plain.expiry),
        stage: super::flag(&raw.stage, false),
        limits,
        ..plain
    })
}

fn condition(checker: &mut Checker<'_>, when: &Located<raw::RawText<String>>) -> Option<Condition> {
    // Without variables: a value from outside is not code, and messages may quote the condition.
    match Condition::parse(&when.value.text) {
        Ok(condition) => Some(condition),
        Err(fault) => {
            checker.wrong(&when.place, format!("the condition cannot be used: {fault}"), "");
            None
        }
    }
}

fn action(word: PolicyAction) -> Action {
    match word {
        PolicyAction::Allow => Action::Allow,
        PolicyAction::Ask => Action::Ask,
        PolicyAction::Deny => Action::Deny,
    }
}

fn annotations(checker: &mut Checker<'_>, raw: &Located<RawAnnotations>) -> TraitFilter {
    match &raw.value {
        RawAnnotations::Flags(flags) => {
            let flag = |flag: &Option<Located<bool>>| flag.as_ref().map(|flag| flag.value);
            TraitFilter {
                read_only: flag(&flags.read_only),
                destructive: flag(&flags.destructive),
                open_world: flag(&flags.open_world),
            }
        }
        RawAnnotations::Names(names) => {
            let mut filter = TraitFilter::default();
            for name in names.iter().filter_map(|name| checker.parse(name)) {
                match name {
                    PolicyAnnotation::ReadOnly => filter.read_only = Some(true),
                    PolicyAnnotation::Destructive => filter.destructive = Some(true),
                    PolicyAnnotation::OpenWorld => filter.open_world = Some(true),
                }
            }
            filter
        }
    }
}

fn limits(checker: &mut Checker<'_>, raw: &Located<RawCallLimits>) -> CallLimits {
    match &raw.value {
        RawCallLimits::Counts(counts) => {
            let count = |count: &Option<Located<u64>>| count.as_ref().map(|count| count.value);
            CallLimits { run: count(&counts.run), day: count(&counts.day) }
        }
        RawCallLimits::Words(words) => {
            let words = Located { value: words.clone(), place: raw.place.clone() };
            checker.parse(&words).map(|words| words.0).unwrap_or_default()
        }
    }
}
