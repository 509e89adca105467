//! Notifies clients of changed lists and changed resources.
//!
//! A legacy client is notified of every list that the server has and of the resources it watches, a modern client of what
//! it named in `subscriptions/listen`; both only of what their scope includes. A client that lags behind the broadcast
//! channel is notified of everything in its filter: no change is missed, and queues stay bounded. Notices do not say what
//! changed within a list.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::client::Client;
use super::dispatcher::{Dispatcher, NotificationSink, RequestContext};
use super::handshake;
use super::message::{RpcError, invalid_params};
use super::service::{Change, ChangeNotice, RequestScope, Service};
use super::watched_resources::{MAX_WATCHED, WatchedResources};
use crate::protocol::{META_SERVER, META_SUBSCRIPTION};

/// The changes that a client is notified of.
struct ChangeFilter<'a> {
    tools: bool,
    resources: bool,
    prompts: bool,
    watched: &'a WatchedResources,
}

/// A client's filter, and the scope that restricts it.
struct Listener<'a> {
    service: &'a dyn Service,
    scope: &'a RequestScope,
    filter: ChangeFilter<'a>,
}

impl Listener<'_> {
    fn accepts(&self, notices: &ChangeNotice) -> bool {
        self.filter.covers(notices) && self.service.shows(notices, self.scope)
    }

    /// The next changes that pass; none once the service has ended.
    async fn next(&self, changes: &mut broadcast::Receiver<ChangeNotice>) -> Option<Vec<ChangeNotice>> {
        let next = match changes.recv().await {
            Ok(notices) => vec![notices],
            Err(RecvError::Lagged(_)) => self.filter.everything(),
            Err(RecvError::Closed) => return None,
        };
        Some(next.into_iter().filter(|notices| self.accepts(notices)).collect())
    }
}

impl<'a> ChangeFilter<'a> {
    /// For a legacy client: every list that the service has, and the resources the client watches.
    fn for_legacy(service: &dyn Service, watched: &'a WatchedResources) -> Self {
        Self { tools: true, resources: service.has_resources(), prompts: service.has_prompts(), watched }
    }

    /// For a modern client: what it requested, as far as the service has it.
    fn for_modern(service: &dyn Service, wanted: &Map<String, Value>, watched: &'a WatchedResources) -> Self {
        let wants = |key: &str| wanted.get(key) == Some(&Value::Bool(true));
        Self {
            tools: wants("toolsListChanged"),
            resources: wants("resourcesListChanged") && service.has_resources(),
            prompts: wants("promptsListChanged") && service.has_prompts(),
            watched,
        }
    }

    /// The filter as the acknowledgement of a subscription names it.
    fn accepted(&self) -> Value {
        let mut accepted = Map::new();
        let lists = [
            ("toolsListChanged", self.tools),
            ("resourcesListChanged", self.resources),
            ("promptsListChanged", self.prompts),
        ];
        accepted.extend(lists.iter().filter(|list| list.1).map(|list| (list.0.to_owned(), Value::Bool(true))));
        let watched = self.watched.uris();
        if !watched.is_empty() {
            accepted.insert("resourceSubscriptions".to_owned(), json!(watched));
        }
        Value::Object(accepted)
    }

    fn covers(&self, notices: &ChangeNotice) -> bool {
        match &notices.change {
            Change::Tools => self.tools,
            Change::Resources => self.resources,
            Change::Prompts => self.prompts,
            Change::Resource(uri) => self.watched.covers(uri, notices.backend.as_ref()),
        }
    }

    /// A notice for everything in the filter, for a client that missed notices.
    fn everything(&self) -> Vec<ChangeNotice> {
        let lists = [Change::Tools, Change::Resources, Change::Prompts].map(ChangeNotice::from);
        lists.into_iter().chain(self.watched.as_notices()).collect()
    }
}

/// Notifies a legacy client of changes until it stops reading.
pub(super) async fn forward_changes(
    dispatcher: &Dispatcher,
    client: &Client,
    scope: &RequestScope,
    changes: &mut broadcast::Receiver<ChangeNotice>,
    sink: &NotificationSink,
) {
    let service = &*dispatcher.service;
    let listener = Listener { service, scope, filter: ChangeFilter::for_legacy(service, &client.watched) };
    while let Some(notices) = listener.next(changes).await {
        for ChangeNotice { change, .. } in notices {
            let (method, params) = notification_of(&change);
            if !sink.notify(method, Value::Object(params)).await {
                return;
            }
        }
    }
}

