//! What a record's object holds: a place in a document, and an index of its own once that pays.

use std::cell::Cell;
use std::ptr::NonNull;

use rquickjs::qjs;

use super::super::lazy::scan::{Fault, skip_value};
use super::super::lazy::template::{Offsets, Template};
use super::build::{self, Fail};
use super::doc::{Doc, Mutability, Seen, Shape, UNKNOWN};
use super::index::{self, Index};
use super::properties::Properties;

/// After so many reads of one record its values are kept, not made again.
const READS_BEFORE_INDEX: u8 = 4;

/// The opaque part of a record's object, in the engine's memory.
///
/// Everything that changes is a `Cell`: the garbage collector looks at records in the middle of any allocation.
pub(super) struct Record {
    doc: *const Doc,
    index: Cell<Option<NonNull<index::Header>>>,
    start: u32,
    reads: Cell<u8>,
    mutability: Mutability,
    seen: Cell<Seen>,
}

impl Record {
    /// A new object that stands for the JSON object at `start`; an exception if there is no memory.
    pub(super) fn create(
        ctx: *mut qjs::JSContext,
        doc: &Doc,
        start: usize,
        seen: Seen,
        mutability: Mutability,
    ) -> qjs::JSValue {
        // SAFETY: a plain allocation; the result is checked.
        let payload = unsafe { qjs::js_malloc(ctx, size_of::<Self>() as _) }.cast::<Self>();
        if payload.is_null() {
            return qjs::JS_EXCEPTION;
        }
        // SAFETY: the class is registered and has a prototype in this context.
        let object = unsafe { qjs::JS_NewObjectClass(ctx, doc.class()) };
        // SAFETY: only looks at the tag.
        if unsafe { qjs::JS_IsException(object) } {
            // SAFETY: nothing refers to the payload yet.
            unsafe { qjs::js_free(ctx, payload.cast()) };
            return object;
        }
        if mutability == Mutability::Frozen {
            // SAFETY: a fresh object that is no Proxy, so no code runs and the call cannot fail.
            unsafe { qjs::JS_PreventExtensions(ctx, object) };
        }
        doc.retain();
        let record = Self {
            doc,
            index: Cell::new(None),
            start: start as u32,
            reads: Cell::new(0),
            mutability,
            seen: Cell::new(seen),
        };
        // SAFETY: the payload has room for a record; the object's finaliser frees it.
        unsafe {
            payload.write(record);
            qjs::JS_SetOpaque(object, payload.cast());
        }
        object
    }

    pub(super) fn doc(&self) -> &Doc {
        // SAFETY: a record holds a reference of its document as long as it lives.
        unsafe { &*self.doc }
    }

    pub(super) fn start(&self) -> usize {
        self.start as usize
    }

    pub(super) fn mutability(&self) -> Mutability {
        self.mutability
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.mutability == Mutability::Frozen
    }

    /// Where its first values start, as far as that is known.
    pub(super) fn offsets(&self) -> Offsets {
        self.seen.get().offsets
    }

    /// Another object for the same text, which a program may change.
    pub(super) fn twin(&self, ctx: *mut qjs::JSContext) -> qjs::JSValue {
        Self::create(ctx, self.doc(), self.start(), self.seen.get(), Mutability::Mutable)
    }

    /// The record's own text.
    pub(super) fn text(&self, ctx: *mut qjs::JSContext) -> Result<&[u8], Fail> {
        let (end, seen) = self.doc().recognise(ctx, self.start(), 0, self.seen.get().shape)?;
        self.seen.set(seen);
        self.doc().text().get(self.start()..end).ok_or(Fail::Thrown)
    }

