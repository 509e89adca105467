//! Asks people about calls of a durable run: the question is kept with the run, which is paused until a decision is made.
//!
//! A call that is asked about was not sent. After a decision the run is repeated from its record, reaches the same call
//! again, and gets the verdict here. A decision that arrives while the run still goes on is handed over at once. The intent of
//! such a call is written when it is let through.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use toolgate_engine::host::Target;
use toolgate_engine::transcript::Recorder;
use toolgate_journal::durable::{DurableRun, Journal, PendingCall};
use toolgate_wire::{CallId, Failure, report};

use super::decision::{CallDecision, DecisionKind};
use super::gate::Gate;
use super::unsettled::stopped;
use super::view::{About, PendingView, RawJson, question_of};
use toolgate_bridge::approvals::{Approver, AskedCall, KeptQuestion, LoginWait, ServerForm, Verdict, VerdictFuture};

/// Numbers that calls and the lines of a review may have: the questions that a server asks inside calls have numbers after these.
const QUESTIONS_OF_A_ROUND: u32 = 200_000;
/// Between two looks whether a login is there that a call waits for.
const MIN_LOGIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_LOGIN_PAUSE: Duration = Duration::from_secs(60);

/// Gets verdicts for the calls of one durable run.
pub(super) struct RunApprover {
    run: Arc<DurableRun>,
    journal: Journal,
    gate: Arc<Gate>,
    /// Added to the number of a call for the number of its question: smaller ones are the lines of a review.
    after: u32,
    state: Mutex<ApproverState>,
}

#[derive(Default)]
struct ApproverState {
    /// Questions of this run, also those from before it was taken over.
    questions: HashMap<u32, PendingView>,
    decisions: HashMap<u32, CallDecision>,
    /// Calls that wait for a decision in this process.
    waiting: HashMap<u32, oneshot::Sender<CallDecision>>,
    /// Calls that were decided about in this process and not sent yet.
    unsent: HashSet<u32>,
    /// How the run ends that a person stopped.
    stopped: Option<Failure>,
}

impl RunApprover {
    /// The approver of a run, with what was asked and decided before.
    /// `after` is the last line of its review, if it has one.
    pub(super) fn new(
        run: Arc<DurableRun>,
        journal: Journal,
        gate: Arc<Gate>,
        before: &[PendingCall],
        after: u32,
    ) -> Arc<Self> {
        let mut state = ApproverState::default();
        for call in before {
            // Questions about crashes and upgrades are settled before the program goes on.
            let Some(question) = question_of(call).filter(|question| question.about.is_of_a_call()) else { continue };
            state.questions.insert(question.call_id, question);
            let decision = call.decision.as_deref().and_then(|text| serde_json::from_str(text).ok());
            if let Some(decision) = decision {
                state.decisions.insert(call.call.0, decision);
            }
        }
        let approver = RunApprover { run, journal, gate, after, state: Mutex::new(state) };
        approver.hold_asked();
        Arc::new(approver)
    }

    /// Calls that a person was asked about are not sent before there is a go-ahead. Where the run has a review, another approver
    /// lets calls through as well, so only those are held that are refused.
    fn hold_asked(&self) {
        let numbers: Vec<u32> = self.state.lock().questions.keys().copied().collect();
        let calls = numbers.into_iter().filter_map(|number| number.checked_sub(self.after)).map(CallId);
        for call in calls.filter(|call| self.after == 0 || self.is_refused(*call)) {
            if let Some(question) = self.rule_question(call) {
                self.gate.hold(call, question);
            }
        }
    }

    /// The question that a rule asked about a call.
    fn rule_question(&self, call: CallId) -> Option<KeptQuestion> {
        let (number, state) = (self.number(call, None), self.state.lock());
        let question = state.questions.get(&number).filter(|it| it.about.is_rule() && it.login.is_none())?;
        Some(KeptQuestion {
            rule: question.rule.clone(),
            rule_key: question.rule_key.clone(),
            approvers: question.approvers.clone(),
            is_acted_on: false,
        })
    }

    /// Whether a person has decided that a call is not made, or decided too late.
    fn is_refused(&self, call: CallId) -> bool {
        let (number, state) = (self.number(call, None), self.state.lock());
        let decided = state.questions.get(&number).zip(state.decisions.get(&number));
        decided.is_some_and(|(question, decision)| {
            decision.is_late(question.expires_at) || !is_go_ahead(decision.decision, false)
        })
    }

