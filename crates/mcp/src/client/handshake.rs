//! The handshake: finds out which era a server supports.
//!
//! `server/discover` is sent first, unless the server is known to be legacy. Most legacy servers refuse it at once and get
//! `initialize` next. Some ignore unknown methods, and some start slowly: after a short time both requests are pending, and
//! the first that succeeds decides. A server that exits on `server/discover` is restarted as a legacy one by the caller. Of
//! client capabilities a legacy server is told of forms alone; a modern one is told with each request.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::time::timeout;
use toolgate_wire::foreign_text::head;

use super::link::Link;
use crate::headers;
use crate::protocol::{
    Era, ErrorCode, META_CAPABILITIES, META_CLIENT, META_SERVER, META_VERSION, MODERN, NEWEST_LEGACY,
};
use crate::rpc::{self, LinkError, Protocol};

/// How long to wait for `server/discover` before `initialize` is sent as well.
const MODERN_ONLY_TIMEOUT: Duration = Duration::from_secs(1);
/// The most characters of a server's instructions that are kept.
const MAX_INSTRUCTIONS_CHARS: usize = 16 << 10;

/// What a server declared in the handshake.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerInfo {
    /// Its name, if declared.
    pub name: String,
    /// Its version, if declared.
    pub version: String,
    /// The protocol revision agreed on.
    pub protocol: String,
    /// Its instructions.
    pub instructions: Option<String>,
    /// Its capabilities, as sent.
    pub capabilities: Value,
}

/// A server that completed the handshake.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// Its era; a hint for the next start.
    pub era: Era,
    /// What it declared.
    pub server: ServerInfo,
    /// Since when.
    pub since: Instant,
}

/// The outcome of the handshake.
#[derive(Debug)]
pub(crate) struct Negotiated {
    pub(crate) protocol: Protocol,
    pub(crate) era: Era,
    pub(crate) server: ServerInfo,
}

/// Runs the handshake in the era the server supports.
pub(crate) async fn negotiate(link: &Link, hint: Option<Era>) -> Result<Negotiated, LinkError> {
    if hint == Some(Era::Legacy) {
        return match initialize(link).await {
            Err(refused) if is_refusal(&refused) => discover(link).await.map_err(|_| refused),
            outcome => outcome,
        };
    }
    let mut modern = Box::pin(discover(link));
    match timeout(MODERN_ONLY_TIMEOUT, &mut modern).await {
        Ok(Err(refused)) if is_refusal(&refused) => return initialize(link).await,
        Ok(outcome) => return outcome,
        Err(_) => {}
    }
    let mut legacy = Box::pin(initialize(link));
    tokio::select! {
        biased;
        outcome = &mut modern => match outcome {
            Err(refused) if is_refusal(&refused) => legacy.await,
            outcome => outcome,
        },
        outcome = &mut legacy => match outcome {
            Err(refused) if is_refusal(&refused) => modern.await,
            outcome => outcome,
        },
    }
}

/// Whether the server received the request and refused it.
fn is_refusal(error: &LinkError) -> bool {
    match error {
        LinkError::Rejected(_) | LinkError::Protocol(_) => true,
        LinkError::Http { status, .. } => !matches!(status, 401 | 403),
        LinkError::Closed { .. }
        | LinkError::Unreachable(_)
        | LinkError::InvalidArguments(_)
        | LinkError::SessionExpired
        | LinkError::Auth(_)
        | LinkError::OverBudget { .. }
        | LinkError::TooManyValues { .. }
        | LinkError::TooLarge { .. } => false,
    }
}

/// A modern server that does not take a revision names those it takes; one of them is ours, and is asked for once more.
async fn discover(link: &Link) -> Result<Negotiated, LinkError> {
    match discover_once(link).await {
        Err(refused) if offers_modern(&refused) => discover_once(link).await,
        outcome => outcome,
    }
}

/// Whether a refusal of a revision names the one that this client supports.
fn offers_modern(refused: &LinkError) -> bool {
    let LinkError::Rejected(error) = refused else { return false };
    let supported = error.data.as_ref().and_then(|data| data.get("supported")).and_then(Value::as_array);
    error.code == ErrorCode::UNSUPPORTED_VERSION.0
        && supported.is_some_and(|versions| versions.iter().any(|version| version == MODERN))
}

async fn discover_once(link: &Link) -> Result<Negotiated, LinkError> {
    let mut params = Map::new();
    params.insert("_meta".to_owned(), Value::Object(modern_meta()));
    let mut request = link.draft("server/discover", params, Protocol::Modern);
    request.headers = headers::of_method("server/discover");
    let found = link.request_small(request).await?;
    let versions = found.get("supportedVersions").and_then(Value::as_array);
    if !versions.is_some_and(|versions| versions.iter().any(|version| version == MODERN)) {
        return Err(LinkError::Protocol(
            "the server supports no protocol revision that this client supports".to_owned(),
        ));
    }
    let info = found.get("_meta").and_then(|meta| meta.get(META_SERVER)).or(found.get("serverInfo"));
    let server = server_info(info, MODERN, &found);
    Ok(Negotiated { protocol: Protocol::Modern, era: Era::Modern, server })
}

async fn initialize(link: &Link) -> Result<Negotiated, LinkError> {
    let params =
        json!({ "protocolVersion": NEWEST_LEGACY, "capabilities": { "elicitation": {} }, "clientInfo": client_info() });
    let Value::Object(params) = params else {
        return Err(LinkError::Protocol("internal: initialize without parameters".to_owned()));
    };
    let found = link.request_small(link.draft("initialize", params, Protocol::Handshake)).await?;
    let Some(version) = found.get("protocolVersion").and_then(Value::as_str) else {
        return Err(LinkError::Protocol("the reply to initialize has no protocol version".to_owned()));
    };
    let protocol = Protocol::Legacy(version.to_owned());
    link.tell(&protocol, &rpc::notification("notifications/initialized", json!({}))).await?;
    let server = server_info(found.get("serverInfo"), version, &found);
    Ok(Negotiated { protocol, era: Era::Legacy, server })
}

/// The `_meta` of every modern request.
pub(crate) fn modern_meta() -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert(META_VERSION.to_owned(), MODERN.into());
    meta.insert(META_CLIENT.to_owned(), client_info());
    meta.insert(META_CAPABILITIES.to_owned(), json!({}));
    meta
}

fn client_info() -> Value {
    json!({ "name": "toolgate", "version": env!("CARGO_PKG_VERSION") })
}

fn server_info(info: Option<&Value>, version: &str, found: &Value) -> ServerInfo {
    let text = |key| info.and_then(|info| info.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned();
    let instructions = found.get("instructions").and_then(Value::as_str);
    ServerInfo {
        name: text("name"),
        version: text("version"),
        protocol: version.to_owned(),
        instructions: instructions.map(|text| head(text, MAX_INSTRUCTIONS_CHARS).to_owned()),
        capabilities: found.get("capabilities").cloned().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RpcError;

    #[test]
    fn a_refused_revision_is_asked_for_again_if_the_server_names_it() {
        let refused = |code: i64, data: Option<Value>| {
            offers_modern(&LinkError::Rejected(RpcError { code, message: String::new(), data }))
        };
        assert!(refused(-32022, Some(json!({ "supported": ["2027-01-01", MODERN], "requested": "x" }))));
        assert!(!refused(-32022, Some(json!({ "supported": ["2025-11-25"] }))));
        assert!(!refused(-32022, None));
        assert!(!refused(-32601, Some(json!({ "supported": [MODERN] }))));
        assert!(!offers_modern(&LinkError::Http { status: 400, message: MODERN.to_owned() }));
    }
}
