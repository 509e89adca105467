//! Host functions: functions of the host that programs may call besides the tools of backends.
//!
//! A function is one [`HostFunction`]: name, signature, description, handler. Its documentation (the text for a model, the
//! response of `/v1/functions`) is generated from that entry by [`docs`]. A run has one [`Registry`], merged from the
//! built-in functions, those of the embedder and those of the request; later ones override earlier ones.
//!
//! # Layout
//! - `name`, `function`, `signature`: [`FunctionName`], [`HostFunction`] and the builder that checks a signature;
//!   `reads_only`: which calls change nothing
//! - `context`, `answer`, `error`: [`CallContext`], the input of a handler besides its arguments, [`FunctionAnswer`] and
//!   [`FunctionError`]
//! - `registry`: [`Registry`] merges, restricts and calls functions; [`find()`] looks for those that a task needs
//! - [`builtin`], [`weather`], [`endpoint`]: the built-in functions, and functions from the configuration
//! - [`docs`]: documentation from signatures
//! - [`http`]: the guarded HTTP client; [`idempotency`]: the key of a call of a durable run
//!
//! Deliberately absent: which run may call which function, and how often, is decided by the bridge.

#![forbid(unsafe_code)]

mod answer;
pub mod builtin;
mod context;
pub mod docs;
pub mod endpoint;
mod error;
mod find;
mod function;
pub mod http;
pub mod idempotency;
mod name;
mod reads_only;
mod registry;
mod signature;
pub mod weather;

pub use answer::{FunctionAnswer, counted_bytes, is_json};
pub use context::{CallContext, Coordinates, Hints, Warnings};
pub use error::{ErrorCode, FailedEffect, FunctionError};
pub use find::find;
pub use function::{AliasedTool, HostFunction, Param, Presence};
pub use name::{BadName, FunctionName};
pub use registry::{Registry, UnknownFunction};
pub use signature::{FunctionBuilder, SignatureError};
