//! Decides about a call by the policy: once, before anything is sent, for every door and route.
//!
//! A call that is denied fails with the rule's reason. A call that must be asked about waits for its run's approver, and is
//! then decided once more: the configuration may have changed meanwhile, and arguments that a person edited are new ones.
//! What is let through is counted before it is sent, so that calls made at the same time share a rule's limit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_catalog::ToolRef;
use toolgate_engine::HostError;
use toolgate_policy::{Action, Call, Cause, Decision, Foreknown, Policy, Traits, Usage};
use toolgate_wire::report::CallDecision;
use toolgate_wire::{CallId, CallState, Profile, Target};

use super::RequestContext;
use super::explain::QuestionedCall;
use crate::approvals::{AskedCall, RememberedRules, Verdict};

/// The code of a call that the policy, or a person, does not let through.
pub(crate) const DENIED: &str = "DENIED";
/// The code of a call about which nobody has decided in time.
pub(super) const EXPIRED: &str = "EXPIRED";

/// Whether a call failed by a decision, of the policy or of a person.
pub(crate) fn is_denial(code: &str) -> bool {
    matches!(code, DENIED | EXPIRED)
}

/// How the local user is named in rules.
pub(super) const LOCAL: &str = "local";
/// The kind of run of a call without one.
const DIRECT: &str = "direct";
/// Usage of earlier days is dropped past this number of callers.
const MAX_CALLERS: usize = 1024;
/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;

/// What the policy is asked about: a tool, or a host function.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// What is called, by its own names.
    pub(super) target: Target,
    /// `backend.tool` as programs write it, where that is another spelling.
    pub(super) spelling: Option<String>,
    /// What is known about its effects.
    pub(super) traits: Traits,
}

/// What the policy keeps of one run: the calls that were let through, and what was decided about each.
#[derive(Debug, Default)]
pub struct RunCalls {
    usage: Mutex<Usage>,
    decisions: Mutex<HashMap<u64, CallDecision>>,
    stop: CancellationToken,
    stopped: Mutex<Option<String>>,
}

impl RunCalls {
    /// For a run that this token ends.
    pub fn new(stop: CancellationToken) -> Self {
        RunCalls { stop, ..RunCalls::default() }
    }

    /// Takes what was decided about a call.
    pub fn take_decision(&self, id: CallId) -> Option<CallDecision> {
        self.decisions.lock().remove(&u64::from(id.0))
    }

    /// Why a person stopped the run, if one did.
    pub fn stopped_because(&self) -> Option<String> {
        self.stopped.lock().clone()
    }

    /// Notes what was decided about a call, where that is more than that no rule is about it.
    fn note(&self, call_id: u64, decision: CallDecision) {
        if decision.rule.is_some() || decision.action != Action::Allow.name() {
            self.decisions.lock().insert(call_id, decision);
        }
    }

    pub(super) fn stop(&self, reason: &str) {
        *self.stopped.lock() = Some(reason.to_owned());
        self.stop.cancel();
    }
}

/// The policy in force, and the calls of each caller today.
#[derive(Default)]
pub(super) struct CallPolicy {
    policy: RwLock<Arc<Policy>>,
    /// By caller: the day, and what was let through.
    days: Mutex<HashMap<String, (u64, Usage)>>,
    /// Approvals that stand for later calls.
    pub(super) remembered: RwLock<Arc<RememberedRules>>,
    /// Backends that an agent added while the gateway runs.
    added: RwLock<HashSet<String>>,
}

impl CallPolicy {
    /// Puts another policy in force. What was counted stays.
    pub(super) fn replace(&self, policy: Policy) {
        *self.policy.write() = Arc::new(policy);
    }

