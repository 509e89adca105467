//! What stands behind the door, and the routes to it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use url::Url;

use super::body::{BodyLimits, Budget};
use super::caller::{Caller, Keys, Rates};
use super::refusal::Refusal;
use super::{about, gate, run, sessions, socket};
use crate::rpc_sessions::{Sessions, StoreError};
use toolgate_config::checked::Http;
use toolgate_config::values::{HostName, Origin};
use toolgate_gateway::run::Runner;

/// The RPC bridge takes no larger body.
const RPC_BODY: usize = 128 * 1024;

/// How a service is closed: `begin` stops the accepting, `abort` ends what still runs.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// No more requests; what runs may come to its end.
    pub begin: CancellationToken,
    /// The time for that is over. [`super::serve`] sees to it.
    pub abort: CancellationToken,
}

/// How much the service takes in at one time.
#[derive(Debug, Clone)]
pub struct ServiceLimits {
    /// Bytes of a body.
    pub body: usize,
    /// From its first byte to its last.
    pub body_time: Duration,
    /// Bytes of all bodies, in and out, at one time.
    pub memory: usize,
    /// WebSockets at one time. Each may hold a message of up to 2 MB that is not yet complete.
    pub sockets: usize,
    /// From the opening of a WebSocket to its first message.
    pub opening_time: Duration,
    /// How long a WebSocket may be silent; it is asked for a sign of life three times as often.
    pub silence: Duration,
}

impl Default for ServiceLimits {
    fn default() -> Self {
        ServiceLimits {
            body: 16 * 1024 * 1024,
            body_time: Duration::from_secs(30),
            memory: 256 * 1024 * 1024,
            sockets: 256,
            opening_time: Duration::from_secs(10),
            silence: Duration::from_secs(60),
        }
    }
}

/// Who is let in: what the configuration says, and may say anew while the service runs.
#[derive(Debug, Default)]
pub struct Rules {
    pub(super) keys: Keys,
    pub(super) allowed_origins: Vec<Origin>,
    pub(super) allowed_hosts: Vec<HostName>,
}

impl Rules {
    /// The rules of a configuration.
    pub fn new(http: Http) -> Self {
        let Http { keys, allowed_origins, allowed_hosts, .. } = http;
        Rules { keys: Keys::new(keys), allowed_origins, allowed_hosts }
    }
}

/// What a service is made of.
pub struct Parts {
    /// Runs the programs.
    pub runner: Runner,
    /// The sessions of the RPC bridge.
    pub sessions: Arc<Sessions>,
    /// What the configuration says.
    pub rules: Rules,
    /// How the service is closed.
    pub ending: Ending,
    /// How much it takes in.
    pub limits: ServiceLimits,
    /// Where callers reach it, if not under the name that they ask for.
    pub public_url: Option<Url>,
}

/// The HTTP service. Cheap to clone.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

struct Inner {
    runner: Runner,
    sessions: Arc<Sessions>,
    rules: RwLock<Arc<Rules>>,
    rates: Rates,
    ending: Ending,
    limits: ServiceLimits,
    budget: Budget,
    sockets: Arc<Semaphore>,
    public_url: Option<Url>,
    health: about::Health,
}

impl Service {
    /// A service of these parts.
    pub fn new(parts: Parts) -> Self {
        let Parts { runner, sessions, rules, ending, limits, public_url } = parts;
        let budget = Budget::new(limits.memory);
        let sockets = Arc::new(Semaphore::new(limits.sockets));
        Service(Arc::new(Inner {
            runner,
            sessions,
            rules: RwLock::new(Arc::new(rules)),
            rates: Rates::default(),
            ending,
            limits,
            budget,
            sockets,
            public_url,
            health: about::Health::default(),
        }))
    }

    /// All routes, guarded. Other doors may be merged into it if they have no fallback of their own.
    pub fn router(&self) -> Router {
        let keyed = Router::new()
            .route("/v1/run", post(run::run))
            .route("/v1/compute", post(run::compute))
            .route("/v1/run/ws", get(socket::upgrade))
            .route("/v1/functions", get(about::functions))
            .route("/v1/openapi.json", get(about::openapi))
            .route("/v1/sessions", post(sessions::open))
            .route("/v1/sessions/{id}", delete(sessions::revoke))
            .route_layer(from_fn_with_state(self.clone(), gate::by_key));
        Router::new()
            .route("/healthz", get(about::healthz))
            .route("/readyz", get(about::readyz))
            .route("/rpc/{executionId}/{fnName}", post(sessions::call))
            .merge(keyed)
            .fallback(|| async { Refusal::NotFound })
            .method_not_allowed_fallback(|| async { Refusal::MethodNotAllowed })
            .layer(from_fn_with_state(self.clone(), gate::by_place))
            .layer(CatchPanicLayer::custom(|_| -> Response { Refusal::Internal.into_response() }))
            .with_state(self.clone())
    }

    /// Puts the same guard in front of another door: place, key and rate. Its requests carry a [`super::Caller`].
    pub fn guarded(&self, door: Router) -> Router {
        door.route_layer(from_fn_with_state(self.clone(), gate::by_key))
            .layer(from_fn_with_state(self.clone(), gate::by_place))
            .layer(CatchPanicLayer::custom(|_| -> Response { Refusal::Internal.into_response() }))
    }

    /// Whose key these headers carry, if the caller may be here; for doors that ask by themselves.
    pub fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        self.rules().keys.holder(headers).ok()
    }

    /// Follows a changed configuration: from the next request on.
    pub fn change(&self, rules: Rules) {
        *self.0.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Removes the sessions that were opened here, and opens no more. To be called once [`super::serve`] has ended.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.0.sessions.close().await
    }

    pub(super) fn rules(&self) -> Arc<Rules> {
        self.0.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn rates(&self) -> &Rates {
        &self.0.rates
    }

    pub(super) fn runner(&self) -> &Runner {
        &self.0.runner
    }

    pub(super) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    pub(super) fn ending(&self) -> &Ending {
        &self.0.ending
    }

    pub(super) fn limits(&self) -> &ServiceLimits {
        &self.0.limits
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// A place for a WebSocket, if one is free.
    pub(super) fn socket_place(&self) -> Option<OwnedSemaphorePermit> {
        self.0.sockets.clone().try_acquire_owned().ok()
    }

    pub(super) fn public_url(&self) -> Option<&Url> {
        self.0.public_url.as_ref()
    }

    pub(super) fn health(&self) -> &about::Health {
        &self.0.health
    }

    pub(super) fn body_limits(&self) -> BodyLimits {
        BodyLimits { bytes: self.0.limits.body, time: self.0.limits.body_time }
    }

    pub(super) fn rpc_limits(&self) -> BodyLimits {
        BodyLimits { bytes: RPC_BODY, time: self.0.limits.body_time }
    }
}
