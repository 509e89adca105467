//! Tools that are slow, fail, or return more than text.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Outcome, arguments};
use toolgate_mcp::Progress;
use toolgate_mcp::server::ToolCall;

const MAX_SECONDS: f64 = 600.0;
const MAX_STEPS: u32 = 1000;
/// A red dot of one pixel.
const LOGO: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlowTask {
    seconds: f64,
    #[serde(default = "usual_steps")]
    steps: u32,
}

fn usual_steps() -> u32 {
    10
}

/// Waits, reports progress, and stops on cancellation.
pub(super) async fn slow(call: ToolCall) -> Outcome {
    let SlowTask { seconds, steps } = arguments(call.arguments)?;
    if !(0.0..=MAX_SECONDS).contains(&seconds) || steps == 0 || steps > MAX_STEPS {
        return Err(format!("seconds lies between 0 and {MAX_SECONDS}, steps between 1 and {MAX_STEPS}"));
    }
    let step = Duration::from_secs_f64(seconds / f64::from(steps));
    for done in 1..=steps {
        tokio::select! {
            () = tokio::time::sleep(step) => {}
            () = call.cancel.cancelled() => return Err(format!("cancelled before step {done} of {steps}")),
        }
        let message = Some(format!("step {done} of {steps}"));
        let news = Progress { progress: f64::from(done), total: Some(f64::from(steps)), message };
        // A slow receiver misses a progress notice; the work continues.
        call.progress.as_ref().map(|sink| sink.try_send(news));
    }
    Ok(json!({ "steps": steps, "seconds": seconds }))
}

/// Always fails, with the given message.
pub(super) fn fail(given: &Map<String, Value>) -> Outcome {
    let words = given.get("message").and_then(Value::as_str);
    Err(words.unwrap_or("this tool always fails").to_owned())
}

/// An image and a link to a resource.
pub(super) fn logo(readme: &str) -> Value {
    json!({ "content": [
        { "type": "text", "text": "The logo of the demo project, and its readme." },
        { "type": "image", "data": LOGO, "mimeType": "image/png" },
        { "type": "resource_link", "uri": readme, "name": "readme", "mimeType": "text/plain" },
    ] })
}
