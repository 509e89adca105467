//! State that the requests of one client share: its number, the requests in flight, the resources it watches.
//!
//! Which requests belong to one client is decided by the transport.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::protocol::ErrorCode;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolgate_wire::BytePermit;

use super::era;
use super::message::{Request, RpcError, error};
use super::questions::Questions;
use super::service::RequestScope;
use super::watched_resources::WatchedResources;

/// The most concurrent requests of one client; further ones are refused.
const MAX_IN_FLIGHT: usize = 1024;

/// What ends a request in flight.
#[derive(Debug)]
struct Cancels {
    cancel: CancellationToken,
    withdrawn: CancellationToken,
}

/// A client: a connection, a legacy session, or the one request of a stateless one.
#[derive(Debug)]
pub(super) struct Client {
    /// Requests with the same number share their turn in queues.
    pub(super) number: u64,
    /// Cancels every request in flight.
    gone: CancellationToken,
    in_flight: Mutex<HashMap<String, Cancels>>,
    pub(super) watched: WatchedResources,
    /// The name that a legacy client gave at `initialize`.
    pub(super) name: OnceLock<String>,
    /// The revision that was negotiated there.
    pub(super) protocol: OnceLock<&'static str>,
    /// The capabilities that it declared there.
    pub(super) capabilities: OnceLock<Map<String, Value>>,
    /// What it was asked and has not answered.
    pub(super) questions: Questions,
    /// How it is connected: `pipe` for standard input and output, else `tcp`.
    pub(super) transport: &'static str,
}

impl Client {
    pub(super) fn new(number: u64) -> Self {
        let gone = CancellationToken::new();
        Self {
            number,
            gone,
            in_flight: Mutex::default(),
            watched: WatchedResources::default(),
            name: OnceLock::new(),
            protocol: OnceLock::new(),
            capabilities: OnceLock::new(),
            questions: Questions::default(),
            transport: "tcp",
        }
    }

    /// The same over standard input and output.
    pub(super) fn over_pipe(number: u64) -> Self {
        Self { transport: "pipe", ..Self::new(number) }
    }

    /// A number that no other client of this process has.
    pub(super) fn next_number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers a request; from now on it can be cancelled by its id.
    ///
    /// The scope is per request: what a client may use can change between two requests.
    pub(super) fn register(self: &Arc<Self>, id: &Value, scope: RequestScope) -> Result<InFlight, RpcError> {
        let key = id.to_string();
        let mut in_flight = self.in_flight.lock();
        if in_flight.contains_key(&key) {
            return Err(error(ErrorCode::INVALID_REQUEST, format!("request {key} is still in flight")));
        }
        if in_flight.len() >= MAX_IN_FLIGHT {
            return Err(error(ErrorCode::INTERNAL_ERROR, format!("more than {MAX_IN_FLIGHT} requests in flight")));
        }
        let (cancel, withdrawn) = (self.gone.child_token(), CancellationToken::new());
        in_flight.insert(key.clone(), Cancels { cancel: cancel.clone(), withdrawn: withdrawn.clone() });
        Ok(InFlight { client: Arc::clone(self), key, cancel, withdrawn, scope, permit: None })
    }

    /// Notes the revision that `initialize` negotiates; other requests name none. A transport that takes the next message before this
    /// one is answered calls it first.
    pub(super) fn note_revision(&self, request: &Request) {
        if era::is_initialize(request) {
            let asked = request.params.get("protocolVersion").and_then(Value::as_str);
            // A second `initialize` changes nothing.
            let _ = self.protocol.set(era::negotiated_version(asked));
        }
    }

    /// Handles `notifications/cancelled`; ignores ids that are not in flight, whose requests have ended already.
    pub(super) fn cancel(&self, params: &Map<String, Value>) {
        let Some(id) = params.get("requestId") else { return };
        if let Some(request) = self.in_flight.lock().get(&id.to_string()) {
            request.withdrawn.cancel();
            request.cancel.cancel();
        }
    }

    /// The client has disconnected: cancels its requests and ends its subscriptions.
    pub(super) fn disconnect(&self) {
        self.gone.cancel();
        self.watched.end_all();
    }

    /// Waits until the client has disconnected.
    pub(super) async fn disconnected(&self) {
        self.gone.cancelled().await;
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.in_flight.lock().is_empty()
    }
}

/// A request in flight; dropping this unregisters it.
#[derive(Debug)]
pub(super) struct InFlight {
    client: Arc<Client>,
    key: String,
    pub(super) cancel: CancellationToken,
    /// See [`ToolCall::withdrawn`](super::service::ToolCall::withdrawn).
    pub(super) withdrawn: CancellationToken,
    pub(super) scope: RequestScope,
    /// Counts the bytes of the message that the request came in.
    pub(super) permit: Option<Arc<BytePermit>>,
}

impl InFlight {
    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.client.in_flight.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn client() -> Arc<Client> {
        Arc::new(Client::new(1))
    }

    fn cancel(client: &Client, id: Value) {
        client.cancel(json!({ "requestId": id }).as_object().unwrap());
    }

    #[test]
    fn a_cancel_reaches_the_request_of_exactly_that_id() {
        let client = client();
        let (number, text) = (
            client.register(&json!(1), RequestScope::default()).unwrap(),
            client.register(&json!("1"), RequestScope::default()).unwrap(),
        );
        cancel(&client, json!("1"));
        assert!(text.cancel.is_cancelled() && text.withdrawn.is_cancelled());
        assert!(!number.cancel.is_cancelled());
    }

    #[test]
    fn an_id_is_free_again_once_answered() {
        let client = client();
        let in_flight = client.register(&json!(1), RequestScope::default()).unwrap();
        assert_eq!(client.register(&json!(1), RequestScope::default()).unwrap_err().code, -32600);
        drop(in_flight);
        assert!(client.register(&json!(1), RequestScope::default()).is_ok());
    }

    #[test]
    fn requests_of_a_client_that_disconnects_are_cancelled() {
        let client = client();
        let in_flight = client.register(&json!(1), RequestScope::default()).unwrap();
        client.disconnect();
        assert!(in_flight.cancel.is_cancelled());
        assert!(!in_flight.withdrawn.is_cancelled(), "a lost connection says nothing about what the client wants");
    }

    #[test]
    fn requests_in_flight_are_bounded() {
        let client = client();
        let in_flight: Vec<_> =
            (0..MAX_IN_FLIGHT).map(|id| client.register(&json!(id), RequestScope::default()).unwrap()).collect();
        assert_eq!(client.register(&json!("one more"), RequestScope::default()).unwrap_err().code, -32603);
        drop(in_flight);
        assert!(!client.is_busy());
    }
}
