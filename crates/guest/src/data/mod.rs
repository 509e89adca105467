//! How JSON gets into the sandbox and how values get out of it.
//!
//! # Layout
//! - `realm`: what is captured from a context before guest code runs
//! - `serialise`: values out, to JSON text
//! - `stringify`: `JSON.stringify` of plain data
//! - `parse`: JSON text in, `JSON.parse` included
//! - `lazy`: JSON text read in place
//! - `listing`: a backend's tools, read so
//! - `clone`: `structuredClone`
//! - `exotic`: the only place with unsafe code, safe functions over QuickJS's C interface
//!
//! It knows no frames, limits or profiles: callers pass plain caps.

mod clone;
mod exotic;
mod lazy;
mod listing;
mod parse;
mod realm;
mod serialise;
mod stringify;

pub use clone::install_structured_clone;
pub use exotic::Text;
pub(crate) use exotic::locale_compare;
pub(crate) use listing::Listing;
pub use parse::{ParseError, from_json, from_text, frozen_from_text};
pub use serialise::{Caps, DepthPolicy, SerialiseError, Unwritable, UnwritablePolicy, to_json};

use rquickjs::{Ctx, Result};

/// Prepares a context: once, before guest code and before a prelude captures `Object.freeze`, `JSON.parse` and
/// their kin, which are wrapped here. Safe before a fork. A runtime holds one prepared context: what is captured belongs to the runtime.
pub fn install(ctx: &Ctx<'_>) -> Result<()> {
    let realm = realm::Realm::capture(ctx)?;
    ctx.store_userdata(realm).map_err(|_| rquickjs::Error::Unknown)?;
    Ok(())
}

#[cfg(test)]
mod tests;
