//! Reads JSON lines from a byte stream, for both sides of a stdio connection.
//!
//! Bounded in memory; does not decode the lines.

pub(crate) mod lines;
