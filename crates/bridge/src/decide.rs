//! Decides about a call by the policy: once, before anything is sent, for every door and route.
//!
//! A call that is denied fails with the rule's reason. A call that must be asked about waits for its run's approver, and is
//! then decided once more: the configuration may have changed meanwhile, and arguments that a person edited are new ones.
//! A call that a person was asked about before this process had its run is not decided by the policy of now alone (`kept`).
//! What is let through is counted before it is sent, so that calls made at the same time share a rule's limit.

mod counted;
mod kept;
mod refusals;
mod subject;

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_catalog::ToolRef;
use toolgate_engine::HostError;
use toolgate_journal::entry::AllowedBy;
use toolgate_policy::{Action, CallCounts, Cause, Foreknown, Policy, PolicyCall, PolicyDecision, Rule};
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallErrorCode, CallId, Profile};

use super::RequestContext;
use super::day_counts::{DayCounts, MemoryCounts, Today};
use super::explain::QuestionedCall;
use super::question_watch::QuestionWatch;
use crate::approvals::{AskedCall, RememberedRules, Verdict};

pub(super) use counted::CountedCall;
use counted::{Counting, WaitingCall, note_counted};
use kept::{asked_about, was_answered_for};
pub(super) use kept::{note_recorded_refusal, open_question, refused_before};
use refusals::{cannot_ask, cannot_count, denied, other_approvers, too_late_to_ask};
pub(super) use refusals::{denied_by_person, expired};
pub(super) use subject::Subject;

/// How the local user is named in rules.
pub(super) const LOCAL: &str = "local";
/// The kind of run of a call without one.
const DIRECT: &str = "direct";
/// How often a call is decided about anew because others were counted at the same time.
const MAX_ROUNDS: usize = 16;

/// Whether arguments that a person edited can be sent.
pub(super) type EditCheck<'e> = Pin<Box<dyn Future<Output = Result<(), HostError>> + Send + 'e>>;

/// What the policy keeps of one run: the calls that were let through, and what was decided about each.
#[derive(Debug, Default)]
pub struct RunCalls {
    usage: Mutex<CallCounts>,
    decisions: Mutex<HashMap<u64, DecisionRecord>>,
    stop: CancellationToken,
    stopped: Mutex<Option<String>>,
    /// Of a run that begins again when a person has to be asked.
    watch: Option<Arc<QuestionWatch>>,
}

impl RunCalls {
    /// For a run that this token ends.
    pub fn new(stop: CancellationToken) -> Self {
        RunCalls { stop, ..RunCalls::default() }
    }

    /// For a run that begins again when a person has to be asked, where it can.
    pub fn watched_by(self, watch: Option<Arc<QuestionWatch>>) -> Self {
        RunCalls { watch, ..self }
    }

    pub(super) fn watch(&self) -> Option<&QuestionWatch> {
        self.watch.as_deref()
    }

    /// Ends the run so that it begins again, where it can: a person has to be asked about this call, or by its backend.
    pub(super) async fn begin_again(&self, call_id: u64, backend: Option<&str>) -> bool {
        let begins_again = match &self.watch {
            Some(watch) => watch.asks(call_id, backend).await,
            None => false,
        };
        if begins_again {
            self.stop.cancel();
        }
        begins_again
    }

    /// Whether the run cannot begin again for this call because it may have changed something.
    pub(super) fn has_changed_before(&self, call_id: u64) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.has_changed_before(call_id))
    }

    /// Whether a person is needed for this call of a rehearsal.
    pub fn needs_person(&self, id: CallId) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.needs_person(u64::from(id.0)))
    }

    /// Takes what was decided about a call.
    pub fn take_decision(&self, id: CallId) -> Option<DecisionRecord> {
        self.decisions.lock().remove(&u64::from(id.0))
    }

    /// Why a person stopped the run, if one did.
    pub fn stopped_because(&self) -> Option<String> {
        self.stopped.lock().clone()
    }

    /// Notes what was decided about a call, where that is more than that no rule is about it.
    fn note(&self, call_id: u64, decision: DecisionRecord) {
        if is_worth_noting(&decision) {
            self.decisions.lock().insert(call_id, decision);
        }
    }

    pub(super) fn stop(&self, reason: &str) {
        *self.stopped.lock() = Some(reason.to_owned());
        self.stop.cancel();
    }
}

