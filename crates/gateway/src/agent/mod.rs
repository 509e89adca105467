//! What an agent sees of a gateway: a handful of tools, resources that tell what is going on, and prompts.
//!
//! # Layout
//! - [`Agent`]: the gateway as a [`Service`] behind the MCP door
//! - `tools`: one file a tool, each with its name, description, schema, annotations and handler
//! - `arguments`, `answer`, `returned`, `content`: what comes in, what goes out, values of programs, and pictures among it
//! - `direct`, `forward`, `names`: the backends' own tools as `backend__tool`, their resources and prompts; `direct_approval`: asks about
//!   one such call
//! - `instructions`: what a model reads first
//! - `paused`: programs that wait for a person; `approval_form`: the questions as forms of MCP clients; `approval_handle`: what a
//!   client carries between two rounds
//! - `progress`: a line for each tool call, while a chain runs
//! - `waiting`: for backends that are still starting
//! - `resources`, `prompts`, `completion`: the rest of the protocol
//!
//! Lists are the same every time, in the same order: a client's prompt cache depends on it.

mod answer;
mod approval_form;
mod approval_handle;
mod arguments;
mod completion;
mod content;
mod direct;
mod direct_approval;
mod forward;
mod instructions;
mod names;
mod paused;
mod progress;
mod prompts;
mod resources;
mod returned;
mod tasks;
mod tools;
mod uri;
mod waiting;

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::runtime::Gateway;
use toolgate_mcp::client::ListKind;
use toolgate_mcp::server::{
    BegunRequest, Change, ChangeNotice, Completion, Fault, Identity, PromptCall, RequestRecord, RequestScope,
    ResourceCall, Service, ServiceAnswer, ServiceFuture, TaskCall, ToolCall, ToolMode, Watch, ready,
};
use toolgate_output::OutputSettings;
use toolgate_run::{Door, RunRequest};
use toolgate_wire::{ByteBudget, CallerScope, Profile};

use arguments::OutputBytes;
use direct::Direct;

/// Most bytes of a result, unless configured: clients cut longer ones themselves, and with them the result id.
const OUTPUT_SIZE: usize = 24_000;

/// The gateway as an MCP server. Clones are the same one.
#[derive(Clone)]
pub struct Agent(Arc<Shared>);

/// What tools and resources share.
struct Shared {
    gateway: Arc<Gateway>,
    direct: Direct,
    task_forms: tasks::TaskForms,
}

impl Shared {
    /// How results are shaped for MCP clients.
    fn output(&self) -> OutputSettings {
        let settings = self.gateway.runner().output();
        match self.gateway.config().settings.output.max_output_size {
            Some(_) => settings,
            None => OutputSettings { max_output_size: OUTPUT_SIZE, ..settings },
        }
    }

    /// The same where a call asks for a size of its own.
    fn output_within(&self, asked: Option<OutputBytes>) -> OutputSettings {
        let settings = self.output();
        let asked = asked.and_then(|bytes| usize::try_from(bytes.0).ok());
        OutputSettings { max_output_size: asked.unwrap_or(settings.max_output_size), ..settings }
    }
}

/// Who calls a tool. A client without a key of its own takes turns as its connection.
fn caller_of(call: &ToolCall) -> CallerScope {
    caller_in(&call.scope, call.caller)
}

fn caller_in(scope: &RequestScope, number: u64) -> CallerScope {
    let caller = scope.caller.clone();
    CallerScope { fairness: caller.fairness.or(Some(number)), ..caller }
}

/// The request for a program that a tool call brings: who asks, in which session and trace, and what ends it.
fn request_of(call: &ToolCall, tool: &'static str, profile: Profile, code: &str) -> RunRequest {
    RunRequest {
        caller: caller_of(call),
        cancel: call.cancel.clone(),
        door: Door::Mcp(tool),
        session: Some(call.caller),
        origin: call.origin.clone(),
        ..RunRequest::new(profile, code)
    }
}

