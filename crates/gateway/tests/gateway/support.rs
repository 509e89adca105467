//! A gateway in a folder of its own, and ways to talk to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_config::text::{Format, Source};
use toolgate_config::{Checked, Env, check};
use toolgate_engine::{Engine, IsolationMode};
use toolgate_gateway::agent::Agent;
use toolgate_gateway::runtime::Gateway;
use toolgate_mcp::server::{
    PromptCall, RequestScope, ResourceCall, Service, ServiceAnswer, ServiceFuture, ToolCall, ToolMode,
};

/// No test waits longer than this for anything.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The agent with answers as trees, whichever form they came in.
#[derive(Clone)]
pub(crate) struct TreeAgent(pub(crate) Agent);

impl std::ops::Deref for TreeAgent {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.0
    }
}

impl TreeAgent {
    pub(crate) fn call(&self, call: ToolCall) -> ServiceFuture<Value> {
        tree(Service::call(&self.0, call))
    }

    pub(crate) fn read(&self, call: ResourceCall) -> ServiceFuture<Value> {
        tree(Service::read(&self.0, call))
    }

    pub(crate) fn prompt(&self, call: PromptCall) -> ServiceFuture<Value> {
        tree(Service::prompt(&self.0, call))
    }
}

fn tree(answer: ServiceFuture<ServiceAnswer>) -> ServiceFuture<Value> {
    Box::pin(async move { Ok(answer.await?.into_value(usize::MAX).unwrap()) })
}

/// A running gateway and the folder it lives in.
pub(crate) struct World {
    pub(crate) agent: TreeAgent,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) folder: Arc<tempfile::TempDir>,
}

impl World {
    /// A gateway with these servers and settings, in a fresh folder.
    pub(crate) fn with(servers: Value, settings: Value) -> Self {
        Self::at(Arc::new(tempfile::tempdir().unwrap()), servers, settings)
    }

    /// The same in a folder that another one left.
    pub(crate) fn at(folder: Arc<tempfile::TempDir>, servers: Value, settings: Value) -> Self {
        let engine = Engine::builder().isolation(IsolationMode::Thread).build().unwrap();
        let gateway = Gateway::start(config(folder.path(), &servers, &settings), engine);
        World { agent: TreeAgent(Agent::new(Arc::clone(&gateway))), gateway, folder }
    }

    /// The same once every backend is up or has failed.
    pub(crate) async fn up(servers: Value) -> Self {
        Self::up_with(servers, json!({})).await
    }

    /// The same with settings.
    pub(crate) async fn up_with(servers: Value, settings: Value) -> Self {
        let world = Self::with(servers, settings);
        world.gateway.settled(TEST_TIMEOUT, |_| true).await;
        world
    }

    pub(crate) fn config(&self, servers: Value, settings: Value) -> Checked {
        config(self.folder.path(), &servers, &settings)
    }

    /// The result of a tool.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Value {
        self.agent.call(call(name, arguments)).await.unwrap()
    }

    /// The first text of a tool's result.
    pub(crate) async fn text(&self, name: &str, arguments: Value) -> String {
        first_text(&self.call(name, arguments).await)
    }

    /// What a program returned, as JSON, or the text that explains why nothing was.
    pub(crate) async fn chain(&self, code: &str) -> Value {
        let text = self.text("call_tool_chain", json!({ "code": code })).await;
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// The text of a resource.
    pub(crate) async fn resource(&self, uri: &str) -> String {
        let contents = self.agent.read(resource(uri, &RequestScope::default())).await.unwrap();
        contents[0]["text"].as_str().unwrap().to_owned()
    }

    pub(crate) fn pid(&self, backend: &str) -> Option<u32> {
        self.gateway.backend(backend).and_then(|backend| backend.stats().pid)
    }
}

fn config(folder: &Path, servers: &Value, settings: &Value) -> Checked {
    let text = json!({ "mcpServers": servers, "toolgate": settings }).to_string();
    let file = folder.join("toolgate.json");
    let env = Env::new(Some(folder.to_owned()), folder);
    check(Source::new(&file, Format::Json, &text), &env).unwrap()
}

/// A call of the usual page.
pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        name: name.to_owned(),
        arguments: object(arguments),
        scope: RequestScope::default(),
        cancel: CancellationToken::new(),
        withdrawn: CancellationToken::new(),
        progress: None,
        caller: 1,
        capabilities: Map::new(),
        interactive_client: None,
        origin: toolgate_mcp::RequestOrigin::default(),
    }
}

/// A question for a resource.
pub(crate) fn resource(uri: &str, scope: &RequestScope) -> ResourceCall {
    ResourceCall { uri: uri.to_owned(), scope: scope.clone(), caller: 1, ..ResourceCall::default() }
}

/// The same page in another view.
pub(crate) fn scope(view: ToolMode) -> RequestScope {
    RequestScope { mode: view, ..RequestScope::default() }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

pub(crate) fn first_text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// The badly behaved server with these options.
pub(crate) fn fixture(options: &[&str]) -> Value {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/backend.py");
    let args: Vec<String> =
        std::iter::once(script.display().to_string()).chain(options.iter().map(|it| (*it).to_owned())).collect();
    json!({ "command": "python3", "args": args })
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }
}

/// The processes of a group that are not just waiting to be buried.
pub(crate) fn members(group: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let group_of = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        fields.nth(1)?.parse::<u32>().ok().filter(|_| state != "Z")
    };
    pids.filter(|pid| group_of(*pid) == Some(group)).collect()
}
