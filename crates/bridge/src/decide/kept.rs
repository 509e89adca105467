//! Calls of a run that goes on from its record: what a person decided about them comes before the policy of now.
//!
//! The policy, the time and what is known of a tool may have changed since a person was asked. A decision that a call is not made
//! holds whatever they say by now, and a question that is still open stays one.

use serde_json::Value;
use toolgate_engine::{HostError, RepeatedCall};
use toolgate_journal::entry::AllowedBy;
use toolgate_policy::{Action, CallCounts, PolicyDecision};
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallState, Target};

use super::refusals::{decision_of, denied_by_person, expired};
use super::{CallPolicy, Subject, caller_name, rule_key, with_call};
use crate::RequestContext;
use crate::approvals::{KeptQuestion, Verdict};

/// The error of a call that a person has decided about, so that it is not made. Ends the run where the person stopped it.
pub(crate) async fn refused_before(target: &Target, asked: &RequestContext) -> Option<HostError> {
    let (approver, call) = asked.approver_of_call()?;
    let rule = approver.kept_question(call).and_then(|kept| kept.rule);
    let denied = |reason: &str| denied_by_person(target, reason, rule.as_deref());
    let note = |verdict: &'static str| {
        let record = DecisionRecord { verdict: Some(verdict), ..asked_about(rule.clone()) };
        asked.run.iter().for_each(|run| run.note(asked.call_id, record.clone()));
    };
    match approver.refusal(call)? {
        Verdict::Approve { .. } => None,
        Verdict::Expired => {
            note("expired");
            Some(expired(target))
        }
        Verdict::Deny { reason } => {
            note("denied");
            Some(denied(&reason))
        }
        Verdict::Stop { reason } => {
            note("stopped");
            asked.stop_run(&reason).await;
            Some(denied(&reason))
        }
    }
}

/// The question about a call that is to be answered before the call is made.
pub(crate) fn open_question(asked: &RequestContext) -> Option<KeptQuestion> {
    asked.kept_question().filter(|kept| !kept.is_acted_on)
}

/// What reports have of a call that a person was asked about by this rule.
pub(super) fn asked_about(rule: Option<String>) -> DecisionRecord {
    DecisionRecord { action: "ask", rule, ..DecisionRecord::default() }
}

/// Whether the answer to the question of `before` also answers the question of `decision`: the same rule asks, or one that the
/// same person may answer. In a run that was paused the person was asked by the rule of the kept question, not by `before`.
pub(super) fn was_answered_for(decision: &PolicyDecision, before: &PolicyDecision, asked: &RequestContext) -> bool {
    let approver = asked.approver_of_call();
    let has_approvers =
        |decision: &PolicyDecision| decision.rule.as_ref().is_some_and(|rule| !rule.approvers.is_empty());
    let (asked_by, had_approvers) = match approver.and_then(|(approver, call)| approver.kept_question(call)) {
        Some(kept) => (kept.rule_key, !kept.approvers.is_empty()),
        None => (rule_key(before), has_approvers(before)),
    };
    // Without approvers the caller of the run decides.
    if rule_key(decision) == asked_by || (!has_approvers(decision) && !had_approvers) {
        return true;
    }
    let answered = approver.and_then(|(approver, call)| approver.answered(call));
    let reviewer = answered.and_then(|answered| answered.reviewer);
    match decision.rule.as_ref().filter(|rule| !rule.approvers.is_empty()) {
        Some(rule) => {
            reviewer.is_some_and(|reviewer| rule.approvers.iter().any(|approver| approver.matches(&reviewer)))
        }
        None => reviewer.is_none_or(|reviewer| reviewer == caller_name(asked)),
    }
}

impl CallPolicy {
    /// Counts a call that a run repeats from its record, if it was sent, for the rule that matches it now. What is noted is the
    /// rule that let the call through then, and nothing where the record does not name it: no other decision was made.
    pub(crate) fn note_repeated(
        &self,
        subject: &Subject,
        arguments: &Value,
        asked: &RequestContext,
        call: RepeatedCall<'_>,
    ) {
        let (policy, Some(run)) = (self.current(), &asked.run) else { return };
        if call.state == CallState::NotSent {
            return;
        }
        let mut usage = run.usage.lock();
        let decision = with_call(subject, arguments, asked, |call| policy.decide(call, &usage, &CallCounts::default()));
        if policy.needs_usage() {
            usage.add(&subject.path, decision.rule.as_deref());
        }
        let before = asked.approver_of_call().and_then(|(approver, call)| approver.let_through_before(call));
        before.into_iter().for_each(|allowed| run.note(asked.call_id, let_through_by(allowed)));
    }
}

/// What reports have of a call that was let through.
fn let_through_by(allowed: AllowedBy) -> DecisionRecord {
    let (action, verdict) = match allowed.remembered {
        true => (Action::Ask, Some("remembered")),
        false => (Action::Allow, None),
    };
    DecisionRecord { action: action.name(), rule: allowed.rule, verdict, ..DecisionRecord::default() }
}

/// Notes what was decided about a call that was not let through, where the reply in the record of its run says so.
pub(crate) fn note_recorded_refusal(call: RepeatedCall<'_>, asked: &RequestContext) {
    let (Some(run), Err(fields), CallState::NotSent) = (&asked.run, call.body, call.state) else { return };
    let decision = serde_json::from_slice(fields).ok().and_then(|fields: Value| decision_of(&fields));
    decision.into_iter().for_each(|decision| run.note(asked.call_id, decision));
}
