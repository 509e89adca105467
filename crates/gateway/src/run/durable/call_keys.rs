//! Idempotency keys of the calls of a durable run: ours, not the program's.
//!
//! The key of a call is an HMAC of the run and the number of the call, so it is the same when the call is sent again after a
//! crash. It goes out in `_meta` of an MCP call, as `Idempotency-Key` of an HTTP function, and in an argument that the tool's
//! schema names for it and the program left out.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolgate_catalog::ToolRef;
use toolgate_engine::host::Target;
use toolgate_engine::{Host, HostCall, HostFuture, HostLayer};
use toolgate_functions::idempotency;
use toolgate_journal::durable::Journal;
use toolgate_wire::{CallId, CallerScope};

use crate::bridge::{Bridge, ScopedCatalog};

/// Arguments that are made for this: a server that has one makes a repeated request once.
/// Those with capitals are the header of that name, as OpenAPI documents declare it.
const PROOFS: [&str; 9] = [
    "idempotency_key",
    "idempotencyKey",
    "idempotency_token",
    "client_token",
    "clientToken",
    "client_request_token",
    "Idempotency-Key",
    "idempotency-key",
    "X-Idempotency-Key",
];
/// Arguments that often are, and often are something else: they are filled in, and prove nothing.
const CANDIDATES: [&str; 4] = ["request_id", "requestId", "client_request_id", "clientRequestId"];
/// Hexadecimal digits of a key: 128 bits.
const KEY_DIGITS: usize = 32;

/// The keys of one run.
#[derive(Clone)]
pub struct CallKeys {
    journal: Journal,
    run: Arc<str>,
}

impl CallKeys {
    pub(super) fn new(journal: Journal, run: &str) -> Self {
        CallKeys { journal, run: run.into() }
    }

    fn of(&self, call: CallId) -> String {
        let mut key = self.journal.name(&format!("call {} of {}", call.0, self.run));
        key.truncate(KEY_DIGITS);
        key
    }
}

/// Whether a tool promises by its schema that a repeated request with the same key is made once.
pub(super) fn proves_idempotency(tool: ToolRef<'_>) -> bool {
    PROOFS.iter().any(|name| takes_text(tool.tool().input_schema(), name))
}

fn takes_text(schema: &Value, name: &str) -> bool {
    let property = &schema["properties"][name];
    property.is_object() && property.get("type").is_none_or(|kind| *kind == "string") && property.get("enum").is_none()
}

/// The argument for the key that the schema names and the arguments leave out.
fn argument_for<'a>(schema: &Value, arguments: &Map<String, Value>) -> Option<&'a str> {
    let named: Vec<&'a str> =
        PROOFS.iter().chain(&CANDIDATES).copied().filter(|name| takes_text(schema, name)).collect();
    // A program that names one of them has its own way.
    if named.iter().any(|name| arguments.contains_key(*name)) { None } else { named.first().copied() }
}

/// A host whose calls have keys.
pub(crate) struct KeyedHost {
    pub(crate) keys: CallKeys,
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) caller: CallerScope,
    pub(crate) real: Arc<dyn Host>,
}

impl KeyedHost {
    /// The call with its key among the arguments, where the tool takes one.
    fn with_argument(&self, mut call: HostCall, key: &str) -> HostCall {
        let Target::Tool { backend, tool } = &call.target else { return call };
        let catalog = self.bridge.catalog();
        let view = ScopedCatalog::new(&catalog, &self.caller.backends, &self.caller.tools);
        let Some(found) = view.tool(backend, tool) else { return call };
        let schema = found.tool().input_schema();
        // Most tools take no key; their arguments need not be read.
        if !PROOFS.iter().chain(&CANDIDATES).any(|name| takes_text(schema, name)) {
            return call;
        }
        if let Ok(Value::Object(mut arguments)) = serde_json::from_str(&call.args)
            && let Some(name) = argument_for(schema, &arguments)
        {
            arguments.insert(name.to_owned(), Value::String(key.to_owned()));
            call.args = Value::Object(arguments).to_string();
        }
        call
    }
}

impl HostLayer for KeyedHost {
    fn inner(&self) -> &dyn Host {
        &*self.real
    }

    fn make_call(&self, call: HostCall) -> HostFuture {
        if self.real.call_is_read_only(&call.target, &call.args) {
            return self.real.call(call);
        }
        let key = self.keys.of(call.id);
        let call = self.with_argument(call, &key);
        Box::pin(idempotency::with_key(key, self.real.call(call)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(properties: Value, arguments: Value, expected: Option<&str>) {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        assert_eq!(argument_for(&json!({ "properties": properties }), &arguments), expected, "{properties}");
    }

    #[test]
    fn the_schema_names_the_argument_and_the_program_leaves_it_out() {
        let text = json!({ "type": "string" });
        check(json!({ "idempotency_key": text, "amount": {} }), json!({ "amount": 1 }), Some("idempotency_key"));
        check(json!({ "client_token": text }), json!({ "client_token": "own" }), None);
        check(json!({ "request_id": text, "clientToken": text }), json!({}), Some("clientToken"));
        check(json!({ "Idempotency-Key": text, "amount": {} }), json!({ "amount": 1 }), Some("Idempotency-Key"));
        check(json!({ "idempotency_key": { "type": "number" } }), json!({}), None);
        check(json!({ "request_id": { "type": "string", "enum": ["a"] } }), json!({}), None);
        check(json!({ "amount": {} }), json!({}), None);
    }
}
