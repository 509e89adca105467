//! What a record's object holds: a place in a document, and an index of its own once that pays.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use rquickjs::qjs;

use super::super::lazy::scan::Fault;
use super::build::{self, Fail};
use super::doc::{Doc, Mutability, Seen, Shape, UNKNOWN};
use super::properties::Properties;

/// After so many reads of one record its values are kept, not made again.
const READS_BEFORE_INDEX: u8 = 4;
const NO_ENTRY: u32 = u32::MAX;

/// The opaque part of a record's object, in the engine's memory.
///
/// Everything that changes is a `Cell`: the garbage collector looks at records in the middle of any allocation.
pub(super) struct Record {
    doc: *const Doc,
    index: Cell<*mut Index>,
    start: u32,
    reads: Cell<u8>,
    mutability: Mutability,
    seen: Cell<Seen>,
}

/// The properties of one record in JavaScript's order, followed in memory by its entries.
#[repr(C)]
pub(super) struct Index {
    count: usize,
}

/// One property. `head` and `next` chain the entries of one hash bucket.
pub(super) struct Entry {
    value: Cell<qjs::JSValue>,
    atom: qjs::JSAtom,
    at: u32,
    head: u32,
    next: u32,
}

impl Entry {
    /// The value as an owned reference, made at the first read.
    pub(super) fn read(&self, ctx: *mut qjs::JSContext, of: &Record) -> Result<qjs::JSValue, Fail> {
        // SAFETY: only looks at the tag.
        if unsafe { qjs::JS_IsUninitialized(self.value.get()) } {
            self.value.set(build::value(ctx, of.doc(), self.at as usize, of.mutability)?);
        }
        // SAFETY: the entry owns the value; the caller gets a reference of its own.
        Ok(unsafe { qjs::JS_DupValue(ctx, self.value.get()) })
    }

    pub(super) fn atom(&self) -> qjs::JSAtom {
        self.atom
    }
}

impl Index {
    pub(super) fn entries(&self) -> &[Entry] {
        // SAFETY: `allocate` put `count` initialised entries right behind the header, and they live as long.
        unsafe { std::slice::from_raw_parts(ptr::from_ref(self).add(1).cast(), self.count) }
    }

    pub(super) fn find(&self, atom: qjs::JSAtom) -> Option<&Entry> {
        let entries = self.entries();
        let mut at = entries.get(bucket(atom, entries.len())?)?.head;
        while let Some(entry) = entries.get(at as usize) {
            if entry.atom == atom {
                return Some(entry);
            }
            at = entry.next;
        }
        None
    }

    /// Whether an object or array was made of a part, which guest code may have changed since.
    fn has_children(&self) -> bool {
        // SAFETY: only looks at tags.
        self.entries().iter().any(|entry| unsafe { qjs::JS_IsObject(entry.value.get()) })
    }

    /// Puts the properties into the engine's memory.
    fn allocate(ctx: *mut qjs::JSContext, properties: Properties) -> Result<NonNull<Self>, Fail> {
        let count = properties.len();
        let bytes = size_of::<Self>() + count * size_of::<Entry>();
        // SAFETY: a plain allocation; the result is checked.
        let Some(index) = NonNull::new(unsafe { qjs::js_malloc(ctx, bytes as _) }.cast::<Self>()) else {
            return Err(Fail::Thrown);
        };
        // SAFETY: the memory has room for the header and `count` entries, all of which are written here.
        let entries: &mut [Entry] = unsafe {
            index.write(Self { count });
            let first: *mut Entry = index.add(1).as_ptr().cast();
            for (place, (atom, at)) in properties.in_order().into_iter().enumerate() {
                let value = Cell::new(qjs::JS_UNINITIALIZED);
                first.add(place).write(Entry { value, atom, at, head: NO_ENTRY, next: NO_ENTRY });
            }
            std::slice::from_raw_parts_mut(first, count)
        };
        for at in 0..count {
            let Some(bucket) = bucket(entries[at].atom, count) else { break };
            entries[at].next = entries[bucket].head;
            entries[bucket].head = at as u32;
        }
        Ok(index)
    }

    /// # Safety
    /// `index` came from `allocate` on this runtime and is not used again.
    unsafe fn free(index: *mut Self, rt: *mut qjs::JSRuntime) {
        // SAFETY: as the caller promises.
        for entry in unsafe { &*index }.entries() {
            // SAFETY: the entry owns one reference of its value and of its atom.
            unsafe {
                qjs::JS_FreeValueRT(rt, entry.value.replace(qjs::JS_UNDEFINED));
                qjs::JS_FreeAtomRT(rt, entry.atom);
            }
        }
        // SAFETY: as the caller promises; entries need no drop of their own.
        unsafe { qjs::js_free_rt(rt, index.cast()) };
    }
}

