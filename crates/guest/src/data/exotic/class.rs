//! The class of records: how the engine asks for their properties, and when they become ordinary objects.
//!
//! A record answers reads from its text. The first write, delete or define
//! gives it real properties ("settles" it); from then on its hooks have
//! nothing to say. The hooks that only look must not settle it: the engine
//! asks them in the middle of walking the object's own shape.

use std::ffi::c_int;

use rquickjs::{Ctx, Error, Function, Object, Result, Value, object::Property, qjs};

use super::super::lazy::copy::{Copier, ToWalk};
use super::super::lazy::scan::{Fault, expect_end, skip_space};
use super::build::{self, Fail};
use super::doc::{Doc, UNKNOWN};
use super::record::Record;
use super::text::Text;

/// A chain of Proxies of Proxies longer than this is not followed.
const PROXY_CHAIN: usize = 1_000;
/// What one record takes of the engine's memory, about; only to time the garbage collector.
const RECORD_BYTES: usize = 192;

static HOOKS: qjs::JSClassExoticMethods = qjs::JSClassExoticMethods {
    get_own_property: Some(get_own_property),
    get_own_property_names: Some(get_own_property_names),
    delete_property: Some(delete_property),
    define_own_property: Some(define_own_property),
    has_property: None,
    get_property: None,
    set_property: None,
};

/// The class of records in one runtime.
#[derive(Clone, Copy)]
pub(crate) struct RecordClass(qjs::JSClassID);

impl RecordClass {
    /// Registers the class, and makes `Object.freeze` and its kin settle records first.
    pub(crate) fn install(ctx: &Ctx<'_>) -> Result<Self> {
        let raw = ctx.as_raw().as_ptr();
        let mut id = 0;
        // The name is never shown: records are told from plain objects by no message.
        let class = qjs::JSClassDef {
            class_name: c"Object".as_ptr(),
            finalizer: Some(finalize),
            gc_mark: Some(mark),
            call: None,
            exotic: (&raw const HOOKS).cast_mut(),
        };
        // SAFETY: the definition is copied by the call, and what it points to is static.
        let rc = unsafe {
            let rt = qjs::JS_GetRuntime(raw);
            qjs::JS_NewClassID(rt, &mut id);
            qjs::JS_NewClass(rt, id, &class)
        };
        if rc < 0 {
            return Err(Error::Exception);
        }
        let prototype: Value<'_> = ctx.globals().get::<_, Object<'_>>("Object")?.get("prototype")?;
        // SAFETY: the call takes over the reference that is duplicated for it.
        unsafe { qjs::JS_SetClassProto(raw, id, qjs::JS_DupValue(raw, prototype.as_raw())) };
        let class = Self(id);
        for (owner, name) in [
            ("Object", "freeze"),
            ("Object", "seal"),
            ("Object", "preventExtensions"),
            ("Reflect", "preventExtensions"),
        ] {
            class.settle_before(ctx, owner, name)?;
        }
        Ok(class)
    }

    pub(crate) fn id(self) -> u32 {
        self.0
    }

    /// Replaces a function that forbids new properties, which no hook sees, by one that settles a record first.
    fn settle_before(self, ctx: &Ctx<'_>, owner: &str, name: &str) -> Result<()> {
        let owner: Object<'_> = ctx.globals().get(owner)?;
        let original: Function<'_> = owner.get(name)?;
        let mut data = [original.as_raw()];
        let label = std::ffi::CString::new(name).map_err(|_| Error::Unknown)?;
        // SAFETY: the engine duplicates the one value in `data` and copies the name.
        let raw = unsafe {
            qjs::JS_NewCFunctionData2(
                ctx.as_raw().as_ptr(),
                Some(settled_call),
                label.as_ptr(),
                1,
                self.0 as c_int,
                1,
                data.as_mut_ptr(),
            )
        };
        // SAFETY: only looks at the tag.
        if unsafe { qjs::JS_IsException(raw) } {
            return Err(Error::Exception);
        }
        // SAFETY: the engine returned an owned reference.
        let wrapped = unsafe { Value::from_raw(ctx.clone(), raw) };
        owner.prop(name, Property::from(wrapped).writable().configurable())
    }

    /// The payload, if the value is a record that still reads from its text.
    fn record<'a>(self, value: &'a Value<'_>) -> Option<&'a Record> {
        // SAFETY: the payload of this class is null or a record, and lives as long as its object.
        unsafe { qjs::JS_GetOpaque(value.as_raw(), self.0).cast::<Record>().as_ref() }
    }

