//! Functions of the standard library that know records, as the engine calls them.
//!
//! Each does what it can from the text of records, without running guest code. Whatever else it is given goes to the engine's
//! own function, as if nothing had been tried. `localeCompare` is one of them because the engine normalises both strings of
//! every comparison, which changes nothing in most of them.

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use rquickjs::{Ctx, Error, Function, Object, Result, Value, object::Property, qjs};

use super::super::{parse, stringify};
use super::build::{Fail, checked};
use super::hooks::throw;
use super::record::Record;
use super::text::List;

/// Replaces the functions; what they replace is kept with them.
pub(super) fn install(ctx: &Ctx<'_>, class: qjs::JSClassID) -> Result<()> {
    let json: Object<'_> = ctx.globals().get("JSON")?;
    replace(&json, c"stringify", 3, stringify_call, class)?;
    replace(&json, c"parse", 2, parse_call, class)?;
    let object: Object<'_> = ctx.globals().get("Object")?;
    replace(&object, c"keys", 1, listing_call::<KEYS>, class)?;
    replace(&object, c"values", 1, listing_call::<VALUES>, class)?;
    replace(&object, c"entries", 1, listing_call::<ENTRIES>, class)?;
    let string: Object<'_> = ctx.globals().get::<_, Object<'_>>("String")?.get("prototype")?;
    replace(&string, c"localeCompare", 1, locale_compare_call, class)
}

type Call = unsafe extern "C" fn(
    *mut qjs::JSContext,
    qjs::JSValue,
    c_int,
    *mut qjs::JSValue,
    c_int,
    *mut qjs::JSValue,
) -> qjs::JSValue;

fn replace(owner: &Object<'_>, label: &CStr, length: c_int, call: Call, class: qjs::JSClassID) -> Result<()> {
    let ctx = owner.ctx();
    let name = label.to_str().map_err(|_| Error::Unknown)?;
    let original: Function<'_> = owner.get(name)?;
    let wrapped = with_quick_way(ctx, &original, label, length, call, class)?;
    owner.prop(name, Property::from(wrapped).writable().configurable())
}

/// `String.prototype.localeCompare`, which has `slow` compare what it does not: texts in other scripts than Latin and Cyrillic, in a
/// locale, or no texts.
pub(crate) fn locale_compare<'js>(ctx: &Ctx<'js>, slow: &Function<'js>) -> Result<Value<'js>> {
    with_quick_way(ctx, slow, c"localeCompare", 1, locale_compare_call, 0)
}

/// A function that tries `call` before the original.
fn with_quick_way<'js>(
    ctx: &Ctx<'js>,
    original: &Function<'js>,
    label: &CStr,
    length: c_int,
    call: Call,
    class: qjs::JSClassID,
) -> Result<Value<'js>> {
    let mut data = [original.as_raw()];
    let raw = ctx.as_raw().as_ptr();
    // SAFETY: the engine duplicates the one value in `data` and copies the name.
    let made = unsafe {
        qjs::JS_NewCFunctionData2(raw, Some(call), label.as_ptr(), length, class as c_int, 1, data.as_mut_ptr())
    };
    // SAFETY: only looks at the tag.
    if unsafe { qjs::JS_IsException(made) } {
        return Err(Error::Exception);
    }
    // SAFETY: the engine returned an owned reference.
    Ok(unsafe { Value::from_raw(ctx.clone(), made) })
}

/// The arguments of one call.
struct Arguments {
    count: c_int,
    first: *mut qjs::JSValue,
}

impl Arguments {
    /// The argument at `at`, borrowed from the engine; undefined where there is none.
    ///
    /// # Safety
    /// `first` points at `count` values that are alive.
    unsafe fn raw(&self, at: c_int) -> qjs::JSValue {
        // SAFETY: as the caller promises.
        if at < self.count { unsafe { *self.first.add(at as usize) } } else { qjs::JS_UNDEFINED }
    }

    /// # Safety
    /// As for `raw`.
    unsafe fn get<'js>(&self, ctx: &Ctx<'js>, at: c_int) -> Value<'js> {
        // SAFETY: as the caller promises; the value gets a reference of its own.
        unsafe { Value::from_raw(ctx.clone(), qjs::JS_DupValue(ctx.as_raw().as_ptr(), self.raw(at))) }
    }
}

