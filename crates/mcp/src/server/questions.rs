//! Results that request input, for clients of legacy revisions: the server asks them by requests of its own.
//!
//! In the modern revision a result says what is asked (`input_required`), and the client sends the call again with its answers.
//! A legacy client that declares `elicitation` is asked by `elicitation/create` while its request is open; the call is then made
//! again with the answers, as if the client had sent it. So a service knows one way of asking. A client is sent no request that
//! it did not declare: forms, or URLs to open since 2025-11-25.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::dispatcher::RequestContext;
use super::era::Era;
use crate::interaction::InteractiveClient;
use crate::result::requests_input;

/// How often one call may ask. Services end before that; this bounds one that does not.
pub(super) const MAX_ROUNDS: usize = 16;
/// The most questions of one round.
const MAX_QUESTIONS: usize = 20;

/// How long a request waits for the answer to a form. Clients give up on a request after a minute, and the person may have
/// decided elsewhere.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);

/// What a client was asked and has not answered.
#[derive(Debug, Default)]
pub(super) struct Questions {
    next: AtomicU64,
    open: Mutex<HashMap<String, oneshot::Sender<Option<Value>>>>,
}

impl Questions {
    /// Takes a reply of the client; ignores one to nothing that was asked.
    pub(super) fn answer(&self, id: &Value, result: Option<Value>) {
        let waiting = id.as_str().and_then(|id| self.open.lock().remove(id));
        if let Some(waiting) = waiting {
            // The request that asked may have ended.
            let _ = waiting.send(result);
        }
    }

    fn open(&self) -> OpenQuestion<'_> {
        let id = format!("toolgate-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let (send, answer) = oneshot::channel();
        self.open.lock().insert(id.clone(), send);
        OpenQuestion { questions: self, id, answer }
    }
}

/// A question without an answer; dropping it forgets it.
struct OpenQuestion<'a> {
    questions: &'a Questions,
    id: String,
    answer: oneshot::Receiver<Option<Value>>,
}

/// What came of a question.
#[derive(Debug, PartialEq)]
enum Reply {
    /// `None` where the client refused.
    Came(Option<Value>),
    TimedOut,
}

impl OpenQuestion<'_> {
    async fn reply(&mut self, within: Duration) -> Reply {
        match tokio::time::timeout(within, &mut self.answer).await {
            Ok(answer) => Reply::Came(answer.ok().flatten()),
            Err(_) => Reply::TimedOut,
        }
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.questions.open.lock().remove(&self.id);
    }
}

/// The legacy client of a call, if it can be asked, with what it has answered so far.
pub(super) fn legacy_client(context: &RequestContext, answers: &Map<String, Value>) -> Option<InteractiveClient> {
    if context.era != Era::Legacy || !context.sink.is_open() {
        return None;
    }
    let modes: Map<String, Value> = ["form", "url"]
        .into_iter()
        .filter(|mode| declares(context, mode))
        .map(|mode| (mode.to_owned(), json!({})))
        .collect();
    let can_be_asked = !modes.is_empty();
    let capabilities = Map::from_iter([("elicitation".to_owned(), Value::Object(modes))]);
    can_be_asked.then(|| InteractiveClient::new(&capabilities, answers))
}

/// Whether a legacy client declares that it can be asked like this. One that names no mode has forms.
fn declares(context: &RequestContext, mode: &str) -> bool {
    let declared = context.client.capabilities.get().and_then(|it| it.get("elicitation")?.as_object());
    declared.is_some_and(|modes| modes.contains_key(mode) || (mode == "form" && modes.is_empty()))
}

/// Asks a legacy client that shows forms what a result requests, and gives the parameters of the next call. `None` where the
/// result requests nothing, or the client has cancelled its request.
pub(super) async fn ask(context: &RequestContext, result: &Value) -> Option<Map<String, Value>> {
    ask_within(context, result, ANSWER_TIMEOUT).await
}

