//! What an MCP server offers, independent of transport and era.
//!
//! Results are JSON in the form that both eras share; the dispatcher adds what an era requires (`resultType`, `ttlMs`), and
//! divides lists, which are complete here, into pages. A service does no I/O with clients.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use super::observed::{BegunRequest, RequestRecord};
use crate::buffer::process_budget;
use crate::interaction::{InteractiveClient, Progress};
use crate::json_text::{JsonText, TreeError};
use crate::origin::{RequestOrigin, TraceContext};
use toolgate_wire::{ByteBudget, CallerScope};

/// The pending result of a service method.
pub type ServiceFuture<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;

/// What a service answers. What a backend sent stays the text that it is, counted in the byte budget of its caller until the
/// client has taken it.
#[derive(Debug, PartialEq)]
pub enum ServiceAnswer {
    /// A value that this process made, or one that requests input.
    Value(Value),
    /// The text of a complete result.
    Text(JsonText),
}

impl From<Value> for ServiceAnswer {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl ServiceAnswer {
    /// The answer as a tree, of at most `limit` bytes.
    ///
    /// # Errors
    /// If the tree of a text takes more.
    pub fn into_value(self, limit: usize) -> Result<Value, TreeError> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Text(text) => text.into_tree(limit).map(|(value, _)| value),
        }
    }
}

/// A result that needs no waiting.
pub fn ready<T: Send + 'static>(outcome: Result<T, Fault>) -> ServiceFuture<T> {
    Box::pin(std::future::ready(outcome))
}

/// The server's name, version and instructions, as sent in the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The server's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Instructions for a model on how to use the server.
    pub instructions: String,
}

/// Which tools a client sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolMode {
    /// The gateway's own few tools.
    #[default]
    Code,
    /// The backends' own: tools and prompts as `backend__name`, and resources.
    Direct,
    /// All of them.
    Both,
}

/// The text names no tool mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the mode must be one of code, direct, both")]
pub struct UnknownToolMode;

impl std::str::FromStr for ToolMode {
    type Err = UnknownToolMode;

    fn from_str(name: &str) -> Result<Self, UnknownToolMode> {
        match name {
            "code" => Ok(Self::Code),
            "direct" => Ok(Self::Direct),
            "both" => Ok(Self::Both),
            _ => Err(UnknownToolMode),
        }
    }
}

/// The scope of a request, determined by the transport from its settings and the client's credentials.
#[derive(Debug, Clone, Default)]
pub struct RequestScope {
    /// Which tools the client sees.
    pub mode: ToolMode,
    /// The caller, and what it may use.
    pub caller: CallerScope,
}

/// One call of one tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// The scope of the request.
    pub scope: RequestScope,
    /// Ends the call: a cancel notification, a closed stream, a dropped connection.
    pub cancel: CancellationToken,
    /// Cancelled by a cancel notification alone: the client does not want the result any more, whatever becomes of the
    /// connection.
    pub withdrawn: CancellationToken,
    /// Receives progress, if the client requested it.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// The client's number: calls of one client take turns in queues with those of others.
    pub caller: u64,
    /// The client's declared capabilities, such as `sampling`; empty for legacy clients.
    pub capabilities: Map<String, Value>,
    /// The client, if the result may request input from it (`resultType` `input_required`). Of legacy clients only those that show
    /// forms: they are asked while their request is open, and the call is made again with what they answered.
    pub interactive_client: Option<InteractiveClient>,
    /// Which client it comes from, and which trace it belongs to.
    pub origin: RequestOrigin,
}

/// The extension that lets a server answer a call with a task.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A request about a task.
#[derive(Debug, Clone)]
pub struct TaskCall {
    /// The task's id.
    pub task: String,
    /// What is asked.
    pub request: TaskRequest,
    /// The scope of the request.
    pub scope: RequestScope,
    /// Whether the client shows forms to a person (capability `elicitation`).
    pub shows_forms: bool,
}

