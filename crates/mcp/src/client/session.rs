//! A conversation with a backend that is up: its tools, what else it lists, calls, and signs of life.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::handshake::Ready;
use super::handshake::{self, Greeting};
use super::link::{Link, Wire};
use super::offers::{Offer, Question};
use super::shelf::{Kept, Offered, Shelf};
use crate::headers;
use crate::interaction::{InteractiveClient, Progress};
use crate::protocol::Era;
use crate::rpc::{LinkError, Outgoing, Protocol};

/// A backend that pages for ever is cut off here.
const MOST_PAGES: usize = 1000;
/// More tools than this are not kept.
const MOST_TOOLS: usize = 20_000;
/// A longer name is no name.
const LONGEST_NAME: usize = 1024;
/// How long a server that declares no tools may take to list some.
const UNDECLARED: Duration = Duration::from_secs(2);

/// A conversation with a backend that is up.
#[derive(Debug)]
pub struct McpSession {
    /// The connection.
    pub link: Arc<Link>,
    /// The revision that was agreed on.
    pub protocol: Protocol,
    /// What the server said about itself.
    pub ready: Arc<Ready>,
    shelf: Shelf,
}

impl McpSession {
    /// Opens the conversation.
    pub async fn open(link: Arc<Link>, hint: Option<Era>) -> Result<Self, LinkError> {
        let Greeting { protocol, era, server } = handshake::greet(&link, hint).await?;
        let ready = Arc::new(Ready { era, server, since: Instant::now() });
        let session = Self { link, protocol, ready, shelf: Shelf::default() };
        // A child says what it has to say without being asked; elsewhere somebody must listen first.
        if matches!((&session.link.wire, era), (Wire::Stdio(_), Era::Legacy)) {
            session.link.inbox.start_listening();
        }
        Ok(session)
    }

    /// Every tool that the server lists, as sent, each name once.
    pub async fn list_tools(&self, scope: Duration) -> Result<Vec<Value>, LinkError> {
        if self.capability("tools").is_some() {
            return self.list_pages(scope).await;
        }
        // Small servers forget to declare their tools; others have none and say so, or nothing.
        Ok(self.list_pages(scope.min(UNDECLARED)).await.unwrap_or_default())
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
        for _ in 0..MOST_PAGES {
            let mut params = Map::new();
            params.extend(cursor.take().map(|cursor| ("cursor".to_owned(), Value::String(cursor))));
            let request = self.draft(method, params);
            let late = |_| LinkError::Protocol(format!("no list of {key} in time"));
            let mut result = timeout(within, self.link.request(&request)).await.map_err(late)??;
            let Some(Value::Array(entries)) = result.get_mut(key).map(Value::take) else {
                return Err(LinkError::Protocol(format!("a list of {key} without {key}")));
            };
            entries.into_iter().for_each(&mut add);
            match result.get("nextCursor").and_then(Value::as_str) {
                // A cursor that came before would lead in a circle.
                Some(next) if cursors.insert(next.to_owned()) => cursor = Some(next.to_owned()),
                _ => break,
            }
        }
        Ok(())
    }

    /// Whether the backend says that it has such things.
    pub fn has(&self, offer: Offer) -> bool {
        self.capability(offer.capability()).is_some()
    }

    /// Everything of a kind that the backend lists, asked for again only when it may be another list.
    pub async fn list(&self, offer: Offer, scope: Duration) -> Result<Arc<Offered>, LinkError> {
        let inbox = &self.link.inbox;
        let mut slot = self.shelf.slot(offer).await;
        // Read before the list is: a change that comes meanwhile makes the list an old one.
        let edition = inbox.edition(offer);
        let heard = self.declares(offer.capability(), "listChanged") && inbox.is_listening();
        if let Some(kept) = slot.as_ref().filter(|kept| kept.is_good(edition, heard)) {
            return Ok(Arc::clone(&kept.list));
        }
        let mut list = Offered::default();
        if self.has(offer) {
            self.read_pages(offer.method(), offer.key(), scope, |entry| list.add(entry, offer)).await?;
        }
        let kept = Kept { list: Arc::new(list), edition, since: Instant::now() };
        Ok(Arc::clone(&slot.insert(kept).list))
    }

    /// Asks for something and gives the raw result. Dropping the future cancels it.
    pub async fn ask(&self, question: Question, partner: Option<&InteractiveClient>) -> Result<Value, LinkError> {
        let method = question.method();
        let target = question.target().map(str::to_owned);
        let mut request = self.draft(method, question.into_params());
        if self.is_modern_http()
            && let Some(target) = target
        {
            request.headers = headers::of_target(method, &target);
        }
        if let Some(partner) = partner {
            self.introduce(partner, &mut request);
        }
        self.link.request(&request).await
    }

    /// Says who may be asked, and what was answered. A legacy backend asks in another way, which nobody serves.
    fn introduce(&self, partner: &InteractiveClient, request: &mut Outgoing) {
        if self.ready.era == Era::Legacy {
            return;
        }
        if let Some(Value::Object(meta)) = request.params.get_mut("_meta") {
            meta.insert(crate::protocol::META_CAPABILITIES.to_owned(), Value::Object(partner.capabilities().clone()));
        }
        request.params.extend(partner.answers().clone());
    }

    /// Calls a tool and gives the raw result. Dropping the future cancels the call.
    pub async fn call(
        &self,
        tool: ToolName<'_>,
        arguments: Map<String, Value>,
        client: Option<&InteractiveClient>,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Value, LinkError> {
        let mut request = self.draft("tools/call", Map::new());
        if let Some(client) = client {
            self.introduce(client, &mut request);
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
        let _listening = self.link.inbox.listen(request.id, progress);
        self.link.request(&request).await
    }

    /// Asks for a sign of life. A refusal is one.
    pub async fn probe(&self, within: Duration) -> Result<(), LinkError> {
        let method = match self.ready.era {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        };
        let silent = |_| LinkError::Protocol("it no longer answers".to_owned());
        match timeout(within, self.link.request(&self.draft(method, Map::new()))).await.map_err(silent)? {
            Ok(_) | Err(LinkError::Rejected(_) | LinkError::Http { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the backend says this of one of its capabilities.
    pub fn declares(&self, capability: &str, feature: &str) -> bool {
        self.capability(capability).and_then(|declared| declared.get(feature)) == Some(&Value::Bool(true))
    }

    /// A request with everything that the agreed revision requires of it.
    pub fn draft(&self, method: &'static str, mut params: Map<String, Value>) -> Outgoing {
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
        self.ready.era == Era::Modern && matches!(self.link.wire, Wire::Http(_))
    }

    /// Whether the backend may forget the session and refuse a call for that reason alone.
    pub fn may_expire(&self) -> bool {
        self.ready.era == Era::Legacy && matches!(self.link.wire, Wire::Http(_))
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
    /// Its schema, which says which arguments are repeated in headers.
    pub input_schema: &'a Value,
}

/// Tools as they are listed, page by page.
#[derive(Debug, Default)]
struct Listed {
    tools: Vec<Value>,
    names: HashSet<String>,
}

impl Listed {
    /// Keeps a tool that has a name of its own. The first of several with one name wins, always.
    fn add(&mut self, raw: Value) {
        let Some(name) = raw.get("name").and_then(Value::as_str) else { return };
        let usable = !name.is_empty() && name.len() <= LONGEST_NAME;
        if !usable || self.tools.len() >= MOST_TOOLS || !self.names.insert(name.to_owned()) {
            return;
        }
        self.tools.push(raw);
    }
}