    /// Writes a record as the serialiser would, straight from its text.
    pub(crate) fn copy(
        self,
        value: &Value<'_>,
        out: &mut Vec<u8>,
        max_bytes: usize,
        max_depth: u32,
    ) -> std::result::Result<(), ToWalk> {
        let record = self.record(value).filter(|record| record.is_untouched()).ok_or(ToWalk)?;
        let doc = record.doc();
        let shape = record.shape(value.ctx().as_raw().as_ptr()).map_err(|_| ToWalk)?;
        let template = doc.template(shape);
        Copier { text: doc.text(), out, max_bytes, max_depth }.record(record.start(), template.as_deref())
    }

    /// Makes a value of a text whose outermost value is an object or an array.
    pub(crate) fn parse<'js>(self, ctx: &Ctx<'js>, text: Text<'js>) -> std::result::Result<Value<'js>, Option<Fault>> {
        let raw = ctx.as_raw().as_ptr();
        // SAFETY: a context knows its runtime.
        let rt = unsafe { qjs::JS_GetRuntime(raw) };
        let doc = Doc::new(text.into_block(), self.0);
        // SAFETY: `doc` was just made with one reference, which this function holds to its end.
        let made = unsafe { uncollected(rt, &*doc, || build_all(raw, &*doc)) };
        // SAFETY: the reference from `new`; records that came of it hold their own.
        unsafe { Doc::release(doc, rt) };
        match made {
            // SAFETY: the engine returned an owned reference.
            Ok(value) => Ok(unsafe { Value::from_raw(ctx.clone(), value) }),
            Err(Fail::Text(fault)) => Err(Some(fault)),
            Err(Fail::Thrown) => Err(None),
        }
    }
}

/// Builds with the collector held back: what is made of a text at once can't be garbage yet.
///
/// # Safety
/// `rt` is alive.
unsafe fn uncollected<T>(rt: *mut qjs::JSRuntime, doc: &Doc, build: impl FnOnce() -> T) -> T {
    // SAFETY: as the caller promises.
    let threshold = unsafe { qjs::JS_GetGCThreshold(rt) };
    // SAFETY: as above; the true threshold is set again below.
    unsafe { qjs::JS_SetGCThreshold(rt, qjs::size_t::MAX) };
    let built = build();
    let bytes = doc.text().len() + doc.records() * RECORD_BYTES;
    // SAFETY: as above.
    unsafe { qjs::JS_SetGCThreshold(rt, threshold.saturating_add((bytes + bytes / 4) as _)) };
    built
}

fn build_all(ctx: *mut qjs::JSContext, doc: &Doc) -> std::result::Result<qjs::JSValue, Fail> {
    let text = doc.text();
    let at = skip_space(text, 0);
    let (value, end) = match text.get(at) {
        Some(b'[') => build::array(ctx, doc, at, 0)?,
        Some(b'{') => {
            let object = Record::create(ctx, doc, at, UNKNOWN);
            // SAFETY: the payload of a fresh record, or null for an exception.
            let Some(record) = (unsafe { payload(object) }) else { return Err(Fail::Thrown) };
            match record.scan(ctx) {
                Ok(end) => (object, end),
                Err(fail) => return Err(discard(ctx, object, fail)),
            }
        }
        _ => return Err(Fault::Syntax(at).into()),
    };
    match expect_end(text, end) {
        Ok(()) => Ok(value),
        Err(fault) => Err(discard(ctx, value, fault.into())),
    }
}

fn discard(ctx: *mut qjs::JSContext, value: qjs::JSValue, fail: Fail) -> Fail {
    // SAFETY: the caller owns the value and does not use it again.
    unsafe { qjs::JS_FreeValue(ctx, value) };
    fail
}

/// The record behind an object; None once it is settled.
///
/// # Safety
/// `obj` is a record's object, or no object at all.
unsafe fn payload<'a>(obj: qjs::JSValue) -> Option<&'a Record> {
    let mut class = 0;
    // SAFETY: as the caller promises; the payload is null once the record is settled.
    unsafe { qjs::JS_GetAnyOpaque(obj, &mut class).cast::<Record>().as_ref() }
}

