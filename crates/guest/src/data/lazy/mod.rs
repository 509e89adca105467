//! Lazy data: reading JSON text in place.
//!
//! The text is scanned once; what a program never reads is never made a
//! value. This part knows bytes and offsets only. `exotic` makes
//! JavaScript objects of them.
//!
//! - `scan`: strict walk over text
//! - `template`: what records of the same shape have in common
//! - `unescape`: strings with escapes
//! - `copy`: text to text, in the serialiser's own format

pub(crate) mod copy;
pub(crate) mod scan;
pub(crate) mod template;
pub(crate) mod unescape;
