//! The sockets under the doors: how many, how slow, and how they end.
//!
//! Whoever is slow costs a place among the connections and little memory, for a bounded time: a head must arrive
//! within [`ServerLimits::head_time`] (which also bounds how long a connection may idle), a body within its handler's
//! time, and a reader must take a trickle at least. When all places are taken, one that idles is closed for the new
//! one. HTTP/1.1 only, without TLS: that is a reverse proxy's business.

mod held;
mod paced;
mod places;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
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
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

use super::Ending;
use held::Held;
use paced::Paced;
use places::{Place, Places};

/// What one connection buffers of a head.
const HEAD_BYTES: usize = 64 * 1024;
/// Descriptors for everything that is no connection.
const OTHER_DESCRIPTORS: u64 = 1024;
/// Connections that may wait to be accepted; the system may allow fewer.
const BACKLOG: u32 = 4096;
/// How long answers that say `ABORTED` may take to be sent.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// After an error that is not one connection's own, such as no descriptors left.
const BREATH: Duration = Duration::from_millis(50);

/// What the server holds to.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Connections at one time.
    pub connections: usize,
    /// For a request's head, from the moment it is waited for: so long may a connection idle, too.
    pub head_time: Duration,
    /// A reader that does not take [`Self::reader_bytes`] in this time is cut off.
    pub reader_time: Duration,
    /// See [`Self::reader_time`].
    pub reader_bytes: usize,
    /// How long runs may go on once the end has begun.
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

/// Listens, with a line long enough for a crowd to arrive at once: whoever finds the usual one full tries again only
/// after a second.
pub fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Without it a restarted server would have to wait for its predecessor's last connections.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// Serves until `ending.begin` and for what is under way then; `ending.abort` is cancelled once the grace is over.
///
/// Every request carries a `ConnectInfo<SocketAddr>`.
pub async fn serve(listener: TcpListener, router: Router, ending: Ending, limits: ServerLimits) -> io::Result<()> {
    allow_descriptors(limits.connections);
    let places = Places::new(limits.connections);
    let service = TowerToHyperService::new(router);
    let killed = CancellationToken::new();
    // Dropping the server ends its connections.
    let _killed = killed.clone().drop_guard();
    let limits = Arc::new(limits);
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_the_connections_own(&error) => continue,
                Err(error) => {
                    tracing::warn!(%error, "no connection could be accepted");
                    places.make_room();
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
            },
            () = ending.begin.cancelled() => break,
        };
        // No place, and nobody idles: the newcomer is closed.
        let Some(place) = places.take() else { continue };
        let connection = Connection { stream, peer, place, limits: limits.clone() };
        let (service, begin, killed) = (service.clone(), ending.begin.clone(), killed.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = connection.serve(service, begin) => {}
                () = killed.cancelled() => {}
            }
        });
    }
    drop(listener);
    finish(&places, &ending, limits.grace).await;
    Ok(())
}

/// Lets what is under way end by itself, then by force.
async fn finish(places: &Places, ending: &Ending, grace: Duration) {
    if tokio::time::timeout(grace, places.all_free()).await.is_err() {
        ending.abort.cancel();
        if tokio::time::timeout(LAST_WORDS, places.all_free()).await.is_err() {
            tracing::warn!("connections were cut off at shutdown");
        }
    }
    // Nothing may run on behind a server that has ended.
    ending.abort.cancel();
}

struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    place: Arc<Place>,
    limits: Arc<ServerLimits>,
}

impl Connection {
    async fn serve(self, router: TowerToHyperService<Router>, begin: CancellationToken) {
        let Connection { stream, peer, place, limits } = self;
        // Small answers go out at once; where that can't be had, they go out later.
        let _ = stream.set_nodelay(true);
        let io = TokioIo::new(Paced::new(stream, place.clone(), limits.reader_time, limits.reader_bytes));
        let handling = place.clone();
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            let busy = handling.busy();
            let answer = router.call(request);
            let place = handling.clone();
            async move {
                let response = answer.await?;
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    place.give_away();
                }
                Ok::<_, Infallible>(response.map(|body| Held { body, _busy: busy }))
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_time)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(io, service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        // How a connection ends is its client's business: errors are those of clients that went away.
        tokio::select! {
            _ = connection.as_mut() => {}
            () = place.evicted() => {}
            () = begin.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}

fn is_the_connections_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}

/// Each connection is a descriptor, and the usual allowance is 1,024.
fn allow_descriptors(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = connections as u64 + OTHER_DESCRIPTORS;
    let granted = maximum.map_or(wanted, |maximum| wanted.min(maximum));
    if current.is_some_and(|current| current < granted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(granted), maximum })
    {
        tracing::warn!(%error, "fewer connections than configured");
    }
}
