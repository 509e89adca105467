//! Serves one gateway: MCP over standard input and output, or MCP beside the HTTP service on one listener; and what any door
//! does for runs while it is open ([`RunUpkeep`]).
//!
//! Only connects the parts; arguments, signals and printing belong to the command line.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::rpc_sessions::{MemorySessionStore, RedisStore, RpcSessions, SessionStore, SystemClock};
use crate::{
    AdmissionRules, Caller, HttpService, Listener, LocalToken, LocalTokenError, ServerLimits, ServiceLimits,
    ServiceParts, Shutdown, serve,
};
use toolgate_config::checked::Http;
use toolgate_config::values::{HttpAuth, Mode, StoreSetting};
use toolgate_gateway::agent::Agent;
use toolgate_gateway::runtime::Gateway;
use toolgate_mcp::server::{HttpOptions, RequestScope, ToolMode, standard_input, standard_output};

/// How long runs of a client at standard input and output may go on after the shutdown has begun; the MCP server waits a
/// little longer for their replies.
const STDIO_GRACE: Duration = Duration::from_secs(3);

/// Between two attempts to open the store of durable runs.
const OPEN_INTERVAL: Duration = Duration::from_secs(3);

/// The tool mode of a configured mode.
pub fn tool_mode(mode: Mode) -> ToolMode {
    match mode {
        Mode::Code => ToolMode::Code,
        Mode::Direct => ToolMode::Direct,
        Mode::Both => ToolMode::Both,
    }
}

/// Serves one client on standard input and output until it disconnects or `shutdown` is cancelled.
pub async fn stdio(agent: &Agent, mode: ToolMode, shutdown: CancellationToken) -> io::Result<()> {
    let scope = RequestScope { mode, ..RequestScope::default() };
    let _upkeep = RunUpkeep::of_streams(agent.gateway(), shutdown.clone());
    // A task, because its requests are tasks too: none of them has to wake the thread that waits for the end.
    let serving = tokio::spawn(toolgate_mcp::server::serve_stdio(
        Arc::new(agent.clone()),
        scope,
        standard_input(),
        standard_output(),
        shutdown,
    ));
    AbortOnDropHandle::new(serving).await.map_err(io::Error::other)?
}

/// The token that clients on this machine must present; none where keys or nothing are asked for. Created if it does not
/// exist.
///
/// # Errors
/// If a token is asked for and cannot be read or created.
pub fn local_token(http: &Http) -> Result<Option<LocalToken>, LocalTokenError> {
    if !http.keys.is_empty() || http.oauth.is_some() || http.auth == HttpAuth::None {
        return Ok(None);
    }
    let path = http.token_file.as_deref().ok_or(LocalTokenError::NoPlace)?;
    LocalToken::open(path).map(Some)
}

/// Serves `/mcp` and the HTTP service until `shutdown` is cancelled and the open requests have ended.
///
/// # Errors
/// If the session store or the token cannot be used, or the listener fails.
pub async fn http(agent: &Agent, mode: ToolMode, listener: Listener, shutdown: CancellationToken) -> io::Result<()> {
    http_for(agent, mode, listener, shutdown, Audience::Configured, |_| {}).await
}

/// Whom the HTTP service is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Holders of the configured keys; without keys, clients on this machine.
    Configured,
    /// Clients on this machine only, with the token of its user, also if there are keys.
    ThisMachine,
}

impl Audience {
    fn http(self, http: &Http) -> Http {
        match self {
            Audience::Configured => http.clone(),
            Audience::ThisMachine => Http { keys: Vec::new(), auth: HttpAuth::Token, ..http.clone() },
        }
    }
}

/// The same for an audience; `begin` is told of the service before it takes the first request.
///
/// # Errors
/// As [`http`].
pub async fn http_for(
    agent: &Agent,
    mode: ToolMode,
    listener: Listener,
    shutdown: CancellationToken,
    audience: Audience,
    begin: impl FnOnce(&HttpService),
) -> io::Result<()> {
    let gateway = agent.gateway();
    let settings = gateway.config().settings.clone();
    let shutdown = Shutdown { begin: shutdown, ..Shutdown::default() };
    let over_tcp = matches!(listener, Listener::Tcp(_));
    // The address is one that people can open only where client and gateway are on one machine.
    if let Listener::Tcp(listener) = &listener
        && let Some(address) = listener.local_addr().ok().filter(|address| address.ip().is_loopback())
    {
        gateway.runner().set_page(format!("http://{address}/"));
    }
    let abort = shutdown.abort.clone();
    let upkeep = RunUpkeep::until(gateway, async move { abort.cancelled().await });
    let service = HttpService::new(ServiceParts {
        runner: gateway.runner().clone(),
        sessions: Arc::new(sessions(&settings.store).await?),
        rules: rules(&audience.http(&settings.http), over_tcp).map_err(io::Error::other)?,
        shutdown: shutdown.clone(),
        limits: ServiceLimits {
            memory: usize::try_from(settings.limits.bytes_in_flight.process.get()).unwrap_or(usize::MAX),
            ..ServiceLimits::default()
        },
        public_url: None,
    });
    service.show_gateway(gateway);
    begin(&service);
    let router = service.router().merge(mcp_router(agent, mode, &service, &shutdown));
    let following = tokio::spawn(follow_rules(Arc::clone(gateway), service.clone(), over_tcp, audience));
    let limits = ServerLimits { grace: settings.limits.shutdown_grace, ..ServerLimits::default() };
    let served = serve(listener, router, shutdown, limits).await;
    following.abort();
    drop(upkeep);
    if let Err(error) = service.close().await {
        tracing::warn!(%error, "sessions could not be removed; they remain until they expire");
    }
    served
}