/// Leaves an exception for what failed; hooks report it as -1.
fn throw(ctx: *mut qjs::JSContext, fail: Fail) -> c_int {
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
            let flags = qjs::JS_PROP_C_W_E as c_int;
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
    let entries = match record.indexed(ctx) {
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

unsafe extern "C" fn delete_property(ctx: *mut qjs::JSContext, obj: qjs::JSValue, prop: qjs::JSAtom) -> c_int {
    // SAFETY: as in `get_own_property`.
    let Some(record) = (unsafe { payload(obj) }) else { return 1 };
    match record.has(ctx, prop) {
        Ok(false) => 1,
        // SAFETY: the object is a record; once settled, the engine deletes a real property.
        Ok(true) => match unsafe { settle(ctx, obj) } {
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
    if let Err(fail) = unsafe { settle(ctx, obj) } {
        return throw(ctx, fail);
    }
    let flags = flags | qjs::JS_PROP_NO_EXOTIC as c_int;
    // SAFETY: all arguments are the engine's own; the flag keeps it from asking this hook again.
    unsafe { qjs::JS_DefineProperty(ctx, obj, prop, value, getter, setter, flags) }
}

/// Gives a record real properties; from then on it is an ordinary object.
///
/// # Safety
/// `obj` is an object of the class, and the engine is not in the middle of walking its shape.
unsafe fn settle(ctx: *mut qjs::JSContext, obj: qjs::JSValue) -> std::result::Result<(), Fail> {
    // SAFETY: as the caller promises.
    let Some(record) = (unsafe { payload(obj) }) else { return Ok(()) };
    let flags = (qjs::JS_PROP_C_W_E
        | qjs::JS_PROP_HAS_VALUE
        | qjs::JS_PROP_HAS_CONFIGURABLE
        | qjs::JS_PROP_HAS_WRITABLE
        | qjs::JS_PROP_HAS_ENUMERABLE
        | qjs::JS_PROP_NO_EXOTIC
        | qjs::JS_PROP_THROW) as c_int;
    let index = record.indexed(ctx)?;
    // All values first: if memory runs out among them, the object is still as it was.
    for entry in index.entries() {
        let value = entry.read(ctx, record.doc())?;
        // SAFETY: the reference that `read` gave; the entry keeps its own.
        unsafe { qjs::JS_FreeValue(ctx, value) };
    }
    for entry in index.entries() {
        let value = entry.read(ctx, record.doc())?;
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

/// `Object.freeze` and its kin: settles the record that the first argument is or stands for, then does as always.
unsafe extern "C" fn settled_call(
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
        // SAFETY: as above; a settled or foreign object is left alone.
        if let Err(fail) = unsafe { settle_behind(ctx, target, class as qjs::JSClassID) } {
            throw(ctx, fail);
            return qjs::JS_EXCEPTION;
        }
    }
    // SAFETY: the one value in `data` is the original function, and the arguments are passed through.
    unsafe { qjs::JS_Call(ctx, *data, this, argc, argv) }
}

/// Settles the record at the end of a chain of Proxies.
///
/// # Safety
/// `target` is alive for the call.
unsafe fn settle_behind(
    ctx: *mut qjs::JSContext,
    target: qjs::JSValue,
    class: qjs::JSClassID,
) -> std::result::Result<(), Fail> {
    // SAFETY: a reference of our own, freed below.
    let mut value = unsafe { qjs::JS_DupValue(ctx, target) };
    let mut result = Ok(());
    for _ in 0..PROXY_CHAIN {
        // SAFETY: the value is alive; the calls only look.
        let (id, proxy) = unsafe { (qjs::JS_GetClassID(value), qjs::JS_IsProxy(value)) };
        if id == class {
            // SAFETY: an object of the class, and no engine code is walking it: this is a call from guest code.
            result = unsafe { settle(ctx, value) };
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

unsafe extern "C" fn finalize(rt: *mut qjs::JSRuntime, obj: qjs::JSValue) {
    // SAFETY: the engine finalises objects of the class only, each once.
    if let Some(record) = unsafe { payload(obj) } {
        // SAFETY: the object is going away, so nobody else refers to the payload.
        unsafe { Record::free(std::ptr::from_ref(record).cast_mut(), rt) };
    }
}

unsafe extern "C" fn mark(rt: *mut qjs::JSRuntime, obj: qjs::JSValue, mark: qjs::JS_MarkFunc) {
    // SAFETY: the engine marks objects of the class only.
    if let Some(record) = unsafe { payload(obj) } {
        record.mark(rt, mark);
    }
}