    /// The calls that wait in this process.
    pub(super) fn waiting(&self) -> Vec<PendingView> {
        let state = self.state.lock();
        let waiting = state.questions.values().filter(|question| state.waiting.contains_key(&question.call_id));
        let mut waiting: Vec<PendingView> = waiting.cloned().collect();
        waiting.sort_by_key(|question| question.call_id);
        waiting
    }

    /// The calls that wait, for the pause, and when the first question expires.
    pub(super) fn questions(&self) -> (Vec<(CallId, String)>, Option<u64>) {
        let open = {
            let state = self.state.lock();
            // A call that was decided about and could not be sent any more is made by the process that goes on with the run.
            let is_open = |number: &u32| state.waiting.contains_key(number) || state.unsent.contains(number);
            let mut open: Vec<PendingView> =
                state.questions.values().filter(|question| is_open(&question.call_id)).cloned().collect();
            open.sort_by_key(|question| question.call_id);
            open
        };
        let expires = open.iter().map(due).min();
        let texts = open.iter().map(|question| (CallId(question.call_id), question.stored()));
        (texts.collect(), expires)
    }

    /// Whether a call waits for a login, which is looked for by making the call again.
    pub(super) fn awaits_login(&self) -> bool {
        self.waiting().iter().any(|question| question.login.is_some())
    }

    /// Hands over decisions that were made elsewhere.
    pub(super) fn decided_elsewhere(&self, asked: &[PendingCall]) {
        let decisions = asked.iter().filter_map(|call| serde_json::from_str(call.decision.as_deref()?).ok());
        decisions.for_each(|decision: CallDecision| self.decided(decision));
    }

    /// How the run ends, if a person stopped it.
    pub(super) fn stopped(&self) -> Option<Failure> {
        self.state.lock().stopped.clone()
    }

    /// Hands a decision over to a call that waits in this process.
    pub(super) fn decided(&self, decision: CallDecision) {
        let mut state = self.state.lock();
        if let Some(waiting) = state.waiting.remove(&decision.call_id) {
            // A call that is gone needs no verdict.
            let _ = waiting.send(decision.clone());
            state.unsent.insert(decision.call_id);
        }
        state.decisions.insert(decision.call_id, decision);
    }

    /// The question about a call: the one from before where there is one, since its time goes on.
    fn question(&self, id: CallId, call: &AskedCall, login: Option<String>) -> Result<PendingView, String> {
        let number = self.number(id, call.form.as_ref());
        let about = about(call);
        let mut state = self.state.lock();
        if let Some(before) = state.questions.get(&number) {
            let is_same = before.arguments.0.get() == call.arguments
                && before.about == about
                && before.login.is_some() == login.is_some();
            return if is_same {
                Ok(before.clone())
            } else {
                Err("it is not the call that was asked about".to_owned())
            };
        }
        let arguments = RawValue::from_string(call.arguments.clone()).map_err(|error| error.to_string())?;
        let (backend, tool) = match call.target.clone() {
            Target::Tool { backend, tool } => (Some(backend), tool),
            Target::Function(name) => (None, name),
        };
        let now = super::unix_ms();
        let question = PendingView {
            call_id: number,
            backend,
            tool,
            arguments: Box::new(RawJson(arguments)),
            reason: call.reason.clone(),
            rule: call.rule.clone(),
            rule_key: call.rule_key.clone(),
            asked_input: call.form.as_ref().and_then(|form| form.asked.clone()),
            approvers: call.approvers.clone(),
            login,
            asked_at: now,
            about,
            expires_at: now.saturating_add(u64::try_from(call.expires.as_millis()).unwrap_or(u64::MAX)),
            staged: None,
        };
        state.questions.insert(number, question.clone());
        Ok(question)
    }

    /// The number by which a call is decided, or a question of its server answered.
    fn number(&self, id: CallId, form: Option<&ServerForm>) -> u32 {
        let round = form.map_or(0, |form| form.round);
        id.0.saturating_add(self.after).saturating_add(round.saturating_mul(QUESTIONS_OF_A_ROUND))
    }

