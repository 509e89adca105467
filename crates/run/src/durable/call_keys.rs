//! Idempotency keys of the calls of a durable run: ours, not the program's.
//!
//! The key of a call is an HMAC of the run and the number of the call, so it is the same when the call is sent again after a
//! crash. It goes out in `_meta` of an MCP call, as `Idempotency-Key` of an HTTP function or an operation of an HTTP API, and in an
//! argument that the tool's schema names for it and the program left out. It has the form of a UUID, which schemas ask for; runs
//! that began with another form keep it, since a call that is sent again must have the key that it had.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_catalog::ToolRef;
use toolgate_catalog::arguments::{BoundedSchema, SchemaCheck, SchemaMemory};
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

/// What says nothing about the values of a property.
const PLAIN_KEYWORDS: [&str; 8] =
    ["type", "title", "description", "default", "example", "examples", "deprecated", "nullable"];

/// How the keys of a run are written, and which arguments get one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KeyForm {
    /// Hexadecimal digits, for arguments of the type `string` alone: runs of versions that had no other form.
    #[default]
    Digits,
    /// UUIDs where the schema of the argument takes one, else digits, for arguments that take a text.
    Uuid,
}

impl KeyForm {
    /// The key of these digits; in an argument, as this property takes it. None if it takes neither form.
    fn written(self, digits: &str, property: Option<&Value>) -> Option<String> {
        let (uuid, digits) = (uuid_of(digits), digits.to_owned());
        match (self, property) {
            (Self::Digits, None) => Some(digits),
            (Self::Digits, Some(property)) => is_plain_text(property).then_some(digits),
            (Self::Uuid, None) => Some(uuid),
            (Self::Uuid, Some(property)) => {
                [uuid, digits].into_iter().find(|key| accepts(property, std::slice::from_ref(key)))
            }
        }
    }

    /// Whether a property takes every key: each digit in each place.
    fn fits(self, property: &Value) -> bool {
        if self == Self::Digits || takes_every_text(property) {
            return is_plain_text(property);
        }
        let digits: Vec<String> =
            ('0'..='9').chain('a'..='f').map(|digit| digit.to_string().repeat(KEY_DIGITS)).collect();
        let uuids: Vec<String> = digits.iter().map(|digits| uuid_of(digits)).collect();
        accepts(property, &uuids) || accepts(property, &digits)
    }
}

/// 128 bits as a UUID of version 4. Two digits are not those of the key: they say which version it is.
fn uuid_of(digits: &str) -> String {
    let bits = u128::from_str_radix(digits, 16).unwrap_or_default();
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let text = format!("{bits:032x}");
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default().to_owned();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}

/// Whether a property is a text, by its type alone.
fn is_plain_text(property: &Value) -> bool {
    let kind = property.get("type");
    property.is_object() && kind.is_none_or(|kind| *kind == "string") && property.get("enum").is_none()
}

/// Whether a property takes texts, also where it may be something else.
fn takes_text(property: &Value) -> bool {
    let kinds = property.get("type").and_then(Value::as_array);
    let is_one_kind = kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "string"));
    let choices = ["anyOf", "oneOf"].into_iter().filter_map(|key| property.get(key)?.as_array()).flatten();
    let is_choice = choices.into_iter().any(|choice| choice.get("type").is_some() && is_plain_text(choice));
    is_plain_text(property) || (is_one_kind && property.get("enum").is_none()) || is_choice
}

/// Whether a property is a text, and its schema says nothing about which.
fn takes_every_text(property: &Value) -> bool {
    let is_plain = |keyword: &String| PLAIN_KEYWORDS.contains(&keyword.as_str());
    is_plain_text(property) && property.as_object().is_some_and(|keywords| keywords.keys().all(is_plain))
}

/// Whether the schema of a property takes these keys.
fn accepts(property: &Value, keys: &[String]) -> bool {
    if takes_every_text(property) {
        return true;
    }
    if !property.is_object() {
        return false;
    }
    match BoundedSchema::without_backtracking(property, &SchemaMemory::of_function()) {
        Ok(schema) => {
            keys.iter().all(|key| !matches!(schema.check(&Value::from(key.as_str())), SchemaCheck::Wrong { .. }))
        }
        // The schema of the tool decides, which may know what this one refers to.
        Err(_) => is_plain_text(property),
    }
}

/// The keys of one run.
#[derive(Clone)]
pub struct CallKeys {
    journal: Journal,
    run: Arc<str>,
    form: KeyForm,
}

impl CallKeys {
    pub(super) fn new(journal: Journal, run: &str, form: KeyForm) -> Self {
        CallKeys { journal, run: run.into(), form }
    }

