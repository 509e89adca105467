//! The class of records, as the rest of `data` uses it.
//!
//! A record answers reads from its text (`hooks`). The first write, delete or
//! define gives it real properties (`materialise`); from then on it is an ordinary
//! object of a class that nothing shows.

use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;

use rquickjs::{Ctx, Error, Function, Object, Result, Value, object::Property, qjs};

use toolgate_json::write::ByteSink;

use super::super::lazy::copy::{Copier, ToWalk};
use super::super::lazy::scan::{Fault, expect_end, skip_space};
use super::build::{self, Fail};
use super::doc::{Doc, Mutability, Seen};
use super::functions;
use super::hooks::{HOOKS, finalize, mark, payload};
use super::materialise::settled_call;
use super::record::Record;
use super::text::Text;
use super::value::owned;

/// What one record takes of the engine's memory, about; only to time the garbage collector.
const RECORD_BYTES: usize = 192;
/// What a small realm takes by itself, about; only to time the garbage collector.
const BASE_BYTES: usize = 1 << 20;

/// How much of a text is a record's own.
#[derive(Clone, Copy)]
pub(crate) struct Share {
    /// Which text.
    pub(crate) text: usize,
    pub(crate) own: usize,
    pub(crate) whole: usize,
}

/// The class of records in one runtime.
#[derive(Clone, Copy)]
pub(crate) struct RecordClass(qjs::JSClassID);

impl RecordClass {
    /// Registers the class, makes `Object.freeze` and its relatives materialise records first, and installs the functions that
    /// know records.
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
        functions::install(ctx, id)?;
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

    /// Replaces a function that forbids new properties, which no hook sees, by one that materialises a record first.
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
        out: &mut impl ByteSink,
        max_bytes: usize,
        max_depth: u32,
    ) -> std::result::Result<(), ToWalk> {
        let record = self.record(value).filter(|record| record.is_untouched()).ok_or(ToWalk)?;
        let doc = record.doc();
        let shape = record.shape(value.ctx().as_raw().as_ptr()).map_err(|_| ToWalk)?;
        let template = doc.template(shape);
        Copier { text: doc.text(), out, max_bytes, max_depth }.record(record.start(), template)
    }

    /// The payload, if no part of the record is known to the program.
    fn unread<'a>(self, value: &'a Value<'_>) -> Option<&'a Record> {
        self.record(value).filter(|record| record.is_unread())
    }

    /// How much of which text an unread record has; None for any other value.
    pub(crate) fn share(self, value: &Value<'_>) -> Option<Share> {
        let record = self.unread(value)?;
        let own = record.text(value.ctx().as_raw().as_ptr()).ok()?;
        let whole = record.doc().text();
        Some(Share { text: whole.as_ptr() as usize, own: own.len(), whole: whole.len() })
    }

    /// Which text an unread record is from; None for any other value.
    pub(crate) fn text_of(self, value: &Value<'_>) -> Option<usize> {
        let record = self.unread(value)?;
        Some(record.doc().text().as_ptr() as usize)
    }

    /// A copy of an unread record, which reads from the same text; None for any other value.
    pub(crate) fn twin<'js>(self, value: &Value<'js>) -> Option<Result<Value<'js>>> {
        let record = self.unread(value)?;
        Some(owned(value.ctx(), record.twin(value.ctx().as_raw().as_ptr())))
    }

    /// The same as ordinary objects, which keep no text.
    pub(crate) fn parsed<'js>(self, value: &Value<'js>) -> Option<Result<Value<'js>>> {
        let record = self.unread(value)?;
        let text = record.text(value.ctx().as_raw().as_ptr()).ok()?;
        Some(value.ctx().json_parse(text))
    }

    /// Makes a value of a text whose outermost value is an object or an array. The counter, if there is one, has added to
    /// it what the text and its templates take, for as long as they are kept.
    pub(crate) fn parse<'js>(
        self,
        ctx: &Ctx<'js>,
        text: Text<'js>,
        mutability: Mutability,
        counter: Option<Rc<Cell<usize>>>,
    ) -> std::result::Result<Value<'js>, Option<Fault>> {
        let raw = ctx.as_raw().as_ptr();
        // SAFETY: a context knows its runtime.
        let rt = unsafe { qjs::JS_GetRuntime(raw) };
        let doc = Doc::new(text.into_block(), self.0, counter);
        // SAFETY: `doc` was just made with one reference, which this function holds to its end.
        let made = unsafe { uncollected(rt, &*doc, || build_all(raw, &*doc, mutability)) };
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

/// Builds with the collector held back: what is made of a text at once can't be garbage yet, nor right after.
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
    // Not added up over several texts: they may be gone by then, and the collector must not wait for ever.
    let enough = (bytes + bytes / 4 + BASE_BYTES) as qjs::size_t;
    // SAFETY: as above.
    unsafe { qjs::JS_SetGCThreshold(rt, threshold.max(enough)) };
    built
}

fn build_all(ctx: *mut qjs::JSContext, doc: &Doc, mutability: Mutability) -> std::result::Result<qjs::JSValue, Fail> {
    let text = doc.text();
    let at = skip_space(text, 0);
    let (value, end) = match text.get(at) {
        Some(b'[') => build::array(ctx, doc, at, mutability)?,
        Some(b'{') => {
            let object = Record::create(ctx, doc, at, Seen::NOTHING, mutability);
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
