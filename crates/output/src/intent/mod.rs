//! The first stage: reduces a long result to the sections that match the caller's intent.
//!
//! Sections are paragraphs of text or elements of JSON, so that reduced JSON is still JSON. Matching is by words: a section
//! stays if it contains at least 30% of the intent's terms. A header line above the text says how many sections stayed, or that
//! none matches; the text after it can be parsed as JSON.

mod choice;
mod elements;
mod sections;
mod terms;
mod wording;

use super::body::Body;
use super::footer::MIN_SAVING;
use choice::Choice;
use terms::Terms;
use toolgate_wire::foreign_text::one_line;

pub use wording::{Intent, IntentTooLong, MAX_INTENT_CHARS};

/// Texts of up to this many bytes are not filtered.
pub(super) const MIN_FILTERED: usize = 5_000;

/// Maximum length of the header with the note.
pub(super) const MAX_HEADER: usize = 256;

/// Added to the header if the reduced JSON is replaced by an outline.
pub(super) const POSITIONS_NOTE: &str = "[Positions below count the matching sections alone]\n\n";

/// Maximum length of the intent in the header.
const MAX_QUOTED_INTENT: usize = 80;

/// What an intent makes of a body.
pub(super) enum Selection {
    /// Only the matching sections stay.
    Matching(Filtered),
    /// No section matches, so all of them stay.
    Nothing,
    /// All stay: the body is short, every section matches, or the saving is too small.
    All,
}

/// The matching sections and their header.
pub(super) struct Filtered {
    pub(super) header: String,
    pub(super) body: Body<'static>,
}

/// What is shown where no section matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShownInstead {
    /// The whole result.
    Whole,
    /// An outline of it.
    Outline,
    /// A part of it.
    Part,
}

/// The matching sections, and the number of all sections.
struct Matches {
    kept: usize,
    all: usize,
    /// Empty where nothing is left out.
    text: String,
}

impl Matches {
    fn nothing_left_out(chosen: &Choice) -> Self {
        Matches { kept: chosen.kept, all: chosen.all, text: String::new() }
    }

    /// Whether some sections stay and some do not.
    fn leave_out(&self) -> bool {
        self.kept > 0 && self.kept < self.all
    }
}

/// Chooses the sections that match.
pub(super) fn select(body: &Body<'_>, intent: &str) -> Selection {
    if body.extent().bytes <= MIN_FILTERED {
        return Selection::All;
    }
    let matches = Terms::of(intent).and_then(|terms| match body.json() {
        Some(json) => elements::matching(json, &terms),
        None => sections::matching(body.text(), &terms),
    });
    match matches {
        None | Some(Matches { kept: 0, .. }) => Selection::Nothing,
        Some(matches) if matches.leave_out() => filtered(matches, body, intent),
        Some(_) => Selection::All,
    }
}

fn filtered(matches: Matches, body: &Body<'_>, intent: &str) -> Selection {
    let header = header(&matches, intent);
    let filtered = Body::new(matches.text.into(), body.form());
    let saves = filtered.extent().bytes + header.len() + MIN_SAVING < body.extent().bytes;
    if saves { Selection::Matching(Filtered { header, body: filtered }) } else { Selection::All }
}

fn header(matches: &Matches, intent: &str) -> String {
    format!("[{} of {} sections match {}]\n\n", matches.kept, matches.all, quoted(intent))
}

/// The header where no section matches: what follows instead, and how the rest is read.
pub(super) fn no_match_note(intent: &str, shown: ShownInstead) -> String {
    let follows = match shown {
        ShownInstead::Whole => "the whole result follows",
        ShownInstead::Outline => "an outline of the whole result follows; read the rest by its result id",
        ShownInstead::Part => "a part of the result follows; read the rest by its result id",
    };
    format!("[No section matches {}: {follows}]\n\n", quoted(intent))
}

fn quoted(intent: &str) -> String {
    format!("\"{}\"", one_line(intent.trim(), MAX_QUOTED_INTENT))
}

