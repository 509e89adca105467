//! What has to be decided before a run that was taken over goes on.
//!
//! A call that was sent before its process died, and not answered, may have taken effect: a person says whether it is sent
//! again. A tool that the run has called and whose schema has changed since may not be what the program was written for: a
//! person says whether the run goes on. Nothing is executed before that.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use toolgate_engine::host::Target;
use toolgate_engine::transcript::{AfterReplay, OpenCall};
use toolgate_journal::durable::PendingCall;
use toolgate_journal::entry::Event;
use toolgate_journal::recording::Record;
use toolgate_journal::replay::{Replayable, clock};
use toolgate_wire::{CallErrorCode, CallId, CallState, Code, Failure};

use super::decision::{CallDecision, DecisionKind};
use super::schemas::hash_of;
use super::staged::{edited_line, last_line};
use super::view::{About, PendingView, RawJson, decision_of, question_of};
use super::{Inner, RunRequest, UnknownCalls, unix_ms};
use toolgate_bridge::Bridge;

/// How long such a question stands.
const EXPIRY: Duration = Duration::from_secs(24 * 3600);
/// Added to the number of a call for each time that it was sent: every such question has a number of its own, so that an
/// earlier decision about the same call does not count for it.
const SENT_ONCE: u32 = 1_000_000;
/// Numbers of questions about schemas begin here. A call is not sent a thousand times before.
const FIRST_SCHEMA: u32 = 1_000_000_000;

/// What becomes of a run that was taken over.
pub(super) enum Settled {
    /// It goes on.
    GoOn,
    /// It waits for decisions about these.
    Ask(Vec<PendingView>),
    /// It ends.
    End(Failure),
}

impl Inner {
    /// Applies what was decided to the calls that are open, and finds what is still to be decided.
    pub(super) fn settle(
        &self,
        record: &Record,
        replayable: &mut Replayable,
        request: &RunRequest,
        asked: &[PendingCall],
    ) -> Settled {
        let asked = Asked::of(asked);
        let current = |target: &Target| hash_of(&self.runner.bridge, &request.caller, target);
        match changed_schemas(record, &current, &asked) {
            Settled::GoOn => {}
            other => return other,
        }
        let AfterReplay::GoOn(open) = &mut replayable.replay.then else { return Settled::GoOn };
        let may_ask = match self.settings.unknown_calls {
            UnknownCalls::Ask => true,
            UnknownCalls::End => false,
            UnknownCalls::Auto => self.runner.bridge.policy().may_ask(),
        };
        let resent = Resent { bridge: &self.runner.bridge, request, asked: &asked };
        if may_ask { unknown_calls(record, open, &resent) } else { Settled::GoOn }
    }
}

/// What is called, by the names that its backend itself uses: a program may write others.
pub(crate) fn own_names(bridge: &Bridge, target: &Target) -> Target {
    let Target::Tool { backend, tool } = target else { return target.clone() };
    let catalog = bridge.catalog();
    let found = catalog.tool(backend, tool);
    found.map_or_else(
        || target.clone(),
        |found| Target::Tool { backend: found.backend.name().to_owned(), tool: found.tool().name.clone() },
    )
}

/// How a call of unknown effect would be sent again.
struct Resent<'a> {
    bridge: &'a Bridge,
    request: &'a RunRequest,
    asked: &'a Asked,
}

impl Resent<'_> {
    /// The number of the question of a rule about a call.
    fn rule_number(&self, id: CallId) -> u32 {
        id.0.saturating_add(last_line(self.request))
    }

    /// The arguments that a person gave to the call.
    fn edited(&self, id: CallId) -> Option<String> {
        let decided = self.asked.get(self.rule_number(id)).filter(|(question, _)| question.about.is_rule());
        let decision = decided.and_then(|(_, decision)| decision.as_ref());
        let edited = decision.filter(|it| it.decision == DecisionKind::Edit).and_then(|it| it.arguments.as_ref());
        edited.map(|edited| edited.get().to_owned()).or_else(|| edited_line(self.request, id))
    }

    /// Who had to approve the call, or others of its target: they also say whether it is sent again.
    fn approvers(&self, id: CallId, target: &Target) -> Vec<String> {
        let own = self.asked.get(self.rule_number(id)).map(|(question, _)| question);
        let own = own.filter(|it| it.about.is_rule() && !it.approvers.is_empty());
        own.map_or_else(|| self.asked.approvers_of(&own_names(self.bridge, target)), |it| it.approvers.clone())
    }
}

