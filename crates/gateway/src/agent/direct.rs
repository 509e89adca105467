//! The backends' own tools as `backend__tool`, for clients without code mode.
//!
//! Calls go through the bridge like any other and come back as the backend sent them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use toolgate_engine::HostError;
use toolgate_wire::{CallErrorCode, CallId, CallState, Target};

use super::answer::{self, failure};
use super::direct_approval::{self, DirectApprover};
use super::names::{Named, is_bare, named};
use super::tools::is_taken;
use super::{Shared, caller_of};
use toolgate_backends::ReplyMode;
use toolgate_bridge::approvals::Approver;
use toolgate_bridge::{Answer, RequestContext, RunCalls, is_annotated_read_only};
use toolgate_catalog::{Catalog, ToolRef};
use toolgate_json::{JsonEntry, Shape, unquote};
use toolgate_mcp::TreeError;
use toolgate_mcp::result::ToolResult;
use toolgate_mcp::server::{Fault, RequestScope, ServiceAnswer, ToolCall};
use toolgate_run::{Door, SingleCall};

/// The most memory of a question that a server asks through us.
const MAX_QUESTION_BYTES: usize = 4 << 20;
/// The most memory of a result that names its contents twice.
const MAX_TREE_BYTES: usize = 128 << 20;

/// The names of one edition of the catalog.
#[derive(Default)]
pub(super) struct Direct(Mutex<Option<(u64, Arc<Names>)>>);

/// Every tool with its name, in the order of the catalog, and the index of each name.
struct Names {
    rows: Vec<Named>,
    indexes: HashMap<String, usize>,
}

impl Names {
    fn of(catalog: &Catalog, is_bare: impl Fn(&str) -> bool) -> Self {
        let tools = catalog.tools().map(|it| (it.backend.name().to_owned(), it.tool().name.clone()));
        let rows = named(tools, is_bare, is_taken);
        let indexes = rows.iter().enumerate().map(|(index, row)| (row.name.clone(), index)).collect();
        Names { rows, indexes }
    }
}

impl Direct {
    /// The names that hold now; made anew only when tools changed.
    fn names(&self, shared: &Shared) -> Arc<Names> {
        let edition = shared.gateway.edition();
        let mut held = self.0.lock();
        match &*held {
            Some((of, names)) if *of == edition => Arc::clone(names),
            _ => {
                let config = shared.gateway.config();
                let names = Arc::new(Names::of(&shared.gateway.catalog(), |backend| is_bare(&config, backend)));
                *held = Some((edition, Arc::clone(&names)));
                names
            }
        }
    }
}

/// The names of the tools that a client sees.
pub(super) fn names(shared: &Shared, scope: &RequestScope) -> Vec<String> {
    let names = shared.direct.names(shared);
    let permitted = names.rows.iter().filter(|row| scope.caller.permits_tool(&row.backend, &row.own));
    permitted.map(|row| row.name.clone()).collect()
}

/// The tool that a client means.
pub(super) fn find(shared: &Shared, name: &str, scope: &RequestScope) -> Option<(String, String)> {
    let names = shared.direct.names(shared);
    let row = names.indexes.get(name).and_then(|index| names.rows.get(*index))?;
    scope.caller.permits_tool(&row.backend, &row.own).then(|| (row.backend.clone(), row.own.clone()))
}

/// One tool that a client sees.
pub(super) fn one(shared: &Shared, name: &str, scope: &RequestScope) -> Option<Value> {
    let (backend, tool) = find(shared, name, scope)?;
    Some(object(name.to_owned(), shared.gateway.catalog().tool(&backend, &tool)?))
}

/// The same as text, which is mostly the backend's own.
pub(super) fn text(shared: &Shared, name: &str, scope: &RequestScope) -> Option<Box<RawValue>> {
    let (backend, tool) = find(shared, name, scope)?;
    let catalog = shared.gateway.catalog();
    let tool = catalog.tool(&backend, &tool)?;
    let passed_on = tool.tool().text().and_then(|text| renamed(name, text));
    passed_on.or_else(|| to_raw_value(&object(name.to_owned(), tool)).ok())
}

