//! Constants of the protocol: revisions, `_meta` keys, header names, error codes.
//!
//! No logic.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The supported stateless revision.
pub(crate) const MODERN: &str = "2026-07-28";
/// The supported revisions with sessions, oldest first.
pub(crate) const LEGACY_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY];
/// The newest revision with sessions.
pub(crate) const NEWEST_LEGACY: &str = "2025-11-25";

/// `_meta` key: the revision a modern request is written in.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key: name and version of the client.
pub(crate) const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
/// `_meta` key: the client's capabilities.
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// `_meta` key: name and version of a modern server.
pub(crate) const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// `_meta` key: the `subscriptions/listen` request that a notification belongs to.
pub(crate) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Header: the session of a legacy connection.
pub(crate) const HEADER_SESSION_ID: &str = "Mcp-Session-Id";
/// Header: the last event received before a stream was interrupted.
pub(crate) const HEADER_LAST_EVENT_ID: &str = "Last-Event-Id";
/// Header: the revision a request is written in.
pub(crate) const HEADER_PROTOCOL_VERSION: &str = "MCP-Protocol-Version";
/// Header: repeats the method of a modern request.
pub(crate) const HEADER_METHOD: &str = "Mcp-Method";
/// Header: repeats the name or URI of a modern request.
pub(crate) const HEADER_NAME: &str = "Mcp-Name";
/// Prefix of headers that repeat an argument of a modern request.
pub(crate) const HEADER_PARAM_PREFIX: &str = "Mcp-Param-";
/// Prefix of a header value in Base64.
pub(crate) const BASE64_PREFIX: &str = "=?base64?";
/// Suffix of a header value in Base64.
pub(crate) const BASE64_SUFFIX: &str = "?=";

/// The media type of a stream of events.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";
/// The media type of one message.
pub(crate) const JSON: &str = "application/json";

/// A JSON-RPC error code, of JSON-RPC itself or of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErrorCode(pub(crate) i64);

impl ErrorCode {
    pub(crate) const PARSE_ERROR: Self = Self(-32700);
    pub(crate) const INVALID_REQUEST: Self = Self(-32600);
    pub(crate) const METHOD_NOT_FOUND: Self = Self(-32601);
    pub(crate) const INVALID_PARAMS: Self = Self(-32602);
    pub(crate) const INTERNAL_ERROR: Self = Self(-32603);
    pub(crate) const RESOURCE_NOT_FOUND: Self = Self(-32002);
    pub(crate) const HEADER_MISMATCH: Self = Self(-32020);
    pub(crate) const MISSING_CLIENT_CAPABILITY: Self = Self(-32021);
    pub(crate) const UNSUPPORTED_VERSION: Self = Self(-32022);
}

/// Which of the two incompatible families of MCP revisions a connection or request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// 2025-11-25 and before: a session that opens with `initialize`.
    Legacy,
    /// 2026-07-28 and after: stateless, described by `server/discover`.
    Modern,
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        })
    }
}
