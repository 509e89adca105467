//! The rules together: what happens to a call.
//!
//! Deny wins over ask, ask over allow; among rules of one action the most specific decides. A condition that fails counts
//! against the call: a rule that denies or asks applies, and a rule that allows denies. A tool that a rule allows under
//! conditions is not allowed where they do not hold. What no rule is about gets the policy's default.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::condition::{Budget, Condition, ConditionError, Facts, Foreknown};
use crate::index::RuleIndex;
use crate::{Action, Rule, Traits};

/// A call that is to be decided.
#[derive(Debug, Clone, Copy)]
pub struct PolicyCall<'a> {
    /// The spellings by which rules may name the tool: `backend.tool` with the names that the backend itself uses, then with
    /// those that programs use.
    pub paths: &'a [&'a str],
    /// The backend's own name; empty for a host function.
    pub backend: &'a str,
    /// The tool's own name.
    pub tool: &'a str,
    /// What is known about the tool's effects.
    pub traits: Traits,
    /// The name of the caller.
    pub caller: &'a str,
    /// The kind of run.
    pub profile: &'a str,
    /// The arguments.
    pub args: &'a Value,
}

/// Calls that were let through, by tool and by rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallCounts {
    tools: HashMap<String, u64>,
    rules: HashMap<String, u64>,
}

impl CallCounts {
    /// Calls of a tool.
    pub fn of_tool(&self, path: &str) -> u64 {
        self.tools.get(path).copied().unwrap_or_default()
    }

    /// Calls that a rule with limits let through.
    pub fn of_rule(&self, rule: &Rule) -> u64 {
        self.rules.get(&rule.key()).copied().unwrap_or_default()
    }

    /// Notes the calls of a tool.
    pub fn set_tool(&mut self, path: &str, calls: u64) {
        self.tools.insert(path.to_owned(), calls);
    }

    /// Notes the calls that a rule let through.
    pub fn set_rule(&mut self, rule: &Rule, calls: u64) {
        self.rules.insert(rule.key(), calls);
    }

    /// Counts a call that this rule lets through.
    pub fn add(&mut self, path: &str, rule: Option<&Rule>) {
        *self.tools.entry(path.to_owned()).or_default() += 1;
        if let Some(rule) = rule.filter(|rule| rule.has_limits()) {
            *self.rules.entry(rule.key()).or_default() += 1;
        }
    }

    /// Takes back a call that was counted and is not made after all.
    pub fn take_back(&mut self, path: &str, rule: Option<&Rule>) {
        let less = |count: &mut u64| *count = count.saturating_sub(1);
        self.tools.get_mut(path).into_iter().for_each(less);
        rule.and_then(|rule| self.rules.get_mut(&rule.key())).into_iter().for_each(less);
    }
}

/// What happens to a call, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyDecision {
    /// What happens.
    pub action: Action,
    /// The rule that decided; `None` where none is about the call.
    pub rule: Option<Arc<Rule>>,
    /// Why it is not simply what the rule says.
    pub cause: Cause,
}

/// How a decision came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The rule says so.
    Rule,
    /// No rule is about the call.
    Default,
    /// The rule's condition failed.
    ConditionFailed(ConditionError),
    /// The rule has let through as many calls as it may.
    LimitReached,
    /// The rule allows the tool under conditions that do not hold.
    NotCovered,
    /// An agent added the backend itself, and no rule allows the call by the backend's name.
    AddedBackend,
}

impl PolicyDecision {
    /// Why, in a sentence for the program and for people.
    pub fn reason(&self) -> String {
        let rule = self.rule.as_deref();
        let named = rule.map_or("the policy", |rule| rule.id.as_str());
        let own = rule.and_then(|rule| rule.reason.clone());
        match &self.cause {
            Cause::Rule => own.unwrap_or_else(|| match self.action {
                Action::Allow => format!("{named} allows it"),
                Action::Ask => format!("{named} asks a person first"),
                Action::Deny => format!("{named} denies it"),
            }),
            Cause::Default => match self.action {
                Action::Allow => "no rule is about it".to_owned(),
                Action::Ask => "no rule is about it, and such calls are asked about".to_owned(),
                Action::Deny => "no rule allows it".to_owned(),
            },
            Cause::AddedBackend => "an agent added this backend, and no rule allows it by its name".to_owned(),
            Cause::ConditionFailed(error) => {
                let own = own.map(|own| format!("{own} (")).unwrap_or_default();
                let end = if own.is_empty() { "" } else { ")" };
                format!("{own}the condition of {named} cannot be evaluated: {error}{end}")
            }
            Cause::LimitReached => {
                let limits = rule.map(|rule| rule.limits).unwrap_or_default();
                format!("{named} lets through {limits}")
            }
            Cause::NotCovered => format!("{named} allows this tool only under conditions that do not hold here"),
        }
    }
}

