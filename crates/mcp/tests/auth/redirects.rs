//! Redirects of a server over HTTP: within its origin they are followed with the request, elsewhere nothing is sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Redirect;
use axum::routing::any;
use toolgate_mcp::client::{HttpLink, Inbox, Link, LinkError, McpSession, Transport};
use toolgate_mcp::protocol::Era;

use crate::call;
use crate::fake::{Behaviour, Fake};

/// A server whose `/moved` redirects to its own `/mcp`, and `/away` to another server. It passes requests on to an MCP server with
/// a token of its own, and keeps the headers that came.
async fn redirecting(elsewhere: String) -> (String, Arc<Mutex<Vec<HeaderMap>>>) {
    let seen = Arc::<Mutex<Vec<HeaderMap>>>::default();
    let answer = async |State(seen): State<Arc<Mutex<Vec<HeaderMap>>>>, headers: HeaderMap, body: String| {
        seen.lock().unwrap().push(headers);
        let message: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => serde_json::json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "moved", "version": "1" },
            }),
            _ => serde_json::json!({ "content": [{ "type": "text", "text": "done" }] }),
        };
        axum::Json(serde_json::json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
    };
    let router = Router::new()
        .route("/mcp", any(answer))
        .route("/moved", any(async || Redirect::temporary("/mcp")))
        .route("/away", any(async move || Redirect::temporary(&elsewhere)))
        .with_state(Arc::clone(&seen));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (origin, seen)
}

async fn open(url: &str) -> Result<McpSession, LinkError> {
    let inbox = Arc::new(Inbox::new(Arc::default()));
    let headers = BTreeMap::from([("X-Key".to_owned(), "configured".to_owned())]);
    let link = HttpLink::new(url, &headers, Arc::clone(&inbox), 1 << 20).unwrap();
    McpSession::open(Arc::new(Link::new(Transport::Http(link), inbox)), Some(Era::Legacy)).await
}

#[tokio::test]
async fn redirects_are_followed_within_the_origin_and_nowhere_else() {
    let other = Fake::start(Behaviour::default()).await;
    let (origin, seen) = redirecting(other.url()).await;
    let session = open(&format!("{origin}/moved")).await.unwrap();
    assert!(call(&session, "read").await.unwrap().contains("done"));
    let had_key = |headers: &HeaderMap| headers.get("x-key").is_some_and(|key| key == "configured");
    assert!(seen.lock().unwrap().iter().all(had_key));
    let before = seen.lock().unwrap().len();
    let refused = open(&format!("{origin}/away")).await.map(drop);
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(seen.lock().unwrap().len(), before);
    assert_eq!(other.seen.lock().unwrap().headers, [""; 0], "nothing was sent there");
}
