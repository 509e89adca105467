//! The life of a gateway: from a checked configuration to tools that can be called, and back to nothing.
//!
//! Backends start in the background and all at once, but for those whose tools the cache on disk knows: they start when
//! something of them is needed. Until a backend is up, its tools are those of the last time; then the catalog follows the
//! backend. A saved configuration restarts only what changed.
//!
//! # Layout
//! - `settings`: from configured values to what the engine, the output and the stores take
//! - `spec`: from a configured server to a backend's spec and fingerprint
//! - `backend_records`: what is known of each backend beyond its connection
//! - `catalog_sync`: keeps catalog, cache and listeners in step with the backends
//! - `wait_until_ready`: a call to a backend that may not be up yet
//! - `cache`: the tools of the last time
//! - `reload`, `register`: changes while it runs, by the file and by an agent
//! - `learning`: the types of results that tools do not declare
//! - `types`: the type checker that the configuration asks for
//! - `login`: a server as the commands about logins see it
//! - `functions`: host functions, built in and configured
//! - `audit`: the audit log; `telemetry`: spans and durations of runs and calls; `request_spans`: those of MCP
//!   requests
//! - `durable_runs`: the store of runs that outlive their process; `day_counts`: the calls of a day in it; `secret_values`: what is taken out of their cassettes
//!
//! It knows no protocol towards clients: what an agent sees is [`agent`](crate::agent)'s.

mod audit;
mod backend_records;
mod cache;
mod catalog_sync;
mod day_counts;
mod durable_runs;
mod functions;
mod inline;
mod learning;
mod login;
mod register;
mod reload;
mod request_spans;
mod secret_values;
mod settings;
mod spec;
mod telemetry;
mod types;
mod wait_until_ready;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use toolgate_engine::{Engine, HostError};
use toolgate_wire::{CallerScope, LimitRequest, Profile};

use toolgate_backends::{Backend, BackendKind, Backends};
use toolgate_bridge::Bridge;
use toolgate_bridge::approvals::RememberedRules;
use toolgate_catalog::types::learned::LearnedTypes;
use toolgate_catalog::{Catalog, CatalogHandle};
use toolgate_config::checked::{BytesInFlight, FunctionTarget};
use toolgate_config::watch::ReadAgain;
use toolgate_config::{Checked, Problem};
use toolgate_functions::Registry;
use toolgate_journal::durable::Journal;
use toolgate_mcp::server::{Change, ChangeNotice};
use toolgate_output::OutputSettings;
use toolgate_output::results::ResultStore;
use toolgate_run::durable::DurableRuns;
use toolgate_run::{Environment, LearnedResults, OpeningRuns, ProgramTypes, Readiness, Runner, Waiting, permitted};

pub use audit::check_audit;
pub(crate) use backend_records::{BackendSource, KeyKind, KeyName};
pub use cache::{cached_catalog, prefill_cache};
pub use catalog_sync::ToolChangeNotice;
pub use learning::WidenedType;
pub use login::{LoginNeed, LoginTarget, LoginTargetError};
pub(crate) use register::Registration;
pub use secret_values::secret_values;
pub use settings::engine_builder;
pub use types::{find_compiler, program_types};

use audit::AuditListener;
use backend_records::BackendRecords;
use cache::CacheFile;
use functions::GrantedFunctions;
use learning::TypeLearning;
use settings::{configured_limits, output_settings};
use telemetry::TelemetryListener;

/// ChangeNotice that a slow listener may fall behind by.
const MAX_CHANGES_BEHIND: usize = 256;

/// How long calls of durable runs may take to be answered at the end; what is not answered by then is unknown.
const DURABLE_GRACE: Duration = Duration::from_secs(10);

