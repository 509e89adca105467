//! `GET /v1/openapi.json`: OpenAPI 3.1, generated from the types that are read and written.
//!
//! The document is per caller: the schemas list the functions it may name and the limits it may request. The WebSocket is
//! not included, since OpenAPI cannot describe one.

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::Caller;
use super::inspect;
use super::messages::durable::{DecisionsBody, DecisionsReply, DurableRunBody, RunListReply, RunStateReply};
use super::messages::{
    ComputeRequest, FunctionsReply, HealthReply, IndexReply, ReadyReply, ResultReply, RpcReply, RpcRequest, RunBody,
    RunReply, SessionReply, SessionRequest,
};
use super::refusal::ErrorReply;
use toolgate_run::{OUTPUT_SIZE, Runner};
use toolgate_wire::{LimitRequest, Profile};

const DEFINITIONS: &str = "/components/schemas";
const MB: u64 = toolgate_wire::limits::MB;

/// The document for one caller, which needs a key or token or not.
pub(super) fn document(runner: &Runner, caller: &Caller, keyed: bool) -> Value {
    let mut schemas = Schemas::new();
    let paths = paths(&mut schemas, keyed);
    let mut components = schemas.finish();
    narrow(&mut components, runner, caller);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Toolgate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs untrusted TypeScript in sealed processes. GET /v1/run/ws is a WebSocket and GET /v1/events a stream; they are not described here.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key of toolgate.http.keys, or the token of toolgate.http.token_file."},
                "session": {"type": "http", "scheme": "bearer", "description": "The token of a session."},
            },
        },
    })
}

/// Schemas by name, of requests and of replies.
pub(super) struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = DEFINITIONS.into();
            settings.meta_schema = None;
        });
        Schemas { read: settings.clone().into_generator(), written: settings.for_serialize().into_generator() }
    }

    pub(super) fn reads<T: JsonSchema>(&mut self) -> Value {
        let schema = self.read.subschema_for::<T>();
        json!({"required": true, "content": {"application/json": {"schema": schema}}})
    }

    pub(super) fn writes<T: JsonSchema>(&mut self, description: &str) -> Value {
        let schema = self.written.subschema_for::<T>();
        json!({"description": description, "content": {"application/json": {"schema": schema}}})
    }

    fn finish(mut self) -> Map<String, Value> {
        let mut all = self.read.take_definitions(true);
        all.append(&mut self.written.take_definitions(true));
        all
    }
}

/// The error statuses of operations with a body, of operations with a key, and of all operations.
pub(super) const READS_A_BODY: &[u16] = &[400, 408, 413, 415, 429, 503];
pub(super) const KEYED: &[u16] = &[401, 429];
const ANYWHERE: &[u16] = &[400, 403, 500];

