//! A connection after the handshake: lists, calls, probes.
//!
//! Adds to every request what the negotiated revision requires. Results of tools stay text, lists are read entry by entry;
//! nothing is retried.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolgate_json::{self as json, Shape};
use toolgate_wire::ByteBudget;

use super::handshake::Ready;
use super::handshake::{self, Negotiated};
use super::link::{Link, Transport};
use super::list_cache::{CachedList, ItemList, ListCache};
use super::requests::{ClientRequest, ListKind};
use super::tool_listing::{AddMore, MAX_ENTRY_BYTES, ToolCollector, ToolListing};
use crate::buffer::process_budget;
use crate::headers;
use crate::interaction::{InteractiveClient, Progress};
use crate::json_text::tree_bytes;
use crate::origin::TraceContext;
use crate::protocol::Era;
use crate::result::ToolResult;
use crate::rpc::{LinkError, OutgoingRequest, Protocol};

/// The most pages of a list; guards against endless paging.
const MAX_PAGES: usize = 1000;
/// The longest cursor that is sent back.
const MAX_CURSOR_BYTES: usize = 64 << 10;
/// How long a server that does not declare tools may take to list some.
const UNDECLARED_TOOLS_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a legacy server has to end a call whose question was answered with `cancel`; less where the call ends before.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection after the handshake.
#[derive(Debug)]
pub struct McpSession {
    /// The connection.
    pub link: Arc<Link>,
    /// The negotiated revision.
    pub protocol: Protocol,
    /// What the server declared.
    pub ready: Arc<Ready>,
    list_cache: ListCache,
}

impl McpSession {
    /// Runs the handshake on a connection.
    pub async fn open(link: Arc<Link>, hint: Option<Era>) -> Result<Self, LinkError> {
        let Negotiated { protocol, era, server } = handshake::negotiate(&link, hint).await?;
        let ready = Arc::new(Ready { era, server, since: Instant::now() });
        let session = Self { link, protocol, ready, list_cache: ListCache::default() };
        // A legacy child sends notifications on the same pipe; other servers need a stream or a subscription first.
        if matches!((&session.link.transport, era), (Transport::Stdio(_), Era::Legacy)) {
            session.link.inbox.start_listening();
        }
        Ok(session)
    }

    /// The tools that the server lists, as sent; of several with one name, the first.
    pub async fn list_tools(&self, scope: Duration) -> Result<ToolListing, LinkError> {
        if self.capability("tools").is_some() {
            return self.list_pages(scope).await;
        }
        // Some servers do not declare the tools they have, so try; a failure then means that there are none.
        Ok(self.list_pages(scope.min(UNDECLARED_TOOLS_TIMEOUT)).await.unwrap_or_default())
    }

    async fn list_pages(&self, scope: Duration) -> Result<ToolListing, LinkError> {
        let mut tools = ToolCollector::new(self.is_modern_http());
        self.read_pages("tools/list", "tools", scope, |tool| tools.add(tool)).await?;
        Ok(tools.finish())
    }

    async fn read_pages(
        &self,
        method: &'static str,
        key: &str,
        within: Duration,
        mut add: impl FnMut(json::Value<'_>) -> AddMore,
    ) -> Result<(), LinkError> {
        let mut cursors = HashSet::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let mut params = Map::new();
            params.extend(cursor.take().map(|cursor| ("cursor".to_owned(), Value::String(cursor))));
            let request = self.draft(method, params);
            let late = |_| LinkError::Protocol(format!("the list of {key} timed out"));
            let result = timeout(within, self.link.request(request)).await.map_err(late)??;
            let result = result.value();
            let Some(entries) = result.member(key).filter(|entries| entries.shape() == Shape::Array) else {
                return Err(LinkError::Protocol(format!("the result of {method} has no `{key}`")));
            };
            let is_full = entries.entries().map(|entry| add(entry.value)).any(|more| more == AddMore::No);
            let next = result.member("nextCursor").filter(|next| next.shape() == Shape::String && !is_full);
            match next.map(|next| json::unquote(next.text()).into_owned()) {
                // A repeated cursor would loop.
                Some(next) if next.len() <= MAX_CURSOR_BYTES && cursors.insert(next.clone()) => cursor = Some(next),
                _ => break,
            }
        }
        Ok(())
    }

