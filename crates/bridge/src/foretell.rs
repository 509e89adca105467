//! What would happen to a call, decided without making it: for runs whose writes are reviewed first.

use serde_json::{Value, json};
use toolgate_catalog::ToolRef;
use toolgate_engine::HostError;
use toolgate_functions::{AliasedTool, HostFunction, Registry};
use toolgate_policy::{Action, Policy, PolicyDecision};
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallErrorCode, Target};

use super::decide::{Subject, denied_by_person, expired};
use super::{Access, Bridge, RequestContext, ScopedCatalog};
use crate::marks::has_marks;

/// A call that the policy allows or asks about.
#[derive(Debug)]
pub struct Foretold {
    /// What is called, by its own names.
    pub target: Target,
    /// Whether the tool is known to change nothing.
    reads_only: bool,
    /// What the policy says.
    pub decision: PolicyDecision,
}

impl Foretold {
    /// Whether the call changes nothing and needs no approval.
    pub fn is_read(&self) -> bool {
        self.reads_only && self.decision.action == Action::Allow
    }

    /// What the policy says, as reports have it; `None` where no rule is about the call.
    pub fn record(&self) -> Option<DecisionRecord> {
        let rule = self.decision.rule.as_ref().map(|rule| rule.id.clone());
        let is_told = rule.is_some() || self.decision.action != Action::Allow;
        let record = DecisionRecord { action: self.decision.action.name(), rule, ..DecisionRecord::default() };
        is_told.then_some(record)
    }

    /// The error of a call that a person denied.
    pub fn denied(&self, reason: &str) -> HostError {
        let rule = self.decision.rule.as_ref().map(|rule| rule.id.as_str());
        denied_by_person(&self.target, reason, rule)
    }

    /// The error of a call whose question expired.
    pub fn expired(&self) -> HostError {
        expired(&self.target)
    }
}

/// Whether a rule says that programs which may call this tool are staged.
pub fn stages(policy: &Policy, found: ToolRef<'_>) -> bool {
    let subject = Subject::of(found);
    let path = subject.target.to_string();
    let paths = [path.as_str(), subject.spelling.as_deref().unwrap_or(&path)];
    !subject.traits.read_only && policy.stages(&paths, subject.traits)
}

impl Bridge {
    /// Decides about a call as [`Bridge::call`] does, and counts nothing. Marks are not checked against a schema: the real
    /// values are, when the call is made.
    pub fn foretell(
        &self,
        target: &Target,
        arguments: &Value,
        functions: &Registry,
        asked: &RequestContext,
    ) -> Result<Foretold, HostError> {
        let subject = match target {
            Target::Tool { backend, tool } => {
                match self.admit(backend, tool, arguments, asked) {
                    Err(fault)
                        if fault.code == CallErrorCode::InvalidArguments && has_marks(&arguments.to_string()) => {}
                    admitted => drop(admitted?),
                }
                self.subject(backend, tool, asked)?
            }
            Target::Function(name) => {
                let function = functions.get(name);
                // One that does not exist fails without an effect.
                let reads_only = function.is_none_or(|function| function.reads_only_with(arguments));
                let target = target.clone();
                if let Some((subject, arguments)) = function.and_then(|it| self.aliased(it, arguments)) {
                    let decision = self.policy.foretell(&subject, &arguments, asked)?;
                    return Ok(Foretold { reads_only, target, decision });
                }
                Subject::function(name, reads_only)
            }
        };
        let decision = self.policy.foretell(&subject, arguments, asked)?;
        Ok(Foretold { reads_only: subject.traits.read_only, target: subject.target, decision })
    }

    /// The same for a call of a tool whose backend is not up: it is started again and waited for, as [`Bridge::call`] does.
    pub async fn foretell_once_up(
        &self,
        target: &Target,
        arguments: &Value,
        functions: &Registry,
        asked: &RequestContext,
    ) -> Result<Foretold, HostError> {
        match (self.foretell(target, arguments, functions, asked), target) {
            (Err(refused), Target::Tool { backend, .. }) if self.may_come_up(&refused, backend, asked) => {
                self.wait_until_up(backend, asked, refused).await?;
                self.foretell(target, arguments, functions, asked)
            }
            (foretold, _) => foretold,
        }
    }

    /// What the policy is asked about where a function is a tool under another name, with the arguments of that tool; `None` for
    /// other functions, and where the tool is not known.
    pub(super) fn aliased(&self, function: &HostFunction, arguments: &Value) -> Option<(Subject, Value)> {
        let AliasedTool { backend, tool } = function.tool()?;
        let catalog = self.catalog.load();
        let found = ScopedCatalog::new(&catalog, &Access::All, &Access::All).tool(backend, tool)?;
        let arguments = arguments.get(0).filter(|first| first.is_object()).cloned();
        Some((Subject::of(found), arguments.unwrap_or_else(|| json!({}))))
    }
}