/// The hash bucket of a key among so many. The division is one of 32 bits, which takes half the time.
fn bucket(atom: qjs::JSAtom, count: usize) -> Option<usize> {
    Some(atom.checked_rem(count as u32)? as usize)
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
            index: Cell::new(ptr::null_mut()),
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

    pub(super) fn is_frozen(&self) -> bool {
        self.mutability == Mutability::Frozen
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
    pub(super) fn index(&self) -> Option<&Index> {
        // SAFETY: null or made by `allocate`; freed only together with the record.
        unsafe { self.index.get().as_ref() }
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

    /// Whether there is such a property.
    pub(super) fn has(&self, ctx: *mut qjs::JSContext, atom: qjs::JSAtom) -> Result<bool, Fail> {
        if let Some(index) = self.index() {
            return Ok(index.find(atom).is_some());
        }
        match self.doc().template(self.shape(ctx)?) {
            Some(template) => Ok(template.find(atom).is_some()),
            None => Ok(self.indexed(ctx)?.find(atom).is_some()),
        }
    }

    /// The value of a property as an owned reference; None if there is no such property.
    #[inline]
    pub(super) fn read(&self, ctx: *mut qjs::JSContext, atom: qjs::JSAtom) -> Result<Option<qjs::JSValue>, Fail> {
        let doc = self.doc();
        if self.index().is_none()
            && let Some(template) = doc.template(self.shape(ctx)?)
        {
            let Some(field) = template.find(atom) else { return Ok(None) };
            let found = template.locate(doc.text(), self.start(), self.seen.get().offsets, field);
            let at = found.ok_or(Fault::Syntax(self.start()))?;
            // Objects and arrays must be the same at every read, so they need a place to be kept.
            let nested = matches!(doc.text().get(at), Some(b'{' | b'['));
            if !nested && self.reads.get() < READS_BEFORE_INDEX {
                self.reads.set(self.reads.get() + 1);
                return build::scalar(ctx, doc.text(), at).map(|(value, _)| Some(value));
            }
        }
        match self.indexed(ctx)?.find(atom) {
            Some(entry) => entry.read(ctx, self).map(Some),
            None => Ok(None),
        }
    }

    /// The record's own index, made if need be.
    pub(super) fn indexed(&self, ctx: *mut qjs::JSContext) -> Result<&Index, Fail> {
        if self.index().is_none() {
            let properties = match self.doc().template(self.shape(ctx)?) {
                Some(template) => Properties::of_template(ctx, self.doc().text(), self.start(), &template)?,
                None => Properties::scan(ctx, self.doc().text(), self.start())?.0,
            };
            self.index.set(Index::allocate(ctx, properties)?.as_ptr());
        }
        self.index().ok_or(Fail::Thrown)
    }

    /// Indexes a record of a text that was not scanned yet; returns where it ends.
    pub(super) fn scan(&self, ctx: *mut qjs::JSContext) -> Result<usize, Fail> {
        let (properties, end) = Properties::scan(ctx, self.doc().text(), self.start())?;
        self.seen.set(Seen::IRREGULAR);
        self.index.set(Index::allocate(ctx, properties)?.as_ptr());
        Ok(end)
    }

    /// Reports to the garbage collector what the record refers to.
    pub(super) fn mark(&self, rt: *mut qjs::JSRuntime, mark: qjs::JS_MarkFunc) {
        for entry in self.index().map_or(&[][..], Index::entries) {
            // SAFETY: the entry owns its value; the collector's own function is passed through.
            unsafe { qjs::JS_MarkValue(rt, entry.value.get(), mark) };
        }
    }

    /// # Safety
    /// `record` came from `create` on this runtime, and its object no longer refers to it.
    pub(super) unsafe fn free(record: *mut Self, rt: *mut qjs::JSRuntime) {
        // SAFETY: as the caller promises.
        let (index, doc) = unsafe { ((*record).index.get(), (*record).doc) };
        if !index.is_null() {
            // SAFETY: the index belongs to this record alone.
            unsafe { Index::free(index, rt) };
        }
        // SAFETY: the record's own reference and memory, given back once.
        unsafe {
            Doc::release(doc, rt);
            qjs::js_free_rt(rt, record.cast());
        }
    }
}