    /// Whether the server declares this list.
    pub fn has(&self, kind: ListKind) -> bool {
        self.capability(kind.capability()).is_some()
    }

    /// A list of the server, from the cache while that is fresh.
    pub async fn list(&self, kind: ListKind, scope: Duration) -> Result<Arc<ItemList>, LinkError> {
        let inbox = &self.link.inbox;
        let mut slot = self.list_cache.slot(kind).await;
        // Read the version before the list: a change in between then makes the cached list stale.
        let version = inbox.version(kind);
        let is_notified = self.declares(kind.capability(), "listChanged") && inbox.is_listening();
        if let Some(cached) = slot.as_ref().filter(|cached| cached.is_fresh(version, is_notified)) {
            return Ok(Arc::clone(&cached.list));
        }
        let mut list = ItemList::default();
        if self.has(kind) {
            let add = |entry: json::Value<'_>| {
                let tree = tree_bytes(entry.text(), MAX_ENTRY_BYTES).ok().and_then(|_| tree_of(entry));
                tree.map_or(AddMore::Yes, |entry| list.add(entry, kind))
            };
            self.read_pages(kind.method(), kind.key(), scope, add).await?;
        }
        let cached = CachedList { list: Arc::new(list), version, since: Instant::now() };
        Ok(Arc::clone(&slot.insert(cached).list))
    }

    /// Sends a request and returns the raw result, counted in a budget. Dropping the future cancels it.
    pub async fn ask(
        &self,
        request_: ClientRequest,
        client: Option<&InteractiveClient>,
        budget: ByteBudget,
        trace: &TraceContext,
    ) -> Result<ToolResult, LinkError> {
        let method = request_.method();
        let target = request_.target().map(str::to_owned);
        let mut request = self.draft(method, request_.into_params());
        request.budget = budget;
        if self.is_modern_http()
            && let Some(target) = target
        {
            request.headers = headers::of_target(method, &target);
        }
        if let Some(client) = client {
            self.add_client_answers(client, &mut request);
        }
        if *trace != TraceContext::default() {
            let meta = request.params.entry("_meta").or_insert_with(|| json!({}));
            meta.as_object_mut().into_iter().for_each(|meta| trace.add_to(meta));
        }
        self.link.request(request).await.map(ToolResult::new)
    }

    /// Adds the client's capabilities and its input. Legacy servers request input in another way: see `questions`.
    fn add_client_answers(&self, client: &InteractiveClient, request: &mut OutgoingRequest) {
        if self.ready.era == Era::Legacy {
            return;
        }
        if let Some(Value::Object(meta)) = request.params.get_mut("_meta") {
            meta.insert(crate::protocol::META_CAPABILITIES.to_owned(), Value::Object(client.capabilities().clone()));
        }
        request.params.extend(client.answers().clone());
    }

    /// Calls a tool and returns the result as the server wrote it. Dropping the future cancels the call.
    pub async fn call(
        &self,
        tool: ToolName<'_>,
        arguments: Map<String, Value>,
        options: ToolCallOptions<'_>,
    ) -> Result<ToolResult, LinkError> {
        let ToolCallOptions { client, may_repeat, progress, budget, idempotency_key, trace, deadline } = options;
        let mut request = self.draft("tools/call", Map::new());
        request.budget = budget;
        if let Some(client) = client {
            self.add_client_answers(client, &mut request);
        }
        if self.is_modern_http() {
            request.headers = headers::of_call(tool.name, tool.input_schema, &arguments);
        }
        if progress.is_some() || trace != TraceContext::default() {
            let meta = request.params.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                if progress.is_some() {
                    meta.insert("progressToken".to_owned(), request.id.into());
                }
                trace.add_to(meta);
            }
        }
        if let Some(key) = idempotency_key {
            let meta = request.params.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                meta.insert(META_IDEMPOTENCY_KEY.to_owned(), key.into());
            }
        }
        request.params.insert("name".to_owned(), tool.name.into());
        request.params.insert("arguments".to_owned(), Value::Object(arguments));
        let _listening = self.link.inbox.watch_progress(request.id, progress);
        if self.ready.era == Era::Modern {
            return self.link.request(request).await.map(ToolResult::new);
        }
        let mut questions = self.link.inbox.open_calls.open(request.id, client.filter(|_| may_repeat));
        let mut reply = std::pin::pin!(self.link.request(request));
        tokio::select! {
            // A server that is told to stop may answer before this is polled: its question counts.
            biased;
            asked = questions.asked() => {
                // Until it replies, what it asks may belong to this call. Half of the time that is left is kept to return
                // the question: a call that ends at its deadline would lose it.
                let left = deadline.map(|deadline| deadline.saturating_duration_since(tokio::time::Instant::now()) / 2);
                if timeout(left.map_or(STOP_TIMEOUT, |left| left.min(STOP_TIMEOUT)), reply).await.is_ok() {
                    questions.settled();
                }
                Ok(asked)
            }
            result = &mut reply => {
                questions.settled();
                // Question and reply may both have come since it was looked for a question.
                match questions.was_asked() {
                    Some(asked) => Ok(asked),
                    None => result.map(ToolResult::new),
                }
            }
        }
    }

    /// Checks that the server replies. An error reply counts.
    pub async fn probe(&self, within: Duration) -> Result<(), LinkError> {
        let method = match self.ready.era {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        };
        let timed_out = |_| LinkError::Protocol("the server no longer replies".to_owned());
        match timeout(within, self.link.request(self.draft(method, Map::new()))).await.map_err(timed_out)? {
            Ok(_) | Err(LinkError::Rejected(_) | LinkError::Http { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the server declares this feature of a capability.
    pub(crate) fn declares(&self, capability: &str, feature: &str) -> bool {
        self.capability(capability).and_then(|declared| declared.get(feature)) == Some(&Value::Bool(true))
    }

    /// A request with everything that the negotiated revision requires.
    pub(crate) fn draft(&self, method: &'static str, mut params: Map<String, Value>) -> OutgoingRequest {
        if self.ready.era == Era::Modern {
            params.insert("_meta".to_owned(), Value::Object(handshake::modern_meta()));
        }
        let mut request = self.link.draft(method, params, self.protocol.clone());
        if self.is_modern_http() {
            request.headers = headers::of_method(method);
        }
        request
    }

    fn is_modern_http(&self) -> bool {
        self.ready.era == Era::Modern && matches!(self.link.transport, Transport::Http(_))
    }

    /// Whether the session can expire at the server.
    pub fn may_expire(&self) -> bool {
        self.ready.era == Era::Legacy && matches!(self.link.transport, Transport::Http(_))
    }

    fn capability(&self, name: &str) -> Option<&Value> {
        self.ready.server.capabilities.get(name)
    }
}

/// A tool to call.
#[derive(Debug, Clone, Copy)]
pub struct ToolName<'a> {
    /// Its name, as the server lists it.
    pub name: &'a str,
    /// Its input schema, which marks the arguments that headers repeat.
    pub input_schema: &'a Value,
}

/// The key in `_meta` of a call.
const META_IDEMPOTENCY_KEY: &str = "toolgate/idempotency-key";

/// What a tool call may use besides its arguments.
#[derive(Debug)]
pub struct ToolCallOptions<'a> {
    /// The client that the server may ask for input, if there is one.
    pub client: Option<&'a InteractiveClient>,
    /// Whether a call that a legacy server interrupts with a question may be made again once there is an answer.
    pub may_repeat: bool,
    /// Receives progress; a full channel loses reports.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Counts the bytes of the call and of its reply: the budget of a run or of a caller.
    pub budget: ByteBudget,
    /// The same for a call that is sent again; a server that knows it makes the call once.
    pub idempotency_key: Option<String>,
    /// The trace that the call belongs to; the server finds it in `_meta`.
    pub trace: TraceContext,
    /// When the caller drops the call. A question of the server is returned before.
    pub deadline: Option<tokio::time::Instant>,
}

impl Default for ToolCallOptions<'_> {
    /// No client, no progress, no deadline, the budget of this process.
    fn default() -> Self {
        Self {
            client: None,
            may_repeat: false,
            progress: None,
            budget: process_budget().clone(),
            idempotency_key: None,
            trace: TraceContext::default(),
            deadline: None,
        }
    }
}

fn tree_of(entry: json::Value<'_>) -> Option<Value> {
    serde_json::from_str(entry.text()).ok()
}
