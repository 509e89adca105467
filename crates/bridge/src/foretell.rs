//! What would happen to a call, decided without making it: for runs whose writes are reviewed first.

use serde_json::{Map, Value, json};
use toolgate_catalog::ToolRef;
use toolgate_engine::HostError;
use toolgate_functions::Registry;
use toolgate_policy::{Action, Decision, Policy};
use toolgate_wire::Target;

use super::decide::{DENIED, Subject, expired};
use super::{Bridge, RequestContext};
use crate::marks::has_marks;

/// A call that the policy allows or asks about.
#[derive(Debug)]
pub struct Foretold {
    /// What is called, by its own names.
    pub target: Target,
    /// Whether the tool is known to change nothing.
    reads_only: bool,
    /// What the policy says.
    pub decision: Decision,
}

impl Foretold {
    /// Whether the call changes nothing and needs nobody's approval.
    pub fn is_read(&self) -> bool {
        self.reads_only && self.decision.action == Action::Allow
    }

    /// The error of a call that a person denied.
    pub fn denied(&self, reason: &str) -> HostError {
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let mut data = Map::new();
        if let Some(rule) = &self.decision.rule {
            data.insert("rule".to_owned(), json!(rule.id));
        }
        data.insert("do".to_owned(), json!("ask"));
        data.insert("reason".to_owned(), json!(reason));
        HostError::not_sent(DENIED, format!("a person denied {}{why}", self.target)).with_data(Value::Object(data))
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
                    Err(fault) if fault.code == "INVALID_ARGUMENTS" && has_marks(&arguments.to_string()) => {}
                    admitted => drop(admitted?),
                }
                self.subject(backend, tool, asked)?
            }
            Target::Function(name) => {
                // One that does not exist fails without an effect.
                let reads_only = functions.get(name).is_none_or(|function| function.reads_only_with(arguments));
                Subject::function(name, reads_only)
            }
        };
        let decision = self.policy.foretell(&subject, arguments, asked)?;
        Ok(Foretold { reads_only: subject.traits.read_only, target: subject.target, decision })
    }
}