/// Questions that were asked before, with their decisions.
struct Asked(Vec<(PendingView, Option<CallDecision>)>);

impl Asked {
    fn of(asked: &[PendingCall]) -> Self {
        let read = asked.iter().filter_map(|call| {
            let question = question_of(call)?;
            let decision = decision_of(call).filter(|decision| !decision.is_late(question.expires_at));
            Some((question, decision))
        });
        Asked(read.collect())
    }

    fn get(&self, number: u32) -> Option<&(PendingView, Option<CallDecision>)> {
        self.0.iter().find(|(question, _)| question.call_id == number)
    }

    /// Who had to approve calls of this target, by the names that its backend itself uses.
    fn approvers_of(&self, target: &Target) -> Vec<String> {
        let mut rules = self.0.iter().map(|(it, _)| it).filter(|it| it.about.is_rule() && it.is_of(target));
        rules.find(|it| !it.approvers.is_empty()).map(|it| it.approvers.clone()).unwrap_or_default()
    }
}

/// A call as its record has it.
pub(super) struct RecordedCall {
    target: Target,
    args: String,
    /// How often it was sent, and when for the last time.
    sent: u32,
    sent_at: u64,
    schema: Option<String>,
}

/// The calls of a record, by their numbers.
pub(super) fn calls_of(record: &Record) -> BTreeMap<u32, RecordedCall> {
    let mut calls = BTreeMap::new();
    for entry in &record.entries {
        match &entry.event {
            Event::Call(call) => {
                let args = record.blobs.text(&call.args).unwrap_or_default().to_owned();
                let (target, schema) = ((&call.target).into(), call.schema.clone());
                calls.insert(call.id, RecordedCall { target, args, sent: 0, sent_at: 0, schema });
            }
            Event::Intent { id, sent } => {
                if let Some(call) = calls.get_mut(id) {
                    call.sent += 1;
                    call.sent_at = *sent;
                }
            }
            _ => {}
        }
    }
    calls
}

/// The hash of the schemas that the tool of a call had when the call was made; the first call of a tool in a process has it.
pub(super) fn schema_then(calls: &BTreeMap<u32, RecordedCall>, id: CallId, target: &Target) -> Option<String> {
    calls.range(..=id.0).rev().filter(|(_, call)| call.target == *target).find_map(|(_, call)| call.schema.clone())
}

impl RecordedCall {
    /// A question about the call with these arguments.
    fn question(&self, call_id: u32, args: &str, reason: String, about: About) -> Option<PendingView> {
        let (backend, tool) = match self.target.clone() {
            Target::Tool { backend, tool } => (Some(backend), tool),
            Target::Function(name) => (None, name),
        };
        let now = unix_ms();
        Some(PendingView {
            call_id,
            backend,
            tool,
            arguments: Box::new(RawJson(RawValue::from_string(args.to_owned()).ok()?)),
            reason,
            rule: None,
            rule_key: None,
            asked_input: None,
            approvers: Vec::new(),
            asked_at: now,
            expires_at: now.saturating_add(u64::try_from(EXPIRY.as_millis()).unwrap_or(u64::MAX)),
            about,
            login: None,
            staged: None,
        })
    }

    /// The reply to a call that is not sent again.
    fn refused(&self, reason: Option<&str>) -> OpenCall {
        let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let message = format!(
            "{} was sent at {} and not answered, so its effect is unknown; a person decided that it is not sent again{why}",
            self.target,
            clock(self.sent_at)
        );
        let mut fields = json!({ "message": message, "code": CallErrorCode::UnknownEffect, "data": null });
        if let Target::Tool { backend, tool } = &self.target {
            fields["backend"] = backend.as_str().into();
            fields["tool"] = tool.as_str().into();
        }
        OpenCall::Answered { state: CallState::Unknown, body: Err(fields.to_string().into_bytes()) }
    }
}

