//! Host functions: what code in the sandbox may call besides the tools of backends.
//!
//! A function is one [`HostFunction`]: name, signature, description, handler. Everything a reader sees of it (the text for a
//! model, the answer of `/v1/functions`, the `.d.ts`) is generated from that entry by [`docs`], so adding one is one entry in
//! one place. The doors build one [`Registry`] a run: built in, below what the embedder added, below what the run brought.
//!
//! Which run may call what, how often and how large is the bridge's business, not this module's.
//!
//! # Layout
//! [`FunctionName`] and [`HostFunction`] describe; [`CallContext`] and [`FunctionError`] are what a handler gets and may answer;
//! [`Registry`] merges, restricts and calls; [`builtin`], [`weather`] and [`endpoint`] are the functions we bring; [`http`] is
//! the guarded client below them.

#![forbid(unsafe_code)]

pub mod builtin;
mod context;
pub mod docs;
pub mod endpoint;
mod error;
mod function;
pub mod http;
mod name;
mod registry;
mod signature;
pub mod weather;

pub use context::{CallContext, Coordinates, Hints, Warnings};
pub use error::{ErrorCode, FunctionError};
pub use function::{HostFunction, Param, Presence};
pub use name::{BadName, FunctionName};
pub use registry::{Registry, UnknownFunction};
pub use signature::{FunctionBuilder, SignatureError};
