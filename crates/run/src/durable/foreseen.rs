//! What is known of a call that may have an effect before it is made: an earlier run answers it, or it is not sent before it is
//! decided about.
//!
//! An intent says that a call may have been sent. So none is written for a call that a rule asks about or denies, before a person
//! lets it through. Only what is certain is foreseen: where a rule depends on counts, or the arguments are long, the intent comes
//! first, and a question about the call takes it back.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_bridge::approvals::{AskedCall, KeptQuestion};
use toolgate_bridge::{Bridge, ScopedCatalog};
use toolgate_catalog::{Catalog, ToolRef};
use toolgate_engine::host::Target;
use toolgate_functions::Registry;
use toolgate_policy::{Action, Foreknown, Policy, PolicyCall, PolicyDecision, Traits};
use toolgate_wire::{CallId, CallerScope, Profile};

use super::call_keys::CallKeys;
use super::kept_effects::{KeptEffects, called};
use super::{RunRequest, Runner};

/// Bytes of arguments beyond which nothing is foreseen: they are read while the program waits.
const MAX_FORESEEN_BYTES: usize = 1 << 20;

/// How a call is made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// It may be sent at once.
    Sent,
    /// A rule asks about it, or denies it.
    Decided(KeptQuestion),
    /// It gets the answer that an earlier run got.
    Answered,
}

/// Looks at the calls of one run before they are made.
pub(super) struct Foresight {
    bridge: Arc<Bridge>,
    caller: CallerScope,
    profile: Profile,
    functions: Registry,
    keys: CallKeys,
    run: String,
    kept: Option<Arc<KeptEffects>>,
    /// Lines of a review are let through without a question about the call.
    is_staged: bool,
}

impl Foresight {
    pub(super) fn new(runner: &Runner, request: &RunRequest, keys: CallKeys, run: &str) -> Self {
        Foresight {
            bridge: runner.bridge.clone(),
            caller: request.caller.clone(),
            profile: request.profile,
            functions: request.functions.clone().unwrap_or_else(|| runner.functions(&request.caller)),
            keys,
            run: run.to_owned(),
            kept: request.kept.clone(),
            is_staged: request.staging.is_on(),
        }
    }

    /// How a call with these arguments is made, which may have an effect. An answer of an earlier run is reserved for it: equal calls
    /// get their answers in the order in which they are made.
    pub(super) fn expected(&self, id: CallId, target: &Target, args: &[u8]) -> Expected {
        let Some(args) = std::str::from_utf8(args).ok().filter(|_| !self.is_staged) else { return Expected::Sent };
        let is_answered = |kept: &Arc<KeptEffects>| kept.reserve(id, &called(&self.bridge, target, args));
        if self.kept.as_ref().is_some_and(is_answered) {
            return Expected::Answered;
        }
        self.question(id, target, args).map_or(Expected::Sent, Expected::Decided)
    }

    /// The question about a call that is certainly asked about or denied.
    fn question(&self, id: CallId, target: &Target, args: &str) -> Option<KeptQuestion> {
        let policy = self.bridge.policy();
        if policy.allows_everything() || args.len() > MAX_FORESEEN_BYTES {
            return None;
        }
        let catalog = self.bridge.catalog();
        let subject = self.subject(&catalog, id, target, args)?;
        let decision = self.foreseen(&policy, &subject)?;
        match decision.action {
            Action::Allow => None,
            Action::Ask if self.is_remembered(&subject, &decision) => None,
            Action::Ask | Action::Deny => Some(question_of(&decision)),
        }
    }

    /// What rules see of a call; `None` where it is not known what is called.
    fn subject<'c>(&'c self, catalog: &'c Catalog, id: CallId, target: &Target, args: &str) -> Option<Subject<'c>> {
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        match target {
            Target::Tool { backend, tool } => {
                let found =
                    ScopedCatalog::new(catalog, &self.caller.backends, &self.caller.tools).tool(backend, tool)?;
                let filled = self.keys.filled(id, found, args);
                Some(Subject {
                    target: own(found),
                    tool: Some(found),
                    arguments: read(filled.as_deref().unwrap_or(args))?,
                })
            }
            Target::Function(name) => {
                let Some(alias) = self.functions.get(name)?.tool() else {
                    return Some(Subject { target: target.clone(), tool: None, arguments: read(args)? });
                };
                let found = catalog.tool(&alias.backend, &alias.tool)?;
                let first = read(args)?.get(0).filter(|first| first.is_object()).cloned();
                Some(Subject { target: own(found), tool: Some(found), arguments: first.unwrap_or_else(|| json!({})) })
            }
        }
    }

    fn foreseen(&self, policy: &Policy, subject: &Subject<'_>) -> Option<PolicyDecision> {
        let path = subject.target.to_string();
        let spelling = subject.tool.map(|found| found.spelling()).filter(|spelling| *spelling != path);
        let paths = [path.as_str(), spelling.as_deref().unwrap_or(&path)];
        let (backend, tool) = match &subject.target {
            Target::Tool { backend, tool } => (backend.as_str(), tool.as_str()),
            Target::Function(name) => ("", name.as_str()),
        };
        let traits =
            subject.tool.map_or(Traits::UNKNOWN, |found| Traits::of(backend, tool, found.tool().annotations()));
        let call = PolicyCall {
            paths: if spelling.is_some() { &paths } else { &paths[..1] },
            backend,
            tool,
            traits,
            caller: toolgate_bridge::caller_in_rules(&self.caller),
            profile: self.profile.name(),
            args: &subject.arguments,
        };
        policy.foresee(&call, Foreknown::Yes)
    }

    /// Whether an approval that is remembered lets the call through.
    fn is_remembered(&self, subject: &Subject<'_>, decision: &PolicyDecision) -> bool {
        let KeptQuestion { rule, rule_key, approvers, .. } = question_of(decision);
        let asked = AskedCall {
            call_id: 0,
            target: subject.target.clone(),
            arguments: String::new(),
            reason: String::new(),
            rule,
            rule_key,
            approvers,
            expires: Duration::ZERO,
            form: None,
        };
        let profile = self.profile.name();
        self.bridge.is_approved(&self.caller.name, profile, &asked, &subject.arguments, &self.run)
    }
}

/// What rules see of a call.
struct Subject<'c> {
    /// What is called, by its own names.
    target: Target,
    tool: Option<ToolRef<'c>>,
    /// The arguments as they would be sent.
    arguments: Value,
}

fn own(found: ToolRef<'_>) -> Target {
    Target::Tool { backend: found.backend.name().to_owned(), tool: found.tool().name.clone() }
}

fn question_of(decision: &PolicyDecision) -> KeptQuestion {
    let rule = decision.rule.as_deref();
    KeptQuestion {
        rule: rule.map(|rule| rule.id.clone()),
        rule_key: rule.map(|rule| rule.approval_key()),
        approvers: rule.map(|rule| rule.approvers.iter().map(ToString::to_string).collect()).unwrap_or_default(),
        is_acted_on: false,
    }
}
