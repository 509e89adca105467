//! Lines of JSON on a stream of bytes, as both sides of a stdio connection read them.

pub(crate) mod lines;
pub(crate) mod scan;