    pub(super) fn current(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read())
    }

    /// Decides about a call, asks where that is needed, and gives the arguments to send. The call is counted: one that is not sent
    /// after all is to be [taken back](CallPolicy::take_back).
    pub(super) async fn permit(
        &self,
        subject: &Subject,
        arguments: Value,
        asked: &RequestContext,
        check_edited: impl Fn(&Value) -> Result<(), HostError>,
    ) -> Result<(Value, Decision), HostError> {
        let decision = self.decide(subject, &arguments, asked);
        let mut record = noted(&decision);
        let note = |record: CallDecision| asked.run.iter().for_each(|run| run.note(asked.call_id, record.clone()));
        match decision.action {
            Action::Allow => {
                note(record);
                Ok((arguments, decision))
            }
            Action::Deny => {
                note(record);
                Err(denied(subject, &decision))
            }
            Action::Ask if self.is_remembered(subject, &arguments, &decision, asked) => {
                record.verdict = Some("remembered");
                note(record);
                Ok((arguments, decision))
            }
            Action::Ask => {
                let counted = Counted { policy: self, subject, decision: &decision, asked, keep: false };
                let answer = self.ask(subject, arguments, &decision, asked, &mut record, check_edited).await;
                note(record);
                match answer {
                    Ok(arguments) => {
                        counted.keep();
                        Ok((arguments, decision))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Whether a person has approved calls like this one before, and wants not to be asked again.
    fn is_remembered(&self, subject: &Subject, arguments: &Value, decision: &Decision, asked: &RequestContext) -> bool {
        let rules = Arc::clone(&self.remembered.read());
        let answer = with_call(subject, arguments, asked, |call| rules.answer(call, decision, asked.run_id.as_deref()));
        answer.is_some()
    }

    /// Decides, and counts the call where it is let through or asked about.
    fn decide(&self, subject: &Subject, arguments: &Value, asked: &RequestContext) -> Decision {
        let policy = self.current();
        if !policy.needs_usage() {
            let usage = Usage::default();
            return self.strictly(
                subject,
                &policy,
                with_call(subject, arguments, asked, |call| policy.decide(call, &usage, &usage)),
            );
        }
        let fresh = Mutex::default();
        let mut run = asked.run.as_ref().map_or(&fresh, |run| &run.usage).lock();
        let mut days = self.days.lock();
        let day = today(&mut days, caller_name(asked));
        let decision = with_call(subject, arguments, asked, |call| policy.decide(call, &run, day));
        let decision = self.strictly(subject, &policy, decision);
        if decision.action != Action::Deny {
            let path = subject.path();
            run.add(&path, decision.rule.as_deref());
            day.add(&path, decision.rule.as_deref());
        }
        decision
    }

    /// What would be decided about a call now, without counting it.
    pub(super) fn foretell(
        &self,
        subject: &Subject,
        arguments: &Value,
        asked: &RequestContext,
    ) -> Result<Decision, HostError> {
        let policy = self.current();
        let fresh = Mutex::default();
        let run = asked.run.as_ref().map_or(&fresh, |run| &run.usage).lock();
        let mut days = self.days.lock();
        let day = today(&mut days, caller_name(asked));
        let decision = with_call(subject, arguments, asked, |call| policy.decide(call, &run, day));
        let decision = self.strictly(subject, &policy, decision);
        if decision.action == Action::Deny { Err(denied(subject, &decision)) } else { Ok(decision) }
    }

    /// A backend that an agent added may be one that rules are about, under another name: where there are rules, a person is
    /// asked about calls that none is about.
    fn strictly(&self, subject: &Subject, policy: &Policy, decision: Decision) -> Decision {
        let is_added = subject.target.backend().is_some_and(|backend| self.added.read().contains(backend));
        match decision.cause {
            Cause::Default if is_added && !policy.rules().is_empty() && decision.action == Action::Allow => {
                Decision { action: Action::Ask, cause: Cause::AddedBackend, ..decision }
            }
            _ => decision,
        }
    }

    /// What the policy says about a call that is not made.
    pub(super) fn without_asking(&self, subject: &Subject, asked: &QuestionedCall<'_>) -> Decision {
        let (policy, usage) = (self.current(), Usage::default());
        let decision = subject.with_call(*asked, |call| policy.decide(call, &usage, &usage));
        self.strictly(subject, &policy, decision)
    }

    /// Notes whether an agent added a backend.
    pub(super) fn note_added(&self, backend: &str, is_added: bool) {
        let mut added = self.added.write();
        if is_added {
            added.insert(backend.to_owned());
        } else {
            added.remove(backend);
        }
    }

    /// Counts a call of a run that goes on from its record if it was sent, and notes what the policy in force now says about
    /// it: the record does not have what was decided then.
    pub(super) fn note_repeated(&self, subject: &Subject, arguments: &Value, asked: &RequestContext, state: CallState) {
        let (policy, Some(run)) = (self.current(), &asked.run) else { return };
        let mut usage = run.usage.lock();
        let decision = with_call(subject, arguments, asked, |call| policy.decide(call, &usage, &Usage::default()));
        if policy.needs_usage() && state != CallState::NotSent {
            usage.add(&subject.path(), decision.rule.as_deref());
        }
        run.note(asked.call_id, noted(&decision));
    }

    /// A call that was counted is not sent.
    pub(super) fn take_back(&self, subject: &Subject, decision: &Decision, asked: &RequestContext) {
        if !self.current().needs_usage() {
            return;
        }
        let (path, rule) = (subject.path(), decision.rule.as_deref());
        if let Some(run) = &asked.run {
            run.usage.lock().take_back(&path, rule);
        }
        today(&mut self.days.lock(), caller_name(asked)).take_back(&path, rule);
    }

    async fn ask(
        &self,
        subject: &Subject,
        arguments: Value,
        decision: &Decision,
        asked: &RequestContext,
        record: &mut CallDecision,
        check_edited: impl Fn(&Value) -> Result<(), HostError>,
    ) -> Result<Value, HostError> {
        let Some(approver) = &asked.approver else {
            record.verdict = None;
            return Err(cannot_ask(subject, decision));
        };
        let text = arguments.to_string();
        let rule = decision.rule.as_deref();
        let expires = rule.map_or(toolgate_policy::DEFAULT_EXPIRY, |rule| rule.expiry);
        let call = AskedCall {
            call_id: asked.call_id,
            target: subject.target.clone(),
            arguments: text.clone(),
            reason: decision.reason(),
            rule: rule.map(|rule| rule.id.clone()),
            rule_key: rule.map(|rule| rule.key()),
            approvers: rule.map(|rule| rule.approvers.iter().map(ToString::to_string).collect()).unwrap_or_default(),
            expires,
            form: None,
        };
        match tokio::time::timeout(expires, approver.ask(call)).await.unwrap_or(Verdict::Expired) {
            Verdict::Expired => {
                record.verdict = Some("expired");
                Err(expired(&subject.target))
            }
            Verdict::Approve { arguments: None } => {
                record.verdict = Some("approved");
                self.check_again(subject, &arguments, asked)?;
                Ok(arguments)
            }
            Verdict::Approve { arguments: Some(edited) } => {
                record.verdict = Some("edited");
                record.edited(&text, &edited);
                let edited = read_edited(&edited, &arguments)?;
                check_edited(&edited)?;
                self.check_again(subject, &edited, asked)?;
                Ok(edited)
            }
            Verdict::Deny { reason } => {
                record.verdict = Some("denied");
                Err(denied_by_person(subject, &reason, decision))
            }
            Verdict::Stop { reason } => {
                record.verdict = Some("stopped");
                if let Some(run) = &asked.run {
                    run.stop(&reason);
                }
                Err(denied_by_person(subject, &reason, decision))
            }
        }
    }

    /// Whether the policy in force now denies what a person approved. The call itself is counted already.
    fn check_again(&self, subject: &Subject, arguments: &Value, asked: &RequestContext) -> Result<(), HostError> {
        let policy = self.current();
        let decision =
            with_call(subject, arguments, asked, |call| policy.decide(call, &Usage::default(), &Usage::default()));
        match decision.action {
            Action::Deny => Err(denied(subject, &decision)),
            Action::Allow | Action::Ask => Ok(()),
        }
    }
}

/// A call that is counted before a person has decided about it, and taken back unless it is kept.
struct Counted<'a> {
    policy: &'a CallPolicy,
    subject: &'a Subject,
    decision: &'a Decision,
    asked: &'a RequestContext,
    keep: bool,
}

impl Counted<'_> {
    fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if !self.keep {
            self.policy.take_back(self.subject, self.decision, self.asked);
        }
    }
}

impl Subject {
    /// A tool of the catalog.
    pub(super) fn of(found: ToolRef<'_>) -> Self {
        let (backend, tool) = (found.backend.name(), found.tool().name.as_str());
        let (path, spelling) = (found.path(), found.spelling());
        Subject {
            target: Target::Tool { backend: backend.to_owned(), tool: tool.to_owned() },
            spelling: (spelling != path).then_some(spelling),
            traits: Traits::of(backend, tool, found.tool().raw().get("annotations")),
        }
    }

    /// A request of a client to a backend that only reads.
    pub(super) fn request(backend: &str, method: &str) -> Self {
        let target = Target::Tool { backend: backend.to_owned(), tool: method.to_owned() };
        Subject { target, spelling: None, traits: Traits { read_only: true, destructive: false, ..Traits::UNKNOWN } }
    }

    /// A host function, of which it is known whether this call changes nothing.
    pub(super) fn function(name: &str, reads_only: bool) -> Self {
        let known = Traits { read_only: true, destructive: false, ..Traits::UNKNOWN };
        let traits = if reads_only { known } else { Traits::UNKNOWN };
        Subject { target: Target::Function(name.to_owned()), spelling: None, traits }
    }

    /// A tool that there is not, by the name that it was asked for.
    pub(super) fn unknown(path: &str) -> Self {
        let target = match path.split_once('.') {
            Some((backend, tool)) => Target::Tool { backend: backend.to_owned(), tool: tool.to_owned() },
            None => Target::Function(path.to_owned()),
        };
        let (backend, tool) = path.split_once('.').unwrap_or(("", path));
        Subject { target, spelling: None, traits: Traits::of(backend, tool, None) }
    }

    /// The call that a policy decides about.
    pub(super) fn with_call<T>(&self, asked: QuestionedCall<'_>, use_call: impl FnOnce(&Call<'_>) -> T) -> T {
        let path = self.path();
        let paths = [path.as_str(), self.spelling.as_deref().unwrap_or(&path)];
        let (backend, tool) = match &self.target {
            Target::Tool { backend, tool } => (backend.as_str(), tool.as_str()),
            Target::Function(name) => ("", name.as_str()),
        };
        use_call(&Call {
            paths: if self.spelling.is_some() { &paths } else { &paths[..1] },
            backend,
            tool,
            traits: self.traits,
            caller: asked.caller,
            profile: asked.profile,
            args: asked.arguments,
        })
    }

    /// `backend.tool` by their own names, or the function's name.
    fn path(&self) -> String {
        self.target.to_string()
    }
}

