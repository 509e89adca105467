//! A server inside this process: what is no MCP server, such as an HTTP API, is spoken to as if it were one.
//!
//! It answers `server/discover` itself and lists the tools that it was made with; calls go to a [`LocalServer`]. Nothing
//! is serialised on the way. It sends no notification and ends only when it is shut down.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::inbox::Inbox;
use crate::protocol::{META_SERVER, MODERN};
use crate::rpc::{Closing, LinkError, OutgoingRequest, RpcError};

/// The result of a call on its way.
pub type LocalResult = Pin<Box<dyn Future<Output = Result<Value, LinkError>> + Send>>;

/// A server that calls its tools in this process.
pub trait LocalServer: Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> &str;

    /// Its tools, as `tools/list` gives them. As text, because there may be thousands and few are looked at.
    fn tools(&self) -> Vec<Box<RawValue>>;

    /// Calls a tool; gives the result object. Dropping the future cancels the call.
    fn call(&self, tool: &str, arguments: Map<String, Value>) -> LocalResult;
}

/// A connection to a server in this process.
pub struct LocalLink {
    server: Arc<dyn LocalServer>,
    inbox: Arc<Inbox>,
    closed: watch::Sender<Option<Arc<Closing>>>,
}

impl fmt::Debug for LocalLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLink").field("server", &self.server.name()).finish_non_exhaustive()
    }
}

impl LocalLink {
    /// A connection to a server.
    pub fn new(server: Arc<dyn LocalServer>, inbox: Arc<Inbox>) -> Self {
        Self { server, inbox, closed: watch::channel(None).0 }
    }

    /// The server's tools, without parsing them.
    pub fn tools(&self) -> Vec<Box<RawValue>> {
        self.server.tools()
    }

    /// Answers a request.
    pub(crate) async fn request(&self, request: &OutgoingRequest) -> Result<Value, LinkError> {
        if let Some(closing) = self.closed.borrow().clone() {
            return Err(LinkError::Closed { closing, sent: false });
        }
        self.inbox.touch();
        match request.method {
            "server/discover" => Ok(json!({
                "supportedVersions": [MODERN],
                "capabilities": { "tools": {} },
                "_meta": { META_SERVER: { "name": self.server.name(), "version": env!("CARGO_PKG_VERSION") } },
            })),
            "tools/list" => {
                let tools = self.server.tools();
                let parsed = tools.iter().filter_map(|tool| serde_json::from_str::<Value>(tool.get()).ok());
                Ok(json!({ "tools": parsed.collect::<Vec<_>>() }))
            }
            "tools/call" => self.call(&request.params).await,
            other => Err(rejected(-32601, format!("no such method: {other}"))),
        }
    }

    async fn call(&self, params: &Map<String, Value>) -> Result<Value, LinkError> {
        let Some(tool) = params.get("name").and_then(Value::as_str) else {
            return Err(rejected(-32602, "the call names no tool".to_owned()));
        };
        let arguments = params.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
        let result = self.server.call(tool, arguments).await;
        self.inbox.touch();
        result
    }

    /// Waits until the connection is shut down.
    pub(crate) async fn closed(&self) -> Arc<Closing> {
        let mut closed = self.closed.subscribe();
        let found = closed.wait_for(Option::is_some).await.ok().and_then(|closing| closing.clone());
        found.unwrap_or_else(ended)
    }

    /// Whether the connection is shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }

    /// Ends the connection.
    pub(crate) fn shut_down(&self) {
        self.closed.send_replace(Some(ended()));
    }
}

fn ended() -> Arc<Closing> {
    Arc::new(Closing { reason: "it was shut down".to_owned(), stderr: String::new(), is_expected: true })
}

fn rejected(code: i64, message: String) -> LinkError {
    LinkError::Rejected(RpcError { code, message, data: None })
}

#[cfg(test)]
mod tests {
    use super::super::{Link, McpSession, ToolCallOptions, ToolName, Transport, Watchlist};
    use super::*;
    use std::time::Duration;

    struct Echo;

    impl LocalServer for Echo {
        fn name(&self) -> &str {
            "echo"
        }

        fn tools(&self) -> Vec<Box<RawValue>> {
            vec![RawValue::from_string(r#"{"name":"echo"}"#.to_owned()).unwrap()]
        }

        fn call(&self, tool: &str, arguments: Map<String, Value>) -> LocalResult {
            let result = json!({ "structuredContent": { "tool": tool, "arguments": arguments } });
            Box::pin(std::future::ready(Ok(result)))
        }
    }

    #[tokio::test]
    async fn a_server_in_this_process_is_a_session_like_any_other() {
        let inbox = Arc::new(Inbox::new(Arc::new(Watchlist::default())));
        let link = LocalLink::new(Arc::new(Echo), Arc::clone(&inbox));
        let link = Arc::new(Link::new(Transport::Local(link), inbox));
        let session = McpSession::open(Arc::clone(&link), None).await.unwrap();
        assert_eq!(session.ready.server.name, "echo");
        assert_eq!(session.list_tools(Duration::from_secs(5)).await.unwrap().tools, [json!({ "name": "echo" })]);
        session.probe(Duration::from_secs(5)).await.unwrap();
        let arguments = Map::from_iter([("a".to_owned(), json!(1))]);
        let tool = ToolName { name: "echo", input_schema: &Value::Null };
        let result = session.call(tool, arguments, ToolCallOptions::default()).await.unwrap();
        assert_eq!(result.into_text().as_str(), r#"{"structuredContent":{"tool":"echo","arguments":{"a":1}}}"#);
        link.shut_down(&session.protocol).await;
        assert!(link.is_closed() && link.closed().await.is_expected);
        let closed = session.list_tools(Duration::from_secs(5)).await;
        assert!(matches!(closed, Err(LinkError::Closed { sent: false, .. })), "{closed:?}");
    }
}