    async fn verdict(&self, id: CallId, call: &AskedCall, login: Option<String>) -> Verdict {
        let question = match self.question(id, call, login) {
            Ok(question) => question,
            Err(reason) => return self.denied(id, reason),
        };
        let (number, is_form) = (question.call_id, call.form.is_some());
        let decided = self.state.lock().decisions.get(&number).cloned();
        if let Some(decision) = decided {
            return match decision.is_late(question.expires_at) {
                true => self.expired(id),
                false => self.act_on_earlier(id, decision, is_form).await,
            };
        }
        if question.login.is_some() {
            // A look for a login is no time of the program: looking for a day must not use up its wall time.
            self.run.skip_time();
        }
        // The call counts as sent until this is written: a run whose store is slow must not be paused before it waits.
        if let Err(error) = self.run.asks(id, is_form).await {
            return self.denied(id, format!("the question could not be kept: {error}"));
        }
        let left = Duration::from_millis(question.expires_at.saturating_sub(super::unix_ms()));
        let receive = {
            let mut state = self.state.lock();
            let (send, receive) = oneshot::channel();
            match state.decisions.get(&number) {
                // It came while the question was written.
                Some(decision) => drop(send.send(decision.clone())),
                None if left.is_zero() => {
                    drop(state);
                    return self.expired(id);
                }
                None => drop(state.waiting.insert(number, send)),
            }
            receive
        };
        self.gate.asks(id, is_form);
        let decision = tokio::select! {
            decision = receive => match decision {
                Ok(decision) if decision.is_late(question.expires_at) => {
                    self.state.lock().unsent.remove(&number);
                    return self.expired(id);
                }
                Ok(decision) => decision,
                Err(_) => std::future::pending().await,
            },
            () = tokio::time::sleep(left) => {
                self.state.lock().waiting.remove(&number);
                return self.expired(id);
            }
        };
        self.act_on(id, decision, is_form).await
    }

    /// Acts on a decision from before this process had the run.
    async fn act_on_earlier(&self, id: CallId, decision: CallDecision, is_form: bool) -> Verdict {
        if !is_go_ahead(decision.decision, is_form) {
            return self.refuse(id, &decision);
        }
        if self.gate.is_held(id) {
            return self.let_through(id, decision).await;
        }
        // Its intent is kept, and the gate has let it through.
        Verdict::Approve { arguments: decision.arguments.map(|json| json.get().to_owned()) }
    }

    async fn act_on(&self, id: CallId, decision: CallDecision, is_form: bool) -> Verdict {
        if !is_go_ahead(decision.decision, is_form) {
            self.state.lock().unsent.remove(&decision.call_id);
            return self.refuse(id, &decision);
        }
        self.let_through(id, decision).await
    }

    /// Lets a call be sent, once its intent is kept.
    async fn let_through(&self, id: CallId, decision: CallDecision) -> Verdict {
        self.state.lock().unsent.insert(decision.call_id);
        // Where the run ends here, this does not complete, and the process that goes on with the run makes the call.
        self.gate.sends(id).await;
        self.state.lock().unsent.remove(&decision.call_id);
        match self.run.before_effect(id).await {
            Ok(()) => Verdict::Approve { arguments: decision.arguments.map(|json| json.get().to_owned()) },
            Err(error) => self.denied(id, format!("it could not be made durable: {error}")),
        }
    }

    /// A decision that a call is not made.
    fn refuse(&self, id: CallId, decision: &CallDecision) -> Verdict {
        let reason = |usual: &str| decision.reason.clone().unwrap_or_else(|| usual.to_owned());
        match decision.decision {
            DecisionKind::Stop => {
                self.state.lock().stopped = Some(stopped(decision.reason.as_deref()));
                self.gate.settles(id);
                self.gate.stop();
                Verdict::Stop { reason: reason("no reason was given") }
            }
            // There is no answer to a call that was never sent; no question takes such a decision.
            DecisionKind::Answer => self.denied(id, "it was not sent, so it has no answer".to_owned()),
            DecisionKind::Deny | DecisionKind::Approve | DecisionKind::Edit => {
                self.denied(id, reason("a person denied it"))
            }
        }
    }

    /// No decision was made in time.
    fn expired(&self, id: CallId) -> Verdict {
        self.gate.settles(id);
        Verdict::Expired
    }

    fn denied(&self, id: CallId, reason: String) -> Verdict {
        self.gate.settles(id);
        Verdict::Deny { reason }
    }
}

/// Whether a decision lets a call be made, or answers what its server asks.
fn is_go_ahead(decision: DecisionKind, is_form: bool) -> bool {
    match decision {
        DecisionKind::Approve | DecisionKind::Edit => true,
        DecisionKind::Answer => is_form,
        DecisionKind::Deny | DecisionKind::Stop => false,
    }
}

