//! The prelude's source texts, in the order in which they are evaluated.
//!
//! Each is one expression, a function that is given what it builds on. They are the same on every
//! interpreter: another one that provides the same natives runs the same prelude.

/// Takes the natives; gives what the others build on.
pub const CORE: &str = include_str!("prelude/core.js");
/// `console`.
pub const CONSOLE: &str = include_str!("prelude/console.js");
/// Timers and host calls.
pub const EVENTS: &str = include_str!("prelude/events.js");
/// Backends, host functions, introspection.
pub const TOOLS: &str = include_str!("prelude/tools.js");
/// The small part of the web platform.
pub const WEB: &str = include_str!("prelude/web.js");
/// Sets the stage for one run and tells how it failed.
pub const MAIN: &str = include_str!("prelude/main.js");
/// An object of functions that serialising needs, captured before any guest code.
pub const REALM: &str = include_str!("data/realm.js");
/// Takes a function that tells kinds of object apart; gives `structuredClone`.
pub const CLONE: &str = include_str!("data/clone.js");
/// Takes nothing and does nothing that stays: a program like many, for a worker to try itself on.
pub const TRIAL: &str = include_str!("prelude/trial.js");
