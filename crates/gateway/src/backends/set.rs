//! All backends of one configuration.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use tokio::sync::broadcast;
use tokio::task::JoinSet;

use super::backend::Backend;
use super::spec::BackendSpec;
use super::state::BackendEvent;
use super::watchlist::Watchlist;

/// News that a slow listener may fall behind by.
const EVENTS: usize = 1024;

/// All backends of one configuration, by name.
#[derive(Debug)]
pub struct Backends {
    by_name: RwLock<BTreeMap<String, Backend>>,
    events: broadcast::Sender<BackendEvent>,
    /// What clients watch, by backend: another backend of that name goes on with it.
    watchlists: Mutex<HashMap<String, Weak<Watchlist>>>,
    /// Configurations are brought in one after the other.
    replacing: tokio::sync::Mutex<()>,
}

/// What a new configuration changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Run now and did not before, or not like this.
    pub started: Vec<String>,
    /// Ran before and do not now, or not like this.
    pub stopped: Vec<String>,
    /// Run on untouched.
    pub kept: Vec<String>,
}

impl Backends {
    /// Starts them all at once, in the background. Of two with one name the later one counts.
    pub fn start_all(specs: impl IntoIterator<Item = BackendSpec>) -> Self {
        let backends = Self {
            by_name: RwLock::default(),
            events: broadcast::channel(EVENTS).0,
            watchlists: Mutex::default(),
            replacing: Default::default(),
        };
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
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Backend> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Adds one, or replaces the one of its name.
    pub fn start(&self, spec: BackendSpec) -> Backend {
        let name = spec.name.clone();
        let backend = Backend::start_watched(spec, self.events.clone(), self.watchlist(&name));
        self.by_name.write().unwrap_or_else(PoisonError::into_inner).insert(name, backend.clone());
        backend
    }

    fn watchlist(&self, name: &str) -> Arc<Watchlist> {
        let mut lists = self.watchlists.lock().unwrap_or_else(PoisonError::into_inner);
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
        let removed = self.by_name.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        match removed {
            Some(backend) => {
                backend.shut_down().await;
                true
            }
            None => false,
        }
    }

    /// Brings what runs in line with a new configuration: only what changed is ended or started.
    pub async fn replace(&self, specs: Vec<BackendSpec>) -> Changes {
        let _turn = self.replacing.lock().await;
        let wanted: BTreeMap<String, BackendSpec> = specs.into_iter().map(|spec| (spec.name.clone(), spec)).collect();
        let mut changes = Changes::default();
        let stays = |backend: &Backend| {
            wanted.get(backend.name()).is_some_and(|spec| spec.needs_no_restart_from(backend.spec()))
        };
        let (kept, gone): (Vec<_>, Vec<_>) = self.all().into_iter().partition(stays);
        changes.kept = kept.iter().map(|backend| backend.name().to_owned()).collect();
        changes.stopped = gone.iter().map(|backend| backend.name().to_owned()).collect();
        // A server may hold a lock or a port, so the old one goes before the new one comes.
        end(gone).await;
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.retain(|name, _| changes.kept.contains(name));
        drop(by_name);
        for (name, spec) in wanted {
            if !changes.kept.contains(&name) {
                self.start(spec);
                changes.started.push(name);
            }
        }
        changes
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
