//! Tools and a prompt that ask the client something before they answer.

use serde_json::{Value, json};
use toolgate_mcp::InteractiveClient;
use toolgate_mcp::server::Fault;

/// The tools.
pub(crate) const TOOLS: [&str; 8] = [
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];
/// The prompt.
pub(crate) const PROMPT: &str = "test_input_required_result_prompt";

/// The states that are ours; one that a client made is refused.
const FIRST: &str = "round-1";
const SECOND: &str = "round-2";

/// What is asked next; nothing once all of it is answered.
pub(crate) fn next(name: &str, client: &InteractiveClient) -> Result<Option<Value>, Fault> {
    let state = client.answers().get("requestState").and_then(Value::as_str);
    if state.is_some_and(|state| state != FIRST && state != SECOND) {
        return Err(Fault::InvalidParams("the state is not ours".to_owned()));
    }
    let (questions, next) = round(name, client, state);
    let given = client.answers().get("inputResponses");
    let is_answered = |key: &str| given.and_then(|given| given.get(key)).is_some_and(Value::is_object);
    if questions.iter().all(|(key, _)| is_answered(key)) && (next.is_none() || state.is_some()) {
        return Ok(None);
    }
    let requests: serde_json::Map<_, _> =
        questions.into_iter().map(|(key, question)| (key.to_owned(), question)).collect();
    let mut result = json!({ "resultType": "input_required", "inputRequests": requests });
    if let Some(next) = next {
        result["requestState"] = json!(next);
    }
    Ok(Some(result))
}

type Round = (Vec<(&'static str, Value)>, Option<&'static str>);

fn round(name: &str, client: &InteractiveClient, state: Option<&str>) -> Round {
    let user = || ("user_name", elicitation("What is your name?", "name"));
    let roots = || ("client_roots", json!({ "method": "roots/list", "params": {} }));
    match name.trim_start_matches("test_input_required_result_") {
        "elicitation" => (vec![user()], None),
        "sampling" => (vec![("capital_question", sampling("What is the capital of France?"))], None),
        "list_roots" => (vec![roots()], None),
        "request_state" | "tampered_state" => (vec![("confirm", elicitation("Please confirm", "ok"))], Some(FIRST)),
        "multiple_inputs" => (vec![user(), ("greeting", sampling("Generate a greeting")), roots()], Some(FIRST)),
        "multi_round" if state.is_some() => (vec![("step2", elicitation("Your colour?", "color"))], Some(SECOND)),
        "multi_round" => (vec![("step1", elicitation("Your name?", "name"))], Some(FIRST)),
        "capabilities" => {
            let all = [("elicitation", user()), ("sampling", ("greeting", sampling("Greet"))), ("roots", roots())];
            let able = all.into_iter().filter(|(needed, _)| client.capabilities().contains_key(*needed));
            (able.map(|(_, question)| question).collect(), None)
        }
        _ => (vec![("user_context", elicitation("What context should the prompt use?", "context"))], None),
    }
}

fn elicitation(message: &str, field: &str) -> Value {
    let kind = if field == "ok" { "boolean" } else { "string" };
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": schema } })
}

fn sampling(text: &str) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 100 } })
}