/// A running gateway.
pub struct Gateway {
    config: RwLock<Arc<Checked>>,
    problems: RwLock<Vec<Problem>>,
    backends: Backends,
    records: Mutex<BackendRecords>,
    runner: Runner,
    results: ResultStore,
    functions: RwLock<Arc<GrantedFunctions>>,
    cache: RwLock<Option<Arc<CacheFile>>>,
    /// Runs that outlive their process, once a door keeps them.
    durable: Mutex<Option<DurableRuns>>,
    /// Their store, which also has the calls of a day, once one of both is needed.
    journal: tokio::sync::OnceCell<Journal>,
    changes: broadcast::Sender<ChangeNotice>,
    changed_tools: broadcast::Sender<ToolChangeNotice>,
    /// Grows with every change of any tool, so that what is derived from the catalog knows when it is old.
    edition: AtomicU64,
    /// Learns from results; `None` if its thread could not be started.
    learning: Option<Arc<TypeLearning>>,
    /// Checks the types of programs.
    types: RwLock<Option<Arc<ProgramTypes>>>,
    /// Whether the search index will be built in a moment.
    search_preparation: AtomicBool,
    /// Asks for the configuration to be read again.
    read_again: ReadAgain,
    /// Reloads and registrations come one after the other.
    changing: tokio::sync::Mutex<()>,
    audit: Option<Arc<AuditListener>>,
    telemetry: Option<Arc<TelemetryListener>>,
    stop: CancellationToken,
}

