//! The HTTP service: its state, limits and routes.
//!
//! Handlers are in the modules of the endpoints; listening is up to `server`.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use url::Url;

use super::admission::Peer;
use super::body::{BodyLimits, Budget};
use super::caller::{Keys, MetricsRules, Rates};
use super::caller_permits::{CallerPermit, CallerPermits};
use super::failed_keys::FailedKeys;
use super::inspect::events::MAX_STREAMS;
use super::inspect::logins::BrowserLogins;
use super::inspect::run_log::RunLog;
use super::metrics::{self, ResponseCounts};
use super::page::sessions::PageSessions;
use super::refusal::{Refusal, Shown};
use super::resource_server::ResourceServer;
use super::{Caller, LocalToken, admission, durable, inspect, page, results, rpc, run, status, websocket};
use crate::rpc_sessions::{RpcSessions, SessionStoreError};
use toolgate_config::checked::Http;
use toolgate_config::values::HttpAuth;
use toolgate_gateway::runtime::Gateway;
use toolgate_mcp::server::HostGuard;
use toolgate_run::Runner;
use toolgate_run::durable::DurableRuns;

/// The largest body of a call over the RPC bridge, in bytes.
const MAX_RPC_BODY: usize = 128 * 1024;

/// Counts requests without a caller; no name that can be read is this.
const STRANGERS: &str = "\0";

/// How a service is stopped: `begin` stops accepting requests, `abort` ends what still runs.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Cancelled first: no more requests are accepted; runs may finish.
    pub begin: CancellationToken,
    /// Cancelled by [`super::serve`] after the grace period: aborts the remaining runs.
    pub abort: CancellationToken,
}

/// Limits on what the service accepts at one time. Of each, one key has at most half.
#[derive(Debug, Clone)]
pub struct ServiceLimits {
    /// The largest body, in bytes.
    pub body: usize,
    /// How long receiving a body may take.
    pub body_time: Duration,
    /// Bytes of all request and reply bodies at one time.
    pub memory: usize,
    /// WebSockets at one time. Incomplete messages count in `memory`.
    pub sockets: usize,
    /// Requests at one time that wait for a durable run or watch one.
    pub waiters: usize,
    /// Programs that are checked at one time without a run.
    pub checks: usize,
    /// How long a program may wait for its check.
    pub check_wait: Duration,
    /// From the upgrade of a WebSocket to its first message.
    pub handshake_time: Duration,
    /// How long a WebSocket may be silent before it is closed; a ping is sent three times as often.
    pub silence: Duration,
}

impl Default for ServiceLimits {
    fn default() -> Self {
        ServiceLimits {
            body: 16 * 1024 * 1024,
            body_time: Duration::from_secs(30),
            memory: 256 * 1024 * 1024,
            sockets: 256,
            waiters: 256,
            checks: 8,
            check_wait: Duration::from_secs(10),
            handshake_time: Duration::from_secs(10),
            silence: Duration::from_secs(60),
        }
    }
}

/// The configured rules for admission; they may change while the service runs.
#[derive(Debug, Default)]
pub struct AdmissionRules {
    pub(super) keys: Keys,
    pub(super) local: LocalAccess,
    pub(super) oauth: Option<Arc<ResourceServer>>,
    pub(super) host_guard: HostGuard,
    pub(super) metrics: MetricsRules,
}

/// What clients on this machine must present where there are no keys.
#[derive(Debug, Default)]
pub(super) enum LocalAccess {
    /// The token of a file that only this user can read.
    Token(LocalToken),
    /// Nothing.
    Open,
    /// A token is required and none could be read or written, so no request is admitted.
    #[default]
    Closed,
}

impl AdmissionRules {
    /// The rules of a configuration, with the token of this user. Without keys and token no request is admitted, unless the
    /// configuration asks for no token.
    pub fn new(http: Http, token: Option<LocalToken>) -> Self {
        let Http { keys, auth, oauth, allowed_origins, allowed_hosts, metrics, metrics_key, .. } = http;
        let hosts = allowed_hosts.iter().map(ToString::to_string);
        let origins = allowed_origins.iter().map(|origin| origin.as_str().to_owned());
        let local = match (auth, token) {
            (HttpAuth::None, _) => LocalAccess::Open,
            (HttpAuth::Token, Some(token)) => LocalAccess::Token(token),
            (HttpAuth::Token, None) => LocalAccess::Closed,
        };
        let oauth = oauth.map(|oauth| Arc::new(ResourceServer::new(oauth)));
        let (host_guard, metrics) = (HostGuard::new(hosts, origins), MetricsRules::new(metrics, metrics_key));
        AdmissionRules { keys: Keys::new(keys), local, oauth, host_guard, metrics }
    }

    /// Whether a request from there needs a key or a token.
    pub(super) fn requires_credentials(&self, peer: Peer) -> bool {
        let is_open = peer == Peer::UnixSocket || matches!(self.local, LocalAccess::Open);
        !(self.has_only_local_callers() && is_open)
    }

