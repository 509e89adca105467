//! How well types learned from a few results fit the results that follow.
//!
//! usage: learned_fit < results.jsonl
//!
//! Each line is `{"tool": "time.convert_time", "result": …}`. For every tool the first five results teach a type; each later
//! one is compared with it, and each key of each later object is renamed and looked up. Prints one JSON object for each tool.

use std::collections::BTreeMap;
use std::error::Error;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_catalog::types::learned::LearnedType;

/// Results that teach.
const LESSONS: usize = 5;

#[derive(Deserialize)]
struct Line {
    tool: String,
    result: Value,
}

/// What was found for one tool.
#[derive(Default)]
struct Fit {
    compared: usize,
    accepted: usize,
    renamed: usize,
    noticed: usize,
}

impl Fit {
    fn compare(&mut self, learned: &LearnedType, result: &Value) {
        self.compared += 1;
        self.accepted += usize::from(learned.accepts(result));
        self.rename(learned, &mut Vec::new(), result);
    }

    /// Renames each key, one after the other. An array does not count as a step: its items share one type.
    fn rename<'v>(&mut self, learned: &LearnedType, path: &mut Vec<&'v str>, value: &'v Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.rename(learned, path, item)),
            Value::Object(fields) => {
                for (key, field) in fields {
                    let wrong = format!("{key}Renamed");
                    self.renamed += 1;
                    let known = learned.keys_at(path);
                    self.noticed += usize::from(known.is_some_and(|keys| !keys.contains(&wrong.as_str())));
                    path.push(key);
                    self.rename(learned, path, field);
                    path.pop();
                }
            }
            _ => {}
        }
    }
}

#[expect(clippy::print_stdout, reason = "a program for the terminal")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut tools: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in std::io::stdin().lines() {
        let line: Line = serde_json::from_str(&line?)?;
        tools.entry(line.tool).or_default().push(line.result);
    }
    for (tool, results) in tools {
        let mut learned = LearnedType::default();
        for result in results.iter().take(LESSONS) {
            learned.merge(&LearnedType::of(&result.to_string())?);
        }
        let mut fit = Fit::default();
        results.iter().skip(LESSONS).for_each(|result| fit.compare(&learned, result));
        let Fit { compared, accepted, renamed, noticed } = fit;
        let found =
            json!({ "tool": tool, "compared": compared, "accepted": accepted, "renamed": renamed, "noticed": noticed });
        println!("{found}");
    }
    Ok(())
}
