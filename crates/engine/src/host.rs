//! What a program can reach outside its sandbox: host functions and tools.
//!
//! A run has one host. The default host is empty: a program can reach only what an embedder adds by name.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};
pub use toolgate_wire::frame::{Question, Target};
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallErrorCode, CallId, CallState};

/// The future of a call's answer.
pub type HostFuture = Pin<Box<dyn Future<Output = Result<String, HostError>> + Send>>;

/// What counts the bytes of an answer until its worker has taken them.
pub type HeldBytes = Box<dyn Any + Send>;

/// One call from a program.
#[derive(Debug, Clone)]
pub struct HostCall {
    /// Its number in the run.
    pub id: CallId,
    /// What it invokes.
    pub target: Target,
    /// JSON text: a tool's argument object, or a function's list of arguments.
    pub args: String,
}

/// A call that is repeated from a record: it is not made, but was.
#[derive(Debug, Clone, Copy)]
pub struct RepeatedCall<'a> {
    /// Its number in the run.
    pub id: CallId,
    /// What it invoked.
    pub target: &'a Target,
    /// JSON text of its arguments.
    pub args: &'a [u8],
    /// What is known about its effect.
    pub state: CallState,
    /// JSON text of its value, or of the fields of its error.
    pub body: Result<&'a [u8], &'a [u8]>,
}

/// Answers a program's calls and questions.
pub trait Host: Send + Sync + 'static {
    /// Makes a call. The future may be dropped when the run ends.
    fn call(&self, call: HostCall) -> HostFuture;

    /// Answers a question as JSON text. The program is suspended meanwhile, so this must return quickly.
    fn answer(&self, question: &Question) -> Option<String> {
        let _ = question;
        None
    }

    /// The names of the host functions; `api.fetch` is `fetch` under `api`.
    fn functions(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the host has tools.
    fn has_tools(&self) -> bool {
        false
    }

    /// Whether a call of this target is known to change nothing.
    fn is_read_only(&self, target: &Target) -> bool {
        let _ = target;
        false
    }

    /// A call that is repeated from a record, with its answer. Each one that the program gets an answer to without a call of
    /// [`Host::call`] comes here once, before [`Host::decision`] is asked about it.
    fn repeated(&self, call: RepeatedCall<'_>) {
        let _ = call;
    }

    /// What the host's policy decided about a call that it has answered, now or in the record; asked once for each call.
    fn decision(&self, id: CallId) -> Option<DecisionRecord> {
        let _ = id;
        None
    }

    /// What is to be kept until the worker has taken the answer of a call, and dropped then; asked once for each call. A
    /// program that does not read its answers leaves them in the memory of the host. Without a default: a host in front of
    /// another one that does not pass this on would count every answer until the run ends.
    fn take_held(&self, id: CallId) -> Option<HeldBytes>;

    /// Whether this call is known to change nothing, which may depend on its arguments (JSON text).
    fn call_is_read_only(&self, target: &Target, args: &str) -> bool {
        let _ = args;
        self.is_read_only(target)
    }
}

/// A host in front of another one: it makes calls its own way, and all else is the other one's.
pub trait HostLayer: Send + Sync + 'static {
    /// The host behind.
    fn inner(&self) -> &dyn Host;

    /// See [`Host::call`].
    fn make_call(&self, call: HostCall) -> HostFuture;

    /// Notes a call that is repeated from a record, before the host behind does.
    fn note_repeated(&self, call: RepeatedCall<'_>) {
        let _ = call;
    }

    /// What this layer itself decided about a call; it comes before what the host behind has decided.
    fn take_own_decision(&self, id: CallId) -> Option<DecisionRecord> {
        let _ = id;
        None
    }
}

impl<L: HostLayer> Host for L {
    fn call(&self, call: HostCall) -> HostFuture {
        self.make_call(call)
    }

    fn answer(&self, question: &Question) -> Option<String> {
        self.inner().answer(question)
    }

