//! Questions that a legacy server asks while it holds a call open (`elicitation/create`).
//!
//! The call is ended there and gives a result that requests input, as those of modern servers do. With the answer it is made
//! again, from its beginning: the server asks again and is answered at once. So a question can wait for days, and in another
//! process. The caller says whether the call may be made twice. If it may not, or if no person can be asked, the question is
//! answered with `cancel`, which means that no decision was made: this client declares the capability, so a server need not expect
//! an error. Forms only.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::interaction::{InteractiveClient, KnownAnswers};
use crate::json_text::JsonText;
use crate::protocol::ErrorCode;
use crate::result::ToolResult;

/// The name of the question in a result that requests input.
const QUESTION: &str = "question";

/// How long a call that was given up may still ask. A server that is told to stop need not reply, so the reply may never come.
const ABANDONED_TIMEOUT: Duration = Duration::from_secs(300);
/// The most calls that are remembered as given up; the oldest are forgotten first.
const MAX_ABANDONED: usize = 256;

/// The calls of one connection that its server may ask about.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls(Mutex<CallTable>);

#[derive(Debug, Default)]
struct CallTable {
    open: HashMap<u64, OpenCall>,
    /// Calls that were given up without a reply, and since when. The server may still carry them out, and ask.
    abandoned: VecDeque<(u64, Instant)>,
}

impl CallTable {
    fn abandon(&mut self, id: u64, now: Instant) {
        self.abandoned.truncate(MAX_ABANDONED - 1);
        self.abandoned.push_front((id, now));
    }

    /// The call that a server means which does not say in which call it asks; an error where it is not known.
    fn only_open(&mut self, now: Instant) -> Result<Option<&mut OpenCall>, (ErrorCode, &'static str)> {
        self.abandoned.retain(|(_, since)| now.duration_since(*since) < ABANDONED_TIMEOUT);
        if self.open.len() + self.abandoned.len() > 1 {
            let why = "several calls are open or were given up, and it is not known which of them asks";
            return Err((ErrorCode::INTERNAL_ERROR, why));
        }
        Ok(self.open.values_mut().next())
    }
}

/// A call, and what its server may be answered.
#[derive(Debug)]
struct OpenCall {
    /// `None` where no person can be asked.
    answered: Option<Vec<AnsweredQuestion>>,
    /// What was answered before the first attempt that this process made.
    known: Option<KnownAnswers>,
    /// Ends the call with a question that has no answer yet.
    asks: Option<oneshot::Sender<Value>>,
    /// Whether the server has nothing more to ask about it: it has replied. One whose question has ended the call may ask more.
    is_settled: bool,
}

/// A question and its answer: `action`, and `content` where it is accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct AnsweredQuestion {
    params: Value,
    answer: Value,
}

/// What is carried from one attempt of a call to the next.
#[derive(Debug, Default, Serialize, Deserialize)]
struct AttemptState {
    answered: Vec<AnsweredQuestion>,
    asked: Value,
}

impl OpenCalls {
    /// Registers a call. `client` answers for it where it may be made again.
    pub(crate) fn open(&self, id: u64, client: Option<&InteractiveClient>) -> CallQuestions<'_> {
        let is_asked = |client: &&InteractiveClient| client.capabilities().contains_key("elicitation");
        let client = client.filter(is_asked);
        let answered = client.map(|client| answered(client.answers()));
        let known = client.and_then(|client| client.known_answers().cloned());
        let (send, asked) = oneshot::channel();
        let so_far = answered.clone().unwrap_or_default();
        self.0.lock().open.insert(id, OpenCall { answered, known, asks: Some(send), is_settled: false });
        CallQuestions { calls: self, id, so_far, asked }
    }

    /// Notes that the server has replied to a request, whether its call is still open or was given up.
    pub(crate) fn replied(&self, id: u64) {
        let mut calls = self.0.lock();
        if let Some(call) = calls.open.get_mut(&id) {
            call.is_settled = true;
        }
        calls.abandoned.retain(|(abandoned, _)| *abandoned != id);
    }

    /// The answer to a question of the server: its result, or an error of JSON-RPC. `call` is the call in whose stream it came,
    /// where that is known.
    pub(crate) fn answer(&self, call: Option<u64>, params: Value) -> Result<Value, (ErrorCode, &'static str)> {
        let is_form = params.get("mode").is_none_or(|mode| mode == "form");
        if !is_form || !params.is_object() {
            return Err((ErrorCode::INVALID_PARAMS, "this client shows forms only"));
        }
        let mut calls = self.0.lock();
        let call = match call {
            Some(call) => calls.open.get_mut(&call),
            // A pipe does not say which call asks.
            None => calls.only_open(Instant::now())?,
        };
        let Some(call) = call.filter(|call| call.answered.is_some()) else { return Ok(undecided()) };
        let known = call.answered.iter().flatten().find(|known| known.params == params);
        if let Some(known) = known {
            return Ok(known.answer.clone());
        }
        if let Some(answer) = call.known.as_ref().and_then(|known| known.find(&params)) {
            return Ok(answer);
        }
        if let Some(asks) = call.asks.take() {
            // The call may have ended.
            let _ = asks.send(params);
        }
        Ok(json!({ "action": "cancel" }))
    }
}

