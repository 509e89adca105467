//! The only module of `data` that calls QuickJS's C interface directly.
//!
//! rquickjs covers most of what `data` needs, but not all: strings with lone
//! surrogates, atoms as raw keys, class ids, and classes whose own properties
//! are computed (its exotic classes have no `define_own_property`). Each of
//! these gets a safe function here, so that the rest of `data` needs no unsafe.
//!
//! - `value`: single calls (keys, elements, text, class ids); `identities`: what object became what
//! - `text`: memory that counts against the run's limit
//! - `doc`, `properties`, `record`, `index`, `build`: a text, and the values made of it
//! - `hooks`, `materialise`, `class`: the exotic methods that the engine calls; `shapes`: what makes copies of records cheap
//! - `functions`: functions of the standard library that know records
#![allow(unsafe_code, reason = "decision 5")]

mod build;
mod class;
mod doc;
mod functions;
mod hooks;
mod identities;
mod index;
mod materialise;
mod properties;
mod record;
mod shapes;
mod text;
mod value;

pub(crate) use class::{RecordClass, Share};
pub(crate) use doc::Mutability;
pub(crate) use functions::locale_compare;
pub(crate) use identities::Identities;
pub use text::Text;
pub(crate) use text::{Buffer, Elements};
pub(crate) use value::{
    Key, Keys, Own, class_id, get_index, get_key, has_key, is_function, length_of, own_index, own_key, prototype,
    proxy_target, put, same_object, with_wtf8,
};

use rquickjs::JsLifetime;

use super::realm::Realm;

// SAFETY: `Realm` holds engine values of one lifetime only, and `Changed` renames exactly that lifetime.
unsafe impl<'js> JsLifetime<'js> for Realm<'js> {
    type Changed<'to> = Realm<'to>;
}
