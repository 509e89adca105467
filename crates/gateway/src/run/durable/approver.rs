//! Asks people about calls of a durable run: the question is kept with the run, which is paused until somebody decides.
//!
//! A call that is asked about was not sent. After a decision the run is repeated from its record, reaches the same call
//! again, and gets the verdict here. A decision that arrives while the run still goes on is handed over at once.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use toolgate_engine::host::Target;
use toolgate_journal::durable::{DurableRun, Journal, PendingCall};
use toolgate_wire::{CallId, report};

use super::decision::{CallDecision, DecisionKind};
use super::gate::Gate;
use super::view::{PendingView, RawJson, question_of};
use crate::approvals::{Approver, AskedCall, LoginWait, Verdict, VerdictFuture};

/// Between two looks whether a login is there that a call waits for.
const MIN_LOGIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_LOGIN_PAUSE: Duration = Duration::from_secs(60);

/// Gets verdicts for the calls of one durable run.
pub(super) struct RunApprover {
    run: Arc<DurableRun>,
    journal: Journal,
    gate: Arc<Gate>,
    state: Mutex<ApproverState>,
}

#[derive(Default)]
struct ApproverState {
    /// Questions of this run, also those from before it was taken over.
    questions: HashMap<u32, PendingView>,
    decisions: HashMap<u32, CallDecision>,
    /// Calls that wait for a decision in this process.
    waiting: HashMap<u32, oneshot::Sender<CallDecision>>,
    /// Why a person stopped the run.
    stopped: Option<String>,
}

impl RunApprover {
    /// The approver of a run, with what was asked and decided before.
    pub(super) fn new(run: Arc<DurableRun>, journal: Journal, gate: Arc<Gate>, before: &[PendingCall]) -> Arc<Self> {
        let mut state = ApproverState::default();
        for call in before {
            if let Some(question) = question_of(call) {
                state.questions.insert(question.call_id, question);
            }
            let decision = call.decision.as_deref().and_then(|text| serde_json::from_str(text).ok());
            if let Some(decision) = decision {
                state.decisions.insert(call.call.0, decision);
            }
        }
        Arc::new(RunApprover { run, journal, gate, state: Mutex::new(state) })
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
        let open = self.waiting();
        let expires = open.iter().map(due).min();
        let texts = open.iter().map(|question| (CallId(question.call_id), json(question)));
        (texts.collect(), expires)
    }

    /// Why a person stopped the run, if one did.
    pub(super) fn stopped(&self) -> Option<String> {
        self.state.lock().stopped.clone()
    }

    /// Hands a decision over to a call that waits in this process.
    pub(super) fn decided(&self, decision: CallDecision) {
        let mut state = self.state.lock();
        if let Some(waiting) = state.waiting.remove(&decision.call_id) {
            // A call that is gone needs no verdict.
            let _ = waiting.send(decision.clone());
        }
        state.decisions.insert(decision.call_id, decision);
    }

    /// The question about a call: the one from before where there is one, since its time goes on.
    fn question(&self, id: CallId, call: &AskedCall, login: Option<String>) -> Result<PendingView, String> {
        let mut state = self.state.lock();
        if let Some(before) = state.questions.get(&id.0) {
            let is_same = before.arguments.0.get() == call.arguments;
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
            call_id: id.0,
            backend,
            tool,
            arguments: Box::new(RawJson(arguments)),
            reason: call.reason.clone(),
            rule: call.rule.clone(),
            approvers: call.approvers.clone(),
            login,
            asked_at: now,
            expires_at: now.saturating_add(u64::try_from(call.expires.as_millis()).unwrap_or(u64::MAX)),
        };
        state.questions.insert(id.0, question.clone());
        Ok(question)
    }

