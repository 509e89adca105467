//! An MCP server that writes every effect to a file, which outlives the server.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use toolgate_mcp::server::{
    ChangeNotice, Fault, Identity, RequestScope, Service, ServiceAnswer, ServiceFuture, ToolCall, ready,
};

/// The longest time that a call may ask to take.
const MAX_DELAY: Duration = Duration::from_secs(10);

struct Counter {
    file: Arc<File>,
    /// Its tools never change.
    changes: broadcast::Sender<ChangeNotice>,
}

/// Serves the tools `apply` and `read` on stdin and stdout until the client disconnects.
///
/// # Errors
/// If the file cannot be opened, or standard input fails.
pub async fn serve_counter(file: &Path) -> std::io::Result<()> {
    let file = Arc::new(File::options().create(true).append(true).open(file)?);
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let (service, scope) = (Arc::new(Counter { file, changes: broadcast::channel(1).0 }), RequestScope::default());
    toolgate_mcp::server::serve_stdio(service, scope, input, output, CancellationToken::new()).await
}

impl Service for Counter {
    fn identity(&self) -> Identity {
        Identity {
            name: "toolgate-counter".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: "Counts the effects of calls.".to_owned(),
        }
    }

    fn tools(&self, _: &RequestScope) -> Vec<Value> {
        let properties = json!({ "id": { "type": "string" }, "delayMs": { "type": "integer", "minimum": 0 } });
        let schema = json!({ "type": "object", "properties": properties, "required": ["id"] });
        vec![
            json!({ "name": "apply", "description": "Writes the id down, once for each call.", "inputSchema": schema }),
            json!({
                "name": "read", "description": "Gives the id back.", "inputSchema": schema,
                "annotations": { "readOnlyHint": true },
            }),
        ]
    }

    fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.changes.subscribe()
    }

    fn call(&self, call: ToolCall) -> ServiceFuture<ServiceAnswer> {
        let is_effect = match call.name.as_str() {
            "apply" => true,
            "read" => false,
            name => return ready(Err(Fault::NotFound(format!("no tool {name}")))),
        };
        let file = Arc::clone(&self.file);
        Box::pin(async move {
            let id = call.arguments.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            let half = delay(&call.arguments) / 2;
            tokio::time::sleep(half).await;
            if is_effect {
                // One write to a file that is opened for appending: lines of several servers do not mix.
                (&*file).write_all(format!("{id}\n").as_bytes()).map_err(|error| Fault::Internal(error.to_string()))?;
            }
            tokio::time::sleep(half).await;
            let text = json!(id).to_string();
            Ok(json!({ "content": [{ "type": "text", "text": text }], "structuredContent": { "id": id } }).into())
        })
    }
}

fn delay(arguments: &Map<String, Value>) -> Duration {
    let millis = arguments.get("delayMs").and_then(Value::as_u64).unwrap_or_default();
    Duration::from_millis(millis).min(MAX_DELAY)
}
