//! Handles what a server sends besides replies: progress, changed lists, changed resources, requests.
//!
//! Of requests `ping` is served, and `elicitation/create` where the call that asks may be asked about (`questions`). Sampling and
//! roots are refused as unknown methods.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use toolgate_wire::foreign_text::head;

use super::questions::OpenCalls;
use super::requests::ListKind;
use super::watchlist::Watchlist;
use crate::interaction::Progress;
use crate::protocol::{ErrorCode, META_SUBSCRIPTION};
use crate::rpc;

/// The most characters of a progress message that are passed on.
const MAX_PROGRESS_CHARS: usize = 1000;

/// The notifications and requests of one connection.
#[derive(Debug)]
pub struct Inbox {
    listeners: Mutex<HashMap<u64, mpsc::Sender<Progress>>>,
    born: Instant,
    /// When the last message was received, in milliseconds since `born`.
    last_message_ms: AtomicU64,
    /// Notified when the list of tools changed; several changes may be one notification.
    pub tools_changed: Notify,
    /// The same for resources.
    pub resources_changed: Notify,
    /// The same for prompts.
    pub prompts_changed: Notify,
    /// Version counter of the list of resources; also grows when a change may have been missed.
    resources: AtomicU64,
    /// The same for prompts.
    prompts: AtomicU64,
    /// Whether the server's notifications reach this connection now.
    listening: AtomicBool,
    /// The last acknowledged `subscriptions/listen` request, and the watched resources it covers.
    acknowledged: watch::Sender<(u64, HashSet<String>)>,
    watched: Arc<Watchlist>,
    /// The calls that a legacy server may ask about.
    pub(crate) open_calls: OpenCalls,
    /// Lines or bodies that were not a message.
    pub malformed: AtomicU64,
    /// Replies whose request was not waiting.
    pub unmatched_replies: AtomicU64,
}

impl Inbox {
    /// An inbox that reports changes of these resources.
    pub fn new(watched: Arc<Watchlist>) -> Self {
        Self {
            listeners: Mutex::default(),
            born: Instant::now(),
            last_message_ms: AtomicU64::new(0),
            tools_changed: Notify::new(),
            resources_changed: Notify::new(),
            prompts_changed: Notify::new(),
            resources: AtomicU64::new(0),
            prompts: AtomicU64::new(0),
            listening: AtomicBool::new(false),
            acknowledged: watch::Sender::default(),
            watched,
            open_calls: OpenCalls::default(),
            malformed: AtomicU64::new(0),
            unmatched_replies: AtomicU64::new(0),
        }
    }

    /// Records that a message was received.
    pub(crate) fn touch(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_message_ms.store(now, Ordering::Relaxed);
    }

    /// The time since the last message.
    pub fn silence(&self) -> Duration {
        self.born.elapsed().saturating_sub(Duration::from_millis(self.last_message_ms.load(Ordering::Relaxed)))
    }

