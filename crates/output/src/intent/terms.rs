//! The terms of an intent, and whether a text contains enough of them.
//!
//! Case is folded and endings are removed, so that "errors" finds "Error" and "failed" finds "failing". Words of scripts
//! without case match inside longer words. In scripts without spaces every pair of characters is a term, because word
//! boundaries are unknown.

use memchr::memmem::Finder;
use toolgate_wire::stem::stem;

/// Maximum number of terms of an intent.
const MAX_TERMS: usize = 64;

/// Maximum number of words of an intent that are read, and of pairs of characters: words that repeat each other add no term.
const MAX_WORDS: usize = 512;

/// The share of the terms that a section must contain: three in ten.
const MIN_SHARE: (u32, u32) = (3, 10);

/// Words that are no terms. Sorted.
const STOP_WORDS: &[&str] = &[
    "a", "about", "an", "and", "are", "as", "at", "be", "by", "for", "from", "how", "i", "in", "is", "it", "me", "my",
    "of", "on", "or", "that", "the", "their", "there", "these", "this", "those", "to", "was", "were", "what", "when",
    "where", "which", "who", "why", "with", "you", "your",
];

/// The distinct terms of an intent.
pub(super) struct Terms {
    /// Stems that are compared with the stems of words.
    stems: Vec<String>,
    /// Words that match anywhere, and their searchers.
    inside: Vec<String>,
    finders: Vec<Finder<'static>>,
    /// The first bytes of the words and of their stems: rejects most words of a text without stemming.
    first: [bool; 256],
    /// Longer words match no term; bounds the cost of a very long word.
    max_word: usize,
}

impl Terms {
    /// `None` if the intent has no word. Words behind the first [`MAX_WORDS`] are not read.
    pub(super) fn of(intent: &str) -> Option<Self> {
        let all = || words(intent).take(MAX_WORDS).map(fold).chain(pairs(intent).take(MAX_WORDS));
        let has_only_stop_words = all().all(|word| is_stop_word(&word));
        let mut terms =
            Self { stems: Vec::new(), inside: Vec::new(), finders: Vec::new(), first: [false; 256], max_word: 0 };
        for word in all().filter(|word| has_only_stop_words || !is_stop_word(word)) {
            terms.add(word);
        }
        terms.finders = terms.inside.iter().map(|term| Finder::new(term).into_owned()).collect();
        // Case folding makes a word at most three times shorter, and an ending has few letters.
        terms.max_word = terms.stems.iter().map(|term| 3 * term.len() + 32).max().unwrap_or(0);
        for byte in terms.stems.iter().filter_map(|term| term.bytes().next()) {
            terms.first[usize::from(byte)] = true;
        }
        (terms.count() > 0).then_some(terms)
    }

    /// Adds the term of a word, while there is room for one of its kind.
    fn add(&mut self, word: String) {
        let first = word.bytes().next();
        let is_caseless = word.chars().all(|c| !c.is_ascii() && c.to_lowercase().eq(c.to_uppercase()));
        let (list, term) = if is_caseless { (&mut self.inside, word) } else { (&mut self.stems, stem(&word)) };
        let is_known = list.contains(&term);
        if !is_known && list.len() == MAX_TERMS / 2 {
            return;
        }
        if !is_known {
            list.push(term);
        }
        // An irregular form may begin with another letter than its stem: `went` has the stem `go`.
        first.into_iter().for_each(|byte| self.first[usize::from(byte)] = true);
    }

    fn count(&self) -> u32 {
        (self.stems.len() + self.inside.len()) as u32
    }

    /// Whether at least three in ten of the terms occur in the text.
    pub(super) fn match_in(&self, text: &str) -> bool {
        let enough = (self.count() * MIN_SHARE.0).div_ceil(MIN_SHARE.1);
        let mut found = self.finders.iter().filter(|finder| finder.find(text.as_bytes()).is_some()).count() as u32;
        let mut seen = 0u64;
        for part in words(text).flat_map(parts) {
            if found >= enough {
                break;
            }
            let bit = self.position(part).map_or(0, |position| 1u64 << position);
            found += u32::from(bit & !seen != 0);
            seen |= bit;
        }
        found >= enough
    }

    fn position(&self, word: &str) -> Option<usize> {
        let first = word.bytes().next()?.to_ascii_lowercase();
        if word.len() > self.max_word {
            return None;
        }
        if first.is_ascii() && !self.first[usize::from(first)] {
            return None;
        }
        let stemmed = stem(&fold(word));
        self.stems.iter().position(|term| *term == stemmed)
    }
}

/// The words of scripts with spaces. A character of another script ends a word: `发生timeout错误` has the word `timeout`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() || is_spaceless(c)).filter(|word| !word.is_empty())
}

/// The pairs of adjacent characters in scripts without spaces; a single character if it has no neighbour.
fn pairs(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !is_spaceless(c)).filter(|run| !run.is_empty()).flat_map(|run| {
        let chars: Vec<char> = run.chars().take(MAX_TERMS).collect();
        chars.windows(chars.len().min(2)).map(String::from_iter).collect::<Vec<_>>()
    })
}

/// Whether a character is Chinese or a Japanese syllable.
fn is_spaceless(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3fffd}')
}

