//! A scripted set of tools, read from a JSON file: for demonstrations, examples and tests.
//!
//! ```json
//! { "backends": { "shop": { "tools": [
//!   { "name": "find", "description": "Finds products", "inputSchema": { "type": "object" },
//!     "reply": { "echo": "{{query}}" }, "delayMs": 5 },
//!   { "name": "fail", "error": { "code": "NOT_FOUND", "message": "no {{id}}" } }
//! ] } } }
//! ```
//!
//! A text that is one `{{path}}` becomes the argument itself; inside a longer text the argument's
//! own text is put. `replies` is a list of answers for one call after another, the last repeated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_engine::{HostError, TurnQueue};

use super::{Answer, Provider, ProviderFuture, RequestContext};
use toolgate_catalog::{BackendState, Catalog, Listing, Tool};
use toolgate_wire::CallErrorCode;

/// The file as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolScript {
    /// Backends by name.
    pub backends: BTreeMap<String, ScriptedBackend>,
}

/// One backend of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScriptedBackend {
    /// Words that search may filter by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Calls that it carries out at one time; the others wait. As many as there are when absent.
    #[serde(default)]
    pub max_concurrent: Option<usize>,
    /// Its tools.
    pub tools: Vec<ScriptedTool>,
}

/// One tool of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScriptedTool {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: Option<String>,
    /// What it takes; anything when absent.
    #[serde(default, alias = "input_schema")]
    pub input_schema: Option<Value>,
    /// What it gives.
    #[serde(default, alias = "output_schema")]
    pub output_schema: Option<Value>,
    /// Hints such as `readOnlyHint`.
    #[serde(default)]
    pub annotations: Option<Value>,
    /// The answer.
    #[serde(default)]
    pub reply: Option<Value>,
    /// Answers for one call after another; the last is repeated.
    #[serde(default)]
    pub replies: Vec<Value>,
    /// The failure, instead of an answer.
    #[serde(default)]
    pub error: Option<ScriptedError>,
    /// Milliseconds until the answer.
    #[serde(default, alias = "delay_ms", alias = "delay")]
    pub delay_ms: u64,
}

/// A failure of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedError {
    /// Its code.
    #[serde(default = "tool_failed")]
    pub code: CallErrorCode,
    /// Its message.
    pub message: String,
    /// More, for a program.
    #[serde(default)]
    pub data: Option<Value>,
}

fn tool_failed() -> CallErrorCode {
    CallErrorCode::ToolFailed
}

impl ToolScript {
    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The catalog of these tools.
    pub fn catalog(&self) -> Catalog {
        let listings = self.backends.iter().map(|(name, backend)| Listing {
            name: name.clone(),
            state: BackendState::Ready,
            tools: backend.tools.iter().filter_map(ScriptedTool::described).collect(),
            tags: backend.tags.clone(),
        });
        Catalog::new(listings.collect())
    }

    /// A provider for each backend.
    pub fn providers(self) -> impl Iterator<Item = (String, Arc<dyn Provider>)> {
        self.backends.into_iter().map(|(name, backend)| {
            let played = |tool: ScriptedTool| (tool.name.clone(), Arc::new(Played::new(tool)));
            let tools = backend.tools.into_iter().map(played).collect();
            let queue = backend.max_concurrent.map(|limit| TurnQueue::new(limit, WAITING));
            (name, Arc::new(ScriptedProvider { tools, queue }) as Arc<dyn Provider>)
        })
    }
}

impl ScriptedTool {
    fn described(&self) -> Option<Tool> {
        Tool::from_raw(json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.annotations,
        }))
    }
}

/// Calls that may wait for their turn.
const WAITING: usize = 10_000;
/// The time of a call that has none of its own.
const TIMEOUT: Duration = Duration::from_secs(30);

struct ScriptedProvider {
    tools: BTreeMap<String, Arc<Played>>,
    queue: Option<Arc<TurnQueue>>,
}

/// A tool and how often it was called.
struct Played {
    tool: ScriptedTool,
    calls: AtomicUsize,
}

impl Played {
    fn new(tool: ScriptedTool) -> Self {
        Played { tool, calls: AtomicUsize::new(0) }
    }

    /// The answer of the call that came as number `turn`.
    fn answer(&self, turn: usize, arguments: &Map<String, Value>) -> Result<Answer, HostError> {
        if let Some(error) = &self.tool.error {
            let message = filled_text(&error.message, arguments);
            let data = error.data.as_ref().map(|data| filled(data, arguments));
            return Err(HostError { data, ..HostError::new(error.code.clone(), message) });
        }
        let last = self.tool.replies.len().saturating_sub(1);
        let template = self.tool.replies.get(turn.min(last)).or(self.tool.reply.as_ref());
        Ok(Answer::Value(template.map_or(Value::Null, |template| filled(template, arguments))))
    }
}

impl Provider for ScriptedProvider {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        let Some(played) = self.tools.get(&tool).cloned() else {
            let error = HostError::not_sent(CallErrorCode::UnknownTool, format!("no tool named {tool}"));
            return Box::pin(std::future::ready(Err(error)));
        };
        let turn = played.calls.fetch_add(1, Ordering::Relaxed);
        if played.tool.delay_ms == 0 && self.queue.is_none() {
            return Box::pin(std::future::ready(played.answer(turn, &arguments)));
        }
        let queue = self.queue.clone();
        Box::pin(async move {
            let delayed = async {
                let _permit = match &queue {
                    Some(queue) => Some(queue.enter(asked.caller).await.map_err(|_| overloaded())?),
                    None => None,
                };
                played.wait(asked.timeout.unwrap_or(TIMEOUT)).await?;
                played.answer(turn, &arguments)
            };
            tokio::select! {
                answer = delayed => answer,
                () = asked.cancel.cancelled() => Err(HostError::unknown(CallErrorCode::Cancelled, "the call was cancelled")),
            }
        })
    }
}

fn overloaded() -> HostError {
    HostError::not_sent(CallErrorCode::Overloaded, format!("{WAITING} calls wait already"))
}

impl Played {
    /// Takes the tool's time, which starts when its turn comes, but no more than is allowed.
    async fn wait(&self, allowed: Duration) -> Result<(), HostError> {
        let delay = Duration::from_millis(self.tool.delay_ms);
        tokio::time::sleep(delay.min(allowed)).await;
        if delay > allowed {
            return Err(HostError::unknown(
                CallErrorCode::Timeout,
                format!("no answer within {} ms", allowed.as_millis()),
            ));
        }
        Ok(())
    }
}

/// The template with arguments put in.
fn filled(template: &Value, arguments: &Map<String, Value>) -> Value {
    match template {
        Value::String(text) => match text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) {
            Some(path) if !path.contains("{{") => look_up(arguments, path).cloned().unwrap_or(Value::Null),
            _ => Value::String(filled_text(text, arguments)),
        },
        Value::Array(items) => items.iter().map(|item| filled(item, arguments)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), filled(value, arguments))).collect())
        }
        plain => plain.clone(),
    }
}

fn filled_text(text: &str, arguments: &Map<String, Value>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((path, tail)) = after.split_once("}}") else { break };
        result.push_str(before);
        match look_up(arguments, path) {
            Some(Value::String(text)) => result.push_str(text),
            Some(value) => result.push_str(&value.to_string()),
            None => result.push_str("null"),
        }
        rest = tail;
    }
    result.push_str(rest);
    result
}

fn look_up<'a>(arguments: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut parts = path.trim().split('.');
    let first = arguments.get(parts.next()?)?;
    parts.try_fold(first, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        value => value.get(part),
    })
}
