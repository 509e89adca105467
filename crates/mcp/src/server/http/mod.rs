//! Streamable HTTP: the protocol at `/mcp`.
//!
//! A POST is one message. It is answered by JSON where the answer is quick and alone, and by a
//! stream of events where progress comes first or the answer takes its time; closing either
//! cancels the request. Legacy clients have a session, and may GET a stream of what changes.
//! Streams can't be resumed: a client that loses one asks again.
//!
//! Host and Origin are checked unless the user says otherwise, so that a web page can't reach a
//! server on its reader's machine by naming it.

mod body;
mod door;
mod events;
mod guard;
mod headers;
mod json;
mod refusal;
mod session;
mod stream;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio_util::sync::CancellationToken;

use self::door::Door;
use super::LARGEST_MESSAGE;
use super::service::{RequestScope, Service};

/// Decides from a request's headers who asks.
pub type Authenticate = Arc<dyn Fn(&HeaderMap) -> Result<RequestScope, Unauthorized> + Send + Sync>;

/// A request without good credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unauthorized {
    /// What goes into `WWW-Authenticate`.
    pub challenge: Option<String>,
}

/// How the door stands open.
#[derive(Clone)]
pub struct HttpOptions {
    /// Who a client is where nobody authenticates; `?mode=` may choose another view.
    pub scope: RequestScope,
    /// Names, with or without a port, that the server answers to; `*` is any.
    pub allowed_hosts: Vec<String>,
    /// Web pages, as `https://host:port`, that may come besides those of the server's own host; `*` is any.
    pub allowed_origins: Vec<String>,
    /// Who may come, and what they see. Without it, everybody.
    pub authenticate: Option<Authenticate>,
    /// The largest message a client may send, in bytes.
    pub max_message: usize,
    /// Ends streams that would run for ever.
    pub shutdown: CancellationToken,
}

impl Default for HttpOptions {
    /// For clients on the same machine.
    fn default() -> Self {
        Self {
            scope: RequestScope::default(),
            allowed_hosts: ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec(),
            allowed_origins: Vec::new(),
            authenticate: None,
            max_message: LARGEST_MESSAGE,
            shutdown: CancellationToken::new(),
        }
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("scope", &self.scope)
            .field("allowed_hosts", &self.allowed_hosts)
            .field("allowed_origins", &self.allowed_origins)
            .field("authenticate", &self.authenticate.is_some())
            .field("max_message", &self.max_message)
            .finish_non_exhaustive()
    }
}

/// The service at `/mcp`.
pub fn router(service: Arc<dyn Service>, options: HttpOptions) -> Router {
    let door = Arc::new(Door::new(service, options));
    Router::new().route("/mcp", post(take).get(overhear).delete(end)).with_state(door)
}

async fn take(State(door): State<Arc<Door>>, request: Request) -> Response {
    door.take(request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn overhear(State(door): State<Arc<Door>>, request: Request) -> Response {
    door.overhear(request).unwrap_or_else(IntoResponse::into_response)
}

async fn end(State(door): State<Arc<Door>>, request: Request) -> Response {
    door.end(request).unwrap_or_else(IntoResponse::into_response)
}
