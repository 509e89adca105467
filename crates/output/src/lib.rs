//! Shapes what a run returned for a context window.
//!
//! ```text
//! raw -> intent filter -> JSON chunking -> truncation -> size footer
//! ```
//!
//! Every stage may only leave out, and whatever was left out is kept whole in the
//! result store, under an id that the footer names. A stage that would save no
//! more than a footer costs does nothing. The whole is linear in its input. With
//! the input, what is kept of it and the answer, it holds at most three times the input.
//!
//! # Layout
//! - `json`: JSON text read in place
//! - `raw`, `body`: what was returned, and the text on its way
//! - `intent`, `chunk`, `truncate`, `footer`: the stages
//! - `stats`: the sums over a session
//!
//! The stages know no clock, store or door: they hand the whole to the caller's `keep`. The store is in [`results`].

#![forbid(unsafe_code)]

mod body;
mod chunk;
mod footer;
mod intent;
mod raw;
pub mod results;
#[cfg(test)]
#[path = "../../json/src/samples.rs"]
pub(crate) mod samples;
mod size;
mod stats;
mod truncate;

#[cfg(test)]
mod tests;

pub use body::{Body, Form};
pub(crate) use size::Kb;
pub use stats::OutputStats;
pub use truncate::{Cut, fit};

use crate::results::{Kept, ResultId};

/// The smallest `max_output_size` that leaves room for a marker, a footer and the result id.
/// Below it the bound still holds, and these are left out as it takes.
pub const MIN_OUTPUT_SIZE: usize = 2 * footer::ROOM;

/// The longest header that a stage may set above the text.
pub const MAX_HEADER_SIZE: usize = intent::MAX_HEADER;

/// Which stages run, and their sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSettings {
    /// Keep only what matches the caller's intent, when there is one.
    pub intent: bool,
    /// Outline large JSON.
    pub auto_chunk_json: bool,
    /// Cut the middle out of what is too long; otherwise cut off the end.
    pub smart_truncation: bool,
    /// JSON above this many bytes is outlined.
    pub chunk_threshold: usize,
    /// Hard bound on the bytes returned, marker and footer included.
    pub max_output_size: usize,
}

impl Default for OutputSettings {
    fn default() -> Self {
        Self {
            intent: true,
            auto_chunk_json: true,
            smart_truncation: true,
            chunk_threshold: 10_240,
            max_output_size: 200_000,
        }
    }
}

/// A stage that changed the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Sections that do not match the intent were left out.
    Intent,
    /// JSON was replaced by its outline.
    Chunk,
    /// The middle or the end was cut.
    Truncate,
    /// A size footer was added.
    Footer,
}

/// What is returned to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Never longer than `max_output_size`.
    pub text: String,
    /// Bytes of the text before the first stage.
    pub bytes_processed: usize,
    /// Bytes of [`text`](Self::text).
    pub bytes_returned: usize,
    /// The stages that changed something, in order.
    pub stages: Vec<Stage>,
    /// Where the whole is kept, if something was left out and the store took it.
    pub result_id: Option<ResultId>,
}

/// Shapes a returned value, given as JSON text. `keep` receives the whole if some of it is left out.
pub fn shape(
    returned: &str,
    settings: &OutputSettings,
    intent: Option<&str>,
    keep: &mut dyn FnMut(Kept<'_>) -> Option<ResultId>,
) -> Response {
    let (raw, body) = raw::Raw::read(returned, settings.chunk_threshold.min(intent::ABOVE));
    let Reduced { mut text, processed, mut stages } = reduce(body, settings, intent);
    let mut result_id = None;
    if !stages.is_empty() {
        result_id = keep(raw.kept());
        if processed.saturating_sub(text.len()) > footer::WORTH {
            let footer = footer::footer(&text, processed, result_id.as_ref());
            if text.len() + footer.len() <= settings.max_output_size {
                text.push_str(&footer);
                stages.push(Stage::Footer);
            }
        }
    }
    Response { bytes_processed: processed, bytes_returned: text.len(), text, stages, result_id }
}

/// The text after the stages that leave out.
struct Reduced {
    text: String,
    processed: usize,
    stages: Vec<Stage>,
}

fn reduce(mut body: Body<'_>, settings: &OutputSettings, intent: Option<&str>) -> Reduced {
    let processed = body.extent().bytes;
    let mut stages = Vec::new();
    let mut header = String::new();
    if let Some(filtered) = intent.filter(|_| settings.intent).and_then(|intent| intent::filter(&body, intent)) {
        stages.push(Stage::Intent);
        header = filtered.header;
        body = filtered.body;
    }
    let room = room_beside_footer(settings.max_output_size);
    if settings.auto_chunk_json && body.extent().bytes > settings.chunk_threshold {
        let room = room.saturating_sub(header.len());
        if let Some(outline) = chunk::outline(&body, settings.chunk_threshold, room) {
            if !stages.is_empty() {
                header.push_str(intent::POSITIONS_NOTE);
            }
            stages.push(Stage::Chunk);
            body = outline;
        }
    }
    // Untouched text may take all the room, since it needs no footer.
    let untouched = stages.is_empty();
    let room = if untouched && processed <= settings.max_output_size { settings.max_output_size } else { room };
    if header.len().saturating_add(body.extent().bytes) > room {
        stages.push(Stage::Truncate);
    }
    let cut = if settings.smart_truncation { Cut::Middle } else { Cut::End };
    let mut text = header;
    text.truncate(text.floor_char_boundary(room));
    let room = room - text.len();
    // With room for the footer, so that the answer is not copied to grow.
    text.reserve_exact(body.extent().bytes.min(room) + footer::ROOM);
    truncate::print_fitting(&body, room, cut, &mut text);
    Reduced { text, processed, stages }
}

fn room_beside_footer(max: usize) -> usize {
    if max >= MIN_OUTPUT_SIZE { max - footer::ROOM } else { max }
}
