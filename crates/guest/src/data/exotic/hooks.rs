//! The engine's questions to records, answered from their text.
//!
//! The hooks that only look must not materialise a record: the engine asks them in
//! the middle of walking the object's own shape. No hook runs guest code.

use std::ffi::c_int;

use rquickjs::qjs;

use super::build::Fail;
use super::index::Index;
use super::materialise::materialise;
use super::record::Record;
use super::shapes;

pub(super) static HOOKS: qjs::JSClassExoticMethods = qjs::JSClassExoticMethods {
    get_own_property: Some(get_own_property),
    get_own_property_names: Some(get_own_property_names),
    delete_property: Some(delete_property),
    define_own_property: Some(define_own_property),
    has_property: None,
    get_property: None,
    set_property: None,
};

/// The record behind an object; None once it is materialised.
///
/// # Safety
/// `obj` is a record's object, or no object at all.
pub(super) unsafe fn payload<'a>(obj: qjs::JSValue) -> Option<&'a Record> {
    let mut class = 0;
    // SAFETY: as the caller promises; the payload is null once the record is materialised.
    unsafe { qjs::JS_GetAnyOpaque(obj, &mut class).cast::<Record>().as_ref() }
}

/// Leaves an exception for what failed; hooks report it as -1.
pub(super) fn throw(ctx: *mut qjs::JSContext, fail: Fail) -> c_int {
    if let Fail::Text(_) = fail {
        // SAFETY: a constant format without arguments.
        unsafe { qjs::JS_ThrowSyntaxError(ctx, c"invalid JSON".as_ptr()) };
    }
    -1
}

unsafe extern "C" fn get_own_property(
    ctx: *mut qjs::JSContext,
    desc: *mut qjs::JSPropertyDescriptor,
    obj: qjs::JSValue,
    prop: qjs::JSAtom,
) -> c_int {
    // SAFETY: the engine calls this for objects of the class only, and keeps the object alive meanwhile.
    let Some(record) = (unsafe { payload(obj) }) else { return 0 };
    if desc.is_null() {
        return record.has(ctx, prop).map_or_else(|fail| throw(ctx, fail), c_int::from);
    }
    match record.read(ctx, prop) {
        Ok(Some(value)) => {
            let flags = if record.is_frozen() { qjs::JS_PROP_ENUMERABLE } else { qjs::JS_PROP_C_W_E } as c_int;
            let found =
                qjs::JSPropertyDescriptor { flags, value, getter: qjs::JS_UNDEFINED, setter: qjs::JS_UNDEFINED };
            // SAFETY: not null, so it is the engine's place for the answer.
            unsafe { desc.write(found) };
            1
        }
        Ok(None) => 0,
        Err(fail) => throw(ctx, fail),
    }
}

unsafe extern "C" fn get_own_property_names(
    ctx: *mut qjs::JSContext,
    table: *mut *mut qjs::JSPropertyEnum,
    len: *mut u32,
    obj: qjs::JSValue,
) -> c_int {
    // SAFETY: both are the engine's places for the answer.
    unsafe {
        table.write(std::ptr::null_mut());
        len.write(0);
    }
    // SAFETY: as in `get_own_property`.
    let Some(record) = (unsafe { payload(obj) }) else { return 0 };
    // What asks for names mostly copies the record next, and reads each value twice.
    let entries = match to_be_copied(ctx, record) {
        Ok(index) => index.entries(),
        Err(fail) => return throw(ctx, fail),
    };
    if entries.is_empty() {
        return 0;
    }
    // SAFETY: a plain allocation; the result is checked.
    let names = unsafe { qjs::js_malloc(ctx, (entries.len() * size_of::<qjs::JSPropertyEnum>()) as _) };
    let names = names.cast::<qjs::JSPropertyEnum>();
    if names.is_null() {
        return -1;
    }
    for (at, entry) in entries.iter().enumerate() {
        // SAFETY: there is room for all entries; each name is a reference of its own, freed by the engine.
        unsafe {
            let atom = qjs::JS_DupAtom(ctx, entry.atom());
            names.add(at).write(qjs::JSPropertyEnum { is_enumerable: true, atom });
        }
    }
    // SAFETY: both are the engine's places for the answer.
    unsafe {
        table.write(names);
        len.write(entries.len() as u32);
    }
    0
}

