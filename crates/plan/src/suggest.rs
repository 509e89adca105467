//! Suggests existing names that are close to a name that does not exist.

use toolgate_wire::foreign_text::one_line;

/// Characters of a name that are compared. Names come from outside and may be very long.
const MAX_COMPARED: usize = 64;
/// Suggestions for one name.
const MAX_SUGGESTIONS: usize = 3;
/// Names in a list of what there is instead.
const MAX_LISTED: usize = 24;
/// Characters of a name in it.
const MAX_LISTED_NAME: usize = 80;
/// Characters that one name needs to count as a part of another.
const MIN_PART: usize = 4;
/// Characters that a name needs to count as another spelling of one.
const MIN_RESPELT: usize = 3;

/// Up to three of `candidates` that the writer of `name` may have meant, nearest first.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Vec<String> {
    let wanted = Folded::new(name);
    let mut scored: Vec<(usize, &str)> =
        candidates.into_iter().filter_map(|one| Some((wanted.distance(one)?, one))).collect();
    scored.sort();
    scored.dedup();
    // A distant name beside a near one only distracts.
    let best = scored.first().map_or(0, |(distance, _)| *distance);
    scored.retain(|(distance, _)| *distance <= best + 1);
    scored.into_iter().take(MAX_SUGGESTIONS).map(|(_, one)| one.to_owned()).collect()
}

/// The candidate of which a name is another spelling: one letter apart, or written with other capitals or separators.
pub fn respelt<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let wanted = Folded::new(name);
    candidates.into_iter().find(|one| {
        let other = Folded::new(one);
        let is_long = wanted.0.chars().count().min(other.0.chars().count()) >= MIN_RESPELT;
        is_long && strsim::osa_distance(&wanted.0, &other.0) <= 1
    })
}

/// "Did you mean `a`, `b` or `c`?"; `None` for no names.
pub fn question(names: &[String]) -> Option<String> {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => None,
        [one] => Some(format!("Did you mean {one}?")),
        [first @ .., last] => Some(format!("Did you mean {} or {last}?", first.join(", "))),
    }
}

/// "It has a, b and 3 more.", for a name that is like none of these; `None` for no names.
pub fn listed<'c>(names: impl IntoIterator<Item = &'c str>) -> Option<String> {
    let mut names = names.into_iter();
    let shown: Vec<String> = names.by_ref().take(MAX_LISTED).map(|name| one_line(name, MAX_LISTED_NAME)).collect();
    let more = match names.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!shown.is_empty()).then(|| format!("It has {}{more}.", shown.join(", ")))
}

/// A name as it is compared: lower case, without `-`, `_`, `.` and spaces, and bounded in length.
struct Folded(String);

impl Folded {
    fn new(name: &str) -> Self {
        let kept = name.chars().take(MAX_COMPARED).filter(|c| !matches!(c, '-' | '_' | '.' | ' '));
        Self(kept.flat_map(char::to_lowercase).collect())
    }

    /// How far `other` is from this name; `None` when it is too far to be meant.
    fn distance(&self, other: &str) -> Option<usize> {
        let other = Self::new(other);
        let longest = self.0.chars().count().max(other.0.chars().count());
        let edits = strsim::osa_distance(&self.0, &other.0);
        if edits <= (longest / 3).max(1) && edits < longest {
            return Some(edits);
        }
        // `search` for `web_search_exa`: one name is a part of the other.
        let is_part = |part: &str, whole: &str| part.chars().count() >= MIN_PART && whole.contains(part);
        (is_part(&self.0, &other.0) || is_part(&other.0, &self.0)).then_some(MAX_COMPARED + edits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [&str; 6] = ["web_search", "web_fetch", "list_files", "read-file", "readFile", "delete"];

    #[track_caller]
    fn check(name: &str, expected: &[&str]) {
        assert_eq!(nearest(name, TOOLS), expected, "{name}");
    }

    #[test]
    fn typing_errors_case_and_hyphens_do_not_matter() {
        check("web_serch", &["web_search", "web_fetch"]);
        check("websearch", &["web_search"]);
        check("Web-Search", &["web_search"]);
        check("web_saerch", &["web_search"]);
        check("read_file", &["read-file", "readFile"]);
    }

    #[test]
    fn a_word_of_a_longer_name_is_enough() {
        check("search", &["web_search"]);
        check("files", &["list_files"]);
    }

    #[test]
    fn another_spelling_is_one_letter_apart_or_written_otherwise() {
        let keys = ["created_at", "state", "id"];
        for (name, key) in [("createdAt", "created_at"), ("stat", "state"), ("satte", "state"), ("states", "state")] {
            assert_eq!(respelt(name, keys), Some(key), "{name}");
        }
        for name in ["status", "created", "ids", "draft"] {
            assert_eq!(respelt(name, keys), None, "{name}");
        }
    }

    #[test]
    fn nothing_near_gives_nothing() {
        check("zzz", &[]);
        check("", &[]);
        check("x", &[]);
    }

    #[test]
    fn a_question_reads_as_one() {
        assert_eq!(question(&[]), None);
        assert_eq!(question(&["a".into(), "b".into(), "c".into()]).as_deref(), Some("Did you mean `a`, `b` or `c`?"));
    }

    #[test]
    fn a_list_is_bounded_and_harmless() {
        assert_eq!(listed([]), None);
        assert_eq!(listed(["a", "b"]).as_deref(), Some("It has a, b."));
        let many: Vec<String> = (0..1000).map(|n| format!("tool_{n}\n\u{202e}{}", "x".repeat(10_000))).collect();
        let text = listed(many.iter().map(String::as_str)).expect("names");
        assert!(text.ends_with(" and 976 more.") && text.len() < 4_000, "{}", text.len());
        assert!(!text.contains(['\n', '\u{202e}']));
    }

    #[test]
    fn huge_names_cost_little() {
        let long = "a".repeat(10_000);
        assert_eq!(nearest(&long, [long.as_str()]), [long.as_str()]);
    }
}