impl Gateway {
    /// Starts all backends of a configuration, in the background, and answers at once from the cache.
    /// Needs a Tokio runtime.
    pub fn start(config: Checked, engine: Engine) -> Arc<Self> {
        // An embedding program may have installed another provider; both work.
        let _ = rustls::crypto::ring::default_provider().install_default();
        settings::bound_process(&config.settings, &BytesInFlight::default());
        let bridge = Arc::new(Bridge::new(CatalogHandle::default()));
        bridge.set_policy(config.settings.policy.clone());
        bridge.set_remembered(RememberedRules::new(config.remembered_rules_file()));
        let learning = TypeLearning::start(&config, bridge.catalog_handle().subscribe()).ok().map(Arc::new);
        if let Some(learning) = &learning {
            bridge.observe_results(Arc::clone(learning) as _);
        }
        let learned = learning.clone().map(|learning| learning as _);
        let functions = Arc::new(GrantedFunctions::new(&config.settings, &bridge, learned));
        let ahead = Arc::clone(&functions);
        tokio::task::spawn_blocking(move || ahead.prepare());
        let cache = CacheFile::of(&config).map(Arc::new);
        let wanted = &config.settings.type_check;
        let types = program_types(&wanted.compiler, wanted.budget_or_default(), &engine).ok();
        let audit = open_audit(&config);
        let telemetry = config.settings.telemetry.as_ref().and_then(TelemetryListener::start).map(Arc::new);
        let gateway = Arc::new_cyclic(|this| Gateway {
            problems: RwLock::default(),
            backends: Backends::start_all([]),
            records: Mutex::default(),
            results: ResultStore::new(settings::result_limits(&config.settings)),
            functions: RwLock::new(functions),
            cache: RwLock::new(cache),
            durable: Mutex::default(),
            journal: tokio::sync::OnceCell::new(),
            changes: broadcast::channel(MAX_CHANGES_BEHIND).0,
            changed_tools: broadcast::channel(MAX_CHANGES_BEHIND).0,
            edition: AtomicU64::new(0),
            learning,
            types: RwLock::new(types),
            search_preparation: AtomicBool::new(false),
            read_again: ReadAgain::default(),
            changing: tokio::sync::Mutex::default(),
            audit,
            telemetry,
            stop: CancellationToken::new(),
            runner: Runner::new(engine, bridge, Arc::new(ConfiguredEnvironment(Weak::clone(this)))),
            config: RwLock::new(Arc::new(config)),
        });
        if gateway.config().settings.runs.store.is_some() {
            gateway.bridge().set_day_counts(Arc::new(day_counts::StoredCounts::of(&gateway)));
        }
        if let Some(audit) = &gateway.audit {
            gateway.runner.history().listen_later(audit.clone());
        }
        if let Some(telemetry) = &gateway.telemetry {
            telemetry.ask(&gateway);
            gateway.runner.history().listen_later(telemetry.clone());
        }
        let events = gateway.backends.events();
        gateway.open();
        tokio::spawn(catalog_sync::follow_events(Arc::downgrade(&gateway), events, gateway.stop.clone()));
        gateway
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<Checked> {
        Arc::clone(&self.config.read())
    }

    /// What is wrong with the configuration file as it is now; empty while it can be used.
    pub fn problems(&self) -> Vec<Problem> {
        self.problems.read().clone()
    }

    /// What tools there are now.
    pub fn catalog(&self) -> Catalog {
        self.bridge().catalog()
    }

    /// A number that grows with every change of any tool. Read it before the catalog.
    pub fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Runs programs.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// The learned types of results that tools do not declare.
    pub fn learned_types(&self) -> Arc<LearnedTypes> {
        self.learning.as_ref().map(|learning| learning.types()).unwrap_or_default()
    }

    /// Changes whenever a learned type changes.
    pub fn learned_version(&self) -> u64 {
        self.learning.as_ref().map_or(0, |learning| learning.version())
    }

    /// Whether a result of this tool did not fit the schema that it declares.
    pub fn breaks_its_schema(&self, backend: &str, tool: &str) -> bool {
        self.learning.as_ref().is_some_and(|learning| learning.breaks_its_schema(backend, tool))
    }

    /// Hears of learned types that become wider from now on; `None` if nothing is learned.
    pub fn widened_types(&self) -> Option<broadcast::Receiver<WidenedType>> {
        self.learning.as_ref().map(|learning| learning.widened())
    }

    /// Takes in what another gateway learned.
    pub fn merge_learned_types(&self, types: LearnedTypes) {
        if let Some(learning) = &self.learning {
            learning.merge(types);
        }
    }

    /// Writes what was learned to its file and its database, and takes over what others wrote there.
    pub fn save_learned_types(&self) {
        if let Some(learning) = &self.learning {
            learning.save();
        }
    }

    /// Starts the type checker, if there is one, so that the first run does not wait for it.
    pub fn prepare_types(&self) {
        if let Some(types) = &*self.types.read() {
            types.checker().warm();
        }
    }

    /// The one way to a tool.
    pub fn bridge(&self) -> &Arc<Bridge> {
        self.runner.bridge()
    }

    /// The host functions that a caller may use: those that its scope names, without those that reach a backend which
    /// it may not use.
    pub fn functions(&self, caller: &CallerScope) -> Registry {
        let granted = Arc::clone(&self.functions.read());
        permitted(&granted.for_caller(caller), caller)
    }

    /// The connections, by name.
    pub fn backends(&self) -> Vec<Backend> {
        self.backends.all()
    }

    /// The connection of that name.
    pub fn backend(&self, name: &str) -> Option<Backend> {
        self.backends.get(name)
    }

    /// Where a backend came from, if there is one of that name.
    pub(crate) fn origin(&self, name: &str) -> Option<BackendSource> {
        self.records().get(name).map(|record| record.origin)
    }

    /// The names of the secrets that a backend was configured with, never their values; the security scheme of a login is one,
    /// which is set after a login.
    pub(crate) fn key_names(&self, name: &str) -> Vec<KeyName> {
        let config = self.config();
        let mut keys = match config.incomplete.get(name) {
            Some(server) => server.transport.as_ref().map(spec::key_names).unwrap_or_default(),
            None => self.records().get(name).map(|record| record.keys.clone()).unwrap_or_default(),
        };
        let backend = self.backend(name);
        if let Some((backend, BackendKind::OpenApi(api))) = backend.as_ref().map(|it| (it, &it.spec().kind))
            && let Some((scheme, _)) = &api.login
        {
            let is_set = backend.missing_login().is_none();
            keys.push(KeyName { kind: KeyKind::Scheme, name: scheme.clone(), is_set });
        }
        keys
    }

    /// Asks the watch of the configuration's file for another reading when a server is lost or does not come up whose values
    /// are what commands print.
    pub fn read_again(&self) -> ReadAgain {
        self.read_again.clone()
    }

    /// Hears of tools that change what they say from now on.
    pub fn changed_tools(&self) -> broadcast::Receiver<ToolChangeNotice> {
        self.changed_tools.subscribe()
    }

    /// Hears of changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.changes.subscribe()
    }

