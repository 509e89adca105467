//! How a record becomes an ordinary object: it gets real properties and forgets its text.

use std::ffi::c_int;

use rquickjs::qjs;

use super::build::Fail;
use super::hooks::{payload, throw, to_be_copied};
use super::record::Record;

/// A chain of Proxies of Proxies longer than this is not followed.
const PROXY_CHAIN: usize = 1_000;

/// Gives a record real properties; from then on it is an ordinary object. A frozen record stays: nothing can change it.
///
/// # Safety
/// `obj` is an object of the class, and the engine is not in the middle of walking its shape.
pub(super) unsafe fn materialise(ctx: *mut qjs::JSContext, obj: qjs::JSValue) -> Result<(), Fail> {
    // SAFETY: as the caller promises.
    let Some(record) = (unsafe { payload(obj) }).filter(|record| !record.is_frozen()) else { return Ok(()) };
    let flags = (qjs::JS_PROP_C_W_E
        | qjs::JS_PROP_HAS_VALUE
        | qjs::JS_PROP_HAS_CONFIGURABLE
        | qjs::JS_PROP_HAS_WRITABLE
        | qjs::JS_PROP_HAS_ENUMERABLE
        | qjs::JS_PROP_NO_EXOTIC
        | qjs::JS_PROP_THROW) as c_int;
    let index = to_be_copied(ctx, record)?;
    // All values first: if memory runs out among them, the object is still as it was.
    for place in 0..index.entries().len() {
        let value = index.read(ctx, record, place)?;
        // SAFETY: the reference that `read` gave; the entry keeps its own.
        unsafe { qjs::JS_FreeValue(ctx, value) };
    }
    for (place, entry) in index.entries().iter().enumerate() {
        let value = index.read(ctx, record, place)?;
        // SAFETY: the engine duplicates what it keeps; the reference from `read` is freed after.
        let rc = unsafe {
            let none = qjs::JS_UNDEFINED;
            let rc = qjs::JS_DefineProperty(ctx, obj, entry.atom(), value, none, none, flags);
            qjs::JS_FreeValue(ctx, value);
            rc
        };
        if rc < 0 {
            return Err(Fail::Thrown);
        }
    }
    // SAFETY: the object lets go of its payload, which is then freed once.
    unsafe {
        let record = std::ptr::from_ref(record).cast_mut();
        qjs::JS_SetOpaque(obj, std::ptr::null_mut());
        Record::free(record, qjs::JS_GetRuntime(ctx));
    }
    Ok(())
}

/// `Object.freeze` and its relatives: materialises the record that the first argument is or stands for, then does as always.
pub(super) unsafe extern "C" fn settled_call(
    ctx: *mut qjs::JSContext,
    this: qjs::JSValue,
    argc: c_int,
    argv: *mut qjs::JSValue,
    class: c_int,
    data: *mut qjs::JSValue,
) -> qjs::JSValue {
    if argc > 0 {
        // SAFETY: the engine passes `argc` values, alive for the call.
        let target = unsafe { *argv };
        // SAFETY: as above; a materialised or foreign object is left alone.
        if let Err(fail) = unsafe { settle_behind(ctx, target, class as qjs::JSClassID) } {
            throw(ctx, fail);
            return qjs::JS_EXCEPTION;
        }
    }
    // SAFETY: the one value in `data` is the original function, and the arguments are passed through.
    unsafe { qjs::JS_Call(ctx, *data, this, argc, argv) }
}

/// Materialises the record at the end of a chain of Proxies.
///
/// # Safety
/// `target` is alive for the call.
unsafe fn settle_behind(ctx: *mut qjs::JSContext, target: qjs::JSValue, class: qjs::JSClassID) -> Result<(), Fail> {
    // SAFETY: a reference of our own, freed below.
    let mut value = unsafe { qjs::JS_DupValue(ctx, target) };
    let mut result = Ok(());
    for _ in 0..PROXY_CHAIN {
        // SAFETY: the value is alive; the calls only look.
        let (id, proxy) = unsafe { (qjs::JS_GetClassID(value), qjs::JS_IsProxy(value)) };
        if id == class {
            // SAFETY: an object of the class, and no engine code is walking it: this is a call from guest code.
            result = unsafe { materialise(ctx, value) };
        }
        if !proxy {
            break;
        }
        // SAFETY: a Proxy, checked above; its reference is freed once the next one is held.
        unsafe {
            let next = qjs::JS_GetProxyTarget(ctx, value);
            qjs::JS_FreeValue(ctx, value);
            value = next;
            if qjs::JS_IsException(value) {
                // A revoked Proxy: the original function says so itself.
                qjs::JS_FreeValue(ctx, qjs::JS_GetException(ctx));
                break;
            }
        }
    }
    // SAFETY: the reference held above.
    unsafe { qjs::JS_FreeValue(ctx, value) };
    result
}
