//! The first stage: of a long answer, what matches the caller's intent.
//!
//! Text is judged by paragraph, JSON by element, so that what remains of JSON is
//! still JSON. Words decide, not meaning: a section stays if at least 30% of the
//! intent's terms occur in it. The header says how many stayed, on a line of its
//! own above the text; after it, JSON can be parsed.

mod choice;
mod elements;
mod sections;
mod terms;

use super::body::Body;
use super::footer::WORTH;
use terms::Terms;

/// Only longer texts are filtered.
pub(super) const ABOVE: usize = 5_000;

/// The longest header, note included.
pub(super) const MAX_HEADER: usize = 256;

/// Follows the header when the remaining JSON is outlined.
pub(super) const POSITIONS_NOTE: &str = "[Positions below count the matching sections alone]\n\n";

/// Longest part of the intent that the header repeats.
const QUOTED: usize = 80;

/// What matched.
pub(super) struct Filtered {
    pub(super) header: String,
    pub(super) body: Body<'static>,
}

/// Sections that stay, out of those there were.
struct Matches {
    kept: usize,
    all: usize,
    text: String,
}

/// The matching part, unless nothing matches or hardly anything would go.
pub(super) fn filter(body: &Body<'_>, intent: &str) -> Option<Filtered> {
    if body.extent().bytes <= ABOVE {
        return None;
    }
    let terms = Terms::of(intent)?;
    let matches = match body.json() {
        Some(json) => elements::matching(json, &terms)?,
        None => sections::matching(body.text(), &terms)?,
    };
    let header = header(&matches, intent);
    let filtered = Body::new(matches.text.into(), body.form());
    let saves = filtered.extent().bytes + header.len() + WORTH < body.extent().bytes;
    saves.then_some(Filtered { header, body: filtered })
}

fn header(matches: &Matches, intent: &str) -> String {
    let intent: String = intent.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let quoted = intent.get(..intent.floor_char_boundary(QUOTED)).unwrap_or_default();
    let cut = if quoted.len() < intent.len() { "…" } else { "" };
    format!("[{} of {} sections match \"{quoted}{cut}\"]\n\n", matches.kept, matches.all)
}

#[cfg(test)]
mod tests {
    use super::super::body::Form;
    use super::*;

    fn check(text: &str, form: Form, intent: &str, header: &str) -> String {
        let filtered = filter(&Body::new(text.into(), form), intent).expect("a filtered body");
        assert_eq!(filtered.header, header);
        filtered.body.whole().into_owned()
    }

    fn unchanged(text: &str, form: Form, intent: &str) {
        assert!(filter(&Body::new(text.into(), form), intent).is_none());
    }

    fn report() -> String {
        let filler = "All quiet on this day, nothing to tell of at all.\n".repeat(10);
        let mut paragraphs = vec![filler; 20];
        paragraphs[3] = "The database reported an Error.".into();
        paragraphs[11] = "Two more ERRORS here.".into();
        paragraphs.join("\n\n")
    }

    #[test]
    fn paragraphs_that_match_stay_under_a_header() {
        let kept = check(&report(), Form::Text, "errors", "[2 of 20 sections match \"errors\"]\n\n");
        assert_eq!(kept, "The database reported an Error.\n\nTwo more ERRORS here.");
    }

    #[test]
    fn three_terms_in_ten_are_enough_and_a_quarter_is_not() {
        let kept = check(
            &report(),
            Form::Text,
            "database latency spikes",
            "[1 of 20 sections match \"database latency spikes\"]\n\n",
        );
        assert_eq!(kept, "The database reported an Error.");
        unchanged(&report(), Form::Text, "database latency spikes yesterday");
    }

    #[test]
    fn without_a_match_or_without_a_term_nothing_changes() {
        unchanged(&report(), Form::Text, "penguins");
        unchanged(&report(), Form::Text, " ?! ");
        unchanged(&report(), Form::Text, "quiet error");
    }

    #[test]
    fn short_texts_are_left_alone() {
        let text = format!("An error.\n\n{}", "x".repeat(4_989));
        assert_eq!(text.len(), 5_000);
        unchanged(&text, Form::Text, "error");
        check(&(text + "x"), Form::Text, "error", "[1 of 11 sections match \"error\"]\n\n");
    }

    #[test]
    fn the_header_is_bounded_and_one_line() {
        let intent = format!("error\n{}", "é".repeat(1_000));
        let filtered = filter(&Body::new(report().into(), Form::Text), &intent).expect("half of the terms match");
        assert!(filtered.header.len() + POSITIONS_NOTE.len() <= MAX_HEADER);
        assert_eq!(filtered.header.trim_end().lines().count(), 1);
    }

    #[test]
    fn json_is_filtered_by_element_and_stays_json() {
        let rows: Vec<_> = (0..200)
            .map(|i| serde_json::json!({"id": i, "level": if i % 50 == 7 { "error" } else { "info" }}))
            .collect();
        let json = serde_json::json!({"total": 200, "results": rows, "next": null}).to_string();
        let kept = check(&json, Form::Pretty, "Errors", "[4 of 200 sections match \"Errors\"]\n\n");
        let kept: serde_json::Value = serde_json::from_str(&kept).expect("JSON");
        let ids: Vec<_> = kept["results"].as_array().expect("rows").iter().map(|row| row["id"].as_u64()).collect();
        assert_eq!(ids, [Some(7), Some(57), Some(107), Some(157)]);
        assert_eq!(kept["total"], 200);
    }
}
