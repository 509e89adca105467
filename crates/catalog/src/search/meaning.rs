//! Synonym lookup: the groups of synonyms and the hints of a word.
//!
//! A tool that uses one word of a group matches a query that uses another, with a lower score than an exact match. A
//! word with two meanings is in two groups: `schedule` both creates and plans. A hint is directed: `rain` in a query
//! implies `forecast` in a tool. The words are data, in `data/thesaurus`.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::words::stem;

/// Groups of words of one meaning, one a line.
const SYNONYMS: &str = include_str!("../../data/thesaurus/synonyms.txt");
/// Lines of a word that tools use, a colon, and words of queries that imply it.
const HINTS: &str = include_str!("../../data/thesaurus/hints.txt");

/// The lines of a data file without its comments.
fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The synonym groups that a stemmed word belongs to, as numbers.
pub(super) fn groups(stemmed: &str) -> &'static [usize] {
    static BY_WORD: OnceLock<HashMap<String, Vec<usize>>> = OnceLock::new();
    let by_word = BY_WORD.get_or_init(|| {
        let mut by_word: HashMap<String, Vec<usize>> = HashMap::new();
        for (n, words) in lines(SYNONYMS).enumerate() {
            for word in words.split_whitespace() {
                by_word.entry(stem(word)).or_default().push(n);
            }
        }
        by_word
    });
    by_word.get(stemmed).map_or(&[], Vec::as_slice)
}

/// The stemmed tool words that a stemmed query word hints at.
pub(super) fn hints(stemmed: &str) -> &'static [String] {
    static BY_WORD: OnceLock<HashMap<String, Vec<String>>> = OnceLock::new();
    let by_word = BY_WORD.get_or_init(|| {
        let mut by_word: HashMap<String, Vec<String>> = HashMap::new();
        for (tools_say, people_say) in lines(HINTS).filter_map(|line| line.split_once(':')) {
            for word in people_say.split_whitespace() {
                by_word.entry(stem(word)).or_default().push(stem(tools_say));
            }
        }
        by_word
    });
    by_word.get(stemmed).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[track_caller]
    fn check(one: &str, other: &str, expected: bool) {
        let other = groups(&stem(other));
        assert_eq!(groups(&stem(one)).iter().any(|group| other.contains(group)), expected);
    }

    #[test]
    fn words_of_one_meaning_share_a_group() {
        check("creating", "added", true);
        check("creating", "deleting", false);
        check("open", "create", true);
        check("open", "read", true);
        check("zebra", "zebra", false);
    }

    #[test]
    fn a_group_names_a_word_once() {
        assert!(lines(SYNONYMS).count() > 10);
        for words in lines(SYNONYMS) {
            let distinct: HashSet<String> = words.split_whitespace().map(stem).collect();
            assert_eq!(distinct.len(), words.split_whitespace().count(), "{words:?}");
            assert!(distinct.len() > 1, "{words:?}");
        }
    }

    #[test]
    fn a_hint_goes_one_way() {
        assert!(hints(&stem("umbrella")).contains(&stem("weather")));
        assert_eq!(hints(&stem("forecast")), [] as [String; 0]);
    }

    #[test]
    fn a_hint_is_named_once() {
        assert!(lines(HINTS).count() > 10);
        for line in lines(HINTS) {
            let (tools_say, people_say) = line.split_once(':').unwrap();
            let distinct: HashSet<String> = people_say.split_whitespace().map(stem).collect();
            assert_eq!(distinct.len(), people_say.split_whitespace().count(), "{tools_say}");
            assert!(!distinct.contains(&stem(tools_say)), "{tools_say}");
        }
    }
}