/// Calls it; the result, or the error, is the backend's own.
pub(super) async fn call(
    shared: &Shared,
    backend: String,
    tool: String,
    mut call: ToolCall,
) -> Result<ServiceAnswer, Fault> {
    let (caller, session) = (caller_of(&call), call.caller);
    let approver = direct_approval::approver(shared, &mut call, &caller);
    // Each call is a run of its own for the policy.
    let decided = Arc::new(RunCalls::default());
    let context = RequestContext {
        cancel: call.cancel,
        progress: call.progress,
        reply: call.interactive_client.map_or(ReplyMode::Raw, ReplyMode::Interactive),
        budget: Some(shared.gateway.runner().caller_budget(&caller)),
        run: Some(Arc::clone(&decided)),
        trace: call.origin.trace.clone(),
        approver: approver.clone().map(|approver| approver as Arc<dyn Approver>),
        ..RequestContext::of(&caller)
    };
    let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
    let target = Target::Tool { backend: backend.clone(), tool: tool.clone() };
    let history = shared.gateway.runner().history();
    let read_only = shared.gateway.catalog().tool(&backend, &tool).is_some_and(is_annotated_read_only);
    let begun = history.begin_call(SingleCall {
        door: Door::Mcp("direct"),
        caller: &caller,
        origin: &call.origin,
        session: Some(session),
        target: &target,
        arguments: &arguments,
        read_only,
    });
    let unasked = approver.as_ref().map(|_| {
        let context = RequestContext { approver: None, ..context.clone() };
        (call.arguments.clone(), context)
    });
    let mut answer = shared.gateway.bridge().call(&backend, &tool, call.arguments, context).await;
    if let (Some(approver), Some((arguments, context))) = (&approver, unasked)
        && approver.asks()
    {
        match approver.form(shared).await {
            Some(form) => {
                // The client sends the call again with what the person said: this one ends unsent, and is no failure.
                let mut record = begun.record();
                record.state = CallState::NotSent;
                record.decision = decided.take_decision(CallId(0)).map(Box::new);
                history.end_call(begun, record, 0);
                return Ok(form.into());
            }
            // Nothing was sent: the call is denied as one of a client without forms.
            None => answer = shared.gateway.bridge().call(&backend, &tool, arguments, context).await,
        }
    }
    let (result, failure) = match answer {
        Ok(Answer::Raw(request)) if request.requests_input() => {
            match question(shared, approver.as_deref(), request).await {
                Ok(question) => (Ok(question.into()), None),
                Err(error) => (failed(&error), Some(error)),
            }
        }
        Ok(answer) => {
            let fault = answer.fault().map(|fault| fault.message);
            match passed_on(answer) {
                Ok(result) => (Ok(result), fault.map(|message| HostError::new(CallErrorCode::ToolFailed, message))),
                Err(error) => (failed(&error), Some(error)),
            }
        }
        Err(error) => (failed(&error), Some(error)),
    };
    let bytes = result.as_ref().map_or(0, |result| match result {
        ServiceAnswer::Text(text) => text.as_str().len(),
        ServiceAnswer::Value(value) => value.to_string().len(),
    });
    let mut record = begun.record();
    match failure {
        Some(error) => record.failed(error.state, &error.code, &error.message),
        None => record.applied(bytes),
    }
    record.decision = decided.take_decision(CallId(0)).map(Box::new);
    history.end_call(begun, record, bytes as u64);
    result
}

/// What a server asks of the client, with what its approver carries through the answer.
async fn question(shared: &Shared, approver: Option<&DirectApprover>, request: ToolResult) -> Result<Value, HostError> {
    let request = request.into_text().into_tree(MAX_QUESTION_BYTES);
    let (request, _) = request.map_err(|error| HostError::new(CallErrorCode::TooLarge, error.to_string()))?;
    match approver {
        Some(approver) => {
            approver.carry(shared, request).await.map_err(|why| HostError::new(CallErrorCode::InputRequired, why))
        }
        None => Ok(request),
    }
}

/// The text of the backend, with a list of contents if it has none. The result type is set by the MCP server for the client's era.
fn passed_on(answer: Answer) -> Result<ServiceAnswer, HostError> {
    let too_large =
        |error: TreeError| HostError::new(CallErrorCode::TooLarge, format!("the result cannot be passed on: {error}"));
    match answer {
        Answer::Raw(result) if result.is_object() => {
            let has_content = result.member("content", Shape::Array).is_some();
            let text = result.into_text();
            let text = if has_content { Ok(text) } else { text.with_member("content", Some("[]"), MAX_TREE_BYTES) };
            text.map(ServiceAnswer::Text).map_err(too_large)
        }
        answer => Ok(answer::text(match answer.into_value() {
            Ok(Value::String(text)) => text,
            Ok(value) => value.to_string(),
            Err(error) => error.message,
        })
        .into()),
    }
}

/// A tool that failed is a result; a backend that refused the call is its own error.
fn failed(error: &HostError) -> Result<ServiceAnswer, Fault> {
    let rejection = error.data.as_ref().filter(|_| error.code == CallErrorCode::Rejected);
    if let Some((code, message)) = rejection.and_then(|it| Some((it["code"].as_i64()?, it["message"].as_str()?))) {
        let data = rejection.map(|it| it["data"].clone()).filter(|data| !data.is_null());
        return Err(Fault::Rejected { code, message: message.to_owned(), data });
    }
    let mut result = failure(error.message.clone());
    if let Some(data) = error.data.as_ref().filter(|data| data.is_object() && error.code == CallErrorCode::ToolFailed) {
        result["structuredContent"] = data.clone();
    }
    Ok(result.into())
}