fn paths(schemas: &mut Schemas, keyed: bool) -> Value {
    let key = if keyed { json!([{"key": []}]) } else { json!([]) };
    let run = {
        let ok = schemas.writes::<RunReply>("How the run ended; code that failed has `ok: false`.");
        let body = schemas.reads::<RunBody>();
        let errors: &[&[u16]] = &[READS_A_BODY, KEYED, &[409]];
        operation(schemas, "run", "Runs a program.", (200, ok), errors).with("requestBody", body)
    };
    let compute = {
        let ok = schemas.writes::<RunReply>("How the run ended; code that failed has `ok: false`.");
        let body = schemas.reads::<ComputeRequest>();
        let summary = "Applies a function to data.";
        operation(schemas, "compute", summary, (200, ok), &[READS_A_BODY, KEYED]).with("requestBody", body)
    };
    let functions = {
        let ok = schemas.writes::<FunctionsReply>("The functions that the caller's programs may use.");
        operation(schemas, "functions", "Lists functions.", (200, ok), &[KEYED])
    };
    let openapi = {
        let ok =
            json!({"description": "OpenAPI 3.1.", "content": {"application/json": {"schema": {"type": "object"}}}});
        operation(schemas, "openapi", "This document.", (200, ok), &[KEYED])
    };
    let open = {
        let mut ok = schemas.writes::<SessionReply>("The session. Its token is returned only here.");
        let id = "$response.body#/executionId";
        ok["links"] = json!({
            "revoke": {"operationId": "revokeSession", "parameters": {"id": id}},
            "call": {"operationId": "call", "parameters": {"executionId": id}},
        });
        let body = schemas.reads::<SessionRequest>();
        let summary = "Opens a session of the RPC bridge.";
        operation(schemas, "openSession", summary, (201, ok), &[READS_A_BODY, KEYED]).with("requestBody", body)
    };
    let revoke = {
        let ok = json!({"description": "The session is ended."});
        operation(schemas, "revokeSession", "Ends a session.", (204, ok), &[KEYED, &[404, 503]])
            .with("parameters", json!([parameter("id")]))
    };
    let call = {
        let ok = schemas.writes::<RpcReply>("The function's result, or its error.");
        let body = schemas.reads::<RpcRequest>();
        let summary = "Calls a function in a session.";
        operation(schemas, "call", summary, (200, ok), &[READS_A_BODY, &[401]])
            .with("requestBody", body)
            .with("parameters", json!([parameter("executionId"), parameter("fnName")]))
            .with("security", json!([{"session": []}]))
    };
    let query = |name: &str, schema: Value, description: &str| json!({"name": name, "in": "query", "required": false, "schema": schema, "description": description});
    let begin = {
        let mut ok = schemas.writes::<RunStateReply>("The run goes on by itself.");
        let id = json!({"runId": "$response.body#/runId"});
        ok["links"] = json!({
            "view": {"operationId": "durableRun", "parameters": id},
            "abort": {"operationId": "abortRun", "parameters": id},
        });
        let body = schemas.reads::<DurableRunBody>();
        let key = json!([{
            "name": "Idempotency-Key", "in": "header", "required": false,
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            "description": "Requests of one caller with the same key are one run.",
        }]);
        let summary = "Begins a durable run, which survives its process.";
        operation(schemas, "beginRun", summary, (202, ok), &[READS_A_BODY, KEYED])
            .with("requestBody", body)
            .with("parameters", key)
    };
    let runs = {
        let ok = schemas.writes::<RunListReply>("The caller's durable runs, the newest first.");
        let status = json!({"type": "string", "enum": ["running", "paused", "done"]});
        let limit = json!({"type": "integer", "minimum": 1, "maximum": 200});
        let before = json!({"type": "string", "pattern": "^[0-9]{1,15}-[0-9a-f]{1,64}$"});
        let parameters = json!([
            query("status", status, "Only runs in this state."),
            query("limit", limit, "The most runs of a page."),
            query("before", before, "`next` of the page before."),
        ]);
        operation(schemas, "durableRuns", "Lists durable runs.", (200, ok), &[KEYED, &[503]])
            .with("parameters", parameters)
    };
    let durable = {
        let ok = schemas.writes::<RunStateReply>("The run, with its report when it has ended.");
        let wait = json!({"type": "integer", "minimum": 0, "maximum": 300});
        let parameters = json!([parameter("runId"), query("wait", wait, "Seconds to wait for a change.")]);
        operation(schemas, "durableRun", "Shows a durable run.", (200, ok), &[KEYED, &[404, 503]])
            .with("parameters", parameters)
    };
    let abort = {
        let ok = schemas.writes::<RunStateReply>("The run is being ended; what it was when that was asked for.");
        operation(schemas, "abortRun", "Ends a durable run.", (202, ok), &[KEYED, &[404, 503]])
            .with("parameters", json!([parameter("runId")]))
    };
    let events = {
        let ok = json!({"description": "Server-sent events, to the end of the run.", "content": {"text/event-stream": {"schema": {"type": "string"}}}});
        let last = json!([parameter("runId"), {
            "name": "Last-Event-ID", "in": "header", "required": false,
            "schema": {"type": "integer", "minimum": 0}, "description": "The number of the last event that was received.",
        }]);
        operation(schemas, "runEvents", "Watches a durable run.", (200, ok), &[KEYED, &[404, 503]])
            .with("parameters", last)
    };
    let decide = {
        let ok = schemas.writes::<DecisionsReply>("The decisions that hold: the first one about each call.");
        let body = schemas.reads::<DecisionsBody>();
        let summary = "Decides calls that wait for a person.";
        operation(schemas, "decide", summary, (200, ok), &[READS_A_BODY, KEYED, &[404]])
            .with("requestBody", body)
            .with("parameters", json!([parameter("runId")]))
    };
    let result = {
        let ok = schemas.writes::<ResultReply>("The whole value, or the requested part as text.");
        let part = |name: &str, schema: Value, description: &str| json!({"name": name, "in": "query", "required": false, "schema": schema, "description": description});
        let text = || json!({"type": "string"});
        let size = json!({"type": "integer", "minimum": OUTPUT_SIZE.start(), "maximum": OUTPUT_SIZE.end()});
        let parameters = json!([
            parameter("id"),
            part("path", text(), "A key path, such as results.items[3]."),
            part(
                "lines",
                json!({"type": "string", "pattern": "^[1-9][0-9]{0,8}(-([1-9][0-9]{0,8})?)?$"}),
                "Lines, such as 10, 10- or 10-40."
            ),
            part("search", json!({"type": "string", "maxLength": 250}), "Only what contains this text."),
            part("maxOutputSize", size, "The most bytes of a part."),
        ]);
        operation(schemas, "result", "Reads a kept result.", (200, ok), &[KEYED, &[404, 503]])
            .with("parameters", parameters)
    };
    let metrics = {
        let ok = json!({"description": "The text format of Prometheus.", "content": {"text/plain": {"schema": {"type": "string"}}}});
        operation(schemas, "metrics", "Counters for monitoring.", (200, ok), &[KEYED])
    };
    let index = {
        let ok = schemas.writes::<IndexReply>("Where to read on.");
        operation(schemas, "index", "Names the documentation.", (200, ok), &[]).with("security", json!([]))
    };
    let healthz = {
        let ok = schemas.writes::<HealthReply>("The service is alive.");
        operation(schemas, "healthz", "Whether the service is alive.", (200, ok), &[]).with("security", json!([]))
    };
    let readyz = {
        let ok = schemas.writes::<ReadyReply>("The service is ready.");
        let summary = "Whether the service can run programs.";
        operation(schemas, "readyz", summary, (200, ok), &[&[503]]).with("security", json!([]))
    };
    let mut paths = json!({
        "/v1/run": {"post": run.keyed(&key)},
        "/v1/compute": {"post": compute.keyed(&key)},
        "/v1/runs": {"post": begin.keyed(&key), "get": runs.keyed(&key)},
        "/v1/runs/{runId}": {"get": durable.keyed(&key), "delete": abort.keyed(&key)},
        "/v1/runs/{runId}/events": {"get": events.keyed(&key)},
        "/v1/runs/{runId}/decisions": {"post": decide.keyed(&key)},
        "/v1/results/{id}": {"get": result.keyed(&key)},
        "/v1/functions": {"get": functions.keyed(&key)},
        "/v1/openapi.json": {"get": openapi.keyed(&key)},
        "/v1/sessions": {"post": open.keyed(&key)},
        "/v1/sessions/{id}": {"delete": revoke.keyed(&key)},
        "/rpc/{executionId}/{fnName}": {"post": call.0},
        "/metrics": {"get": metrics.keyed(&key)},
        "/": {"get": index.0},
        "/healthz": {"get": healthz.0},
        "/readyz": {"get": readyz.0},
    });
    if let Some(paths) = paths.as_object_mut() {
        inspect::openapi::add_paths(schemas, &key, paths);
    }
    paths
}