/// The same with another bound for each answer. After a form that is not answered in time, the others are not shown.
async fn ask_within(context: &RequestContext, result: &Value, limit: Duration) -> Option<Map<String, Value>> {
    if !requests_input(result) {
        return None;
    }
    let none = Map::new();
    let requests = result.get("inputRequests").and_then(Value::as_object).unwrap_or(&none);
    let mut responses = Map::new();
    let mut is_answering = true;
    for (key, request) in requests.iter().take(MAX_QUESTIONS) {
        let mut reply = Reply::Came(None);
        if is_answering {
            reply = tokio::select! {
                biased;
                () = context.cancel.cancelled() => return None,
                reply = ask_one(context, request, limit) => reply,
            };
        }
        is_answering &= reply != Reply::TimedOut;
        responses.insert(key.clone(), response(reply));
    }
    let state = result.get("requestState").filter(|state| state.is_string()).cloned();
    let mut answers = Map::from_iter([("inputResponses".to_owned(), Value::Object(responses))]);
    answers.extend(state.map(|state| ("requestState".to_owned(), state)));
    Some(answers)
}

/// What cannot be asked, what the client refuses, and what it does not answer in time counts as dismissed.
fn response(reply: Reply) -> Value {
    let answer = match reply {
        Reply::Came(answer) => answer.filter(|answer| answer.get("action").is_some_and(Value::is_string)),
        Reply::TimedOut => None,
    };
    answer.unwrap_or_else(|| json!({ "action": "cancel" }))
}

/// One question.
async fn ask_one(context: &RequestContext, request: &Value, limit: Duration) -> Reply {
    let params = request.get("params").and_then(Value::as_object);
    let mode = params.and_then(|params| params.get("mode")).and_then(Value::as_str).unwrap_or("form");
    let (Some(params), "form" | "url", "elicitation/create") =
        (params, mode, request["method"].as_str().unwrap_or_default())
    else {
        return Reply::Came(None);
    };
    if !declares(context, mode) {
        return Reply::Came(None);
    }
    let mut params = params.clone();
    if mode == "form" {
        // Earlier revisions have forms only, and no name for them.
        params.shift_remove("mode");
    }
    let mut question = context.client.questions.open();
    if !context.sink.ask(&question.id, "elicitation/create", Value::Object(params)).await {
        return Reply::Came(None);
    }
    question.reply(limit).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::super::client::Client;
    use super::super::dispatcher::NotificationSink;
    use super::super::message::Request;
    use super::super::service::RequestScope;
    use super::*;
    use crate::origin::RequestOrigin;

    #[tokio::test]
    async fn an_answer_reaches_the_question_with_its_id_and_no_other() {
        let questions = Questions::default();
        let mut one = questions.open();
        let mut other = questions.open();
        assert_ne!(one.id, other.id);
        questions.answer(&json!("unknown"), Some(json!({})));
        questions.answer(&json!(7), Some(json!({})));
        questions.answer(&json!(other.id), Some(json!({ "action": "accept" })));
        assert_eq!((&mut other.answer).await, Ok(Some(json!({ "action": "accept" }))));
        assert!(one.answer.try_recv().is_err(), "nobody answered it");
        questions.answer(&json!(one.id), None);
        assert_eq!((&mut one.answer).await, Ok(None));
    }

    #[tokio::test]
    async fn a_form_that_is_not_answered_in_time_counts_as_dismissed() {
        let (queue, mut sent) = tokio::sync::mpsc::channel(8);
        let context = RequestContext {
            request: Request { id: json!(1), method: "tools/call".to_owned(), params: Map::new() },
            era: Era::Legacy,
            client: Arc::new(Client::new(1)),
            scope: RequestScope::default(),
            sink: NotificationSink::to(queue),
            cancel: CancellationToken::new(),
            withdrawn: CancellationToken::new(),
            origin: RequestOrigin::default(),
        };
        let declared = Map::from_iter([("elicitation".to_owned(), json!({}))]);
        context.client.capabilities.set(declared).expect("nothing was declared before");
        let form = json!({ "method": "elicitation/create", "params": { "message": "who?" } });
        let result = json!({ "resultType": "input_required", "inputRequests": { "a": form, "b": form }, "requestState": "kept" });
        let answers = ask_within(&context, &result, Duration::ZERO).await.unwrap();
        let dismissed = json!({ "action": "cancel" });
        let expected = json!({ "inputResponses": { "a": dismissed, "b": dismissed }, "requestState": "kept" });
        assert_eq!(Value::Object(answers), expected);
        assert!(sent.try_recv().is_ok() && sent.try_recv().is_err(), "the second form is not shown");
        assert!(context.client.questions.open.lock().is_empty());
    }

    #[test]
    fn a_question_that_is_given_up_is_forgotten() {
        let questions = Questions::default();
        drop(questions.open());
        assert!(questions.open.lock().is_empty());
    }
}