/// What is asked about a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskRequest {
    /// Its state.
    Get,
    /// Takes `inputResponses`.
    Update(Map<String, Value>),
    /// Its end.
    Cancel,
}

/// A request for a resource.
#[derive(Debug, Clone, Default)]
pub struct ResourceCall {
    /// Its URI.
    pub uri: String,
    /// The scope of the request.
    pub scope: RequestScope,
    /// See [`ToolCall::caller`].
    pub caller: u64,
    /// The trace that it belongs to.
    pub trace: TraceContext,
}

/// A request for a prompt with its arguments.
#[derive(Debug, Clone, Default)]
pub struct PromptCall {
    /// The prompt's name.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// The scope of the request.
    pub scope: RequestScope,
    /// See [`ToolCall::caller`].
    pub caller: u64,
    /// See [`ToolCall::interactive_client`].
    pub interactive_client: Option<InteractiveClient>,
    /// The trace that it belongs to.
    pub trace: TraceContext,
}

/// A request to complete the value of an argument.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// `{"type": "ref/resource", "uri": …}` or `{"type": "ref/prompt", "name": …}`.
    pub reference: Value,
    /// The argument's name.
    pub argument: String,
    /// The beginning of the value, as typed so far.
    pub typed: String,
    /// The scope of the request.
    pub scope: RequestScope,
    /// See [`ToolCall::caller`].
    pub caller: u64,
    /// The trace that it belongs to.
    pub trace: TraceContext,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of resources.
    Resources,
    /// The list of prompts.
    Prompts,
    /// One resource, by its URI.
    Resource(String),
}

/// A change, and the backend it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeNotice {
    /// What changed.
    pub change: Change,
    /// The backend; none for the server's own lists and resources.
    pub backend: Option<Arc<str>>,
}

impl From<Change> for ChangeNotice {
    fn from(change: Change) -> Self {
        Self { change, backend: None }
    }
}

/// Keeps a resource watched for a client until it is dropped.
pub struct Watch {
    backend: Option<Arc<str>>,
    _guard: Option<Box<dyn Send + Sync>>,
}

impl Watch {
    /// A watch of one of the server's own resources.
    pub fn own() -> Self {
        Self { backend: None, _guard: None }
    }

    /// A watch of a backend's resource, whose changes are reported while `guard` exists.
    pub fn of(backend: &str, guard: impl Send + Sync + 'static) -> Self {
        Self { backend: Some(backend.into()), _guard: Some(Box::new(guard)) }
    }

    /// The backend of the resource; none for the server's own.
    pub fn backend(&self) -> Option<&Arc<str>> {
        self.backend.as_ref()
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("backend", &self.backend).finish_non_exhaustive()
    }
}

/// Why a request fails as a JSON-RPC error. A tool that fails is a result with `isError`, not a fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// No such tool, resource or prompt.
    #[error("{0}")]
    NotFound(String),
    /// The parameters are invalid.
    #[error("{0}")]
    InvalidParams(String),
    /// An error of this server.
    #[error("{0}")]
    Internal(String),
    /// A JSON-RPC error of a backend, passed on unchanged.
    #[error("{message}")]
    Rejected {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
        /// Its data.
        data: Option<Value>,
    },
}

