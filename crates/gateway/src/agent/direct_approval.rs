//! Asks the person of a client about one call in direct mode.
//!
//! Such a call belongs to no program, and nothing of it is kept: the client is answered with a form (`input_required`) and a signed
//! handle, and sends the call again with what the person filled in. The handle binds the answer to exactly this call of this caller. If
//! the server then asks something itself, its own state is carried behind the handle, so that the person is asked about the call once.
//! A client without forms is not asked: the call is denied, and the message says what to do.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolgate_bridge::Bridge;
use toolgate_bridge::approvals::{Approver, AskedCall, Remember, Verdict, VerdictFuture};
use toolgate_journal::unix_ms;
use toolgate_mcp::InteractiveClient;
use toolgate_mcp::server::ToolCall;
use toolgate_run::durable::{About, CallDecision, DecisionKind, PendingView, RawJson};
use toolgate_wire::{CallId, CallerScope, Target, report};

use super::Shared;
use super::approval_form as form;
use super::approval_handle::{Handle, HandleKey, digest_of, name_of};
use super::paused::{decidable, handle_key, may_be_a_person};

/// The number of the one call.
const CALL: u32 = 1;
/// Rounds of a handle: the person is asked, or has approved the call as it is.
const ASKED: u8 = 0;
const APPROVED: u8 = 1;
/// Between our handle, which is Base64, and the state of a server.
const SEPARATOR: char = '.';

/// Asks about one call, or has the answer to it.
pub(super) struct DirectApprover {
    bridge: Arc<Bridge>,
    caller: CallerScope,
    /// What the client sent back, where it was asked before.
    handle: Option<Handle>,
    responses: Map<String, Value>,
    outcome: Mutex<Outcome>,
}

#[derive(Debug, Default)]
enum Outcome {
    /// No rule asks.
    #[default]
    NotAsked,
    /// The person is to be asked this.
    Asks(Box<PendingView>),
    /// The person approved this, as it is.
    Approved(Box<PendingView>),
    /// The person approved it with other arguments.
    Edited,
    Denied,
}

/// The approver of a call whose client shows forms, where rules ask. Takes from the call what is an answer to our own question.
pub(super) fn approver(shared: &Shared, call: &mut ToolCall, caller: &CallerScope) -> Option<Arc<DirectApprover>> {
    let bridge = shared.gateway.bridge();
    let client = call.interactive_client.as_ref().filter(|_| bridge.policy().may_ask())?;
    let elicitation = client.capabilities().get("elicitation")?.as_object()?;
    if !elicitation.is_empty() && !elicitation.contains_key("form") {
        return None;
    }
    let state = client.answers().get("requestState").and_then(Value::as_str).unwrap_or_default();
    let (ours, theirs) = state.split_once(SEPARATOR).unwrap_or((state, ""));
    let handle = handle_key(shared).and_then(|key| key.read(ours, &caller.name, unix_ms()));
    let responses = client.answers().get("inputResponses").and_then(Value::as_object).cloned().unwrap_or_default();
    if handle.is_some() {
        let mut answers = Map::new();
        if !theirs.is_empty() {
            answers.insert("requestState".to_owned(), json!(theirs));
        }
        if handle.as_ref().is_some_and(|handle| handle.round == APPROVED) {
            answers.insert("inputResponses".to_owned(), Value::Object(responses.clone()));
        }
        call.interactive_client = Some(InteractiveClient::new(client.capabilities(), &answers));
    }
    let outcome = Mutex::default();
    Some(Arc::new(DirectApprover { bridge: bridge.clone(), caller: caller.clone(), handle, responses, outcome }))
}

impl DirectApprover {
    /// Whether the person is to be asked before the call is made.
    pub(super) fn asks(&self) -> bool {
        matches!(*self.outcome.lock(), Outcome::Asks(_))
    }

    /// The form for the client; `None` where this client's person may not decide, or the form cannot show the call whole.
    pub(super) async fn form(&self, shared: &Shared) -> Option<Value> {
        let question = match &*self.outcome.lock() {
            Outcome::Asks(question) => (**question).clone(),
            _ => return None,
        };
        let pending = decidable(&[question], &self.caller);
        let shown = form::showable(&pending);
        let state = self.sign(shared, shown.first()?, ASKED).await?;
        Some(json!({ "resultType": "input_required", "inputRequests": form::requests(&shown), "requestState": state }))
    }