/// Serves `subscriptions/listen`: an acknowledgement, then notifications until the client or the server ends it.
pub(super) async fn listen(dispatcher: &Dispatcher, context: &RequestContext) -> Result<Value, RpcError> {
    let Some(Value::Object(wanted)) = context.request.params.get("notifications") else {
        return Err(invalid_params("subscriptions/listen needs an object `notifications`"));
    };
    if !context.sink.is_open() {
        return Err(invalid_params("subscriptions/listen needs a client that accepts text/event-stream"));
    }
    let service = &*dispatcher.service;
    let uris = requested_uris(wanted)?;
    let mut changes = service.changes();
    let watched = if service.announces_resources() {
        watch_all(dispatcher, context, uris).await
    } else {
        WatchedResources::default()
    };
    let filter = ChangeFilter::for_modern(service, wanted, &watched);
    let tag = || json!({ META_SUBSCRIPTION: context.request.id });
    let acknowledgement = json!({ "_meta": tag(), "notifications": filter.accepted() });
    context.sink.notify("notifications/subscriptions/acknowledged", acknowledgement).await;
    let listener = Listener { service, scope: &context.scope, filter };
    tokio::select! {
        () = dispatcher.closing.cancelled() => {}
        () = context.cancel.cancelled() => {}
        () = forward_tagged(&mut changes, &listener, context, tag) => {}
    }
    let identity = service.identity();
    Ok(json!({ "_meta": { META_SUBSCRIPTION: context.request.id, META_SERVER: handshake::server_info(&identity) } }))
}

/// The resource URIs that a client requests.
fn requested_uris(wanted: &Map<String, Value>) -> Result<BTreeSet<String>, RpcError> {
    match wanted.get("resourceSubscriptions") {
        None | Some(Value::Null) => Ok(BTreeSet::new()),
        Some(Value::Array(uris)) if uris.len() <= MAX_WATCHED => {
            let texts: Option<BTreeSet<_>> = uris.iter().map(|uri| uri.as_str().map(str::to_owned)).collect();
            texts.ok_or_else(|| invalid_params("`resourceSubscriptions` is a list of strings"))
        }
        Some(_) => Err(invalid_params(format!("`resourceSubscriptions` is a list of at most {MAX_WATCHED} strings"))),
    }
}

/// Watches those resources that can be watched; the acknowledgement lists them.
async fn watch_all(dispatcher: &Dispatcher, context: &RequestContext, uris: BTreeSet<String>) -> WatchedResources {
    let watched = WatchedResources::default();
    // Concurrently: each may need a request to its backend.
    let mut begun: JoinSet<_> = uris
        .into_iter()
        .map(|uri| {
            let watch = dispatcher.service.watch(context.resource(&uri));
            async move { (uri, watch.await) }
        })
        .collect();
    while let Some(one) = begun.join_next().await {
        if let Ok((uri, Ok(watch))) = one {
            let _ = watched.begin(&uri, watch);
        }
    }
    watched
}

async fn forward_tagged(
    changes: &mut broadcast::Receiver<ChangeNotice>,
    listener: &Listener<'_>,
    context: &RequestContext,
    tag: impl Fn() -> Value,
) {
    while let Some(notices) = listener.next(changes).await {
        for ChangeNotice { change, .. } in notices {
            let (method, mut params) = notification_of(&change);
            params.insert("_meta".to_owned(), tag());
            context.sink.notify(method, Value::Object(params)).await;
        }
    }
    // The service has ended. The subscription stays open until the client or the shutdown ends it.
    std::future::pending().await
}

fn notification_of(change: &Change) -> (&'static str, Map<String, Value>) {
    let mut params = Map::new();
    let method = match change {
        Change::Tools => "notifications/tools/list_changed",
        Change::Resources => "notifications/resources/list_changed",
        Change::Prompts => "notifications/prompts/list_changed",
        Change::Resource(uri) => {
            params.insert("uri".to_owned(), uri.as_str().into());
            "notifications/resources/updated"
        }
    };
    (method, params)
}