/// Hands a result to the engine; None if the engine has to find it.
fn handed<'js>(ctx: &Ctx<'js>, result: Result<Option<Value<'js>>>) -> Option<qjs::JSValue> {
    match result {
        // SAFETY: a live value, of which the engine gets a reference of its own.
        Ok(found) => found.map(|value| unsafe { qjs::JS_DupValue(ctx.as_raw().as_ptr(), value.as_raw()) }),
        Err(_) => Some(qjs::JS_EXCEPTION),
    }
}

unsafe extern "C" fn stringify_call(
    raw: *mut qjs::JSContext,
    _: qjs::JSValue,
    count: c_int,
    first: *mut qjs::JSValue,
    _: c_int,
    _: *mut qjs::JSValue,
) -> qjs::JSValue {
    let Some(context) = NonNull::new(raw) else { return qjs::JS_EXCEPTION };
    let given = Arguments { count, first };
    // SAFETY: the engine passes a live context and `count` live values.
    unsafe {
        let ctx = Ctx::from_raw(context);
        let quick = stringify::quick(&ctx, &given.get(&ctx, 0), &given.get(&ctx, 1), &given.get(&ctx, 2));
        handed(&ctx, quick).unwrap_or_else(|| qjs::JS_JSONStringify(raw, given.raw(0), given.raw(1), given.raw(2)))
    }
}

unsafe extern "C" fn parse_call(
    raw: *mut qjs::JSContext,
    this: qjs::JSValue,
    count: c_int,
    first: *mut qjs::JSValue,
    _: c_int,
    data: *mut qjs::JSValue,
) -> qjs::JSValue {
    let Some(context) = NonNull::new(raw) else { return qjs::JS_EXCEPTION };
    let given = Arguments { count, first };
    // SAFETY: the engine passes a live context and `count` live values; the one value in `data` is the original function.
    unsafe {
        if qjs::JS_IsFunction(raw, given.raw(1)) {
            return qjs::JS_Call(raw, *data, this, count, first);
        }
        let ctx = Ctx::from_raw(context);
        handed(&ctx, parse::quick(&ctx, &given.get(&ctx, 0))).unwrap_or_else(|| parsed(raw, given.raw(0)))
    }
}

/// What the original function does where there is no reviver. It is not called, so that stack traces show one function.
///
/// # Safety
/// The context and the value are alive.
unsafe fn parsed(ctx: *mut qjs::JSContext, text: qjs::JSValue) -> qjs::JSValue {
    let mut length: qjs::size_t = 0;
    // SAFETY: as the caller promises. The text ends with a zero byte, stays in place until it is freed, and is freed once.
    unsafe {
        let bytes = qjs::JS_ToCStringLen2(ctx, &mut length, text, false);
        if bytes.is_null() {
            return qjs::JS_EXCEPTION;
        }
        let value = qjs::JS_ParseJSON(ctx, bytes, length, c"<input>".as_ptr());
        qjs::JS_FreeCString(ctx, bytes);
        value
    }
}

/// The strings of a call of `localeCompare`, compared, if normalisation changes neither.
///
/// # Safety
/// The context and the values are alive.
unsafe fn compared(ctx: *mut qjs::JSContext, one: qjs::JSValue, other: qjs::JSValue) -> Option<qjs::JSValue> {
    // SAFETY: as the caller promises; only looks at tags.
    if unsafe { !qjs::JS_IsString(one) || !qjs::JS_IsString(other) } {
        return None;
    }
    let (mut lengths, mut texts) = ([0; 2], [std::ptr::null(); 2]);
    for (at, string) in [one, other].into_iter().enumerate() {
        // SAFETY: a live string; the text stays in place until it is freed below.
        texts[at] = unsafe { qjs::JS_ToCStringLen2(ctx, &mut lengths[at], string, false) };
    }
    let mut result = Some(qjs::JS_EXCEPTION);
    if texts.iter().all(|text| !text.is_null()) {
        // SAFETY: the engine gave so many bytes at each place.
        let [one, other]: [&[u8]; 2] =
            std::array::from_fn(|at| unsafe { std::slice::from_raw_parts(texts[at].cast(), lengths[at] as usize) });
        let comparable = is_normal(one) && is_normal(other);
        result = comparable.then(|| qjs::JS_MKVAL(qjs::JS_TAG_INT, one.cmp(other) as i32));
    }
    for text in texts {
        // SAFETY: null or from the engine, and freed once.
        unsafe { qjs::JS_FreeCString(ctx, text) };
    }
    result
}

