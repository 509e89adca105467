//! Tokenizer and stemmer: splits identifiers and prose into lower-case words and removes English endings.

use std::collections::HashMap;
use std::sync::OnceLock;

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

/// Irregular verb forms, each with its base form.
const IRREGULAR: &str = "began begin, bought buy, broke break, broken break, brought bring, built build, caught catch, chose \
    choose, chosen choose, came come, drew draw, drawn draw, drove drive, driven drive, fell fall, \
    fallen fall, felt feel, forgot forget, forgotten forget, gave give, given give, gone go, went go, \
    grew grow, grown grow, heard hear, held hold, kept keep, knew know, known know, lent lend, lost \
    lose, made make, met meet, paid pay, ran run, rang ring, rung ring, said say, sang sing, saw see, \
    seen see, sent send, shown show, slept sleep, sold sell, spent spend, spoke speak, spoken speak, \
    stole steal, taught teach, told tell, took take, taken take, thought think, threw throw, thrown \
    throw, won win, wrote write, written write";

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

/// Removes common English endings, so that `files`, `filing` and `filed` have one stem. The stem need not be a word:
/// index and query are stemmed alike.
pub(super) fn stem(word: &str) -> String {
    let word = irregular(word).unwrap_or(word);
    if !word.is_ascii() || word.len() <= 3 {
        return word.to_owned();
    }
    let singular = singular(word);
    let mut base = without_ending(&singular).to_owned();
    if base.len() > 3 && base.ends_with('e') {
        base.pop();
    }
    if base.len() > 3 && base.ends_with('y') {
        base.pop();
        base.push('i');
    }
    base
}

/// The base form of an irregular verb form.
fn irregular(word: &str) -> Option<&'static str> {
    static BASES: OnceLock<HashMap<&str, &str>> = OnceLock::new();
    BASES.get_or_init(|| IRREGULAR.split(", ").filter_map(|pair| pair.split_once(' ')).collect()).get(word).copied()
}

fn singular(word: &str) -> String {
    if let Some(base) = word.strip_suffix("ies").filter(|base| base.len() >= 2) {
        return format!("{base}y");
    }
    for ending in ["sses", "shes", "ches", "xes", "zes"] {
        if word.ends_with(ending) {
            return word[..word.len() - 2].to_owned();
        }
    }
    match word.strip_suffix('s') {
        Some(base) if !base.ends_with(['s', 'u', 'i']) => base.to_owned(),
        _ => word.to_owned(),
    }
}

fn without_ending(word: &str) -> &str {
    for ending in ["ing", "ed"] {
        if let Some(base) = word.strip_suffix(ending)
            && base.len() >= 3
            && base.contains(['a', 'e', 'i', 'o', 'u', 'y'])
        {
            return undouble(base);
        }
    }
    if let Some(base) = word.strip_suffix("ment").filter(|base| base.len() >= 4) {
        return base;
    }
    word.strip_suffix("ion").filter(|base| base.len() >= 4 && base.ends_with(['t', 's'])).unwrap_or(word)
}

/// Removes a doubled final consonant: `runn` becomes `run`. `call` and `pass` stay.
fn undouble(base: &str) -> &str {
    let mut last = base.bytes().rev();
    match (last.next(), last.next()) {
        (Some(a), Some(b)) if a == b && base.len() > 3 && !matches!(a, b'l' | b's' | b'e' | b'o') => {
            &base[..base.len() - 1]
        }
        _ => base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(words(text), expected);
    }

    #[track_caller]
    fn check_same(forms: &[&str]) {
        let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
        assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{stems:?}");
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
    fn forms_of_a_word_are_one() {
        check_same(&["file", "files", "filing", "filed"]);
        check_same(&["create", "creates", "created", "creating", "creation"]);
        check_same(&["entity", "entities"]);
        check_same(&["delete", "deletion", "deleted"]);
        check_same(&["deploy", "deployment", "deploying"]);
        check_same(&["run", "runs", "running"]);
        check_same(&["add", "adds", "added", "adding"]);
        check_same(&["branch", "branches"]);
        check_same(&["address", "addresses"]);
        check_same(&["send", "sent", "sending"]);
        check_same(&["write", "wrote", "written", "writes"]);
        check_same(&["call", "calling", "called"]);
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