    /// Waits until every backend that `asked_for` names is up, has failed or has tools from the cache, at most for `within`.
    pub async fn settled(&self, within: Duration, asked_for: impl Fn(&str) -> bool) {
        let waiting: Vec<Backend> = self
            .backends()
            .into_iter()
            .filter(|backend| asked_for(backend.name()) && self.is_unknown(backend))
            .collect();
        if waiting.is_empty() {
            return;
        }
        let mut catalog = self.bridge().catalog_handle().subscribe();
        // The snapshot that the closure is given is locked: to load it there again would wait for a writer that waits for it.
        let all = catalog.wait_for(|catalog| !waiting.iter().any(|backend| is_unknown_in(catalog, backend)));
        let _ = tokio::time::timeout(within, all).await;
    }

    /// Waits until the backends that a program seems to name, itself or by a host function that is one of their tools, and its
    /// caller may use, are that far or have failed.
    pub async fn wait_for_named(&self, text: &str, caller: &CallerScope, until: Readiness, within: Duration) {
        let (catalog, config) = (self.catalog(), self.config());
        let is_aliased = |name: &str| {
            let mut functions = config.settings.functions.iter();
            functions.any(|(function, it)| match &it.target {
                FunctionTarget::Tool { backend, .. } => backend.as_str() == name && text.contains(function.as_str()),
                FunctionTarget::Http { .. } => false,
            })
        };
        let named = |name: &str| {
            let identifier = catalog.backend(name).map_or(name, |backend| backend.identifier());
            caller.backends.permits(name) && (text.contains(name) || text.contains(identifier) || is_aliased(name))
        };
        match until {
            Readiness::Known => self.settled(within, named).await,
            Readiness::Ready => self.up(within, named).await,
        }
    }

    /// Waits until every backend that `asked_for` names is up or has failed, at most for `within`. Starts one again whose last start
    /// failed some seconds ago, as a call of it does.
    async fn up(&self, within: Duration, asked_for: impl Fn(&str) -> bool) {
        let waiting: Vec<Backend> = self.backends().into_iter().filter(|backend| asked_for(backend.name())).collect();
        let all = async {
            waiting.iter().for_each(Backend::retry_failed_start);
            for backend in &waiting {
                // Why one is not up is in its state.
                let _ = backend.ready(within).await;
            }
            // The catalog follows the backends by events, which may be on their way.
            let mut catalog = self.bridge().catalog_handle().subscribe();
            let _ = catalog.wait_for(|catalog| waiting.iter().all(|backend| is_shown(catalog, backend))).await;
        };
        let _ = tokio::time::timeout(within, all).await;
    }

    /// Waits until a backend is up and its tools are shown, and starts it again if its last start failed. An error says why it is not up.
    pub(crate) async fn come_up(&self, backend: &Backend) -> Result<(), HostError> {
        let catalog = self.bridge().catalog_handle().subscribe();
        wait_until_ready::come_up(backend, catalog, wait_until_ready::start_time(backend)).await
    }

    /// Whether nothing is known of a backend yet: it is on its way up, and there was no cache.
    pub fn is_unknown(&self, backend: &Backend) -> bool {
        is_unknown_in(&self.catalog(), backend)
    }

    /// Ends all backends and the engine; returns when no process is left.
    pub async fn shut_down(&self) {
        // Before the backends end: what was sent is answered first.
        let durable = self.durable.lock().take();
        if let Some(runs) = durable {
            runs.stop(DURABLE_GRACE).await;
        }
        self.stop.cancel();
        let _changing = self.changing.lock().await;
        self.flush_cache().await;
        if let Some(learning) = self.learning.clone() {
            let _ = tokio::task::spawn_blocking(move || learning.finish()).await;
        }
        // Dropping the checker ends its process.
        self.types.write().take();
        // What is told of runs names the connections of their backends.
        let runner = self.runner.clone();
        let _ = tokio::task::spawn_blocking(move || runner.history().settle()).await;
        self.backends.shut_down().await;
        self.runner.engine().dispose();
        let (audit, telemetry, runner) = (self.audit.clone(), self.telemetry.clone(), self.runner.clone());
        // They wait for a disk and a collector.
        let flushing = tokio::task::spawn_blocking(move || {
            runner.history().settle();
            audit.iter().for_each(|audit| audit.flush());
            telemetry.iter().for_each(|telemetry| telemetry.flush());
        });
        let _ = flushing.await;
    }