/// The policy in force, and the calls of each caller today.
pub(super) struct CallPolicy {
    policy: RwLock<Arc<Policy>>,
    /// What was let through today.
    days: RwLock<Arc<dyn DayCounts>>,
    /// Calls that a person is asked about, by what they will count for. Those of other processes are not known here.
    waiting: Mutex<HashMap<String, u64>>,
    /// Approvals that stand for later calls.
    pub(super) remembered: RwLock<Arc<RememberedRules>>,
    /// Backends that an agent added while the gateway runs.
    added: RwLock<HashSet<String>>,
}

impl Default for CallPolicy {
    fn default() -> Self {
        CallPolicy {
            policy: RwLock::default(),
            days: RwLock::new(Arc::new(MemoryCounts::default())),
            waiting: Mutex::default(),
            remembered: RwLock::default(),
            added: RwLock::default(),
        }
    }
}

impl CallPolicy {
    /// Puts another policy in force. What was counted stays.
    pub(super) fn replace(&self, policy: Policy) {
        *self.policy.write() = Arc::new(policy);
    }

    /// Counts calls of a day elsewhere.
    pub(super) fn count_in(&self, days: Arc<dyn DayCounts>) {
        *self.days.write() = days;
    }

    fn days(&self) -> Arc<dyn DayCounts> {
        Arc::clone(&self.days.read())
    }

