//! What tools there are: names, search, types.

mod tool;

pub use tool::Tool;
