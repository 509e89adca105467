//! Reduces the result of a run to fit a context window, and keeps the full result.
//!
//! ```text
//! raw -> intent filter -> JSON chunking -> truncation -> size footer
//! ```
//!
//! Stages only remove text, and the full result is kept in the result store under an id that the footer names. A stage that
//! would save less than a footer costs does nothing. Time is linear in the input. Memory is at most three times the input,
//! including the input itself, the kept result and the answer.
//!
//! # Layout
//! - `raw`, `body`: the returned value, and the text between stages
//! - `format`: indented JSON, JSON without white space, or tables
//! - `intent`, `chunk`, `truncate`, `footer`: the stages
//! - [`results`]: the store of full results, and reading parts of them
//!
//! The stages know neither the store nor a clock: they pass the full result to the caller's `keep`.

#![forbid(unsafe_code)]

mod body;
mod chunk;
mod footer;
mod format;
mod intent;
mod raw;
pub mod results;
#[cfg(test)]
#[path = "../../json/src/samples.rs"]
pub(crate) mod samples;
mod size;
mod truncate;

#[cfg(test)]
mod tests;

pub use body::{Body, BodyForm};
pub use footer::{MIN_FOOTER_SIZE, sizes};
pub use format::{OutputFormat, TABLE_NOTE};
pub use intent::{Intent, IntentTooLong, MAX_INTENT_CHARS};
pub(crate) use size::Kb;
pub use truncate::{Cut, fit};

use crate::results::{Kept, ResultId};
use intent::{Selection, ShownInstead};

/// Maximum length of the header above the text: of the intent filter and of tables.
pub const MAX_HEADER_SIZE: usize = intent::MAX_HEADER + TABLE_NOTE.len();

/// The stages to run, and their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSettings {
    /// Keep only the parts that match the caller's intent, if there is one.
    pub intent: bool,
    /// Replace large JSON by an outline.
    pub auto_chunk_json: bool,
    /// Truncate in the middle; otherwise at the end.
    pub smart_truncation: bool,
    /// Size in bytes above which JSON is replaced by an outline.
    pub chunk_threshold: usize,
    /// Maximum number of returned bytes, including marker and footer.
    pub max_output_size: usize,
    /// How a value is written.
    pub format: OutputFormat,
}

impl Default for OutputSettings {
    fn default() -> Self {
        Self {
            intent: true,
            auto_chunk_json: true,
            smart_truncation: true,
            chunk_threshold: 10_240,
            max_output_size: 200_000,
            format: OutputFormat::Pretty,
        }
    }
}

/// A stage that changed the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Sections that do not match the intent were removed.
    Intent,
    /// JSON was replaced by its outline.
    Chunk,
    /// The middle or the end was removed.
    Truncate,
    /// A size footer was added.
    Footer,
}

/// The reduced result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// At most `max_output_size` bytes.
    pub text: String,
    /// Length of the text before the first stage, in bytes.
    pub bytes_processed: usize,
    /// Length of [`text`](Self::text), in bytes.
    pub bytes_returned: usize,
    /// The stages that changed the text, in order.
    pub stages: Vec<Stage>,
    /// The id of the full result, if something was removed and the store kept it.
    pub result_id: Option<ResultId>,
}

