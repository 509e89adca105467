//! The resources of one backend that somebody wants to hear of.
//!
//! Clients come and go here, and each URI is asked of the backend once, for as long as anybody watches it. The list
//! outlives conversations: a backend that comes back is asked again for everything on it. What a backend says about
//! URIs that nobody watches is dropped, and what it says too often is said once, so that no flood of it piles up.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::rpc::LinkError;

/// More resources of one backend are not watched.
const MOST: usize = 10_000;
/// Nor are more bytes of URIs: all of them go into one request to a modern backend.
const LARGEST: usize = 1 << 20;
/// How far above an updated resource a watched one is looked for.
const DEEPEST: usize = 32;

/// What is watched, and what of it changed.
#[derive(Debug, Default)]
pub struct Watchlist {
    table: Mutex<Table>,
    /// Counts changes of the table, to wake those who look at it.
    turns: watch::Sender<u64>,
    /// Wakes when something watched changed.
    pub fresh: Notify,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<String, Entry>,
    /// The length of all URIs.
    bytes: usize,
    /// Changed and not yet told.
    updated: BTreeSet<String>,
}

#[derive(Debug)]
struct Entry {
    clients: usize,
    standing: SubscriptionState,
}

/// What the backend says to our wish to hear of a resource.
#[derive(Debug, Clone, PartialEq)]
enum SubscriptionState {
    Asked,
    Held,
    Refused(LinkError),
}

/// So many are watched already that one more is not.
#[derive(Debug, PartialEq)]
pub struct TooMany;

impl Watchlist {
    /// Adds a client that wants to hear of this resource.
    pub fn add(self: &Arc<Self>, uri: &str) -> Result<Watching, TooMany> {
        let mut table = self.lock();
        if !table.entries.contains_key(uri) {
            let bytes = table.bytes.saturating_add(uri.len());
            if table.entries.len() >= MOST || bytes > LARGEST {
                return Err(TooMany);
            }
            table.bytes = bytes;
        }
        let entry =
            table.entries.entry(uri.to_owned()).or_insert(Entry { clients: 0, standing: SubscriptionState::Asked });
        entry.clients += 1;
        if matches!(entry.standing, SubscriptionState::Refused(_)) {
            entry.standing = SubscriptionState::Asked;
        }
        drop(table);
        self.turn();
        Ok(Watching { list: Arc::clone(self), uri: uri.to_owned() })
    }

    /// What the backend should tell of, without what it refused to.
    pub fn wanted(&self) -> BTreeSet<String> {
        let table = self.lock();
        let wanted = table.entries.iter().filter(|(_, entry)| !matches!(entry.standing, SubscriptionState::Refused(_)));
        wanted.map(|(uri, _)| uri.clone()).collect()
    }

    /// The backend's answer for one resource.
    pub fn settle(&self, uri: &str, outcome: Result<(), LinkError>) {
        if let Some(entry) = self.lock().entries.get_mut(uri) {
            entry.standing = outcome.map_or_else(SubscriptionState::Refused, |()| SubscriptionState::Held);
        }
        self.turn();
    }

    /// Refuses what was not answered yet; false if there was nothing.
    pub fn refuse_asked(&self, error: &LinkError) -> bool {
        let mut table = self.lock();
        let asked = table.entries.values_mut().filter(|entry| entry.standing == SubscriptionState::Asked);
        let refused = asked.map(|entry| entry.standing = SubscriptionState::Refused(error.clone())).count();
        drop(table);
        self.turn();
        refused > 0
    }

    /// A new conversation: what was refused in the last one may be granted, and anything may have changed since.
    pub fn renew(&self) {
        let mut table = self.lock();
        for entry in table.entries.values_mut().filter(|entry| matches!(entry.standing, SubscriptionState::Refused(_)))
        {
            entry.standing = SubscriptionState::Asked;
        }
        drop(table);
        self.turn();
        self.mark_all_stale();
    }

    /// Everything watched may have changed unheard.
    pub fn mark_all_stale(&self) {
        let mut table = self.lock();
        table.updated = table.entries.keys().cloned().collect();
        let some = !table.updated.is_empty();
        drop(table);
        if some {
            self.fresh.notify_one();
        }
    }

    /// The backend says that a resource changed: a watched one, or one below a watched one.
    pub fn note(&self, uri: &str) {
        let mut table = self.lock();
        let Some(watched) = above(uri).find(|uri| table.entries.contains_key(*uri)) else { return };
        table.updated.insert(watched.to_owned());
        drop(table);
        self.fresh.notify_one();
    }