/// The rules of a configuration.
#[derive(Clone, PartialEq)]
pub struct Policy {
    /// As written.
    rules: Vec<Arc<Rule>>,
    /// By action, then by specificity, then as written.
    ordered: Vec<Arc<Rule>>,
    /// Which of `ordered` may be about a tool.
    index: RuleIndex,
    /// For each of `ordered`: the number of its condition, where several rules have the same.
    shared: Vec<Option<u32>>,
    default: Action,
    /// Whether a rule looks at counts.
    needs_usage: bool,
    /// Whether a rule looks at the calls of a day.
    needs_day: bool,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("rules", &self.rules).field("default", &self.default).finish()
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy::new(Vec::new(), Action::Allow)
    }
}

impl Policy {
    /// These rules, and what happens to calls that none is about.
    pub fn new(rules: Vec<Rule>, default: Action) -> Self {
        let rules: Vec<Arc<Rule>> = rules.into_iter().map(Arc::new).collect();
        let mut ordered = rules.clone();
        // Stable: of equals, the first written decides.
        ordered.sort_by_key(|rule| std::cmp::Reverse((rule.action, rule.specificity())));
        let reads_counts = |rule: &Arc<Rule>| rule.when.as_ref().is_some_and(|when| when.text().contains("counts"));
        let needs_usage = rules.iter().any(|rule| rule.has_limits() || reads_counts(rule));
        let needs_day = rules.iter().any(|rule| rule.depends_on_day());
        let index = RuleIndex::new(ordered.iter().map(|rule| &rule.tool));
        let shared = shared_conditions(&ordered);
        Policy { rules, ordered, index, shared, default, needs_usage, needs_day }
    }

    /// The rules as written.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// The rules in the order in which they decide.
    pub fn in_order(&self) -> &[Arc<Rule>] {
        &self.ordered
    }

    /// What happens to calls that no rule is about.
    pub fn default_action(&self) -> Action {
        self.default
    }

    /// Whether every call is allowed, so that none needs to be looked at.
    pub fn allows_everything(&self) -> bool {
        self.rules.is_empty() && self.default == Action::Allow
    }

    /// Whether any call may be asked about.
    pub fn may_ask(&self) -> bool {
        self.default == Action::Ask || self.rules.iter().any(|rule| rule.action == Action::Ask)
    }

    /// Whether a rule says that programs which may call a tool with these spellings are staged.
    pub fn stages(&self, paths: &[&str], traits: Traits) -> bool {
        let mut rules = self.index.candidates(paths).filter_map(|at| self.ordered.get(at));
        rules.any(|rule| {
            rule.stage
                && rule.action == Action::Ask
                && rule.traits.permits(traits)
                && paths.iter().any(|path| rule.tool.matches(path))
        })
    }

    /// Whether any rule stages programs.
    pub fn may_stage(&self) -> bool {
        self.rules.iter().any(|rule| rule.stage && rule.action == Action::Ask)
    }

    /// Whether decisions depend on calls that were let through before.
    pub fn needs_usage(&self) -> bool {
        self.needs_usage
    }

    /// The rules with a limit a day that are about a tool with these spellings; `None` where no rule about it depends on the calls
    /// of a day.
    pub fn daily_rules(&self, paths: &[&str]) -> Option<Vec<Arc<Rule>>> {
        if !self.needs_day {
            return None;
        }
        let candidates = self.index.candidates(paths).filter_map(|at| self.ordered.get(at));
        let mut rules =
            candidates.filter(|rule| rule.depends_on_day() && paths.iter().any(|path| rule.tool.matches(path)));
        let first = rules.next()?;
        Some(std::iter::once(first).chain(rules).filter(|rule| rule.limits.day.is_some()).cloned().collect())
    }

