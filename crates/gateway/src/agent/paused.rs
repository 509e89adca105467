//! Programs of an agent that wait for a person: asked about by the first channel that can work.
//!
//! A client of the newest revision that can show forms is asked by its own request (`input_required`); it answers by
//! sending the request again, with a signed handle. So is a client of an earlier revision, which `toolgate_mcp` asks. One that
//! opens URLs is sent to the page for what no form shows, and after forms that it declined unseen. Every other client is told that the run is paused, and a person
//! decides elsewhere. So is one that does not answer, that declines faster than a person can read, or that was asked too
//! often: some clients decline every form unseen, and client libraries stop after ten rounds.
//!
//! Nothing that a model can write decides: answers come in the client's own part of a request, and only with a handle.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_journal::unix_ms;
use toolgate_mcp::server::ToolCall;
use toolgate_wire::{CallerScope, Pattern, Warning, foreign_text};

use super::Shared;
use super::approval_form::{self as form, Unanswered};
use super::approval_handle::{Handle, HandleKey, digest_of};
use super::arguments::Refusal;
use toolgate_run::durable::{DurableError, PendingView};
use toolgate_run::{PausedRun, RunReport};

/// A decline that comes faster is no person's.
const MIN_DECLINE: Duration = Duration::from_millis(250);
/// Rounds of forms after which a person is asked elsewhere.
const MAX_ROUNDS: u8 = 8;
/// Characters of the reason why an answer decided nothing.
const MAX_FAULT: usize = 500;
/// The name of the request to open the page.
const PAGE: &str = "page";
/// How long a request waits for what a person decides on the page. Clients give up after a minute.
const PAGE_WAIT: Duration = Duration::from_secs(45);

/// A run that goes on, or waits, and the rounds of forms that its client has seen.
pub(super) struct Continued {
    pub(super) run: RunReport,
    /// `None` where the client is not to be asked again.
    pub(super) round: Option<u8>,
    /// Why what the client answered last decided nothing.
    fault: Option<String>,
}

impl Continued {
    /// A run that was begun by this request.
    pub(super) fn begun(run: RunReport) -> Self {
        Continued { run, round: Some(0), fault: None }
    }

    /// Forms for the client about the calls that wait, if it can show them and was not asked too often.
    pub(super) fn asked(&self, shared: &Shared, call: &ToolCall, caller: &CallerScope) -> Option<Value> {
        let (waits, round) = self.run.paused.as_ref().zip(self.round)?;
        let mut asked = asked(shared, call, caller, waits, round)?;
        if let Some(fault) = &self.fault {
            let note = format!("Nothing is decided yet: {}", foreign_text::one_line(fault, MAX_FAULT));
            for request in asked["inputRequests"].as_object_mut().into_iter().flatten().map(|(_, request)| request) {
                let message = request["params"]["message"].as_str().unwrap_or_default();
                request["params"]["message"] = json!(format!("{note}\n{message}"));
            }
        }
        Some(asked)
    }
}

/// The handle that a client sends with its answers, if it sends one.
pub(super) fn state_of(call: &ToolCall) -> Option<&str> {
    call.interactive_client.as_ref()?.answers().get("requestState")?.as_str()
}

/// Takes a client's answers, and waits until the run ends or has to be asked about again.
pub(super) async fn go_on(
    shared: &Shared,
    call: &ToolCall,
    caller: &CallerScope,
    state: &str,
) -> Result<Continued, Refusal> {
    let now = unix_ms();
    let handle = handle_key(shared).and_then(|key| key.read(state, &caller.name, now));
    let Handle { run, issued, round, shown: digest } =
        handle.ok_or_else(|| Refusal("requestState: it is not valid, or no longer".to_owned()))?;
    let runs = shared.gateway.runner().durable().await.map_err(refusal)?;
    let view = runs.view(&run, Some(&caller.name)).await.map_err(refusal)?;
    let none = serde_json::Map::new();
    let responses = call.interactive_client.as_ref().and_then(|client| client.answers().get("inputResponses"));
    let responses = responses.and_then(Value::as_object).unwrap_or(&none);
    if responses.contains_key(PAGE) && !view.pending.is_empty() {
        let is_open = responses[PAGE]["action"] == "accept";
        let ended = if is_open { runs.next_end(&run, PAGE_WAIT).await } else { None };
        let waits = || RunReport::waiting(PausedRun { run_id: run, pending: view.pending });
        // A decision that was not made in time is made later: the client is not sent there again.
        let round = ended.as_ref().map(|_| round);
        return Ok(Continued { run: ended.unwrap_or_else(waits), round, fault: None });
    }
    let pending = decidable(&view.pending, caller);
    let shown = form::showable(&pending);
    // Answers are to what was shown: if that has changed meanwhile, nothing is decided.
    let mut decisions = Vec::new();
    let mut round = Some(round);
    if digest_of(shown.iter().copied()) == digest {
        let filled = form::read(&shown, responses);
        decisions = filled.decisions;
        match filled.unanswered {
            Unanswered::No => {}
            Unanswered::Declined if may_be_a_person(issued, now) => {
                let open = shown.iter().filter(|it| filled.declined.contains(&it.call_id));
                let declined: Vec<_> = open.map(|question| form::declined(question)).collect();
                decisions.extend(declined);
            }
            // The client declines forms unseen; it may open the page.
            Unanswered::Declined => round = Some(MAX_ROUNDS),
            Unanswered::Dismissed => round = None,
        }
    }
    if decisions.is_empty() && !view.pending.is_empty() {
        let paused = PausedRun { run_id: run, pending: view.pending };
        return Ok(Continued { run: RunReport::waiting(paused), round, fault: None });
    }
    match runs.decide_and_wait(&run, &caller.name, decisions, &call.withdrawn).await {
        Ok(run) => Ok(Continued { run, round, fault: None }),
        // Nothing was decided, such as because edited arguments do not fit: the run waits as before.
        Err(DurableError::BadDecision { message, .. }) => {
            let pending = runs.view(&run, Some(&caller.name)).await.map_err(refusal)?.pending;
            let mut waits = RunReport::waiting(PausedRun { run_id: run, pending });
            waits.report.warnings.push(Warning::Remark(format!("an answer decided nothing: {message}")));
            Ok(Continued { run: waits, round, fault: Some(message) })
        }
        Err(error) => Err(refusal(error)),
    }
}

