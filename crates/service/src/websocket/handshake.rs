//! The first message of a WebSocket: a program, and the signatures of the functions that the caller implements.
//!
//! Everything is checked here before the run starts; the run itself is in `session`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::remote_functions::{Outgoing, RemoteFunctions};
use crate::body::{self, escaped};
use crate::limits::RequestedLimits;
use crate::messages::{EngineName, FunctionNames, RunProfile, Whole};
use crate::refusal::Refusal;
use crate::run::{Output, ProgramFields, named};
use crate::{Caller, HttpService};
use toolgate_functions::{HostFunction, Param, Presence, Registry};
use toolgate_mcp::{RequestOrigin, TreeError, bounded_tree};
use toolgate_output::Intent;
use toolgate_run::{Door, RunRequest};

/// The most bytes of signatures; each is compiled, which costs more than its bytes.
const MAX_SIGNATURES: usize = 256 * 1024;
const MAX_FUNCTIONS: usize = 256;
/// The most bytes of memory that signatures take before they are compiled.
const MAX_SIGNATURE_TREE: usize = 16 << 20;
/// The most bytes of compiled signatures.
const MAX_COMPILED: u64 = 16 << 20;

/// The first message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Handshake {
    code: Option<String>,
    context: Option<Box<RawValue>>,
    functions: Option<Box<RawValue>>,
    builtins: Option<FunctionNames>,
    timeout_ms: Option<Whole>,
    #[serde(rename = "maxHeapMB")]
    max_heap_mb: Option<Whole>,
    profile: Option<RunProfile>,
    engine: Option<EngineName>,
    max_output_size: Option<Whole>,
    intent: Option<Intent>,
    durable: Option<bool>,
    stage: Option<bool>,
}

/// A function that the caller implements.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a signature: an object with description, params and result")]
struct FunctionSpec {
    #[serde(default)]
    description: String,
    #[serde(default)]
    params: Value,
    #[serde(default = "anything")]
    result: Value,
}

/// One parameter of a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParamSpec {
    name: String,
    #[serde(default = "anything")]
    schema: Value,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    rest: bool,
    #[serde(default)]
    description: String,
}

fn anything() -> Value {
    Value::Bool(true)
}

/// A checked request, and the messages to send while it runs.
pub(super) struct Admitted {
    pub(super) request: RunRequest,
    pub(super) output: Output,
    pub(super) remote_functions: Arc<RemoteFunctions>,
    pub(super) outgoing: UnboundedReceiver<Outgoing>,
}

/// Parses the first message.
pub(super) fn parse(text: &[u8]) -> Result<Handshake, Refusal> {
    body::parse(text)
}

impl Handshake {
    /// Checks everything that can be checked before the run, and builds the request.
    pub(super) fn admit(
        self,
        service: &HttpService,
        caller: &Caller,
        origin: RequestOrigin,
    ) -> Result<Admitted, Refusal> {
        let scope = caller.scope();
        let own = service.runner().functions(&scope);
        let own = match &self.builtins {
            Some(names) => named(&own, names, "/builtins")?,
            None => own,
        };
        if self.stage == Some(true) && self.functions.is_some() {
            let message = "a staged run goes on without its caller after the review: it cannot call functions that the caller lends";
            return Err(Refusal::field("/stage", message));
        }
        let (remote_functions, outgoing) = RemoteFunctions::new();
        let functions = own.merged(&caller_functions(self.functions.as_deref(), &remote_functions)?);
        let output = Output::checked(self.max_output_size, self.intent)?;
        let fields = ProgramFields {
            code: self.code,
            context: self.context,
            profile: self.profile,
            engine: self.engine,
            limits: RequestedLimits { timeout_ms: self.timeout_ms, max_heap_mb: self.max_heap_mb },
            durable: self.durable,
            stage: self.stage,
        };
        let request = RunRequest {
            functions: Some(functions),
            observer: Some(remote_functions.clone()),
            door: Door::WebSocket,
            origin,
            ..fields.request(service.runner(), scope)?
        };
        Ok(Admitted { request, output, remote_functions, outgoing })
    }
}

fn caller_functions(specs: Option<&RawValue>, remote_functions: &Arc<RemoteFunctions>) -> Result<Registry, Refusal> {
    let Some(specs) = specs else { return Ok(Registry::new()) };
    let too_much = |message: String| Err(Refusal::field("/functions", message));
    if specs.get().len() > MAX_SIGNATURES {
        return too_much(format!("at most {MAX_SIGNATURES} bytes of signatures"));
    }
    let specs = match bounded_tree(specs.get(), MAX_SIGNATURE_TREE) {
        Ok(Value::Object(specs)) => specs,
        Err(error @ TreeError::TooManyValues { .. }) => return too_much(error.to_string()),
        Ok(_) | Err(_) => return too_much("must be an object of signatures by function name".into()),
    };
    if specs.len() > MAX_FUNCTIONS {
        return too_much(format!("at most {MAX_FUNCTIONS} functions"));
    }
    let mut functions = Vec::with_capacity(specs.len());
    let mut compiled = 0;
    for (name, spec) in specs {
        let function = function(&name, spec, remote_functions)?;
        compiled += function.schema_bytes();
        if compiled > MAX_COMPILED {
            return too_much(
                "the schemas take too much memory: use simpler ones, with shorter regular expressions".into(),
            );
        }
        functions.push(function);
    }
    Ok(functions.into_iter().collect())
}

