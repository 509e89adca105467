//! Any text at all goes through everything in `plan` that reads texts from outside.
//!
//! Beyond not crashing: positions stay inside the text, what is compiled is JavaScript without types, and a short cut
//! means what the preflight of the same text as a program says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oxc::{allocator::Allocator, parser::Parser, span::SourceType};
use serde_json::Value;
use toolgate_plan::{
    ArgumentFault, Arguments, Call, FailureFacts, Form, Parameters, Plan, Position, Preflight, Program, SyntaxFault,
    Tools, UnusableText, caret, compile, hint_for, plan, preflight, script, validate_code,
};
use toolgate_wire::Profile;

/// Takes every name for a backend and every second property for a tool, so that all roads are open.
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
    fn check_arguments(&self, _: &str, _: &str, arguments: &Value) -> Vec<ArgumentFault> {
        let wrong = arguments.get("b").is_some();
        wrong
            .then(|| ArgumentFault { path: "b".to_owned(), message: "is not expected".to_owned() })
            .into_iter()
            .collect()
    }
}

fuzz_target!(|text: &str| {
    for form in [Form::Script, Form::Compute] {
        match compile(text, form) {
            Ok(program) => check_program(text, &program),
            Err(fault) => check_fault(text, &fault),
        }
    }
    let _ = validate_code(text);
    let looked_over = preflight(text, &Anything);
    match &looked_over {
        Ok(found) => check_preflight(text, found),
        Err(UnusableText::Syntax(fault) | UnusableText::Call(fault)) => check_fault(text, fault),
    }
    match plan(text, &Anything) {
        Plan::Fault(fault) | Plan::BadCall(fault) => check_fault(text, &fault),
        Plan::Direct(call) => check_call(&call, &looked_over.expect("a direct call can be looked over")),
        Plan::OneCall(call) => {
            let program = script(text, &Anything).expect("one call is a program too");
            assert!(program.preflight.errors.is_empty(), "the engine would have refused {call:?}");
            check_program(text, &program.program);
            check_call(&call, &program.preflight);
        }
        Plan::Introspect(_) => check_program(text, &script(text, &Anything).expect("a query is a program too").program),
        Plan::Script(script) => check_program(text, &script.program),
    }
    let failure = FailureFacts {
        source: text,
        class: None,
        position: Some(Position { line: 1, column: 1 }),
        profile: Profile::Chain,
    };
    let _ = hint_for(&failure, &Anything);
});

/// The one call of the program is this one.
fn check_call(call: &Call, seen: &Preflight) {
    let [only] = seen.calls.as_slice() else { panic!("{call:?} is one call, not {:?}", seen.calls) };
    assert_eq!((&only.backend, &only.tool), (&call.backend, &call.tool));
    assert_eq!(only.arguments, Arguments::Known(call.arguments.clone()));
}

fn check_program(text: &str, program: &Program) {
    for (index, line) in program.js.lines().enumerate() {
        for column in [1, 5, line.len() as u32 + 1] {
            let position = program.source_position(index as u32 + 1, column).expect("every line has an origin");
            check_position(text, position);
        }
    }
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, &program.js, SourceType::cjs()).parse();
    assert!(!parsed.panicked && !parsed.diagnostics.has_errors(), "no JavaScript: {}", program.js);
}

fn check_preflight(text: &str, found: &Preflight) {
    found.errors.iter().chain(&found.warnings).for_each(|finding| check_position(text, finding.position));
    found.calls.iter().filter_map(|call| call.position).for_each(|position| check_position(text, position));
}

fn check_fault(text: &str, fault: &SyntaxFault) {
    if let Some(position) = fault.position {
        check_position(text, position);
    }
}

/// A position is inside the text if it leads to an offset and back.
fn check_position(text: &str, position: Position) {
    let offset = position.offset_in(text).unwrap_or_else(|| panic!("{position:?} is outside of the text"));
    assert_eq!(Position::of_offset(text, offset), position);
    assert!(!caret(text, position).is_empty());
}
