//! The tools of the last time, kept in one file for each configuration file.
//!
//! The file is read when the gateway starts and written when a backend shows other tools than it holds; between
//! the two nothing of it stays in memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::Gateway;
use super::backend_records::BackendSource;
use super::spec::fingerprint;
use toolgate_backends::{Backend, BackendState};
use toolgate_catalog::cache::{CachedBackend, CachedEra, SaveError, ToolCache};
use toolgate_catalog::{Catalog, Listing, Tool};
use toolgate_config::Checked;
use toolgate_mcp::client::Ready;
use toolgate_mcp::protocol;

/// Where the tools of one configuration are kept, and what of them is newer than the file.
pub(super) struct CacheFile {
    path: PathBuf,
    stale: Mutex<BTreeSet<String>>,
    /// Two writers of one process would undo each other's work.
    writing: tokio::sync::Mutex<()>,
}

impl CacheFile {
    /// The file of this configuration; none if the cache is off.
    pub(super) fn of(config: &Checked) -> Option<Self> {
        let folder = config.settings.cache.as_deref()?;
        Some(CacheFile {
            path: folder.join(file_name(&config.file)),
            stale: Mutex::default(),
            writing: Default::default(),
        })
    }

    pub(super) fn load(&self) -> ToolCache {
        ToolCache::load(&self.path)
    }

    fn take_stale(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.stale.lock())
    }
}

/// Puts tools into the cache of a configuration as if its backend had listed them: for measurements and tests of a
/// start whose servers are not up.
pub fn prefill_cache(config: &Checked, backend: &str, tools: Vec<Value>) -> Result<(), SaveError> {
    let (Some(file), Some(configured)) = (CacheFile::of(config), config.backends.get(backend)) else { return Ok(()) };
    let fingerprint = fingerprint(backend, &configured.transport, &config.settings);
    let mut cache = file.load();
    let tools = tools.into_iter().filter_map(Tool::from_raw).collect();
    cache.put(
        backend,
        CachedBackend { fingerprint, era: CachedEra::Unknown, server: Value::Null, tools, changed: Vec::new() },
    );
    cache.save(&file.path)
}

/// The tools of a backend as the cache of a configuration has them, as a catalog of their own; empty where it has none. Starts no
/// server.
pub fn cached_catalog(config: &Checked, backend: &str) -> Catalog {
    let cached = || {
        let (file, configured) = (CacheFile::of(config)?, config.backends.get(backend)?);
        let fingerprint = fingerprint(backend, &configured.transport, &config.settings);
        Some(file.load().get(backend, &fingerprint)?.tools.clone())
    };
    let tools = cached().unwrap_or_default();
    let (name, state, tags) = (backend.to_owned(), toolgate_catalog::BackendState::Starting, Vec::new());
    Catalog::new(vec![Listing { name, state, tools, tags }])
}

/// Two configurations may give one name to different servers, so each has a file of its own.
pub(super) fn file_name(config: &Path) -> String {
    let hash = digest(&SHA256, config.to_string_lossy().as_bytes());
    let short: String = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("tools-{short}.json")
}

impl Gateway {
    /// Notes that a backend's tools may differ from the file's, and writes them soon.
    pub(super) fn remember(self: &Arc<Self>, backend: &str) {
        let Some(cache) = self.cache_file() else { return };
        if self.origin(backend) != Some(BackendSource::Configured) {
            return;
        }
        let first = {
            let mut stale = cache.stale.lock();
            let first = stale.is_empty();
            stale.insert(backend.to_owned());
            first
        };
        // One writer takes all that came until it begins.
        if first {
            let gateway = Arc::clone(self);
            tokio::spawn(async move { gateway.flush_cache().await });
        }
    }

    /// Writes what is newer than the file.
    pub(super) async fn flush_cache(&self) {
        let Some(cache) = self.cache_file() else { return };
        let _turn = cache.writing.lock().await;
        let stale = cache.take_stale();
        if stale.is_empty() {
            return;
        }
        let fresh: Vec<(String, CachedBackend)> = stale.into_iter().filter_map(|name| self.snapshot_of(name)).collect();
        let configured: BTreeSet<String> = self.config().backends.keys().map(ToString::to_string).collect();
        let path = cache.path.clone();
        let written = tokio::task::spawn_blocking(move || write(&path, fresh, &configured)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "the next start will be without these tools");
        }
    }

    fn cache_file(&self) -> Option<Arc<CacheFile>> {
        self.cache.read().clone()
    }

    /// What is worth keeping of a backend that is up.
    fn snapshot_of(&self, name: String) -> Option<(String, CachedBackend)> {
        let fingerprint = self.records().get(&name)?.fingerprint.clone();
        let backend: Backend = self.backend(&name)?;
        let BackendState::Ready(ready) = backend.state() else { return None };
        let tools = backend.tools().to_vec();
        let changed = backend.changed_tools();
        let cached = CachedBackend { fingerprint, era: era(&ready), server: server(&ready), tools, changed };
        Some((name, cached))
    }
}

fn write(path: &Path, fresh: Vec<(String, CachedBackend)>, configured: &BTreeSet<String>) -> Result<(), SaveError> {
    let mut cache = ToolCache::load(path);
    cache.retain(|name, _| configured.contains(name));
    let changed = fresh.into_iter().fold(false, |changed, (name, cached)| cache.put(&name, cached) || changed);
    if changed { cache.save(path) } else { Ok(()) }
}

fn era(ready: &Ready) -> CachedEra {
    match ready.era {
        protocol::Era::Legacy => CachedEra::Legacy,
        protocol::Era::Modern => CachedEra::Modern,
    }
}

fn server(ready: &Ready) -> Value {
    json!({ "name": ready.server.name, "version": ready.server.version })
}

/// The era to try first.
pub(super) fn hint(cached: &CachedBackend) -> Option<protocol::Era> {
    match cached.era {
        CachedEra::Legacy => Some(protocol::Era::Legacy),
        CachedEra::Modern => Some(protocol::Era::Modern),
        CachedEra::Unknown => None,
    }
}
