//! Questions that a server asks before it carries out a call of a program: `input_required` of MCP 2026-07-28, or
//! `elicitation/create` of an earlier revision, which `toolgate_mcp` turns into the same.
//!
//! They go the way of approvals: the run waits, and a person answers by a form of the client, on the page, at the command line or
//! by HTTP. Then the call is sent again with the answer. Only forms are asked; a server that wants a model or a folder gets
//! none, and the call fails.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use toolgate_engine::HostError;
use toolgate_mcp::InteractiveClient;
use toolgate_wire::{CallErrorCode, Target, foreign_text};

use super::RequestContext;
use crate::approvals::{AskedCall, AskedInput, ServerForm, Verdict};
use toolgate_backends::{CallError, CallReply};

/// How often a server may ask about one call.
pub(super) const MAX_ROUNDS: u32 = 4;
/// The code of JSON-RPC with which a server refuses parameters.
const INVALID_PARAMS: i64 = -32602;
/// Fields of a form.
const MAX_FIELDS: usize = 20;
/// Choices of a field.
const MAX_CHOICES: usize = 50;
/// Characters of a message, and of a title or a description.
const MAX_MESSAGE: usize = 1_000;
const MAX_WORDS: usize = 200;

/// A form that a person has answered, and the answer.
pub(super) struct SettledForm {
    form: ServerForm,
    content: Value,
}

/// A client that shows forms and has answered none.
static FORM_CLIENT: LazyLock<InteractiveClient> = LazyLock::new(|| {
    let capabilities = Map::from_iter([("elicitation".to_owned(), json!({ "form": {} }))]);
    InteractiveClient::new(&capabilities, &Map::new())
});

/// The client that a server is told of where the run begins again with its first question.
pub(super) fn form_client() -> InteractiveClient {
    FORM_CLIENT.clone()
}

/// Whether a person can be asked what a server asks.
pub(super) fn is_form(requests: &Value) -> bool {
    the_form(1, requests).is_some()
}

/// The client that a server is told of, where a person can be asked; with these answers.
pub(super) fn client(
    asked: &RequestContext,
    answers: &Map<String, Value>,
    settled: &Arc<[SettledForm]>,
) -> Option<InteractiveClient> {
    asked.approver.as_ref()?;
    let capabilities = json!({ "elicitation": { "form": {} } });
    let settled = Arc::clone(settled);
    let client = InteractiveClient::new(capabilities.as_object()?, answers);
    Some(client.with_known_answers(move |params| known_answer(&settled, params)))
}

/// The result for a server that asks again for a form that was shown and answered.
fn known_answer(settled: &[SettledForm], params: &Value) -> Option<Value> {
    let (message, schema) = shown(params)?;
    let is_same = |it: &&SettledForm| {
        it.form.message == message && serde_json::from_str::<Value>(&it.form.schema).is_ok_and(|it| it == schema)
    };
    settled.iter().find(is_same).map(|it| accepted(&it.content))
}

fn accepted(content: &Value) -> Value {
    json!({ "action": "accept", "content": content })
}

/// Waits for the answers to what the server has asked in earlier attempts of this call.
///
/// # Errors
/// If the person declines, or does not answer in time: then the call is not sent again.
pub(super) async fn settle(
    asked: &RequestContext,
    target: &Target,
    arguments: &Map<String, Value>,
) -> Result<Arc<[SettledForm]>, HostError> {
    let forms = asked.approver.as_ref().map(|approver| approver.asked_forms(asked.call_id)).unwrap_or_default();
    let mut settled = Vec::new();
    for form in forms {
        let content = ask_form(asked, target, arguments, form.clone(), "").await?;
        settled.push(SettledForm { form, content });
    }
    Ok(settled.into())
}

/// The number of a question among all that the server has asked about this call. A legacy server has had the settled answers in
/// the same attempt; a modern one asks its first question again.
pub(super) fn round(attempt: u32, settled: usize, requests: &Value) -> u32 {
    let before = if repeats_call(requests) { u32::try_from(settled).unwrap_or(MAX_ROUNDS) } else { 0 };
    attempt.saturating_add(before)
}

