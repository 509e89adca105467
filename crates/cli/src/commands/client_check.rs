//! `toolgate doctor --client`: an MCP server with one tool, which tells what a client really does with a question to its user.
//!
//! A client says what it can do and may do something else: some decline every form unseen. So the tool shows a form and tells what
//! came back, and how fast. It changes nothing and knows no other server.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use toolgate_journal::unix_ms;
use toolgate_mcp::server::{
    ChangeNotice, Fault, Identity, RequestScope, Service, ServiceAnswer, ServiceFuture, TASKS_EXTENSION, ToolCall,
    ready, serve_stdio,
};

use super::Exit;
use crate::print::out;

/// The one tool.
const TOOL: &str = "check_client";
/// A decline that comes sooner is no person's: as approvals count it.
const MIN_DECLINE: Duration = Duration::from_millis(250);

/// Serves the check on standard input and output; on a terminal it says how to use it.
pub(crate) fn serve() -> anyhow::Result<Exit> {
    if std::io::stdin().is_terminal() {
        out("This is an MCP server for the client that you want to check. Add it there, with the command\n\
             `toolgate doctor --client`, and ask the model to call check_client: it shows you a form, and tells what\n\
             the client did with it.")?;
        return Ok(Exit::Done);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let service = Arc::new(ClientCheck { changes: broadcast::channel(1).0 });
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    runtime.block_on(serve_stdio(service, RequestScope::default(), input, output, CancellationToken::new()))?;
    // A read of standard input may still block a thread.
    runtime.shutdown_background();
    Ok(Exit::Done)
}

struct ClientCheck {
    /// Its tool never changes.
    changes: broadcast::Sender<ChangeNotice>,
}

impl Service for ClientCheck {
    fn identity(&self) -> Identity {
        Identity {
            name: "toolgate-client-check".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: "Call check_client to see what this client does when its user is asked something.".to_owned(),
        }
    }

    fn tools(&self, _: &RequestScope) -> Vec<Value> {
        vec![json!({
            "name": TOOL,
            "description": "Shows the user a form and tells what the client did with it. Changes nothing.",
            "inputSchema": { "type": "object", "properties": {} },
            "annotations": { "readOnlyHint": true },
        })]
    }

    fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.changes.subscribe()
    }

    fn call(&self, call: ToolCall) -> ServiceFuture<ServiceAnswer> {
        if call.name != TOOL {
            return ready(Err(Fault::NotFound(format!("no tool {}", call.name))));
        }
        ready(Ok(answered(&call, unix_ms()).into()))
    }
}

fn answered(call: &ToolCall, now: u64) -> Value {
    let client = call.interactive_client.as_ref();
    let elicitation = client.and_then(|client| client.capabilities().get("elicitation")).and_then(Value::as_object);
    let shows_forms = elicitation.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"));
    let state = client.and_then(|client| client.answers().get("requestState")).and_then(Value::as_str);
    let asked_at = state.and_then(|state| state.parse::<u64>().ok());
    let form = match asked_at {
        None if shows_forms => return question(now),
        None => "It declares no forms (capability elicitation), so calls that wait for a person are decided elsewhere: on the \
                 page, by `toolgate approve`, or at POST /v1/runs/{runId}/decisions."
            .to_owned(),
        Some(asked_at) => {
            let answer = client.and_then(|client| client.answers().get("inputResponses"));
            verdict(answer.map_or(&Value::Null, |answers| &answers["seen"]), now.saturating_sub(asked_at))
        }
    };
    let name = call.origin.client.as_deref().unwrap_or("a client without a name");
    let revision = call.origin.protocol.unwrap_or("a revision that it did not name");
    let has_tasks = call.capabilities.get("extensions").and_then(|it| it.get(TASKS_EXTENSION)).is_some();
    let tasks = if has_tasks { "It has the tasks extension." } else { "It has no tasks extension." };
    json!({ "content": [{ "type": "text", "text": format!("{name}, {revision}.\n{form}\n{tasks}") }] })
}

fn question(now: u64) -> Value {
    let seen = json!({ "type": "boolean", "title": "I see this form" });
    let schema = json!({ "type": "object", "properties": { "seen": seen }, "required": ["seen"] });
    let message = "Toolgate checks what your client does with questions. Do you see this form? Answer, or decline.";
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    json!({
        "resultType": "input_required",
        "inputRequests": { "seen": { "method": "elicitation/create", "params": params } },
        "requestState": now.to_string(),
    })
}

/// What the client did with the form, and what Toolgate makes of it.
fn verdict(answer: &Value, after_ms: u64) -> String {
    match answer["action"].as_str() {
        Some("accept") if answer["content"]["seen"].is_boolean() => {
            format!("It shows forms: this one was answered after {after_ms} ms. Approvals are asked for by forms.")
        }
        Some("accept") => {
            format!(
                "It accepted the form after {after_ms} ms without its field: that is no answer, and approvals are decided elsewhere."
            )
        }
        Some("decline") if Duration::from_millis(after_ms) < MIN_DECLINE => format!(
            "It declined the form after {after_ms} ms, which no person did: that counts as no answer, and approvals are decided elsewhere."
        ),
        Some("decline") => {
            format!("It shows forms: this one was declined after {after_ms} ms. A decline denies a call.")
        }
        _ => format!(
            "The form was dismissed after {after_ms} ms: that is no answer, and approvals are decided elsewhere."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: Value, after_ms: u64, expected: &str) {
        let said = verdict(&answer, after_ms);
        assert!(said.contains(expected), "{answer}: {said}");
    }

    #[test]
    fn what_came_back_is_told_with_what_it_means() {
        check(json!({ "action": "accept", "content": { "seen": true } }), 2_000, "answered after 2000 ms");
        check(json!({ "action": "accept" }), 3, "without its field");
        check(json!({ "action": "decline" }), 12, "which no person did");
        check(json!({ "action": "decline" }), 250, "A decline denies a call");
        check(json!({ "action": "cancel" }), 1, "dismissed");
        check(Value::Null, 1, "dismissed");
    }
}