/// The answer to a form when no person can be asked. `_meta` has the reason, for the server's log.
fn undecided() -> Value {
    let reason = "no person can be asked here: only calls of durable runs can ask";
    json!({ "action": "cancel", "_meta": { "toolgate/reason": reason } })
}

/// What was answered before this attempt.
fn answered(answers: &Map<String, Value>) -> Vec<AnsweredQuestion> {
    let state = answers.get("requestState").and_then(Value::as_str);
    let Some(state) = state.and_then(|text| serde_json::from_str::<AttemptState>(text).ok()) else { return Vec::new() };
    let answer = answers.get("inputResponses").and_then(|responses| responses.get(QUESTION)).cloned();
    let last = answer.map(|answer| AnsweredQuestion { params: state.asked, answer });
    state.answered.into_iter().chain(last).collect()
}

/// The questions of one open call; dropping it closes the call.
pub(crate) struct CallQuestions<'a> {
    calls: &'a OpenCalls,
    id: u64,
    so_far: Vec<AnsweredQuestion>,
    asked: oneshot::Receiver<Value>,
}

impl CallQuestions<'_> {
    /// The request has its outcome: a reply, or the reason why there is none.
    pub(crate) fn settled(&self) {
        self.calls.replied(self.id);
    }

    /// Completes with a result that requests input, once the server asks something that was not answered before.
    pub(crate) async fn asked(&mut self) -> ToolResult {
        match (&mut self.asked).await {
            Ok(params) => self.input_required(params),
            Err(_) => std::future::pending().await,
        }
    }

    /// The same if the server has asked, without waiting.
    pub(crate) fn was_asked(&mut self) -> Option<ToolResult> {
        let params = self.asked.try_recv().ok()?;
        Some(self.input_required(params))
    }

    fn input_required(&self, params: Value) -> ToolResult {
        let state = AttemptState { answered: self.so_far.clone(), asked: params.clone() };
        let request = json!({ "method": "elicitation/create", "params": params, "repeatsCall": true });
        let result = json!({
            "resultType": "input_required",
            "inputRequests": { QUESTION: request },
            "requestState": serde_json::to_string(&state).unwrap_or_default(),
        });
        ToolResult::new(JsonText::of(&result))
    }
}

