//! One connection, independent of the transport.
//!
//! Sends requests and notifications, and never retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};

use super::http::HttpLink;
use super::local::LocalLink;
use super::redact::Redactor;
use super::stdio::StdioLink;
use crate::buffer::process_budget;
use crate::client::inbox::Inbox;
use crate::json_text::{JsonText, SMALL_TREE_BYTES};
use crate::rpc::{Closing, LinkError, OutgoingRequest, Protocol};

/// A connection to a server.
#[derive(Debug)]
pub struct Link {
    /// The transport.
    pub transport: Transport,
    /// Handles notifications and requests of the server.
    pub inbox: Arc<Inbox>,
    /// Removes secrets from the errors of requests.
    redactor: Redactor,
    ids: AtomicU64,
}

/// The transport of a connection.
#[derive(Debug)]
pub enum Transport {
    /// Standard input and output of a child process.
    Stdio(StdioLink),
    /// Streamable HTTP.
    Http(HttpLink),
    /// A server in this process.
    Local(LocalLink),
}

impl Link {
    /// A connection over this transport.
    pub fn new(transport: Transport, inbox: Arc<Inbox>) -> Self {
        let redactor = match &transport {
            Transport::Http(link) => link.redactor().clone(),
            Transport::Stdio(_) | Transport::Local(_) => Redactor::default(),
        };
        Self { transport, inbox, redactor, ids: AtomicU64::new(1) }
    }

    /// The same connection, whose errors show none of these secrets.
    #[must_use]
    pub fn redacting(self, redactor: Redactor) -> Self {
        Self { redactor: self.redactor.and(redactor), ..self }
    }

    /// A request with a unique id.
    pub(crate) fn draft(
        &self,
        method: &'static str,
        params: Map<String, Value>,
        protocol: Protocol,
    ) -> OutgoingRequest {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        OutgoingRequest { id, method, params, protocol, headers: Vec::new(), budget: process_budget().clone() }
    }

    /// Sends a request and waits for its result. Dropping the future cancels the request at the server.
    pub(crate) async fn request(&self, request: OutgoingRequest) -> Result<JsonText, LinkError> {
        let outcome = match &self.transport {
            Transport::Stdio(link) => link.request(request).await,
            Transport::Http(link) => Box::pin(link.request(request)).await,
            Transport::Local(link) => link.request(&request).await.and_then(|result| {
                let copy = JsonText::copied(&result.to_string(), &request.budget);
                copy.map_err(|refused| LinkError::OverBudget { refused, sent: true })
            }),
        };
        outcome.map_err(|error| error.redacted(&self.redactor))
    }

    /// The same for a result that is small by its nature: as a tree.
    pub(crate) async fn request_small(&self, request: OutgoingRequest) -> Result<Value, LinkError> {
        let (result, _) = self.request(request).await?.into_tree(SMALL_TREE_BYTES)?;
        Ok(result)
    }

    /// Sends a notification; returns once later messages cannot overtake it.
    pub(crate) async fn tell(&self, protocol: &Protocol, message: &Value) -> Result<(), LinkError> {
        match &self.transport {
            Transport::Stdio(link) => {
                link.notify(message);
                Ok(())
            }
            Transport::Http(link) => link.tell(protocol, message).await.map_err(|error| error.redacted(&self.redactor)),
            // It takes no notification.
            Transport::Local(_) => Ok(()),
        }
    }

    /// Waits until the connection is closed.
    pub async fn closed(&self) -> Arc<Closing> {
        match &self.transport {
            Transport::Stdio(link) => link.closed().await,
            Transport::Http(link) => link.closed().await,
            Transport::Local(link) => link.closed().await,
        }
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        match &self.transport {
            Transport::Stdio(link) => link.is_closed(),
            Transport::Http(link) => link.is_closed(),
            Transport::Local(link) => link.is_closed(),
        }
    }

    /// Closes the connection and ends its child process.
    pub async fn shut_down(&self, protocol: &Protocol) {
        match &self.transport {
            Transport::Stdio(link) => link.shut_down().await,
            Transport::Http(link) => link.shut_down(protocol).await,
            Transport::Local(link) => link.shut_down(),
        }
    }

    /// The process id of the child, for stdio.
    pub fn pid(&self) -> Option<u32> {
        match &self.transport {
            Transport::Stdio(link) => link.pid(),
            Transport::Http(_) | Transport::Local(_) => None,
        }
    }
}