/// What the policy certainly does to a call of a chain that is not made yet.
pub(crate) fn foresee(
    policy: &Policy,
    found: ToolRef<'_>,
    caller: &str,
    arguments: Option<&Value>,
) -> Option<Decision> {
    // As they will be sent: JavaScript writes 1.0 as 1.
    let known: Option<Value> = arguments.and_then(|it| serde_json::from_str(&toolgate_json::stringify(it)).ok());
    let foreknown = if known.is_some() { Foreknown::Yes } else { Foreknown::No };
    let asked = RequestContext { name: caller.to_owned(), profile: Some(Profile::Chain), ..RequestContext::default() };
    with_call(&Subject::of(found), known.as_ref().unwrap_or(&Value::Null), &asked, |call| {
        policy.foresee(call, foreknown)
    })
}

/// A decision as reports have it.
fn noted(decision: &Decision) -> CallDecision {
    let rule = decision.rule.as_ref().map(|rule| rule.id.clone());
    CallDecision { action: decision.action.name(), rule, ..CallDecision::default() }
}

/// How rules name the caller.
fn caller_name(asked: &RequestContext) -> &str {
    if asked.name.is_empty() { LOCAL } else { &asked.name }
}

fn with_call<T>(
    subject: &Subject,
    arguments: &Value,
    asked: &RequestContext,
    use_call: impl FnOnce(&Call<'_>) -> T,
) -> T {
    let profile = asked.profile.map_or(DIRECT, |profile| profile.name());
    let path = subject.path();
    let question = QuestionedCall { path: &path, arguments, caller: caller_name(asked), profile };
    subject.with_call(question, use_call)
}

fn today<'a>(days: &'a mut HashMap<String, (u64, Usage)>, caller: &str) -> &'a mut Usage {
    let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / DAY);
    usage_on(days, caller, day)
}

