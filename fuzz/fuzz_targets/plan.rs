//! Any text at all goes through everything in `plan` that reads texts from outside.
//!
//! Beyond not crashing: positions stay inside the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolgate_plan::{
    ArgumentProblem, FailureFacts, Form, Parameters, Plan, Position, Tools, caret, compile, hint_for, plan, preflight,
    validate_code,
};

/// Takes every name for a backend and every property for a tool, so that all roads are open.
struct Anything;

impl Tools for Anything {
    fn global(&self, name: &str) -> Option<String> {
        Some(name.to_owned())
    }
    fn backend(&self, name: &str) -> Option<String> {
        Some(name.to_owned())
    }
    fn tool(&self, _: &str, name: &str) -> Option<String> {
        (name.len() % 2 == 0).then(|| name.to_owned())
    }
    fn backends(&self) -> Vec<String> {
        vec!["exa".to_owned(), "my_backend".to_owned()]
    }
    fn tools(&self, _: &str) -> Vec<String> {
        vec!["search".to_owned()]
    }
    fn parameters(&self, _: &str, _: &str) -> Option<Parameters> {
        Some(Parameters { names: vec!["a".to_owned()], required: vec!["a".to_owned()], closed: true })
    }
    fn check_arguments(&self, _: &str, _: &str, arguments: &Value) -> Vec<ArgumentProblem> {
        let wrong = arguments.get("b").is_some();
        wrong.then(|| ArgumentProblem { path: "b".to_owned(), message: "is not expected".to_owned() }).into_iter().collect()
    }
}

fuzz_target!(|text: &str| {
    for form in [Form::Script, Form::Compute] {
        if let Ok(program) = compile(text, form) {
            let lines = text.lines().count().max(1) as u32 + 1;
            for line in 1..=program.js.lines().count() as u32 {
                let position = program.source_position(line, 5).expect("every line has an origin");
                assert!(position.line <= lines, "{position:?} is outside of the text");
            }
        }
    }
    let _ = validate_code(text);
    let _ = preflight(text, &Anything);
    if let Plan::Fault(fault) | Plan::BadCall(fault) = plan(text, &Anything)
        && let Some(position) = fault.position
    {
        let _ = caret(text, position);
    }
    let failure = FailureFacts { source: text, error_name: None, position: Some(Position { line: 1, column: 1 }) };
    let _ = hint_for(&failure, &Anything);
});
