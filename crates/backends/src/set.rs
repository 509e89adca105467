//! All backends of one configuration.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use super::backend::Backend;
use super::spec::BackendSpec;
use super::state::BackendEvent;
use toolgate_mcp::client::Watchlist;

/// News that a slow listener may fall behind by.
const EVENTS: usize = 1024;

/// All backends of one configuration, by name.
#[derive(Debug)]
pub struct Backends {
    by_name: RwLock<BTreeMap<String, Backend>>,
    events: broadcast::Sender<BackendEvent>,
    /// What clients watch, by backend: another backend of that name goes on with it.
    watchlists: Mutex<HashMap<String, Weak<Watchlist>>>,
}

impl Backends {
    /// Starts them all at once, in the background. Of two with one name the later one counts.
    pub fn start_all(specs: impl IntoIterator<Item = BackendSpec>) -> Self {
        let backends =
            Self { by_name: RwLock::default(), events: broadcast::channel(EVENTS).0, watchlists: Mutex::default() };
        for spec in specs {
            backends.start(spec);
        }
        backends
    }

    /// The news of all of them from now on.
    pub fn events(&self) -> broadcast::Receiver<BackendEvent> {
        self.events.subscribe()
    }

    /// The backend of that name.
    pub fn get(&self, name: &str) -> Option<Backend> {
        self.by_name.read().get(name).cloned()
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Backend> {
        self.by_name.read().values().cloned().collect()
    }

    /// Adds one, or replaces the one of its name.
    pub fn start(&self, spec: BackendSpec) -> Backend {
        let name = spec.name.clone();
        let backend = Backend::start_watched(spec, self.events.clone(), self.watchlist(&name));
        self.by_name.write().insert(name, backend.clone());
        backend
    }

    fn watchlist(&self, name: &str) -> Arc<Watchlist> {
        let mut lists = self.watchlists.lock();
        lists.retain(|_, list| list.strong_count() > 0);
        if let Some(list) = lists.get(name).and_then(Weak::upgrade) {
            return list;
        }
        let list = Arc::default();
        lists.insert(name.to_owned(), Arc::downgrade(&list));
        list
    }

    /// Ends one and forgets it; false if there is none of that name.
    pub async fn stop(&self, name: &str) -> bool {
        let removed = self.by_name.write().remove(name);
        match removed {
            Some(backend) => {
                backend.shut_down().await;
                true
            }
            None => false,
        }
    }

    /// Ends all of them at once, and waits until no process is left.
    pub async fn shut_down(&self) {
        end(self.all()).await;
    }
}

async fn end(backends: Vec<Backend>) {
    let mut ending: JoinSet<()> =
        backends.into_iter().map(|backend| async move { backend.shut_down().await }).collect();
    while ending.join_next().await.is_some() {}
}