    pub(super) fn current(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read())
    }

    /// Decides about a call, asks where that is needed, and gives the arguments to send. The call is counted: one that is not sent
    /// after all is to be [taken back](CallPolicy::take_back).
    pub(super) async fn permit<'e>(
        &self,
        subject: &Subject,
        arguments: Value,
        asked: &RequestContext,
        check_edited: impl Fn(Value) -> EditCheck<'e>,
    ) -> Result<(Value, CountedCall), HostError> {
        if let Some(refused) = refused_before(&subject.target, asked).await {
            return Err(refused);
        }
        let kept = open_question(asked);
        let is_let_through = |decision: &PolicyDecision| match decision.action {
            // What a person was asked about waits for the answer, whatever the policy says by now.
            _ if kept.is_some() => false,
            Action::Allow => true,
            Action::Ask => self.is_remembered(subject, &arguments, decision, asked),
            Action::Deny => false,
        };
        let (decision, counted) = self.decide(subject, &arguments, asked, None, is_let_through).await?;
        let mut record = noted(&decision);
        let note = |record: DecisionRecord| asked.run.iter().for_each(|run| run.note(asked.call_id, record.clone()));
        match (decision.action, counted) {
            (Action::Deny, _) => {
                note(record);
                Err(denied(subject, &decision))
            }
            (action, Counting::Counted(counted)) => {
                let remembered = action == Action::Ask;
                record.verdict = remembered.then_some("remembered");
                if let Some((approver, call)) = asked.approver_of_call().filter(|_| is_worth_noting(&record)) {
                    approver.lets_through(call, AllowedBy { rule: record.rule.clone(), remembered });
                }
                note(record);
                Ok((arguments, counted))
            }
            (_, Counting::Waits(today)) => {
                let mut record = kept.map_or(record, |kept| asked_about(kept.rule));
                let waits = WaitingCall::new(self, subject, &decision, asked, today);
                let answer = self.ask(subject, arguments, &waits, &mut record, check_edited).await;
                note(record);
                answer
            }
        }
    }

    /// Whether a person has approved calls like this one before, and wants not to be asked again.
    fn is_remembered(
        &self,
        subject: &Subject,
        arguments: &Value,
        decision: &PolicyDecision,
        asked: &RequestContext,
    ) -> bool {
        let rules = Arc::clone(&self.remembered.read());
        let answer = with_call(subject, arguments, asked, |call| rules.answer(call, decision, asked.run_id.as_deref()));
        answer.is_some()
    }

    /// Decides, and counts the call where it `is_let_through`. One that is denied is not; one that a person is to be asked about
    /// counts in its run only. `waits` is the same call, where it was asked about before.
    async fn decide(
        &self,
        subject: &Subject,
        arguments: &Value,
        asked: &RequestContext,
        waits: Option<&WaitingCall<'_>>,
        is_let_through: impl Fn(&PolicyDecision) -> bool,
    ) -> Result<(PolicyDecision, Counting), HostError> {
        for _ in 0..MAX_ROUNDS {
            let policy = self.current();
            let mut today = self.look_up(&policy, subject, asked).await?;
            let decide = |today: Option<&Today>| self.decide_in_run(&policy, subject, arguments, asked, waits, today);
            let decision = decide(today.as_ref());
            if decision.action == Action::Deny || !is_let_through(&decision) {
                return Ok((decision, Counting::Waits(today)));
            }
            let mut counted = CountedCall::in_run(subject, &decision);
            let Some(today) = &mut today else { return Ok((decision, Counting::Counted(counted))) };
            let names = today.names_of(decision.rule.as_deref());
            let before = match self.days().add(today.day, names.clone()).await {
                Ok(before) => before,
                Err(error) => {
                    self.take_back(&counted, asked.run.as_deref());
                    return Err(cannot_count(subject, &error));
                }
            };
            counted.day = Some((today.day, names));
            note_counted(&counted, asked);
            if today.update(&counted.names(), &before) {
                return Ok((decision, Counting::Counted(counted)));
            }
            // Others were counted since the counts were read: does the same come of those that this call found?
            self.take_back_in_run(&counted, asked.run.as_deref());
            let again = decide(Some(today));
            if again.action == decision.action && rule_key(&again) == rule_key(&decision) {
                return Ok((again, Counting::Counted(counted)));
            }
            let in_run = CountedCall::in_run(subject, &again);
            if again.action != Action::Deny {
                self.take_back_in_run(&in_run, asked.run.as_deref());
            }
            self.take_back_in_day(&counted, asked.run.as_deref());
        }
        let message =
            format!("{} was not sent: too many calls are counted at the same time. Try again", subject.target);
        Err(HostError::not_sent(CallErrorCode::Denied, message))
    }

    /// What was counted today of that which decides about a call; `None` where no rule about it depends on that.
    async fn look_up(
        &self,
        policy: &Policy,
        subject: &Subject,
        asked: &RequestContext,
    ) -> Result<Option<Today>, HostError> {
        let Some(mut today) = self.today(policy, subject, asked) else { return Ok(None) };
        let counts = self.days().read(today.day, today.names()).await;
        today.set(counts.map_err(|error| cannot_count(subject, &error))?);
        Ok(Some(today))
    }

    fn today(&self, policy: &Policy, subject: &Subject, asked: &RequestContext) -> Option<Today> {
        // A call that goes on because a person answered its server was let through and counted before.
        if asked.approver.as_ref().is_some_and(|approver| !approver.asked_forms(asked.call_id).is_empty()) {
            return None;
        }
        let path = &*subject.path;
        let rules = policy.daily_rules(&[path, subject.spelling.as_deref().unwrap_or(path)])?;
        Some(Today::new(caller_name(asked), path.to_owned(), rules))
    }

    /// Decides by these counts of the day, and counts the call in its run unless it is denied.
    fn decide_in_run(
        &self,
        policy: &Policy,
        subject: &Subject,
        arguments: &Value,
        asked: &RequestContext,
        waits: Option<&WaitingCall<'_>>,
        today: Option<&Today>,
    ) -> PolicyDecision {
        let fresh = Mutex::default();
        let mut run = asked.run.as_ref().map_or(&fresh, |run| &run.usage).lock();
        if let Some(waits) = waits.filter(|waits| waits.in_run.swap(false, Ordering::Relaxed)) {
            run.take_back(&subject.path, waits.decision.rule.as_deref());
        }
        let day = self.usage_of(today, waits);
        let decision = with_call(subject, arguments, asked, |call| policy.decide(call, &run, &day));
        let decision = self.strictly(subject, policy, decision);
        if policy.needs_usage() && decision.action != Action::Deny {
            run.add(&subject.path, decision.rule.as_deref());
        }
        decision
    }

    /// The calls of the day, with those that wait, one aside.
    fn usage_of(&self, today: Option<&Today>, without: Option<&WaitingCall<'_>>) -> CallCounts {
        let Some(today) = today else { return CallCounts::default() };
        let waiting = self.waiting.lock();
        today.usage(|name| {
            let own = without.map_or(0, |it| it.names.iter().filter(|own| *own == name).count() as u64);
            waiting.get(name).copied().unwrap_or_default().saturating_sub(own)
        })
    }

    /// What would be decided about a call now, without counting it. What other processes counted today is not known here: it is when
    /// the call is made.
    pub(super) fn foretell(
        &self,
        subject: &Subject,
        arguments: &Value,
        asked: &RequestContext,
    ) -> Result<PolicyDecision, HostError> {
        let policy = self.current();
        let fresh = Mutex::default();
        let run = asked.run.as_ref().map_or(&fresh, |run| &run.usage).lock();
        let mut today = self.today(&policy, subject, asked);
        if let Some(today) = &mut today {
            today.set(self.days().known(today.day, &today.names()));
        }
        let day = self.usage_of(today.as_ref(), None);
        let decision = with_call(subject, arguments, asked, |call| policy.decide(call, &run, &day));
        let decision = self.strictly(subject, &policy, decision);
        if decision.action == Action::Deny { Err(denied(subject, &decision)) } else { Ok(decision) }
    }

    /// A backend that an agent added may be one that rules are about, under another name, and may say anything of its tools: where
    /// there are rules, a person is asked about calls that no rule allows by the name of the backend.
    fn strictly(&self, subject: &Subject, policy: &Policy, decision: PolicyDecision) -> PolicyDecision {
        let Some(backend) = subject.target.backend() else { return decision };
        if decision.action != Action::Allow || policy.rules().is_empty() || !self.added.read().contains(backend) {
            return decision;
        }
        let spelled = subject.spelling.as_deref().and_then(|path| path.split('.').next());
        let names_it = |rule: &Rule| {
            let tail = |name: &str| rule.tool.as_str().strip_prefix(name).is_some_and(|tail| tail.starts_with('.'));
            tail(backend) || spelled.is_some_and(tail)
        };
        if decision.rule.as_deref().is_some_and(names_it) {
            return decision;
        }
        PolicyDecision { action: Action::Ask, cause: Cause::AddedBackend, rule: None }
    }

    /// What the policy says about a call that is not made.
    pub(super) fn without_asking(&self, subject: &Subject, asked: &QuestionedCall<'_>) -> PolicyDecision {
        let (policy, usage) = (self.current(), CallCounts::default());
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

    /// A call that was counted is not sent.
    pub(super) fn take_back(&self, counted: &CountedCall, run: Option<&RunCalls>) {
        self.take_back_in_run(counted, run);
        self.take_back_in_day(counted, run);
    }

    fn take_back_in_run(&self, counted: &CountedCall, run: Option<&RunCalls>) {
        if let Some(run) = run {
            run.usage.lock().take_back(&counted.path, counted.rule.as_deref());
        }
    }

    fn take_back_in_day(&self, counted: &CountedCall, run: Option<&RunCalls>) {
        let Some((day, names)) = &counted.day else { return };
        if let Some(watch) = run.and_then(|run| run.watch()) {
            watch.took_back(*day, names);
        }
        self.days().take_back(*day, names.iter().map(|name| (name.clone(), 1)).collect());
    }

    /// Takes back what a run counted in the day that begins again: its second attempt counts the same calls.
    pub(super) fn take_back_first_attempt(&self, watch: &QuestionWatch) {
        for (day, names) in watch.take_counted() {
            self.days().take_back(day, names);
        }
    }

    async fn ask<'e>(
        &self,
        subject: &Subject,
        arguments: Value,
        waits: &WaitingCall<'_>,
        record: &mut DecisionRecord,
        check_edited: impl Fn(Value) -> EditCheck<'e>,
    ) -> Result<(Value, CountedCall), HostError> {
        let (decision, asked) = (waits.decision, waits.asked);
        let Some(approver) = &asked.approver else {
            if let Some(run) = &asked.run
                && run.begin_again(asked.call_id, None).await
            {
                // The call is dropped with the run.
                return std::future::pending().await;
            }
            record.verdict = None;
            let has_changed = asked.run.as_ref().is_some_and(|run| run.has_changed_before(asked.call_id));
            return Err(if has_changed { too_late_to_ask(subject, decision) } else { cannot_ask(subject, decision) });
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
            rule_key: rule.map(|rule| rule.approval_key()),
            approvers: rule.map(|rule| rule.approvers.iter().map(ToString::to_string).collect()).unwrap_or_default(),
            expires,
            form: None,
        };
        let verdict = match asked.kept_question() {
            // Its time goes on from when it was asked, and is not that of the rule of now.
            Some(_) => approver.ask(call).await,
            None => tokio::time::timeout(expires, approver.ask(call)).await.unwrap_or(Verdict::Expired),
        };
        let asked_by = record.rule.clone();
        match verdict {
            Verdict::Expired => {
                record.verdict = Some("expired");
                Err(expired(&subject.target))
            }
            Verdict::Approve { arguments: None } => {
                record.verdict = Some("approved");
                let counted = self.check_again(subject, &arguments, waits).await?;
                Ok((arguments, counted))
            }
            Verdict::Approve { arguments: Some(edited) } => {
                record.verdict = Some("edited");
                record.edited(&text, &edited);
                let edited = read_edited(&edited, &arguments)?;
                check_edited(edited.clone()).await?;
                let counted = self.check_again(subject, &edited, waits).await?;
                Ok((edited, counted))
            }
            Verdict::Deny { reason } => {
                record.verdict = Some("denied");
                Err(denied_by_person(&subject.target, &reason, asked_by.as_deref()))
            }
            Verdict::Stop { reason } => {
                record.verdict = Some("stopped");
                asked.stop_run(&reason).await;
                Err(denied_by_person(&subject.target, &reason, asked_by.as_deref()))
            }
        }
    }

    /// Decides once more about what a person approved, by the policy in force now. The call is counted for the rule that decides
    /// now instead of the one before.
    async fn check_again(
        &self,
        subject: &Subject,
        arguments: &Value,
        waits: &WaitingCall<'_>,
    ) -> Result<CountedCall, HostError> {
        let is_let_through = |decision: &PolicyDecision| {
            decision.action == Action::Allow || was_answered_for(decision, waits.decision, waits.asked)
        };
        let decided = self.decide(subject, arguments, waits.asked, Some(waits), is_let_through).await?;
        match decided {
            (_, Counting::Counted(counted)) => Ok(CountedCall { was_asked: true, ..counted }),
            (decision, Counting::Waits(_)) if decision.action == Action::Deny => Err(denied(subject, &decision)),
            (decision, Counting::Waits(_)) => {
                let counted = CountedCall::in_run(subject, &decision);
                self.take_back_in_run(&counted, waits.asked.run.as_deref());
                Err(other_approvers(subject, &decision))
            }
        }
    }
}

