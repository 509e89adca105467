//! Whether a call's arguments fit the tool's schema, before anything is sent.
//!
//! The schema comes from a backend and may be wrong or hostile: not a schema, one that refers to the network, a regular
//! expression that never ends, references that multiply. None of that may cost a user their tool or the gateway its
//! time. A schema that can't be used safely is put aside with a note and the arguments pass unchecked: the backend
//! checks them anyway.
//!
//! Nothing is coerced and no default is filled in: what the code sent is what the backend gets.

mod cost;
mod problem;

pub use problem::ArgumentProblem;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use cost::Cost;

/// A reader acts on the first few problems.
const MAX_PROBLEMS: usize = 8;
/// Values in arguments of which all problems are looked for; of larger ones the first is told.
const MAX_LISTED_NODES: usize = 2_000;
/// Backtracking steps of one regular expression on one string.
const MAX_BACKTRACKS: usize = 20_000;
/// Bytes that one compiled regular expression may take.
const MAX_PATTERN_SIZE: usize = 1 << 20;

/// The compiled schema of a tool's arguments.
#[derive(Debug)]
pub(super) enum Checker {
    Usable { validator: Box<Validator>, cost: Cost },
    Unusable { because: String },
}

impl Checker {
    /// Compiles `schema`; that is the expensive part, done once a tool.
    pub(super) fn new(schema: &Value) -> Self {
        match compile(schema) {
            Ok((validator, cost)) => Self::Usable { validator: Box::new(validator), cost },
            Err(because) => Self::Unusable { because },
        }
    }

    /// What is wrong with `arguments`, at most [`MAX_PROBLEMS`] findings.
    pub(super) fn check(&self, schema: &Value, arguments: &Value) -> Vec<ArgumentProblem> {
        let Self::Usable { validator, cost } = self else { return Vec::new() };
        if !cost.allows(arguments) {
            return Vec::new();
        }
        // The validator collects the errors of every item before it gives the first; so it is asked for all of them only
        // where there can be few.
        if validator.is_valid(arguments) {
            return Vec::new();
        }
        let mut problems = Vec::new();
        if cost::count_nodes(arguments, MAX_LISTED_NODES).is_none() {
            if let Err(error) = validator.validate(arguments) {
                problem::describe(&error, schema, arguments, &mut problems);
                problems.truncate(MAX_PROBLEMS);
            }
            return problems;
        }
        for error in validator.iter_errors(arguments) {
            problem::describe(&error, schema, arguments, &mut problems);
            if problems.len() >= MAX_PROBLEMS {
                problems.truncate(MAX_PROBLEMS);
                break;
            }
        }
        problems
    }

    /// Why nothing is checked, where nothing is.
    pub(super) fn unusable_because(&self) -> Option<&str> {
        match self {
            Self::Usable { .. } => None,
            Self::Unusable { because } => Some(because),
        }
    }
}

fn compile(schema: &Value) -> Result<(Validator, Cost), String> {
    if !schema.is_object() {
        return Err("its input schema is not an object".to_owned());
    }
    let cost = Cost::of(schema)?;
    let patterns = PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS).size_limit(MAX_PATTERN_SIZE);
    jsonschema::options()
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(patterns)
        .build(schema)
        .map(|validator| (validator, cost))
        .map_err(|error| format!("its input schema can't be used: {}", problem::bounded(&error.to_string())))
}

#[cfg(test)]
mod tests;