    /// The request of a server that asks something after the person has approved the call, with a state that says so.
    pub(super) async fn carry(&self, shared: &Shared, mut request: Value) -> Result<Value, &'static str> {
        let question = match &*self.outcome.lock() {
            Outcome::Approved(question) => (**question).clone(),
            Outcome::Edited => {
                return Err(
                    "the server asks something, and edited arguments are not kept until it is answered: make the call with them",
                );
            }
            Outcome::NotAsked | Outcome::Asks(_) | Outcome::Denied => return Ok(request),
        };
        let unsigned = "the server asks something, and there is no key to sign its question with";
        let handle = self.sign(shared, &question, APPROVED).await.ok_or(unsigned)?;
        let theirs = request["requestState"].as_str().unwrap_or_default();
        request["requestState"] = json!(format!("{handle}{SEPARATOR}{theirs}"));
        Ok(request)
    }

    async fn sign(&self, shared: &Shared, question: &PendingView, round: u8) -> Option<String> {
        let key = match handle_key(shared) {
            Some(key) => key,
            None => made_key(shared).await?,
        };
        let (run, shown) = (name_of(question), digest_of([question]));
        key.sign(&Handle { run, issued: unix_ms(), round, shown }, &self.caller.name)
    }

    fn verdict(&self, call: &AskedCall) -> Verdict {
        let Some(question) = question_of(call) else {
            return Verdict::Deny { reason: "the call cannot be shown".to_owned() };
        };
        let is_answered =
            |handle: &&Handle| (&handle.run, handle.shown) == (&name_of(&question), digest_of([&question]));
        let Some(handle) = self.handle.as_ref().filter(is_answered) else {
            *self.outcome.lock() = Outcome::Asks(Box::new(question));
            return Verdict::Deny { reason: "a person is asked first".to_owned() };
        };
        // The rule may be another one than that of the form: it asks others, or its answers hold for a shorter time.
        if decidable(std::slice::from_ref(&question), &self.caller).is_empty() {
            *self.outcome.lock() = Outcome::Asks(Box::new(question));
            return Verdict::Deny { reason: "this is for others to decide".to_owned() };
        }
        let lasts = u64::try_from(call.expires.as_millis()).unwrap_or(u64::MAX);
        if unix_ms() > handle.issued.saturating_add(lasts) {
            *self.outcome.lock() = Outcome::Denied;
            return Verdict::Expired;
        }
        if handle.round == APPROVED {
            *self.outcome.lock() = Outcome::Approved(Box::new(question));
            return Verdict::Approve { arguments: None };
        }
        let filled = form::read(&[&question], &self.responses);
        let declined = || {
            let is_declined = !filled.declined.is_empty() && may_be_a_person(handle.issued, unix_ms());
            is_declined.then(|| form::declined(&question))
        };
        match filled.decisions.first().cloned().or_else(declined) {
            Some(decision) => self.act_on(question, decision),
            None => {
                *self.outcome.lock() = Outcome::Denied;
                Verdict::Deny { reason: "no person answered".to_owned() }
            }
        }
    }

    fn act_on(&self, question: PendingView, decision: CallDecision) -> Verdict {
        if let Some((asked, remember)) = question.remembered("", &decision)
            && !matches!(remember, Remember::Run(_))
            && let Err(error) = self.bridge.remember(&self.caller.name, &asked, &remember)
        {
            tracing::warn!(%error, "an approval is not remembered");
        }
        let (outcome, verdict) = match (decision.decision, decision.arguments) {
            (DecisionKind::Approve, _) => (Outcome::Approved(Box::new(question)), Verdict::Approve { arguments: None }),
            (DecisionKind::Edit, Some(edited)) => {
                (Outcome::Edited, Verdict::Approve { arguments: Some(edited.get().to_owned()) })
            }
            (DecisionKind::Edit | DecisionKind::Answer | DecisionKind::Deny | DecisionKind::Stop, _) => {
                (Outcome::Denied, Verdict::Deny { reason: decision.reason.unwrap_or_default() })
            }
        };
        *self.outcome.lock() = outcome;
        verdict
    }
}

impl Approver for DirectApprover {
    fn ask(&self, call: AskedCall) -> VerdictFuture<'_> {
        Box::pin(std::future::ready(self.verdict(&call)))
    }

    fn answered(&self, _: CallId) -> Option<report::DecisionRecord> {
        if !matches!(*self.outcome.lock(), Outcome::Approved(_) | Outcome::Edited | Outcome::Denied) {
            return None;
        }
        let reviewer = if self.caller.name.is_empty() { "local".to_owned() } else { self.caller.name.clone() };
        Some(report::DecisionRecord { action: "ask", reviewer: Some(reviewer), ..report::DecisionRecord::default() })
    }
}

/// The key is made with the store of durable runs.
async fn made_key(shared: &Shared) -> Option<HandleKey> {
    shared.gateway.runner().durable().await.ok()?;
    handle_key(shared)
}

/// The call as forms show it.
fn question_of(call: &AskedCall) -> Option<PendingView> {
    let (backend, tool) = match call.target.clone() {
        Target::Tool { backend, tool } => (Some(backend), tool),
        Target::Function(name) => (None, name),
    };
    let now = unix_ms();
    Some(PendingView {
        call_id: CALL,
        backend,
        tool,
        arguments: Box::new(RawJson(RawValue::from_string(call.arguments.clone()).ok()?)),
        reason: call.reason.clone(),
        rule: call.rule.clone(),
        rule_key: call.rule_key.clone(),
        asked_input: None,
        approvers: call.approvers.clone(),
        login: None,
        asked_at: now,
        expires_at: now.saturating_add(u64::try_from(call.expires.as_millis()).unwrap_or(u64::MAX)),
        about: About::Rule,
        staged: None,
    })
}
