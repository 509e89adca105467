//! The watched resources of one server, with the number of clients that watch each.
//!
//! Each URI is subscribed to once, while at least one client watches it. The list outlives sessions: after a reconnect all
//! of it is subscribed to again. Updates of other URIs are dropped and repeated updates merged, so that a flood of them stays
//! bounded. Sends nothing itself; `listening` does.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::rpc::LinkError;

/// The most watched resources of one server.
const MAX_RESOURCES: usize = 10_000;
/// The most bytes of watched URIs: a modern server gets all of them in one request.
const MAX_URI_BYTES: usize = 1 << 20;
/// How many parents of an updated URI are looked up.
const MAX_PARENT_DEPTH: usize = 32;

/// The watched resources, and which of them changed.
#[derive(Debug, Default)]
pub struct Watchlist {
    table: Mutex<Table>,
    /// Version counter of the table.
    versions: watch::Sender<u64>,
    /// Notified when a watched resource changed.
    pub fresh: Notify,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<String, Entry>,
    /// The length of all URIs.
    bytes: usize,
    /// Changed, not yet taken by [`Watchlist::take_updated`].
    updated: BTreeSet<String>,
}

#[derive(Debug)]
struct Entry {
    clients: usize,
    state: SubscriptionState,
}

/// The state of the subscription at the server.
#[derive(Debug, Clone, PartialEq)]
enum SubscriptionState {
    Pending,
    Active,
    Refused(LinkError),
}

/// The bound on watched resources is reached.
#[derive(Debug, PartialEq)]
pub struct TooMany;

impl Watchlist {
    /// Adds a client that watches this resource.
    pub fn add(self: &Arc<Self>, uri: &str) -> Result<Watching, TooMany> {
        let mut table = self.table.lock();
        if !table.entries.contains_key(uri) {
            let bytes = table.bytes.saturating_add(uri.len());
            if table.entries.len() >= MAX_RESOURCES || bytes > MAX_URI_BYTES {
                return Err(TooMany);
            }
            table.bytes = bytes;
        }
        let entry =
            table.entries.entry(uri.to_owned()).or_insert(Entry { clients: 0, state: SubscriptionState::Pending });
        entry.clients += 1;
        if matches!(entry.state, SubscriptionState::Refused(_)) {
            entry.state = SubscriptionState::Pending;
        }
        drop(table);
        self.bump_version();
        Ok(Watching { list: Arc::clone(self), uri: uri.to_owned() })
    }

    /// The URIs to subscribe to: all but the refused ones.
    pub(crate) fn wanted(&self) -> BTreeSet<String> {
        let table = self.table.lock();
        let wanted = table.entries.iter().filter(|(_, entry)| !matches!(entry.state, SubscriptionState::Refused(_)));
        wanted.map(|(uri, _)| uri.clone()).collect()
    }

    /// Records the server's reply for one resource.
    pub(crate) fn settle(&self, uri: &str, outcome: Result<(), LinkError>) {
        if let Some(entry) = self.table.lock().entries.get_mut(uri) {
            entry.state = outcome.map_or_else(SubscriptionState::Refused, |()| SubscriptionState::Active);
        }
        self.bump_version();
    }

    /// Marks all pending subscriptions as refused; false if there were none.
    pub(crate) fn refuse_pending(&self, error: &LinkError) -> bool {
        let mut table = self.table.lock();
        let pending = table.entries.values_mut().filter(|entry| entry.state == SubscriptionState::Pending);
        let refused = pending.map(|entry| entry.state = SubscriptionState::Refused(error.clone())).count();
        drop(table);
        self.bump_version();
        refused > 0
    }

    /// After a reconnect: refused subscriptions are pending again, and every resource may have changed.
    pub fn renew(&self) {
        let mut table = self.table.lock();
        for entry in table.entries.values_mut().filter(|entry| matches!(entry.state, SubscriptionState::Refused(_))) {
            entry.state = SubscriptionState::Pending;
        }
        drop(table);
        self.bump_version();
        self.mark_all_stale();
    }

    /// Marks every watched resource as changed, because updates may have been missed.
    pub fn mark_all_stale(&self) {
        let mut table = self.table.lock();
        table.updated = table.entries.keys().cloned().collect();
        let some = !table.updated.is_empty();
        drop(table);
        if some {
            self.fresh.notify_one();
        }
    }

    /// Handles an update of a watched resource, or of one below it.
    pub(crate) fn mark_updated(&self, uri: &str) {
        let mut table = self.table.lock();
        let Some(watched) = above(uri).find(|uri| table.entries.contains_key(*uri)) else { return };
        table.updated.insert(watched.to_owned());
        drop(table);
        self.fresh.notify_one();
    }

    /// Takes up to `most` changed URIs; notifies `fresh` again if more are left.
    pub fn take_updated(&self, most: usize) -> Vec<String> {
        let mut table = self.table.lock();
        let taken: Vec<String> = std::iter::from_fn(|| table.updated.pop_first()).take(most).collect();
        let more = !table.updated.is_empty();
        drop(table);
        if more {
            self.fresh.notify_one();
        }
        taken
    }

    /// Whether the URI is watched.
    pub(crate) fn has(&self, uri: &str) -> bool {
        self.table.lock().entries.contains_key(uri)
    }