/// Reduces a returned value, given as JSON text. `keep` receives the full result if something is removed.
pub fn shape(
    returned: &str,
    settings: &OutputSettings,
    intent: Option<&str>,
    keep: &mut dyn FnMut(Kept<'_>) -> Option<ResultId>,
) -> Response {
    let (raw, body) = raw::Raw::read(returned, settings.chunk_threshold.min(intent::MIN_FILTERED), settings.format);
    let Reduced { mut text, processed, mut stages } = reduce(body, settings, intent);
    let mut result_id = None;
    if !stages.is_empty() {
        result_id = keep(raw.kept());
        // Whatever was cut off, the answer says where all of it is.
        let needs_footer =
            processed.saturating_sub(text.len()) > footer::MIN_SAVING || stages.contains(&Stage::Truncate);
        let footer = || footer::footer(&text, processed, result_id.as_ref(), settings.max_output_size);
        if let Some(footer) = needs_footer.then(footer).flatten() {
            text.push_str(&footer);
            stages.push(Stage::Footer);
        }
    }
    Response { bytes_processed: processed, bytes_returned: text.len(), text, stages, result_id }
}

/// The text after the reducing stages.
struct Reduced {
    text: String,
    processed: usize,
    stages: Vec<Stage>,
}

fn reduce(mut body: Body<'_>, settings: &OutputSettings, intent: Option<&str>) -> Reduced {
    let mut processed = body.extent().bytes;
    let mut stages = Vec::new();
    let mut header = String::new();
    // An intent that selects no section.
    let mut missed = None;
    if let Some(intent) = intent.filter(|_| settings.intent) {
        match intent::select(&body, intent) {
            Selection::Matching(filtered) => {
                stages.push(Stage::Intent);
                header = filtered.header;
                body = filtered.body;
            }
            Selection::Nothing => missed = Some(intent),
            Selection::All => {}
        }
    }
    if let Some(table) = settings.format.table(&body).filter(|table| fits_unchunked(table, settings)) {
        header.push_str(TABLE_NOTE);
        body = table;
        if stages.is_empty() {
            // Tables remove nothing: the text before the first stage has them.
            processed = header.len() + body.extent().bytes;
        }
    }
    let room = settings.max_output_size - footer::reserved(settings.max_output_size);
    if settings.auto_chunk_json && body.extent().bytes > settings.chunk_threshold {
        let note = missed.map_or(0, |intent| intent::no_match_note(intent, ShownInstead::Outline).len());
        let room = room.saturating_sub(header.len() + note);
        if let Some(outline) = chunk::outline(&body, settings.chunk_threshold, room) {
            if !stages.is_empty() {
                header.push_str(intent::POSITIONS_NOTE);
            }
            stages.push(Stage::Chunk);
            body = outline;
        }
    }
    if let Some(intent) = missed {
        let shown = header.len() + body.extent().bytes;
        let note = no_match_note(intent, shown, processed, &stages, settings);
        if stages.is_empty() && shown <= settings.max_output_size {
            // Nothing is removed: the text before the first stage has the note.
            processed += note.len();
        }
        header.insert_str(0, &note);
    }
    // An unchanged text needs no footer, so it may use all of the room.
    let untouched = stages.is_empty();
    let room = if untouched && processed <= settings.max_output_size { settings.max_output_size } else { room };
    if header.len().saturating_add(body.extent().bytes) > room {
        stages.push(Stage::Truncate);
    }
    let cut = if settings.smart_truncation { Cut::Middle } else { Cut::End };
    let mut text = header;
    text.truncate(text.floor_char_boundary(room));
    let room = room - text.len();
    // Reserve room for the footer, so that the text is not reallocated.
    text.reserve_exact(body.extent().bytes.min(room) + footer::ROOM);
    truncate::print_fitting(&body, room, cut, &mut text);
    Reduced { text, processed, stages }
}

/// The header of an intent that selects no section, above `shown` bytes of text; empty where it would displace much of the text, or
/// cost what the stages saved.
fn no_match_note(intent: &str, shown: usize, processed: usize, stages: &[Stage], settings: &OutputSettings) -> String {
    let max = settings.max_output_size;
    let what = match stages {
        [] if shown <= max => ShownInstead::Whole,
        [] => ShownInstead::Part,
        _ => ShownInstead::Outline,
    };
    let note = intent::no_match_note(intent, what);
    let room = max - footer::reserved(max);
    let fits = match what {
        ShownInstead::Whole => shown + note.len() <= max,
        ShownInstead::Outline | ShownInstead::Part => {
            2 * note.len() <= room && room.min(shown + note.len()) + footer::ROOM <= processed
        }
    };
    if fits { note } else { String::new() }
}

/// Whether a body would be shown whole rather than as an outline.
fn fits_unchunked(body: &Body<'_>, settings: &OutputSettings) -> bool {
    !settings.auto_chunk_json || body.extent().bytes <= settings.chunk_threshold
}
