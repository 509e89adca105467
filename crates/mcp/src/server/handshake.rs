//! The results of `initialize` and `server/discover`: the server's identity and capabilities.
//!
//! Declares only what the service has; requests for anything else fail as unknown methods.

use serde_json::{Map, Value, json};

use super::era::negotiated_version;
use super::service::{Identity, RequestScope, Service, TASKS_EXTENSION};
use crate::protocol::{META_SERVER, MODERN};

/// How long a client may cache a list, in milliseconds. A client that subscribed is notified of changes earlier.
pub(super) const LIST_TTL_MS: u64 = 5_000;

/// The result of `initialize`.
pub(super) fn initialize(service: &dyn Service, scope: &RequestScope, requested: Option<&str>) -> Value {
    let identity = service.identity();
    let mut result = Map::new();
    result.insert("protocolVersion".to_owned(), negotiated_version(requested).into());
    result.insert("capabilities".to_owned(), capabilities(service));
    result.insert("serverInfo".to_owned(), server_info(&identity));
    add_instructions(&mut result, service.instructions(scope));
    Value::Object(result)
}

/// The result of `server/discover`.
pub(super) fn discover(service: &dyn Service, scope: &RequestScope) -> Value {
    let identity = service.identity();
    let mut result = Map::new();
    result.insert("supportedVersions".to_owned(), json!([MODERN]));
    let mut offered = capabilities(service);
    if service.has_tasks() {
        offered["extensions"] = json!({ TASKS_EXTENSION: {} });
    }
    result.insert("capabilities".to_owned(), offered);
    result.insert("_meta".to_owned(), json!({ META_SERVER: server_info(&identity) }));
    add_instructions(&mut result, service.instructions(scope));
    add_ttl(&mut result, LIST_TTL_MS);
    Value::Object(result)
}

/// The declared capabilities. Methods of an absent capability are unknown methods.
fn capabilities(service: &dyn Service) -> Value {
    let mut offered = Map::new();
    offered.insert("tools".to_owned(), json!({ "listChanged": true }));
    if service.has_resources() {
        let subscribe = service.announces_resources();
        offered.insert("resources".to_owned(), json!({ "listChanged": true, "subscribe": subscribe }));
    }
    if service.has_prompts() {
        offered.insert("prompts".to_owned(), json!({ "listChanged": true }));
    }
    if service.has_completions() {
        offered.insert("completions".to_owned(), json!({}));
    }
    Value::Object(offered)
}

/// Adds how long a result may be cached, and that caches must not share it: it depends on the client's scope.
pub(super) fn add_ttl(result: &mut Map<String, Value>, milliseconds: u64) {
    result.insert("ttlMs".to_owned(), milliseconds.into());
    result.insert("cacheScope".to_owned(), "private".into());
}

/// The server's name and version.
pub(super) fn server_info(identity: &Identity) -> Value {
    json!({ "name": identity.name, "version": identity.version })
}

fn add_instructions(result: &mut Map<String, Value>, instructions: String) {
    if !instructions.is_empty() {
        result.insert("instructions".to_owned(), instructions.into());
    }
}
