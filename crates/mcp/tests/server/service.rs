//! A service whose every answer a test knows.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use toolgate_mcp::Progress;
use toolgate_mcp::server::{
    Change, ChangeNotice, Fault, Identity, RequestScope, ResourceCall, Service, ServiceAnswer, ServiceFuture, ToolCall,
    ToolMode, Watch, ready,
};

/// A result that a decoder that guesses would spoil.
pub(crate) fn odd_result() -> Value {
    json!({
        "tools": [1], "content": [{ "type": "hologram", "z": 1, "a": { "nested": [1.5, null] } }],
        "structuredContent": { "b": 1, "a": 2 }, "_meta": { "x/y": true }, "extra": "kept",
    })
}

/// What became of calls of `hang`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hung {
    pub(crate) started: usize,
    pub(crate) cancelled: usize,
}

pub(crate) struct Sample {
    pub(crate) changes: broadcast::Sender<ChangeNotice>,
    pub(crate) hung: watch::Sender<Hung>,
    pub(crate) tool_count: usize,
}

impl Sample {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_tools(3)
    }

    pub(crate) fn with_tools(tool_count: usize) -> Arc<Self> {
        Arc::new(Self { changes: broadcast::channel(16).0, hung: watch::Sender::default(), tool_count })
    }

    /// Waits until the calls of `hang` are as expected.
    pub(crate) async fn until(&self, fits: impl FnMut(&Hung) -> bool) {
        super::peer::soon(self.hung.subscribe().wait_for(fits)).await.unwrap();
    }
}

fn mode_name(scope: &RequestScope) -> &'static str {
    match scope.mode {
        ToolMode::Code => "code",
        ToolMode::Direct => "direct",
        ToolMode::Both => "both",
    }
}

fn tool(name: &str) -> Value {
    let schema =
        json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
    match name {
        "odd" => json!({ "name": name, "inputSchema": schema }),
        _ => json!({ "name": name, "description": "", "inputSchema": schema }),
    }
}

/// Asks who and when where it can, and answers with what it was told.
fn asks(call: &ToolCall) -> Value {
    let Some(client) = &call.interactive_client else { return json!({ "content": [], "structuredContent": "nobody" }) };
    if client.answers().contains_key("requestState") {
        return json!({ "content": [], "structuredContent": client.answers() });
    }
    let form = |message: &str, mode: Value| {
        let params = json!({ "mode": mode, "message": message, "requestedSchema": { "type": "object" } });
        json!({ "method": "elicitation/create", "params": params })
    };
    let requests = json!({
        "who": form("who?", json!("form")), "where": form("where?", json!("url")), "when": form("when?", json!("form")),
    });
    json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "kept" })
}

impl Service for Sample {
    fn identity(&self) -> Identity {
        Identity { name: "sample".to_owned(), version: "1".to_owned(), instructions: "Just ask.".to_owned() }
    }

    fn tools(&self, scope: &RequestScope) -> Vec<Value> {
        self.tool_names(scope).iter().map(|name| tool(name)).collect()
    }

    fn tool_names(&self, scope: &RequestScope) -> Vec<String> {
        let mode = mode_name(scope);
        std::iter::once("odd".to_owned()).chain((1..self.tool_count).map(|index| format!("{mode}{index}"))).collect()
    }

    /// Without building the whole list, so that a page of a long list takes time in proportion to the page.
    fn tool(&self, name: &str, scope: &RequestScope) -> Option<Value> {
        let index = name.strip_prefix(mode_name(scope)).and_then(|index| index.parse::<usize>().ok());
        (name == "odd" || index.is_some_and(|index| (1..self.tool_count).contains(&index))).then(|| tool(name))
    }

    fn call(&self, call: ToolCall) -> ServiceFuture<ServiceAnswer> {
        let hung = self.hung.clone();
        match call.name.as_str() {
            "odd" => Box::pin(async { Ok(odd_result().into()) }),
            "arguments" => Box::pin(async move { Ok(Value::Object(call.arguments).into()) }),
            "foreign" => Box::pin(async {
                let mut result = odd_result();
                result["resultType"] = json!("input_required");
                Ok(result.into())
            }),
            "hang" => Box::pin(async move {
                hung.send_modify(|hung| hung.started += 1);
                call.cancel.cancelled().await;
                hung.send_modify(|hung| hung.cancelled += 1);
                Err(Fault::Internal("cancelled".to_owned()))
            }),
            "steps" => Box::pin(async move {
                for progress in [1.0, 3.0, 2.0, 3.0, 4.5, f64::NAN] {
                    let news = Progress { progress, total: Some(5.0), message: Some(format!("at {progress}")) };
                    call.progress.as_ref().map(|sink| sink.try_send(news));
                }
                Ok(json!({ "content": [] }).into())
            }),
            "panic" => Box::pin(async { panic!("a bug in a service") }),
            "asks" => Box::pin(async move { Ok(asks(&call).into()) }),
            "rejected" => Box::pin(async {
                Err(Fault::Rejected { code: -32077, message: "theirs".to_owned(), data: Some(json!({ "a": 1 })) })
            }),
            "large" => {
                Box::pin(async { Ok(json!({ "content": [{ "type": "text", "text": "x".repeat(10_000) }] }).into()) })
            }
            name => Box::pin(std::future::ready(Err(Fault::NotFound(format!("there is no tool {name}"))))),
        }
    }

    fn resources(&self, _: &RequestScope) -> ServiceFuture<Vec<Value>> {
        Box::pin(std::future::ready(Ok(vec![json!({ "uri": "sample://a", "name": "a" })])))
    }

    fn read(&self, call: ResourceCall) -> ServiceFuture<ServiceAnswer> {
        Box::pin(async move {
            match call.uri.as_str() {
                "sample://a" => Ok(json!([{ "uri": call.uri, "text": "A" }]).into()),
                "sample://caller" => Ok(json!([{ "uri": call.uri, "text": call.caller.to_string() }]).into()),
                _ => Err(Fault::NotFound("nothing there".to_owned())),
            }
        })
    }

    fn watch(&self, call: ResourceCall) -> ServiceFuture<Watch> {
        let known = call.uri == "sample://a";
        ready(known.then(Watch::own).ok_or_else(|| Fault::NotFound("nothing there".to_owned())))
    }

    /// In the direct view there are no resources to hear of.
    fn shows(&self, news: &ChangeNotice, scope: &RequestScope) -> bool {
        scope.mode != ToolMode::Direct || news.change != Change::Resources
    }

    fn has_resources(&self) -> bool {
        true
    }

    fn announces_resources(&self) -> bool {
        true
    }

    fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.changes.subscribe()
    }
}
