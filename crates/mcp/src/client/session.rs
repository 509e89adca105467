//! A connection after the handshake: lists, calls, probes.
//!
//! Adds to every request what the negotiated revision requires. Results stay raw; nothing is retried.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::handshake::Ready;
use super::handshake::{self, Negotiated};
use super::link::{Link, Transport};
use super::list_cache::{CachedList, ItemList, ListCache};
use super::requests::{ClientRequest, ListKind};
use crate::headers;
use crate::interaction::{InteractiveClient, Progress};
use crate::protocol::Era;
use crate::rpc::{LinkError, OutgoingRequest, Protocol};

/// The most pages of a list; guards against endless paging.
const MAX_PAGES: usize = 1000;
/// The most tools of a server; further ones are dropped.
const MAX_TOOLS: usize = 20_000;
/// The longest tool name; tools with longer ones are dropped.
const MAX_NAME_BYTES: usize = 1024;
/// How long a server that does not declare tools may take to list some.
const UNDECLARED_TOOLS_TIMEOUT: Duration = Duration::from_secs(2);

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

    /// Every tool that the server lists, as sent; of several with one name, the first.
    pub async fn list_tools(&self, scope: Duration) -> Result<Vec<Value>, LinkError> {
        if self.capability("tools").is_some() {
            return self.list_pages(scope).await;
        }
        // Some servers do not declare the tools they have, so try; a failure then means that there are none.
        Ok(self.list_pages(scope.min(UNDECLARED_TOOLS_TIMEOUT)).await.unwrap_or_default())
    }

    async fn list_pages(&self, scope: Duration) -> Result<Vec<Value>, LinkError> {
        let mut listed = Listed::default();
        self.read_pages("tools/list", "tools", scope, |tool| listed.add(tool)).await?;
        Ok(listed.tools)
    }

    async fn read_pages(
        &self,
        method: &'static str,
        key: &str,
        within: Duration,
        mut add: impl FnMut(Value),
    ) -> Result<(), LinkError> {
        let mut cursors = HashSet::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let mut params = Map::new();
            params.extend(cursor.take().map(|cursor| ("cursor".to_owned(), Value::String(cursor))));
            let request = self.draft(method, params);
            let late = |_| LinkError::Protocol(format!("the list of {key} timed out"));
            let mut result = timeout(within, self.link.request(&request)).await.map_err(late)??;
            let Some(Value::Array(entries)) = result.get_mut(key).map(Value::take) else {
                return Err(LinkError::Protocol(format!("the result of {method} has no `{key}`")));
            };
            entries.into_iter().for_each(&mut add);
            match result.get("nextCursor").and_then(Value::as_str) {
                // A repeated cursor would loop.
                Some(next) if cursors.insert(next.to_owned()) => cursor = Some(next.to_owned()),
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
            self.read_pages(kind.method(), kind.key(), scope, |entry| list.add(entry, kind)).await?;
        }
        let cached = CachedList { list: Arc::new(list), version, since: Instant::now() };
        Ok(Arc::clone(&slot.insert(cached).list))
    }

    /// Sends a request and returns the raw result. Dropping the future cancels it.
    pub async fn ask(&self, request_: ClientRequest, client: Option<&InteractiveClient>) -> Result<Value, LinkError> {
        let method = request_.method();
        let target = request_.target().map(str::to_owned);
        let mut request = self.draft(method, request_.into_params());
        if self.is_modern_http()
            && let Some(target) = target
        {
            request.headers = headers::of_target(method, &target);
        }
        if let Some(client) = client {
            self.add_client_answers(client, &mut request);
        }
        self.link.request(&request).await
    }

    /// Adds the client's capabilities and its input. Legacy servers request input in another way, which is not supported.
    fn add_client_answers(&self, client: &InteractiveClient, request: &mut OutgoingRequest) {
        if self.ready.era == Era::Legacy {
            return;
        }
        if let Some(Value::Object(meta)) = request.params.get_mut("_meta") {
            meta.insert(crate::protocol::META_CAPABILITIES.to_owned(), Value::Object(client.capabilities().clone()));
        }
        request.params.extend(client.answers().clone());
    }

    /// Calls a tool and returns the raw result. Dropping the future cancels the call.
    pub async fn call(
        &self,
        tool: ToolName<'_>,
        arguments: Map<String, Value>,
        client: Option<&InteractiveClient>,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Value, LinkError> {
        let mut request = self.draft("tools/call", Map::new());
        if let Some(client) = client {
            self.add_client_answers(client, &mut request);
        }
        if self.is_modern_http() {
            request.headers = headers::of_call(tool.name, tool.input_schema, &arguments);
        }
        if progress.is_some() {
            let meta = request.params.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                meta.insert("progressToken".to_owned(), request.id.into());
            }
        }
        request.params.insert("name".to_owned(), tool.name.into());
        request.params.insert("arguments".to_owned(), Value::Object(arguments));
        let _listening = self.link.inbox.watch_progress(request.id, progress);
        self.link.request(&request).await
    }

    /// Checks that the server replies. An error reply counts.
    pub async fn probe(&self, within: Duration) -> Result<(), LinkError> {
        let method = match self.ready.era {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        };
        let timed_out = |_| LinkError::Protocol("the server no longer replies".to_owned());
        match timeout(within, self.link.request(&self.draft(method, Map::new()))).await.map_err(timed_out)? {
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

/// Collects tools page by page.
#[derive(Debug, Default)]
struct Listed {
    tools: Vec<Value>,
    names: HashSet<String>,
}

impl Listed {
    /// Adds a tool with a valid name; of several with one name, the first is kept.
    fn add(&mut self, raw: Value) {
        let Some(name) = raw.get("name").and_then(Value::as_str) else { return };
        let usable = !name.is_empty() && name.len() <= MAX_NAME_BYTES;
        if !usable || self.tools.len() >= MAX_TOOLS || !self.names.insert(name.to_owned()) {
            return;
        }
        self.tools.push(raw);
    }
}