    /// The digits of a call's key.
    fn digits(&self, call: CallId) -> String {
        let mut key = self.journal.name(&format!("call {} of {}", call.0, self.run));
        key.truncate(KEY_DIGITS);
        key
    }

    /// The arguments of a call with its key among them; `None` where the tool takes none, or the program gave one.
    pub(super) fn filled(&self, call: CallId, found: ToolRef<'_>, args: &str) -> Option<String> {
        let (schema, form) = (found.tool().input_schema(), self.form);
        // Most tools take no key; their arguments need not be read.
        key_arguments(schema, &PROOFS, form).chain(key_arguments(schema, &CANDIDATES, form)).next()?;
        with_member(args, |has| {
            let name = argument_for(schema, form, has)?;
            Some((name, form.written(&self.digits(call), schema["properties"].get(name))?))
        })
    }
}

/// Whether a call with these arguments has a key by which its tool makes a repeated request once, as its schema promises: one
/// that the program gave, or the one that is filled in.
pub(super) fn has_key(tool: ToolRef<'_>, arguments: &str, form: KeyForm) -> bool {
    schema_has_key(tool.tool().input_schema(), arguments, form)
}

fn schema_has_key(schema: &Value, arguments: &str, form: KeyForm) -> bool {
    let proofs: Vec<&str> = key_arguments(schema, &PROOFS, form).collect();
    if proofs.is_empty() || toolgate_json::check(arguments).is_none() {
        return false;
    }
    let given = toolgate_json::Value::of(arguments);
    let is_key = |text: &str| serde_json::from_str::<String>(text).is_ok_and(|key| !key.trim().is_empty());
    let is_given = proofs.iter().any(|name| given.member(name).is_some_and(|value| is_key(value.text())));
    let is_object = given.text().starts_with('{');
    let filled_in = argument_for(schema, form, |name| given.member(name).is_some()).filter(|_| is_object);
    is_given || filled_in.is_some_and(|name| proofs.contains(&name))
}

/// The arguments of a schema that take a text and have one of these names, in the order of the names.
fn key_arguments<'a>(schema: &'a Value, names: &'a [&str], form: KeyForm) -> impl Iterator<Item = &'a str> {
    let properties = schema["properties"].as_object();
    let is_text = move |property: &Value| match form {
        KeyForm::Digits => is_plain_text(property),
        KeyForm::Uuid => takes_text(property),
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

/// The argument for the key that the schema names and the arguments leave out, if the schema takes the key there.
fn argument_for(schema: &Value, form: KeyForm, has: impl Fn(&str) -> bool) -> Option<&str> {
    let named: Vec<&str> =
        key_arguments(schema, &PROOFS, form).chain(key_arguments(schema, &CANDIDATES, form)).collect();
    // A program that names one of them has its own way.
    if named.iter().any(|name| has(name)) {
        return None;
    }
    let takes_key = |name: &str| schema["properties"].get(name).is_some_and(|property| form.fits(property));
    named.into_iter().find(|name| takes_key(name))
}

/// The argument in which a call with these arguments gets its key.
pub(crate) fn filled_argument<'a>(schema: &'a Value, keys: &CallKeys, has: impl Fn(&str) -> bool) -> Option<&'a str> {
    argument_for(schema, keys.form, has)
}

/// Arguments with the key that a call gets, where it gets one: one of the right form.
pub(crate) fn with_sample_key(schema: &Value, keys: &CallKeys, arguments: &Value) -> Option<Value> {
    let given = arguments.as_object()?;
    let name = argument_for(schema, keys.form, |name| given.contains_key(name))?;
    let key = keys.form.written(&keys.digits(CallId(0)), schema["properties"].get(name))?;
    let mut filled = given.clone();
    filled.insert(name.to_owned(), key.into());
    Some(Value::Object(filled))
}