    /// Up to so many that changed, to be told now. The others come next.
    pub fn take_updated(&self, most: usize) -> Vec<String> {
        let mut table = self.lock();
        let taken: Vec<String> = std::iter::from_fn(|| table.updated.pop_first()).take(most).collect();
        let more = !table.updated.is_empty();
        drop(table);
        if more {
            self.fresh.notify_one();
        }
        taken
    }

    /// Whether this is watched.
    pub fn has(&self, uri: &str) -> bool {
        self.lock().entries.contains_key(uri)
    }

    /// Wakes with every change of what is wanted or how it stands.
    pub fn turns(&self) -> watch::Receiver<u64> {
        self.turns.subscribe()
    }

    fn turn(&self) {
        self.turns.send_modify(|turns| *turns = turns.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The URI itself, then what it is below of, with and without the last slash. Backends may tell of a part of what is
/// watched.
fn above(uri: &str) -> impl Iterator<Item = &str> {
    let slashes = uri.rmatch_indices('/').take(DEEPEST);
    let parents = slashes.flat_map(move |(at, _)| [uri.get(..=at), uri.get(..at)]);
    std::iter::once(uri).chain(parents.flatten())
}

/// One client's wish to hear of a resource, for as long as this lives.
#[derive(Debug)]
pub struct Watching {
    list: Arc<Watchlist>,
    uri: String,
}

impl Watching {
    /// Waits for the backend's answer.
    pub async fn settled(&self) -> Result<(), LinkError> {
        let mut turns = self.list.turns();
        loop {
            match self.list.lock().entries.get(&self.uri).map(|entry| entry.standing.clone()) {
                Some(SubscriptionState::Held) => return Ok(()),
                Some(SubscriptionState::Refused(error)) => return Err(error),
                Some(SubscriptionState::Asked) | None => {}
            }
            if turns.changed().await.is_err() {
                return Err(LinkError::Protocol("nobody asks it any more".to_owned()));
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut table = self.list.lock();
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
        self.list.turn();
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
        list.note(told);
        assert_eq!(list.take_updated(10), expected, "{watched:?} {told}");
    }

    #[test]
    fn what_nobody_watches_is_dropped() {
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
        check(&["a://x"], &format!("a://x{}", "/é".repeat(DEEPEST)), &["a://x"]);
        check(&["a://x"], &format!("a://x{}", "/".repeat(100_000)), &[]);
    }

    #[test]
    fn a_flood_is_told_once_for_each_resource_and_a_few_at_a_time() {
        let uris: Vec<String> = (0..100).map(|n| format!("a://{n:03}")).collect();
        let (list, _watching) = list(&uris.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..1000 {
            uris.iter().for_each(|uri| list.note(uri));
        }
        assert_eq!(list.take_updated(64), uris[..64]);
        assert_eq!(list.take_updated(64), uris[64..]);
        assert_eq!(list.take_updated(64), Vec::<String>::new());
    }

    #[test]
    fn a_resource_is_wanted_until_its_last_client_left() {
        let (list, mut watching) = list(&["a://x", "a://x", "a://y"]);
        drop(watching.remove(0));
        assert_eq!(list.wanted().len(), 2);
        list.note("a://x");
        drop(watching.remove(0));
        assert_eq!(list.wanted(), BTreeSet::from(["a://y".to_owned()]));
        assert_eq!(list.take_updated(10), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_refusal_is_told_and_asked_about_again_by_the_next_one() {
        let (list, watching) = list(&["a://x"]);
        assert!(list.refuse_asked(&LinkError::SessionExpired));
        assert_eq!(watching[0].settled().await, Err(LinkError::SessionExpired));
        assert!(list.wanted().is_empty() && !list.refuse_asked(&LinkError::SessionExpired));
        let again = list.add("a://x").unwrap();
        list.settle("a://x", Ok(()));
        assert_eq!(again.settled().await, Ok(()));
    }

    #[test]
    fn there_is_room_for_so_many() {
        let list = Arc::new(Watchlist::default());
        let watching: Vec<_> = (0..MOST).map(|n| list.add(&format!("a://{n}")).unwrap()).collect();
        assert_eq!(list.add("a://more").map(drop), Err(TooMany));
        assert!(list.add("a://1").is_ok());
        drop(watching);
        let half = |n: usize| format!("{n}{}", "x".repeat(LARGEST / 2 - 1));
        let _halves = [0, 1].map(|n| list.add(&half(n)).unwrap());
        assert_eq!(list.add(&half(2)).map(drop), Err(TooMany));
    }
}