    /// Whether there are neither keys nor tokens of an issuer, so that only this machine may connect.
    pub(super) fn has_only_local_callers(&self) -> bool {
        self.keys.is_empty() && self.oauth.is_none()
    }

    /// The caller with this key, or with this token if there are no keys.
    pub(super) fn caller(&self, presented: &str) -> Option<Caller> {
        if !self.has_only_local_callers() {
            return self.keys.holder(presented);
        }
        match &self.local {
            LocalAccess::Token(token) => token.matches(presented).then_some(Caller::Local),
            LocalAccess::Open => Some(Caller::Local),
            LocalAccess::Closed => None,
        }
    }
}

/// The parts of a service.
pub struct ServiceParts {
    /// Runs the programs.
    pub runner: Runner,
    /// The sessions of the RPC bridge.
    pub sessions: Arc<RpcSessions>,
    /// The rules for admission.
    pub rules: AdmissionRules,
    /// How the service is stopped.
    pub shutdown: Shutdown,
    /// Its limits.
    pub limits: ServiceLimits,
    /// The base URL for callers, if it is not the host that they address.
    pub public_url: Option<Url>,
}

/// The HTTP service. Cheap to clone.
#[derive(Clone)]
pub struct HttpService(Arc<Inner>);

struct Inner {
    runner: Runner,
    sessions: Arc<RpcSessions>,
    rules: RwLock<Arc<AdmissionRules>>,
    rates: Rates,
    failed_keys: FailedKeys,
    responses: ResponseCounts,
    shutdown: Shutdown,
    limits: ServiceLimits,
    body_bytes: CallerPermits,
    websockets: CallerPermits,
    public_url: Option<Url>,
    health: status::Health,
    page_sessions: PageSessions,
    browser_logins: BrowserLogins,
    run_log: Arc<RunLog>,
    event_streams: CallerPermits,
    /// What the backends' details come from; set once the service serves a gateway.
    gateway: OnceLock<Weak<Gateway>>,
    /// Requests that wait for a run.
    waiters: CallerPermits,
    /// Programs that are checked.
    checks: CallerPermits,
}

impl HttpService {
    /// A service of these parts.
    pub fn new(parts: ServiceParts) -> Self {
        let ServiceParts { runner, sessions, rules, shutdown, limits, public_url } = parts;
        let body_bytes = CallerPermits::new(limits.memory);
        let websockets = CallerPermits::new(limits.sockets);
        let run_log = Arc::new(RunLog::default());
        runner.history().listen(run_log.clone());
        let waiters = CallerPermits::new(limits.waiters);
        let checks = CallerPermits::new(limits.checks);
        HttpService(Arc::new(Inner {
            runner,
            sessions,
            rules: RwLock::new(Arc::new(rules)),
            rates: Rates::default(),
            failed_keys: FailedKeys::default(),
            responses: ResponseCounts::default(),
            shutdown,
            limits,
            body_bytes,
            websockets,
            public_url,
            health: status::Health::default(),
            page_sessions: PageSessions::default(),
            browser_logins: BrowserLogins::default(),
            run_log,
            event_streams: CallerPermits::new(MAX_STREAMS),
            gateway: OnceLock::new(),
            waiters,
            checks,
        }))
    }

    /// All routes, behind admission. Other routers may be merged into it if they have no fallback of their own.
    pub fn router(&self) -> Router {
        let keyed = Router::new()
            .route("/v1/run", post(run::run))
            .route("/v1/compute", post(run::compute))
            .route("/v1/run/ws", get(websocket::upgrade))
            .route("/v1/runs", post(durable::begin).get(durable::list))
            .route("/v1/runs/{runId}", get(durable::view).delete(durable::abort))
            .route("/v1/runs/{runId}/decisions", post(durable::decide))
            .route("/v1/runs/{runId}/events", get(durable::events))
            .route("/v1/results/{id}", get(results::read))
            .route("/v1/functions", get(status::functions))
            .route("/v1/openapi.json", get(status::openapi))
            .route("/v1/sessions", post(rpc::open))
            .route("/v1/sessions/{id}", delete(rpc::revoke))
            .merge(inspect::routes())
            .merge(page::keyed_routes())
            .route_layer(from_fn_with_state(self.clone(), admission::check_key));
        let metrics = Router::new()
            .route("/metrics", get(metrics::metrics))
            .route_layer(from_fn_with_state(self.clone(), admission::check_metrics_reader));
        Router::new()
            .merge(metrics)
            .merge(page::open_routes())
            .route("/.well-known/oauth-protected-resource", get(admission::resource_metadata))
            .route("/.well-known/oauth-protected-resource/{*path}", get(admission::resource_metadata))
            .route("/healthz", get(status::healthz))
            .route("/readyz", get(status::readyz))
            .route("/rpc/{executionId}/{fnName}", post(rpc::call))
            .merge(keyed)
            .fallback(no_such_path)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(from_fn_with_state(self.clone(), admission::check_peer_and_host))
            .layer(CatchPanicLayer::custom(|_| -> Response { Refusal::Internal.into_response() }))
            .layer(from_fn_with_state(self.clone(), metrics::count_responses))
            .with_state(self.clone())
    }

