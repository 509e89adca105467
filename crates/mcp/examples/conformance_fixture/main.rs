//! What the MCP conformance suite expects a server to offer, behind our own door.
//!
//! `conformance_fixture stdio` serves it as a backend; `conformance_fixture http 127.0.0.1:3900`
//! serves it at `/mcp` and prints where, once it listens. It offers what the suite asks for by
//! name, except requests of its own to a legacy client, and a log.

#![allow(clippy::print_stdout, reason = "its address is printed")]

mod offers;
mod questions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use toolgate_mcp::server::{
    Change, ChangeNotice, Completion, Fault, HttpOptions, Identity, PromptCall, RequestScope, ResourceCall, Service,
    ServiceAnswer, ServiceFuture, ToolCall, Watch, ready,
};
use toolgate_mcp::{InteractiveClient, Progress};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let service = Arc::new(Fixture { changes: broadcast::channel(64).0, has_changed: AtomicBool::new(false) });
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["stdio"] => {
            let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
            toolgate_mcp::server::serve_stdio(service, RequestScope::default(), input, output, CancellationToken::new())
                .await
        }
        ["http", address] => {
            let listener = tokio::net::TcpListener::bind(address).await?;
            println!("http://{}/mcp", listener.local_addr()?);
            axum::serve(listener, toolgate_mcp::server::router(service, HttpOptions::default())).await
        }
        _ => Err(std::io::Error::other("usage: conformance_fixture stdio | http ADDRESS")),
    }
}

struct Fixture {
    changes: broadcast::Sender<ChangeNotice>,
    /// Whether the list of tools is the other one of two.
    has_changed: AtomicBool,
}

impl Service for Fixture {
    fn identity(&self) -> Identity {
        let text = str::to_owned;
        Identity { name: text("conformance-fixture"), version: text("1.0.0"), instructions: String::new() }
    }

    fn tools(&self, _: &RequestScope) -> Vec<Value> {
        let changed = self.has_changed.load(Ordering::Relaxed).then(offers::changed_tool);
        offers::tools().into_iter().chain(changed).collect()
    }

    fn call(&self, call: ToolCall) -> ServiceFuture<ServiceAnswer> {
        match call.name.as_str() {
            "test_tool_with_progress" => return Box::pin(in_steps(call)),
            "test_trigger_tool_change" => {
                self.has_changed.fetch_xor(true, Ordering::Relaxed);
                drop(self.changes.send(Change::Tools.into()));
            }
            "test_trigger_prompt_change" => drop(self.changes.send(Change::Prompts.into())),
            "test_missing_capability" if !call.capabilities.contains_key("sampling") => {
                return ready(Err(Fault::Rejected {
                    code: -32021,
                    message: "the client can't sample".to_owned(),
                    data: Some(json!({ "requiredCapabilities": { "sampling": {} } })),
                }));
            }
            name if questions::TOOLS.contains(&name) => {
                if let Some(question) = question(&call.name, call.interactive_client.as_ref()) {
                    return ready(question.map(ServiceAnswer::Value));
                }
            }
            _ => {}
        }
        let unknown = || Fault::NotFound(format!("there is no tool {}", call.name));
        ready(offers::result_of(&call.name).map(ServiceAnswer::Value).ok_or_else(unknown))
    }

    fn resources(&self, _: &RequestScope) -> ServiceFuture<Vec<Value>> {
        ready(Ok(offers::resources()))
    }

    fn resource_templates(&self, _: &RequestScope) -> ServiceFuture<Vec<Value>> {
        ready(Ok(vec![json!({
            "uriTemplate": "test://template/{id}/data", "name": "template",
            "description": "Data by its id.", "mimeType": "application/json",
        })]))
    }

    fn read(&self, call: ResourceCall) -> ServiceFuture<ServiceAnswer> {
        let unknown = || Fault::NotFound(format!("there is no resource {}", call.uri));
        ready(offers::contents_of(&call.uri).map(|contents| Value::Array(contents).into()).ok_or_else(unknown))
    }

    fn watch(&self, call: ResourceCall) -> ServiceFuture<Watch> {
        let unknown = || Fault::NotFound(format!("there is no resource {}", call.uri));
        ready(offers::contents_of(&call.uri).ok_or_else(unknown).map(|_| Watch::own()))
    }

    fn prompts(&self, _: &RequestScope) -> ServiceFuture<Vec<Value>> {
        ready(Ok(offers::prompts()))
    }

    fn prompt(&self, call: PromptCall) -> ServiceFuture<ServiceAnswer> {
        if call.name == questions::PROMPT
            && let Some(question) = question(&call.name, call.interactive_client.as_ref())
        {
            return ready(question.map(ServiceAnswer::Value));
        }
        let unknown = || Fault::NotFound(format!("there is no prompt {}", call.name));
        ready(offers::messages_of(&call.name, &call.arguments).map(ServiceAnswer::Value).ok_or_else(unknown))
    }

    fn complete(&self, completion: Completion) -> ServiceFuture<Vec<String>> {
        let values = ["paris", "park", "party", "test"];
        let fitting = values.iter().filter(|value| value.starts_with(&completion.typed));
        ready(Ok(fitting.map(|value| (*value).to_owned()).collect()))
    }

    fn has_resources(&self) -> bool {
        true
    }

    fn has_prompts(&self) -> bool {
        true
    }

    fn has_completions(&self) -> bool {
        true
    }

    fn announces_resources(&self) -> bool {
        true
    }

    fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.changes.subscribe()
    }
}

/// What a client that may be asked is asked next, or why not.
fn question(name: &str, client: Option<&InteractiveClient>) -> Option<Result<Value, Fault>> {
    questions::next(name, client?).transpose()
}

async fn in_steps(call: ToolCall) -> Result<ServiceAnswer, Fault> {
    for progress in [0.0, 50.0, 100.0] {
        if let Some(sink) = &call.progress {
            let _ = sink.try_send(Progress { progress, total: Some(100.0), message: None });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(offers::text("The work is done.").into())
}
