//! Parses the text that an agent sent and decides how to run it.
//!
//! Pure: no I/O, no clock, no state. The text may be arbitrary and hostile. It is parsed once, on a stack that is large
//! enough for its nesting, and never searched with regular expressions.
//!
//! # Layout
//! - `fence`, `nesting`, `parse`: from text to a checked syntax tree
//! - `edit`, `erase`, `compile`: from TypeScript to one JavaScript expression, with a mapping of its positions
//! - `guard`: checks code for computation delegation
//! - `tools`: what the planner may ask about tools; `reach`, `literal`, `integers`: which tool a call
//!   invokes, with which arguments, and which integers lose digits
//! - `direct`, `query`, `one_call`, `hyphen`: recognise texts that need no engine; `plan` chooses among them
//! - `outside`: whether a text may call a tool at all
//! - `functions`: the functions that a program declares
//! - `preflight`: finds errors in the calls of a program before it runs
//! - [`suggest`], `facility`, `hints`, `caret`: suggestions for mistyped names, replacements for missing facilities, hints
//!   after a failure, excerpts of the source
//! - `usage`: what a type checker's findings about a program are judged by
//! - [`words`]: names that the language and the sandbox reserve
#![forbid(unsafe_code)]

mod caret;
mod compile;
mod direct;
mod edit;
mod erase;
mod facility;
mod fault;
mod fence;
mod functions;
mod guard;
mod hints;
mod hyphen;
mod integers;
mod literal;
mod nesting;
mod one_call;
mod outside;
mod parse;
mod plan;
mod preflight;
mod query;
mod reach;
pub mod suggest;
mod tools;
mod usage;
pub mod words;

pub use caret::caret;
pub use compile::{Form, Program, compile};
pub use direct::UnusableText;
pub use fault::SyntaxFault;
pub use guard::{Violation, validate_code};
pub use hints::{FailureFacts, hint_for, hint_for_missing, hint_for_timeout};
pub use literal::{Arguments, literal_arguments};
pub use outside::may_call_tools;
pub use plan::{Plan, Script, plan, script};
pub use preflight::{Finding, FindingCode, PlannedCall, Preflight, preflight, preflight_call};
pub use query::Query;
pub use toolgate_wire::Position;
pub use tools::{ArgumentFault, Call, Foreseen, Parameters, Tools};
pub use usage::{DependentParts, ProgramUsage, PropertyAccess, TypeClaims};
