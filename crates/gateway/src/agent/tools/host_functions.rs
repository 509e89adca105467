//! Host functions as tools: found, described and listed like those of backends.

use serde_json::{Value, json};
use toolgate_functions::{HostFunction, Registry, docs};
use toolgate_wire::foreign_text::clipped;

/// Functions that a description lists.
const MAX_LISTED: usize = 12;
/// Length of one line, in characters.
const MAX_LINE: usize = 260;
/// Letters of a word that is looked for.
const MIN_WORD: usize = 3;
/// Words that say nothing about what a function is for.
const COMMON: &[&str] = &[
    "and", "are", "call", "create", "delete", "find", "for", "from", "get", "list", "make", "one", "read", "run",
    "search", "set", "the", "this", "update", "use", "what", "with", "write",
];

/// The function on one line: `getWeather(city: string): Promise<…> — what it does`.
fn line(function: &HostFunction) -> String {
    let words: Vec<&str> = function.description().split_whitespace().collect();
    let about = if words.is_empty() { String::new() } else { format!(" — {}", clipped(&words.join(" "), 100)) };
    clipped(&format!("{}{about}", clipped(&docs::signature(function), MAX_LINE - 110)), MAX_LINE).into_owned()
}

/// What a description says of the functions; nothing without any.
pub(super) fn described(functions: &Registry) -> String {
    if functions.iter().next().is_none() {
        return String::new();
    }
    let lines: Vec<String> =
        functions.iter().take(MAX_LISTED).map(|function| format!("  await {}", line(function))).collect();
    let more = functions.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!("\n  and {more} more, which search_tools finds") } else { String::new() };
    format!("- Functions besides the backends' tools:\n{}{more}\n", lines.join("\n"))
}

/// The functions that a task seems to need, by the words of their names and descriptions.
pub(super) fn found(functions: &Registry, task: &str) -> Vec<String> {
    let wanted = words(task);
    let mut scored: Vec<(usize, String)> = functions
        .iter()
        .filter_map(|function| {
            let name = words(function.name().as_str());
            let about = words(function.description());
            let count = |of: &[String]| wanted.iter().filter(|word| of.contains(word)).count();
            let score = 3 * count(&name) + count(&about);
            let is_named = task.contains(function.name().as_str());
            (is_named || count(&name) > 0 || count(&about) > 1).then(|| (score, line(function)))
        })
        .collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().map(|(_, line)| line).collect()
}

/// Lower-case words, also of a name such as `getWeather`.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut before = ' ';
    for c in text.chars().take(2_000) {
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

/// What there is to say about a function.
pub(super) fn describe(function: &HostFunction, full: bool) -> Value {
    let mut about = json!({
        "function": function.name(),
        "description": function.description(),
        "signature": docs::signature(function),
        "call": format!("await {}(…)", function.name()),
    });
    if full {
        about["input_schema"] = function.interface()["input_schema"].clone();
        about["output_schema"] = function.result().clone();
    }
    about
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        let weather = HostFunction::builder("api.getWeather").describe("Tells the weather of a city.");
        let mail = HostFunction::builder("sendMail").describe("Sends a message to a person.");
        [weather, mail].into_iter().map(|it| it.handle(|_, _| async { Ok(json!(1)) }).unwrap()).collect()
    }

    #[test]
    fn functions_are_found_by_their_words() {
        let names = |task: &str| {
            found(&registry(), task).iter().map(|line| line.split('(').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("what is the weather in Paris"), ["api.getWeather"]);
        assert_eq!(names("send a mail"), ["sendMail"]);
        assert_eq!(names("call sendMail"), ["sendMail"]);
        assert!(names("list files").is_empty());
    }

    #[test]
    fn a_description_lists_functions() {
        insta::assert_snapshot!(described(&registry()), @r"
        - Functions besides the backends' tools:
          await api.getWeather(): Promise<unknown> — Tells the weather of a city.
          await sendMail(): Promise<unknown> — Sends a message to a person.
        ");
        assert_eq!(described(&Registry::new()), "");
    }
}
