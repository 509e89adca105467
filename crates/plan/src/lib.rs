//! From the text that an agent sent to something that can run.
#![forbid(unsafe_code)]
mod compile;
mod edit;
mod erase;
mod fault;
mod fence;
mod guard;
mod nesting;
mod parse;
mod position;
pub use compile::{Form, Program, compile};
pub use fault::SyntaxFault;
pub use guard::{Violation, validate_code};
pub use position::Position;