fn usage_on<'a>(days: &'a mut HashMap<String, (u64, Usage)>, caller: &str, day: u64) -> &'a mut Usage {
    // Callers of an OAuth issuer come and go: what they did on earlier days counts no more.
    if days.len() >= MAX_CALLERS && !days.contains_key(caller) {
        days.retain(|_, (of, _)| *of == day);
    }
    let (of, usage) = days.entry(caller.to_owned()).or_default();
    if *of != day {
        (*of, *usage) = (day, Usage::default());
    }
    usage
}

/// Edited arguments keep their kind: a tool takes an object, a function a list.
fn read_edited(text: &str, original: &Value) -> Result<Value, HostError> {
    let invalid = |message: String| HostError::not_sent("INVALID_ARGUMENTS", message);
    let edited: Value = serde_json::from_str(text)
        .map_err(|error| invalid(format!("the arguments that a person edited are not JSON: {error}")))?;
    match (original, &edited) {
        (Value::Object(_), Value::Object(_)) | (Value::Array(_), Value::Array(_)) => Ok(edited),
        (Value::Array(_), _) => Err(invalid("the arguments that a person edited are no list".to_owned())),
        _ => Err(invalid("the arguments that a person edited are no object".to_owned())),
    }
}

fn denied(subject: &Subject, decision: &Decision) -> HostError {
    let message = format!("{} is denied by the policy: {}", subject.target, decision.reason());
    HostError::not_sent(DENIED, message).with_data(data(decision, None))
}