/// What an open door does for runs: takes over durable runs of processes that are gone, and aborts all runs at the end. It
/// stops when this is dropped.
pub struct RunUpkeep {
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl RunUpkeep {
    /// For clients at pipes or sockets: their runs may go on for a while after the shutdown has begun.
    pub fn of_streams(gateway: &Arc<Gateway>, shutdown: CancellationToken) -> Self {
        Self::until(gateway, async move {
            shutdown.cancelled().await;
            tokio::time::sleep(STDIO_GRACE).await;
        })
    }

    /// Aborts the runs of all doors once the grace period is over: an MCP client then gets the report of its run.
    fn until(gateway: &Arc<Gateway>, grace: impl Future<Output = ()> + Send + 'static) -> Self {
        let runner = gateway.runner().clone();
        let keeping = tokio::spawn(keep_runs(Arc::downgrade(gateway)));
        let aborting = tokio::spawn(async move {
            grace.await;
            runner.abort_runs();
        });
        RunUpkeep { _tasks: [keeping, aborting].map(AbortOnDropHandle::new) }
    }
}

/// Takes over durable runs of processes that are gone. A store that cannot be reached is tried again.
async fn keep_runs(gateway: Weak<Gateway>) {
    let mut reported = false;
    while let Some(gateway) = gateway.upgrade().filter(|gateway| gateway.has_kept_runs()) {
        match gateway.keep_runs().await {
            Ok(_) => return,
            Err(error) if !reported => tracing::warn!(%error, "durable runs are not taken over"),
            Err(_) => {}
        }
        reported = true;
        drop(gateway);
        tokio::time::sleep(OPEN_INTERVAL).await;
    }
}

/// The admission rules of a configuration. A Unix socket needs no token.
fn rules(http: &Http, over_tcp: bool) -> Result<AdmissionRules, LocalTokenError> {
    let token = if over_tcp { local_token(http)? } else { None };
    Ok(AdmissionRules::new(http.clone(), token))
}

/// The MCP endpoint behind the service's admission, which has checked host, origin, key and rate.
fn mcp_router(agent: &Agent, mode: ToolMode, service: &HttpService, shutdown: &Shutdown) -> Router {
    let options = HttpOptions {
        scope: RequestScope { mode, ..RequestScope::default() },
        host_guard: None,
        shutdown: shutdown.begin.clone(),
        ..HttpOptions::default()
    };
    let identify = from_fn(move |mut request: Request, next: Next| {
        let scope = request.extensions().get::<Caller>().map(|caller| RequestScope { mode, caller: caller.scope() });
        request.extensions_mut().extend(scope.map(extension).unwrap_or_default());
        async move {
            let answer: Response = next.run(request).await;
            answer
        }
    });
    service.guarded(toolgate_mcp::server::router(Arc::new(agent.clone()), options).route_layer(identify))
}

fn extension(scope: RequestScope) -> axum::http::Extensions {
    let mut extensions = axum::http::Extensions::new();
    extensions.insert(scope);
    extensions
}

/// Replaces the service's rules when the configuration changes; the old ones stay if there is no token.
async fn follow_rules(gateway: Arc<Gateway>, service: HttpService, over_tcp: bool, audience: Audience) {
    let mut changes = gateway.changes();
    let mut known = gateway.config();
    while !matches!(changes.recv().await, Err(RecvError::Closed)) {
        let now = gateway.config();
        if !Arc::ptr_eq(&known, &now) {
            match rules(&audience.http(&now.settings.http), over_tcp) {
                Ok(rules) => service.change(rules),
                Err(error) => tracing::error!(%error, "the settings of the HTTP service stay as they were"),
            }
            known = now;
        }
    }
}

async fn sessions(store: &StoreSetting) -> io::Result<RpcSessions> {
    let clock = Arc::new(SystemClock);
    let store: Arc<dyn SessionStore> = match store {
        StoreSetting::Memory | StoreSetting::Postgres(_) => Arc::new(MemorySessionStore::new(clock.clone())),
        StoreSetting::Redis(url) => Arc::new(RedisStore::open(url.as_str()).await.map_err(io::Error::other)?),
    };
    Ok(RpcSessions::new(store, clock))
}