    /// What happens to a call, where these were let through before in its run and by its caller today.
    pub fn decide(&self, call: &PolicyCall<'_>, run: &CallCounts, day: &CallCounts) -> PolicyDecision {
        let mut conditions = Conditions { facts: None, budget: Budget::default(), known: Vec::new() };
        let mut not_covered = None;
        for (at, rule) in self.index.candidates(call.paths).filter_map(|at| Some((at, self.ordered.get(at)?))) {
            if !is_about_tool(rule, call) {
                continue;
            }
            let holds = match (is_about_caller(rule, call), &rule.when) {
                (false, _) => Ok(false),
                (true, None) => Ok(true),
                (true, Some(when)) => {
                    let shared = self.shared.get(at).copied().flatten();
                    conditions.holds(when, shared, || facts(call, run, day))
                }
            };
            match conclude(rule, holds, run, day) {
                Some(decision) => return decision,
                None if rule.action == Action::Allow => not_covered = not_covered.or(Some(rule)),
                None => {}
            }
        }
        self.otherwise(not_covered)
    }

    /// What certainly happens to a call, before it is made: `None` where that depends on counts, or on arguments that are not
    /// known yet. Limits aside, which may deny it later.
    pub fn foresee(&self, call: &PolicyCall<'_>, arguments: Foreknown) -> Option<PolicyDecision> {
        let (mut budget, usage) = (Budget::default(), CallCounts::default());
        let facts = facts(call, &usage, &usage);
        let mut not_covered = None;
        let candidates = self.index.candidates(call.paths).filter_map(|at| self.ordered.get(at));
        for rule in candidates.filter(|rule| is_about_tool(rule, call)) {
            let holds = match is_about_caller(rule, call) {
                false => Ok(false),
                true => {
                    rule.when.as_ref().map_or(Some(Ok(true)), |when| when.foresee(&facts, arguments, &mut budget))?
                }
            };
            match conclude(rule, holds, &usage, &usage) {
                Some(decision) => return Some(decision),
                None if rule.action == Action::Allow => not_covered = not_covered.or(Some(rule)),
                None => {}
            }
        }
        Some(self.otherwise(not_covered))
    }

    /// What happens where no rule applies; a rule that allows the tool under conditions may be among them.
    fn otherwise(&self, not_covered: Option<&Arc<Rule>>) -> PolicyDecision {
        match not_covered.filter(|_| self.default == Action::Allow) {
            Some(rule) => {
                PolicyDecision { action: Action::Deny, rule: Some(Arc::clone(rule)), cause: Cause::NotCovered }
            }
            None => PolicyDecision { action: self.default, rule: None, cause: Cause::Default },
        }
    }

    /// Every rule with what it says of a call, in the order in which they decide.
    pub fn explain(&self, call: &PolicyCall<'_>, run: &CallCounts, day: &CallCounts) -> Vec<(Arc<Rule>, RuleMatch)> {
        let facts = facts(call, run, day);
        let standing = |rule: &Rule| {
            if !call.paths.iter().any(|path| rule.tool.matches(path)) {
                return RuleMatch::OtherTool;
            }
            if !rule.traits.permits(call.traits) {
                return RuleMatch::OtherAnnotations;
            }
            if !is_about_caller(rule, call) {
                return RuleMatch::OtherCaller;
            }
            match rule.when.as_ref().map(|when| when.holds(&facts, &mut Budget::default())) {
                Some(Ok(false)) => RuleMatch::ConditionFalse,
                Some(Err(error)) => RuleMatch::ConditionFailed(error),
                Some(Ok(true)) | None if rule.action != Action::Deny && is_used_up(rule, run, day) => RuleMatch::UsedUp,
                Some(Ok(true)) | None => RuleMatch::Applies,
            }
        };
        self.ordered.iter().map(|rule| (Arc::clone(rule), standing(rule))).collect()
    }
}

