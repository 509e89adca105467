//! The opening words, and finding out which era a backend speaks.
//!
//! The modern opening comes first, unless the backend is remembered as legacy. Most legacy
//! servers refuse it at once and are then greeted their way. Some ignore what they don't know,
//! and some just start slowly: after a short wait both openings are out, and the first that
//! succeeds decides. A server that dies of the modern opening is started again as a legacy one
//! by its supervisor. We declare no client capability: whatever needs one is refused openly.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::link::Link;
use crate::headers;
use crate::protocol::{Era, META_CAPABILITIES, META_CLIENT, META_SERVER, META_VERSION, MODERN, NEWEST_LEGACY};
use crate::rpc::{self, LinkError, Protocol};

/// How long the modern opening is given before the legacy one goes out as well.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a server's words about itself may be, in characters.
const LONGEST_INSTRUCTIONS: usize = 16 << 10;

/// What a backend said about itself when it came up.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerInfo {
    /// Its own name, if it gave one.
    pub name: String,
    /// Its version, if it gave one.
    pub version: String,
    /// The protocol revision agreed on.
    pub protocol: String,
    /// How it wants to be used, in its words.
    pub instructions: Option<String>,
    /// Its capabilities, as sent.
    pub capabilities: Value,
}

/// A backend that answers calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// The era it speaks: worth remembering for the next start.
    pub era: Era,
    /// What it said about itself.
    pub server: ServerInfo,
    /// Since when.
    pub since: Instant,
}

/// A backend that answered.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) protocol: Protocol,
    pub(crate) era: Era,
    pub(crate) server: ServerInfo,
}

/// Opens the conversation in the era the backend speaks.
pub(crate) async fn greet(link: &Link, hint: Option<Era>) -> Result<Greeting, LinkError> {
    if hint == Some(Era::Legacy) {
        return match initialize(link).await {
            Err(refused) if is_refusal(&refused) => discover(link).await.map_err(|_| refused),
            outcome => outcome,
        };
    }
    let mut modern = Box::pin(discover(link));
    match timeout(PATIENCE, &mut modern).await {
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

/// Whether the backend understood that it was asked something, and said no.
fn is_refusal(error: &LinkError) -> bool {
    match error {
        LinkError::Rejected(_) | LinkError::Protocol(_) => true,
        LinkError::Http { status, .. } => !matches!(status, 401 | 403),
        LinkError::Closed { .. }
        | LinkError::Unreachable(_)
        | LinkError::SessionExpired
        | LinkError::TooLarge { .. } => false,
    }
}

async fn discover(link: &Link) -> Result<Greeting, LinkError> {
    let mut params = Map::new();
    params.insert("_meta".to_owned(), Value::Object(modern_meta()));
    let mut request = link.draft("server/discover", params, Protocol::Modern);
    request.headers = headers::of_method("server/discover");
    let found = link.request(&request).await?;
    let versions = found.get("supportedVersions").and_then(Value::as_array);
    if !versions.is_some_and(|versions| versions.iter().any(|version| version == MODERN)) {
        return Err(LinkError::Protocol("no protocol revision in common".to_owned()));
    }
    let info = found.get("_meta").and_then(|meta| meta.get(META_SERVER)).or(found.get("serverInfo"));
    let server = server_info(info, MODERN, &found);
    Ok(Greeting { protocol: Protocol::Modern, era: Era::Modern, server })
}

async fn initialize(link: &Link) -> Result<Greeting, LinkError> {
    let params = json!({ "protocolVersion": NEWEST_LEGACY, "capabilities": {}, "clientInfo": client_info() });
    let Value::Object(params) = params else { return Err(LinkError::Protocol("no parameters".to_owned())) };
    let found = link.request(&link.draft("initialize", params, Protocol::Opening)).await?;
    let Some(version) = found.get("protocolVersion").and_then(Value::as_str) else {
        return Err(LinkError::Protocol("an answer to initialize without a protocol version".to_owned()));
    };
    let protocol = Protocol::Legacy(version.to_owned());
    link.tell(&protocol, &rpc::notification("notifications/initialized", json!({}))).await?;
    let server = server_info(found.get("serverInfo"), version, &found);
    Ok(Greeting { protocol, era: Era::Legacy, server })
}

/// What every modern request says about us.
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
        instructions: instructions.map(|text| text.chars().take(LONGEST_INSTRUCTIONS).collect()),
        capabilities: found.get("capabilities").cloned().unwrap_or_default(),
    }
}
