//! Reads a tool's arguments; whatever does not fit is named, with what would.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::uri::shown;

/// Why a tool did nothing: a sentence for the agent that called it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) String);

impl Refusal {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Refusal(text.into())
    }
}

/// The arguments of one call.
pub(super) struct Arguments<'a>(&'a Map<String, Value>);

impl<'a> Arguments<'a> {
    /// Takes arguments with these names and no others: a misspelt one must not pass silently.
    pub(super) fn new(given: &'a Map<String, Value>, known: &[&str]) -> Result<Self, Refusal> {
        match given.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Arguments(given)),
            Some(unknown) if known.is_empty() => {
                Err(Refusal(format!("{}: there is no such argument; this tool takes none", shown(unknown))))
            }
            Some(unknown) => {
                Err(Refusal(format!("{}: there is no such argument; known are {}", shown(unknown), known.join(", "))))
            }
        }
    }

    /// `null` counts as left out.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A text that must be there and say something.
    pub(super) fn text(&self, name: &str) -> Result<&'a str, Refusal> {
        match self.optional_text(name)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            Some(_) => Err(Refusal(format!("{name}: must not be empty"))),
            None => Err(Refusal(format!("{name}: is missing; it must be a string"))),
        }
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        self.get(name).map(|value| value.as_str().ok_or_else(|| wrong(name, "a string", value))).transpose()
    }

    /// A whole number within a range.
    pub(super) fn count(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        match whole(value).filter(|count| range.contains(count)) {
            Some(count) => Ok(Some(count)),
            None => Err(wrong(name, &expected, value)),
        }
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Refusal> {
        match self.get(name) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| wrong(name, "true or false", value)),
        }
    }

    /// One word out of a few; the first is the default.
    pub(super) fn choice<'b>(&self, name: &str, words: &[&'b str]) -> Result<&'b str, Refusal> {
        let Some(value) = self.get(name) else { return Ok(words.first().copied().unwrap_or_default()) };
        let chosen = value.as_str().and_then(|text| words.iter().find(|word| **word == text));
        chosen.copied().ok_or_else(|| wrong(name, &format!("one of {}", words.join(", ")), value))
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, Refusal> {
        self.get(name).map(|value| value.as_object().ok_or_else(|| wrong(name, "an object", value))).transpose()
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| wrong(name, "a list of strings", value))?;
        list.iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(name, "a list of strings", item)))
            .collect()
    }

    pub(super) fn named_texts(&self, name: &str) -> Result<std::collections::BTreeMap<String, String>, Refusal> {
        let Some(object) = self.object(name)? else { return Ok(Default::default()) };
        object
            .iter()
            .map(|(key, value)| match value.as_str() {
                Some(text) => Ok((key.clone(), text.to_owned())),
                None => Err(wrong(&format!("{name}.{}", shown(key)), "a string", value)),
            })
            .collect()
    }
}

/// Models write 10.0 for 10.
fn whole(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|float| float.fract() == 0.0 && (0.0..9e15).contains(float));
    value.as_u64().or_else(|| float().map(|float| float as u64))
}

/// Says what came by its kind alone: values may be long or secret.
fn wrong(name: &str, expected: &str, got: &Value) -> Refusal {
    let got = match got {
        Value::Null => "null".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Number(it) => it.to_string(),
        Value::String(text) if text.len() <= 40 => format!("{:?}", shown(text)),
        Value::String(_) => "a long string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Refusal(format!("{name}: must be {expected}, got {got}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(given: Value, read: impl Fn(&Arguments<'_>) -> Result<String, Refusal>, expected: &str) {
        let given = given.as_object().cloned().unwrap_or_default();
        let known = ["code", "limit", "brief", "detail", "env"];
        let found = Arguments::new(&given, &known).and_then(|arguments| read(&arguments));
        assert_eq!(found.unwrap_or_else(|Refusal(text)| text), expected);
    }

    #[test]
    fn a_complaint_names_the_argument_and_what_would_fit() {
        let text = |it: &Arguments<'_>| it.text("code").map(str::to_owned);
        check(json!({ "code": "1" }), text, "1");
        check(json!({}), text, "code: is missing; it must be a string");
        check(json!({ "code": null }), text, "code: is missing; it must be a string");
        check(json!({ "code": " " }), text, "code: must not be empty");
        check(json!({ "code": 7 }), text, "code: must be a string, got 7");
        check(json!({ "cod": "1" }), text, "cod: there is no such argument; known are code, limit, brief, detail, env");
    }

    #[test]
    fn a_count_is_whole_and_in_range() {
        let count = |it: &Arguments<'_>| it.count("limit", 1..=100).map(|count| format!("{count:?}"));
        check(json!({}), count, "None");
        check(json!({ "limit": 10.0 }), count, "Some(10)");
        for bad in [json!(0), json!(101), json!(-1), json!(1.5), json!(1e300), json!("10"), json!([])] {
            let found = Arguments(json!({ "limit": bad }).as_object().unwrap()).count("limit", 1..=100);
            assert!(found.unwrap_err().0.starts_with("limit: must be a whole number from 1 to 100, got "), "{bad}");
        }
    }

    #[test]
    fn a_choice_lists_the_words() {
        let choice = |it: &Arguments<'_>| it.choice("detail", &["brief", "full"]).map(str::to_owned);
        check(json!({}), choice, "brief");
        check(json!({ "detail": "full" }), choice, "full");
        check(json!({ "detail": "all" }), choice, "detail: must be one of brief, full, got \"all\"");
    }

    #[test]
    fn a_value_that_may_be_a_secret_is_not_repeated() {
        let env = |it: &Arguments<'_>| it.named_texts("env").map(|env| format!("{env:?}"));
        check(json!({ "env": { "A": ["hunter2"] } }), env, "env.A: must be a string, got a list");
        check(json!({ "env": "x".repeat(1000) }), env, "env: must be an object, got a long string");
    }
}