/// Numbers for the conditions that several rules have.
fn shared_conditions(rules: &[Arc<Rule>]) -> Vec<Option<u32>> {
    let text = |rule: &'_ Arc<Rule>| rule.when.as_ref().map(|when| when.text().to_owned());
    let mut count: HashMap<String, usize> = HashMap::new();
    rules.iter().filter_map(text).for_each(|text| *count.entry(text).or_default() += 1);
    count.retain(|_, count| *count > 1);
    let numbers: HashMap<String, u32> = count.into_keys().zip(0..).collect();
    rules.iter().map(|rule| numbers.get(&text(rule)?).copied()).collect()
}

/// The conditions of one decision: facts are gathered for the first, and a condition of several rules is evaluated once.
struct Conditions<'a> {
    facts: Option<Facts<'a>>,
    budget: Budget,
    known: Vec<Option<Result<bool, ConditionError>>>,
}

impl<'a> Conditions<'a> {
    fn holds(
        &mut self,
        when: &Condition,
        shared: Option<u32>,
        gather: impl FnOnce() -> Facts<'a>,
    ) -> Result<bool, ConditionError> {
        let shared = shared.and_then(|number| usize::try_from(number).ok());
        if let Some(known) = shared.and_then(|number| self.known.get(number)?.clone()) {
            return known;
        }
        let facts = self.facts.get_or_insert_with(gather);
        let holds = when.holds(facts, &mut self.budget);
        if let Some(number) = shared {
            if self.known.len() <= number {
                self.known.resize(number + 1, None);
            }
            if let Some(place) = self.known.get_mut(number) {
                *place = Some(holds.clone());
            }
        }
        holds
    }
}

/// What a rule says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleMatch {
    /// It applies.
    Applies,
    /// It is about other tools.
    OtherTool,
    /// It is about tools with other annotations.
    OtherAnnotations,
    /// It is about other callers or kinds of run.
    OtherCaller,
    /// Its condition does not hold.
    ConditionFalse,
    /// Its condition fails.
    ConditionFailed(ConditionError),
    /// It has let through as many calls as it may.
    UsedUp,
}

/// What a rule that is about a call says of it, when its condition gave this; `None` where it does not apply.
fn conclude(
    rule: &Arc<Rule>,
    holds: Result<bool, ConditionError>,
    run: &CallCounts,
    day: &CallCounts,
) -> Option<PolicyDecision> {
    let (action, cause) = match (rule.action, holds) {
        (_, Ok(false)) => return None,
        (Action::Deny, Ok(true)) => (Action::Deny, Cause::Rule),
        (Action::Allow | Action::Ask, Ok(true)) if is_used_up(rule, run, day) => (Action::Deny, Cause::LimitReached),
        (action, Ok(true)) => (action, Cause::Rule),
        (Action::Ask, Err(_)) if is_used_up(rule, run, day) => (Action::Deny, Cause::LimitReached),
        (Action::Ask, Err(error)) => (Action::Ask, Cause::ConditionFailed(error)),
        (Action::Allow | Action::Deny, Err(error)) => (Action::Deny, Cause::ConditionFailed(error)),
    };
    Some(PolicyDecision { action, rule: Some(Arc::clone(rule)), cause })
}

fn facts<'a>(call: &PolicyCall<'a>, run: &CallCounts, day: &CallCounts) -> Facts<'a> {
    let path = call.paths.first().copied().unwrap_or_default();
    Facts {
        args: call.args,
        caller: call.caller,
        profile: call.profile,
        backend: call.backend,
        tool: call.tool,
        traits: call.traits,
        in_run: run.of_tool(path),
        in_day: day.of_tool(path),
    }
}

fn is_about_tool(rule: &Rule, call: &PolicyCall<'_>) -> bool {
    call.paths.iter().any(|path| rule.tool.matches(path)) && rule.traits.permits(call.traits)
}

fn is_about_caller(rule: &Rule, call: &PolicyCall<'_>) -> bool {
    (rule.callers.is_empty() || rule.callers.iter().any(|pattern| pattern.matches(call.caller)))
        && (rule.profiles.is_empty() || rule.profiles.iter().any(|profile| profile == call.profile))
}

fn is_used_up(rule: &Rule, run: &CallCounts, day: &CallCounts) -> bool {
    let reached = |limit: Option<u64>, usage: &CallCounts| limit.is_some_and(|limit| usage.of_rule(rule) >= limit);
    reached(rule.limits.run, run) || reached(rule.limits.day, day)
}
