//! The resources whose changes one client subscribed to.
//!
//! Holds the subscriptions; notifications are sent by `change_notices`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::protocol::ErrorCode;
use parking_lot::Mutex;

use super::message::{RpcError, error};
use super::service::{Change, ChangeNotice, Watch};

/// The most resources one client may watch.
pub(super) const MAX_WATCHED: usize = 1024;

/// The watched resources, by URI.
#[derive(Debug, Default)]
pub(super) struct WatchedResources(Mutex<HashMap<String, Watch>>);

impl WatchedResources {
    /// Fails if one more resource would exceed the bound.
    pub(super) fn check_room(&self, uri: &str) -> Result<(), RpcError> {
        let watched = self.0.lock();
        if watched.len() >= MAX_WATCHED && !watched.contains_key(uri) {
            return Err(error(
                ErrorCode::INVALID_REQUEST,
                format!("a client may watch at most {MAX_WATCHED} resources"),
            ));
        }
        Ok(())
    }

    /// Watches a resource; replaces an earlier watch of the same URI.
    pub(super) fn begin(&self, uri: &str, watch: Watch) -> Result<(), RpcError> {
        self.check_room(uri)?;
        let former = self.0.lock().insert(uri.to_owned(), watch);
        drop(former);
        Ok(())
    }

    pub(super) fn end(&self, uri: &str) {
        let ended = self.0.lock().remove(uri);
        drop(ended);
    }

    pub(super) fn end_all(&self) {
        let ended = std::mem::take(&mut *self.0.lock());
        drop(ended);
    }

    /// Whether this resource of this backend is watched. Two backends may have resources of the same URI.
    pub(super) fn covers(&self, uri: &str, backend: Option<&Arc<str>>) -> bool {
        self.0.lock().get(uri).is_some_and(|watch| watch.backend() == backend)
    }

    /// The watched URIs, sorted.
    pub(super) fn uris(&self) -> Vec<String> {
        let mut uris: Vec<String> = self.0.lock().keys().cloned().collect();
        uris.sort();
        uris
    }

    /// One notice for each watched resource, as if it had changed.
    pub(super) fn as_notices(&self) -> Vec<ChangeNotice> {
        let backend_of = |uri: &str| self.0.lock().get(uri).and_then(|watch| watch.backend().cloned());
        let notice = |uri: String| ChangeNotice { backend: backend_of(&uri), change: Change::Resource(uri) };
        self.uris().into_iter().map(notice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_covers_one_uri_of_one_backend() {
        let watched = WatchedResources::default();
        watched.begin("a://x", Watch::of("one", ())).unwrap();
        watched.begin("a://y", Watch::own()).unwrap();
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        assert!(watched.covers("a://x", Some(&one)) && watched.covers("a://y", None));
        assert!(!watched.covers("a://x", Some(&other)) && !watched.covers("a://x", None));
        watched.end("a://x");
        assert!(!watched.covers("a://x", Some(&one)));
    }

    #[test]
    fn watched_resources_are_bounded() {
        let watched = WatchedResources::default();
        for number in 0..MAX_WATCHED {
            watched.begin(&number.to_string(), Watch::own()).unwrap();
        }
        assert!(watched.begin("more", Watch::own()).is_err() && watched.check_room("more").is_err());
        watched.begin("7", Watch::own()).unwrap();
        watched.end("7");
        watched.begin("more", Watch::own()).unwrap();
    }

    #[test]
    fn the_guard_of_a_watch_is_dropped_with_it() {
        let held = Arc::new(());
        let watched = WatchedResources::default();
        for uri in ["a", "b", "c"] {
            watched.begin(uri, Watch::of("one", Arc::clone(&held))).unwrap();
        }
        watched.begin("a", Watch::own()).unwrap();
        watched.end("b");
        assert_eq!(Arc::strong_count(&held), 2);
        watched.end_all();
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