impl Approver for RunApprover {
    fn ask(&self, call: AskedCall) -> VerdictFuture<'_> {
        Box::pin(async move {
            match u32::try_from(call.call_id) {
                Ok(id) => self.verdict(CallId(id), &call, None).await,
                Err(_) => Verdict::Deny { reason: "the call has no number".to_owned() },
            }
        })
    }

    fn await_login(&self, call: AskedCall, command: String) -> VerdictFuture<'_> {
        Box::pin(async move {
            let Ok(id) = u32::try_from(call.call_id) else { return Verdict::Deny { reason: String::new() } };
            // A question is answered once: after a decision of another kind the call does not wait again.
            let is_decided = self.state.lock().decisions.contains_key(&self.number(CallId(id), None));
            if is_decided && self.login_wait(call.call_id) != LoginWait::Decided {
                return Verdict::Deny { reason: String::new() };
            }
            self.verdict(CallId(id), &call, Some(command)).await
        })
    }

    fn login_wait(&self, call_id: u64) -> LoginWait {
        let Ok(id) = u32::try_from(call_id) else { return LoginWait::No };
        let (number, state) = (self.number(CallId(id), None), self.state.lock());
        match state.questions.get(&number).filter(|question| question.login.is_some()) {
            None => LoginWait::No,
            Some(_) if state.decisions.contains_key(&number) => LoginWait::Decided,
            Some(_) => LoginWait::Waits,
        }
    }

    fn login_came(&self, call_id: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let Ok(id) = u32::try_from(call_id) else { return };
            let call_id = self.number(CallId(id), None);
            let decision = CallDecision {
                call_id,
                decision: DecisionKind::Approve,
                arguments: None,
                reason: Some("the login is there".to_owned()),
                remember: None,
                by: String::new(),
                at: super::unix_ms(),
            };
            let Ok(text) = serde_json::to_string(&decision) else { return };
            // The question stays in the list of what waits if it cannot be written; the run goes on.
            let _ = self.journal.decide(self.run.id(), CallId(call_id), &text).await;
        })
    }

    fn asked_forms(&self, call_id: u64) -> Vec<ServerForm> {
        let Ok(id) = u32::try_from(call_id) else { return Vec::new() };
        let (first, state) = (self.number(CallId(id), None), self.state.lock());
        let asked = |round: u32| {
            let number = first.checked_add(round.checked_mul(QUESTIONS_OF_A_ROUND)?)?;
            let question = state.questions.get(&number)?;
            let About::Form { message, schema } = &question.about else { return None };
            let (message, asked) = (message.clone(), question.asked_input.clone());
            Some(ServerForm { round, message, schema: schema.to_string(), asked })
        };
        (1..).map_while(asked).collect()
    }

    fn kept_question(&self, call: CallId) -> Option<KeptQuestion> {
        // A call that is held has no intent: it is asked about, whatever the policy says by now.
        self.rule_question(call).or_else(|| self.gate.held_question(call))
    }

    fn refusal(&self, call: CallId) -> Option<Verdict> {
        let (decision, is_late) = {
            let (number, state) = (self.number(call, None), self.state.lock());
            let question = state.questions.get(&number).filter(|it| it.about.is_rule() && it.login.is_none())?;
            let decision = state.decisions.get(&number)?;
            (decision.clone(), decision.is_late(question.expires_at))
        };
        match is_late {
            true => Some(self.expired(call)),
            false if is_go_ahead(decision.decision, false) => None,
            false => Some(self.refuse(call, &decision)),
        }
    }

    fn answered(&self, call: CallId) -> Option<report::DecisionRecord> {
        let (number, state) = (self.number(call, None), self.state.lock());
        let decision = state.decisions.get(&number)?;
        let question = state.questions.get(&number);
        if question.is_some_and(|question| question.login.is_some()) {
            return None;
        }
        let rule = question.and_then(|question| question.rule.clone());
        if question.is_some_and(|question| decision.is_late(question.expires_at)) {
            let verdict = Some("expired");
            return Some(report::DecisionRecord { action: "ask", rule, verdict, ..report::DecisionRecord::default() });
        }
        let mut answered = report::DecisionRecord {
            action: "ask",
            rule,
            verdict: Some(decision.decision.verdict()),
            reviewer: Some(reviewer_of(decision)),
            ..report::DecisionRecord::default()
        };
        if let (Some(question), Some(sent)) = (question, &decision.arguments) {
            answered.edited(question.arguments.0.get(), sent.get());
        }
        Some(answered)
    }
}

/// Who decided, as reports say it.
pub(super) fn reviewer_of(decision: &CallDecision) -> String {
    if decision.by.is_empty() { "local".to_owned() } else { decision.by.clone() }
}

