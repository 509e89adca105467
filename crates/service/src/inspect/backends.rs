//! `GET /v1/backends`: every backend with its state, latency, last error and what helps. `POST …/restart`.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_backends::{Backend, BackendState};
use toolgate_catalog::{Backend as CatalogBackend, BackendState as CatalogState};
use toolgate_gateway::runtime::Gateway;
use toolgate_wire::CallerScope;

use super::query::Query;
use crate::path::Path;
use crate::refusal::{Refusal, Shown};
use crate::{Caller, HttpService};
use toolgate_wire::foreign_text::one_line;

/// Characters of an error or of a server's text.
const MAX_TEXT_CHARS: usize = 500;

/// All backends of a caller.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BackendsReply {
    /// Sorted by name.
    backends: Vec<BackendReply>,
}

/// A backend.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackendReply {
    /// Its name in the configuration.
    name: String,
    /// Where it is in its life.
    state: StateName,
    /// How many of its tools the caller may use.
    tools: usize,
    /// What the server says of itself: name, version, protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// The mean time of this caller's calls, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_ms: Option<f64>,
    /// This caller's calls.
    calls: u64,
    /// Those that did not succeed.
    failed: u64,
    /// Calls of all callers that it works on now.
    in_flight: usize,
    /// Calls of all callers that wait for it.
    queued: usize,
    /// How often it was started again.
    restarts: u64,
    /// Why it is not ready, or how the last failed call of this caller failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// What helps, if something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<Action>,
    /// Variables that must be set before it can be started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variables: Vec<String>,
    /// What a person should know about its tools: that there are too many, or that one changed what it says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notices: Vec<String>,
}

/// The states of a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum StateName {
    /// On its way up.
    #[default]
    Starting,
    /// Its tools are known, and it is started when one of them is needed.
    Idle,
    /// Answers calls.
    Ready,
    /// Lost, and coming back.
    Restarting,
    /// Does not come up.
    Failed,
    /// Wants a login; `lastError` names the command, or says why the last login failed.
    NeedsLogin,
    /// Ended.
    Stopped,
    /// Switched off in the configuration.
    Disabled,
    /// Cannot be started as it is configured.
    NeedsConfiguration,
}

/// What helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Action {
    /// Log in to it: `POST /v1/backends/NAME/login`, or the command `toolgate login NAME`.
    LogIn,
    /// Set the variables that the configuration names.
    SetVariable,
    /// Start it again.
    Restart,
}

pub(crate) async fn list(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<BackendsReply>, Refusal> {
    Query::parse(&query.unwrap_or_default(), &[])?;
    let scope = caller.scope();
    let gateway = service.gateway();
    let catalog = service.runner().bridge().catalog();
    let visible = catalog.backends().iter().filter(|backend| scope.backends.permits(backend.name()));
    let mut backends: Vec<BackendReply> =
        visible.map(|backend| of_catalog(&service, &scope, backend, gateway.as_deref())).collect();
    if let Some(gateway) = gateway {
        add_without_connection(&mut backends, &gateway, &scope);
    }
    backends.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Json(BackendsReply { backends }))
}

fn of_catalog(
    service: &HttpService,
    scope: &CallerScope,
    backend: &CatalogBackend,
    gateway: Option<&Gateway>,
) -> BackendReply {
    let tools = backend.tools().iter().filter(|entry| scope.permits_tool(backend.name(), &entry.tool().name)).count();
    let calls = service.run_log().backend(&scope.name, backend.name());
    let mean = calls.ms / calls.calls.max(1) as f64;
    let mut reply = BackendReply {
        name: backend.name().to_owned(),
        tools,
        mean_ms: (calls.calls > 0).then(|| (mean * 1e3).round() / 1e3),
        calls: calls.calls,
        failed: calls.failed,
        last_error: calls.last_error.as_deref().map(shown),
        ..BackendReply::default()
    };
    match gateway.and_then(|gateway| gateway.backend(backend.name())) {
        Some(connection) => {
            reply.notices = connection.notices(|tool| scope.permits_tool(backend.name(), tool));
            add_connection(&mut reply, &connection);
        }
        None => add_catalog_state(&mut reply, backend.state()),
    }
    if reply.action == Some(Action::LogIn)
        && let Some(reason) = service.browser_logins().failure(backend.name())
    {
        reply.last_error = Some(shown(&format!("the last login failed: {reason}")));
    }
    reply
}

