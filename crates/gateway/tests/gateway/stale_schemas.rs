//! What the cache knows of a server that is not up may be out of date: it refuses no call before the server was asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use serde_json::{Map, Value, json};
use toolgate_bridge::{AllowedEffects, Answer, Bridge, ComingUp, Provider, ProviderFuture, RequestContext};
use toolgate_catalog::{BackendState, Catalog, CatalogHandle, Listing, Tool};

/// A server that the cache has an older version of.
#[derive(Default)]
struct Upgraded {
    bridge: OnceLock<Weak<Bridge>>,
    starts: AtomicUsize,
}

impl Provider for Upgraded {
    fn call(&self, _: String, _: Map<String, Value>, _: RequestContext) -> ProviderFuture {
        Box::pin(std::future::ready(Ok(Answer::Value(json!("paid")))))
    }

    fn come_up(&self, _: &RequestContext) -> ComingUp {
        self.starts.fetch_add(1, Ordering::Relaxed);
        let bridge = self.bridge.get().and_then(Weak::upgrade).expect("a bridge");
        bridge.catalog_handle().replace(catalog(BackendState::Ready, &["amount"], true));
        Box::pin(std::future::ready(Ok(())))
    }
}

fn catalog(state: BackendState, required: &[&str], reads: bool) -> Catalog {
    let tool = json!({
        "name": "pay",
        "inputSchema": { "type": "object", "properties": { "amount": { "type": "number" } }, "required": required },
        "annotations": { "readOnlyHint": reads },
    });
    let tools = vec![Tool::from_raw(tool).expect("a tool")];
    Catalog::new(vec![Listing { name: "bank".into(), state, tools, tags: Vec::new() }])
}

/// What comes of a call of a server whose schema the cache has with `currency`, and how often the server was started.
async fn called(state: BackendState, arguments: Value, effects: AllowedEffects) -> (String, usize) {
    let bridge = Arc::new(Bridge::new(CatalogHandle::new(catalog(state, &["amount", "currency"], false))));
    let server = Arc::new(Upgraded::default());
    server.bridge.set(Arc::downgrade(&bridge)).expect("once");
    bridge.provide("bank", server.clone());
    let Value::Object(arguments) = arguments else { panic!("an object") };
    let asked = RequestContext { effects, ..RequestContext::default() };
    let answer = bridge.call("bank", "pay", arguments, asked).await;
    let told = answer.map_or_else(|error| error.code.as_str().to_owned(), Answer::into_text);
    (told, server.starts.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_server_that_is_not_up_is_started_before_arguments_are_refused() {
    use AllowedEffects::{Any, ReadOnly};
    let failed = || BackendState::Failed { reason: "it was away".into() };
    let fits = json!({ "amount": 1 });
    let paid = || ("\"paid\"".to_owned(), 1);
    assert_eq!(called(BackendState::Cached, fits.clone(), Any).await, paid());
    assert_eq!(called(failed(), fits.clone(), Any).await, paid());
    assert_eq!(called(BackendState::Cached, fits.clone(), ReadOnly).await, paid(), "it says that it reads by now");
    let wrong = called(BackendState::Cached, json!({ "amount": "1" }), Any).await;
    assert_eq!(wrong, ("INVALID_ARGUMENTS".to_owned(), 1), "by the schema of now");
    // A server that is up has said what it takes, and one that is not is started by the call itself.
    assert_eq!(called(BackendState::Ready, fits, Any).await, ("INVALID_ARGUMENTS".to_owned(), 0));
    let full = json!({ "amount": 1, "currency": "EUR" });
    assert_eq!(called(BackendState::Cached, full, Any).await, ("\"paid\"".to_owned(), 0));
}