    /// The record's own index, if it has one.
    #[inline]
    pub(super) fn index(&self) -> Option<Index<'_>> {
        // SAFETY: the record's own, freed only together with the record.
        self.index.get().map(|header| unsafe { Index::new(header) })
    }

    /// Whether no part was handed out that is an object: none is known to the program by its identity.
    pub(super) fn is_unread(&self) -> bool {
        !self.index().is_some_and(Index::has_children)
    }

    /// Whether the text still says all there is: no part was handed out that could have been changed.
    pub(super) fn is_untouched(&self) -> bool {
        self.is_frozen() || self.is_unread()
    }

    /// The shape, found out at the first need.
    pub(super) fn shape(&self, ctx: *mut qjs::JSContext) -> Result<Shape, Fail> {
        if self.seen.get().shape == UNKNOWN {
            let (_, seen) = self.doc().recognise(ctx, self.start(), 0, UNKNOWN)?;
            self.seen.set(seen);
        }
        Ok(self.seen.get().shape)
    }

    /// What it has in common with other records; None if it has to be indexed on its own.
    pub(super) fn template(&self, ctx: *mut qjs::JSContext) -> Result<Option<&Template>, Fail> {
        Ok(self.doc().template(self.shape(ctx)?))
    }

    /// Whether there is such a property.
    pub(super) fn has(&self, ctx: *mut qjs::JSContext, atom: qjs::JSAtom) -> Result<bool, Fail> {
        if let Some(index) = self.index() {
            return Ok(index.find(atom).is_some());
        }
        match self.template(ctx)? {
            Some(template) => Ok(template.find(atom).is_some()),
            None => Ok(self.indexed(ctx)?.find(atom).is_some()),
        }
    }

    /// The value of a property as an owned reference; None if there is no such property.
    #[inline]
    pub(super) fn read(&self, ctx: *mut qjs::JSContext, atom: qjs::JSAtom) -> Result<Option<qjs::JSValue>, Fail> {
        if self.index().is_none()
            && let Some(template) = self.template(ctx)?
        {
            let Some(field) = template.find(atom) else { return Ok(None) };
            let text = self.doc().text();
            let at = template.locate(text, self.start(), self.offsets(), None, field);
            let at = at.ok_or(Fault::Syntax(self.start()))?;
            if !is_container(text, at) && self.reads.get() < READS_BEFORE_INDEX {
                self.reads.set(self.reads.get() + 1);
                return build::scalar(ctx, text, at).map(|(value, _)| Some(value));
            }
            let index = self.indexed(ctx)?;
            index.note(field, at);
            return index.read(ctx, self, field).map(Some);
        }
        let index = self.indexed(ctx)?;
        index.find(atom).map(|place| index.read(ctx, self, place)).transpose()
    }

    /// How many properties it has.
    pub(super) fn keys(&self, ctx: *mut qjs::JSContext) -> Result<usize, Fail> {
        match self.template(ctx)? {
            Some(template) => Ok(template.keys().len()),
            None => Ok(self.indexed(ctx)?.entries().len()),
        }
    }

    /// Visits the keys in JavaScript's order. They are alive as long as the record is.
    pub(super) fn each_key(
        &self,
        ctx: *mut qjs::JSContext,
        mut visit: impl FnMut(qjs::JSAtom) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        match self.template(ctx)? {
            Some(template) => template.keys().try_for_each(visit),
            None => self.indexed(ctx)?.entries().iter().try_for_each(|entry| visit(entry.atom())),
        }
    }

    /// Visits the properties in JavaScript's order, each with its value as an owned reference.
    ///
    /// The first time, values are made in one pass over the text, and only objects and arrays are kept.
    pub(super) fn each_property(
        &self,
        ctx: *mut qjs::JSContext,
        mut visit: impl FnMut(qjs::JSAtom, qjs::JSValue) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        if self.index().is_none()
            && self.reads.get() < READS_BEFORE_INDEX
            && let Some(template) = self.template(ctx)?
        {
            self.reads.set(READS_BEFORE_INDEX);
            return self.pass(ctx, template, visit);
        }
        let index = self.indexed(ctx)?;
        for (place, entry) in index.entries().iter().enumerate() {
            visit(entry.atom(), index.read(ctx, self, place)?)?;
        }
        Ok(())
    }

    fn pass(
        &self,
        ctx: *mut qjs::JSContext,
        template: &Template,
        mut visit: impl FnMut(qjs::JSAtom, qjs::JSValue) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        let text = self.doc().text();
        let mut end = self.start();
        for (field, key) in template.keys().enumerate() {
            let at = template.after(end, field).ok_or(Fault::Syntax(end))?;
            let value;
            if is_container(text, at) {
                let index = self.indexed(ctx)?;
                index.note(field, at);
                value = index.read(ctx, self, field)?;
                end = skip_value(text, at, 0)?;
            } else {
                (value, end) = build::scalar(ctx, text, at)?;
            }
            visit(key, value)?;
        }
        Ok(())
    }

    /// The record's own index, made if need be.
    pub(super) fn indexed(&self, ctx: *mut qjs::JSContext) -> Result<Index<'_>, Fail> {
        if self.index().is_none() {
            let index = match self.template(ctx)? {
                Some(template) => index::of_template(ctx, template)?,
                None => index::of_properties(ctx, Properties::scan(ctx, self.doc().text(), self.start())?.0)?,
            };
            self.index.set(Some(index));
        }
        self.index().ok_or(Fail::Thrown)
    }

    /// Indexes a record of a text that was not scanned yet; returns where it ends.
    pub(super) fn scan(&self, ctx: *mut qjs::JSContext) -> Result<usize, Fail> {
        let (properties, end) = Properties::scan(ctx, self.doc().text(), self.start())?;
        self.seen.set(Seen::IRREGULAR);
        self.index.set(Some(index::of_properties(ctx, properties)?));
        Ok(end)
    }

    /// Reports to the garbage collector what the record refers to.
    pub(super) fn mark(&self, rt: *mut qjs::JSRuntime, mark_with: qjs::JS_MarkFunc) {
        if let Some(index) = self.index() {
            index.mark(rt, mark_with);
        }
    }

    /// # Safety
    /// `record` came from `create` on this runtime, and its object no longer refers to it.
    pub(super) unsafe fn free(record: *mut Self, rt: *mut qjs::JSRuntime) {
        // SAFETY: as the caller promises.
        let (index, doc) = unsafe { ((*record).index.get(), (*record).doc) };
        if let Some(index) = index {
            // SAFETY: the index belongs to this record alone.
            unsafe { index::free(index, rt) };
        }
        // SAFETY: the record's own reference and memory, given back once.
        unsafe {
            Doc::release(doc, rt);
            qjs::js_free_rt(rt, record.cast());
        }
    }
}

/// Whether the value at `at` is an object or an array: those are the same at every read, so they need a place to be kept.
#[inline]
fn is_container(text: &[u8], at: usize) -> bool {
    matches!(text.get(at), Some(b'{' | b'['))
}
