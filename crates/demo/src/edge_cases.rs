//! Tools that are slow, fail, or answer with more than text.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Outcome, arguments};
use toolgate_mcp::Progress;
use toolgate_mcp::server::ToolCall;

const LONGEST: f64 = 600.0;
const MOST_STEPS: u32 = 1000;
/// A red dot of one pixel.
const LOGO: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pace {
    seconds: f64,
    #[serde(default = "usual_steps")]
    steps: u32,
}

fn usual_steps() -> u32 {
    10
}

/// Takes its time, says how far it is, and stops when told to.
pub(super) async fn slow(call: ToolCall) -> Outcome {
    let Pace { seconds, steps } = arguments(call.arguments)?;
    if !(0.0..=LONGEST).contains(&seconds) || steps == 0 || steps > MOST_STEPS {
        return Err(format!("seconds lies between 0 and {LONGEST}, steps between 1 and {MOST_STEPS}"));
    }
    let step = Duration::from_secs_f64(seconds / f64::from(steps));
    for done in 1..=steps {
        tokio::select! {
            () = tokio::time::sleep(step) => {}
            () = call.cancel.cancelled() => return Err(format!("cancelled before step {done} of {steps}")),
        }
        let message = Some(format!("step {done} of {steps}"));
        let news = Progress { progress: f64::from(done), total: Some(f64::from(steps)), message };
        // Whoever can't keep up misses a step of the report, not of the work.
        call.progress.as_ref().map(|sink| sink.try_send(news));
    }
    Ok(json!({ "steps": steps, "seconds": seconds }))
}

/// Always fails, in the words it is given.
pub(super) fn fail(given: &Map<String, Value>) -> Outcome {
    let words = given.get("message").and_then(Value::as_str);
    Err(words.unwrap_or("this tool always fails").to_owned())
}

/// An image, and where to read on.
pub(super) fn logo(readme: &str) -> Value {
    json!({ "content": [
        { "type": "text", "text": "The logo of the demo project, and its readme." },
        { "type": "image", "data": LOGO, "mimeType": "image/png" },
        { "type": "resource_link", "uri": readme, "name": "readme", "mimeType": "text/plain" },
    ] })
}