/// What a question is about.
fn about(call: &AskedCall) -> About {
    call.form.as_ref().map_or(About::Rule, |form| About::Form {
        message: form.message.clone(),
        schema: serde_json::from_str(&form.schema).unwrap_or_default(),
    })
}

/// When the run is looked at again: when a question expires, or to see whether a login is there.
fn due(question: &PendingView) -> u64 {
    if question.login.is_none() {
        return question.expires_at;
    }
    let now = super::unix_ms();
    // Less and less often: each look repeats the run.
    let waited = Duration::from_millis(now.saturating_sub(question.asked_at));
    let pause = (waited / 4).clamp(MIN_LOGIN_PAUSE, MAX_LOGIN_PAUSE);
    question.expires_at.min(now.saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::foreseen::Expected;
    use toolgate_journal::durable::Began;
    use toolgate_journal::recording::RunFacts;
    use toolgate_journal::seal::Sealer;
    use toolgate_journal::store::memory::MemoryStore;
    use toolgate_wire::Profile;

    fn asked(call_id: u64) -> AskedCall {
        AskedCall {
            call_id,
            target: Target::Function("pay".into()),
            arguments: format!("[{call_id}]"),
            reason: "asked about".into(),
            rule: None,
            rule_key: None,
            approvers: Vec::new(),
            expires: Duration::from_secs(3600),
            form: None,
        }
    }

    fn approval(call_id: u32) -> CallDecision {
        let (by, at) = (String::new(), 0);
        CallDecision { call_id, decision: DecisionKind::Approve, arguments: None, reason: None, remember: None, by, at }
    }

    fn journal(store: &Arc<MemoryStore>, owner: &str) -> Journal {
        let sealer = Sealer::new([1; 32]).expect("a key");
        Journal::new(store.clone(), sealer, owner.into(), Duration::from_secs(600))
    }

    fn gate_of(run: &Arc<DurableRun>) -> Arc<Gate> {
        Gate::new(run.clone(), Box::new(|_| None), Box::new(|_, _, _| Expected::Sent))
    }

    async fn until(condition: impl Fn() -> bool) {
        while !condition() {
            tokio::task::yield_now().await;
        }
    }

    /// A decision that comes when nothing is sent any more belongs to the pause: the run is due at once, although another call
    /// of it waits for a person.
    #[tokio::test]
    async fn a_call_that_is_decided_while_the_run_is_being_paused_makes_it_due() {
        let store = Arc::new(MemoryStore::new());
        let journal_of = journal(&store, "one");
        let facts = RunFacts {
            run: "run".into(),
            profile: Profile::Chain,
            code: "return 1".into(),
            caller: String::new(),
            request: None,
        };
        let Ok(Began::New(run)) = journal_of.begin(facts, None).await else { panic!("it is new") };
        let gate = gate_of(&run);
        let approver = RunApprover::new(run.clone(), journal_of.clone(), gate.clone(), &[], 0);
        // An earlier pause has written the questions.
        let calls = [1, 2].map(|number| {
            let question = approver.question(CallId(number), &asked(number.into()), None).expect("a question");
            (CallId(number), question.stored())
        });
        run.pause(&calls, None).await.expect("paused");
        let taken = journal_of.take_over(Some("run")).await.expect("a store").expect("the run");
        let run = taken.run;
        let gate = gate_of(&run);
        let before = journal_of.pending("run").await.expect("questions");
        let approver = RunApprover::new(run.clone(), journal_of.clone(), gate.clone(), &before, 0);
        let waiting: Vec<_> = [1, 2]
            .map(|number| {
                let approver = approver.clone();
                tokio::spawn(async move { approver.ask(asked(number)).await })
            })
            .into();
        until(|| approver.waiting().len() == 2).await;
        gate.close().await;
        let decision = approval(1);
        let text = serde_json::to_string(&decision).expect("JSON");
        journal_of.decide("run", CallId(1), &text).await.expect("decided");
        approver.decided(decision);
        until(|| !gate.asks_about(CallId(1))).await;
        assert!(waiting.iter().all(|call| !call.is_finished()), "nothing is sent any more");

        assert_eq!(approver.waiting().iter().map(|it| it.call_id).collect::<Vec<_>>(), [2]);
        let (questions, wake) = approver.questions();
        run.pause(&questions, wake).await.expect("paused");
        let due = journal(&store, "two").take_over(None).await.expect("a store");
        assert!(due.is_some(), "the process that resumes the run makes the call");
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