pub(super) struct Operation(Map<String, Value>);

impl Operation {
    pub(super) fn with(mut self, key: &str, value: Value) -> Self {
        self.0.insert(key.to_owned(), value);
        self
    }

    /// Adds an answer of another status.
    pub(super) fn also(mut self, status: u16, answer: Value) -> Self {
        if let Some(responses) = self.0.get_mut("responses") {
            responses[status.to_string()] = answer;
        }
        self
    }

    pub(super) fn keyed(self, security: &Value) -> Value {
        Value::Object(self.with("security", security.clone()).0)
    }
}

pub(super) fn operation(
    schemas: &mut Schemas,
    id: &str,
    summary: &str,
    ok: (u16, Value),
    errors: &[&[u16]],
) -> Operation {
    let mut responses = Map::new();
    responses.insert(ok.0.to_string(), ok.1);
    for status in errors.iter().copied().flatten().chain(ANYWHERE) {
        responses.insert(status.to_string(), error(schemas, *status));
    }
    Operation(Map::new())
        .with("operationId", json!(id))
        .with("summary", json!(summary))
        .with("responses", Value::Object(responses))
}

fn error(schemas: &mut Schemas, status: u16) -> Value {
    let description = match status {
        400 => "The request is invalid; `pointer` names the field.",
        401 => "Not authorised.",
        403 => "The peer, Host or Origin is not accepted.",
        404 => "No such path, session, result, backend, tool or run.",
        408 => "The body was not received in time.",
        409 => {
            "Not in this state: the run has not ended, its record cannot be repeated, or no durable runs are kept here."
        }
        413 => "The body is too large.",
        415 => "The body is not application/json.",
        429 => "Too many requests: the key's rate, or the queue of runs.",
        503 => "Not available at this time.",
        _ => "Internal error of the service.",
    };
    let mut response = schemas.writes::<ErrorReply>(description);
    if matches!(status, 429 | 503) {
        response["headers"] = json!({"Retry-After": {
            "description": "Seconds to wait.", "required": true, "schema": {"type": "integer", "minimum": 1},
        }});
    }
    response
}

