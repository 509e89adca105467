//! What a client gets for a value that a program returned: the value, what was printed, and warnings, within one bound.
//!
//! A value is shown in the same way when its run ends, when `run_status` is asked for it, and as the result of a task. What is
//! left out is kept whole.

use serde_json::{Value, json};

use super::answer::{bounded, text_block};
use super::content;
use toolgate_mcp::off_runtime;
use toolgate_output::results::{Kept, Kind, ResultStore};
use toolgate_output::{MIN_FOOTER_SIZE, OutputSettings, Response, Stage};

/// Most bytes of warnings beside a result.
const MAX_WARNING_BYTES: usize = 4_096;

/// How a value is shaped, and where the whole of it is kept.
pub(super) struct Shaping<'a> {
    /// The results that are kept for the caller.
    pub(super) results: Option<ResultStore>,
    /// The stages and their limits.
    pub(super) settings: OutputSettings,
    /// What the caller looks for.
    pub(super) intent: Option<&'a str>,
}

/// Texts that are shown beside a value or a failure.
pub(super) struct TextsBeside(Vec<String>);

impl TextsBeside {
    /// What was printed, in at most a quarter of `room`, and warnings, in at most an eighth.
    pub(super) fn new(console: Option<String>, warnings: &[&str], room: usize) -> Self {
        let console = console.map(|text| bounded(text, room / 4));
        let warnings = (!warnings.is_empty()).then(|| format!("warnings:\n{}", warnings.join("\n")));
        let warnings = warnings.map(|text| bounded(text, (room / 8).min(MAX_WARNING_BYTES)));
        Self(console.into_iter().chain(warnings).collect())
    }

    /// What they leave of `room`.
    pub(super) fn rest_of(&self, room: usize) -> usize {
        room.saturating_sub(self.0.iter().map(String::len).sum())
    }

    /// As blocks.
    pub(super) fn into_blocks(self) -> impl Iterator<Item = Value> {
        self.0.into_iter().map(text_block)
    }
}

/// A value as content.
pub(super) struct ValueContent {
    pub(super) blocks: Vec<Value>,
    /// What the stages did, for the report; none where they had nothing to do with the value.
    pub(super) output: Option<Value>,
    /// The bytes of the value before anything was left out.
    pub(super) bytes_processed: usize,
}

/// The content for a value, given as JSON text, and for what stands beside it.
pub(super) fn content_of(value: &str, beside: TextsBeside, shaping: Shaping<'_>) -> ValueContent {
    let room = beside.rest_of(shaping.settings.max_output_size);
    let keep = |kept: Kept<'_>| shaping.results.as_ref().and_then(|results| results.keep(kept));
    let blocks = off_runtime(value.len(), || content::blocks(value, room, keep));
    let mut content = match blocks {
        Some(blocks) => ValueContent { blocks, output: None, bytes_processed: value.len() },
        None => as_data(value, Shaping { settings: with_room(&shaping.settings, room), ..shaping }),
    };
    content.blocks.extend(beside.into_blocks());
    content
}

fn as_data(value: &str, shaping: Shaping<'_>) -> ValueContent {
    let ShapedValue { response, media, .. } = shaped(value, &shaping);
    let output = Some(output_meta(&response));
    let blocks = std::iter::once(text_block(response.text)).chain(media).collect();
    ValueContent { blocks, output, bytes_processed: response.bytes_processed }
}

/// A value as text, with its pictures beside it.
pub(super) struct ShapedValue {
    /// The text, in which pictures are named.
    pub(super) response: Response,
    /// The value with its pictures named, where it has some.
    pub(super) named: Option<Value>,
    /// The pictures.
    pub(super) media: Vec<Value>,
}

/// Runs the output stages on a value, given as JSON text, after its pictures were taken out of it. The value itself is kept.
pub(super) fn shaped(value: &str, shaping: &Shaping<'_>) -> ShapedValue {
    off_runtime(value.len(), || shaped_here(value, shaping))
}