/// The JSON text of an object with one more member, which is chosen by the names that are there; `None` if none is, or the
/// text is no object. The object is not made a tree, which would take forty times its text.
fn with_member<'a>(
    object: &str,
    choose: impl FnOnce(&dyn Fn(&str) -> bool) -> Option<(&'a str, String)>,
) -> Option<String> {
    toolgate_json::check(object)?;
    let read = toolgate_json::Value::of(object);
    let inside = read.text().strip_prefix('{')?.strip_suffix('}')?;
    let (name, value) = choose(&|name| read.member(name).is_some())?;
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
    fn with_argument(&self, mut call: HostCall) -> HostCall {
        let Target::Tool { backend, tool } = &call.target else { return call };
        let catalog = self.bridge.catalog();
        let view = ScopedCatalog::new(&catalog, &self.caller.backends, &self.caller.tools);
        let filled = view.tool(backend, tool).and_then(|found| self.keys.filled(call.id, found, &call.args));
        if let Some(args) = filled {
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
        let digits = self.keys.digits(call.id);
        let call = self.with_argument(call);
        let key = self.keys.form.written(&digits, None).unwrap_or(digits);
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
        assert_eq!(argument_for(&schema, KeyForm::Uuid, has), expected, "{properties}");
        let member = |has: &dyn Fn(&str) -> bool| Some((argument_for(&schema, KeyForm::Uuid, has)?, "k\"1".to_owned()));
        let written = with_member(&arguments.to_string(), member);
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
            assert_eq!(with_member(text, |_| Some(("n", "k".to_owned()))), None, "{text}");
        }
        let written = |text: &str| with_member(text, |_| Some(("n", "k".to_owned())));
        assert_eq!(written(" { } ").as_deref(), Some("{ \"n\":\"k\"}"));
        assert_eq!(written("{\"a\" :1 }").as_deref(), Some("{\"a\" :1 ,\"n\":\"k\"}"));
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
            for form in [KeyForm::Uuid, KeyForm::Digits] {
                assert_eq!(schema_has_key(&schema, arguments, form), expected, "{arguments} {form:?}");
            }
        }
        let candidate = json!({ "properties": { "request_id": { "type": "string" } } });
        assert!(!schema_has_key(&candidate, "{}", KeyForm::Uuid), "a request id proves nothing");
        let short = json!({ "properties": { "idempotency_key": { "type": "string", "maxLength": 8 } } });
        assert!(!schema_has_key(&short, "{}", KeyForm::Uuid), "none fits");
        assert!(schema_has_key(&short, r#"{"idempotency_key":"own"}"#, KeyForm::Uuid), "the program's own");
    }

    #[test]
    fn a_key_has_a_form_that_the_schema_takes() {
        let digits = "00112233445566778899aabbccddeeff";
        let uuid = "00112233-4455-4677-8899-aabbccddeeff";
        assert_eq!(uuid_of(digits), uuid);
        for (property, expected) in [
            (json!({}), Some(uuid)),
            (json!({ "type": "string" }), Some(uuid)),
            (json!({ "type": "string", "minLength": 36 }), Some(uuid)),
            (json!({ "type": "string", "format": "uuid" }), Some(uuid)),
            (json!({ "type": ["string", "null"] }), Some(uuid)),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), Some(uuid)),
            (json!({ "type": "string", "maxLength": 32 }), Some(digits)),
            (json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" }), Some(digits)),
            (json!({ "type": "string", "pattern": "^[0-9a-f-]{36}$" }), Some(uuid)),
            (json!({ "type": "string", "maxLength": 8 }), None),
            (json!({ "type": "string", "enum": ["a"] }), None),
            (json!({ "type": ["integer", "null"] }), None),
            (json!(true), None),
        ] {
            assert_eq!(KeyForm::Uuid.written(digits, Some(&property)).as_deref(), expected, "{property}");
            let schema = json!({ "properties": { "idempotency_key": property } });
            assert_eq!(schema_has_key(&schema, "{}", KeyForm::Uuid), expected.is_some(), "{property}");
        }
        // A pattern that takes some keys: whether a call has one must not depend on which it is.
        for pattern in ["^[0-9]", "[89a-f]$", "^[^c]*$"] {
            let schema = json!({ "properties": { "idempotency_key": { "type": "string", "pattern": pattern } } });
            assert!(!schema_has_key(&schema, "{}", KeyForm::Uuid), "{pattern}");
            assert_eq!(argument_for(&schema, KeyForm::Uuid, |_| false), None, "{pattern}");
        }
    }

    /// A run of an earlier version has sent its calls with such keys, or without one: they are the same when sent again.
    #[test]
    fn a_run_that_began_with_digits_keeps_its_keys() {
        const SAMPLE_DIGITS: &str = "0123456789abcdef0123456789abcdef";
        let nullable = json!({ "type": ["string", "null"] });
        for (property, expected) in [
            (json!({ "type": "string" }), Some(SAMPLE_DIGITS)),
            (json!({ "type": "string", "minLength": 36 }), Some(SAMPLE_DIGITS)),
            (nullable, None),
        ] {
            let found = KeyForm::Digits.written(SAMPLE_DIGITS, Some(&property));
            assert_eq!(found.as_deref(), expected, "{property}");
        }
        assert_eq!(KeyForm::Digits.written(SAMPLE_DIGITS, None).as_deref(), Some(SAMPLE_DIGITS));
        assert_eq!(KeyForm::default(), KeyForm::Digits, "of a stored run that does not say it");
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