fn rule_key(decision: &PolicyDecision) -> Option<String> {
    decision.rule.as_ref().map(|rule| rule.approval_key())
}

/// What the policy certainly does to a call of a chain that is not made yet.
pub fn foresee(policy: &Policy, found: ToolRef<'_>, caller: &str, arguments: Option<&Value>) -> Option<PolicyDecision> {
    // As they will be sent: JavaScript writes 1.0 as 1.
    let known: Option<Value> = arguments.and_then(|it| serde_json::from_str(&toolgate_json::stringify(it)).ok());
    let foreknown = if known.is_some() { Foreknown::Yes } else { Foreknown::No };
    let asked = RequestContext { name: caller.to_owned(), profile: Some(Profile::Chain), ..RequestContext::default() };
    with_call(&Subject::of(found), known.as_ref().unwrap_or(&Value::Null), &asked, |call| {
        policy.foresee(call, foreknown)
    })
}

/// A decision as reports have it.
fn noted(decision: &PolicyDecision) -> DecisionRecord {
    let rule = decision.rule.as_ref().map(|rule| rule.id.clone());
    DecisionRecord { action: decision.action.name(), rule, ..DecisionRecord::default() }
}

/// Whether a decision says more than that no rule is about the call.
fn is_worth_noting(decision: &DecisionRecord) -> bool {
    decision.rule.is_some() || decision.action != Action::Allow.name()
}