    fn functions(&self) -> Vec<String> {
        self.inner().functions()
    }

    fn has_tools(&self) -> bool {
        self.inner().has_tools()
    }

    fn is_read_only(&self, target: &Target) -> bool {
        self.inner().is_read_only(target)
    }

    fn repeated(&self, call: RepeatedCall<'_>) {
        self.note_repeated(call);
        self.inner().repeated(call);
    }

    fn decision(&self, id: CallId) -> Option<DecisionRecord> {
        let own = self.take_own_decision(id);
        let inner = self.inner().decision(id);
        own.or(inner)
    }

    fn take_held(&self, id: CallId) -> Option<HeldBytes> {
        self.inner().take_held(id)
    }

    fn call_is_read_only(&self, target: &Target, args: &str) -> bool {
        self.inner().call_is_read_only(target, args)
    }
}

/// Why a call returned no value. A program sees it as a `ToolError`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// The kind of failure. Texts such as `NOT_FOUND` that are no known code are foreign ones.
    pub code: CallErrorCode,
    /// What happened, for people.
    pub message: String,
    /// More, for programs.
    pub data: Option<Value>,
    /// What is known about the call's effect.
    pub state: CallState,
}

impl HostError {
    /// The call was made and failed.
    pub fn new(code: impl Into<CallErrorCode>, message: impl Into<String>) -> Self {
        HostError { code: code.into(), message: message.into(), data: None, state: CallState::Failed }
    }

    /// The call was refused before anything was sent.
    pub fn not_sent(code: impl Into<CallErrorCode>, message: impl Into<String>) -> Self {
        HostError { state: CallState::NotSent, ..Self::new(code, message) }
    }

    /// The call was sent, and its effect is not known.
    pub fn unknown(code: impl Into<CallErrorCode>, message: impl Into<String>) -> Self {
        HostError { state: CallState::Unknown, ..Self::new(code, message) }
    }

    /// The same error with data for programs.
    pub fn with_data(self, data: Value) -> Self {
        HostError { data: Some(data), ..self }
    }

    /// The fields of the program's `ToolError`.
    pub(crate) fn to_json(&self, target: &Target) -> String {
        let mut fields = json!({ "message": self.message, "code": self.code, "data": self.data });
        if let Target::Tool { backend, tool } = target {
            fields["backend"] = backend.as_str().into();
            fields["tool"] = tool.as_str().into();
        }
        fields.to_string()
    }
}

type Handler = Arc<dyn Fn(Value) -> Pin<Box<dyn Future<Output = Result<Value, HostError>> + Send>> + Send + Sync>;

/// Host functions by name: async closures from a list of arguments to a value.
#[derive(Clone, Default)]
pub struct Functions(BTreeMap<String, Handler>);

impl Functions {
    /// No functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function; programs call it as `await name(…)`. It replaces an earlier one of the same name.
    pub fn with<F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, HostError>> + Send + 'static,
    {
        self.0.insert(name.into(), Arc::new(move |args| Box::pin(handler(args))));
        self
    }
}

impl Host for Functions {
    fn call(&self, call: HostCall) -> HostFuture {
        let Target::Function(name) = &call.target else {
            return refused(format!("no tool named {}", call.target));
        };
        let Some(handler) = self.0.get(name).cloned() else {
            return refused(format!("no host function named {name}"));
        };
        Box::pin(async move {
            let args = serde_json::from_str(&call.args)
                .map_err(|error| HostError::not_sent(CallErrorCode::InvalidArguments, error.to_string()))?;
            // The text of large arguments need not wait for the answer.
            drop(call);
            handler(args).await.map(|value| value.to_string())
        })
    }

    fn functions(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn take_held(&self, _: CallId) -> Option<HeldBytes> {
        None
    }
}

fn refused(message: String) -> HostFuture {
    Box::pin(async move { Err(HostError::not_sent(CallErrorCode::Unknown, message)) })
}
