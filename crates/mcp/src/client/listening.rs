//! Hearing what a backend tells unasked: changed lists, and changes of the resources that somebody watches.
//!
//! A legacy child just says it; a legacy server says it on a stream that is kept open; a modern backend says it to
//! those who name what they want to hear of, in one request that stays open. Where that changes, the next request is
//! acknowledged before the last one ends, so that nothing goes by between them.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::http::HttpLink;
use super::link::Wire;
use super::session::McpSession;
use super::watchlist::Watchlist;
use crate::protocol::Era;
use crate::rpc::{LinkError, Outgoing, RpcError};

/// The least time between two tries to hear news.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);
/// How long a backend may take to say what it will tell of. Some never say it.
const ACKNOWLEDGE: Duration = Duration::from_secs(2);
/// How long a legacy backend may take to answer that somebody watches a resource.
const SUBSCRIBE: Duration = Duration::from_secs(10);

impl McpSession {
    /// Keeps hearing what the backend says only to those who listen, until there is nothing to hear.
    pub async fn listen(&self, list: &Watchlist) {
        match (&self.link.wire, self.ready.era) {
            (_, Era::Modern) => self.listen_by_request(list).await,
            (Wire::Http(link), Era::Legacy) => self.listen_to_stream(link, list).await,
            (Wire::Stdio(_), Era::Legacy) => {}
        }
    }

    async fn listen_to_stream(&self, link: &HttpLink, list: &Watchlist) {
        if self.announced().is_empty() && !self.tells_of_updates() {
            return;
        }
        loop {
            let started = Instant::now();
            let heard = link.open_notification_stream(&self.protocol).await;
            self.unheard(list);
            if is_refusal(&heard) {
                return;
            }
            tokio::time::sleep(LISTEN_AGAIN.saturating_sub(started.elapsed())).await;
        }
    }

    async fn listen_by_request(&self, list: &Watchlist) {
        let mut turns = list.turns();
        let mut former = None;
        loop {
            turns.borrow_and_update();
            let wanted = self.wanted(list);
            if self.announced().is_empty() && wanted.is_empty() {
                drop(former.take());
                self.wants_other(&wanted, list, &mut turns).await;
                continue;
            }
            let started = Instant::now();
            let request = self.request_for(&wanted);
            let (link, id) = (&self.link, request.id);
            let mut stream = Box::pin(async move { link.request(&request).await });
            let early = tokio::select! {
                ended = &mut stream => Some(ended),
                granted = timeout(ACKNOWLEDGE, link.inbox.acknowledged(id)) => {
                    grant(list, &wanted, granted.ok().as_ref());
                    None
                }
            };
            drop(former.take());
            let is_told = early.is_none();
            let ended = match early {
                Some(ended) => ended,
                None => tokio::select! {
                    ended = &mut stream => ended,
                    () = self.wants_other(&wanted, list, &mut turns) => {
                        former = Some(stream);
                        continue;
                    }
                },
            };
            self.unheard(list);
            if ended.is_ok() && !is_told {
                // It answers where it should tell: nobody need wait for the next try.
                list.refuse_asked(&not_granted());
            }
            if is_refusal(&ended) {
                let error = ended.err().unwrap_or(LinkError::SessionExpired);
                // One bad wish among good ones: the others are tried without it.
                if !list.refuse_asked(&error) {
                    self.wants_other(&wanted, list, &mut turns).await;
                }
                continue;
            }
            tokio::time::sleep(LISTEN_AGAIN.saturating_sub(started.elapsed())).await;
        }
    }

    /// What is watched, if that can be asked of this backend.
    fn wanted(&self, list: &Watchlist) -> BTreeSet<String> {
        if self.tells_of_updates() { list.wanted() } else { BTreeSet::new() }
    }

    /// Waits until something else is wanted.
    async fn wants_other(&self, wanted: &BTreeSet<String>, list: &Watchlist, turns: &mut watch::Receiver<u64>) {
        while self.wanted(list) == *wanted {
            if turns.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// The request that stays open.
    fn request_for(&self, wanted: &BTreeSet<String>) -> Outgoing {
        let mut notifications = self.announced();
        if !wanted.is_empty() {
            notifications.insert("resourceSubscriptions".to_owned(), json!(wanted));
        }
        let mut params = Map::new();
        params.insert("notifications".to_owned(), Value::Object(notifications));
        self.draft("subscriptions/listen", params)
    }

    /// Tells a legacy backend what is watched, as that comes and goes. Ends when the conversation does.
    pub async fn keep_subscribed(&self, list: &Watchlist) {
        if self.ready.era == Era::Modern || !self.tells_of_updates() {
            return;
        }
        let mut turns = list.turns();
        let mut held = BTreeSet::new();
        loop {
            turns.borrow_and_update();
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
            if turns.changed().await.is_err() {
                return;
            }
        }
    }

    async fn subscription(&self, method: &'static str, uri: &str) -> Result<(), LinkError> {
        let mut params = Map::new();
        params.insert("uri".to_owned(), uri.into());
        let late = |_| LinkError::Protocol(format!("no answer to {method} in time"));
        timeout(SUBSCRIBE, self.link.request(&self.draft(method, params))).await.map_err(late)?.map(drop)
    }

    /// Between two streams a change may have gone by unheard.
    fn unheard(&self, list: &Watchlist) {
        self.link.inbox.stop_listening();
        list.mark_all_stale();
    }

    /// Whether the backend says that it tells of changes of single resources.
    pub fn tells_of_updates(&self) -> bool {
        self.declares("resources", "subscribe")
    }

    /// The lists whose changes the backend announces, as a subscription names them.
    fn announced(&self) -> Map<String, Value> {
        let lists =
            [("tools", "toolsListChanged"), ("resources", "resourcesListChanged"), ("prompts", "promptsListChanged")];
        let announced = lists.into_iter().filter(|(list, _)| self.declares(list, "listChanged"));
        announced.map(|(_, name)| (name.to_owned(), Value::Bool(true))).collect()
    }
}

/// Whether the backend will not have it, now or later.
fn is_refusal(heard: &Result<impl Sized, LinkError>) -> bool {
    matches!(heard, Err(LinkError::Rejected(_) | LinkError::Http { .. } | LinkError::SessionExpired))
}

/// What the backend will tell of. One that does not say is taken to tell of everything.
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
    let message = "the server does not tell of changes of this resource".to_owned();
    LinkError::Rejected(RpcError { code: -32602, message, data: None })
}
