//! What the requests of one client share: who it is, what is in flight, what it watches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol::ErrorCode;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::message::{RpcError, error};
use super::service::RequestScope;
use super::watched::Watched;

/// Requests of one client at the same time; more are refused.
const MOST_IN_FLIGHT: usize = 1024;

/// A client: a connection, a legacy session, or the one request of a stateless one.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) caller: u64,
    /// Ends everything that is in flight.
    gone: CancellationToken,
    flights: Mutex<HashMap<String, CancellationToken>>,
    pub(super) watched: Watched,
}

impl Party {
    pub(super) fn new(caller: u64) -> Self {
        let gone = CancellationToken::new();
        Self { caller, gone, flights: Mutex::default(), watched: Watched::default() }
    }

    /// A number that no other client has.
    pub(super) fn number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a request in; it can be cancelled by its id from now on.
    ///
    /// The page is the request's own: what a client may see can change between two requests.
    pub(super) fn board(self: &Arc<Self>, id: &Value, scope: RequestScope) -> Result<Flight, RpcError> {
        let key = id.to_string();
        let mut flights = self.flights();
        if flights.contains_key(&key) {
            return Err(error(ErrorCode::INVALID_REQUEST, format!("request {key} is still in flight")));
        }
        if flights.len() >= MOST_IN_FLIGHT {
            return Err(error(ErrorCode::INTERNAL_ERROR, format!("more than {MOST_IN_FLIGHT} requests in flight")));
        }
        let cancel = self.gone.child_token();
        flights.insert(key.clone(), cancel.clone());
        Ok(Flight { party: Arc::clone(self), key, cancel, scope })
    }

    /// Heeds `notifications/cancelled`. One that names nothing of ours came too late.
    pub(super) fn cancel(&self, params: &Map<String, Value>) {
        let Some(id) = params.get("requestId") else { return };
        if let Some(flight) = self.flights().get(&id.to_string()) {
            flight.cancel();
        }
    }

    /// Nobody is there any more: everything in flight ends, and nothing is watched for them.
    pub(super) fn leave(&self) {
        self.gone.cancel();
        self.watched.end_all();
    }

    /// Waits until nobody is there any more.
    pub(super) async fn left(&self) {
        self.gone.cancelled().await;
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.flights().is_empty()
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in flight; its place is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Flight {
    party: Arc<Party>,
    key: String,
    pub(super) cancel: CancellationToken,
    pub(super) scope: RequestScope,
}

impl Flight {
    pub(super) fn party(&self) -> &Arc<Party> {
        &self.party
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.party.flights().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn party() -> Arc<Party> {
        Arc::new(Party::new(1))
    }

    fn cancel(party: &Party, id: Value) {
        party.cancel(json!({ "requestId": id }).as_object().unwrap());
    }

    #[test]
    fn a_cancel_reaches_the_request_of_exactly_that_id() {
        let party = party();
        let (number, text) = (
            party.board(&json!(1), RequestScope::default()).unwrap(),
            party.board(&json!("1"), RequestScope::default()).unwrap(),
        );
        cancel(&party, json!("1"));
        assert!(text.cancel.is_cancelled());
        assert!(!number.cancel.is_cancelled());
    }

    #[test]
    fn an_id_is_free_again_once_answered() {
        let party = party();
        let flight = party.board(&json!(1), RequestScope::default()).unwrap();
        assert_eq!(party.board(&json!(1), RequestScope::default()).unwrap_err().code, -32600);
        drop(flight);
        assert!(party.board(&json!(1), RequestScope::default()).is_ok());
    }

    #[test]
    fn a_client_that_leaves_takes_its_requests_with_it() {
        let party = party();
        let flight = party.board(&json!(1), RequestScope::default()).unwrap();
        party.leave();
        assert!(flight.cancel.is_cancelled());
    }

    #[test]
    fn a_client_has_only_so_many_requests_in_flight() {
        let party = party();
        let flights: Vec<_> =
            (0..MOST_IN_FLIGHT).map(|id| party.board(&json!(id), RequestScope::default()).unwrap()).collect();
        assert_eq!(party.board(&json!("one more"), RequestScope::default()).unwrap_err().code, -32603);
        drop(flights);
        assert!(!party.is_busy());
    }
}