#[cfg(test)]
mod tests {
    use super::super::body::BodyForm;
    use super::*;

    fn filter(text: &str, form: BodyForm, intent: &str) -> Filtered {
        match select(&Body::new(text.into(), form), intent) {
            Selection::Matching(filtered) => filtered,
            Selection::Nothing | Selection::All => panic!("not filtered by {intent}"),
        }
    }

    fn check(text: &str, form: BodyForm, intent: &str, header: &str) -> String {
        let filtered = filter(text, form, intent);
        assert_eq!(filtered.header, header);
        filtered.body.whole().into_owned()
    }

    fn matches_nothing(text: &str, form: BodyForm, intent: &str) {
        assert!(matches!(select(&Body::new(text.into(), form), intent), Selection::Nothing), "{intent}");
    }

    fn unchanged(text: &str, form: BodyForm, intent: &str) {
        assert!(matches!(select(&Body::new(text.into(), form), intent), Selection::All), "{intent}");
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
        let kept = check(&report(), BodyForm::Text, "errors", "[2 of 20 sections match \"errors\"]\n\n");
        assert_eq!(kept, "The database reported an Error.\n\nTwo more ERRORS here.");
    }

    #[test]
    fn three_terms_in_ten_are_enough_and_a_quarter_is_not() {
        let kept = check(
            &report(),
            BodyForm::Text,
            "database latency spikes",
            "[1 of 20 sections match \"database latency spikes\"]\n\n",
        );
        assert_eq!(kept, "The database reported an Error.");
        matches_nothing(&report(), BodyForm::Text, "database latency spikes yesterday");
    }

    #[test]
    fn without_a_match_or_without_a_term_nothing_is_selected() {
        matches_nothing(&report(), BodyForm::Text, "penguins");
        matches_nothing(&report(), BodyForm::Text, " ?! ");
        unchanged(&report(), BodyForm::Text, "quiet error");
        let one_string = serde_json::json!({"text": "one long error ".repeat(500), "type": "text"}).to_string();
        matches_nothing(&one_string, BodyForm::Pretty, "error");
    }

    #[test]
    fn short_texts_are_left_alone() {
        let text = format!("An error.\n\n{}", "x".repeat(4_989));
        assert_eq!(text.len(), 5_000);
        unchanged(&text, BodyForm::Text, "error");
        check(&(text + "x"), BodyForm::Text, "error", "[1 of 11 sections match \"error\"]\n\n");
    }

    #[test]
    fn the_header_is_bounded_and_one_line() {
        let intent = format!("error\n{}", "é".repeat(1_000));
        let filtered = filter(&report(), BodyForm::Text, &intent);
        assert!(filtered.header.len() + POSITIONS_NOTE.len() <= MAX_HEADER);
        for shown in [ShownInstead::Whole, ShownInstead::Outline, ShownInstead::Part] {
            let note = no_match_note(&intent, shown);
            assert!(note.len() <= MAX_HEADER && note.trim_end().lines().count() == 1, "{note}");
        }
        assert_eq!(filtered.header.trim_end().lines().count(), 1);
    }

    #[test]
    fn json_is_filtered_by_element_and_stays_json() {
        let rows: Vec<_> = (0..200)
            .map(|i| serde_json::json!({"id": i, "level": if i % 50 == 7 { "error" } else { "info" }}))
            .collect();
        let json = serde_json::json!({"total": 200, "results": rows, "next": null}).to_string();
        let kept = check(&json, BodyForm::Pretty, "Errors", "[4 of 200 sections match \"Errors\"]\n\n");
        let kept: serde_json::Value = serde_json::from_str(&kept).expect("JSON");
        let ids: Vec<_> = kept["results"].as_array().expect("rows").iter().map(|row| row["id"].as_u64()).collect();
        assert_eq!(ids, [Some(7), Some(57), Some(107), Some(157)]);
        assert_eq!(kept["total"], 200);
    }
}