/// The index of a record whose properties another object gets, or real ones.
pub(super) fn to_be_copied(ctx: *mut qjs::JSContext, record: &Record) -> Result<Index<'_>, Fail> {
    if let Some(template) = record.template(ctx)? {
        shapes::note_copy(ctx, template)?;
    }
    record.indexed(ctx)
}

unsafe extern "C" fn delete_property(ctx: *mut qjs::JSContext, obj: qjs::JSValue, prop: qjs::JSAtom) -> c_int {
    // SAFETY: as in `get_own_property`.
    let Some(record) = (unsafe { payload(obj) }) else { return 1 };
    match record.has(ctx, prop) {
        Ok(false) => 1,
        Ok(true) if record.is_frozen() => 0,
        // SAFETY: the object is a record; once materialised, the engine deletes a real property.
        Ok(true) => match unsafe { materialise(ctx, obj) } {
            // SAFETY: the object and the atom are alive for the call.
            Ok(()) => unsafe { qjs::JS_DeleteProperty(ctx, obj, prop, 0) },
            Err(fail) => throw(ctx, fail),
        },
        Err(fail) => throw(ctx, fail),
    }
}

unsafe extern "C" fn define_own_property(
    ctx: *mut qjs::JSContext,
    obj: qjs::JSValue,
    prop: qjs::JSAtom,
    value: qjs::JSValue,
    getter: qjs::JSValue,
    setter: qjs::JSValue,
    flags: c_int,
) -> c_int {
    // SAFETY: the engine calls this for objects of the class only.
    if let Some(record) = unsafe { payload(obj) }.filter(|record| record.is_frozen()) {
        return match frozen_like(ctx, record, prop) {
            // SAFETY: all arguments are the engine's own, and the stand-in is freed once.
            Ok(stand_in) => unsafe {
                let rc = qjs::JS_DefineProperty(ctx, stand_in, prop, value, getter, setter, flags);
                qjs::JS_FreeValue(ctx, stand_in);
                rc
            },
            Err(fail) => throw(ctx, fail),
        };
    }
    // SAFETY: as above.
    if let Err(fail) = unsafe { materialise(ctx, obj) } {
        return throw(ctx, fail);
    }
    let flags = flags | qjs::JS_PROP_NO_EXOTIC as c_int;
    // SAFETY: all arguments are the engine's own; the flag keeps it from asking this hook again.
    unsafe { qjs::JS_DefineProperty(ctx, obj, prop, value, getter, setter, flags) }
}

/// An ordinary frozen object with this one property of a record, if the record has it: the engine's own rules then say what
/// may be defined on a frozen record, which is nothing new, and what it throws.
fn frozen_like(ctx: *mut qjs::JSContext, record: &Record, prop: qjs::JSAtom) -> Result<qjs::JSValue, Fail> {
    let value = record.read(ctx, prop)?;
    // SAFETY: plain calls on an object of our own; the value is a reference of our own, of which the engine keeps a duplicate.
    unsafe {
        let object = qjs::JS_NewObjectProto(ctx, qjs::JS_NULL);
        let mut failed = qjs::JS_IsException(object);
        if let Some(value) = value {
            if !failed {
                let none = qjs::JS_UNDEFINED;
                let flags = qjs::JS_PROP_HAS_VALUE | qjs::JS_PROP_ENUMERABLE | qjs::JS_PROP_HAS_ENUMERABLE;
                failed = qjs::JS_DefineProperty(ctx, object, prop, value, none, none, flags as c_int) < 0;
            }
            qjs::JS_FreeValue(ctx, value);
        }
        if failed {
            qjs::JS_FreeValue(ctx, object);
            return Err(Fail::Thrown);
        }
        qjs::JS_PreventExtensions(ctx, object);
        Ok(object)
    }
}

pub(super) unsafe extern "C" fn finalize(rt: *mut qjs::JSRuntime, obj: qjs::JSValue) {
    // SAFETY: the engine finalises objects of the class only, each once.
    if let Some(record) = unsafe { payload(obj) } {
        // SAFETY: the object is going away, so nothing else refers to the payload.
        unsafe { Record::free(std::ptr::from_ref(record).cast_mut(), rt) };
    }
}

pub(super) unsafe extern "C" fn mark(rt: *mut qjs::JSRuntime, obj: qjs::JSValue, mark: qjs::JS_MarkFunc) {
    // SAFETY: the engine marks objects of the class only.
    if let Some(record) = unsafe { payload(obj) } {
        record.mark(rt, mark);
    }
}
