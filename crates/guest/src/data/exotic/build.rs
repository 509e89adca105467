//! Makes values of pieces of a document: primitives and arrays at once, objects as records.

use rquickjs::qjs;
use toolgate_wire::limits::MAX_JSON_DEPTH;

use super::super::lazy::copy::{Number, parse_number};
use super::super::lazy::scan::{Fault, skip_number, skip_space, skip_string, skip_value};
use super::super::lazy::unescape::{Unescaped, unescape};
use super::doc::{Doc, Mutability, Seen, UNKNOWN};
use super::record::Record;
use super::text::List;

/// Why no value was made.
pub(super) enum Fail {
    /// The text is at fault.
    Text(Fault),
    /// The exception is pending in the context.
    Thrown,
}

impl From<Fault> for Fail {
    fn from(fault: Fault) -> Self {
        Self::Text(fault)
    }
}

impl From<rquickjs::Error> for Fail {
    fn from(_: rquickjs::Error) -> Self {
        Self::Thrown
    }
}

/// A value, and where its text ends.
type Built = Result<(qjs::JSValue, usize), Fail>;

pub(super) fn checked(value: qjs::JSValue) -> Result<qjs::JSValue, Fail> {
    // SAFETY: only looks at the tag.
    if unsafe { qjs::JS_IsException(value) } { Err(Fail::Thrown) } else { Ok(value) }
}

/// Makes the value at `at` of a text that was scanned before; with where it ends.
pub(super) fn value(ctx: *mut qjs::JSContext, doc: &Doc, at: usize, mutability: Mutability) -> Built {
    match doc.text().get(at) {
        Some(b'[') => array(ctx, doc, at, mutability),
        Some(b'{') => {
            let end = skip_value(doc.text(), at, 0)?;
            Ok((checked(Record::create(ctx, doc, at, Seen::NOTHING, mutability))?, end))
        }
        _ => scalar(ctx, doc.text(), at),
    }
}

/// Makes a primitive.
#[inline]
pub(super) fn scalar(ctx: *mut qjs::JSContext, text: &[u8], at: usize) -> Built {
    match text.get(at) {
        Some(b'"') => {
            let (end, escaped) = skip_string(text, at)?;
            let inside = text.get(at + 1..end - 1).unwrap_or_default();
            let string = if escaped { escaped_string(ctx, inside) } else { string(ctx, inside) };
            Ok((checked(string)?, end))
        }
        Some(b'-' | b'0'..=b'9') => {
            let end = skip_number(text, at)?;
            Ok((number(text.get(at..end).unwrap_or_default()), end))
        }
        Some(b't') => Ok((qjs::JS_TRUE, skip_value(text, at, 0)?)),
        Some(b'f') => Ok((qjs::JS_FALSE, skip_value(text, at, 0)?)),
        Some(b'n') => Ok((qjs::JS_NULL, skip_value(text, at, 0)?)),
        _ => Err(Fault::Syntax(at).into()),
    }
}

fn number(digits: &[u8]) -> qjs::JSValue {
    match parse_number(digits) {
        Number::Int(value) => match i32::try_from(value) {
            Ok(small) => qjs::JS_MKVAL(qjs::JS_TAG_INT, small),
            Err(_) => qjs::JS_NewFloat64(value as f64),
        },
        Number::Float(value) => qjs::JS_NewFloat64(value),
    }
}

fn string(ctx: *mut qjs::JSContext, text: &[u8]) -> qjs::JSValue {
    // SAFETY: pointer and length describe `text`, which the engine copies.
    unsafe { qjs::JS_NewStringLen(ctx, text.as_ptr().cast(), text.len() as _) }
}

fn wide_string(ctx: *mut qjs::JSContext, units: &[u16]) -> qjs::JSValue {
    // SAFETY: pointer and length describe the units, which the engine copies.
    unsafe { qjs::JS_NewStringUTF16(ctx, units.as_ptr(), units.len() as _) }
}