impl Agent {
    /// The agent's view of a gateway, with statistics that start at zero.
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Agent(Arc::new(Shared { gateway, direct: Direct::default(), task_forms: tasks::TaskForms::default() }))
    }

    /// The gateway behind it.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.0.gateway
    }

    /// A tool of ours.
    fn own_tool(&self, name: &str, scope: &RequestScope) -> Option<Value> {
        let tool = tools::listed(&self.0, &scope.caller).into_iter().find(|tool| tool.name == name)?;
        Some(tool.object(&self.0, scope))
    }

    /// Our own, followed by those of the backends where the client sees them.
    fn with_passed_on(&self, own: Vec<Value>, kind: ListKind, scope: &RequestScope) -> ServiceFuture<Vec<Value>> {
        if !passes_on(scope) {
            return ready(Ok(own));
        }
        let (shared, access) = (Arc::clone(&self.0), scope.caller.backends.clone());
        Box::pin(async move { Ok([own, forward::list(&shared, &access, kind).await].concat()) })
    }
}

/// Whether the client sees the backends' own tools, resources and prompts.
fn passes_on(scope: &RequestScope) -> bool {
    match scope.mode {
        ToolMode::Code => false,
        ToolMode::Direct | ToolMode::Both => true,
    }
}

/// What the client sees by its tool mode: Toolgate's own, the backend's, or the backend's where Toolgate has none.
fn shown<T>(scope: &RequestScope, own: impl FnOnce() -> Option<T>, passed_on: impl FnOnce() -> Option<T>) -> Option<T> {
    match scope.mode {
        ToolMode::Code => own(),
        ToolMode::Direct => passed_on(),
        ToolMode::Both => own().or_else(passed_on),
    }
}

impl Service for Agent {
    fn identity(&self) -> Identity {
        Identity {
            name: "toolgate".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: instructions::STEPS.to_owned(),
        }
    }

    fn instructions(&self, scope: &RequestScope) -> String {
        instructions::instructions(&self.0, scope)
    }

    fn prepared(&self, scope: &RequestScope) -> ServiceFuture<()> {
        if !passes_on(scope) {
            return ready(Ok(()));
        }
        let (shared, access) = (Arc::clone(&self.0), scope.caller.backends.clone());
        Box::pin(async move {
            waiting::for_all(&shared, &access, &CancellationToken::new()).await;
            Ok(())
        })
    }

    fn tools(&self, scope: &RequestScope) -> Vec<Value> {
        self.tool_names(scope).iter().filter_map(|name| self.tool(name, scope)).collect()
    }

    fn tool_names(&self, scope: &RequestScope) -> Vec<String> {
        let own = || tools::listed(&self.0, &scope.caller).into_iter().map(|tool| tool.name.to_owned());
        match scope.mode {
            ToolMode::Code => own().collect(),
            ToolMode::Direct => direct::names(&self.0, scope),
            ToolMode::Both => own().chain(direct::names(&self.0, scope)).collect(),
        }
    }

    fn tool(&self, name: &str, scope: &RequestScope) -> Option<Value> {
        shown(scope, || self.own_tool(name, scope), || direct::one(&self.0, name, scope))
    }

    fn tool_text(&self, name: &str, scope: &RequestScope) -> Option<Box<RawValue>> {
        let own = || self.own_tool(name, scope).and_then(|tool| to_raw_value(&tool).ok());
        shown(scope, own, || direct::text(&self.0, name, scope))
    }

    fn call(&self, call: ToolCall) -> ServiceFuture<ServiceAnswer> {
        let shared = Arc::clone(&self.0);
        let own = call.scope.mode != ToolMode::Direct;
        if own && let Some(tool) = tools::callable(&shared).into_iter().find(|tool| tool.name == call.name) {
            return Box::pin(async move { Ok(answer::or_refusal((tool.call)(shared, call).await).into()) });
        }
        let unknown = Fault::NotFound(format!("there is no tool named {}", uri::shown(&call.name)));
        if !passes_on(&call.scope) {
            return ready(Err(unknown));
        }
        Box::pin(async move {
            if direct::find(&shared, &call.name, &call.scope).is_none() {
                waiting::for_all(&shared, &call.scope.caller.backends, &call.cancel).await;
            }
            if direct::find(&shared, &call.name, &call.scope).is_none()
                && let Some(reason) = waiting::for_owner(&shared, &call).await
            {
                return Err(Fault::NotFound(format!("{}: {reason}", uri::shown(&call.name))));
            }
            let (backend, tool) = direct::find(&shared, &call.name, &call.scope).ok_or(unknown)?;
            direct::call(&shared, backend, tool, call).await
        })
    }