fn add_connection(reply: &mut BackendReply, connection: &Backend) {
    let stats = connection.stats();
    (reply.in_flight, reply.queued, reply.restarts) = (stats.in_flight, stats.queued, stats.restarts);
    match connection.state() {
        BackendState::Idle => reply.state = StateName::Idle,
        BackendState::Starting => reply.state = StateName::Starting,
        BackendState::Ready(ready) => {
            let server = &ready.server;
            let about = format!("{} {} ({})", server.name, server.version, server.protocol);
            (reply.state, reply.server) = (StateName::Ready, Some(shown(about.trim())));
        }
        BackendState::Restarting { reason, .. } => {
            (reply.state, reply.last_error) = (StateName::Restarting, Some(shown(&reason)));
        }
        BackendState::Failed { reason, stderr } => {
            let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let why = if last.is_empty() { reason.clone() } else { format!("{reason}: {last}") };
            (reply.state, reply.last_error) = (StateName::Failed, Some(shown(&why)));
            reply.action = Some(Action::Restart);
        }
        BackendState::NeedsLogin { command } => add_login(reply, &command),
        BackendState::Stopped => reply.state = StateName::Stopped,
    }
    if matches!(reply.state, StateName::Idle | StateName::Ready)
        && let Some(command) = connection.missing_login()
    {
        add_login(reply, &command);
    }
}

fn add_login(reply: &mut BackendReply, command: &str) {
    (reply.state, reply.action) = (StateName::NeedsLogin, Some(Action::LogIn));
    reply.last_error = Some(shown(&format!("run `{command}`")));
}

fn add_catalog_state(reply: &mut BackendReply, state: &CatalogState) {
    match state {
        CatalogState::Ready => reply.state = StateName::Ready,
        CatalogState::Starting | CatalogState::Cached => reply.state = StateName::Starting,
        CatalogState::Disabled => reply.state = StateName::Disabled,
        CatalogState::Failed { reason } => {
            (reply.state, reply.last_error) = (StateName::Failed, Some(shown(reason)));
        }
        CatalogState::NeedsLogin { command } => add_login(reply, command),
    }
}

/// Adds backends that are configured and cannot be connected to.
fn add_without_connection(backends: &mut Vec<BackendReply>, gateway: &Gateway, scope: &CallerScope) {
    let config = gateway.config();
    let known = |backends: &[BackendReply], name: &str| backends.iter().any(|backend| backend.name == name);
    for name in config.disabled.iter().map(ToString::to_string) {
        if scope.backends.permits(&name) && !known(backends, &name) {
            backends.push(BackendReply { name, state: StateName::Disabled, ..BackendReply::default() });
        }
    }
    for (name, server) in &config.incomplete {
        let name = name.to_string();
        if !scope.backends.permits(&name) {
            continue;
        }
        backends.retain(|backend| backend.name != name);
        let variables: Vec<String> = server.unset().into_iter().map(|unset| unset.name().to_owned()).collect();
        backends.push(BackendReply {
            name,
            state: StateName::NeedsConfiguration,
            last_error: Some(shown(&server.reason())),
            action: (!variables.is_empty()).then_some(Action::SetVariable),
            variables,
            ..BackendReply::default()
        });
    }
}

/// Text of a server: bounded, and without control characters.
fn shown(text: &str) -> String {
    one_line(text, MAX_TEXT_CHARS)
}

/// Starts a backend again. Calls that it works on fail, so only a caller that sees every tool of all backends may.
pub(crate) async fn restart(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<axum::http::StatusCode, Refusal> {
    let scope = caller.scope();
    let no_such = || Refusal::NoSuch(format!("no such backend: {}", Shown::new(&name)));
    let gateway: Arc<Gateway> = service.gateway().ok_or_else(no_such)?;
    let backend = gateway.backend(&name).filter(|_| scope.backends.permits(&name)).ok_or_else(no_such)?;
    if !scope.sees_all_tools() {
        return Err(Refusal::NotPermitted("only a key for all backends and tools may restart one"));
    }
    backend.restart();
    Ok(axum::http::StatusCode::ACCEPTED)
}