fn escaped_string(ctx: *mut qjs::JSContext, inside: &[u8]) -> qjs::JSValue {
    match unescape(inside) {
        Unescaped::Utf8(text) => string(ctx, &text),
        Unescaped::Utf16(units) => wide_string(ctx, &units),
    }
}

/// The atom of a key in UTF-8, owned by the caller; null if memory ran out.
pub(super) fn atom(ctx: *mut qjs::JSContext, key: &[u8]) -> qjs::JSAtom {
    if key.is_ascii() {
        // SAFETY: pointer and length describe the key, which the engine copies.
        return unsafe { qjs::JS_NewAtomLen(ctx, key.as_ptr().cast(), key.len() as _) };
    }
    // The engine's quick way takes bytes for characters, so other keys go through a string.
    string_atom(ctx, string(ctx, key))
}

/// The same for a key that UTF-8 can't hold.
pub(super) fn wide_atom(ctx: *mut qjs::JSContext, key: &[u16]) -> qjs::JSAtom {
    string_atom(ctx, wide_string(ctx, key))
}

fn string_atom(ctx: *mut qjs::JSContext, string: qjs::JSValue) -> qjs::JSAtom {
    // SAFETY: a string that this function owns, or an exception, which has nothing to free.
    unsafe {
        if qjs::JS_IsException(string) {
            return qjs::JS_ATOM_NULL;
        }
        let atom = qjs::JS_ValueToAtom(ctx, string);
        qjs::JS_FreeValue(ctx, string);
        atom
    }
}

/// The array of these values, frozen if it is to be.
fn finished(ctx: *mut qjs::JSContext, list: List, mutability: Mutability) -> Result<qjs::JSValue, Fail> {
    let array = checked(list.into_array())?;
    // SAFETY: an array that this function owns. The engine freezes it without running guest code: no element is an accessor.
    unsafe {
        if mutability == Mutability::Frozen && qjs::JS_FreezeObject(ctx, array) < 0 {
            qjs::JS_FreeValue(ctx, array);
            return Err(Fail::Thrown);
        }
    }
    Ok(array)
}

/// Makes the array at `at` with everything in it; nested arrays without recursion.
pub(super) fn array(ctx: *mut qjs::JSContext, doc: &Doc, at: usize, mutability: Mutability) -> Built {
    let text = doc.text();
    let mut open: Vec<List> = Vec::new();
    let mut shape = UNKNOWN;
    let mut at = at;
    loop {
        // Here a value is due; the first one is the array itself.
        let around = open.len() as u32;
        let made = match text.get(at) {
            Some(b'[') => {
                if around >= MAX_JSON_DEPTH {
                    return Err(Fault::Depth.into());
                }
                open.push(List::new(ctx));
                at = skip_space(text, at + 1);
                if text.get(at) != Some(&b']') {
                    continue;
                }
                None
            }
            Some(b'{') => {
                let (end, seen) = doc.recognise(ctx, at, around, shape)?;
                let record = checked(Record::create(ctx, doc, at, seen, mutability))?;
                (at, shape) = (end, seen.shape);
                Some(record)
            }
            _ => {
                let value;
                (value, at) = scalar(ctx, text, at)?;
                Some(value)
            }
        };
        if let (Some(value), Some(list)) = (made, open.last_mut()) {
            list.push(value)?;
        }
        // Here a value has ended: what follows belongs to the array around it.
        loop {
            at = skip_space(text, at);
            match text.get(at) {
                Some(b',') => {
                    at = skip_space(text, at + 1);
                    break;
                }
                Some(b']') => at += 1,
                _ => return Err(Fault::Syntax(at).into()),
            }
            let Some(list) = open.pop() else { return Err(Fault::Syntax(at).into()) };
            let array = finished(ctx, list, mutability)?;
            match open.last_mut() {
                Some(list) => list.push(array)?,
                None => return Ok((array, at)),
            }
        }
    }
}
