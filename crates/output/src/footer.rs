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

/// The footer for `body`, the rest of a text of `processed` bytes.
pub(crate) fn footer(body: &str, processed: usize, result: Option<&ResultId>) -> String {
    let break_line = if body.ends_with('\n') { "\n" } else { "\n\n" };
    format!("{break_line}{}", settled(body.len() + break_line.len(), processed, result))
}

/// The footer text; its numbers include its own length.
fn settled(above: usize, processed: usize, result: Option<&ResultId>) -> String {
    let mut text = write(above, processed, result);
    // The length of the footer depends on its digits; two iterations are enough.
    for _ in 0..3 {
        text = write(above + text.len(), processed, result);
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
        assert!(settled(usize::MAX / 4, usize::MAX, Some(&id)).len() + 2 <= ROOM);
        const { assert!(ROOM > MIN_SAVING) };
    }
}