    fn records(&self) -> parking_lot::MutexGuard<'_, BackendRecords> {
        self.records.lock()
    }

    /// Sends a change to every listener; without listeners nothing happens.
    fn notify(&self, change: Change) {
        let _ = self.changes.send(change.into());
    }

    /// The same about one backend, for those who see it.
    fn notify_for(&self, backend: &str, change: Change) {
        let _ = self.changes.send(ChangeNotice { change, backend: Some(backend.into()) });
    }
}

/// The audit log, if it is configured. One that cannot be written is reported and does not hold up the gateway; the
/// command line asks [`check_audit`] first.
fn open_audit(config: &Checked) -> Option<Arc<AuditListener>> {
    let settings = config.settings.audit.as_ref()?;
    match AuditListener::open(settings) {
        Ok(audit) => Some(Arc::new(audit)),
        Err(error) => {
            tracing::error!(%error, file = %settings.file.display(), "the audit log cannot be written");
            None
        }
    }
}

/// A running gateway as the surroundings of its runner: whatever is configured now.
struct ConfiguredEnvironment(Weak<Gateway>);

impl Environment for ConfiguredEnvironment {
    fn limits(&self, profile: Profile) -> LimitRequest {
        self.0.upgrade().map(|gateway| configured_limits(&gateway.config().settings, profile)).unwrap_or_default()
    }

    fn bytes_in_flight(&self) -> BytesInFlight {
        self.0.upgrade().map(|gateway| gateway.config().settings.limits.bytes_in_flight).unwrap_or_default()
    }

    fn functions(&self, caller: &CallerScope) -> Registry {
        self.0.upgrade().map(|gateway| gateway.functions(caller)).unwrap_or_default()
    }

    fn output(&self) -> OutputSettings {
        self.0.upgrade().map(|gateway| output_settings(&gateway.config().settings)).unwrap_or_default()
    }

    fn results(&self) -> Option<ResultStore> {
        self.0.upgrade().map(|gateway| gateway.results.clone())
    }

    fn learned(&self) -> Option<Arc<dyn LearnedResults>> {
        Some(self.0.upgrade()?.learning.clone()? as _)
    }
    fn durable_runs(&self) -> OpeningRuns<'_> {
        let Some(gateway) = self.0.upgrade() else { return Box::pin(std::future::ready(None)) };
        Box::pin(async move { Some(gateway.keep_runs().await) })
    }

    fn types(&self) -> Option<Arc<ProgramTypes>> {
        self.0.upgrade()?.types.read().clone()
    }

    fn wait_for_named<'a>(
        &'a self,
        text: &'a str,
        caller: &'a CallerScope,
        until: Readiness,
        within: Duration,
    ) -> Waiting<'a> {
        let Some(gateway) = self.0.upgrade() else { return Box::pin(std::future::ready(())) };
        Box::pin(async move { gateway.wait_for_named(text, caller, until, within).await })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Whether the catalog has heard that a backend is up.
fn is_shown(catalog: &Catalog, backend: &Backend) -> bool {
    let shown = catalog.backend(backend.name()).map(|shown| shown.state().clone());
    !backend.state().is_ready() || shown == Some(toolgate_catalog::BackendState::Ready)
}

fn is_unknown_in(catalog: &Catalog, backend: &Backend) -> bool {
    let shown = catalog.backend(backend.name()).filter(|shown| shown.name() == backend.name());
    shown.is_some_and(|shown| *shown.state() == toolgate_catalog::BackendState::Starting)
}
