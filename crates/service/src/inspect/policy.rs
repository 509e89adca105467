//! `GET /v1/policy`: what the caller may use, what the configuration lets through of each backend, and the rules about calls.

use axum::extract::{RawQuery, State};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_config::values::Glob;
use toolgate_wire::Access;

use super::query::Query;
use super::rules::{self, RememberedReply, RuleReply};
use crate::refusal::Refusal;
use crate::{Caller, HttpService};

/// Rights and rules.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PolicyReply {
    /// The caller's own rights.
    caller: CallerRights,
    /// Sorted by name.
    backends: Vec<BackendRules>,
    /// The rules that may be about calls of this caller, in the order in which they decide.
    rules: Vec<RuleReply>,
    /// What happens to calls that no rule is about: `allow`, `ask` or `deny`.
    default: &'static str,
    /// Approvals that stand for later calls.
    remembered: Vec<RememberedReply>,
}

/// What a caller may use. `null` stands for everything.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallerRights {
    /// The name of its key; empty for the user of this machine.
    name: String,
    /// Patterns of backends.
    backends: Option<Vec<String>>,
    /// Patterns of tools, as `backend.tool`.
    tools: Option<Vec<String>>,
    /// Patterns of functions.
    functions: Option<Vec<String>>,
    /// Tool calls a minute.
    calls_per_minute: Option<u32>,
}

/// What the configuration lets through of a backend.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackendRules {
    /// Its name.
    name: String,
    /// Patterns of tools that are shown; `null` for all.
    allow: Option<Vec<String>>,
    /// Patterns of tools that are hidden, whatever `allow` says.
    deny: Vec<String>,
    /// The time of one call, in milliseconds.
    timeout_ms: u64,
    /// Calls at one time.
    max_concurrent_calls: usize,
}

pub(crate) async fn read(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<PolicyReply>, Refusal> {
    Query::parse(&query.unwrap_or_default(), &[])?;
    let scope = caller.scope();
    let mut backends = Vec::new();
    if let Some(gateway) = service.gateway() {
        for (name, backend) in &gateway.config().backends {
            if scope.backends.permits(name.as_str()) {
                let policy = &backend.policy;
                backends.push(BackendRules {
                    name: name.to_string(),
                    allow: policy.allow.as_deref().map(texts),
                    deny: texts(&policy.deny),
                    timeout_ms: u64::try_from(policy.timeout.as_millis()).unwrap_or(u64::MAX),
                    max_concurrent_calls: policy.max_concurrent_calls,
                });
            }
        }
    }
    backends.sort_by(|a, b| a.name.cmp(&b.name));
    let bridge = service.runner().bridge();
    Ok(Json(PolicyReply {
        caller: rights(&caller),
        backends,
        rules: rules::rules(bridge, &scope),
        default: bridge.policy().default_action().name(),
        remembered: rules::remembered(bridge, &scope),
    }))
}

fn rights(caller: &Caller) -> CallerRights {
    let patterns = |globs: &Option<Vec<Glob>>| globs.as_deref().map(texts);
    match caller {
        Caller::Local => {
            CallerRights { name: String::new(), backends: None, tools: None, functions: None, calls_per_minute: None }
        }
        Caller::Key(key) => CallerRights {
            name: key.name.clone(),
            backends: patterns(&key.backends),
            tools: patterns(&key.tools),
            functions: patterns(&key.functions),
            calls_per_minute: key.call_rate.map(|rate| rate.calls()),
        },
        Caller::Token(token) => CallerRights {
            name: token.name.clone(),
            backends: permitted(&token.scope.backends),
            tools: permitted(&token.scope.tools),
            functions: permitted(&token.scope.functions),
            calls_per_minute: None,
        },
    }
}

/// The patterns of what is permitted; none where everything is.
fn permitted(access: &Access) -> Option<Vec<String>> {
    match access {
        Access::All => None,
        Access::Only(patterns) => Some(texts(patterns)),
    }
}

fn texts(globs: &[Glob]) -> Vec<String> {
    globs.iter().map(ToString::to_string).collect()
}
