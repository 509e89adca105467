//! The errors of calls that the policy, or a person, does not let through.

use serde_json::{Map, Value, json};
use toolgate_engine::HostError;
use toolgate_policy::PolicyDecision;
use toolgate_wire::{CallErrorCode, Target};

use super::Subject;
use crate::day_counts::CountError;

pub(super) fn denied(subject: &Subject, decision: &PolicyDecision) -> HostError {
    let message = format!("{} is denied by the policy: {}", subject.target, decision.reason());
    HostError::not_sent(CallErrorCode::Denied, message).with_data(data(decision, None))
}

pub(super) fn denied_by_person(subject: &Subject, reason: &str, decision: &PolicyDecision) -> HostError {
    let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let message = format!("a person denied {}{why}", subject.target);
    HostError::not_sent(CallErrorCode::Denied, message).with_data(data(decision, Some(reason)))
}

/// A person approved what another rule asks others about: arguments that the person edited, or a call whose rule has changed.
pub(super) fn other_approvers(subject: &Subject, decision: &PolicyDecision) -> HostError {
    let approvers: Vec<String> =
        decision.rule.iter().flat_map(|rule| &rule.approvers).map(ToString::to_string).collect();
    let approvers = if approvers.is_empty() { "the caller of the run".to_owned() } else { approvers.join(" or ") };
    let message = format!(
        "{} with these arguments is for {approvers} to approve: {}. Make the call with them from the start",
        subject.target,
        decision.reason()
    );
    HostError::not_sent(CallErrorCode::Denied, message).with_data(data(decision, None))
}

/// The calls of today are not known, or this one cannot be added to them.
pub(super) fn cannot_count(subject: &Subject, error: &CountError) -> HostError {
    let message = format!(
        "{} was not sent: a rule depends on the calls of today, and they cannot be counted: {error}. See to the store of \
         toolgate.runs.store, or write the rule without a limit a day and counts.day",
        subject.target
    );
    HostError::not_sent(CallErrorCode::Denied, message)
}

/// For a run that would have begun again as one that waits, had it not changed something.
pub(super) fn too_late_to_ask(subject: &Subject, decision: &PolicyDecision) -> HostError {
    let message = format!(
        "a person must approve {}: {}. The program has changed something already, so it does not begin again to wait for one: run \
         the rest of it as a program of its own, or such a program with durable: true from its start",
        subject.target,
        decision.reason()
    );
    HostError::not_sent(CallErrorCode::Denied, message).with_data(data(decision, None))
}

pub(super) fn cannot_ask(subject: &Subject, decision: &PolicyDecision) -> HostError {
    let message = format!(
        "a person must approve {}: {}. This call cannot wait for one: make it with `toolgate run` or `toolgate call` at a terminal, \
         or in a program of call_tool_chain or POST /v1/run, and decide with `toolgate approve` or POST \
         /v1/runs/{{runId}}/decisions",
        subject.target,
        decision.reason()
    );
    HostError::not_sent(CallErrorCode::Denied, message).with_data(data(decision, None))
}

fn data(decision: &PolicyDecision, reason: Option<&str>) -> Value {
    let mut data = Map::new();
    if let Some(rule) = &decision.rule {
        data.insert("rule".to_owned(), json!(rule.id));
    }
    data.insert("do".to_owned(), json!(decision.action.name()));
    data.insert("reason".to_owned(), json!(reason.map_or_else(|| decision.reason(), str::to_owned)));
    Value::Object(data)
}

/// The error of a call whose question was not answered before it expired.
pub(crate) fn expired(target: &Target) -> HostError {
    HostError::not_sent(CallErrorCode::Expired, format!("no decision about {target} came in time"))
}
