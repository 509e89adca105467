//! Keeps catalog, cache and listeners in step with the backends.
//!
//! Events only say where to look: what is shown is always read from the backend itself, so events that were lost or
//! came late cannot leave the catalog wrong.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;

use super::Gateway;
use super::backend_records::{BackendRecord, BackendSource};
use super::cache::hint;
use super::spec::{fingerprint, key_names, secrets_in, spec};
use super::wait_until_ready::WaitUntilReady;
use toolgate_backends::{
    Backend, BackendChange, BackendEvent, BackendSpec, BackendState, KnownTools, StartTime, log_not_started,
};
use toolgate_catalog::cache::{CachedBackend, ToolCache};
use toolgate_catalog::{self, Catalog, Listing, Tool};
use toolgate_config::checked;
use toolgate_config::values::Start;
use toolgate_mcp::client::{ListKind, ToolChange};
use toolgate_mcp::protocol::Era;
use toolgate_mcp::server::Change;
use toolgate_wire::foreign_text::one_line;

/// Delay before the search index is built: at a start, many backends list their tools within moments.
const SEARCH_PREPARATION_DELAY: Duration = Duration::from_millis(300);

/// Tools of one list that are told of as changed.
const MAX_TOLD_TOOLS: usize = 100;
/// Most characters of a tool's name that are told.
const MAX_TOLD_NAME: usize = 300;

/// A tool that says something else than it did under the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolChangeNotice {
    /// The backend.
    pub backend: String,
    /// The tool, as it can be shown.
    pub tool: String,
    /// What of it changed, such as `description`.
    pub parts: Vec<&'static str>,
}

/// Follows the events of all backends until the gateway ends.
pub(super) async fn follow_events(
    gateway: Weak<Gateway>,
    mut events: broadcast::Receiver<BackendEvent>,
    stop: CancellationToken,
) {
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = events.recv() => event,
        };
        let Some(gateway) = gateway.upgrade() else { return };
        match event {
            Ok(BackendEvent { backend, change }) => match change {
                BackendChange::Lists(ListKind::Prompts) => gateway.notify_for(&backend, Change::Prompts),
                BackendChange::Lists(ListKind::Resources | ListKind::Templates) => {
                    gateway.notify_for(&backend, Change::Resources)
                }
                BackendChange::Updated(uri) => gateway.notify_for(&backend, Change::Resource(uri)),
                BackendChange::ToolsChanged(changes) => gateway.tell_changed_tools(&backend, &changes),
                BackendChange::State(state) => {
                    if is_down(&state) {
                        gateway.renew_commanded(&backend);
                    }
                    gateway.follow(&backend);
                }
                BackendChange::Unauthorized => gateway.renew_commanded(&backend),
                BackendChange::Tools(_) => gateway.follow(&backend),
            },
            Err(RecvError::Lagged(_)) => gateway.backends().iter().for_each(|backend| gateway.resync(backend)),
            Err(RecvError::Closed) => return,
        }
    }
}

/// Whether a server needs another start, for which its values may have to be others. One that asks for a login may have
/// refused a header that a command printed.
fn is_down(state: &BackendState) -> bool {
    matches!(state, BackendState::Restarting { .. } | BackendState::Failed { .. } | BackendState::NeedsLogin { .. })
}

impl Gateway {
    /// Shows what the cache knows and starts every configured backend, at once or when it is needed.
    pub(super) fn open(&self) {
        let config = self.config();
        let cache = self.load_cache();
        let mut listings = Vec::new();
        let mut known = Vec::new();
        for (name, backend) in &config.backends {
            let record = record_of(name.as_str(), backend, BackendSource::Configured, &config.settings);
            let cached = cache.get(name.as_str(), &record.fingerprint);
            listings.push(first_listing(name.as_str(), &record, cached.map(|cached| cached.tools.clone())));
            known.push(KnownServer::of(cached));
            self.records().insert(name.to_string(), record);
        }
        listings.extend(config.disabled.iter().map(|name| disabled(name.as_str())));
        listings.extend(config.incomplete.iter().map(|(name, server)| incomplete(name.as_str(), server)));
        self.bridge().catalog_handle().replace(Catalog::new(listings));
        for ((name, backend), known) in config.backends.iter().zip(known) {
            self.start_backend(name.as_str(), backend, known);
        }
    }

    /// Has the commands run again whose output a server was started with that is lost, does not come up or refuses its
    /// credentials: a token may have expired. Where they print something else, the changed configuration starts the server
    /// anew. Other servers keep their values.
    fn renew_commanded(&self, name: &str) {
        if self.config().commanded.contains(name) {
            self.read_again.ask(name);
        }
    }

