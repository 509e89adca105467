//! From the text that an agent sent to something that can run.
//!
//! Pure: no I/O, no clock, no state. The text may be anything; it is parsed once, on a stack that suffices, and never
//! searched with regular expressions.
//!
//! # Layout
//! - `fence`, `nesting`, `parse`: from text to a checked syntax tree
//! - `edit`, `erase`, `compile`: from TypeScript to one JavaScript expression, and back from its positions
//! - `guard`: is this code fit for computation delegation?
//! - `tools`: what may be asked about tools; `reach`, `literal`: which tool a call means, and with what arguments
//! - `direct`, `query`, `one_call`, `hyphen`: texts that need no engine; `plan` decides
//! - `preflight`: what is wrong with the calls of a script before it runs
//! - `suggest`, `hints`, `caret`: errors that teach; [`words`]: names that are taken
#![forbid(unsafe_code)]

mod caret;
mod compile;
mod direct;
mod edit;
mod erase;
mod facility;
mod fault;
mod fence;
mod guard;
mod hints;
mod hyphen;
mod literal;
mod nesting;
mod one_call;
mod parse;
mod plan;
mod preflight;
mod query;
mod reach;
pub mod suggest;
mod tools;
pub mod words;

pub use caret::caret;
pub use compile::{Form, Program, compile};
pub use facility::{missing_facility, missing_modules};
pub use fault::SyntaxFault;
pub use guard::{Violation, validate_code};
pub use hints::{FailureFacts, hint_for};
pub use literal::Arguments;
pub use plan::{Plan, Script, plan, script};
pub use preflight::{Finding, FindingCode, PlannedCall, Preflight, preflight, preflight_call};
pub use query::Query;
pub use toolgate_wire::Position;
pub use tools::{ArgumentProblem, Call, Parameters, Tools};