/// An MCP server, independent of transport and era.
pub trait Service: Send + Sync + 'static {
    /// The server's identity.
    fn identity(&self) -> Identity;

    /// The instructions for a client of this scope.
    fn instructions(&self, scope: &RequestScope) -> String {
        let _ = scope;
        self.identity().instructions
    }

    /// Waits a bounded time until the tools of this scope can be listed.
    fn prepared(&self, scope: &RequestScope) -> ServiceFuture<()> {
        let _ = scope;
        ready(Ok(()))
    }

    /// Every tool of the scope, as tool objects (`name`, `description`, `inputSchema`, …).
    fn tools(&self, scope: &RequestScope) -> Vec<Value>;

    /// The names of those tools, in the same order; pages are cut from this list.
    fn tool_names(&self, scope: &RequestScope) -> Vec<String> {
        let tools = self.tools(scope);
        tools.iter().filter_map(|tool| tool.get("name")?.as_str().map(str::to_owned)).collect()
    }

    /// One tool by its name. Override it where building the whole list is expensive.
    fn tool(&self, name: &str, scope: &RequestScope) -> Option<Value> {
        let is_it = |tool: &Value| tool.get("name").and_then(Value::as_str) == Some(name);
        self.tools(scope).into_iter().find(is_it)
    }

    /// The same as JSON text of one line. Override it where that text exists already.
    fn tool_text(&self, name: &str, scope: &RequestScope) -> Option<Box<RawValue>> {
        to_raw_value(&self.tool(name, scope)?).ok()
    }

    /// Calls a tool; returns a `CallToolResult`.
    fn call(&self, call: ToolCall) -> ServiceFuture<ServiceAnswer>;

    /// Counts replies that this process made and the client `number` has not taken.
    fn reply_budget(&self, scope: &RequestScope, number: u64) -> ByteBudget {
        let _ = (scope, number);
        process_budget().clone()
    }

    /// Every resource.
    fn resources(&self, scope: &RequestScope) -> ServiceFuture<Vec<Value>> {
        let _ = scope;
        ready(Ok(Vec::new()))
    }

    /// Every resource template.
    fn resource_templates(&self, scope: &RequestScope) -> ServiceFuture<Vec<Value>> {
        let _ = scope;
        ready(Ok(Vec::new()))
    }

    /// Reads a resource; returns its list of `contents`.
    fn read(&self, call: ResourceCall) -> ServiceFuture<ServiceAnswer> {
        ready(Err(Fault::NotFound(format!("no resource {}", call.uri))))
    }

    /// Watches a resource; fails if it does not exist or its changes are not reported.
    fn watch(&self, call: ResourceCall) -> ServiceFuture<Watch> {
        ready(Err(Fault::NotFound(format!("no resource {}", call.uri))))
    }

    /// Every prompt.
    fn prompts(&self, scope: &RequestScope) -> ServiceFuture<Vec<Value>> {
        let _ = scope;
        ready(Ok(Vec::new()))
    }

    /// Fills in a prompt; returns a `GetPromptResult`.
    fn prompt(&self, call: PromptCall) -> ServiceFuture<ServiceAnswer> {
        ready(Err(Fault::NotFound(format!("no prompt {}", call.name))))
    }

    /// Up to a hundred values that begin with what is typed.
    fn complete(&self, completion: Completion) -> ServiceFuture<Vec<String>> {
        let _ = completion;
        ready(Ok(Vec::new()))
    }

    /// Whether the server declares the capability `resources`.
    fn has_resources(&self) -> bool {
        false
    }

    /// Whether the server declares the capability `prompts`.
    fn has_prompts(&self) -> bool {
        false
    }

    /// Whether changes of single resources are reported, so that clients may subscribe to them.
    fn announces_resources(&self) -> bool {
        false
    }

    /// Whether the server declares the capability `completions`.
    fn has_completions(&self) -> bool {
        false
    }

    /// Whether calls may be answered with tasks, for clients that have the extension.
    fn has_tasks(&self) -> bool {
        false
    }

    /// The task, or nothing where something is only acknowledged.
    fn task(&self, call: TaskCall) -> ServiceFuture<Value> {
        ready(Err(Fault::InvalidParams(format!("there is no task {}", call.task))))
    }

    /// Whether the scope includes what the notice is about. A client is notified only of what its scope includes.
    fn shows(&self, notice: &ChangeNotice, scope: &RequestScope) -> bool {
        let _ = (notice, scope);
        true
    }

    /// Called before each request is served. A record that it returns is notified when the request ends.
    fn observe(&self, request: &BegunRequest<'_>) -> Option<Box<dyn RequestRecord>> {
        let _ = request;
        None
    }

    /// Receives changes from now on.
    fn changes(&self) -> broadcast::Receiver<ChangeNotice>;
}
