//! Host functions that a task seems to need.

use crate::{HostFunction, Registry};

/// Letters of a word that is looked for.
const MIN_WORD: usize = 3;
/// Characters of a text that are looked at.
const MAX_TEXT: usize = 2_000;
/// Words that say nothing about what a function is for.
const COMMON: &[&str] = &[
    "and", "are", "call", "create", "delete", "find", "for", "from", "get", "list", "make", "one", "read", "run",
    "search", "set", "the", "this", "update", "use", "what", "with", "write",
];

/// The functions that a task seems to need, by the words of their names and descriptions, the best first. Those that it names
/// come before all others.
pub fn find<'f>(functions: &'f Registry, task: &str) -> Vec<&'f HostFunction> {
    let wanted = words(task);
    let mut scored: Vec<((bool, usize), &HostFunction)> = functions
        .iter()
        .filter_map(|function| {
            let name = words(function.name().as_str());
            let about = words(function.description());
            let count = |of: &[String]| wanted.iter().filter(|word| of.contains(word)).count();
            let is_named = task.contains(function.name().as_str());
            let fits = is_named || count(&name) > 0 || count(&about) > 1;
            fits.then(|| ((is_named, 3 * count(&name) + count(&about)), function))
        })
        .collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().map(|(_, function)| function).collect()
}

/// Lower-case words, also of a name such as `getWeather`.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut before = ' ';
    for c in text.chars().take(MAX_TEXT) {
        let begins = !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase());
        if begins {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            last.extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| word.chars().count() >= MIN_WORD && !COMMON.contains(&word.as_str()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn functions_are_found_by_their_words() {
        let weather = HostFunction::builder("api.getWeather").describe("Tells the weather of a city.");
        let mail = HostFunction::builder("sendMail").describe("Sends a message to a person.");
        let functions: Registry =
            [weather, mail].into_iter().map(|it| it.handle(|_, _| async { Ok(json!(1)) }).unwrap()).collect();
        let names = |task: &str| find(&functions, task).iter().map(|it| it.name().to_string()).collect::<Vec<_>>();
        assert_eq!(names("what is the weather in Paris"), ["api.getWeather"]);
        assert_eq!(names("send a mail"), ["sendMail"]);
        assert_eq!(names("call sendMail"), ["sendMail"]);
        assert!(names("list files").is_empty());
    }
}