/// The word itself and the parts of a `camelCaseWord`.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let bytes = word.as_bytes();
    let humps = bytes.windows(2).any(|pair| matches!(pair, [before, after] if is_hump(*before, *after)));
    let mut rest = if humps { word } else { "" };
    let pieces = std::iter::from_fn(move || {
        let cut =
            rest.as_bytes().windows(2).position(|pair| matches!(pair, [before, after] if is_hump(*before, *after)));
        let (piece, after) = rest.split_at_checked(cut.map_or(rest.len(), |cut| cut + 1))?;
        rest = after;
        (!piece.is_empty()).then_some(piece)
    });
    std::iter::once(word).chain(pieces)
}

fn is_hump(before: u8, after: u8) -> bool {
    (before.is_ascii_lowercase() || before.is_ascii_digit()) && after.is_ascii_uppercase()
}

/// Lower case, with special cases for `ß`, the final sigma and the Turkish dotted I.
fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(word.len());
    for c in word.chars().flat_map(char::to_lowercase) {
        match c {
            'ß' => folded.push_str("ss"),
            'ς' => folded.push('σ'),
            // The combining dot of a lower-cased Turkish İ.
            '\u{307}' => {}
            c => folded.push(c),
        }
    }
    folded
}

fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(intent: &str, text: &str, expected: bool) {
        let terms = Terms::of(intent).expect("a term");
        assert_eq!(terms.match_in(text), expected, "{intent:?} in {text:?}");
    }

    #[test]
    fn forms_of_a_word_find_each_other() {
        for forms in [
            "error errors Error ERRORS",
            "fail fails failed failing",
            "parse parses parsed parsing",
            "query queries queried querying",
            "call calls called calling",
            "stop stops stopped stopping",
            "box boxes boxed",
            "process processes processed processing",
            "cache caches cached caching",
            "class classes",
            "timeout timeouts",
            "write wrote written",
            "deploy deployment",
        ] {
            for (one, other) in forms.split(' ').flat_map(|one| forms.split(' ').map(move |other| (one, other))) {
                check(one, &format!("an {other}!"), true);
            }
        }
    }

    #[test]
    fn a_form_that_begins_with_another_letter_finds_itself_and_its_stem() {
        check("went", "it went", true);
        check("went", "it will go", true);
    }

    #[test]
    fn other_words_are_not_found() {
        check("error", "terrors and errands", false);
        check("bus", "bu", false);
        check("sing", "s", false);
        check("red", "r", false);
    }

    #[test]
    fn case_folds_in_every_script() {
        check("ÜBERGRÖSSE", "die Übergröße", true);
        check("ΟΔΟΣ", "οδος οδός", true);
        check("ошибка", "ОШИБКА!", true);
        for form in ["ошибка", "ошибки", "ошибкой", "ошибками", "Ошибкам"] {
            check(form, "нет ошибки", true);
        }
        check("запросы базы", "о запросах к базе", true);
        check("ошибка", "нет обмана", false);
        check("istanbul", "İSTANBUL", true);
    }

    #[test]
    fn scripts_without_spaces_are_searched_inside() {
        check("错误", "发生错误了", true);
        check("错误", "一切正常", false);
        check("查找连接错误", "发生错误了：连接失败", true);
        check("查找连接错误", "一切连接正常", false);
        check("HTTP错误", "出现http错误了", true);
        check("timeout", "发生timeout错误", true);
        check("エラーの原因", "接続エラーが発生", true);
        check("误", "发生错误了", true);
    }

    #[test]
    fn names_in_code_are_split_into_words() {
        check("connection errors", "lastErrorCode", true);
        check("error", r#"{"error_count": 3}"#, true);
        check("code", "HTTPErrorCode", true);
    }

    #[test]
    fn words_that_say_nothing_do_not_count_unless_they_are_all_there_is() {
        check("what is the error in this", "the error", true);
        check("what is the error in this", "this is the thing", false);
        check("what is this", "nothing", false);
        check("what is this", "this is what", true);
    }

    #[test]
    fn an_intent_has_a_bounded_number_of_terms() {
        let words = |kind: &str| (0..5_000).map(|at| format!("{kind}{at}")).collect::<Vec<_>>().join(" ");
        let pairs: String = (0..5_000).filter_map(|at| char::from_u32(0x4e00 + at)).collect();
        for (intent, expected) in [(words("w"), 32), (pairs.clone(), 32), (format!("{} {pairs}", words("w")), 64)] {
            assert_eq!(Terms::of(&intent).map(|terms| terms.count()), Some(expected));
        }
    }

    /// The number of words that are read, and so the time, does not grow with the intent.
    #[test]
    fn words_behind_the_first_hundreds_are_not_read() {
        let intent = |before: usize| format!("{}penguin", "error ".repeat(before));
        assert_eq!(Terms::of(&intent(MAX_WORDS - 1)).map(|terms| terms.count()), Some(2));
        assert_eq!(Terms::of(&intent(MAX_WORDS)).map(|terms| terms.count()), Some(1));
    }

    #[test]
    fn the_same_word_twice_is_one_term() {
        check("error errors timeout disk quota", "error error ERROR", false);
        check("error errors timeout disk", "error", true);
    }
}
