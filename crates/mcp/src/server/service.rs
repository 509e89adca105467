//! What an MCP server offers, free of transport and era.
//!
//! Results are JSON in the form that both eras share; the door adds what an era asks for on top
//! (`resultType`, `ttlMs`, session headers). Lists are complete; the door pages them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::interaction::{InteractiveClient, Progress};
use toolgate_wire::CallerScope;

/// An answer on its way.
pub type ServiceFuture<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;

/// An answer that is there already.
pub fn ready<T: Send + 'static>(outcome: Result<T, Fault>) -> ServiceFuture<T> {
    Box::pin(std::future::ready(outcome))
}

/// Name, version and instructions, as a client is greeted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The server's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How to use it, for a model.
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

/// No mode has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the mode is one of code, direct, both")]
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

/// For whom a request is answered: decided by the door, from the transport and its credentials.
#[derive(Debug, Clone, Default)]
pub struct RequestScope {
    /// Which tools the client sees.
    pub mode: ToolMode,
    /// Who it is, and what it may use.
    pub caller: CallerScope,
}

/// One call of one tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Who asks.
    pub scope: RequestScope,
    /// Ends the call: a cancel notification, a closed stream, a dropped connection.
    pub cancel: CancellationToken,
    /// Where progress goes, if the client wants it.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// A number for the client, so that one cannot crowd out another.
    pub caller: u64,
    /// What the client said it can do, such as `sampling`. Legacy clients are not asked.
    pub capabilities: Map<String, Value>,
    /// The client as one that may be asked: then the result may be of the type `input_required`. No legacy client may.
    pub partner: Option<InteractiveClient>,
}

/// A resource that a client asks for.
#[derive(Debug, Clone, Default)]
pub struct ResourceCall {
    /// Its URI.
    pub uri: String,
    /// Who asks.
    pub scope: RequestScope,
    /// See [`ToolCall::caller`].
    pub caller: u64,
}

/// A prompt with its arguments.
#[derive(Debug, Clone, Default)]
pub struct PromptCall {
    /// The prompt's name.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Who asks.
    pub scope: RequestScope,
    /// See [`ToolCall::caller`].
    pub caller: u64,
    /// See [`ToolCall::partner`].
    pub partner: Option<InteractiveClient>,
}

/// A value to be completed: `ref` as the client sent it, the argument's name and what is typed so far.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// `{"type": "ref/resource", "uri": …}` or `{"type": "ref/prompt", "name": …}`.
    pub reference: Value,
    /// The argument's name.
    pub argument: String,
    /// What is typed so far.
    pub typed: String,
    /// Who asks.
    pub scope: RequestScope,
    /// See [`ToolCall::caller`].
    pub caller: u64,
}

/// What a client is told has changed.
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

/// A change, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// What changed.
    pub change: Change,
    /// The backend it came from; none if it is the server's own.
    pub backend: Option<Arc<str>>,
}

impl From<Change> for News {
    fn from(change: Change) -> Self {
        Self { change, backend: None }
    }
}

/// A resource that is watched for a client until this is dropped.
pub struct Watch {
    backend: Option<Arc<str>>,
    _hold: Option<Box<dyn Send + Sync>>,
}

impl Watch {
    /// Of a resource of the server's own.
    pub fn own() -> Self {
        Self { backend: None, _hold: None }
    }

    /// Of a backend's resource, which it tells of while `hold` lives.
    pub fn of(backend: &str, hold: impl Send + Sync + 'static) -> Self {
        Self { backend: Some(backend.into()), _hold: Some(Box::new(hold)) }
    }

    /// Whose resource it is; none if it is the server's own.
    pub fn backend(&self) -> Option<&Arc<str>> {
        self.backend.as_ref()
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("backend", &self.backend).finish_non_exhaustive()
    }
}

