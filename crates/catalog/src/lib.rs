//! What tools there are, and everything that can be said about them without calling one.
//!
//! A [`Catalog`] is an immutable snapshot: a run, a search and a listing each hold one and see no change under their
//! feet. The owner of the backends swaps it as a whole through a [`CatalogHandle`].
//!
//! # Layout
//! - [`names`]: original names and identifiers, and which means which
//! - `backend`, `tool`: what a snapshot holds
//! - `snapshot`, `resolve`, `suggest`: building it, finding in it, and what to say when nothing was found
//! - [`arguments`]: checking a call's arguments against the tool's schema
//! - [`types`]: TypeScript from JSON Schema
//! - [`search`]: from a task in words to tools
//! - [`cache`]: what is kept on disk between starts
//!
//! Deliberately absent: policy. Who may call what is decided at the bridge; a catalog that should not show a tool is
//! built without it.

#![forbid(unsafe_code)]

pub mod arguments;
mod backend;
pub mod cache;
mod distance;
mod handle;
pub mod names;
mod resolve;
pub mod search;
mod snapshot;
mod suggest;
mod tool;
pub mod types;

pub use arguments::ArgumentProblem;
pub use backend::{Backend, BackendState, Listing, ToolEntry, ToolRef};
pub use handle::CatalogHandle;
pub use resolve::Resolution;
pub use snapshot::Catalog;
pub use suggest::Misspelt;
pub use tool::Tool;
