//! What an agent sees of a gateway: a handful of tools, resources that tell what is going on, and prompts.
//!
//! # Layout
//! - [`Agent`]: the gateway as a [`Service`] behind the MCP door
//! - `tools`: one file a tool, each with its name, description, schema, annotations and handler
//! - `arguments`, `answer`, `content`: what comes in, what goes out, and pictures among it
//! - `direct`, `offers`, `names`: the backends' own tools as `backend__tool`, their resources and prompts
//! - `progress`: a line for each tool call, while a chain runs
//! - `session`: what was done and what it saved
//! - `waiting`: for backends that are still on their way
//! - `resources`, `prompts`, `completion`: the rest of the protocol
//!
//! Lists are the same every time, in the same order: a client's prompt cache depends on it.

mod answer;
mod arguments;
mod completion;
mod content;
mod direct;
mod names;
mod offers;
mod progress;
mod prompts;
mod resources;
mod session;
mod tools;
mod uri;
mod waiting;

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use toolgate_functions::Registry;
use toolgate_mcp::client::Offer;
use toolgate_mcp::server::{
    Change, Completion, Fault, Identity, News, Page, PromptCall, ResourceCall, Service, ServiceFuture, ToolCall, View,
    Watch, ready,
};

use direct::Direct;
use session::Session;

/// What a model reads first.
const INSTRUCTIONS: &str = "\
Toolgate puts many MCP servers (backends) behind a few tools. Work in three steps:
1. search_tools {task_description}: finds the tools for a task; every hit has a TypeScript signature and a ready call.
2. tool_info {tool_name}: only when a signature is not enough.
3. call_tool_chain {code}: one TypeScript program that calls as many tools as the task needs, as \
`await backend.tool({ ... })`, in parallel with Promise.all where they do not depend on each other. Filter, join and \
count in the program, and `return` only what you need: nothing else reaches your context. console.log is returned too.
A result that was too long is kept: its footer names a result id for read_result and query_result. \
The resource toolgate://guide/chain has more.";

/// The gateway as an MCP server. Clones are the same one.
#[derive(Clone)]
pub struct Agent(Arc<Shared>);

/// What tools and resources share.
struct Shared {
    gateway: Arc<Gateway>,
    session: Session,
    direct: Direct,
}

impl Shared {
    /// The host functions that programs of this page may use.
    fn functions(&self, page: &Page) -> Registry {
        let functions = self.gateway.functions(&page.access);
        match &page.functions {
            None => functions,
            Some(names) => {
                functions.iter().filter(|it| names.iter().any(|name| name == it.name().as_str())).cloned().collect()
            }
        }
    }
}

impl Agent {
    /// The agent's view of a gateway, with statistics that start at zero.
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Agent(Arc::new(Shared { gateway, session: Session::default(), direct: Direct::default() }))
    }

    /// The gateway behind it.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.0.gateway
    }

    /// A tool of ours.
    fn own_tool(&self, name: &str, page: &Page) -> Option<Value> {
        let tool = tools::available(&self.0).into_iter().find(|tool| tool.name == name)?;
        Some(tool.object(&self.0, page))
    }

    /// Our own, and behind them those of the backends where the page shows them.
    fn with_passed_on(&self, own: Vec<Value>, offer: Offer, page: &Page) -> ServiceFuture<Vec<Value>> {
        if !passes_on(page) {
            return ready(Ok(own));
        }
        let (shared, access) = (Arc::clone(&self.0), page.access.clone());
        Box::pin(async move { Ok([own, offers::list(&shared, &access, offer).await].concat()) })
    }
}

/// Whether a page shows what the backends have themselves.
fn passes_on(page: &Page) -> bool {
    match page.view {
        View::Code => false,
        View::Direct | View::Both => true,
    }
}

/// What a page shows: ours, a backend's, or a backend's where there is none of ours.
fn shown<T>(page: &Page, own: impl FnOnce() -> Option<T>, passed_on: impl FnOnce() -> Option<T>) -> Option<T> {
    match page.view {
        View::Code => own(),
        View::Direct => passed_on(),
        View::Both => own().or_else(passed_on),
    }
}

impl Service for Agent {
    fn identity(&self) -> Identity {
        Identity {
            name: "toolgate".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: INSTRUCTIONS.to_owned(),
        }
    }

    fn prepared(&self, page: &Page) -> ServiceFuture<()> {
        if !passes_on(page) {
            return ready(Ok(()));
        }
        let (shared, access) = (Arc::clone(&self.0), page.access.clone());
        Box::pin(async move {
            waiting::for_all(&shared, &access, &CancellationToken::new()).await;
            Ok(())
        })
    }

