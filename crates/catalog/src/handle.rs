//! Publishes the current catalog snapshot.

use tokio::sync::watch;

use super::Catalog;

/// Holds the current snapshot. Readers clone it, writers replace it; it is never changed in place.
#[derive(Debug)]
pub struct CatalogHandle {
    current: watch::Sender<Catalog>,
}

impl CatalogHandle {
    /// Starts with `catalog`.
    pub fn new(catalog: Catalog) -> Self {
        Self { current: watch::Sender::new(catalog) }
    }

    /// The current snapshot.
    pub fn load(&self) -> Catalog {
        self.current.borrow().clone()
    }

    /// Replaces the current snapshot.
    pub fn replace(&self, catalog: Catalog) {
        self.current.send_replace(catalog);
    }

    /// Derives the next snapshot from the current one, atomically: concurrent updates are applied one after the other.
    pub fn update(&self, next: impl FnOnce(&Catalog) -> Catalog) {
        self.current.send_modify(|current| *current = next(current));
    }

    /// Receives every later snapshot.
    pub fn subscribe(&self) -> watch::Receiver<Catalog> {
        self.current.subscribe()
    }
}

impl Default for CatalogHandle {
    fn default() -> Self {
        Self::new(Catalog::default())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BackendState, Listing};
    use super::*;

    fn listing(name: &str) -> Listing {
        Listing { name: name.into(), state: BackendState::Starting, tools: Vec::new(), tags: Vec::new() }
    }

    #[test]
    fn a_held_snapshot_does_not_change() {
        let handle = CatalogHandle::default();
        let before = handle.load();
        handle.update(|catalog| catalog.with(listing("exa")));
        assert!(before.backend("exa").is_none());
        assert!(handle.load().backend("exa").is_some());
    }

    #[test]
    fn updates_from_many_threads_all_count() {
        let handle = CatalogHandle::default();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let handle = &handle;
                scope.spawn(move || handle.update(|catalog| catalog.with(listing(&format!("b{n}")))));
            }
        });
        assert_eq!(handle.load().backends().len(), 8);
    }

    #[test]
    fn subscribers_learn_of_a_change() {
        let handle = CatalogHandle::default();
        let seen = handle.subscribe();
        handle.replace(Catalog::new(vec![listing("exa")]));
        assert!(seen.has_changed().unwrap());
    }
}
