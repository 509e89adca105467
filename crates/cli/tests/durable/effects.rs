//! An HTTP backend inside the test's process. It counts effects, and keeps counting when a server is killed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Effects by the run and the number that a program gave them.
pub(crate) type Counts = BTreeMap<String, u32>;

/// An HTTP server whose functions have effects.
#[derive(Clone)]
pub(crate) struct Effects {
    pub(crate) at: SocketAddr,
    counts: Arc<Mutex<Counts>>,
    /// The idempotency keys of calls, as they came.
    keys: Arc<Mutex<Vec<Option<String>>>>,
    total: watch::Sender<u64>,
    /// Whether a program has told by a read that an effect of it was refused, and how.
    refused: watch::Sender<Option<String>>,
}

impl Effects {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let effects = Effects {
            at: listener.local_addr().expect("an address"),
            counts: Arc::default(),
            keys: Arc::default(),
            total: watch::Sender::new(0),
            refused: watch::Sender::new(None),
        };
        let serving = effects.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        effects
    }

    /// The configuration of its functions: `find` reads, the others have effects; `hang` does not answer the first time.
    pub(crate) fn functions(&self) -> Value {
        let at = self.at;
        let function = |path: &str, method: &str| json!({ "url": format!("http://{at}/{path}"), "method": method });
        let effect = |path: &str| function(path, "POST");
        json!({
            "find": function("find", "GET"), "save": effect("save"), "broken": effect("broken"), "hang": effect("hang"),
            "wire": effect("wire"),
        })
    }

    /// What was done so far to this run.
    pub(crate) fn of(&self, run: &str) -> Counts {
        let prefix = format!("{run}/");
        let counts = self.counts.lock().expect("a lock");
        let own = counts.iter().filter(|(key, _)| key.starts_with(&prefix));
        own.map(|(key, count)| (key[prefix.len()..].to_owned(), *count)).collect()
    }

    /// The idempotency keys of calls, as they came.
    pub(crate) fn keys(&self) -> Vec<Option<String>> {
        self.keys.lock().expect("a lock").clone()
    }

    /// How many effects there were.
    pub(crate) fn total(&self) -> u64 {
        *self.total.borrow()
    }

    /// Waits until there were so many.
    pub(crate) async fn reached(&self, total: u64) {
        self.total.subscribe().wait_for(|now| *now >= total).await.expect("the sender is here");
    }

    /// Waits until a program tells by a read how an effect of it was refused.
    pub(crate) async fn refused(&self) -> String {
        let mut refused = self.refused.subscribe();
        let told = refused.wait_for(Option::is_some).await.expect("the sender is here");
        told.clone().expect("it is told")
    }

    async fn serve(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        loop {
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                    return;
                }
                if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = bytes.trim().parse().expect("a length");
                }
                if line == "\r\n" {
                    break;
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).await.is_err() {
                return;
            }
            let (status, reply) = self.answer(&head, &body);
            if status.is_empty() {
                // Until the other end is gone.
                let _ = stream.read_u8().await;
                return;
            }
            let reply = reply.to_string();
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{reply}",
                reply.len()
            );
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// The status and the body of an answer. The status is empty if the server did not answer.
    fn answer(&self, head: &str, body: &[u8]) -> (&'static str, Value) {
        if let Some(query) = head.strip_prefix("GET /find") {
            let told = query.lines().next().and_then(|line| line.split_once("refused-")).map(|(_, told)| told);
            if let Some(told) = told {
                self.refused.send_replace(Some(told.to_owned()));
            }
            return ("200 OK", json!({ "found": 1 }));
        }
        let args: Value = serde_json::from_slice(body).expect("JSON");
        let call = &args["args"][0];
        let key = format!("{}/{}", call["run"].as_str().expect("a run"), call["k"]);
        let times = {
            let mut counts = self.counts.lock().expect("a lock");
            let times = counts.entry(key).or_default();
            *times += 1;
            *times
        };
        let sent = head.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).map(str::to_owned);
        self.keys.lock().expect("a lock").push(sent);
        self.total.send_modify(|total| *total += 1);
        if head.starts_with("POST /hang") && times == 1 {
            return ("", Value::Null);
        }
        if head.starts_with("POST /broken") {
            ("500 Broken", json!({}))
        } else {
            ("200 OK", json!({ "saved": call["k"] }))
        }
    }
}
