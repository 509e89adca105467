//! Lazy data: reading JSON text in place.
//!
//! The text is scanned once; what a program never reads is never made a
//! value. This part knows bytes and offsets only. `exotic` makes
//! JavaScript objects of them.
//!
//! - `template`: what records of the same shape have in common
//! - `scan`, `unescape`: the strict scanner and the string decoder of the `json` crate
//! - `copy`: text to text, in the serialiser's own format

pub(crate) mod copy;
pub(crate) mod template;

pub(crate) use toolgate_json::{scan, unescape};

// The serialiser writes no deeper than the scanner reads.
const _: () = assert!(scan::MAX_DEPTH == toolgate_wire::limits::MAX_JSON_DEPTH);
