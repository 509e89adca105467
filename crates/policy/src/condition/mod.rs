//! Conditions of rules: expressions in CEL over the arguments of a call, its caller and its counts.
//!
//! The text is parsed by the crate `cel` and compiled into a tree of our own, whose evaluation has a budget: arguments come
//! from programs that may be hostile, and evaluation in the crate cannot be bounded. What a condition may use is decided
//! when it is compiled, so that a misspelt variable or function is found when the configuration is loaded.
//!
//! # Layout
//! - `compile`: from the syntax tree of `cel` to ours
//! - `value`: what an expression gives; `evaluate`: how, within a [`Budget`]

mod compile;
mod evaluate;
mod value;

use std::fmt;

use cel::parser::PrattParser;
use serde_json::Value;

use compile::{Node, Variable};
pub use evaluate::Budget;

/// Characters of a condition.
pub const MAX_CONDITION: usize = 4_096;
/// How deep expressions may be nested in each other.
const MAX_NESTING: u16 = 32;
/// Stack of the thread that parses a condition: enough for one that is a single chain of operators.
const PARSER_STACK: usize = 64 << 20;
/// Nodes of a condition's syntax tree.
const MAX_NODES: usize = 2_000;

/// A condition that can be evaluated.
#[derive(Clone)]
pub struct Condition {
    text: String,
    root: Node,
    slots: usize,
}

/// Why a text is not a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionFault {
    /// It is not CEL.
    #[error("not a CEL expression: {0}")]
    Syntax(String),
    /// It is too long.
    #[error("longer than {MAX_CONDITION} characters")]
    TooLong,
    /// It is nested too deeply, or has too many parts.
    #[error("too deeply nested, or too many parts")]
    TooComplex,
    /// It uses a variable that conditions do not have.
    #[error("no variable named {0}: a condition has args, caller, counts, profile and tool")]
    UnknownVariable(String),
    /// It uses a field that a variable does not have.
    #[error("{0} has no field {1}: it has {2}")]
    UnknownField(&'static str, String, &'static str),
    /// It calls a function that conditions do not have.
    #[error("no function named {0} with {1} arguments in a condition")]
    UnknownFunction(String, usize),
    /// It uses a part of CEL that conditions do not have.
    #[error("{0} cannot be used in a condition")]
    Unsupported(&'static str),
    /// A pattern of `matches` is not a literal.
    #[error("the pattern of matches must be a text in quotes")]
    DynamicPattern,
    /// A pattern of `matches` is no regular expression, or too large a one.
    #[error("the pattern of matches cannot be used: {0}")]
    Pattern(String),
    /// It gives something else than true or false.
    #[error("it does not give true or false")]
    NotBoolean,
}

/// Why a condition gave no answer for a call. A rule whose condition fails is decided as if the worst were true.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// The arguments lack a key.
    #[error("there is no {0}")]
    NoSuchKey(String),
    /// A list has no such index.
    #[error("the index is out of range")]
    NoSuchIndex,
    /// An operator or a function does not take values of these kinds.
    #[error("{0} does not take {1}")]
    WrongKind(&'static str, String),
    /// A number is too large, or a division by zero.
    #[error("{0} overflows")]
    Overflow(&'static str),
    /// A text cannot be read as a number.
    #[error("{0} cannot read this value")]
    NotANumber(&'static str),
    /// The evaluation took more than it may.
    #[error("it takes too long for these arguments")]
    OverBudget,
}

/// What a condition may look at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// `args`: the arguments of the call.
    pub args: &'a Value,
    /// `caller`: the name of the caller; `local` for the local user.
    pub caller: &'a str,
    /// `profile`: the kind of run.
    pub profile: &'a str,
    /// `tool.backend`: the name of the backend; empty for a host function.
    pub backend: &'a str,
    /// `tool.name`: the tool's own name.
    pub tool: &'a str,
    /// `tool.readOnly`, `tool.destructive`, `tool.openWorld`.
    pub traits: crate::Traits,
    /// `counts.run`: earlier calls of this tool in the run.
    pub in_run: u64,
    /// `counts.day`: earlier calls of this tool by this caller since midnight UTC.
    pub in_day: u64,
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// If the text is not CEL, or uses what conditions do not have.
    pub fn parse(text: &str) -> Result<Self, ConditionFault> {
        if text.chars().nth(MAX_CONDITION).is_some() {
            return Err(ConditionFault::TooLong);
        }
        // The parser recurses for each prefix operator and each `?:`, which its own limit does not count.
        let compiled = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("policy-parser".to_owned()).stack_size(PARSER_STACK);
            thread.spawn_scoped(scope, || parse(text)).ok().and_then(|thread| thread.join().ok())
        });
        let (root, slots) = compiled.unwrap_or(Err(ConditionFault::TooComplex))?;
        Ok(Condition { text: text.to_owned(), root, slots })
    }

    /// The condition as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the condition holds for a call.
    ///
    /// # Errors
    /// If it gives no answer: a key is missing, kinds do not fit, or the budget is used up.
    pub fn holds(&self, facts: &Facts<'_>, budget: &mut Budget) -> Result<bool, ConditionError> {
        evaluate::holds(&self.root, self.slots, facts, budget)
    }

    /// Whether it reads `counts.day`.
    pub fn reads_day(&self) -> bool {
        self.root.reads(&|variable| matches!(variable, Variable::InDay))
    }

    /// Whether it reads `counts.run` or `counts.day`.
    pub fn reads_counts(&self) -> bool {
        self.root.reads(&|variable| matches!(variable, Variable::InRun | Variable::InDay))
    }

    /// The same before the call is made, when counts are not known and the arguments may not be; `None` where they matter.
    pub fn foresee(
        &self,
        facts: &Facts<'_>,
        arguments: Foreknown,
        budget: &mut Budget,
    ) -> Option<Result<bool, ConditionError>> {
        let reads_unknown = self.root.reads(&|variable| match variable {
            Variable::InRun | Variable::InDay => true,
            Variable::Args => arguments == Foreknown::No,
            _ => false,
        });
        if reads_unknown { None } else { Some(self.holds(facts, budget)) }
    }
}

/// Whether the arguments of a call are known before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreknown {
    /// They are.
    Yes,
    /// They are not.
    No,
}

fn parse(text: &str) -> Result<(Node, usize), ConditionFault> {
    let parser = PrattParser::new().max_recursion_depth(MAX_NESTING).error_reporting_limit(1);
    let tree = parser.max_expression_node_count(MAX_NODES).parse(text).map_err(|errors| {
        let first = errors.errors.first().map(|error| error.msg.clone()).unwrap_or_default();
        ConditionFault::Syntax(first.lines().next().unwrap_or_default().to_owned())
    })?;
    compile::compile(&tree)
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Condition {}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({})", self.text)
    }
}