    /// Puts the same admission in front of another router. Its requests get a [`super::Caller`] extension.
    pub fn guarded(&self, router: Router) -> Router {
        router
            .route_layer(from_fn_with_state(self.clone(), admission::check_key))
            .layer(from_fn_with_state(self.clone(), admission::check_peer_and_host))
            .layer(CatchPanicLayer::custom(|_| -> Response { Refusal::Internal.into_response() }))
            .layer(from_fn_with_state(self.clone(), metrics::count_responses))
    }

    /// Shows the backends of a gateway in more detail than the catalog has; the first one counts.
    pub fn show_gateway(&self, gateway: &Arc<Gateway>) {
        let _ = self.0.gateway.set(Arc::downgrade(gateway));
    }

    /// Replaces the rules, from the next request on.
    pub fn change(&self, rules: AdmissionRules) {
        *self.0.rules.write() = Arc::new(rules);
    }

    /// Removes the sessions that this process opened, and opens no more. To be called after [`super::serve`] has ended.
    pub async fn close(&self) -> Result<(), SessionStoreError> {
        self.0.sessions.close().await
    }

    pub(super) fn rules(&self) -> Arc<AdmissionRules> {
        self.0.rules.read().clone()
    }

    pub(super) fn rates(&self) -> &Rates {
        &self.0.rates
    }

    pub(super) fn failed_keys(&self) -> &FailedKeys {
        &self.0.failed_keys
    }

    pub(super) fn responses(&self) -> &ResponseCounts {
        &self.0.responses
    }

    pub(super) fn runner(&self) -> &Runner {
        &self.0.runner
    }

    pub(super) fn sessions(&self) -> &RpcSessions {
        &self.0.sessions
    }

    pub(super) fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    pub(super) fn limits(&self) -> &ServiceLimits {
        &self.0.limits
    }

    /// The memory for bodies of a caller.
    pub(super) fn budget(&self, caller: &Caller) -> Budget {
        Budget::new(self.0.body_bytes.clone(), caller.name())
    }

    /// The memory for bodies of requests without a caller, together.
    pub(super) fn strangers_budget(&self) -> Budget {
        Budget::new(self.0.body_bytes.clone(), STRANGERS)
    }

    /// The bytes of bodies of all callers.
    pub(super) fn body_bytes(&self) -> usize {
        self.0.body_bytes.used()
    }

    /// A permit for one more WebSocket, if the caller may have one.
    pub(super) fn websocket_permit(&self, caller: &Caller) -> Option<CallerPermit> {
        self.0.websockets.try_take(caller.name())
    }

    /// How many WebSockets are open.
    pub(super) fn open_websockets(&self) -> usize {
        self.0.websockets.used()
    }

    pub(super) fn page_sessions(&self) -> &PageSessions {
        &self.0.page_sessions
    }

    pub(super) fn browser_logins(&self) -> &BrowserLogins {
        &self.0.browser_logins
    }

    pub(super) fn run_log(&self) -> &RunLog {
        &self.0.run_log
    }

    /// A permit for one more stream of events, if the caller may have one.
    pub(super) fn event_permit(&self, caller: &Caller) -> Option<CallerPermit> {
        self.0.event_streams.try_take(caller.name())
    }

    /// The gateway behind the service, if there is one.
    pub(super) fn gateway(&self) -> Option<Arc<Gateway>> {
        self.0.gateway.get().and_then(Weak::upgrade)
    }

    /// The durable runs.
    pub(super) async fn runs(&self) -> Result<DurableRuns, Refusal> {
        Ok(self.0.runner.durable().await?)
    }

    /// A permit to wait for a run.
    pub(super) fn waiter_permit(&self, caller: &Caller) -> Result<CallerPermit, Refusal> {
        let busy = || Refusal::Busy("too many requests wait for runs already".to_owned());
        self.0.waiters.try_take(caller.name()).ok_or_else(busy)
    }

    /// A permit to check a program, once fewer than the most are being checked. A page asks for several at one time.
    pub(super) async fn check_permit(&self, caller: &Caller) -> Result<CallerPermit, Refusal> {
        let permit = tokio::time::timeout(self.0.limits.check_wait, self.0.checks.take(caller.name())).await;
        permit.map_err(|_| Refusal::Busy("too many programs are being checked already".to_owned()))
    }

    pub(super) fn public_url(&self) -> Option<&Url> {
        self.0.public_url.as_ref()
    }

    pub(super) fn health(&self) -> &status::Health {
        &self.0.health
    }

    pub(super) fn body_limits(&self) -> BodyLimits {
        BodyLimits { bytes: self.0.limits.body, time: self.0.limits.body_time }
    }

    pub(super) fn rpc_limits(&self) -> BodyLimits {
        BodyLimits { bytes: MAX_RPC_BODY, time: self.0.limits.body_time }
    }
}

async fn no_such_path(uri: Uri) -> Refusal {
    Refusal::NoSuchPath(Shown::new(uri.path()))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Refusal {
    Refusal::MethodNotAllowed { method: Shown::new(method.as_str()), path: Shown::new(uri.path()) }
}