    /// Adds one backend to those that run: shown first, then started, so that no event finds it unknown.
    pub(super) fn add_backend(&self, name: &str, backend: &checked::BackendConfig, origin: BackendSource) -> Backend {
        let record = record_of(name, backend, origin, &self.config().settings);
        let cache = self.load_cache();
        let cached = cache.get(name, &record.fingerprint).filter(|_| origin == BackendSource::Configured);
        let listing = first_listing(name, &record, cached.map(|cached| cached.tools.clone()));
        self.records().insert(name.to_owned(), record);
        self.bridge().note_added(name, origin == BackendSource::Registered);
        self.bridge().catalog_handle().update(|catalog| catalog.with(listing));
        self.start_backend(name, backend, KnownServer::of(cached))
    }

    /// Takes one backend away, to the last process.
    pub(super) async fn remove_backend(&self, name: &str) {
        self.bridge().withdraw(name);
        self.records().remove(name);
        self.bridge().catalog_handle().update(|catalog| catalog.without(name));
        self.backends.stop(name).await;
    }

    fn start_backend(&self, name: &str, backend: &checked::BackendConfig, known: KnownServer) -> Backend {
        let config = self.config();
        let start = match backend.policy.start {
            Start::Lazy if !known.tools.tools.is_empty() => StartTime::WhenNeeded,
            Start::Lazy | Start::Eager => StartTime::Now,
        };
        let spec = spec(name, &backend.transport, &backend.policy, &config.settings, known.era);
        let secrets = secrets_in(&backend.transport, &config.secrets);
        let spec = BackendSpec { start, secrets, known: known.tools, ..spec };
        let running = self.backends.start(spec);
        self.provide(name, &running, backend.policy.timeout);
        running
    }

    /// Lets programs call a backend; calls get this long.
    fn provide(&self, name: &str, backend: &Backend, timeout: Duration) {
        let catalog = self.bridge().catalog_handle().subscribe();
        self.bridge().provide(name, Arc::new(WaitUntilReady::new(backend.clone(), timeout, catalog)));
    }

    fn load_cache(&self) -> ToolCache {
        let file = self.cache.read().clone();
        file.map(|file| file.load()).unwrap_or_default()
    }

    /// Gives a running backend another policy.
    pub(super) fn apply_policy(&self, name: &str, policy: &checked::BackendPolicy) {
        let Some(backend) = self.backend(name) else { return };
        backend.resize(policy.max_concurrent_calls);
        if policy.start == Start::Eager {
            backend.start_if_idle();
        }
        self.provide(name, &backend, policy.timeout);
        if let Some(record) = self.records().get_mut(name) {
            record.policy = policy.clone();
            // Whatever was shown was chosen by another policy.
            record.shown = None;
        }
        let known = !backend.tools().is_empty() || backend.state().is_ready();
        let tools: Vec<Tool> = if known { backend.tools().to_vec() } else { self.cached_tools(name) };
        self.show(name, &backend.state(), &tools);
    }

    fn cached_tools(&self, name: &str) -> Vec<Tool> {
        let fingerprint = self.records().get(name).map(|record| record.fingerprint.clone()).unwrap_or_default();
        self.load_cache().get(name, &fingerprint).map(|cached| cached.tools.clone()).unwrap_or_default()
    }

    /// News of a backend were lost: anything may have changed.
    fn resync(self: &Arc<Self>, backend: &Backend) {
        self.follow(backend.name());
        self.notify_for(backend.name(), Change::Resources);
        self.notify_for(backend.name(), Change::Prompts);
        backend.mark_watched_stale();
    }

    /// Tells of tools that say something else than they did. The list itself comes as an event of its own.
    fn tell_changed_tools(&self, backend: &str, changes: &[ToolChange]) {
        self.audit.iter().for_each(|audit| audit.tools_changed(backend, changes));
        for change in changes.iter().take(MAX_TOLD_TOOLS) {
            let parts = change.parts.iter().map(|part| part.name()).collect();
            let tool = one_line(&change.tool, MAX_TOLD_NAME);
            // Without a listener there is nothing to tell.
            let _ = self.changed_tools.send(ToolChangeNotice { backend: backend.to_owned(), tool, parts });
        }
        self.backend_changed(backend);
    }

    /// Brings the catalog in line with one backend.
    fn follow(self: &Arc<Self>, name: &str) {
        let Some(backend) = self.backend(name) else { return };
        let (state, tools) = (backend.state(), backend.tools());
        let known = state.is_ready() || !tools.is_empty();
        let fresh = match self.records().get_mut(name) {
            None => return,
            Some(record) if known => {
                let same = record.shown.as_ref().is_some_and(|shown| Arc::ptr_eq(shown, &tools));
                record.shown = Some(Arc::clone(&tools));
                !same
            }
            Some(_) => false,
        };
        if fresh {
            self.show(name, &state, &tools);
        } else {
            self.show_state(name, &state);
        }
        if state.is_ready() && fresh {
            self.remember(name);
            self.prepare_search();
        }
    }

