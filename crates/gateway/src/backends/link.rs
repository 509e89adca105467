//! One connection, whatever carries it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};

use super::http::HttpLink;
use super::inbox::Inbox;
use super::rpc::{Closing, LinkError, Outgoing, Protocol};
use super::stdio::StdioLink;

/// A connection to a backend.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) wire: Wire,
    pub(crate) inbox: Arc<Inbox>,
    ids: AtomicU64,
}

/// What carries the messages.
#[derive(Debug)]
pub(crate) enum Wire {
    Stdio(StdioLink),
    Http(HttpLink),
}

impl Link {
    pub(crate) fn new(wire: Wire, inbox: Arc<Inbox>) -> Self {
        Self { wire, inbox, ids: AtomicU64::new(1) }
    }

    /// A request that no other shares its id with.
    pub(crate) fn draft(&self, method: &'static str, params: Map<String, Value>, protocol: Protocol) -> Outgoing {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        Outgoing { id, method, params, protocol, headers: Vec::new() }
    }

    /// Sends a request and waits for its result. Dropping the future tells the backend.
    pub(crate) async fn request(&self, request: &Outgoing) -> Result<Value, LinkError> {
        match &self.wire {
            Wire::Stdio(link) => link.request(request).await,
            Wire::Http(link) => link.request(request).await,
        }
    }

    /// Sends a notification that must be there before what follows.
    pub(crate) async fn tell(&self, protocol: &Protocol, message: &Value) -> Result<(), LinkError> {
        match &self.wire {
            Wire::Stdio(link) => {
                link.notify(message);
                Ok(())
            }
            Wire::Http(link) => link.tell(protocol, message).await,
        }
    }

    /// Waits until the connection is of no more use.
    pub(crate) async fn closed(&self) -> Arc<Closing> {
        match &self.wire {
            Wire::Stdio(link) => link.closed().await,
            Wire::Http(link) => link.closed().await,
        }
    }

    /// Whether the connection is of no more use.
    pub(crate) fn is_closed(&self) -> bool {
        match &self.wire {
            Wire::Stdio(link) => link.is_closed(),
            Wire::Http(link) => link.is_closed(),
        }
    }

    /// Ends the connection, and with it a child process.
    pub(crate) async fn shut_down(&self, protocol: &Protocol) {
        match &self.wire {
            Wire::Stdio(link) => link.shut_down().await,
            Wire::Http(link) => link.shut_down(protocol).await,
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        match &self.wire {
            Wire::Stdio(link) => link.pid(),
            Wire::Http(_) => None,
        }
    }
}
