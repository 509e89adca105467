//! The errors of calls that the policy, or a person, does not let through.

use serde_json::{Map, Value, json};
use toolgate_engine::HostError;
use toolgate_policy::{Action, PolicyDecision};
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallErrorCode, Target};

use super::Subject;
use crate::day_counts::CountError;

pub(super) fn denied(subject: &Subject, decision: &PolicyDecision) -> HostError {
    let message = format!("{} is denied by the policy: {}", subject.target, decision.reason());
    HostError::not_sent(CallErrorCode::Denied, message).with_data(data(decision))
}

/// `rule` is the one that asked.
pub(crate) fn denied_by_person(target: &Target, reason: &str, rule: Option<&str>) -> HostError {
    let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let message = format!("a person denied {target}{why}");
    HostError::not_sent(CallErrorCode::Denied, message).with_data(fields(rule, Action::Ask, reason))
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
    HostError::not_sent(CallErrorCode::Denied, message).with_data(data(decision))
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
    HostError::not_sent(CallErrorCode::Denied, message).with_data(data(decision))
}

pub(super) fn cannot_ask(subject: &Subject, decision: &PolicyDecision) -> HostError {
    let message = format!(
        "a person must approve {}: {}. This call cannot wait for one: make it with `toolgate run` or `toolgate call` at a terminal, \
         or in a program of call_tool_chain or POST /v1/run, and decide with `toolgate approve` or POST \
         /v1/runs/{{runId}}/decisions",
        subject.target,
        decision.reason()
    );
    HostError::not_sent(CallErrorCode::Denied, message).with_data(data(decision))
}

/// What was decided about a call that was not let through, by the fields of the error that its program got: a record has no
/// more of it. `None` for any other error.
pub(super) fn decision_of(error: &Value) -> Option<DecisionRecord> {
    if error["code"] != CallErrorCode::Denied.as_str() {
        return None;
    }
    let data = &error["data"];
    let action = [Action::Ask, Action::Deny].into_iter().find(|action| data["do"] == action.name())?;
    let rule = data["rule"].as_str().map(str::to_owned);
    Some(DecisionRecord { action: action.name(), rule, ..DecisionRecord::default() })
}

fn data(decision: &PolicyDecision) -> Value {
    let rule = decision.rule.as_ref().map(|rule| rule.id.as_str());
    fields(rule, decision.action, &decision.reason())
}

fn fields(rule: Option<&str>, action: Action, reason: &str) -> Value {
    let mut data = Map::new();
    if let Some(rule) = rule {
        data.insert("rule".to_owned(), json!(rule));
    }
    data.insert("do".to_owned(), json!(action.name()));
    data.insert("reason".to_owned(), json!(reason));
    Value::Object(data)
}

/// The error of a call whose question was not answered before it expired.
pub(crate) fn expired(target: &Target) -> HostError {
    HostError::not_sent(CallErrorCode::Expired, format!("no decision about {target} came in time"))
}