fn asked(shared: &Shared, call: &ToolCall, caller: &CallerScope, paused: &PausedRun, round: u8) -> Option<Value> {
    let elicitation = call.interactive_client.as_ref()?.capabilities().get("elicitation")?.as_object()?;
    let shows_forms = elicitation.is_empty() || elicitation.contains_key("form");
    let pending = decidable(&paused.pending, caller);
    let mut shown = form::showable(&pending);
    let requests = if shows_forms && round < MAX_ROUNDS && !shown.is_empty() {
        form::requests(&shown)
    } else {
        let opens_urls = elicitation.contains_key("url") && round <= MAX_ROUNDS && !pending.is_empty();
        let page = shared.gateway.runner().page().filter(|_| opens_urls)?;
        shown.clear();
        json!({ PAGE: page_request(page, &paused.run_id, pending.len()) })
    };
    let run = paused.run_id.clone();
    let handle = Handle { run, issued: unix_ms(), round: round + 1, shown: digest_of(shown.iter().copied()) };
    let state = handle_key(shared)?.sign(&handle, &caller.name)?;
    Some(json!({ "resultType": "input_required", "inputRequests": requests, "requestState": state }))
}

/// A request to open the page, on which the person decides. Nothing that a program wrote is in it.
fn page_request(page: &str, run: &str, calls: usize) -> Value {
    let message =
        format!("A program waits for your decision about {calls} of its calls. Open Toolgate's page to decide.");
    let params = json!({ "mode": "url", "elicitationId": run, "url": format!("{page}#/pending"), "message": message });
    json!({ "method": "elicitation/create", "params": params })
}

/// The questions that the caller itself may decide, in the order of their calls.
pub(super) fn decidable(pending: &[PendingView], caller: &CallerScope) -> Vec<PendingView> {
    let name = if caller.name.is_empty() { "local" } else { caller.name.as_str() };
    let may = |question: &&PendingView| {
        question.approvers.is_empty() || question.approvers.iter().any(|it| Pattern::new(it).matches(name))
    };
    let mut own: Vec<PendingView> = pending.iter().filter(may).cloned().collect();
    own.sort_by_key(|question| question.call_id);
    own
}

pub(super) fn handle_key(shared: &Shared) -> Option<HandleKey> {
    let config = shared.gateway.config();
    let runs = &config.settings.runs;
    match &runs.key {
        Some(key) => Some(HandleKey::from_secret(key.trim().as_bytes())),
        None => HandleKey::from_file(runs.key_file.as_deref()?).ok(),
    }
}

fn refusal(error: DurableError) -> Refusal {
    Refusal(error.to_string())
}

/// Whether a decline at `now` may be that of a person who was asked at `issued`, both in milliseconds.
pub(super) fn may_be_a_person(issued: u64, now: u64) -> bool {
    u128::from(now.saturating_sub(issued)) >= MIN_DECLINE.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decline_that_comes_at_once_is_no_persons() {
        assert!(!may_be_a_person(1_000, 1_000));
        assert!(!may_be_a_person(1_000, 1_249));
        assert!(may_be_a_person(1_000, 1_250));
        assert!(!may_be_a_person(1_000, 900), "clocks of two gateways may differ");
    }
}
