//! Stems: what the forms of a word have in common, so that a search for `errors` finds `error`.
//!
//! Both sides of a comparison are stemmed alike, so a stem need not be a word. English words lose their endings, Cyrillic
//! ones trailing vowels and some consonants; words of other scripts stay as they are. No dictionary besides the irregular
//! verbs.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Irregular verb forms, each with its base form.
const IRREGULAR: &str = "began begin, bought buy, broke break, broken break, brought bring, built build, caught catch, chose \
    choose, chosen choose, came come, drew draw, drawn draw, drove drive, driven drive, fell fall, \
    fallen fall, felt feel, forgot forget, forgotten forget, gave give, given give, gone go, went go, \
    grew grow, grown grow, heard hear, held hold, kept keep, knew know, known know, lent lend, lost \
    lose, made make, met meet, paid pay, ran run, rang ring, rung ring, said say, sang sing, saw see, \
    seen see, sent send, shown show, slept sleep, sold sell, spent spend, spoke speak, spoken speak, \
    stole steal, taught teach, told tell, took take, taken take, thought think, threw throw, thrown \
    throw, won win, wrote write, written write";

/// Trailing letters that Cyrillic words lose, and how many bytes of a word stay: three letters of two bytes each.
const CYRILLIC_ENDINGS: [char; 16] = ['а', 'е', 'ё', 'и', 'і', 'о', 'у', 'ы', 'э', 'ю', 'я', 'й', 'ь', 'м', 'х', 'в'];
const MIN_CYRILLIC_BYTES: usize = 6;

/// The stem of a word in lower case: `files`, `filing` and `filed` have one.
pub fn stem(word: &str) -> String {
    if !word.is_ascii() {
        return without_cyrillic_ending(word).to_owned();
    }
    let word = irregular(word).unwrap_or(word);
    if word.len() <= 3 {
        return word.to_owned();
    }
    let mut base = singular(word);
    let kept = without_ending(&base).len();
    base.truncate(kept);
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

fn without_cyrillic_ending(word: &str) -> &str {
    let mut rest = word;
    while let Some(shorter) = rest.strip_suffix(CYRILLIC_ENDINGS).filter(|_| rest.len() > MIN_CYRILLIC_BYTES) {
        rest = shorter;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_same(forms: &[&str]) {
        let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
        assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{stems:?}");
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
        check_same(&["process", "processes", "processed", "processing"]);
        check_same(&["cache", "caches", "cached", "caching"]);
        check_same(&["query", "queries", "queried", "querying"]);
        check_same(&["box", "boxes", "boxed"]);
        check_same(&["send", "sent", "sending"]);
        check_same(&["write", "wrote", "written", "writes"]);
        check_same(&["call", "calling", "called"]);
    }

    #[test]
    fn cyrillic_words_lose_their_endings() {
        check_same(&["ошибка", "ошибки", "ошибкой", "ошибками"]);
        check_same(&["запросы", "запросах"]);
    }

    #[test]
    fn short_words_and_other_scripts_stay_as_they_are() {
        for word in ["bus", "gas", "red", "sing", "東京", "straßen", ""] {
            assert_eq!(stem(word), word);
        }
    }
}
