//! Whether a call's arguments fit the tool's schema, before anything is sent.
//!
//! The schema comes from a backend and may be wrong or hostile: not a schema, one that refers to the network, a regular
//! expression that never ends, references that multiply. None of that may cost a user their tool or the gateway its
//! time. A schema that can't be used safely is put aside with a note and the arguments pass unchecked: the backend
//! checks them anyway.
//!
//! A check may take some tens of milliseconds, and so may the compilation of a schema. Where a thread of a runtime does that
//! work, other tasks are given to another thread meanwhile (`off_runtime`), so that no request waits for another's arguments.
//!
//! Nothing is coerced and no default is filled in: what the code sent is what the backend gets.

mod cost;
mod memory;
mod off_runtime;
mod pattern_cost;
mod problem;

pub use memory::SchemaMemory;
pub use problem::ArgumentProblem;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use cost::Cost;
use off_runtime::off_runtime;

/// A reader acts on the first few problems.
const MAX_PROBLEMS: usize = 8;
/// Values in arguments of which all problems are looked for; of larger ones the first is told.
const MAX_LISTED_NODES: usize = 2_000;
/// Backtracking steps of one regular expression on one string.
const MAX_BACKTRACKS: usize = 2_000;
/// Bytes that one compiled regular expression may take.
const MAX_PATTERN_SIZE: usize = 1 << 20;

/// A compiled schema that checks a value only where the check is certain to end soon.
#[derive(Debug)]
pub struct BoundedSchema {
    validator: Box<Validator>,
    cost: Cost,
}

/// What a check found.
#[derive(Debug, PartialEq, Eq)]
pub enum SchemaCheck {
    /// The value fits.
    Fits,
    /// The first thing that is wrong.
    Wrong {
        /// JSON pointer into the value; empty for all of it.
        at: String,
        /// In words; it quotes the value.
        message: String,
    },
    /// The check could take long, so it was not begun.
    NotBegun,
}

impl BoundedSchema {
    /// Compiles a schema whose regular expressions need no backtracking.
    ///
    /// # Errors
    /// Why it can't be used, in words.
    pub fn without_backtracking(schema: &Value, memory: &SchemaMemory) -> Result<Self, String> {
        let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_SIZE).dfa_size_limit(MAX_PATTERN_SIZE);
        Self::build(schema, jsonschema::options().with_pattern_options(patterns), memory)
    }

    fn with_backtracking(schema: &Value, memory: &SchemaMemory) -> Result<Self, String> {
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(MAX_BACKTRACKS)
            .size_limit(MAX_PATTERN_SIZE)
            .dfa_size_limit(MAX_PATTERN_SIZE);
        let options = jsonschema::options().should_validate_formats(false).with_pattern_options(patterns);
        Self::build(schema, options, memory)
    }

    fn build(
        schema: &Value,
        options: jsonschema::ValidationOptions<'_>,
        memory: &SchemaMemory,
    ) -> Result<Self, String> {
        let cost = Cost::of(schema)?;
        if !memory.take(cost.bytes()) {
            return Err("with the schemas beside it, it takes too much memory".to_owned());
        }
        let built = off_runtime(|| options.offline().build(schema));
        let validator = built.map_err(|error| problem::bounded(&error.to_string()))?;
        Ok(BoundedSchema { validator: Box::new(validator), cost })
    }

    /// Bytes that it may take, by an estimate that errs upwards.
    pub fn bytes(&self) -> u64 {
        self.cost.bytes()
    }

    /// Looks for the first thing that is wrong with a value.
    pub fn check(&self, value: &Value) -> SchemaCheck {
        if self.cost.is_quick(value) { self.check_here(value) } else { off_runtime(|| self.check_here(value)) }
    }

    fn check_here(&self, value: &Value) -> SchemaCheck {
        if !self.cost.allows(value) {
            return SchemaCheck::NotBegun;
        }
        match self.validator.validate(value) {
            Ok(()) => SchemaCheck::Fits,
            Err(error) => SchemaCheck::Wrong { at: error.instance_path().to_string(), message: error.to_string() },
        }
    }
}

/// The compiled schema of a tool's arguments.
#[derive(Debug)]
pub(super) enum Checker {
    Usable(BoundedSchema),
    Unusable { because: String },
}

impl Checker {
    /// Compiles `schema`; that is the expensive part, done once a tool.
    pub(super) fn new(schema: &Value, memory: &SchemaMemory) -> Self {
        match compile(schema, memory) {
            Ok(schema) => Self::Usable(schema),
            Err(because) => Self::Unusable { because },
        }
    }

    /// What is wrong with `arguments`, at most [`MAX_PROBLEMS`] findings.
    pub(super) fn check(&self, schema: &Value, arguments: &Value) -> Vec<ArgumentProblem> {
        let Self::Usable(usable) = self else { return Vec::new() };
        if usable.cost.is_quick(arguments) {
            usable.problems(schema, arguments)
        } else {
            off_runtime(|| usable.problems(schema, arguments))
        }
    }

    /// Why nothing is checked, where nothing is.
    pub(super) fn unusable_because(&self) -> Option<&str> {
        match self {
            Self::Usable(_) => None,
            Self::Unusable { because } => Some(because),
        }
    }
}

impl BoundedSchema {
    /// What is wrong with `arguments`, at most [`MAX_PROBLEMS`] findings.
    fn problems(&self, schema: &Value, arguments: &Value) -> Vec<ArgumentProblem> {
        let BoundedSchema { validator, cost } = self;
        if !cost.allows(arguments) {
            return Vec::new();
        }
        // The validator collects the errors of every item before it gives the first; so it is asked for all of them only
        // where there can be few.
        if validator.is_valid(arguments) {
            return Vec::new();
        }
        let mut problems = Vec::new();
        if !cost::has_few_nodes(arguments, MAX_LISTED_NODES) {
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
}

fn compile(schema: &Value, memory: &SchemaMemory) -> Result<BoundedSchema, String> {
    if !schema.is_object() {
        return Err("its input schema is not an object".to_owned());
    }
    BoundedSchema::with_backtracking(schema, memory)
        .map_err(|because| format!("its input schema can't be used: {because}"))
}

#[cfg(test)]
mod tests;
