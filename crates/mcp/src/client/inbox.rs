//! What a backend says unasked: progress, changed lists, questions.
//!
//! Requests get an honest answer. We declare no client capability to a legacy backend, so sampling, roots and
//! elicitation are refused as unknown methods; only `ping` is served.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};

use super::offers::Offer;
use super::watchlist::Watchlist;
use crate::interaction::Progress;
use crate::protocol::META_SUBSCRIPTION;
use crate::rpc;

/// The longest progress message that is passed on, in characters.
const LONGEST_MESSAGE: usize = 1000;

/// Everything that arrives on a connection besides answers.
#[derive(Debug)]
pub struct Inbox {
    listeners: Mutex<HashMap<u64, mpsc::Sender<Progress>>>,
    born: Instant,
    /// When the last message came, in milliseconds of the inbox's life.
    heard: AtomicU64,
    /// Wakes when the list of tools changed; many changes may be one wake.
    pub tools_changed: Notify,
    /// The same of its resources.
    pub resources_changed: Notify,
    /// The same of its prompts.
    pub prompts_changed: Notify,
    /// Grows with every change of the list of resources, or when one may have gone by unheard.
    resources: AtomicU64,
    /// The same of its prompts.
    prompts: AtomicU64,
    /// Whether changes are heard of now.
    attends: AtomicBool,
    /// The request for news that was acknowledged last, and which watched resources it covers.
    acknowledged: watch::Sender<(u64, HashSet<String>)>,
    watched: Arc<Watchlist>,
    /// Lines or bodies that were no message.
    pub garbage: AtomicU64,
    /// Replies to no request that is open.
    pub stray: AtomicU64,
}

impl Inbox {
    /// An inbox that passes on changes of these resources.
    pub fn new(watched: Arc<Watchlist>) -> Self {
        Self {
            listeners: Mutex::default(),
            born: Instant::now(),
            heard: AtomicU64::new(0),
            tools_changed: Notify::new(),
            resources_changed: Notify::new(),
            prompts_changed: Notify::new(),
            resources: AtomicU64::new(0),
            prompts: AtomicU64::new(0),
            attends: AtomicBool::new(false),
            acknowledged: watch::Sender::default(),
            watched,
            garbage: AtomicU64::new(0),
            stray: AtomicU64::new(0),
        }
    }

    /// Something readable came.
    pub fn touch(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
    }

    /// How long nothing came.
    pub fn silence(&self) -> Duration {
        self.born.elapsed().saturating_sub(Duration::from_millis(self.heard.load(Ordering::Relaxed)))
    }