    fn tools(&self, page: &Page) -> Vec<Value> {
        self.tool_names(page).iter().filter_map(|name| self.tool(name, page)).collect()
    }

    fn tool_names(&self, page: &Page) -> Vec<String> {
        let own = || tools::available(&self.0).into_iter().map(|tool| tool.name.to_owned());
        match page.view {
            View::Code => own().collect(),
            View::Direct => direct::names(&self.0, page),
            View::Both => own().chain(direct::names(&self.0, page)).collect(),
        }
    }

    fn tool(&self, name: &str, page: &Page) -> Option<Value> {
        shown(page, || self.own_tool(name, page), || direct::one(&self.0, name, page))
    }

    fn tool_text(&self, name: &str, page: &Page) -> Option<Box<RawValue>> {
        let own = || self.own_tool(name, page).and_then(|tool| to_raw_value(&tool).ok());
        shown(page, own, || direct::text(&self.0, name, page))
    }

    fn call(&self, call: ToolCall) -> ServiceFuture<Value> {
        let shared = Arc::clone(&self.0);
        let own = call.page.view != View::Direct;
        if own && let Some(tool) = tools::available(&shared).into_iter().find(|tool| tool.name == call.name) {
            return Box::pin(async move { Ok(answer::or_complaint((tool.call)(shared, call).await)) });
        }
        let unknown = Fault::NotFound(format!("there is no tool named {}", uri::shown(&call.name)));
        if !passes_on(&call.page) {
            return ready(Err(unknown));
        }
        Box::pin(async move {
            if direct::find(&shared, &call.name, &call.page).is_none() {
                waiting::for_all(&shared, &call.page.access, &call.cancel).await;
            }
            let (backend, tool) = direct::find(&shared, &call.name, &call.page).ok_or(unknown)?;
            direct::call(&shared, backend, tool, call).await
        })
    }

    fn resources(&self, page: &Page) -> ServiceFuture<Vec<Value>> {
        self.with_passed_on(resources::list(), Offer::Resources, page)
    }

    fn resource_templates(&self, page: &Page) -> ServiceFuture<Vec<Value>> {
        self.with_passed_on(resources::templates(), Offer::Templates, page)
    }

    fn read(&self, call: ResourceCall) -> ServiceFuture<Vec<Value>> {
        if !passes_on(&call.page) || resources::is_own(&call.uri) {
            return ready(resources::read(&self.0, &call.uri, &call.page));
        }
        let shared = Arc::clone(&self.0);
        Box::pin(async move { offers::read(&shared, call).await })
    }

    fn watch(&self, call: ResourceCall) -> ServiceFuture<Watch> {
        if !passes_on(&call.page) || resources::is_own(&call.uri) {
            return ready(resources::read(&self.0, &call.uri, &call.page).map(|_| Watch::own()));
        }
        let shared = Arc::clone(&self.0);
        Box::pin(async move { offers::watch(&shared, &call).await })
    }

    fn prompts(&self, page: &Page) -> ServiceFuture<Vec<Value>> {
        // Our own teach code mode.
        let own = if page.view == View::Direct { Vec::new() } else { prompts::list() };
        self.with_passed_on(own, Offer::Prompts, page)
    }

    fn prompt(&self, call: PromptCall) -> ServiceFuture<Value> {
        if !passes_on(&call.page) || (call.page.view == View::Both && prompts::is_taken(&call.name)) {
            return ready(prompts::get(&call));
        }
        let shared = Arc::clone(&self.0);
        Box::pin(async move { offers::prompt(&shared, call).await })
    }

    fn complete(&self, completion: Completion) -> ServiceFuture<Vec<String>> {
        let own = completion::complete(&self.0, &completion);
        let is_own = completion.reference.get("uri").and_then(Value::as_str).is_some_and(resources::is_own);
        if !passes_on(&completion.page) || is_own {
            return ready(Ok(own));
        }
        let shared = Arc::clone(&self.0);
        Box::pin(async move { offers::complete(&shared, completion).await })
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

    fn shows(&self, news: &News, page: &Page) -> bool {
        let may_know = news.backend.as_ref().is_none_or(|backend| page.access.permits(backend));
        let is_seen = match &news.change {
            // In code mode these are our own, and always the same.
            Change::Resources | Change::Prompts => passes_on(page),
            Change::Resource(_) => passes_on(page) || news.backend.is_none(),
            Change::Tools => true,
        };
        may_know && is_seen
    }

    fn changes(&self) -> broadcast::Receiver<News> {
        self.0.gateway.changes()
    }
}