/// Asks a person what a server asks (its requests and its state), and gives the parameters of the next request. `None` where it cannot be asked.
///
/// # Errors
/// If the person declines, or does not answer in time.
pub(super) async fn ask(
    asked: &RequestContext,
    target: &Target,
    arguments: &Map<String, Value>,
    round: u32,
    input: (&Value, Option<&str>),
) -> Option<Result<Map<String, Value>, HostError>> {
    asked.approver.as_ref()?;
    let (requests, state) = input;
    let (key, mut form) = the_form(round, requests)?;
    let question = AskedInput { key, state: state.map(str::to_owned) };
    // A server that begins anew knows nothing of its question.
    form.asked = (!repeats_call(requests)).then(|| question.clone());
    let note = if repeats_call(requests) { REPETITION } else { "" };
    let content = ask_form(asked, target, arguments, form, note).await;
    Some(content.map(|content| answers(&question, &content)))
}

/// The parameters that answer a question.
fn answers(question: &AskedInput, content: &Value) -> Map<String, Value> {
    let mut answers = Map::from_iter([("inputResponses".to_owned(), json!({ &question.key: accepted(content) }))]);
    answers.extend(question.state.clone().map(|state| ("requestState".to_owned(), Value::String(state))));
    answers
}

/// The parameters that answer the last question before a pause, where the server gave what it needs to go on from there.
pub(super) fn kept_answers(settled: &[SettledForm]) -> Option<Map<String, Value>> {
    let last = settled.last()?;
    let question = last.form.asked.as_ref().filter(|question| question.state.is_some())?;
    Some(answers(question, &last.content))
}

/// Whether a server refuses to go on from its question, so that the call has to begin anew. Nothing was carried out then.
pub(super) fn refuses_state(reply: &Result<CallReply, CallError>) -> bool {
    matches!(reply, Err(CallError::Rejected { code, .. }) if *code == INVALID_PARAMS)
}

/// Asks a person to fill in a form; `note` is what the person is told besides.
async fn ask_form(
    asked: &RequestContext,
    target: &Target,
    arguments: &Map<String, Value>,
    form: ServerForm,
    note: &str,
) -> Result<Value, HostError> {
    let failed =
        |code: CallErrorCode, why: String| Err(HostError::new(code, format!("{target} asked a question, {why}")));
    let Some(approver) = &asked.approver else {
        return failed(CallErrorCode::Denied, "and no person can be asked".to_owned());
    };
    let call = AskedCall {
        call_id: asked.call_id,
        target: target.clone(),
        arguments: Value::Object(arguments.clone()).to_string(),
        reason: format!("{} asks: {}{}", target.backend().unwrap_or_default(), form.message, note),
        rule: None,
        rule_key: None,
        approvers: Vec::new(),
        expires: toolgate_policy::DEFAULT_EXPIRY,
        form: Some(form),
    };
    match approver.ask(call).await {
        Verdict::Approve { arguments: content } => {
            Ok(content.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_else(|| json!({})))
        }
        Verdict::Deny { reason } => failed(CallErrorCode::Denied, format!("and a person declined: {reason}")),
        Verdict::Expired => failed(CallErrorCode::Expired, "and no answer came in time".to_owned()),
        Verdict::Stop { reason } => {
            asked.stop_run(&reason).await;
            failed(CallErrorCode::Denied, format!("and a person stopped the run: {reason}"))
        }
    }
}

/// What a person is told whose answer makes a server begin anew that had begun to carry out the call.
const REPETITION: &str = " (with an answer the call is made again, from its beginning)";

/// Whether the server begins anew with an answer.
fn repeats_call(requests: &Value) -> bool {
    requests.as_object().is_some_and(|requests| requests.values().any(|it| it["repeatsCall"] == true))
}

/// The one form that a server asks for, and its name; `None` where it asks for several things, or for something else.
fn the_form(round: u32, requests: &Value) -> Option<(String, ServerForm)> {
    let requests = requests.as_object().filter(|requests| requests.len() == 1)?;
    let (key, request) = requests.iter().next()?;
    let params = &request["params"];
    let is_form =
        request["method"] == "elicitation/create" && params["mode"].as_str().is_none_or(|mode| mode == "form");
    if !is_form {
        return None;
    }
    let (message, schema) = shown(params)?;
    Some((key.clone(), ServerForm { round, message, schema: schema.to_string(), asked: None }))
}

/// The message and the schema of a form, as a person sees them.
fn shown(params: &Value) -> Option<(String, Value)> {
    let message = foreign_text::one_line(params["message"].as_str().unwrap_or_default(), MAX_MESSAGE);
    Some((message, flat(params.get("requestedSchema").unwrap_or(&Value::Null))?))
}