    /// Passes progress of request `token` on until the guard is dropped.
    pub fn listen(&self, token: u64, sink: Option<mpsc::Sender<Progress>>) -> Listening<'_> {
        if let Some(sink) = sink {
            self.lock().insert(token, sink);
        }
        Listening { inbox: self, token }
    }

    /// Changes are heard of from now on; those before may not have been.
    pub fn start_listening(&self) {
        if !self.attends.swap(true, Ordering::AcqRel) {
            self.outdate();
        }
    }

    /// Changes are not heard of any more.
    pub fn stop_listening(&self) {
        self.attends.store(false, Ordering::Release);
        self.outdate();
        self.tools_changed.notify_one();
    }

    /// Whether a change would be heard of.
    pub fn is_listening(&self) -> bool {
        self.attends.load(Ordering::Acquire)
    }

    /// A number that is another one when a list of this kind may be another one.
    pub fn edition(&self, offer: Offer) -> u64 {
        match offer {
            Offer::Resources | Offer::Templates => self.resources.load(Ordering::Acquire),
            Offer::Prompts => self.prompts.load(Ordering::Acquire),
        }
    }

    /// Waits until the backend says what it will tell of, by request `id`: these of the watched resources.
    pub async fn acknowledged(&self, id: u64) -> HashSet<String> {
        let mut acknowledged = self.acknowledged.subscribe();
        let found = acknowledged.wait_for(|found| found.0 == id).await;
        found.map(|found| found.1.clone()).unwrap_or_default()
    }

    fn acknowledge(&self, params: &Value) {
        self.start_listening();
        let id = params.get("_meta").and_then(|meta| meta.get(META_SUBSCRIPTION)).and_then(rpc::number);
        let granted = params.pointer("/notifications/resourceSubscriptions").and_then(Value::as_array);
        let granted = granted.into_iter().flatten().filter_map(Value::as_str).filter(|uri| self.watched.has(uri));
        if let Some(id) = id {
            self.acknowledged.send_replace((id, granted.map(str::to_owned).collect()));
        }
    }

    fn outdate(&self) {
        self.resources.fetch_add(1, Ordering::Release);
        self.prompts.fetch_add(1, Ordering::Release);
    }

    /// Takes a notification in.
    pub fn notice(&self, method: &str, params: &Value) {
        match method {
            "notifications/tools/list_changed" => self.tools_changed.notify_one(),
            "notifications/resources/list_changed" => {
                self.resources.fetch_add(1, Ordering::Release);
                self.resources_changed.notify_one();
            }
            "notifications/prompts/list_changed" => {
                self.prompts.fetch_add(1, Ordering::Release);
                self.prompts_changed.notify_one();
            }
            "notifications/resources/updated" => {
                if let Some(uri) = params.get("uri").and_then(Value::as_str) {
                    self.watched.note(uri);
                }
            }
            "notifications/subscriptions/acknowledged" => self.acknowledge(params),
            "notifications/progress" => self.progress(params),
            _ => tracing::trace!(method, "notification not used"),
        }
    }

    /// Answers a question.
    pub fn answer(&self, id: &Value, method: &str) -> Value {
        if method == "ping" {
            return json!({ "jsonrpc": "2.0", "id": id, "result": {} });
        }
        let error = json!({ "code": -32601, "message": "this client has no such method" });
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }

    fn progress(&self, params: &Value) {
        let token = params.get("progressToken");
        let token = token.and_then(|token| token.as_u64().or_else(|| token.as_str()?.parse().ok()));
        let Some(progress) = params.get("progress").and_then(Value::as_f64) else { return };
        let message = params.get("message").and_then(Value::as_str);
        let news = Progress {
            progress,
            total: params.get("total").and_then(Value::as_f64),
            message: message.map(|text| text.chars().take(LONGEST_MESSAGE).collect()),
        };
        if let Some(sink) = token.and_then(|token| self.lock().get(&token).cloned()) {
            // A caller that can't keep up misses some news; the backend is not held up for it.
            let _ = sink.try_send(news);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, mpsc::Sender<Progress>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Progress of one request is passed on while this lives.
#[derive(Debug)]
pub struct Listening<'a> {
    inbox: &'a Inbox,
    token: u64,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.inbox.lock().remove(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_goes_to_the_call_that_listens() {
        let inbox = Inbox::new(Arc::default());
        let (sink, mut news) = mpsc::channel(4);
        let listening = inbox.listen(7, Some(sink));
        inbox.notice("notifications/progress", &json!({ "progressToken": 8, "progress": 1 }));
        inbox.notice("notifications/progress", &json!({ "progressToken": "7", "progress": 2, "total": 4 }));
        drop(listening);
        inbox.notice("notifications/progress", &json!({ "progressToken": 7, "progress": 3 }));
        assert_eq!(news.try_recv(), Ok(Progress { progress: 2.0, total: Some(4.0), message: None }));
        assert!(news.try_recv().is_err());
    }

    #[test]
    fn only_a_ping_is_served() {
        let inbox = Inbox::new(Arc::default());
        assert_eq!(inbox.answer(&json!("a"), "ping"), json!({ "jsonrpc": "2.0", "id": "a", "result": {} }));
        for method in ["sampling/createMessage", "elicitation/create", "roots/list"] {
            assert_eq!(inbox.answer(&json!(1), method)["error"]["code"], json!(-32601));
        }
    }
}