fn denied_by_person(subject: &Subject, reason: &str, decision: &Decision) -> HostError {
    let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let message = format!("a person denied {}{why}", subject.target);
    HostError::not_sent(DENIED, message).with_data(data(decision, Some(reason)))
}

fn cannot_ask(subject: &Subject, decision: &Decision) -> HostError {
    let message = format!(
        "a person must approve {}: {}. This run cannot ask one: start it as a durable run, and decide with `toolgate \
         approve` or POST /v1/runs/{{runId}}/decisions",
        subject.target,
        decision.reason()
    );
    HostError::not_sent(DENIED, message).with_data(data(decision, None))
}

fn data(decision: &Decision, reason: Option<&str>) -> Value {
    let mut data = Map::new();
    if let Some(rule) = &decision.rule {
        data.insert("rule".to_owned(), json!(rule.id));
    }
    data.insert("do".to_owned(), json!(decision.action.name()));
    data.insert("reason".to_owned(), json!(reason.map_or_else(|| decision.reason(), str::to_owned)));
    Value::Object(data)
}

/// The error of a call whose question was not answered before it expired.
pub(super) fn expired(target: &Target) -> HostError {
    HostError::not_sent(EXPIRED, format!("nobody decided about {target} in time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_earlier_days_is_dropped_when_there_are_many_callers() {
        let mut days = HashMap::new();
        for n in 0..MAX_CALLERS {
            usage_on(&mut days, &n.to_string(), 1).add("b.tool", None);
        }
        usage_on(&mut days, "0", 2).add("b.tool", None);
        assert_eq!(days.len(), MAX_CALLERS, "a known caller makes no room");
        usage_on(&mut days, "new", 2);
        assert_eq!(days.len(), 2, "today's usage stays");
    }
}
