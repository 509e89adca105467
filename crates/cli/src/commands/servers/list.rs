//! `toolgate list`: connects to every server and says how it is, and who is logged in there.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_backends::{Backend, BackendState};
use toolgate_gateway::runtime::{Gateway, LoginTarget};
use toolgate_mcp::client::auth::LoginStatus;

use super::super::Exit;
use super::super::logins::login;
use super::super::policy::misnamed_tools;
use super::{Opened, marked_table, spinner};
use crate::args::servers::ListArgs;
use crate::print::{Style, escape, note, out};

pub(crate) fn list(args: &ListArgs) -> anyhow::Result<Exit> {
    let since = Instant::now();
    Opened::new(&args.servers)?.within(async |gateway| {
        let rows = connected(gateway, since).await;
        let is_down = |row: &Row| !matches!(row.state, "ready" | "disabled");
        let failed = rows.iter().any(is_down);
        if args.json {
            let rows: Vec<Value> = rows.iter().map(Row::json).collect();
            out(escape::json(&json!({ "backends": rows }).to_string()))?;
        } else if rows.is_empty() {
            note("no servers are configured: `toolgate add NAME -- COMMAND` adds one, `toolgate import` takes over your clients'");
        } else {
            let has_logins = rows.iter().any(|row| row.login != LoginStatus::LoggedOut);
            let cells: Vec<Vec<String>> = rows.iter().map(|row| row.cells(has_logins)).collect();
            let heading = ["NAME", "STATE", "TOOLS", "READY IN", "SERVER", "LOGIN"];
            let heading = if has_logins { &heading[..] } else { &heading[..5] };
            let style = Style::stdout();
            out(marked_table(heading, &cells, style, |_, column, cell| if column == 1 { painted(cell, style) } else { cell.to_owned() }))?;
            for row in &rows {
                row.notices.iter().for_each(|notice| note(escape::line(&format!("{}: {notice}", row.name))));
            }
        }
        Ok(if failed { Exit::Failed } else { Exit::Done })
    })
}

/// A state in the colour of what it means.
fn painted(state: &str, style: Style) -> String {
    match state {
        "ready" => style.good(state),
        "disabled" | "stopped" => style.faint(state),
        "starting" | "restarting" | "needs login" | "needs configuration" => style.warn(state),
        _ => style.bad(state),
    }
}

struct Row {
    name: String,
    state: &'static str,
    tools: usize,
    latency: Option<Duration>,
    about: String,
    login: LoginStatus,
    notices: Vec<String>,
}

impl Row {
    fn json(&self) -> Value {
        let ms = self.latency.map(|latency| (latency.as_secs_f64() * 1e4).round() / 10.0);
        json!({
            "name": self.name, "state": self.state, "tools": self.tools, "ready_ms": ms, "detail": self.about,
            "login": login::about_json(&self.login), "notices": self.notices,
        })
    }

    fn cells(&self, with_login: bool) -> Vec<String> {
        let latency =
            self.latency.map_or_else(|| "-".to_owned(), |latency| format!("{:.0} ms", latency.as_secs_f64() * 1e3));
        let mut cells =
            vec![self.name.clone(), self.state.to_owned(), self.tools.to_string(), latency, self.about.clone()];
        if with_login {
            let login = login::about(&self.login);
            cells.push(if login.is_empty() { "-".to_owned() } else { login.trim_start().to_owned() });
        }
        cells
    }
}

/// All servers, once each is up or has given up.
async fn connected(gateway: &Gateway, since: Instant) -> Vec<Row> {
    let within = gateway.config().settings.limits.start_timeout;
    let mut waiting = tokio::task::JoinSet::new();
    let mut missing: Vec<String> = Vec::new();
    for backend in gateway.backends() {
        missing.push(backend.name().to_owned());
        waiting.spawn(async move {
            let ready = backend.ready(within).await.is_ok();
            (backend, ready.then(|| since.elapsed()))
        });
    }
    let spinner = spinner(connecting_to(&missing));
    let mut rows: Vec<Row> = Vec::new();
    while let Some(Ok((backend, latency))) = waiting.join_next().await {
        rows.push(row(gateway, &backend, latency).await);
        missing.retain(|name| name != backend.name());
        spinner.set_message(connecting_to(&missing));
    }
    let config = gateway.config();
    let login = LoginStatus::LoggedOut;
    let without_connection = |name: String, state, about| Row {
        name,
        state,
        tools: 0,
        latency: None,
        about,
        login: login.clone(),
        notices: Vec::new(),
    };
    rows.extend(config.disabled.iter().map(|name| without_connection(name.to_string(), "disabled", String::new())));
    rows.extend(
        config
            .incomplete
            .iter()
            .map(|(name, server)| without_connection(name.to_string(), "needs configuration", server.lacks())),
    );
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    spinner.finish_and_clear();
    rows
}

/// What a person waits for.
fn connecting_to(names: &[String]) -> String {
    const MAX_SHOWN: usize = 4;
    let shown: Vec<&str> = names.iter().take(MAX_SHOWN).map(String::as_str).collect();
    let more = if names.len() > MAX_SHOWN { format!(" and {} more", names.len() - MAX_SHOWN) } else { String::new() };
    format!("connecting to {}{more}", escape::line(&shown.join(", ")))
}

async fn row(gateway: &Gateway, backend: &Backend, latency: Option<Duration>) -> Row {
    let policy = gateway.config().backends.get(backend.name()).map(|backend| backend.policy.clone());
    let permitted = |name: &str| policy.as_ref().is_none_or(|policy| policy.permits(name));
    let tools = backend.tools().iter().filter(|tool| permitted(&tool.name)).count();
    let (state, about) = match backend.state() {
        BackendState::Ready(_) if let Some(command) = backend.missing_login() => {
            ("needs login", format!("run `{command}`"))
        }
        BackendState::Ready(ready) => {
            let server = &ready.server;
            ("ready", format!("{} {} ({})", server.name, server.version, server.protocol).trim_start().to_owned())
        }
        BackendState::Idle | BackendState::Starting => {
            let within = gateway.config().settings.limits.start_timeout;
            ("starting", format!("no answer after {} s (toolgate.limits.start_timeout)", within.as_secs_f64()))
        }
        BackendState::Restarting { reason, .. } => ("restarting", reason),
        BackendState::Failed { reason, stderr } => {
            let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            ("failed", if last.is_empty() { reason } else { format!("{reason}: {last}") })
        }
        BackendState::NeedsLogin { command } => ("needs login", format!("run `{command}`")),
        BackendState::Stopped => ("stopped", String::new()),
    };
    let login = match LoginTarget::of(&gateway.config(), backend.name()) {
        Ok(target) => target.authorizer.status().await.unwrap_or(LoginStatus::LoggedOut),
        Err(_) => LoginStatus::LoggedOut,
    };
    let mut notices = backend.notices(|_| true);
    let names: Vec<String> = backend.tools().iter().map(|tool| tool.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let rules = &gateway.config().settings.policy;
    if state == "ready" {
        notices.extend(misnamed_tools(rules, &gateway.catalog(), backend.name(), &names));
    }
    Row { name: backend.name().to_owned(), state, tools, latency, about, login, notices }
}