    fn reply_budget(&self, scope: &RequestScope, number: u64) -> ByteBudget {
        self.0.gateway.runner().caller_budget(&caller_in(scope, number))
    }

    fn resources(&self, scope: &RequestScope) -> ServiceFuture<Vec<Value>> {
        self.with_passed_on(resources::list(), ListKind::Resources, scope)
    }

    fn resource_templates(&self, scope: &RequestScope) -> ServiceFuture<Vec<Value>> {
        self.with_passed_on(resources::templates(), ListKind::Templates, scope)
    }

    fn read(&self, call: ResourceCall) -> ServiceFuture<ServiceAnswer> {
        let shared = Arc::clone(&self.0);
        if !passes_on(&call.scope) || resources::is_own(&call.uri) {
            return Box::pin(async move { Ok(Value::Array(resources::read(&shared, &call).await?).into()) });
        }
        Box::pin(async move { forward::read(&shared, call).await })
    }

    fn watch(&self, call: ResourceCall) -> ServiceFuture<Watch> {
        let shared = Arc::clone(&self.0);
        if !passes_on(&call.scope) || resources::is_own(&call.uri) {
            return Box::pin(async move { resources::read(&shared, &call).await.map(|_| Watch::own()) });
        }
        Box::pin(async move { forward::watch(&shared, &call).await })
    }

    fn prompts(&self, scope: &RequestScope) -> ServiceFuture<Vec<Value>> {
        // Our own teach code mode.
        let own = if scope.mode == ToolMode::Direct { Vec::new() } else { prompts::list() };
        self.with_passed_on(own, ListKind::Prompts, scope)
    }

    fn prompt(&self, call: PromptCall) -> ServiceFuture<ServiceAnswer> {
        if !passes_on(&call.scope) || (call.scope.mode == ToolMode::Both && prompts::is_taken(&call.name)) {
            return ready(prompts::get(&call).map(ServiceAnswer::Value));
        }
        let shared = Arc::clone(&self.0);
        Box::pin(async move { forward::prompt(&shared, call).await })
    }

    fn complete(&self, completion: Completion) -> ServiceFuture<Vec<String>> {
        let own = completion::complete(&self.0, &completion);
        let is_own = completion.reference.get("uri").and_then(Value::as_str).is_some_and(resources::is_own);
        if !passes_on(&completion.scope) || is_own {
            return ready(Ok(own));
        }
        let shared = Arc::clone(&self.0);
        Box::pin(async move { forward::complete(&shared, completion).await })
    }

    fn has_resources(&self) -> bool {
        true
    }

    fn has_prompts(&self) -> bool {
        true
    }

    fn announces_resources(&self) -> bool {
        true
    }

    fn has_completions(&self) -> bool {
        true
    }

    fn has_tasks(&self) -> bool {
        true
    }

    fn task(&self, call: TaskCall) -> ServiceFuture<Value> {
        Box::pin(tasks::serve(Arc::clone(&self.0), call))
    }

    fn shows(&self, notice: &ChangeNotice, scope: &RequestScope) -> bool {
        let may_know = notice.backend.as_ref().is_none_or(|backend| scope.caller.backends.permits(backend));
        let is_seen = match &notice.change {
            // In code mode these are our own, and always the same.
            Change::Resources | Change::Prompts => passes_on(scope),
            Change::Resource(_) => passes_on(scope) || notice.backend.is_none(),
            Change::Tools => true,
        };
        may_know && is_seen
    }

    fn observe(&self, request: &BegunRequest<'_>) -> Option<Box<dyn RequestRecord>> {
        self.0.gateway.observe_served(request).map(|open| Box::new(open) as _)
    }

    fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.0.gateway.changes()
    }
}
