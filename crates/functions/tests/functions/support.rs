//! A server that counts who reaches it, resolvers that lie, and one way to ask.

use axum::Router;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolgate_functions::http::{AllowList, Egress, Fetcher, Guard, HttpLimits, Lookup, Resolver};
use toolgate_functions::weather::WeatherSettings;
use toolgate_functions::{CallContext, FunctionError, Registry, builtin};

/// Answers every name from a list of answers, one after the other; the last one is repeated.
pub(crate) struct Liar {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    pub(crate) asked: AtomicUsize,
}

impl Liar {
    pub(crate) fn saying(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().expect("an address")).collect();
        Arc::new(Self { answers: Mutex::new(answers.iter().map(parse).collect()), asked: AtomicUsize::new(0) })
    }
}

impl Resolver for Liar {
    fn lookup(&self, _: String) -> Lookup {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().expect("not poisoned");
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(std::future::ready(Ok(answer.unwrap_or_default())))
    }
}

/// The built-in functions behind a guard.
pub(crate) struct Client {
    registry: Registry,
    guard: Guard,
    limits: HttpLimits,
}

impl Client {
    pub(crate) fn new(allow: &[&str], resolver: Arc<dyn Resolver>, limits: HttpLimits) -> Self {
        let allow = AllowList::parse(allow).expect("a good list");
        Self::behind(Guard::with_resolver(allow, resolver), limits)
    }

    fn behind(guard: Guard, limits: HttpLimits) -> Self {
        let fetcher = Fetcher::new(guard.clone(), limits.clone());
        let registry = builtin::registry(Some(&fetcher), Some(&WeatherSettings::default()));
        Self { registry: registry.expect("sound signatures"), guard, limits }
    }

    /// The same client for fewer hosts.
    pub(crate) fn through(self, egress: Egress) -> Self {
        Self::behind(self.guard.with_egress(egress), self.limits)
    }

    /// The error of a request that fails.
    pub(crate) async fn fail(&self, request: Value) -> FunctionError {
        self.fail_within(CallContext::default(), request).await
    }

    pub(crate) async fn fail_within(&self, context: CallContext, request: Value) -> FunctionError {
        self.registry.call("httpCall", context, vec![request]).await.expect_err("a failure")
    }

    /// A client that may reach 127.0.0.1, under whatever name.
    pub(crate) fn local() -> Self {
        Self::limited(HttpLimits::default())
    }

    pub(crate) fn limited(limits: HttpLimits) -> Self {
        Self::new(&["127.0.0.1"], Liar::saying(&[&["127.0.0.1"]]), limits)
    }

    /// The response, or `{code, message}`.
    pub(crate) async fn send(&self, request: Value) -> Value {
        self.send_within(CallContext::default(), request).await
    }

    pub(crate) async fn send_within(&self, context: CallContext, request: Value) -> Value {
        self.registry.call("httpCall", context, vec![request]).await.unwrap_or_else(|error| error.to_json())
    }

    /// The response of `api.fetch(url, init)`.
    pub(crate) async fn fetch(&self, args: Value) -> Value {
        let Value::Array(args) = args else { panic!("arguments are a list") };
        let answer = self.registry.call("api.fetch", CallContext::default(), args).await;
        answer.unwrap_or_else(|error| error.to_json())
    }

    /// Only the error code, or the status.
    pub(crate) async fn verdict(&self, url: &str) -> Value {
        let answer = self.send(json!({ "url": url })).await;
        answer.get("code").or(answer.get("status")).cloned().unwrap_or_default()
    }
}

/// Serves an axum router on a free port of 127.0.0.1.
pub(crate) async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    at
}

/// Accepts connections, counts them, and lets `talk` do the rest with the request already read up to its blank line.
pub(crate) async fn serve_raw<F, T>(address: &str, talk: F) -> (SocketAddr, Arc<AtomicUsize>)
where
    F: Fn(TcpStream, String) -> T + Send + Sync + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(address).await.expect("a free port");
    let at = listener.local_addr().expect("an address");
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let talk = Arc::new(talk);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let talk = talk.clone();
            tokio::spawn(async move {
                let head = read_head(&mut stream).await;
                talk(stream, head).await;
            });
        }
    });
    (at, count)
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// A server that gives every request this answer and closes.
pub(crate) async fn serve_bytes(answer: Vec<u8>) -> SocketAddr {
    let talk = move |mut stream: TcpStream, _| {
        let answer = answer.clone();
        async move {
            let _ = stream.write_all(&answer).await;
        }
    };
    serve_raw("127.0.0.1:0", talk).await.0
}
