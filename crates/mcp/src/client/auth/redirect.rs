//! Receives the browser after a login: one HTTP request to a port of this machine.
//!
//! Anything on this machine can connect to the port, so a request that does not belong to the login is refused and the next
//! one is waited for. Every connection has a time limit and a size limit; nothing of a request is repeated in the answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::login::{AuthorizationResponse, PendingLogin};

/// The path of the redirect URI.
const PATH: &str = "/callback";
/// The largest request that is read, in bytes.
const MAX_REQUEST_BYTES: usize = 32 << 10;
/// How long one connection may take.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that are read at one time; others wait.
const MAX_CONNECTIONS: usize = 16;

/// Waits for the browser at a port of this machine.
#[derive(Debug)]
pub struct RedirectListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl RedirectListener {
    /// Listens at a port, or at any free one.
    pub async fn bind(port: Option<u16>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Listens where a client is registered to be redirected to, if that is free.
    pub async fn bind_registered(redirect_uri: &str) -> Option<Self> {
        let port = redirect_uri.strip_prefix("http://127.0.0.1:")?.strip_suffix(PATH)?.parse().ok()?;
        Self::bind(Some(port)).await.ok()
    }

    /// The port that the browser comes back to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The redirect URI.
    pub fn redirect_uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// The redirect that belongs to this login. Others are refused.
    pub async fn response_to(&self, pending: &PendingLogin) -> std::io::Result<AuthorizationResponse> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    // One connection that fails says nothing about the next; where no descriptor is free, one may be soon.
                    let Ok((stream, _)) = accepted else {
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    };
                    connections.spawn(tokio::time::timeout(CONNECTION_TIMEOUT, request(stream)));
                }
                Some(read) = connections.join_next() => {
                    let Ok(Ok(Some((mut stream, target)))) = read else { continue };
                    let response = response_of(&target).filter(|response| pending.is_answered_by(response));
                    let page = if response.is_some() { RECEIVED } else { REFUSED };
                    let answer = answer(&mut stream, page);
                    // A browser that does not read holds nothing up.
                    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, answer).await;
                    if let Some(response) = response {
                        return Ok(response);
                    }
                }
            }
        }
    }
}

struct Page {
    status: &'static str,
    text: &'static str,
}

const RECEIVED: Page = Page {
    status: "200 OK",
    text: "Toolgate has received the answer. You can close this page and go back to where you began.",
};
const REFUSED: Page = Page { status: "400 Bad Request", text: "This is not the answer that Toolgate waits for." };

/// The target of a request, once all of its head is there: a connection that is closed earlier would be reset.
async fn request(mut stream: TcpStream) -> Option<(TcpStream, String)> {
    let mut received = Vec::new();
    let mut chunk = [0; 4096];
    while !received.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        received.extend_from_slice(chunk.get(..read)?);
        if received.len() > MAX_REQUEST_BYTES {
            return None;
        }
    }
    let line = received.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let target = if method == "GET" { target.to_owned() } else { String::new() };
    Some((stream, target))
}

fn response_of(target: &str) -> Option<AuthorizationResponse> {
    let (path, query) = target.split_once('?')?;
    if path != PATH {
        return None;
    }
    AuthorizationResponse::from_query(query).ok()
}

async fn answer(stream: &mut TcpStream, page: Page) -> std::io::Result<()> {
    let Page { status, text } = page;
    let body = format!("<!doctype html><meta charset=utf-8><title>Toolgate</title><p>{text}</p>\n");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         content-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\ncache-control: no-store\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.shutdown().await
}