/// Treats calls of unknown effect as was decided. What is left unknown ends the run, which names it.
fn unknown_calls(record: &Record, open: &mut HashMap<CallId, OpenCall>, resent: &Resent<'_>) -> Settled {
    let calls = calls_of(record);
    let mut questions = Vec::new();
    for (id, treated) in open.iter_mut().filter(|(_, treated)| matches!(treated, OpenCall::Unknown { .. })) {
        let Some(call) = calls.get(&id.0) else { continue };
        let number = call.sent.saturating_mul(SENT_ONCE).saturating_add(id.0);
        let Some((question, decision)) = resent.asked.get(number) else {
            let reason = format!("sent at {}, no answer: approve sends it again", clock(call.sent_at));
            let about = About::UnknownEffect { call: id.0, sent_at: call.sent_at };
            let (approvers, edited) = (resent.approvers(*id, &call.target), resent.edited(*id));
            let question = call.question(number, edited.as_ref().unwrap_or(&call.args), reason, about);
            questions.extend(question.map(|it| PendingView { approvers, ..it }));
            continue;
        };
        match decision {
            Some(decision) => match (decision.decision, &decision.arguments) {
                (DecisionKind::Approve, _) => *treated = OpenCall::Make,
                (DecisionKind::Answer, Some(answer)) => {
                    let body = Ok(answer.get().as_bytes().to_vec());
                    *treated = OpenCall::Answered { state: CallState::Applied, body };
                }
                (DecisionKind::Stop, _) => return Settled::End(stopped(decision.reason.as_deref())),
                (DecisionKind::Deny | DecisionKind::Edit | DecisionKind::Answer, _) => {
                    *treated = call.refused(decision.reason.as_deref());
                }
            },
            // No decision in time: the call stays unknown.
            None if question.expires_at <= unix_ms() => return Settled::GoOn,
            None => questions.push(question.clone()),
        }
    }
    questions.sort_by_key(|question| question.call_id);
    if questions.is_empty() { Settled::GoOn } else { Settled::Ask(questions) }
}

/// Finds tools whose schemas are not those that they had when the run called them.
fn changed_schemas(record: &Record, current: &dyn Fn(&Target) -> Option<String>, asked: &Asked) -> Settled {
    let mut used: HashMap<Target, (u32, String)> = HashMap::new();
    let calls = calls_of(record);
    for (id, call) in &calls {
        if let Some(schema) = &call.schema {
            used.insert(call.target.clone(), (*id, schema.clone()));
        }
    }
    let mut next = asked.0.iter().map(|(question, _)| question.call_id).filter(|id| *id >= FIRST_SCHEMA).max();
    let mut questions = Vec::new();
    let mut used: Vec<(u32, Target, String)> =
        used.into_iter().map(|(target, (id, hash))| (id, target, hash)).collect();
    used.sort_by_key(|(id, ..)| *id);
    for (id, target, then) in used {
        // A tool that is gone fails at the call that needs it.
        let Some(now) = current(&target).filter(|now| *now != then) else { continue };
        match about_schema(asked, &target, &now) {
            Some((_, Some(decision))) => match decision.decision {
                DecisionKind::Approve | DecisionKind::Edit | DecisionKind::Answer => {}
                DecisionKind::Deny | DecisionKind::Stop => return Settled::End(not_with(&target, decision)),
            },
            Some((question, None)) if question.expires_at <= unix_ms() => {
                let message = format!(
                    "the schema of {target} has changed since this run called it, and no decision came in time"
                );
                return Settled::End(Failure::new(Code::Runtime, message));
            }
            Some((question, None)) => questions.push(question.clone()),
            None => {
                let number = next.map_or(FIRST_SCHEMA, |last| last.saturating_add(1));
                next = Some(number);
                let reason = format!("the schema of {target} has changed since this run called it: approve goes on");
                let about = About::ChangedSchema { schema: now };
                questions.extend(calls.get(&id).and_then(|call| call.question(number, &call.args, reason, about)));
            }
        }
    }
    if questions.is_empty() { Settled::GoOn } else { Settled::Ask(questions) }
}

/// The question about this schema of a tool, if it was asked.
fn about_schema<'a>(asked: &'a Asked, target: &Target, now: &str) -> Option<&'a (PendingView, Option<CallDecision>)> {
    let Target::Tool { backend, tool } = target else { return None };
    asked.0.iter().find(|(question, _)| {
        let is_tool = question.backend.as_ref() == Some(backend) && question.tool == *tool;
        is_tool && matches!(&question.about, About::ChangedSchema { schema } if schema == now)
    })
}

fn not_with(target: &Target, decision: &CallDecision) -> Failure {
    let reason = decision.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    let message = format!("a person decided that the run does not go on with the changed schema of {target}{reason}");
    Failure::new(Code::Aborted, message)
}

/// How a run ends that a person stopped.
pub(super) fn stopped(reason: Option<&str>) -> Failure {
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    Failure::new(Code::Aborted, format!("a person stopped the run{reason}"))
}
