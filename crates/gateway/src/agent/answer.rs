//! Results of tools, in the form that both eras share.

use serde_json::{Value, json};

use super::Shared;
use super::arguments::Refusal;
use toolgate_config::values::ResultFormat;
use toolgate_output::results::Kept;
use toolgate_output::{Body, BodyForm, Cut, fit};
use toolgate_wire::CallerScope;

/// Calls, lines and warnings listed in the report beside a result.
const MAX_LISTED: usize = 100;
/// Bytes of these lists for which there is always room.
const MIN_REPORT: usize = 4_096;
/// How the line about dropped lines begins.
const DROPPED: &str = "… ";

/// A text block.
pub(super) fn text_block(text: impl Into<String>) -> Value {
    json!({ "type": "text", "text": text.into() })
}

/// A result that is one text.
pub(super) fn text(text: impl Into<String>) -> Value {
    json!({ "content": [text_block(text)] })
}

/// A result that is a JSON value, laid out for a reader.
pub(super) fn pretty(value: &Value) -> Value {
    text(serde_json::to_string_pretty(value).unwrap_or_default())
}

/// A result that is a JSON value, indented only where the configuration asks for it: white space costs tokens.
pub(super) fn json(shared: &Shared, value: &Value) -> Value {
    match shared.gateway.config().settings.output.format {
        ResultFormat::Pretty => pretty(value),
        ResultFormat::Auto | ResultFormat::Compact | ResultFormat::Table => text(value.to_string()),
    }
}

/// The same where the value may be of any size: above the bound of a result it is shaped, and the whole of it is kept.
pub(super) fn bounded_json(shared: &Shared, caller: &CallerScope, value: &Value) -> Value {
    let settings = shared.output();
    let whole = json(shared, value);
    if whole["content"][0]["text"].as_str().is_some_and(|text| text.len() <= settings.max_output_size) {
        return whole;
    }
    let results = shared.gateway.runner().results(caller);
    let mut keep = |kept: Kept<'_>| results.as_ref().and_then(|results| results.keep(kept));
    text(toolgate_output::shape(&value.to_string(), &settings, None, &mut keep).text)
}

/// A failure that the agent can read.
pub(super) fn failure(message: impl Into<String>) -> Value {
    json!({ "content": [text_block(message)], "isError": true })
}

/// The result, or the complaint as one.
pub(super) fn or_refusal(result: Result<Value, Refusal>) -> Value {
    result.unwrap_or_else(|Refusal(message)| failure(message))
}

/// What a program printed. A line that begins like one of ours says where it comes from. `None` if it printed nothing.
pub(super) fn console_text(stdout: &[&str], stderr: &[&str], dropped: u64) -> Option<String> {
    if stdout.is_empty() && stderr.is_empty() {
        return None;
    }
    let mut text = "console:".to_owned();
    for line in stdout.iter().flat_map(|entry| lines_of(entry)) {
        let is_taken = ["[stderr]", "[stdout]", DROPPED].iter().any(|mark| line.starts_with(mark));
        text.extend(["\n", if is_taken { "[stdout] " } else { "" }, line]);
    }
    for line in stderr.iter().flat_map(|entry| lines_of(entry)) {
        text.extend(["\n[stderr] ", line]);
    }
    if dropped > 0 {
        text.push_str(&format!("\n{DROPPED}{dropped} more lines were dropped"));
    }
    Some(text)
}

/// The lines of one entry of the console, as a reader would see them.
fn lines_of(entry: &str) -> impl Iterator<Item = &str> {
    entry.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
}

/// A report with as many calls, warnings and lines as fit into the room that they have together. It comes beside the content.
pub(super) fn with_short_lists(mut report: Value, room: usize) -> Value {
    let mut left = room.max(MIN_REPORT);
    for (list, count) in [
        ("/calls", "callCount"),
        ("/warnings", "warningCount"),
        ("/logs/stderr", "stderrCount"),
        ("/logs/stdout", "stdoutCount"),
    ] {
        let Some(entries) = report.pointer_mut(list).and_then(Value::as_array_mut) else { continue };
        let total = entries.len();
        let fitting = entries.iter().take(MAX_LISTED).take_while(|entry| {
            let length = entry.to_string().len();
            let fits = length <= left;
            left -= if fits { length } else { 0 };
            fits
        });
        let fitting = fitting.count();
        if fitting < total {
            entries.truncate(fitting);
            report[count] = json!(total);
        }
    }
    report
}

/// The text within `room` bytes, its middle left out where it is longer.
pub(super) fn bounded(text: String, room: usize) -> String {
    if text.len() <= room { text } else { fit(&Body::new(text.into(), BodyForm::Text), room, Cut::Middle) }
}