/// The schema of a form: a flat object of texts, numbers and truth values, with nothing else of what the server wrote.
fn flat(schema: &Value) -> Option<Value> {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    if properties.len() > MAX_FIELDS {
        return None;
    }
    let words = |text: &str| foreign_text::one_line(text, MAX_WORDS);
    let mut fields = Map::new();
    for (name, field) in properties {
        let kind =
            field["type"].as_str().filter(|kind| matches!(*kind, "string" | "number" | "integer" | "boolean"))?;
        let mut kept = Map::from_iter([("type".to_owned(), json!(kind))]);
        for key in ["title", "description"] {
            if let Some(text) = field[key].as_str() {
                kept.insert(key.to_owned(), json!(words(text)));
            }
        }
        if let Some(choices) = field["enum"].as_array() {
            let choices: Option<Vec<&str>> = choices.iter().map(Value::as_str).collect();
            kept.insert("enum".to_owned(), json!(choices.filter(|choices| choices.len() <= MAX_CHOICES)?));
        }
        let default = &field["default"];
        if default.is_boolean() || default.is_number() || default.as_str().is_some_and(|text| text.len() <= MAX_WORDS) {
            kept.insert("default".to_owned(), default.clone());
        }
        fields.insert(words(name), Value::Object(kept));
    }
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let known = required.iter().all(|name| fields.contains_key(*name));
    known.then(|| json!({ "type": "object", "properties": fields, "required": required }))
}

/// What is wrong with the answer to a form.
///
/// # Errors
/// A sentence.
pub fn check_answer(schema: &Value, answer: &Value) -> Result<(), String> {
    let Some(answer) = answer.as_object() else { return Err("the answer to a form is an object".to_owned()) };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.clone().find(|name| !answer.contains_key(*name)) {
        let all: Vec<&str> = required.collect();
        return Err(format!("the answer has no {missing}: answer with an object of {}", all.join(", ")));
    }
    for (name, value) in answer {
        let field = &schema["properties"][name];
        let fits = match field["type"].as_str() {
            Some("string") => value.is_string(),
            Some("number") => value.is_number(),
            Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Some("boolean") => value.is_boolean(),
            _ => return Err(format!("the form has no field {name}")),
        };
        let is_choice = field["enum"].as_array().is_none_or(|choices| choices.contains(value));
        if !fits || !is_choice {
            return Err(format!("{name} does not fit: {field}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_forms_are_asked() {
        let request = |params: Value| json!({ "q": { "method": "elicitation/create", "params": params } });
        let form = |requests: Value| the_form(1, &requests).map(|(_, form)| (form.message, form.schema));
        let (message, schema) = form(request(json!({
            "message": "who\n\u{202e}?",
            "requestedSchema": { "properties": { "name": { "type": "string", "title": "Name", "x-evil": 1 } }, "required": ["name"] },
        })))
        .unwrap();
        assert!(!message.contains(['\n', '\u{202e}']), "{message}");
        assert!(schema.contains("Name") && !schema.contains("evil"), "{schema}");
        for other in [
            json!({}),
            json!({ "q": { "method": "sampling/createMessage", "params": {} } }),
            request(json!({ "mode": "url", "url": "https://example.com" })),
            request(json!({ "requestedSchema": { "properties": { "deep": { "type": "object" } } } })),
            request(json!({ "requestedSchema": { "required": ["unknown"] } })),
            json!({ "a": { "method": "elicitation/create", "params": {} }, "b": { "method": "elicitation/create", "params": {} } }),
        ] {
            assert_eq!(form(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn an_answer_fits_its_form() {
        let schema = flat(&json!({
            "properties": { "size": { "type": "string", "enum": ["s", "l"] }, "count": { "type": "integer" } }, "required": ["size"],
        }))
        .unwrap();
        assert_eq!(check_answer(&schema, &json!({ "size": "s", "count": 2 })), Ok(()));
        for wrong in [
            json!([]),
            json!({}),
            json!({ "size": "m" }),
            json!({ "size": "s", "count": 1.5 }),
            json!({ "size": "s", "x": 1 }),
        ] {
            assert!(check_answer(&schema, &wrong).is_err(), "{wrong}");
        }
    }
}
