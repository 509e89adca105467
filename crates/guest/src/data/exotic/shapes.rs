//! Objects that keep the shapes of copied records alive.
//!
//! The interpreter gives objects with the same keys in the same order one shape, and finds the next shape of an object that gets
//! a key. It keeps no shape that no object has: a copy of a record passes through one shape for each key, of which only the last
//! stays, and every further copy makes the others again. An object for each of them makes a copy a look-up for each key.

use std::ffi::c_int;
use std::ptr::NonNull;

use rquickjs::{Ctx, qjs};

use super::super::lazy::template::Template;
use super::super::realm::Realm;
use super::build::{Fail, checked};
use super::text::List;
use super::value::owned;

/// Records with more keys are copied without: the objects have half the square of the number of keys as properties.
const MAX_KEYS: usize = 32;
/// Copies of records with one template before its shapes are kept.
const COPIES_BEFORE: u8 = 8;
/// Templates of a realm whose shapes are kept. With all keys, the objects of one take about 30 KB.
const MAX_TEMPLATES: usize = 16;

/// Counts a copy of a record, and keeps the shapes of its template once there were several.
pub(super) fn note_copy(ctx: *mut qjs::JSContext, template: &Template) -> Result<(), Fail> {
    if template.note_copy() == COPIES_BEFORE { keep(ctx, template) } else { Ok(()) }
}

#[cold]
fn keep(raw: *mut qjs::JSContext, template: &Template) -> Result<(), Fail> {
    let keys: Vec<qjs::JSAtom> = template.keys().collect();
    let context = NonNull::new(raw).ok_or(Fail::Thrown)?;
    // SAFETY: the engine passed a live context.
    let ctx = unsafe { Ctx::from_raw(context) };
    let Some(realm) = ctx.userdata::<Realm<'_>>() else { return Ok(()) };
    if keys.len() > MAX_KEYS || realm.shapes.borrow().len() >= MAX_TEMPLATES {
        return Ok(());
    }
    let mut list = List::new(raw);
    for count in 1..=keys.len() {
        list.push(object(raw, keys.get(..count).unwrap_or_default())?)?;
    }
    realm.shapes.borrow_mut().push(owned(&ctx, list.into_array())?);
    Ok(())
}

/// An object as a copy of a record is with these keys.
fn object(ctx: *mut qjs::JSContext, keys: &[qjs::JSAtom]) -> Result<qjs::JSValue, Fail> {
    // SAFETY: a plain call; the result is checked.
    let object = checked(unsafe { qjs::JS_NewObject(ctx) })?;
    for &key in keys {
        // SAFETY: a fresh object and a key that the template keeps alive; on failure the object is freed once.
        unsafe {
            let flags = qjs::JS_PROP_C_W_E as c_int;
            if qjs::JS_DefinePropertyValue(ctx, object, key, qjs::JS_UNDEFINED, flags) < 0 {
                qjs::JS_FreeValue(ctx, object);
                return Err(Fail::Thrown);
            }
        }
    }
    Ok(object)
}
