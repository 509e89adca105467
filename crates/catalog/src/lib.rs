//! The tools of all backends: names, argument checks, TypeScript types, search. Calls no tool.
//!
//! A [`Catalog`] is an immutable snapshot: a run, a search and a listing each hold one, and it never changes while they
//! use it. The owner of the backends replaces the current snapshot through a [`CatalogHandle`].
//!
//! # Layout
//! - `tool`, `backend`: what a snapshot contains
//! - [`names`]: original names, their identifiers, and the lookup by either
//! - `snapshot`, `handle`: building a snapshot and publishing it
//! - `resolve`, `suggest`: from a path to a tool, and similar names for a path that does not exist
//! - [`arguments`]: validation of a call's arguments against the tool's schema
//! - [`types`]: TypeScript from JSON Schema
//! - [`search`]: from the description of a task to tools
//! - [`cache`]: the tool lists on disk between starts
//!
//! Deliberately absent: policy. The bridge decides which caller may call which tool; a catalog that must not show a tool
//! is built without it.

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
pub use suggest::UnknownName;
pub use tool::Tool;
