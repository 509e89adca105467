//! What a client is greeted with: who this is and what it can do, no more and no less.

use serde_json::{Map, Value, json};

use super::era::agreed;
use super::service::{Identity, Service};
use crate::protocol::{META_SERVER, MODERN};

/// How long a list may be taken for current, in milliseconds. Whoever listens hears of changes sooner.
pub(super) const LIST_TTL: u64 = 5_000;

/// The answer to `initialize`.
pub(super) fn initialize(service: &dyn Service, asked: Option<&str>) -> Value {
    let identity = service.identity();
    let mut result = Map::new();
    result.insert("protocolVersion".to_owned(), agreed(asked).into());
    result.insert("capabilities".to_owned(), capabilities(service));
    result.insert("serverInfo".to_owned(), server_info(&identity));
    add_instructions(&mut result, identity);
    Value::Object(result)
}

/// The answer to `server/discover`.
pub(super) fn discover(service: &dyn Service) -> Value {
    let identity = service.identity();
    let mut result = Map::new();
    result.insert("supportedVersions".to_owned(), json!([MODERN]));
    result.insert("capabilities".to_owned(), capabilities(service));
    result.insert("_meta".to_owned(), json!({ META_SERVER: server_info(&identity) }));
    add_instructions(&mut result, identity);
    add_ttl(&mut result, LIST_TTL);
    Value::Object(result)
}

/// What may be asked for. What is absent here is answered as an unknown method.
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

/// Says for how long a result may be kept, and that it is for this client only: it depends on who asks.
pub(super) fn add_ttl(result: &mut Map<String, Value>, milliseconds: u64) {
    result.insert("ttlMs".to_owned(), milliseconds.into());
    result.insert("cacheScope".to_owned(), "private".into());
}

/// Who this is.
pub(super) fn server_info(identity: &Identity) -> Value {
    json!({ "name": identity.name, "version": identity.version })
}

fn add_instructions(result: &mut Map<String, Value>, identity: Identity) {
    if !identity.instructions.is_empty() {
        result.insert("instructions".to_owned(), identity.instructions.into());
    }
}
