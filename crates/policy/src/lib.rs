//! Who may call which tool: rules, conditions and effects.
//!
//! Pure: no clock, no files, no network. The gateway's bridge asks [`Policy::decide`] once for every call, whichever door
//! or route it came by, and counts what it lets through.
//!
//! # Layout
//! - [`policy`](Policy): the rules together, and what happens to a call
//! - [`rule`](Rule): one rule; `written`: as the configuration writes it; `glob`: patterns over names
//! - [`condition`]: expressions in CEL, with a budget
//! - [`effect`](Traits): what is known about the effects of a tool
//! - [`draft`](draft()), [`import`]: policies to begin with

#![forbid(unsafe_code)]

pub mod condition;
mod draft;
mod effect;
mod glob;
pub mod import;
mod index;
mod policy;
mod rule;
mod written;

pub use condition::{Condition, ConditionError, ConditionFault, Foreknown};
pub use draft::{DraftedTool, draft};
pub use effect::{TraitSource, Traits};
pub use glob::Glob;
pub use policy::{CallCounts, Cause, Policy, PolicyCall, PolicyDecision, RuleMatch};
pub use rule::{Action, CallLimits, DEFAULT_EXPIRY, Rule, TraitFilter, parse_limits};
pub use written::WrittenRule;
