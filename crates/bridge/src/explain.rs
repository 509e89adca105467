//! What the policy says about a call that is not made, and which rules a caller may see.
//!
//! For `toolgate policy explain`, the HTTP API and the page. Nothing is asked, counted or sent. A tool that the caller may
//! not use is explained as one that does not exist.

use std::sync::Arc;

use serde_json::Value;
use toolgate_catalog::{Resolution, ToolRef};
use toolgate_policy::{CallCounts, Policy, PolicyCall, PolicyDecision, Rule, RuleMatch, Traits, WrittenRule};
use toolgate_wire::{CallerScope, Target};

use super::decide::{LOCAL, Subject};
use super::{Bridge, ScopedCatalog};
use crate::approvals::{AskedCall, RememberError, RememberedRule};

/// A call to explain.
#[derive(Debug, Clone, Copy)]
pub struct QuestionedCall<'a> {
    /// `backend.tool`, in any spelling.
    pub path: &'a str,
    /// The arguments.
    pub arguments: &'a Value,
    /// The caller as rules name it; `local` for the user of this machine.
    pub caller: &'a str,
    /// The kind of run.
    pub profile: &'a str,
}

/// What happens to a call, and why.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The name of the tool as its server gives it; the name in the request if there is no such tool.
    pub tool: String,
    /// Whether there is such a tool now. The annotations of one that is not there are not known.
    pub is_known: bool,
    /// What the tool may do.
    pub traits: Traits,
    /// What happens.
    pub decision: PolicyDecision,
    /// Every rule with what it says of the call, in the order in which they decide.
    pub rules: Vec<(Arc<Rule>, RuleMatch)>,
}

impl Explained {
    /// The rules that are about this tool.
    pub fn near(&self) -> impl Iterator<Item = &(Arc<Rule>, RuleMatch)> {
        self.rules.iter().filter(|(_, standing)| *standing != RuleMatch::OtherTool)
    }

    /// What the tool does and from where that is known, in words.
    pub fn effect(&self) -> &'static str {
        self.traits.in_words()
    }
}

impl Bridge {
    /// What the policy says about a call of a caller with this scope, as if it were the first one.
    pub fn explain(&self, scope: &CallerScope, asked: QuestionedCall<'_>) -> Explained {
        let catalog = self.catalog();
        let found = match catalog.resolve(asked.path) {
            Resolution::Found(found) if scope.permits_tool(found.backend.name(), &found.tool().name) => Some(found),
            _ => None,
        };
        let is_known = found.is_some();
        let subject = found.map_or_else(|| Subject::unknown(asked.path), Subject::of);
        let usage = CallCounts::default();
        let (decision, rules) = match is_known || scope.name.is_empty() {
            true => {
                let explain = |call: &PolicyCall<'_>| self.policy().explain(call, &usage, &usage);
                (self.policy.without_asking(&subject, &asked), subject.with_call(asked, explain))
            }
            // Rules about tools that the caller may not know of would tell it that they exist.
            false => {
                let seen = Policy::new(self.visible_rules(scope), self.policy().default_action());
                let explain =
                    |call: &PolicyCall<'_>| (seen.decide(call, &usage, &usage), seen.explain(call, &usage, &usage));
                subject.with_call(asked, explain)
            }
        };
        Explained { tool: subject.target.to_string(), is_known, traits: subject.traits, decision, rules }
    }

    /// The rules that may be about calls of this caller, in the order in which they decide, each with its name. The user of
    /// this machine sees all of them; another caller none that are about other callers only, or about no tool of its own.
    pub fn rules_for(&self, scope: &CallerScope) -> Vec<(String, WrittenRule)> {
        self.visible_rules(scope).iter().map(|rule| (rule.id.clone(), WrittenRule::of(rule))).collect()
    }