/// Whether a text in UTF-8 has only characters that normalisation leaves as they are, also beside each other: those below U+0300,
/// which are ASCII and Latin, and U+0400 to U+047F, which are Cyrillic. The order of their bytes is that of their code points.
fn is_normal(text: &[u8]) -> bool {
    text.is_ascii() || text.iter().all(|&byte| byte < 0xcc || byte == 0xd0 || byte == 0xd1)
}

unsafe extern "C" fn locale_compare_call(
    ctx: *mut qjs::JSContext,
    this: qjs::JSValue,
    count: c_int,
    first: *mut qjs::JSValue,
    _: c_int,
    data: *mut qjs::JSValue,
) -> qjs::JSValue {
    // SAFETY: the engine passes a live context and `count` live values; the one value in `data` is the original function.
    unsafe {
        let given = Arguments { count, first };
        let has_locale = !(qjs::JS_IsUndefined(given.raw(1)) && qjs::JS_IsUndefined(given.raw(2)));
        let quick = if has_locale { None } else { compared(ctx, this, given.raw(0)) };
        quick.unwrap_or_else(|| qjs::JS_Call(ctx, *data, this, count, first))
    }
}

/// What a list of a record's properties holds: `Object.keys`, `Object.values` or `Object.entries`.
const KEYS: u8 = 0;
const VALUES: u8 = 1;
const ENTRIES: u8 = 2;

/// Lists the properties of a record that still reads from its text; None for anything else.
///
/// # Safety
/// The context and the value are alive.
unsafe fn listed(ctx: *mut qjs::JSContext, object: qjs::JSValue, class: c_int, part: u8) -> Option<qjs::JSValue> {
    // SAFETY: the payload of this class is null or a record, and lives as long as its object, which the caller keeps alive.
    let record = unsafe { qjs::JS_GetOpaque(object, class as qjs::JSClassID).cast::<Record>().as_ref() }?;
    let fill = || -> std::result::Result<qjs::JSValue, Fail> {
        let mut list = List::with_capacity(ctx, record.keys(ctx)?)?;
        // SAFETY: the record keeps its keys alive.
        let key = |atom| checked(unsafe { qjs::JS_AtomToString(ctx, atom) });
        match part {
            KEYS => record.each_key(ctx, |atom| Ok(list.push(key(atom)?)?))?,
            VALUES => record.each_property(ctx, |_, value| Ok(list.push(value)?))?,
            _ => record.each_property(ctx, |atom, value| Ok(list.push(pair(ctx, key(atom), value)?)?))?,
        }
        checked(list.into_array())
    };
    Some(fill().unwrap_or_else(|fail| {
        throw(ctx, fail);
        qjs::JS_EXCEPTION
    }))
}

/// An array of a key and a value, both of which it takes over.
fn pair(
    ctx: *mut qjs::JSContext,
    key: std::result::Result<qjs::JSValue, Fail>,
    value: qjs::JSValue,
) -> std::result::Result<qjs::JSValue, Fail> {
    match key {
        // SAFETY: two owned values, which the engine takes over in any case.
        Ok(key) => checked(unsafe { qjs::JS_NewArrayFrom(ctx, 2, [key, value].as_ptr()) }),
        Err(fail) => {
            // SAFETY: the value was handed over and has found no place.
            unsafe { qjs::JS_FreeValue(ctx, value) };
            Err(fail)
        }
    }
}

unsafe extern "C" fn listing_call<const PART: u8>(
    ctx: *mut qjs::JSContext,
    this: qjs::JSValue,
    count: c_int,
    first: *mut qjs::JSValue,
    class: c_int,
    data: *mut qjs::JSValue,
) -> qjs::JSValue {
    // SAFETY: the engine passes a live context and `count` live values; the one value in `data` is the original function.
    unsafe {
        let quick = listed(ctx, Arguments { count, first }.raw(0), class, PART);
        quick.unwrap_or_else(|| qjs::JS_Call(ctx, *data, this, count, first))
    }
}
