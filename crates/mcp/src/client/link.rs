//! One connection, whatever carries it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};

use super::http::HttpLink;
use super::stdio::StdioLink;
use crate::client::inbox::Inbox;
use crate::rpc::{Closing, LinkError, Outgoing, Protocol};

/// A connection to a backend.
#[derive(Debug)]
pub struct Link {
    /// The transport.
    pub wire: Wire,
    /// Notifications and requests of the server.
    pub inbox: Arc<Inbox>,
    ids: AtomicU64,
}

/// What carries the messages.
#[derive(Debug)]
pub enum Wire {
    /// Standard input and output of a child process.
    Stdio(StdioLink),
    /// Streamable HTTP.
    Http(HttpLink),
}

impl Link {
    /// A connection over this transport.
    pub fn new(wire: Wire, inbox: Arc<Inbox>) -> Self {
        Self { wire, inbox, ids: AtomicU64::new(1) }
    }

    /// A request that no other shares its id with.
    pub fn draft(&self, method: &'static str, params: Map<String, Value>, protocol: Protocol) -> Outgoing {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        Outgoing { id, method, params, protocol, headers: Vec::new() }
    }

    /// Sends a request and waits for its result. Dropping the future tells the backend.
    pub async fn request(&self, request: &Outgoing) -> Result<Value, LinkError> {
        match &self.wire {
            Wire::Stdio(link) => link.request(request).await,
            Wire::Http(link) => link.request(request).await,
        }
    }

    /// Sends a notification that must be there before what follows.
    pub async fn tell(&self, protocol: &Protocol, message: &Value) -> Result<(), LinkError> {
        match &self.wire {
            Wire::Stdio(link) => {
                link.notify(message);
                Ok(())
            }
            Wire::Http(link) => link.tell(protocol, message).await,
        }
    }

    /// Waits until the connection is of no more use.
    pub async fn closed(&self) -> Arc<Closing> {
        match &self.wire {
            Wire::Stdio(link) => link.closed().await,
            Wire::Http(link) => link.closed().await,
        }
    }

    /// Whether the connection is of no more use.
    pub fn is_closed(&self) -> bool {
        match &self.wire {
            Wire::Stdio(link) => link.is_closed(),
            Wire::Http(link) => link.is_closed(),
        }
    }

    /// Ends the connection, and with it a child process.
    pub async fn shut_down(&self, protocol: &Protocol) {
        match &self.wire {
            Wire::Stdio(link) => link.shut_down().await,
            Wire::Http(link) => link.shut_down(protocol).await,
        }
    }

    /// The process at the other end, if it is a child of ours.
    pub fn pid(&self) -> Option<u32> {
        match &self.wire {
            Wire::Stdio(link) => link.pid(),
            Wire::Http(_) => None,
        }
    }
}