    fn visible_rules(&self, scope: &CallerScope) -> Vec<Rule> {
        let (catalog, policy) = (self.catalog(), self.policy());
        let view = ScopedCatalog::new(&catalog, &scope.backends, &scope.tools);
        let sees_all = scope.name.is_empty();
        let has_tool = |rule: &Rule| {
            let matches =
                |found: &ToolRef<'_>| rule.tool.matches(&found.path()) || rule.tool.matches(&found.spelling());
            let of = |backend: &str, tool: &str| view.tool(backend, tool).is_some_and(|found| matches(&found));
            view.backends().any(|backend| view.tools_of(backend).any(|entry| of(backend.name(), &entry.tool().name)))
        };
        let is_own = |rule: &Rule| {
            let callers = &rule.callers;
            (callers.is_empty() || callers.iter().any(|pattern| pattern.matches(&scope.name))) && has_tool(rule)
        };
        let shown = policy.in_order().iter().filter(|rule| sees_all || is_own(rule));
        shown.map(|rule| Rule::clone(rule)).collect()
    }

    /// The approvals that stand for later calls of this caller; of every caller for the user of this machine.
    ///
    /// # Errors
    /// If the file of those that are kept cannot be read.
    pub fn remembered_for(&self, scope: &CallerScope) -> Result<Vec<RememberedRule>, RememberError> {
        let all = self.remembered().list()?;
        Ok(all.into_iter().filter(|rule| scope.name.is_empty() || rule.caller == scope.name).collect())
    }

    /// Whether an approval that is remembered answers a question that waits already, with these arguments in a run of this
    /// caller (empty for the local user). A question without a key was kept by an earlier version, and is not answered.
    pub fn is_approved(&self, caller: &str, profile: &str, call: &AskedCall, arguments: &Value, run: &str) -> bool {
        let asked_by = match (&call.rule, &call.rule_key) {
            (Some(_), None) => return false,
            (_, key) => key.as_deref().unwrap_or_default(),
        };
        let catalog = self.catalog();
        let path = call.target.to_string();
        let subject = match &call.target {
            Target::Tool { backend, tool } => {
                catalog.tool(backend, tool).map_or_else(|| Subject::unknown_tool(backend, tool), Subject::of)
            }
            Target::Function(name) => Subject::function(name, false),
        };
        let caller = if caller.is_empty() { LOCAL } else { caller };
        let asked = QuestionedCall { path: &path, arguments, caller, profile };
        let rules = self.remembered();
        subject.with_call(asked, |call| rules.answer_to(call, asked_by, Some(run))).is_some()
    }

    /// Forgets one of them in this process and in the file.
    ///
    /// # Errors
    /// If this caller has none of that name, or the file cannot be written.
    pub fn forget_for(&self, scope: &CallerScope, id: &str) -> Result<RememberedRule, RememberError> {
        let is_own = self.remembered_for(scope)?.iter().any(|rule| rule.id == id);
        if is_own { self.remembered().remove(id) } else { Err(RememberError::Unknown(id.to_owned())) }
    }
}

/// What a rule says of a call, in words.
pub fn standing_words(standing: &RuleMatch) -> String {
    match standing {
        RuleMatch::Applies => "applies".to_owned(),
        RuleMatch::OtherTool => "is about other tools".to_owned(),
        RuleMatch::OtherAnnotations => "is about tools with other annotations".to_owned(),
        RuleMatch::OtherCaller => "is about other callers or kinds of run".to_owned(),
        RuleMatch::ConditionFalse => "its condition does not hold".to_owned(),
        RuleMatch::ConditionFailed(error) => format!("its condition fails: {error}"),
        RuleMatch::UsedUp => "its limit is used up".to_owned(),
    }
}

/// Whether a rule with this standing decides about the call, as far as no stricter one does.
pub fn standing_applies(standing: &RuleMatch) -> bool {
    matches!(standing, RuleMatch::Applies | RuleMatch::ConditionFailed(_) | RuleMatch::UsedUp)
}

/// How rules name this caller.
pub fn caller_in_rules(scope: &CallerScope) -> &str {
    if scope.name.is_empty() { LOCAL } else { &scope.name }
}
