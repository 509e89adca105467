//! The badly behaved server, and ways to wait for things without guessing how long they take.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::broadcast;
use toolgate_backends::{
    Backend, BackendChange, BackendEvent, BackendKind, BackendSpec, BackendState, CallError, CallOptions, CallReply,
};
use toolgate_mcp::client::ListKind;

/// No test waits longer than this for anything.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The fixture server with these options.
pub(crate) fn spec(options: &[&str]) -> BackendSpec {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/backend.py");
    let mut args = vec![script.display().to_string()];
    args.extend(options.iter().map(|option| (*option).to_owned()));
    let kind = BackendKind::Stdio { command: "python3".to_owned(), args, env: BTreeMap::new(), cwd: None };
    BackendSpec::new("fixture", kind)
}

/// A backend and its news.
pub(crate) fn start(spec: BackendSpec) -> (Backend, broadcast::Receiver<BackendEvent>) {
    let (events, news) = broadcast::channel(256);
    (Backend::start(spec, events), news)
}

/// The fixture server with these options, up.
pub(crate) async fn up(options: &[&str]) -> Backend {
    up_as(spec(options)).await
}

/// A backend that is up.
pub(crate) async fn up_as(spec: BackendSpec) -> Backend {
    let (backend, _) = start(spec);
    backend.ready(TEST_TIMEOUT).await.unwrap();
    backend
}

/// The state once it fits.
pub(crate) async fn state(backend: &Backend, fits: impl Fn(&BackendState) -> bool) -> BackendState {
    let mut watch = backend.watch();
    let fitting = tokio::time::timeout(TEST_TIMEOUT, watch.wait_for(|state| fits(state))).await;
    fitting.expect("in time").expect("a living backend").clone()
}

/// The next news about tools that fits.
pub(crate) async fn tools_with(news: &mut broadcast::Receiver<BackendEvent>, name: &str) {
    let found = async {
        loop {
            if let BackendChange::Tools(tools) = news.recv().await.unwrap().change
                && tools.iter().any(|tool| tool.name == name)
            {
                return;
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, found).await.expect("in time");
}

/// Waits for the news that a list may be another one.
pub(crate) async fn lists_changed(news: &mut broadcast::Receiver<BackendEvent>, kind: ListKind) {
    let found = async { while !matches!(news.recv().await.unwrap().change, BackendChange::Lists(it) if it == kind) {} };
    tokio::time::timeout(TEST_TIMEOUT, found).await.expect("in time");
}

/// The next resource that is told of.
pub(crate) async fn updated(news: &mut broadcast::Receiver<BackendEvent>) -> String {
    let found = async {
        loop {
            if let BackendChange::Updated(uri) = news.recv().await.unwrap().change {
                return uri;
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, found).await.expect("in time")
}

/// A call with the usual options.
pub(crate) async fn call(backend: &Backend, tool: &str, arguments: Value) -> Result<CallReply, CallError> {
    backend.call(tool, object(arguments), CallOptions::default()).await
}

/// The value a call gives.
pub(crate) async fn value(backend: &Backend, tool: &str, arguments: Value) -> Value {
    tree(call(backend, tool, arguments).await.unwrap())
}

/// The value of a reply.
pub(crate) fn tree(reply: CallReply) -> Value {
    serde_json::from_str(reply.into_text().as_str()).unwrap()
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// The processes of a group, by scanning what the kernel shows.
pub(crate) fn members(group: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| group_of(*pid) == Some(group)).collect()
}

/// The group of a process that is not just waiting to be buried.
fn group_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    fields.nth(1)?.parse().ok().filter(|_| state != "Z")
}