fn function(name: &str, spec: Value, remote_functions: &Arc<RemoteFunctions>) -> Result<HostFunction, Refusal> {
    let pointer = format!("/functions/{}", escaped(name));
    let spec: FunctionSpec =
        serde_path_to_error::deserialize(spec).map_err(|error| Refusal::field(&pointer, error.to_string()))?;
    let builder = HostFunction::builder(name).foreign().describe(spec.description).returns(spec.result);
    let builder = params(spec.params, &pointer)?.into_iter().fold(builder, |builder, param| builder.param(param));
    let (remote_functions, name) = (remote_functions.clone(), name.to_owned());
    let built = builder.handle_counted(move |context, args| {
        let (remote_functions, name) = (remote_functions.clone(), name.clone());
        async move { remote_functions.call(&name, args, context.budget).await }
    });
    built.map_err(|error| Refusal::field(pointer, error.to_string()))
}

/// The parameters by position: `{"a": "number"}`, `["a"]` or `[{"name": "a", "schema": {…}}]`. Without any, a function
/// takes any arguments.
fn params(params: Value, pointer: &str) -> Result<Vec<Param>, Refusal> {
    match params {
        Value::Null => Ok(vec![param("args", anything(), Presence::Rest)]),
        Value::Object(named) => {
            Ok(named.into_iter().map(|(name, schema)| param(&name, typed(schema), Presence::Required)).collect())
        }
        Value::Array(list) => list.into_iter().enumerate().map(|(at, entry)| listed(entry, at, pointer)).collect(),
        _ => Err(Refusal::field(format!("{pointer}/params"), "must be an object or a list")),
    }
}

fn listed(entry: Value, at: usize, pointer: &str) -> Result<Param, Refusal> {
    if let Value::String(name) = &entry {
        return Ok(param(name, anything(), Presence::Required));
    }
    let refused = |error: serde_json::Error| Refusal::field(format!("{pointer}/params/{at}"), error.to_string());
    let spec: ParamSpec = serde_json::from_value(entry).map_err(refused)?;
    let presence = match (spec.rest, spec.optional) {
        (true, _) => Presence::Rest,
        (false, true) => Presence::Optional,
        (false, false) => Presence::Required,
    };
    Ok(Param { description: spec.description, ..param(&spec.name, typed(spec.schema), presence) })
}

fn param(name: &str, schema: Value, presence: Presence) -> Param {
    Param { name: name.to_owned(), schema, presence, description: String::new() }
}

/// A string is short for the schema of that type.
fn typed(schema: Value) -> Value {
    match schema {
        Value::String(kind) => json!({ "type": kind }),
        schema => schema,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;
    use toolgate_functions::docs;

    fn check(specs: Value, expected: &str) {
        let raw = serde_json::value::to_raw_value(&specs).expect("JSON");
        let found = match caller_functions(Some(&raw), &RemoteFunctions::new().0) {
            Ok(registry) => registry.iter().map(docs::signature).collect::<Vec<_>>().join("; "),
            Err(Refusal::BadInput { pointer, message }) => format!("{pointer}: {message}"),
            Err(other) => other.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_signature_may_be_written_in_three_ways() {
        let expected = "add(a: number, b: number): Promise<unknown>";
        check(json!({"add": {"params": {"a": "number", "b": {"type": "number"}}}}), expected);
        let a = json!({"name": "a", "schema": {"type": "number"}});
        let b = json!({"name": "b", "schema": "number"});
        check(json!({"add": {"params": [a, b]}}), expected);
        check(json!({"add": {"params": ["a"], "result": {"type": "string"}}}), "add(a: unknown): Promise<string>");
        check(json!({"add": {}}), "add(...args: (unknown)[]): Promise<unknown>");
        let optional = json!({"name": "b", "optional": true});
        check(json!({"add": {"params": ["a", optional]}}), "add(a: unknown, b?: unknown): Promise<unknown>");
    }

    #[test]
    fn an_error_points_to_the_field() {
        check(json!([]), "/functions: must be an object of signatures by function name");
        let signature = "a signature: an object with description, params and result";
        check(json!({"add": 1}), &format!("/functions/add: invalid type: integer `1`, expected {signature}"));
        check(json!({"add": {"params": 1}}), "/functions/add/params: must be an object or a list");
        check(json!({"add": {"params": [{}]}}), "/functions/add/params/0: missing field `name`");
        let fetch = "/functions/fetch: `fetch` is a reserved word or a global of the sandbox";
        check(json!({"fetch": {}}), fetch);
        let reference = json!({"add": {"params": {"a": {"$ref": "#"}}}});
        check(reference, "/functions/add: add: the schema of `a` must not use references");
    }

    #[test]
    fn signatures_are_bounded() {
        let many: Map<String, Value> = (0..257).map(|n| (format!("f{n}"), json!({}))).collect();
        check(Value::Object(many), "/functions: at most 256 functions");
        check(json!({"f": {"description": "x".repeat(300_000)}}), "/functions: at most 262144 bytes of signatures");
        let lists = "its values would take more than 16777216 bytes of memory: send large data as one string, or in several parts";
        check(json!({"f": {"params": vec![json!([[]]); 50_000]}}), &format!("/functions: {lists}"));
    }
}