pub(super) fn parameter(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}})
}

/// Adds what depends on the caller and the configuration: the names of functions, and the bounds of limits.
fn narrow(schemas: &mut Map<String, Value>, runner: &Runner, caller: &Caller) {
    let names = runner.functions(&caller.scope()).names();
    for request in ["RunRequest", "DurableRunRequest", "SessionRequest"] {
        if let Some(functions) = schemas.get_mut(request).and_then(|it| it.pointer_mut("/properties/functions")) {
            // An empty `enum` is not a valid schema; without functions only the empty list is valid.
            match names.is_empty() {
                true => functions["maxItems"] = json!(0),
                false => functions["items"] = json!({"type": "string", "enum": names}),
            }
        }
    }
    let configured = |profile| runner.limits(profile, &LimitRequest::default()).unwrap_or_default();
    narrow_limits(schemas, "RunRequest", &[configured(Profile::Chain), configured(Profile::Snippet)]);
    narrow_limits(schemas, "DurableRunRequest", &[configured(Profile::Chain), configured(Profile::Snippet)]);
    narrow_limits(schemas, "ComputeRequest", &[configured(Profile::Compute)]);
}

/// Uses the smallest bound of the profiles, since a schema cannot depend on the profile.
fn narrow_limits(schemas: &mut Map<String, Value>, request: &str, profiles: &[LimitRequest]) {
    let timeout = profiles.iter().filter_map(|it| it.wall).min();
    let memory = profiles.iter().filter_map(|it| it.memory).min();
    let mut bound = |field: &str, most: Option<u64>| {
        let pointer = format!("/properties/{field}/maximum");
        let maximum = schemas.get_mut(request).and_then(|it| it.pointer_mut(&pointer));
        if let (Some(maximum), Some(most)) = (maximum, most) {
            *maximum = json!(most);
        }
    };
    bound("timeoutMs", timeout.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)));
    bound("maxHeapMB", memory.map(|it| it / MB));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use toolgate_bridge::Bridge;
    use toolgate_catalog::CatalogHandle;
    use toolgate_engine::{Engine, IsolationMode};
    use toolgate_run::FixedEnvironment;

    /// A runner that runs nothing: the document asks only for limits and functions.
    fn runner() -> Runner {
        let engine = Engine::builder().isolation(IsolationMode::Thread).build().expect("an engine");
        let bridge = Arc::new(Bridge::new(CatalogHandle::default()));
        Runner::new(engine, bridge, Arc::new(FixedEnvironment::default()))
    }

    #[tokio::test]
    async fn the_document_matches_its_snapshot() {
        let mut document = document(&runner(), &Caller::Local, false);
        document["info"]["version"] = json!("…");
        insta::assert_json_snapshot!(document);
    }

    #[tokio::test]
    async fn a_request_names_the_engines_that_it_may_ask_for() {
        let document = document(&runner(), &Caller::Local, false);
        let schemas = &document["components"]["schemas"];
        let named = |schema: &str| schemas[schema]["properties"]["engine"].to_string();
        for request in ["RunRequest", "ComputeRequest"] {
            assert!(named(request).contains("#/components/schemas/EngineName"), "{}", named(request));
        }
        let choices = schemas["EngineName"]["oneOf"].as_array().expect("choices");
        let choices: Vec<&str> = choices.iter().filter_map(|choice| choice["const"].as_str()).collect();
        assert_eq!(choices, ["auto", "quickjs", "v8"]);
    }
}