    /// Receives the version counter, which changes with every subscription and its state.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.versions.subscribe()
    }

    fn bump_version(&self) {
        self.versions.send_modify(|versions| *versions = versions.wrapping_add(1));
    }
}

/// The URI, then its parents with and without the trailing slash. Servers may report an update of a part of a watched
/// resource.
fn above(uri: &str) -> impl Iterator<Item = &str> {
    let slashes = uri.rmatch_indices('/').take(MAX_PARENT_DEPTH);
    let parents = slashes.flat_map(move |(at, _)| [uri.get(..=at), uri.get(..at)]);
    std::iter::once(uri).chain(parents.flatten())
}

/// Keeps a resource watched by one client while it exists.
#[derive(Debug)]
pub struct Watching {
    list: Arc<Watchlist>,
    uri: String,
}

impl Watching {
    /// Waits for the server's reply to the subscription.
    pub async fn settled(&self) -> Result<(), LinkError> {
        let mut versions = self.list.versions();
        loop {
            match self.list.table.lock().entries.get(&self.uri).map(|entry| entry.state.clone()) {
                Some(SubscriptionState::Active) => return Ok(()),
                Some(SubscriptionState::Refused(error)) => return Err(error),
                Some(SubscriptionState::Pending) | None => {}
            }
            if versions.changed().await.is_err() {
                return Err(LinkError::Protocol("the subscription was dropped".to_owned()));
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut table = self.list.table.lock();
        let last = table.entries.get_mut(&self.uri).is_some_and(|entry| {
            entry.clients -= 1;
            entry.clients == 0
        });
        if last {
            table.entries.remove(&self.uri);
            table.bytes = table.bytes.saturating_sub(self.uri.len());
            table.updated.remove(&self.uri);
        }
        drop(table);
        self.list.bump_version();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(uris: &[&str]) -> (Arc<Watchlist>, Vec<Watching>) {
        let list = Arc::new(Watchlist::default());
        let watching = uris.iter().map(|uri| list.add(uri).unwrap()).collect();
        (list, watching)
    }

    fn check(watched: &[&str], told: &str, expected: &[&str]) {
        let (list, _watching) = list(watched);
        list.mark_updated(told);
        assert_eq!(list.take_updated(10), expected, "{watched:?} {told}");
    }

    #[test]
    fn updates_of_unwatched_resources_are_dropped() {
        check(&["a://x"], "a://x", &["a://x"]);
        check(&["a://x"], "a://y", &[]);
        check(&["a://x"], "a://xy", &[]);
        check(&["a://x"], "", &[]);
        check(&[], "a://x", &[]);
    }

    #[test]
    fn a_part_of_what_is_watched_counts_as_it() {
        check(&["file:///a"], "file:///a/b/c", &["file:///a"]);
        check(&["file:///a/"], "file:///a/b", &["file:///a/"]);
        check(&["a://x/y"], "a://x", &[]);
        check(&["a://x"], &format!("a://x{}", "/é".repeat(MAX_PARENT_DEPTH)), &["a://x"]);
        check(&["a://x"], &format!("a://x{}", "/".repeat(100_000)), &[]);
    }

    #[test]
    fn repeated_updates_are_merged_and_taken_a_few_at_a_time() {
        let uris: Vec<String> = (0..100).map(|n| format!("a://{n:03}")).collect();
        let (list, _watching) = list(&uris.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..1000 {
            uris.iter().for_each(|uri| list.mark_updated(uri));
        }
        assert_eq!(list.take_updated(64), uris[..64]);
        assert_eq!(list.take_updated(64), uris[64..]);
        assert_eq!(list.take_updated(64), Vec::<String>::new());
    }

    #[test]
    fn a_resource_is_wanted_until_its_last_client_is_gone() {
        let (list, mut watching) = list(&["a://x", "a://x", "a://y"]);
        drop(watching.remove(0));
        assert_eq!(list.wanted().len(), 2);
        list.mark_updated("a://x");
        drop(watching.remove(0));
        assert_eq!(list.wanted(), BTreeSet::from(["a://y".to_owned()]));
        assert_eq!(list.take_updated(10), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_refused_resource_is_subscribed_to_again_for_the_next_client() {
        let (list, watching) = list(&["a://x"]);
        assert!(list.refuse_pending(&LinkError::SessionExpired));
        assert_eq!(watching[0].settled().await, Err(LinkError::SessionExpired));
        assert!(list.wanted().is_empty() && !list.refuse_pending(&LinkError::SessionExpired));
        let again = list.add("a://x").unwrap();
        list.settle("a://x", Ok(()));
        assert_eq!(again.settled().await, Ok(()));
    }

    #[test]
    fn watched_resources_are_bounded() {
        let list = Arc::new(Watchlist::default());
        let watching: Vec<_> = (0..MAX_RESOURCES).map(|n| list.add(&format!("a://{n}")).unwrap()).collect();
        assert_eq!(list.add("a://more").map(drop), Err(TooMany));
        assert!(list.add("a://1").is_ok());
        drop(watching);
        let half = |n: usize| format!("{n}{}", "x".repeat(MAX_URI_BYTES / 2 - 1));
        let _halves = [0, 1].map(|n| list.add(&half(n)).unwrap());
        assert_eq!(list.add(&half(2)).map(drop), Err(TooMany));
    }
}
