//! The last stage: a footer with the returned and the processed size.
//!
//! Both are bytes of text: *processed* is the text before the first stage, *returned* is everything that is returned,
//! including the footer.

use super::size::Kb;
use crate::results::ResultId;

/// A stage must save more than this many bytes; otherwise the footer would cost more than it saves.
pub(crate) const MIN_SAVING: usize = 200;

/// Bytes reserved for a footer. Greater than [`MIN_SAVING`], so that a text that was truncated to make room for a footer
/// gets one, and greater than the longest footer.
pub(crate) const ROOM: usize = 208;

/// Bytes reserved for a footer in a small answer: the longest footer.
const TIGHT_ROOM: usize = 176;

/// Bytes reserved for a footer of one line, where the whole one would leave no room for text: the longest.
const COMPACT_ROOM: usize = 112;

/// Bytes reserved for the result id alone, where no sizes fit either.
const SHORT_ROOM: usize = "\n[Full result: res_00112233445566778899aabbccddeeff]".len();

/// Minimum number of bytes of text above a footer.
const MIN_BODY: usize = 32;

/// The least bytes of an answer whose footer has both the sizes and the result id.
pub const MIN_FOOTER_SIZE: usize = COMPACT_ROOM + MIN_BODY;

/// Bytes to reserve for a footer in an answer of at most `max` bytes: for all of it, for one line, for the result id, or none.
pub(crate) fn reserved(max: usize) -> usize {
    if max >= 2 * ROOM {
        ROOM
    } else if max >= TIGHT_ROOM + MIN_BODY {
        TIGHT_ROOM
    } else if max >= MIN_FOOTER_SIZE {
        COMPACT_ROOM
    } else if max >= SHORT_ROOM + MIN_BODY {
        SHORT_ROOM
    } else {
        0
    }
}

/// The footer for `body`, the rest of a text of `processed` bytes, in an answer of at most `max` bytes. Where the whole one does not
/// fit, sizes and result id in one line; else the result id alone; where that does not fit either, nothing.
pub(crate) fn footer(body: &str, processed: usize, result: Option<&ResultId>, max: usize) -> Option<String> {
    let break_line = if body.ends_with('\n') { "\n" } else { "\n\n" };
    let whole = format!("{break_line}{}", settled(body.len() + break_line.len(), processed, result));
    let compact = || Some(format!("\n{}", settled_by(|own| compact(body.len() + 1 + own, processed, result))));
    let short = || result.map(|result| format!("\n[Full result: {result}]"));
    let fits = |footer: &String| body.len() + footer.len() <= max;
    Some(whole).filter(fits).or_else(|| compact().filter(fits)).or_else(|| short().filter(fits))
}

/// A footer in one line, for `returned` bytes of a value of `processed` bytes.
fn compact(returned: usize, processed: usize, result: Option<&ResultId>) -> String {
    let id = result.map(|result| format!(" [Full result: {result}]")).unwrap_or_default();
    format!("{}{id}", sizes(returned, processed))
}

/// The sizes alone.
pub fn sizes(returned: usize, processed: usize) -> String {
    format!("[Output: {} of {}]", Kb(returned), Kb(processed))
}

/// The footer text; its numbers include its own length.
fn settled(above: usize, processed: usize, result: Option<&ResultId>) -> String {
    settled_by(|own| write(above + own, processed, result))
}

/// A text that depends on its own length.
fn settled_by(write: impl Fn(usize) -> String) -> String {
    let mut text = write(0);
    // Its length depends on its digits; two iterations are enough.
    for _ in 0..3 {
        text = write(text.len());
    }
    text
}

fn write(returned: usize, processed: usize, result: Option<&ResultId>) -> String {
    let mut text = format!(
        "[Output: {} returned, {} processed, {}% reduced]",
        Kb(returned),
        Kb(processed),
        percent_reduced(returned as u64, processed as u64)
    );
    if let Some(result) = result {
        text.push_str(&format!("\n[Full result: {result} — read_result / query_result]"));
    }
    text
}

/// The share of removed bytes in percent, rounded.
pub(crate) fn percent_reduced(returned: u64, processed: u64) -> u64 {
    if processed == 0 {
        return 0;
    }
    let gone = processed.saturating_sub(returned);
    (gone as f64 * 100.0 / processed as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footer_counts_itself() {
        let id = ResultId::parse("res_00112233445566778899aabbccddeeff").expect("an id");
        insta::assert_snapshot!(settled(10_000, 102_400, Some(&id)), @r"
        [Output: 9.9KB returned, 100.0KB processed, 90% reduced]
        [Full result: res_00112233445566778899aabbccddeeff — read_result / query_result]
        ");
    }

    #[test]
    fn the_longest_footer_fits_its_room() {
        let id = ResultId::parse("res_00112233445566778899aabbccddeeff").expect("an id");
        assert!(settled(usize::MAX / 4, usize::MAX, Some(&id)).len() + 2 <= TIGHT_ROOM);
        assert!(compact(usize::MAX, usize::MAX, Some(&id)).len() < COMPACT_ROOM);
        const { assert!(ROOM > MIN_SAVING) };
    }

    #[test]
    fn a_small_answer_has_a_small_footer() {
        let id = ResultId::parse("res_00112233445566778899aabbccddeeff").expect("an id");
        let footer = |max: usize| footer("body", 100_000, Some(&id), max);
        assert!(footer(300).is_some_and(|text| text.contains("processed") && text.contains(id.as_str())));
        let line = "\n[Output: 0.1KB of 97.7KB] [Full result: res_00112233445566778899aabbccddeeff]";
        assert_eq!(footer(100).as_deref(), Some(line));
        assert_eq!(footer(60).as_deref(), Some("\n[Full result: res_00112233445566778899aabbccddeeff]"));
        assert_eq!(footer(30), None);
        let rooms = [0, 84, MIN_FOOTER_SIZE, 256, 416].map(reserved);
        assert_eq!(rooms, [0, SHORT_ROOM, COMPACT_ROOM, TIGHT_ROOM, ROOM]);
    }
}
