//! Tokenizer: splits identifiers and prose into lower-case words, and stems them.

pub(super) use toolgate_wire::stem::stem;

/// Words that the index and queries ignore. Sorted.
const STOP_WORDS: &[&str] = &[
    "a",
    "about",
    "across",
    "after",
    "again",
    "all",
    "also",
    "am",
    "an",
    "and",
    "any",
    "anything",
    "are",
    "as",
    "at",
    "back",
    "be",
    "been",
    "before",
    "being",
    "between",
    "but",
    "by",
    "can",
    "could",
    "did",
    "do",
    "does",
    "down",
    "during",
    "each",
    "ever",
    "everything",
    "for",
    "from",
    "given",
    "had",
    "has",
    "have",
    "here",
    "how",
    "i",
    "if",
    "im",
    "in",
    "into",
    "is",
    "it",
    "its",
    "just",
    "let",
    "lets",
    "like",
    "may",
    "me",
    "more",
    "my",
    "need",
    "never",
    "no",
    "not",
    "of",
    "off",
    "on",
    "one",
    "only",
    "or",
    "other",
    "our",
    "out",
    "over",
    "per",
    "please",
    "right",
    "s",
    "same",
    "should",
    "so",
    "some",
    "someone",
    "something",
    "still",
    "such",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "through",
    "to",
    "too",
    "tool",
    "under",
    "up",
    "us",
    "use",
    "used",
    "using",
    "very",
    "via",
    "want",
    "was",
    "we",
    "were",
    "what",
    "whats",
    "when",
    "where",
    "wheres",
    "which",
    "while",
    "who",
    "whos",
    "why",
    "will",
    "with",
    "within",
    "without",
    "would",
    "yet",
    "you",
    "your",
];

/// Maximum length of a text that is read, in bytes: a hostile tool may describe itself with megabytes.
const MAX_TEXT: usize = 8_192;

/// The part of a text that is read.
pub(super) fn beginning(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The stemmed words of `text`, in order, stop words left out.
pub(super) fn words(text: &str) -> Vec<String> {
    plain_words(text).iter().flat_map(|word| words_of(word)).collect()
}

/// The stemmed word of an unstemmed one, and the same without its number; none for a stop word.
pub(super) fn words_of(plain: &str) -> impl Iterator<Item = String> {
    let kept = STOP_WORDS.binary_search(&plain).is_err();
    let letters = plain.trim_end_matches(|c: char| c.is_ascii_digit());
    let without_number = letters.len() < plain.len() && letters.len() >= 3;
    let word = kept.then(|| stem(plain));
    word.into_iter().chain((kept && without_number).then(|| stem(letters)))
}

/// Whether a word carries no meaning of its own.
pub(super) fn is_stop_word(plain: &str) -> bool {
    STOP_WORDS.binary_search(&plain).is_ok()
}

/// Adjacent words of `text` joined to one word, stemmed: `time zone` also matches `timezone`, `on call` matches `oncall`.
pub(super) fn joined(text: &str) -> Vec<String> {
    plain_words(text).windows(2).map(|pair| stem(&pair.concat())).collect()
}

/// The stemmed words of `text` that are proper names: capitalised inside a sentence that is not all capitalised.
pub(super) fn proper_names(text: &str) -> Vec<String> {
    let runs: Vec<&str> = text.split_whitespace().collect();
    let is_upper = |run: &&str| run.starts_with(char::is_uppercase);
    if runs.iter().skip(1).all(is_upper) {
        return Vec::new();
    }
    runs.iter().skip(1).filter(|run| is_upper(run)).flat_map(|run| words(run)).collect()
}

/// The unstemmed words of `text` in lower case, stop words included.
pub(super) fn plain_words(text: &str) -> Vec<String> {
    let runs = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    let mut words = Vec::new();
    for run in runs.filter(|run| !run.is_empty()) {
        if run.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
            words.push(run.to_owned());
        } else {
            words.extend(parts(run).into_iter().map(lower).filter(|word| !word.is_empty()));
        }
    }
    words
}

fn lower(part: &str) -> String {
    part.chars().filter(|c| *c != '\'').flat_map(char::to_lowercase).collect()
}

/// Splits camel case: `HTTPServerName` gives `HTTP`, `Server`, `Name`. Digits stay with the letters before them.
fn parts(run: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = run.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for (n, window) in chars.windows(2).enumerate() {
        let [(_, before), (at, here)] = *window else { continue };
        let next_is_lower = chars.get(n + 2).is_some_and(|(_, next)| next.is_lowercase());
        if here.is_uppercase() && (!before.is_uppercase() || next_is_lower) {
            parts.push(&run[start..at]);
            start = at;
        }
    }
    parts.push(&run[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(words(text), expected);
    }

    #[test]
    fn names_are_split_as_they_were_joined() {
        check("git_diff_staged", &["git", "diff", "stag"]);
        check("web-search", &["web", "search"]);
        check("getHTTPResponse", &["get", "http", "respons"]);
        check("S3Bucket", &["s3", "bucket"]);
        check("has.dots/and slashes", &["dot", "slash"]);
    }

    #[test]
    fn a_number_stays_with_its_word() {
        check("base64", &["base64", "bas"]);
        check("k8s", &["k8s"]);
    }

    #[test]
    fn short_words_and_other_scripts_stay_as_they_are() {
        check("bus is gas 東京 Straßen", &["bus", "gas", "東京", "straßen"]);
    }

    #[test]
    fn neighbours_may_be_one_word() {
        assert_eq!(joined("Who is on call"), ["whois", "ison", "oncall"]);
    }

    #[test]
    fn a_name_inside_a_sentence_is_known_by_its_capital() {
        assert_eq!(proper_names("Remember that Alice is in Sydney"), ["alic", "sydnei"]);
        assert_eq!(proper_names("Create Directory"), [] as [&str; 0]);
        assert_eq!(proper_names("Weather"), [] as [&str; 0]);
    }

    #[test]
    fn stop_words_are_left_out() {
        check("what is the weather in Paris?", &["weather", "paris"]);
        assert!(STOP_WORDS.is_sorted());
    }
}
