//! Streamable HTTP: the MCP endpoint at `/mcp`.
//!
//! A POST carries one message. The reply is JSON if it is ready soon and nothing precedes it, else a stream of events;
//! closing either cancels the request. Legacy clients have a session, and may GET a stream of change notifications.
//! Streams cannot be resumed: a client that loses one sends its request again.
//!
//! `host_guard` checks `Host` and `Origin` unless a guard in front of the endpoint already did. The endpoint does not
//! authenticate: a layer in front of it may put a [`RequestScope`] into the request's extensions, and the caller's
//! [`ByteBudget`](toolgate_wire::ByteBudget).

mod body;
mod endpoint;
mod events;
mod headers;
mod host_guard;
mod json;
mod negotiation;
mod outgoing;
mod refusal;
mod reply_body;
mod session;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio_util::sync::CancellationToken;

pub use self::host_guard::{HostGuard, HostGuardError};

use self::endpoint::Endpoint;
use super::MAX_MESSAGE_BYTES;
use super::service::{RequestScope, Service};

/// Settings of the endpoint.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The scope of requests that carry no [`RequestScope`] extension; `?mode=` may choose another tool mode.
    pub scope: RequestScope,
    /// Checks `Host` and `Origin`; none if a guard in front of the endpoint already did.
    pub host_guard: Option<HostGuard>,
    /// The largest message a client may send, in bytes.
    pub max_message: usize,
    /// Ends event streams, which otherwise have no end.
    pub shutdown: CancellationToken,
}

impl Default for HttpOptions {
    /// For clients that address this machine as `localhost` or by an IP address.
    fn default() -> Self {
        Self {
            scope: RequestScope::default(),
            host_guard: Some(HostGuard::default()),
            max_message: MAX_MESSAGE_BYTES,
            shutdown: CancellationToken::new(),
        }
    }
}

/// A router that serves `/mcp`.
pub fn router(service: Arc<dyn Service>, options: HttpOptions) -> Router {
    let endpoint = Arc::new(Endpoint::new(service, options));
    Router::new().route("/mcp", post(handle_post).get(open_stream).delete(end_session)).with_state(endpoint)
}

async fn handle_post(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    endpoint.handle_post(request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn open_stream(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    endpoint.open_stream(request).unwrap_or_else(IntoResponse::into_response)
}

async fn end_session(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    endpoint.end_session(request).unwrap_or_else(IntoResponse::into_response)
}