impl Drop for CallQuestions<'_> {
    fn drop(&mut self) {
        let mut calls = self.calls.0.lock();
        if calls.open.remove(&self.id).is_some_and(|call| !call.is_settled) {
            calls.abandon(self.id, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(answers: Value) -> InteractiveClient {
        let declared = json!({ "elicitation": { "form": {} } });
        InteractiveClient::new(declared.as_object().unwrap(), answers.as_object().unwrap())
    }

    fn form(message: &str) -> Value {
        json!({ "message": message, "requestedSchema": { "type": "object", "properties": {} } })
    }

    fn code(outcome: Result<Value, (ErrorCode, &str)>) -> i64 {
        outcome.unwrap_err().0.0
    }

    #[tokio::test]
    async fn a_question_ends_the_call_and_is_answered_in_the_next_one() {
        let calls = OpenCalls::default();
        let accept = json!({ "action": "accept", "content": { "name": "Ann" } });
        let mut answers = json!({});
        for message in ["who?", "which?"] {
            let client = client(answers.clone());
            let mut call = calls.open(1, Some(&client));
            if message == "which?" {
                assert_eq!(calls.answer(None, form("who?")), Ok(accept.clone()), "it was answered before");
            }
            assert_eq!(calls.answer(None, form(message)), Ok(json!({ "action": "cancel" })));
            let asked = call.asked().await;
            assert!(asked.requests_input());
            assert_eq!(asked.input_requests()[QUESTION]["params"], form(message));
            answers = json!({ "requestState": asked.request_state(), "inputResponses": { QUESTION: accept } });
            call.settled();
        }
        let client = client(answers);
        let _call = calls.open(1, Some(&client));
        assert_eq!(calls.answer(None, form("which?")), Ok(accept.clone()), "in any order");
        assert_eq!(calls.answer(None, form("who?")), Ok(accept));
        assert_eq!(
            calls.answer(None, form("why?")),
            Ok(json!({ "action": "cancel" })),
            "no answer fits another question"
        );
    }

    #[tokio::test]
    async fn a_question_that_was_answered_before_the_call_does_not_end_it() {
        let calls = OpenCalls::default();
        let accept = json!({ "action": "accept", "content": { "name": "Ann" } });
        let known = accept.clone();
        let client =
            client(json!({})).with_known_answers(move |params| (params["message"] == "who?").then(|| known.clone()));
        let mut call = calls.open(1, Some(&client));
        assert_eq!(calls.answer(None, form("who?")), Ok(accept));
        assert_eq!(calls.answer(None, form("which?")), Ok(json!({ "action": "cancel" })));
        assert_eq!(call.asked().await.input_requests()[QUESTION]["params"], form("which?"));
    }

    /// A server that is told to stop may reply before the question was looked for.
    #[test]
    fn a_question_before_the_reply_counts() {
        let calls = OpenCalls::default();
        let client = client(json!({}));
        let mut call = calls.open(1, Some(&client));
        assert!(call.was_asked().is_none());
        assert_eq!(calls.answer(None, form("who?")), Ok(json!({ "action": "cancel" })));
        calls.replied(1);
        let asked = call.was_asked().unwrap();
        assert_eq!((asked.requests_input(), &asked.input_requests()[QUESTION]["params"]), (true, &form("who?")));
    }

    #[test]
    fn a_question_that_nobody_can_answer_is_cancelled_and_one_of_an_unknown_call_refused() {
        let calls = OpenCalls::default();
        let client = client(json!({}));
        assert_eq!(calls.answer(None, form("who?")), Ok(undecided()), "no call is open");
        let mut first = calls.open(1, None);
        assert_eq!(calls.answer(None, form("who?")), Ok(undecided()), "nobody can be asked");
        assert!(first.asked.try_recv().is_err(), "the call goes on");
        let second = calls.open(2, Some(&client));
        assert_eq!(code(calls.answer(None, form("who?"))), -32603, "either of two");
        assert!(calls.answer(Some(2), form("who?")).is_ok(), "its stream tells");
        assert_eq!(calls.answer(Some(1), form("who?")), Ok(undecided()));
        first.settled();
        drop(first);
        assert!(calls.answer(None, form("who?")).is_ok());
        assert_eq!(code(calls.answer(None, json!({ "mode": "url", "url": "https://example.com" }))), -32602);
        drop(second);
        assert!(calls.0.lock().open.is_empty());
    }

    #[test]
    fn a_call_that_was_given_up_may_be_the_one_that_asks() {
        let calls = OpenCalls::default();
        let client = client(json!({}));
        drop(calls.open(1, Some(&client)));
        let _other = calls.open(2, Some(&client));
        assert_eq!(code(calls.answer(None, form("who?"))), -32603, "it may be the question of the first");
        assert!(calls.answer(Some(2), form("who?")).is_ok(), "its stream tells");
        calls.replied(1);
        assert!(calls.answer(None, form("who?")).is_ok(), "the first is over");
    }

    /// A server that was told to stop may ask something else about the same call before it replies: that is no question of
    /// another call.
    #[tokio::test]
    async fn a_call_that_its_question_has_ended_may_be_the_one_that_asks_next() {
        let calls = OpenCalls::default();
        let client = client(json!({}));
        let mut first = calls.open(1, Some(&client));
        assert_eq!(calls.answer(None, form("who?")), Ok(json!({ "action": "cancel" })));
        assert!(first.asked().await.requests_input());
        let mut other = calls.open(2, Some(&client));
        assert_eq!(code(calls.answer(None, form("why?"))), -32603, "it waits for the reply");
        drop(first);
        assert_eq!(code(calls.answer(None, form("why?"))), -32603, "it was given up, and may still ask");
        calls.replied(1);
        assert!(calls.answer(None, form("which?")).is_ok(), "the first is over");
        assert_eq!(other.asked().await.input_requests()[QUESTION]["params"], form("which?"));
    }

    #[test]
    fn calls_that_were_given_up_are_forgotten() {
        let now = Instant::now();
        let mut calls = CallTable::default();
        for id in 0..1000 {
            calls.abandon(id, now);
        }
        assert_eq!((calls.abandoned.len(), calls.abandoned[0].0), (MAX_ABANDONED, 999));
        assert!(calls.only_open(now + ABANDONED_TIMEOUT / 2).is_err());
        assert!(calls.only_open(now + ABANDONED_TIMEOUT).is_ok());
        assert!(calls.abandoned.is_empty());
    }
}
