//! What changed, told to those who want to hear it.
//!
//! A legacy client hears of every list it was offered and of the resources it watches; a modern
//! one of what it named in `subscriptions/listen`. A client too slow to hear everything is told
//! that everything may have changed: nothing is lost, and nothing piles up.

use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::desk::{Asked, Desk, Outlet};
use super::message::{RpcError, invalid_params, notification};
use super::offer;
use super::party::Party;
use super::service::{Change, Service};
use crate::backends::protocol::{META_SERVER, META_SUBSCRIPTION};

/// Resources that one `subscriptions/listen` may name.
const MOST_WATCHED: usize = 1024;

/// Which changes a client hears of.
#[derive(Debug, Default, PartialEq)]
struct Interest {
    tools: bool,
    resources: bool,
    prompts: bool,
    watched: Vec<String>,
}

impl Interest {
    /// Everything that the service offers, and what a legacy client watches.
    fn of_legacy(service: &dyn Service, party: &Party) -> Self {
        let (resources, prompts) = (service.has_resources(), service.has_prompts());
        Self { tools: true, resources, prompts, watched: party.watched_uris() }
    }

    /// What a modern client asks for, as far as it is offered.
    fn of_modern(service: &dyn Service, wanted: &Map<String, Value>) -> Result<Self, RpcError> {
        let wants = |key: &str| wanted.get(key) == Some(&Value::Bool(true));
        let watched = match wanted.get("resourceSubscriptions") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(uris)) if uris.len() <= MOST_WATCHED => {
                let texts: Option<Vec<_>> = uris.iter().map(|uri| uri.as_str().map(str::to_owned)).collect();
                texts.ok_or_else(|| invalid_params("`resourceSubscriptions` is a list of strings"))?
            }
            Some(_) => return Err(invalid_params("`resourceSubscriptions` is a list of at most 1024 strings")),
        };
        Ok(Self {
            tools: wants("toolsListChanged"),
            resources: wants("resourcesListChanged") && service.has_resources(),
            prompts: wants("promptsListChanged") && service.has_prompts(),
            watched: if service.announces_resources() { watched } else { Vec::new() },
        })
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
        if !self.watched.is_empty() {
            accepted.insert("resourceSubscriptions".to_owned(), json!(self.watched));
        }
        Value::Object(accepted)
    }

    fn covers(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Resources => self.resources,
            Change::Prompts => self.prompts,
            Change::Resource(uri) => self.watched.contains(uri),
        }
    }

    /// Everything that may have changed unheard.
    fn everything(&self) -> Vec<Change> {
        let lists = [Change::Tools, Change::Resources, Change::Prompts];
        let watched = self.watched.iter().cloned().map(Change::Resource);
        lists.into_iter().chain(watched).filter(|change| self.covers(change)).collect()
    }
}

/// The next changes of interest; none once the service has ended.
async fn next(changes: &mut broadcast::Receiver<Change>, interest: impl Fn() -> Interest) -> Option<Vec<Change>> {
    match changes.recv().await {
        Ok(change) => Some(if interest().covers(&change) { vec![change] } else { Vec::new() }),
        Err(RecvError::Lagged(_)) => Some(interest().everything()),
        Err(RecvError::Closed) => None,
    }
}

/// Tells a legacy client of changes until it is gone.
pub(super) async fn relay(desk: &Desk, party: &Party, changes: &mut broadcast::Receiver<Change>, outlet: &Outlet) {
    let interest = || Interest::of_legacy(&*desk.service, party);
    while let Some(changes) = next(changes, interest).await {
        for change in changes {
            let (method, params) = told(&change);
            if !outlet.send(notification(method, Value::Object(params))).await {
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
    let interest = Interest::of_modern(&*desk.service, wanted)?;
    let mut changes = desk.service.changes();
    let tag = || json!({ META_SUBSCRIPTION: asked.request.id });
    let opening = json!({ "_meta": tag(), "notifications": interest.accepted() });
    asked.outlet.send(notification("notifications/subscriptions/acknowledged", opening)).await;
    tokio::select! {
        () = desk.closing.cancelled() => {}
        () = asked.cancel.cancelled() => {}
        () = tell(&mut changes, &interest, asked, tag) => {}
    }
    let identity = desk.service.identity();
    Ok(json!({ "_meta": { META_SUBSCRIPTION: asked.request.id, META_SERVER: offer::server_info(&identity) } }))
}

async fn tell(changes: &mut broadcast::Receiver<Change>, interest: &Interest, asked: &Asked, tag: impl Fn() -> Value) {
    let interest = || Interest { watched: interest.watched.clone(), ..*interest };
    while let Some(changes) = next(changes, interest).await {
        for change in changes {
            let (method, mut params) = told(&change);
            params.insert("_meta".to_owned(), tag());
            asked.outlet.send(notification(method, Value::Object(params))).await;
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