/// How rules name the caller.
fn caller_name(asked: &RequestContext) -> &str {
    if asked.name.is_empty() { LOCAL } else { &asked.name }
}

fn with_call<T>(
    subject: &Subject,
    arguments: &Value,
    asked: &RequestContext,
    use_call: impl FnOnce(&PolicyCall<'_>) -> T,
) -> T {
    let profile = asked.profile.map_or(DIRECT, |profile| profile.name());
    let question = QuestionedCall { path: &subject.path, arguments, caller: caller_name(asked), profile };
    subject.with_call(question, use_call)
}

/// Edited arguments keep their kind: a tool takes an object, a function a list.
fn read_edited(text: &str, original: &Value) -> Result<Value, HostError> {
    let invalid = |message: String| HostError::not_sent(CallErrorCode::InvalidArguments, message);
    let edited: Value = serde_json::from_str(text)
        .map_err(|error| invalid(format!("the arguments that a person edited are not JSON: {error}")))?;
    match (original, &edited) {
        (Value::Object(_), Value::Object(_)) | (Value::Array(_), Value::Array(_)) => Ok(edited),
        (Value::Array(_), _) => Err(invalid("the arguments that a person edited are no list".to_owned())),
        _ => Err(invalid("the arguments that a person edited are no object".to_owned())),
    }
}
