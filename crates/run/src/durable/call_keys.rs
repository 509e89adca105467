//! Idempotency keys of the calls of a durable run: ours, not the program's.
//!
//! The key of a call is an HMAC of the run and the number of the call, so it is the same when the call is sent again after a
//! crash. It goes out in `_meta` of an MCP call, as `Idempotency-Key` of an HTTP function or an operation of an HTTP API, and in an
//! argument that the tool's schema names for it and the program left out.

use std::sync::Arc;

use serde_json::Value;
use toolgate_catalog::ToolRef;
use toolgate_engine::host::Target;
use toolgate_engine::{Host, HostCall, HostFuture, HostLayer};
use toolgate_functions::idempotency;
use toolgate_journal::durable::Journal;
use toolgate_wire::{CallId, CallerScope};

use toolgate_bridge::{Bridge, ScopedCatalog};

/// Arguments that are made for this: a server that has one makes a repeated request once. Without separators and capitals: a
/// parameter of an HTTP API is `Idempotency-Key`.
const PROOFS: [&str; 5] =
    ["idempotencykey", "xidempotencykey", "idempotencytoken", "clienttoken", "clientrequesttoken"];
/// Arguments that often are, and often are something else: they are filled in, and prove nothing.
const CANDIDATES: [&str; 2] = ["requestid", "clientrequestid"];
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

/// Whether a call with these arguments has a key by which its tool makes a repeated request once, as its schema promises: one
/// that the program gave, or the one that is filled in.
pub(super) fn has_key(tool: ToolRef<'_>, arguments: &str) -> bool {
    schema_has_key(tool.tool().input_schema(), arguments)
}

fn schema_has_key(schema: &Value, arguments: &str) -> bool {
    let proofs: Vec<&str> = key_arguments(schema, &PROOFS).collect();
    if proofs.is_empty() || toolgate_json::check(arguments).is_none() {
        return false;
    }
    let given = toolgate_json::Value::of(arguments);
    let is_key = |text: &str| serde_json::from_str::<String>(text).is_ok_and(|key| !key.trim().is_empty());
    let is_given = proofs.iter().any(|name| given.member(name).is_some_and(|value| is_key(value.text())));
    let is_object = given.text().starts_with('{');
    let filled_in = argument_for(schema, |name| given.member(name).is_some()).filter(|_| is_object);
    is_given || filled_in.is_some_and(|name| proofs.contains(&name))
}

/// The arguments of a schema that take a text and have one of these names, in the order of the names.
fn key_arguments<'a>(schema: &'a Value, names: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let properties = schema["properties"].as_object();
    let is_text = |property: &Value| {
        let kind = property.get("type");
        property.is_object() && kind.is_none_or(|kind| *kind == "string") && property.get("enum").is_none()
    };
    names.iter().flat_map(move |wanted| {
        let named = properties.into_iter().flatten().filter(move |(name, _)| is_named(name, wanted));
        named.filter(move |(_, property)| is_text(property)).map(|(name, _)| name.as_str())
    })
}

fn is_named(name: &str, wanted: &str) -> bool {
    let letters = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-')).map(|byte| byte.to_ascii_lowercase());
    letters.eq(wanted.bytes())
}

/// The argument for the key that the schema names and the arguments leave out.
fn argument_for(schema: &Value, has: impl Fn(&str) -> bool) -> Option<&str> {
    let named: Vec<&str> = key_arguments(schema, &PROOFS).chain(key_arguments(schema, &CANDIDATES)).collect();
    // A program that names one of them has its own way.
    if named.iter().any(|name| has(name)) { None } else { named.first().copied() }
}

/// The JSON text of an object with one more member, whose name is chosen by the names that are there; `None` if none is, or the
/// text is no object. The object is not made a tree, which would take forty times its text.
fn with_member<'a>(
    object: &str,
    value: &str,
    choose: impl FnOnce(&dyn Fn(&str) -> bool) -> Option<&'a str>,
) -> Option<String> {
    toolgate_json::check(object)?;
    let read = toolgate_json::Value::of(object);
    let inside = read.text().strip_prefix('{')?.strip_suffix('}')?;
    let name = choose(&|name| read.member(name).is_some())?;
    let comma = if inside.trim_matches(toolgate_json::is_space).is_empty() { "" } else { "," };
    Some(format!("{{{inside}{comma}{}:{}}}", Value::from(name), Value::from(value)))
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
        if key_arguments(schema, &PROOFS).chain(key_arguments(schema, &CANDIDATES)).next().is_none() {
            return call;
        }
        if let Some(args) = with_member(&call.args, key, |has| argument_for(schema, has)) {
            call.args = args;
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
        let schema = json!({ "properties": properties });
        let has = |name: &str| arguments.get(name).is_some();
        assert_eq!(argument_for(&schema, has), expected, "{properties}");
        let written = with_member(&arguments.to_string(), "k\"1", |has| argument_for(&schema, has));
        let mut filled = arguments.clone();
        match expected {
            Some(name) => filled[name] = json!("k\"1"),
            None => return assert_eq!(written, None),
        }
        assert_eq!(serde_json::from_str::<Value>(&written.expect("a member")).expect("JSON"), filled);
    }

    #[test]
    fn only_an_object_gets_a_member() {
        for text in ["", "{", "[]", "1", "{\"a\":}", "\"{}\""] {
            assert_eq!(with_member(text, "k", |_| Some("n")), None, "{text}");
        }
        assert_eq!(with_member(" { } ", "k", |_| Some("n")).as_deref(), Some("{ \"n\":\"k\"}"));
        assert_eq!(with_member("{\"a\" :1 }", "k", |_| Some("n")).as_deref(), Some("{\"a\" :1 ,\"n\":\"k\"}"));
    }

    /// A call is made again only where a key goes out with it: that the schema has a place for one is not enough.
    #[test]
    fn a_call_without_a_key_is_not_taken_for_one_that_has_one() {
        let schema = json!({ "properties": {
            "idempotency_key": { "type": "string" }, "request_id": { "type": "string" }, "amount": {},
        } });
        for (arguments, expected) in [
            (r#"{"amount":1}"#, true),
            (r#" { } "#, true),
            (r#"{"idempotency_key":"own"}"#, true),
            (r#"{"idempotency_key":"own","request_id":"r"}"#, true),
            (r#"{"request_id":"r","amount":1}"#, false),
            (r#"{"idempotency_key":null}"#, false),
            (r#"{"idempotency_key":""}"#, false),
            (r#"{"idempotency_key":" "}"#, false),
            (r#"{"idempotency_key":7}"#, false),
            ("[]", false),
            ("", false),
        ] {
            assert_eq!(schema_has_key(&schema, arguments), expected, "{arguments}");
        }
        let candidate = json!({ "properties": { "request_id": { "type": "string" } } });
        assert!(!schema_has_key(&candidate, "{}"), "a request id proves nothing");
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
        check(json!({ "Idempotency-Key": text }), json!({}), Some("Idempotency-Key"));
        check(json!({ "idempotency_key": text, "request_id": text }), json!({ "request_id": "own" }), None);
        check(json!({ "X-Request-Id": text, "client_request_token": text }), json!({}), Some("client_request_token"));
    }
}
