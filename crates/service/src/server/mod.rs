//! Accepts HTTP connections: limits their number, disconnects slow clients, shuts down gracefully.
//!
//! A slow client occupies one connection and little memory, for a bounded time: a head must be received within
//! [`ServerLimits::head_time`] (which also bounds how long a connection may idle), a body within its handler's time, and
//! replies must be read at a minimum rate. When the limit is reached, an idle connection is closed for a new one. HTTP/1.1
//! only, without TLS: a reverse proxy provides that.

mod busy_body;
mod connections;
mod listener;
mod slow_reader;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::Shutdown;
use busy_body::BusyBody;
use connections::{ConnectionSlot, Connections};
use listener::Accepted;
use slow_reader::SlowReaderGuard;

pub use listener::{Listener, UnixSocket, listen, listen_unix};

/// Marks a request that came over a Unix socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnixPeer;

/// The largest request head, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// File descriptors kept for everything but connections.
const RESERVED_DESCRIPTORS: u64 = 1024;
/// How long sending the replies of aborted runs may take.
const ABORT_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Delay after an accept error that concerns all connections, such as too many open files.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// Limits of the server.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Connections at one time.
    pub connections: usize,
    /// How long receiving a request head may take, and how long a connection may idle before it.
    pub head_time: Duration,
    /// A client that does not read [`Self::reader_bytes`] in this time is disconnected.
    pub reader_time: Duration,
    /// The bytes a client must read in [`Self::reader_time`] while bytes wait to be sent.
    pub reader_bytes: usize,
    /// How long runs may continue after the shutdown has begun.
    pub grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            connections: 16_384,
            head_time: Duration::from_secs(15),
            reader_time: Duration::from_secs(15),
            reader_bytes: 64 * 1024,
            grace: Duration::from_secs(10),
        }
    }
}

/// Serves until `shutdown.begin` is cancelled and the open requests have ended; cancels `shutdown.abort` after the grace
/// period.
///
/// Every request carries a `ConnectInfo<SocketAddr>`, except those of a Unix socket.
pub async fn serve(
    listener: impl Into<Listener>,
    router: Router,
    shutdown: Shutdown,
    limits: ServerLimits,
) -> io::Result<()> {
    let listener = listener.into();
    raise_descriptor_limit(limits.connections);
    let connections = Connections::new(limits.connections);
    let service = TowerToHyperService::new(router);
    let killed = CancellationToken::new();
    // Dropping the server ends its connections.
    let _killed = killed.clone().drop_guard();
    let limits = Arc::new(limits);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) if concerns_one_connection(&error) => continue,
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    connections.make_room();
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                    continue;
                }
            },
            () = shutdown.begin.cancelled() => break,
        };
        // The limit is reached and no connection is idle: close the new one.
        let Some(slot) = connections.take() else { continue };
        let connection = Connection { service: service.clone(), slot, limits: limits.clone() };
        let (begin, killed) = (shutdown.begin.clone(), killed.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = connection.serve(accepted, begin) => {}
                () = killed.cancelled() => {}
            }
        });
    }
    drop(listener);
    finish(&connections, &shutdown, limits.grace).await;
    Ok(())
}

/// Waits for open requests during the grace period, then aborts them.
async fn finish(connections: &Connections, shutdown: &Shutdown, grace: Duration) {
    if tokio::time::timeout(grace, connections.all_free()).await.is_err() {
        shutdown.abort.cancel();
        if tokio::time::timeout(ABORT_DRAIN_TIMEOUT, connections.all_free()).await.is_err() {
            tracing::warn!("connections were closed at shutdown before their reply was sent");
        }
    }
    // No run may outlive the server.
    shutdown.abort.cancel();
}

struct Connection {
    service: TowerToHyperService<Router>,
    slot: Arc<ConnectionSlot>,
    limits: Arc<ServerLimits>,
}

impl Connection {
    async fn serve(self, accepted: Accepted, begin: CancellationToken) {
        match accepted {
            Accepted::Tcp(stream, peer) => {
                // Send small replies at once; failing to set the option only delays them.
                let _ = stream.set_nodelay(true);
                self.serve_stream(stream, ConnectInfo(peer), begin).await;
            }
            Accepted::Unix(stream) => self.serve_stream(stream, UnixPeer, begin).await,
        }
    }

    /// Serves a stream; every request gets the peer as an extension.
    async fn serve_stream<S, P>(self, stream: S, peer: P, begin: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        P: Clone + Send + Sync + 'static,
    {
        let Connection { service: router, slot, limits } = self;
        let io = TokioIo::new(SlowReaderGuard::new(stream, slot.clone(), limits.reader_time, limits.reader_bytes));
        let handling = slot.clone();
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            let busy = handling.busy();
            let answer = router.call(request);
            let slot = handling.clone();
            async move {
                let response = answer.await?;
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    slot.mark_upgraded();
                }
                Ok::<_, Infallible>(response.map(|body| BusyBody { body, _busy: busy }))
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_time)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(io, service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        // Errors of a connection are those of its client, for example a disconnect; they are not logged.
        tokio::select! {
            _ = connection.as_mut() => {}
            () = slot.evicted() => {}
            () = begin.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}

/// Raises the limit on open files, usually 1,024: each connection needs a descriptor.
fn raise_descriptor_limit(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = connections as u64 + RESERVED_DESCRIPTORS;
    let granted = maximum.map_or(wanted, |maximum| wanted.min(maximum));
    if current.is_some_and(|current| current < granted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(granted), maximum })
    {
        tracing::warn!(%error, "the limit on open files could not be raised; fewer connections than configured are possible");
    }
}