/// A request that the protocol answers with an error. A tool that fails is a result with `isError`, not this.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// There is no such tool, resource or prompt.
    #[error("{0}")]
    NotFound(String),
    /// The parameters do not fit.
    #[error("{0}")]
    InvalidParams(String),
    /// We failed.
    #[error("{0}")]
    Internal(String),
    /// Another server's own error, passed on as it came.
    #[error("{message}")]
    Rejected {
        /// Its code.
        code: i64,
        /// What it says.
        message: String,
        /// What it adds, if anything.
        data: Option<Value>,
    },
}

/// A server behind the door.
pub trait Service: Send + Sync + 'static {
    /// Who this is.
    fn identity(&self) -> Identity;

    /// Waits, within reason, for what is needed to list the tools of a page.
    fn prepared(&self, scope: &RequestScope) -> ServiceFuture<()> {
        let _ = scope;
        ready(Ok(()))
    }

    /// Every tool of the page, as tool objects (`name`, `description`, `inputSchema`, …).
    fn tools(&self, scope: &RequestScope) -> Vec<Value>;

    /// The names of those tools, in the same order: what pages are cut from.
    fn tool_names(&self, scope: &RequestScope) -> Vec<String> {
        let tools = self.tools(scope);
        tools.iter().filter_map(|tool| tool.get("name")?.as_str().map(str::to_owned)).collect()
    }

    /// One tool by its name. Worth its own answer where making the whole list is not free.
    fn tool(&self, name: &str, scope: &RequestScope) -> Option<Value> {
        let is_it = |tool: &Value| tool.get("name").and_then(Value::as_str) == Some(name);
        self.tools(scope).into_iter().find(is_it)
    }

    /// The same, as text of one line. Worth its own answer where there is one that need not be read first.
    fn tool_text(&self, name: &str, scope: &RequestScope) -> Option<Box<RawValue>> {
        to_raw_value(&self.tool(name, scope)?).ok()
    }

    /// Calls a tool; gives a `CallToolResult`.
    fn call(&self, call: ToolCall) -> ServiceFuture<Value>;

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

    /// Reads a resource; gives its list of `contents`.
    fn read(&self, call: ResourceCall) -> ServiceFuture<Vec<Value>> {
        ready(Err(Fault::NotFound(format!("no resource {}", call.uri))))
    }

    /// Begins to watch a resource; refuses what is not there, and what it could not tell of.
    fn watch(&self, call: ResourceCall) -> ServiceFuture<Watch> {
        ready(Err(Fault::NotFound(format!("no resource {}", call.uri))))
    }

    /// Every prompt.
    fn prompts(&self, scope: &RequestScope) -> ServiceFuture<Vec<Value>> {
        let _ = scope;
        ready(Ok(Vec::new()))
    }

    /// Fills in a prompt; gives a `GetPromptResult`.
    fn prompt(&self, call: PromptCall) -> ServiceFuture<Value> {
        ready(Err(Fault::NotFound(format!("no prompt {}", call.name))))
    }

    /// Up to a hundred values that begin like what is typed.
    fn complete(&self, completion: Completion) -> ServiceFuture<Vec<String>> {
        let _ = completion;
        ready(Ok(Vec::new()))
    }

    /// Whether there are resources at all: what is not there is not declared.
    fn has_resources(&self) -> bool {
        false
    }

    /// See [`Service::has_resources`].
    fn has_prompts(&self) -> bool {
        false
    }

    /// Whether changes of single resources are announced, so that clients may ask to hear of them.
    fn announces_resources(&self) -> bool {
        false
    }

    /// Whether argument values are completed.
    fn has_completions(&self) -> bool {
        false
    }

    /// Whether a client with this page sees what the news are about. What it does not see, it does not hear of.
    fn shows(&self, news: &News, scope: &RequestScope) -> bool {
        let _ = (news, scope);
        true
    }

    /// Hears of changes.
    fn changes(&self) -> broadcast::Receiver<News>;
}
