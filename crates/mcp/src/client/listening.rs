//! Keeps the server's change notifications coming: changed lists, and changed resources that clients watch.
//!
//! A legacy child sends them on its pipe, a legacy HTTP server on a GET stream that stays open, a modern server in reply to
//! `subscriptions/listen`, a request that names what to notify and stays open. When that changes, the next request is
//! acknowledged before the previous one is dropped, so that no notification is lost. Does not read lists or resources.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::http::HttpLink;
use super::link::Transport;
use super::session::McpSession;
use super::watchlist::Watchlist;
use crate::protocol::Era;
use crate::rpc::{LinkError, OutgoingRequest, RpcError};

/// The least time between two attempts to listen.
const RELISTEN_INTERVAL: Duration = Duration::from_secs(5);
/// How long a server may take to acknowledge `subscriptions/listen`. Some never do.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a legacy server may take to reply to `resources/subscribe`.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

impl McpSession {
    /// Listens until the server refuses; returns at once if the transport needs no listening.
    pub async fn listen(&self, list: &Watchlist) {
        match (&self.link.transport, self.ready.era) {
            (_, Era::Modern) => self.listen_by_request(list).await,
            (Transport::Http(link), Era::Legacy) => self.listen_to_stream(link, list).await,
            (Transport::Stdio(_) | Transport::Local(_), Era::Legacy) => {}
        }
    }

    async fn listen_to_stream(&self, link: &HttpLink, list: &Watchlist) {
        if self.announced().is_empty() && !self.reports_updates() {
            return;
        }
        loop {
            let started = Instant::now();
            let ended = link.open_notification_stream(&self.protocol).await;
            self.mark_missed(list);
            if is_refusal(&ended) {
                return;
            }
            tokio::time::sleep(RELISTEN_INTERVAL.saturating_sub(started.elapsed())).await;
        }
    }

    async fn listen_by_request(&self, list: &Watchlist) {
        let mut versions = list.versions();
        let mut former = None;
        loop {
            versions.borrow_and_update();
            let wanted = self.wanted(list);
            if self.announced().is_empty() && wanted.is_empty() {
                drop(former.take());
                self.wait_for_other(&wanted, list, &mut versions).await;
                continue;
            }
            let started = Instant::now();
            let request = self.request_for(&wanted);
            let (link, id) = (&self.link, request.id);
            let mut stream = Box::pin(async move { link.request(request).await });
            let early = tokio::select! {
                ended = &mut stream => Some(ended),
                granted = timeout(ACKNOWLEDGE_TIMEOUT, link.inbox.acknowledged(id)) => {
                    grant(list, &wanted, granted.ok().as_ref());
                    None
                }
            };
            drop(former.take());
            let was_acknowledged = early.is_none();
            let ended = match early {
                Some(ended) => ended,
                None => tokio::select! {
                    ended = &mut stream => ended,
                    () = self.wait_for_other(&wanted, list, &mut versions) => {
                        former = Some(stream);
                        continue;
                    }
                },
            };
            self.mark_missed(list);
            if ended.is_ok() && !was_acknowledged {
                // It replied instead of keeping the request open, so pending watches are refused now, not after the next attempt.
                list.refuse_pending(&not_granted());
            }
            if is_refusal(&ended) {
                let error = ended.err().unwrap_or(LinkError::SessionExpired);
                // One refused URI fails the whole request: retry without the pending ones.
                if !list.refuse_pending(&error) {
                    self.wait_for_other(&wanted, list, &mut versions).await;
                }
                continue;
            }
            tokio::time::sleep(RELISTEN_INTERVAL.saturating_sub(started.elapsed())).await;
        }
    }

    /// The watched URIs, if the server supports subscriptions.
    fn wanted(&self, list: &Watchlist) -> BTreeSet<String> {
        if self.reports_updates() { list.wanted() } else { BTreeSet::new() }
    }

    /// Waits until the wanted URIs differ from `wanted`.
    async fn wait_for_other(&self, wanted: &BTreeSet<String>, list: &Watchlist, versions: &mut watch::Receiver<u64>) {
        while self.wanted(list) == *wanted {
            if versions.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// The `subscriptions/listen` request.
    fn request_for(&self, wanted: &BTreeSet<String>) -> OutgoingRequest {
        let mut notifications = self.announced();
        if !wanted.is_empty() {
            notifications.insert("resourceSubscriptions".to_owned(), json!(wanted));
        }
        let mut params = Map::new();
        params.insert("notifications".to_owned(), Value::Object(notifications));
        self.draft("subscriptions/listen", params)
    }

    /// Subscribes and unsubscribes at a legacy server as the watchlist changes. Ends with the connection.
    pub async fn keep_subscribed(&self, list: &Watchlist) {
        if self.ready.era == Era::Modern || !self.reports_updates() {
            return;
        }
        let mut versions = list.versions();
        let mut held = BTreeSet::new();
        loop {
            versions.borrow_and_update();
            let wanted = list.wanted();
            for uri in held.difference(&wanted) {
                let _ = self.subscription("resources/unsubscribe", uri).await;
            }
            held.retain(|uri| wanted.contains(uri));
            for uri in wanted.difference(&held.clone()) {
                match self.subscription("resources/subscribe", uri).await {
                    Ok(()) => {
                        held.insert(uri.clone());
                        list.settle(uri, Ok(()));
                    }
                    Err(LinkError::Closed { .. } | LinkError::Unreachable(_) | LinkError::SessionExpired) => return,
                    Err(error) => list.settle(uri, Err(error)),
                }
            }
            if versions.changed().await.is_err() {
                return;
            }
        }
    }

    async fn subscription(&self, method: &'static str, uri: &str) -> Result<(), LinkError> {
        let mut params = Map::new();
        params.insert("uri".to_owned(), uri.into());
        let late = |_| LinkError::Protocol(format!("{method} timed out"));
        timeout(SUBSCRIBE_TIMEOUT, self.link.request(self.draft(method, params))).await.map_err(late)?.map(drop)
    }

    /// Between two streams changes may have been missed.
    fn mark_missed(&self, list: &Watchlist) {
        self.link.inbox.stop_listening();
        list.mark_all_stale();
    }

    /// Whether the server declares that it reports changes of single resources.
    pub fn reports_updates(&self) -> bool {
        self.declares("resources", "subscribe")
    }

    /// The lists whose changes the server notifies, as a subscription names them.
    fn announced(&self) -> Map<String, Value> {
        let lists =
            [("tools", "toolsListChanged"), ("resources", "resourcesListChanged"), ("prompts", "promptsListChanged")];
        let announced = lists.into_iter().filter(|(list, _)| self.declares(list, "listChanged"));
        announced.map(|(_, name)| (name.to_owned(), Value::Bool(true))).collect()
    }
}

/// Whether the server refuses to notify, so that trying again is useless.
fn is_refusal(ended: &Result<impl Sized, LinkError>) -> bool {
    matches!(ended, Err(LinkError::Rejected(_) | LinkError::Http { .. } | LinkError::SessionExpired))
}

/// Settles the wanted URIs by the acknowledgement. A server that does not acknowledge counts as covering all of them.
fn grant(list: &Watchlist, wanted: &BTreeSet<String>, granted: Option<&HashSet<String>>) {
    for uri in wanted {
        let outcome = match granted {
            Some(granted) if !granted.contains(uri) => Err(not_granted()),
            _ => Ok(()),
        };
        list.settle(uri, outcome);
    }
}

fn not_granted() -> LinkError {
    let message = "the server does not report changes of this resource".to_owned();
    LinkError::Rejected(RpcError { code: -32602, message, data: None })
}