    /// Builds the search index in the background once lists have stopped coming for a moment, so that no search waits for it.
    fn prepare_search(self: &Arc<Self>) {
        if self.search_preparation.swap(true, Ordering::AcqRel) {
            return;
        }
        let gateway = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(SEARCH_PREPARATION_DELAY).await;
            let Some(gateway) = gateway.upgrade() else { return };
            gateway.search_preparation.store(false, Ordering::Release);
            let catalog = gateway.catalog();
            let _ = tokio::task::spawn_blocking(move || catalog.prepare_search()).await;
        });
    }

    /// Shows a backend with a choice of these tools; where the choice is what is shown already, only its state changes.
    fn show(&self, name: &str, state: &BackendState, tools: &[Tool]) {
        let Some((chosen, tags)) =
            self.records().get(name).map(|record| (record.permitted_tools(tools), record.policy.tags.clone()))
        else {
            return;
        };
        let catalog = self.catalog();
        let before = catalog.backend(name).filter(|before| before.name() == name);
        if before.is_some_and(|before| before.tags() == tags && same_tools(before, &chosen)) {
            return self.show_state(name, state);
        }
        let listing =
            Listing { name: name.to_owned(), state: state.in_catalog(!chosen.is_empty()), tools: chosen, tags };
        self.bridge().catalog_handle().update(|catalog| catalog.with(listing));
        self.tools_changed();
        self.backend_changed(name);
    }

    fn show_state(&self, name: &str, state: &BackendState) {
        let catalog = self.catalog();
        let Some(before) = catalog.backend(name).filter(|before| before.name() == name) else { return };
        let state = state.in_catalog(!before.tools().is_empty());
        if *before.state() != state {
            self.bridge().catalog_handle().update(|catalog| catalog.with_state(name, state));
            self.backend_changed(name);
        }
    }

    pub(super) fn tools_changed(&self) {
        self.edition.fetch_add(1, Ordering::AcqRel);
        self.notify(Change::Tools);
        self.notify(Change::Resource("toolgate://tools".to_owned()));
    }

    pub(super) fn backend_changed(&self, name: &str) {
        self.notify(Change::Resource("toolgate://backends".to_owned()));
        self.notify(Change::Resource(format!("toolgate://backend/{name}")));
    }
}

/// What the cache knows of a server.
struct KnownServer {
    era: Option<Era>,
    tools: KnownTools,
}

impl KnownServer {
    fn of(cached: Option<&CachedBackend>) -> Self {
        let tools = cached.map(|cached| KnownTools { tools: cached.tools.clone(), changed: cached.changed.clone() });
        KnownServer { era: cached.and_then(hint), tools: tools.unwrap_or_default() }
    }
}

fn record_of(
    name: &str,
    backend: &checked::BackendConfig,
    origin: BackendSource,
    settings: &checked::Settings,
) -> BackendRecord {
    BackendRecord {
        origin,
        policy: backend.policy.clone(),
        fingerprint: fingerprint(name, &backend.transport, settings),
        keys: key_names(&backend.transport),
        shown: None,
    }
}

fn first_listing(name: &str, record: &BackendRecord, cached: Option<Vec<Tool>>) -> Listing {
    let state = if cached.is_some() {
        toolgate_catalog::BackendState::Cached
    } else {
        toolgate_catalog::BackendState::Starting
    };
    let tools = record.permitted_tools(&cached.unwrap_or_default());
    Listing { name: name.to_owned(), state, tools, tags: record.policy.tags.clone() }
}

/// A server that cannot be started until its configuration changes.
pub(super) fn incomplete(name: &str, server: &checked::Incomplete) -> Listing {
    log_not_started(name, &server.reason());
    let state = toolgate_catalog::BackendState::Failed { reason: server.reason() };
    Listing { name: name.to_owned(), state, tools: Vec::new(), tags: Vec::new() }
}

pub(super) fn disabled(name: &str) -> Listing {
    Listing {
        name: name.to_owned(),
        state: toolgate_catalog::BackendState::Disabled,
        tools: Vec::new(),
        tags: Vec::new(),
    }
}

/// Whether the catalog shows just these tools already. Its list is sorted, and of equal names has the first.
fn same_tools(before: &toolgate_catalog::Backend, chosen: &[Tool]) -> bool {
    let mut names = std::collections::HashSet::new();
    let mut sorted: Vec<&Tool> = chosen.iter().filter(|tool| names.insert(tool.name.as_str())).collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    before.tools().len() == sorted.len() && before.tools().iter().zip(sorted).all(|(old, new)| old.tool() == new)
}
