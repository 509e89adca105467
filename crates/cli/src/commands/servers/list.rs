//! `toolgate list`: connects to every server and says how it is.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_gateway::backends::{Backend, BackendState};
use toolgate_gateway::runtime::Gateway;

use super::super::Exit;
use super::{Opened, spinner, table};
use crate::args::servers::ListArgs;
use crate::print::{Style, escape, note, out};

pub(crate) fn list(args: &ListArgs) -> anyhow::Result<Exit> {
    let since = Instant::now();
    Opened::new(&args.servers)?.within(async |gateway| {
        let rows = connected(gateway, since).await;
        let failed = rows.iter().any(|row| row.state == "failed");
        if args.json {
            let rows: Vec<Value> = rows.iter().map(Row::json).collect();
            out(escape::json(&json!({ "backends": rows }).to_string()))?;
        } else if rows.is_empty() {
            note("no servers are configured: `toolgate add NAME -- COMMAND` adds one, `toolgate import` takes over your clients'");
        } else {
            let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
            out(table(&["NAME", "STATE", "TOOLS", "READY IN", "SERVER"], &cells, Style::stdout()))?;
        }
        Ok(if failed { Exit::Failed } else { Exit::Done })
    })
}

struct Row {
    name: String,
    state: &'static str,
    tools: usize,
    latency: Option<Duration>,
    about: String,
}

impl Row {
    fn json(&self) -> Value {
        let ms = self.latency.map(|latency| (latency.as_secs_f64() * 1e4).round() / 10.0);
        json!({ "name": self.name, "state": self.state, "tools": self.tools, "ready_ms": ms, "detail": self.about })
    }

    fn cells(&self) -> Vec<String> {
        let latency =
            self.latency.map_or_else(|| "-".to_owned(), |latency| format!("{:.0} ms", latency.as_secs_f64() * 1e3));
        vec![self.name.clone(), self.state.to_owned(), self.tools.to_string(), latency, self.about.clone()]
    }
}

/// All servers, once each is up or has given up.
async fn connected(gateway: &Gateway, since: Instant) -> Vec<Row> {
    let spinner = spinner("connecting");
    let within = gateway.config().settings.limits.start_timeout;
    let mut waiting = tokio::task::JoinSet::new();
    for backend in gateway.backends() {
        waiting.spawn(async move {
            let ready = backend.ready(within).await.is_ok();
            (backend, ready.then(|| since.elapsed()))
        });
    }
    let mut rows: Vec<Row> =
        waiting.join_all().await.into_iter().map(|(backend, latency)| row(gateway, &backend, latency)).collect();
    let disabled = gateway.config().disabled.clone();
    rows.extend(disabled.iter().map(|name| Row {
        name: name.to_string(),
        state: "disabled",
        tools: 0,
        latency: None,
        about: String::new(),
    }));
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    spinner.finish_and_clear();
    rows
}

fn row(gateway: &Gateway, backend: &Backend, latency: Option<Duration>) -> Row {
    let policy = gateway.config().backends.get(backend.name()).map(|backend| backend.policy.clone());
    let permitted = |name: &str| policy.as_ref().is_none_or(|policy| policy.permits(name));
    let tools = backend.tools().iter().filter(|tool| permitted(&tool.name)).count();
    let (state, about) = match backend.state() {
        BackendState::Ready(ready) => {
            let server = &ready.server;
            ("ready", format!("{} {} ({})", server.name, server.version, server.protocol).trim_start().to_owned())
        }
        BackendState::Starting => ("starting", String::new()),
        BackendState::Restarting { reason, .. } => ("restarting", reason),
        BackendState::Failed { reason, stderr } => {
            let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            ("failed", if last.is_empty() { reason } else { format!("{reason}: {last}") })
        }
        BackendState::Stopped => ("stopped", String::new()),
    };
    Row { name: backend.name().to_owned(), state, tools, latency, about }
}
