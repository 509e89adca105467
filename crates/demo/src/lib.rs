//! The demo MCP server: an issue tracker, a notes store, a clock, and tools that are slow or fail.
//!
//! For trying Toolgate without other servers, and for tests: its data is deterministic. It stores nothing on disk; a
//! restart restores the initial state.
//!
//! # Layout
//! - `tools`: the tool list
//! - `issues`, `notes`, `clock`, `edge_cases`: the tools
//! - `answer`: tool results in MCP's format

#![forbid(unsafe_code)]

mod answer;
mod clock;
mod edge_cases;
mod issues;
mod notes;
mod tools;

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use self::issues::Tracker;
use self::notes::Notes;
use toolgate_mcp::server::{
    Change, ChangeNotice, Completion, Fault, Identity, RequestScope, ResourceCall, Service, ServiceAnswer,
    ServiceFuture, ToolCall, Watch, ready,
};

/// Maximum number of queued change notices per listener.
const MAX_QUEUED_CHANGES: usize = 64;
const README: &str = "demo://readme";
const ABOUT: &str = "A demo server: 240 issues of an imaginary project, notes that live as long as the process, a clock, \
                     a slow tool and one that always fails.";

/// The demo server.
#[derive(Debug)]
pub struct Demo {
    tracker: Mutex<Tracker>,
    notes: Mutex<Notes>,
    changes: broadcast::Sender<ChangeNotice>,
}

impl Default for Demo {
    fn default() -> Self {
        let (changes, _) = broadcast::channel(MAX_QUEUED_CHANGES);
        Self { tracker: Mutex::default(), notes: Mutex::default(), changes }
    }
}

/// Serves the demo on stdin and stdout until the client disconnects or `shutdown` is cancelled.
pub async fn serve_stdio(shutdown: CancellationToken) -> std::io::Result<()> {
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    toolgate_mcp::server::serve_stdio(Arc::new(Demo::default()), RequestScope::default(), input, output, shutdown).await
}

impl Service for Demo {
    fn identity(&self) -> Identity {
        Identity {
            name: "toolgate-demo".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: ABOUT.to_owned(),
        }
    }

    fn tools(&self, _: &RequestScope) -> Vec<Value> {
        tools::all()
    }

    fn call(&self, call: ToolCall) -> ServiceFuture<ServiceAnswer> {
        let outcome = match call.name.as_str() {
            "list_issues" => self.tracker.lock().list(call.arguments),
            "search_issues" => self.tracker.lock().search(call.arguments),
            "get_issue" => self.tracker.lock().get(call.arguments),
            "update_issue" => self.tracker.lock().update(call.arguments),
            "create_note" => self.notes.lock().create(call.arguments).inspect(|name| self.announce(name)).map(saved),
            "read_note" => self.notes.lock().read(call.arguments),
            "list_notes" => Ok(self.notes.lock().list()),
            "delete_note" => self.notes.lock().delete(call.arguments).inspect(|name| self.announce(name)).map(deleted),
            "current_time" => clock::now(call.arguments),
            "show_logo" => return ready(Ok(edge_cases::logo(README).into())),
            "always_fails" => edge_cases::fail(&call.arguments),
            "slow_task" => return Box::pin(async move { Ok(answer::of(edge_cases::slow(call).await).into()) }),
            name => return ready(Err(Fault::NotFound(format!("there is no tool {name}")))),
        };
        ready(Ok(answer::of(outcome).into()))
    }

    fn resources(&self, _: &RequestScope) -> ServiceFuture<Vec<Value>> {
        let readme =
            json!({ "uri": README, "name": "readme", "description": "What this is.", "mimeType": "text/plain" });
        ready(Ok(std::iter::once(readme).chain(self.notes.lock().resources()).collect()))
    }

    fn resource_templates(&self, _: &RequestScope) -> ServiceFuture<Vec<Value>> {
        let issue = json!({
            "uriTemplate": "demo://issue/{number}", "name": "issue",
            "description": "One issue by its number.", "mimeType": "application/json",
        });
        ready(Ok(vec![issue]))
    }

    fn read(&self, call: ResourceCall) -> ServiceFuture<ServiceAnswer> {
        ready(self.contents(&call.uri).map(|contents| Value::Array(contents).into()))
    }

    fn watch(&self, call: ResourceCall) -> ServiceFuture<Watch> {
        ready(self.contents(&call.uri).map(|_| Watch::own()))
    }

    fn complete(&self, completion: Completion) -> ServiceFuture<Vec<String>> {
        if completion.reference.get("uri").and_then(Value::as_str) != Some("demo://issue/{number}") {
            return ready(Ok(Vec::new()));
        }
        ready(Ok(self.tracker.lock().numbers().filter(|number| number.starts_with(&completion.typed)).collect()))
    }

    fn has_resources(&self) -> bool {
        true
    }

    fn announces_resources(&self) -> bool {
        true
    }

    fn has_completions(&self) -> bool {
        true
    }

    fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.changes.subscribe()
    }
}

impl Demo {
    fn contents(&self, uri: &str) -> Result<Vec<Value>, Fault> {
        let issue = uri.strip_prefix("demo://issue/").and_then(|number| number.parse().ok());
        let found = match issue {
            Some(number) => {
                self.tracker.lock().find(number).map(|issue| (json!(issue).to_string(), "application/json"))
            }
            None if uri == README => Some((ABOUT.to_owned(), "text/plain")),
            None => self.notes.lock().at(uri).map(|text| (text, "text/plain")),
        };
        let (text, kind) = found.ok_or_else(|| Fault::NotFound(format!("there is no resource {uri}")))?;
        Ok(vec![json!({ "uri": uri, "mimeType": kind, "text": text })])
    }

    /// Sends the notices for a created, changed or deleted note. No listener is not an error.
    fn announce(&self, note: &str) {
        let _ = self.changes.send(Change::Resources.into());
        let _ = self.changes.send(Change::Resource(notes::uri(note)).into());
    }
}

fn saved(name: String) -> Value {
    json!({ "saved": name, "uri": notes::uri(&name) })
}

fn deleted(name: String) -> Value {
    json!({ "deleted": name })
}
