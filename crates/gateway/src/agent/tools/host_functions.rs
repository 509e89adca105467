//! Host functions as tools: found, described and listed like those of backends.

use serde_json::{Value, json};
use toolgate_functions::{HostFunction, Registry, docs, find};
use toolgate_wire::foreign_text::clipped;

/// Functions that a description lists.
const MAX_LISTED: usize = 12;
/// Length of one line, in characters.
const MAX_LINE: usize = 260;
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

/// The functions that a task seems to need, a line each.
pub(super) fn found(functions: &Registry, task: &str) -> Vec<String> {
    find(functions, task).into_iter().map(line).collect()
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
    fn a_description_lists_functions() {
        insta::assert_snapshot!(described(&registry()), @r"
        - Functions besides the backends' tools:
          await api.getWeather(): Promise<unknown> — Tells the weather of a city.
          await sendMail(): Promise<unknown> — Sends a message to a person.
        ");
        assert_eq!(described(&Registry::new()), "");
    }
}
