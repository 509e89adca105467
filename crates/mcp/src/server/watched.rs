//! The resources that one client wants to hear of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol::ErrorCode;

use super::message::{RpcError, error};
use super::service::{Change, News, Watch};

/// Resources one client may watch.
pub(super) const MOST: usize = 1024;

/// What is watched, by URI.
#[derive(Debug, Default)]
pub(super) struct Watched(Mutex<HashMap<String, Watch>>);

impl Watched {
    /// Whether one more may be watched.
    pub(super) fn check_room(&self, uri: &str) -> Result<(), RpcError> {
        let watched = self.lock();
        if watched.len() >= MOST && !watched.contains_key(uri) {
            return Err(error(ErrorCode::INVALID_REQUEST, format!("more than {MOST} resources watched")));
        }
        Ok(())
    }

    /// Begins to watch a resource.
    pub(super) fn begin(&self, uri: &str, watch: Watch) -> Result<(), RpcError> {
        self.check_room(uri)?;
        let former = self.lock().insert(uri.to_owned(), watch);
        drop(former);
        Ok(())
    }

    pub(super) fn end(&self, uri: &str) {
        let ended = self.lock().remove(uri);
        drop(ended);
    }

    pub(super) fn end_all(&self) {
        let ended = std::mem::take(&mut *self.lock());
        drop(ended);
    }

    /// Whether this resource of this backend is watched: another backend's of the same URI is another one.
    pub(super) fn covers(&self, uri: &str, backend: Option<&Arc<str>>) -> bool {
        self.lock().get(uri).is_some_and(|watch| watch.backend() == backend)
    }

    /// What is watched, in a stable order.
    pub(super) fn uris(&self) -> Vec<String> {
        let mut uris: Vec<String> = self.lock().keys().cloned().collect();
        uris.sort();
        uris
    }

    /// Everything watched as if it had changed.
    pub(super) fn as_news(&self) -> Vec<News> {
        let backend_of = |uri: &str| self.lock().get(uri).and_then(|watch| watch.backend().cloned());
        let news = |uri: String| News { backend: backend_of(&uri), change: Change::Resource(uri) };
        self.uris().into_iter().map(news).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_watched_at_the_backend_whose_it_is() {
        let watched = Watched::default();
        watched.begin("a://x", Watch::of("one", ())).unwrap();
        watched.begin("a://y", Watch::own()).unwrap();
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        assert!(watched.covers("a://x", Some(&one)) && watched.covers("a://y", None));
        assert!(!watched.covers("a://x", Some(&other)) && !watched.covers("a://x", None));
        watched.end("a://x");
        assert!(!watched.covers("a://x", Some(&one)));
    }

    #[test]
    fn a_client_watches_only_so_many_resources() {
        let watched = Watched::default();
        for number in 0..MOST {
            watched.begin(&number.to_string(), Watch::own()).unwrap();
        }
        assert!(watched.begin("more", Watch::own()).is_err() && watched.check_room("more").is_err());
        watched.begin("7", Watch::own()).unwrap();
        watched.end("7");
        watched.begin("more", Watch::own()).unwrap();
    }

    #[test]
    fn what_is_held_for_a_watch_is_let_go_with_it() {
        let held = Arc::new(());
        let watched = Watched::default();
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
