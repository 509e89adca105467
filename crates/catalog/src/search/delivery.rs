//! Recognises a step that hands what was made to people: `post a summary`, `share it with the team`.
//!
//! The words name what is handed over, while the tools that do it speak of messages, so such a step is also searched as a
//! message. A step that names where its content comes from (`post a summary of the log files`) needs a tool that reads it.

use super::operation::imperative;
use super::words::{is_stop_word, plain_words, stem};

/// Verbs that hand over their object.
const DELIVERING_VERBS: &str = "announce broadcast circulate deliver forward post present publish report send share";
/// Verbs whose object is who is told.
const TELLING_VERBS: &str = "alert brief inform notify ping tell warn";
/// What a step makes of what it read.
const PRODUCTS: &str = "analysis answer brief conclusion digest finding findings highlight highlights insight outcome overview \
     recap report result status summary takeaway update writeup";
/// Words for what an earlier step made.
const PRONOUNS: &str = "it them this that these those";
/// Words between a product and what it is made of.
const OF: &str = "about from of on";
/// Words that end what a product is made of.
const WHERE: &str = "as at by in into through to via with";

/// A step that hands something to people, as searches.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// The same step about a message.
    pub(super) message: String,
    /// How to get what it is made of, if the step says so.
    pub(super) source: Option<String>,
}

impl Delivery {
    /// `None` for a step that hands over nothing that was made.
    pub(super) fn of(step: &str) -> Option<Self> {
        let words = plain_words(step);
        let (verb, rest) = imperative(&words).split_first()?;
        let lets_know = verb == "let" && rest.iter().any(|word| word == "know");
        if lets_know || is_one_of(TELLING_VERBS, verb) {
            let told: Vec<&str> = rest.iter().map(String::as_str).filter(|word| *word != "know").collect();
            return Some(Self { message: spaced("send a message to", &told), source: None });
        }
        if !is_one_of(DELIVERING_VERBS, verb) {
            return None;
        }
        let is_product = |word: &String| is_one_of(PRODUCTS, word);
        let product = rest.iter().position(|word| is_product(word) || is_in(PRONOUNS, word))?;
        let (object, after) = rest.split_at_checked(product + 1)?;
        let (source, place) = match after.split_first() {
            Some((of, after)) if object.last().is_some_and(is_product) && is_in(OF, of) => {
                after.split_at(after.iter().position(|word| is_in(WHERE, word)).unwrap_or(after.len()))
            }
            _ => (&[][..], after),
        };
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        let says_something = source.iter().any(|word| !is_stop_word(word));
        Some(Self {
            message: spaced(&format!("{verb} a message"), &place),
            source: says_something.then(|| format!("read {}", source.join(" "))),
        })
    }
}

fn spaced(first: &str, rest: &[&str]) -> String {
    std::iter::once(first).chain(rest.iter().copied()).collect::<Vec<_>>().join(" ")
}

fn is_in(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|one| one == word)
}

/// Whether a word is a form of one of these.
fn is_one_of(words: &str, word: &str) -> bool {
    let stemmed = stem(word);
    words.split_whitespace().any(|one| stem(one) == stemmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(step: &str, message: &str, source: Option<&str>) {
        let expected = Delivery { message: message.to_owned(), source: source.map(str::to_owned) };
        assert_eq!(Delivery::of(step), Some(expected));
    }

    #[test]
    fn what_was_made_is_handed_over_as_a_message() {
        check("post a summary", "post a message", None);
        check("please share it with the team on slack", "share a message with the team on slack", None);
        check("posting the results to #ops", "posting a message to ops", None);
        check("tell the team", "send a message to the team", None);
        check("let everyone know", "send a message to everyone", None);
    }

    #[test]
    fn what_it_is_made_of_is_read() {
        check("post a summary of the log files", "post a message", Some("read the log files"));
        check("send a report on failed builds to Ann", "send a message to ann", Some("read failed builds"));
        check("send a recap of it to Ann", "send a message to ann", None);
    }

    #[test]
    fn a_step_about_something_else_is_no_delivery() {
        for step in ["post a comment", "send the invoice", "share a drive file", "read a summary", "summary", ""] {
            assert_eq!(Delivery::of(step), None, "{step}");
        }
    }
}