    /// Forwards progress of request `token` until the guard is dropped.
    pub(crate) fn watch_progress(&self, token: u64, sink: Option<mpsc::Sender<Progress>>) -> ProgressWatch<'_> {
        if let Some(sink) = sink {
            self.listeners.lock().insert(token, sink);
        }
        ProgressWatch { inbox: self, token }
    }

    /// Notifications arrive from now on; earlier changes may have been missed.
    pub(crate) fn start_listening(&self) {
        if !self.listening.swap(true, Ordering::AcqRel) {
            self.bump_versions();
        }
    }

    /// Notifications no longer arrive.
    pub(crate) fn stop_listening(&self) {
        self.listening.store(false, Ordering::Release);
        self.bump_versions();
        self.tools_changed.notify_one();
    }

    /// Whether notifications arrive.
    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    /// Version counter; changes whenever this list may have changed.
    pub(crate) fn version(&self, kind: ListKind) -> u64 {
        match kind {
            ListKind::Resources | ListKind::Templates => self.resources.load(Ordering::Acquire),
            ListKind::Prompts => self.prompts.load(Ordering::Acquire),
        }
    }

    /// Waits until the server acknowledges `subscriptions/listen` request `id`; returns the watched resources it covers.
    pub(crate) async fn acknowledged(&self, id: u64) -> HashSet<String> {
        let mut acknowledged = self.acknowledged.subscribe();
        let found = acknowledged.wait_for(|found| found.0 == id).await;
        found.map(|found| found.1.clone()).unwrap_or_default()
    }

    fn acknowledge(&self, params: &Value) {
        self.start_listening();
        let id = params.get("_meta").and_then(|meta| meta.get(META_SUBSCRIPTION)).and_then(rpc::request_id);
        let granted = params.pointer("/notifications/resourceSubscriptions").and_then(Value::as_array);
        let granted = granted.into_iter().flatten().filter_map(Value::as_str).filter(|uri| self.watched.has(uri));
        if let Some(id) = id {
            self.acknowledged.send_replace((id, granted.map(str::to_owned).collect()));
        }
    }

    fn bump_versions(&self) {
        self.resources.fetch_add(1, Ordering::Release);
        self.prompts.fetch_add(1, Ordering::Release);
    }

    /// Handles a notification.
    pub(crate) fn handle_notification(&self, method: &str, params: &Value) {
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
                    self.watched.mark_updated(uri);
                }
            }
            "notifications/subscriptions/acknowledged" => self.acknowledge(params),
            "notifications/progress" => self.progress(params),
            _ => tracing::trace!(method, "notification not used"),
        }
    }

    /// The reply to a request of the server; `call` is the request in whose stream it came, where that is known.
    pub(crate) fn answer_request(&self, call: Option<u64>, id: &Value, method: &str, params: Value) -> Value {
        let outcome = match method {
            "ping" => Ok(json!({})),
            "elicitation/create" => self.open_calls.answer(call, params),
            _ => Err((ErrorCode::METHOD_NOT_FOUND, "this client does not support the method")),
        };
        match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, message)) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code.0, "message": message } })
            }
        }
    }

    fn progress(&self, params: &Value) {
        let token = params.get("progressToken");
        let token = token.and_then(|token| token.as_u64().or_else(|| token.as_str()?.parse().ok()));
        let Some(progress) = params.get("progress").and_then(Value::as_f64) else { return };
        let message = params.get("message").and_then(Value::as_str);
        let report = Progress {
            progress,
            total: params.get("total").and_then(Value::as_f64),
            message: message.map(|text| head(text, MAX_PROGRESS_CHARS).to_owned()),
        };
        if let Some(sink) = token.and_then(|token| self.listeners.lock().get(&token).cloned()) {
            // A receiver that is full loses reports; the server is not delayed.
            let _ = sink.try_send(report);
        }
    }
}

/// Forwards the progress of one request while it exists.
#[derive(Debug)]
pub(crate) struct ProgressWatch<'a> {
    inbox: &'a Inbox,
    token: u64,
}

impl Drop for ProgressWatch<'_> {
    fn drop(&mut self) {
        self.inbox.listeners.lock().remove(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_goes_to_the_call_with_that_token() {
        let inbox = Inbox::new(Arc::default());
        let (sink, mut news) = mpsc::channel(4);
        let listening = inbox.watch_progress(7, Some(sink));
        inbox.handle_notification("notifications/progress", &json!({ "progressToken": 8, "progress": 1 }));
        inbox
            .handle_notification("notifications/progress", &json!({ "progressToken": "7", "progress": 2, "total": 4 }));
        drop(listening);
        inbox.handle_notification("notifications/progress", &json!({ "progressToken": 7, "progress": 3 }));
        assert_eq!(news.try_recv(), Ok(Progress { progress: 2.0, total: Some(4.0), message: None }));
        assert!(news.try_recv().is_err());
    }

    #[test]
    fn what_nobody_can_be_asked_is_refused_and_a_form_cancelled() {
        let inbox = Inbox::new(Arc::default());
        let answer = |id: Value, method: &str| inbox.answer_request(None, &id, method, json!({}));
        assert_eq!(answer(json!("a"), "ping"), json!({ "jsonrpc": "2.0", "id": "a", "result": {} }));
        for method in ["sampling/createMessage", "roots/list"] {
            assert_eq!(answer(json!(1), method)["error"]["code"], json!(-32601));
        }
        assert_eq!(answer(json!(1), "elicitation/create")["result"]["action"], "cancel");
    }
}
