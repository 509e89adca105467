//! What changed, told to those who want to hear it.
//!
//! A legacy client hears of every list it was offered and of the resources it watches; a modern
//! one of what it named in `subscriptions/listen`; either only of what its page shows. A client too slow to hear everything is told
//! that everything may have changed: nothing is lost, and nothing piles up.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::desk::{Asked, Desk, Outlet};
use super::message::{RpcError, invalid_params};
use super::offer;
use super::party::Party;
use super::service::{Change, News, RequestScope, Service};
use super::watched::{self, Watched};
use crate::protocol::{META_SERVER, META_SUBSCRIPTION};

/// Which changes a client hears of.
struct Interest<'a> {
    tools: bool,
    resources: bool,
    prompts: bool,
    watched: &'a Watched,
}

/// A client that hears of what its page shows and it is interested in.
struct Listener<'a> {
    service: &'a dyn Service,
    scope: &'a RequestScope,
    interest: Interest<'a>,
}

impl Listener<'_> {
    fn hears(&self, news: &News) -> bool {
        self.interest.covers(news) && self.service.shows(news, self.scope)
    }

    /// The next changes of interest; none once the service has ended.
    async fn next(&self, changes: &mut broadcast::Receiver<News>) -> Option<Vec<News>> {
        let next = match changes.recv().await {
            Ok(news) => vec![news],
            Err(RecvError::Lagged(_)) => self.interest.everything(),
            Err(RecvError::Closed) => return None,
        };
        Some(next.into_iter().filter(|news| self.hears(news)).collect())
    }
}

impl<'a> Interest<'a> {
    /// Everything that the service offers, and what a legacy client watches.
    fn of_legacy(service: &dyn Service, watched: &'a Watched) -> Self {
        Self { tools: true, resources: service.has_resources(), prompts: service.has_prompts(), watched }
    }

    /// What a modern client asks for, as far as it is offered.
    fn of_modern(service: &dyn Service, wanted: &Map<String, Value>, watched: &'a Watched) -> Self {
        let wants = |key: &str| wanted.get(key) == Some(&Value::Bool(true));
        Self {
            tools: wants("toolsListChanged"),
            resources: wants("resourcesListChanged") && service.has_resources(),
            prompts: wants("promptsListChanged") && service.has_prompts(),
            watched,
        }
    }

    /// As a client is told what it will hear of.
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

    fn covers(&self, news: &News) -> bool {
        match &news.change {
            Change::Tools => self.tools,
            Change::Resources => self.resources,
            Change::Prompts => self.prompts,
            Change::Resource(uri) => self.watched.covers(uri, news.backend.as_ref()),
        }
    }

    /// Everything that may have changed unheard.
    fn everything(&self) -> Vec<News> {
        let lists = [Change::Tools, Change::Resources, Change::Prompts].map(News::from);
        lists.into_iter().chain(self.watched.as_news()).collect()
    }
}

/// Tells a legacy client of changes until it is gone.
pub(super) async fn relay(
    desk: &Desk,
    party: &Party,
    scope: &RequestScope,
    changes: &mut broadcast::Receiver<News>,
    outlet: &Outlet,
) {
    let service = &*desk.service;
    let listener = Listener { service, scope, interest: Interest::of_legacy(service, &party.watched) };
    while let Some(news) = listener.next(changes).await {
        for News { change, .. } in news {
            let (method, params) = told(&change);
            if !outlet.notify(method, Value::Object(params)).await {
                return;
            }
        }
    }
}

/// Serves `subscriptions/listen`: an acknowledgement, then changes until either side ends it.
pub(super) async fn listen(desk: &Desk, asked: &Asked) -> Result<Value, RpcError> {
    let Some(Value::Object(wanted)) = asked.request.params.get("notifications") else {
        return Err(invalid_params("subscriptions/listen needs an object `notifications`"));
    };
    if !asked.outlet.is_open() {
        return Err(invalid_params("subscriptions/listen needs a client that accepts text/event-stream"));
    }
    let service = &*desk.service;
    let uris = named(wanted)?;
    let mut changes = service.changes();
    let watched = if service.announces_resources() { watch_all(desk, asked, uris).await } else { Watched::default() };
    let interest = Interest::of_modern(service, wanted, &watched);
    let tag = || json!({ META_SUBSCRIPTION: asked.request.id });
    let opening = json!({ "_meta": tag(), "notifications": interest.accepted() });
    asked.outlet.notify("notifications/subscriptions/acknowledged", opening).await;
    let listener = Listener { service, scope: &asked.scope, interest };
    tokio::select! {
        () = desk.closing.cancelled() => {}
        () = asked.cancel.cancelled() => {}
        () = tell(&mut changes, &listener, asked, tag) => {}
    }
    let identity = service.identity();
    Ok(json!({ "_meta": { META_SUBSCRIPTION: asked.request.id, META_SERVER: offer::server_info(&identity) } }))
}

/// The resources that a client names.
fn named(wanted: &Map<String, Value>) -> Result<BTreeSet<String>, RpcError> {
    match wanted.get("resourceSubscriptions") {
        None | Some(Value::Null) => Ok(BTreeSet::new()),
        Some(Value::Array(uris)) if uris.len() <= watched::MOST => {
            let texts: Option<BTreeSet<_>> = uris.iter().map(|uri| uri.as_str().map(str::to_owned)).collect();
            texts.ok_or_else(|| invalid_params("`resourceSubscriptions` is a list of strings"))
        }
        Some(_) => {
            Err(invalid_params(format!("`resourceSubscriptions` is a list of at most {} strings", watched::MOST)))
        }
    }
}

/// Watches what can be; the acknowledgement says what that is.
async fn watch_all(desk: &Desk, asked: &Asked, uris: BTreeSet<String>) -> Watched {
    let watched = Watched::default();
    // All at once: each may take a word with its backend.
    let mut begun: JoinSet<_> = uris
        .into_iter()
        .map(|uri| {
            let watch = desk.service.watch(asked.resource(&uri));
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

async fn tell(
    changes: &mut broadcast::Receiver<News>,
    listener: &Listener<'_>,
    asked: &Asked,
    tag: impl Fn() -> Value,
) {
    while let Some(news) = listener.next(changes).await {
        for News { change, .. } in news {
            let (method, mut params) = told(&change);
            params.insert("_meta".to_owned(), tag());
            asked.outlet.notify(method, Value::Object(params)).await;
        }
    }
    // No more changes will come, but that is for the client or us to end.
    std::future::pending().await
}

fn told(change: &Change) -> (&'static str, Map<String, Value>) {
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
