//! `JSON.stringify` and `JSON.parse` as the engine calls them.
//!
//! Both do what they can from the text of records, without running guest code. Whatever else they are given goes to the
//! engine's own functions, as if nothing had been tried.

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use rquickjs::{Ctx, Error, Function, Object, Result, Value, object::Property, qjs};

use super::super::{parse, stringify};

/// Replaces the two functions of `JSON`; what they replace is kept with them.
pub(super) fn install(ctx: &Ctx<'_>) -> Result<()> {
    let json: Object<'_> = ctx.globals().get("JSON")?;
    replace(&json, "stringify", c"stringify", 3, stringify_call)?;
    replace(&json, "parse", c"parse", 2, parse_call)
}

type Call = unsafe extern "C" fn(
    *mut qjs::JSContext,
    qjs::JSValue,
    c_int,
    *mut qjs::JSValue,
    c_int,
    *mut qjs::JSValue,
) -> qjs::JSValue;

fn replace(owner: &Object<'_>, name: &str, label: &CStr, length: c_int, call: Call) -> Result<()> {
    let ctx = owner.ctx();
    let original: Function<'_> = owner.get(name)?;
    let mut data = [original.as_raw()];
    let raw = ctx.as_raw().as_ptr();
    // SAFETY: the engine duplicates the one value in `data` and copies the name.
    let made = unsafe { qjs::JS_NewCFunctionData2(raw, Some(call), label.as_ptr(), length, 0, 1, data.as_mut_ptr()) };
    // SAFETY: only looks at the tag.
    if unsafe { qjs::JS_IsException(made) } {
        return Err(Error::Exception);
    }
    // SAFETY: the engine returned an owned reference.
    let wrapped = unsafe { Value::from_raw(ctx.clone(), made) };
    owner.prop(name, Property::from(wrapped).writable().configurable())
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