    async fn verdict(&self, id: CallId, call: &AskedCall, login: Option<String>) -> Verdict {
        self.gate.asks(id);
        if let Err(error) = self.run.asks(id).await {
            return self.denied(id, format!("the question could not be kept: {error}"));
        }
        let question = match self.question(id, call, login) {
            Ok(question) => question,
            Err(reason) => return self.denied(id, reason),
        };
        let waiting = {
            let mut state = self.state.lock();
            match state.decisions.get(&id.0) {
                Some(decision) => Ok(decision.clone()),
                None => {
                    let (send, receive) = oneshot::channel();
                    state.waiting.insert(id.0, send);
                    Err(receive)
                }
            }
        };
        let decision = match waiting {
            Ok(decision) => decision,
            Err(receive) => {
                let left = Duration::from_millis(question.expires_at.saturating_sub(super::unix_ms()));
                tokio::select! {
                    decision = receive => match decision {
                        Ok(decision) => decision,
                        Err(_) => std::future::pending().await,
                    },
                    () = tokio::time::sleep(left) => {
                        self.state.lock().waiting.remove(&id.0);
                        return self.denied(id, "nobody decided in time".to_owned());
                    }
                }
            }
        };
        self.act_on(id, decision).await
    }

    async fn act_on(&self, id: CallId, decision: CallDecision) -> Verdict {
        let reason = |usual: &str| decision.reason.clone().unwrap_or_else(|| usual.to_owned());
        match decision.decision {
            DecisionKind::Approve | DecisionKind::Edit => {
                if !self.gate.sends(id) {
                    // The run ends here, and whoever goes on with it makes the call.
                    std::future::pending::<()>().await;
                }
                match self.run.intends(id).await {
                    Ok(()) => Verdict::Approve { arguments: decision.arguments.map(|json| json.get().to_owned()) },
                    Err(error) => self.denied(id, format!("it could not be made durable: {error}")),
                }
            }
            DecisionKind::Deny => self.denied(id, reason("a person denied it")),
            DecisionKind::Stop => {
                let reason = reason("a person stopped the run");
                self.state.lock().stopped = Some(reason.clone());
                self.gate.stop();
                Verdict::Stop { reason }
            }
        }
    }

    fn denied(&self, id: CallId, reason: String) -> Verdict {
        self.gate.settles(id);
        Verdict::Deny { reason }
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
            let is_decided = self.state.lock().decisions.contains_key(&id);
            if is_decided && self.login_wait(call.call_id) != LoginWait::Decided {
                return Verdict::Deny { reason: String::new() };
            }
            self.verdict(CallId(id), &call, Some(command)).await
        })
    }

    fn login_wait(&self, call_id: u64) -> LoginWait {
        let Ok(id) = u32::try_from(call_id) else { return LoginWait::No };
        let state = self.state.lock();
        match state.questions.get(&id).filter(|question| question.login.is_some()) {
            None => LoginWait::No,
            Some(_) if state.decisions.contains_key(&id) => LoginWait::Decided,
            Some(_) => LoginWait::Waits,
        }
    }

    fn login_came(&self, call_id: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let Ok(call_id) = u32::try_from(call_id) else { return };
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

    fn answered(&self, call: CallId) -> Option<report::CallDecision> {
        let state = self.state.lock();
        let decision = state.decisions.get(&call.0)?;
        let question = state.questions.get(&call.0);
        if question.is_some_and(|question| question.login.is_some()) {
            return None;
        }
        let mut answered = report::CallDecision {
            action: "ask",
            rule: question.and_then(|question| question.rule.clone()),
            verdict: Some(decision.decision.verdict()),
            reviewer: Some(if decision.by.is_empty() { "local".to_owned() } else { decision.by.clone() }),
            ..report::CallDecision::default()
        };
        if let (Some(question), Some(sent)) = (question, &decision.arguments) {
            answered.edited(question.arguments.0.get(), sent.get());
        }
        Some(answered)
    }
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

fn json(question: &PendingView) -> String {
    serde_json::to_string(question).unwrap_or_default()
}