/// The tool as its backend lists it, under the name that it has here.
fn object(name: String, tool: ToolRef<'_>) -> Value {
    let mut object = match tool.tool().to_raw() {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    object.insert("name".to_owned(), Value::String(name));
    // Clients refuse the whole list for one schema that is none.
    let is_schema = |schema: Option<&Value>| schema.is_some_and(|it| it.get("type") == Some(&json!("object")));
    if !is_schema(object.get("inputSchema")) {
        object.insert("inputSchema".to_owned(), json!({ "type": "object" }));
    }
    if !is_schema(object.get("outputSchema")) {
        object.shift_remove("outputSchema");
    }
    // Tasks are between a client and its server; we run none.
    object.shift_remove("execution");
    if object.get("description").is_some_and(|text| !text.is_string()) {
        object.shift_remove("description");
    }
    Value::Object(object)
}

/// What [`object`] makes, from the text alone: nothing, where more than the name would have to be changed.
fn renamed(name: &str, text: &str) -> Option<Box<RawValue>> {
    let mut keys = HashSet::new();
    let mut members = Vec::new();
    for JsonEntry { key, value, .. } in toolgate_json::Value::of(text).entries() {
        let key = key?;
        let named = unquote(key);
        match &*named {
            "execution" => {}
            "name" => members.push(format!("{key}:{}", Value::from(name))),
            "inputSchema" | "outputSchema" if !is_schema(value) => return None,
            "description" if value.shape() != Shape::String => return None,
            _ => members.push(format!("{key}:{}", value.text())),
        }
        if !keys.insert(named) {
            return None;
        }
    }
    let text = keys.contains("inputSchema").then(|| format!("{{{}}}", members.join(",")))?;
    RawValue::from_string(text).ok()
}

fn is_schema(value: toolgate_json::Value<'_>) -> bool {
    value.member("type").is_some_and(|it| it.text() == "\"object\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_catalog::{BackendState, Listing, Tool};

    #[test]
    fn a_schema_that_is_none_is_replaced() {
        let raw = json!({ "name": "t", "inputSchema": "x", "outputSchema": 7, "execution": {}, "description": 5 });
        let listing = Listing {
            name: "b".into(),
            state: BackendState::Ready,
            tools: Tool::from_raw(raw).into_iter().collect(),
            tags: Vec::new(),
        };
        let catalog = Catalog::new(vec![listing]);
        let found = object("b__t".into(), catalog.tool("b", "t").unwrap());
        assert_eq!(found, json!({ "name": "b__t", "inputSchema": { "type": "object" } }));
    }

    /// The text as a client reads it, and whether no value was made for it.
    fn check(raw: &str, is_passed_on: bool) {
        let tool: Tool = serde_json::from_str(raw).unwrap();
        let listing = Listing { name: "b".into(), state: BackendState::Ready, tools: vec![tool], tags: Vec::new() };
        let catalog = Catalog::new(vec![listing]);
        let tool = catalog.tool("b", "t").unwrap();
        let passed_on = tool.tool().text().and_then(|text| renamed("b__t", text));
        assert_eq!(passed_on.is_some(), is_passed_on, "{raw}");
        if let Some(text) = passed_on {
            assert_eq!(text.get(), object("b__t".into(), tool).to_string());
        }
    }

    #[test]
    fn a_tool_is_passed_on_as_text_where_only_its_name_changes() {
        check(r#"{"name":"t","inputSchema":{"type":"object"}}"#, true);
        check(r#"{"title":"é\"","name":"t","inputSchema":{"a":1,"type":"object"},"x":[1.5,{"name":"y"}]}"#, true);
        check(r#"{"name":"t","description":"d","inputSchema":{"type":"object"},"execution":{"a":1},"_meta":{}}"#, true);
        check(r#"{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}"#, true);
    }

    #[test]
    fn a_tool_that_needs_mending_is_not_passed_on() {
        check(r#"{"name":"t"}"#, false);
        check(r#"{"name":"t","inputSchema":{"type":"object","type":"string"}}"#, false);
        check(r#"{"name":"t","inputSchema":true}"#, false);
        check(r#"{"name":"t","inputSchema":{"type":"object"},"outputSchema":null}"#, false);
        check(r#"{"name":"t","inputSchema":{"type":"object"},"description":5}"#, false);
        check(r#"{"name":"t","inputSchema":{"type":"object"},"x":1,"x":2}"#, false);
        check("{\"name\":\"t\",\n\"inputSchema\":{\"type\":\"object\"}}", false);
    }
}