fn shaped_here(value: &str, shaping: &Shaping<'_>) -> ShapedValue {
    let room = shaping.settings.max_output_size;
    // Pictures leave room for a footer with the sizes and the result id.
    let media = content::media(value, (room / 2).min(room.saturating_sub(MIN_FOOTER_SIZE)));
    let named = media.as_ref().map(|media| media.value.to_string());
    let mut keep = |kept: Kept<'_>| {
        let whole = if named.is_some() { Kept { kind: Kind::Json, text: value.into() } } else { kept };
        shaping.results.as_ref().and_then(|results| results.keep(whole))
    };
    let settings =
        with_room(&shaping.settings, room.saturating_sub(media.as_ref().map_or(0, |media| media.bytes_around)));
    let response = toolgate_output::shape(named.as_deref().unwrap_or(value), &settings, shaping.intent, &mut keep);
    let (named, media) = media.map(|media| (media.value, media.blocks)).unzip();
    ShapedValue { response, named, media: media.unwrap_or_default() }
}

fn with_room(settings: &OutputSettings, room: usize) -> OutputSettings {
    OutputSettings { max_output_size: room, ..settings.clone() }
}

/// What the stages did, for the report.
pub(super) fn output_meta(response: &Response) -> Value {
    let stages: Vec<&str> = response
        .stages
        .iter()
        .map(|stage| match stage {
            Stage::Intent => "intent",
            Stage::Chunk => "chunk",
            Stage::Truncate => "truncate",
            Stage::Footer => "footer",
        })
        .collect();
    json!({
        "bytes_processed": response.bytes_processed,
        "bytes_returned": response.bytes_returned,
        "stages": stages,
        "result_id": response.result_id.as_ref().map(ToString::to_string),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_output::OutputFormat;

    /// Values that do not fit into a small answer, one of each kind of content.
    fn values() -> Vec<(&'static str, Value)> {
        let row = |n: u32| json!({ "id": n, "name": format!("Row {n}"), "note": "lorem ipsum ".repeat(4) });
        let rows: Vec<Value> = (0..300).map(row).collect();
        let picture = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        let text = |n: u32| json!({ "type": "text", "text": format!("part {n} ").repeat(900) });
        let lines: String = (0..900).map(|n| format!("line {n}\n")).collect();
        vec![
            ("a text of lines", json!(lines)),
            ("a text of one line", json!("word ".repeat(2_000))),
            ("a list of records", json!(rows)),
            ("an object with records", json!({ "rows": rows })),
            ("JSON in a text", json!(json!(rows).to_string())),
            ("a list of numbers", json!((0..3_000).collect::<Vec<_>>())),
            ("several texts", json!([text(1), text(2)])),
            ("a resource", json!({ "type": "resource", "resource": { "uri": "file:///a", "text": lines } })),
            ("an object with pictures", json!({ "shots": [picture, picture], "rows": rows })),
            ("a text and a picture", json!(["x".repeat(9_000), picture])),
        ]
    }

    #[test]
    fn the_sizes_and_the_result_id_are_in_answers_of_every_size() {
        let console = || Some(format!("console:\n{}", "printed\n".repeat(900)));
        let warning = "something to know ".repeat(300);
        for (kind, value) in values() {
            let text = value.to_string();
            for max in (256..=288).chain((289..=4_096).step_by(101)) {
                for (format, intent) in [(OutputFormat::Pretty, None), (OutputFormat::Auto, Some("line row part"))] {
                    let settings = OutputSettings { max_output_size: max, format, ..OutputSettings::default() };
                    for (console, warnings) in [(None, &[][..]), (console(), &[warning.as_str()][..])] {
                        let results = Some(ResultStore::new(Default::default()));
                        let beside = TextsBeside::new(console, warnings, max);
                        let shaping = Shaping { results, settings: settings.clone(), intent };
                        let blocks = content_of(&text, beside, shaping).blocks;
                        let shown: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
                        let shown = shown.join("|");
                        assert!(shown.contains("[Output: ") && shown.contains("res_"), "{kind} in {max}: {shown}");
                        assert!(content::text_bytes(&blocks) <= max, "{kind} in {max}: {shown}");
                    }
                }
            }
        }
    }
}
