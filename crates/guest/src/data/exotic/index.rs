//! The values of one record that are kept, so that each is made once and an object is the same at every read.
//!
//! Records of a known shape share the keys of its template; any other record has keys of its own, found by their hash.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use rquickjs::qjs;

use super::super::lazy::scan::Fault;
use super::super::lazy::template::Template;
use super::build::{self, Fail};
use super::properties::Properties;
use super::record::Record;

const NO_ENTRY: u32 = u32::MAX;

/// The index of one record, which owns it.
///
/// A pointer and no reference: what stands behind the header is no part of what a reference to the header may be used for.
#[derive(Clone, Copy)]
pub(super) struct Index<'r> {
    header: NonNull<Header>,
    record: PhantomData<&'r Record>,
}

/// What an index begins with in memory. Its entries follow in JavaScript's order, then the buckets of keys of its own.
#[repr(C)]
pub(super) struct Header {
    count: usize,
    /// Null if the keys are the record's own. The record's document keeps its templates in place as long as the record lives.
    template: *const Template,
}

/// One property.
pub(super) struct Entry {
    value: Cell<qjs::JSValue>,
    atom: qjs::JSAtom,
    /// Where the value starts; zero as long as that is not known. No value starts there: its record does, at the earliest.
    at: Cell<u32>,
}

/// A hash bucket: its first entry, and what follows the entry of the same number in the bucket of that one.
struct Bucket {
    head: u32,
    next: u32,
}

/// Makes the index of a record of a known shape.
pub(super) fn of_template(ctx: *mut qjs::JSContext, template: &Template) -> Result<NonNull<Header>, Fail> {
    let header = allocate(ctx, Header { count: template.keys().len(), template }, 0)?;
    for (place, atom) in template.keys().enumerate() {
        let entry = Entry { value: Cell::new(qjs::JS_UNINITIALIZED), atom, at: Cell::new(0) };
        // SAFETY: there is room for an entry for each key of the template.
        unsafe { first_entry(header).add(place).write(entry) };
    }
    Ok(header)
}

/// Makes the index of any other record; takes the keys over.
pub(super) fn of_properties(ctx: *mut qjs::JSContext, properties: Properties) -> Result<NonNull<Header>, Fail> {
    let count = properties.len();
    // Fails before the keys have a new owner, or not at all.
    let header = allocate(ctx, Header { count, template: ptr::null() }, count)?;
    let (entries, buckets) = (first_entry(header), first_bucket(header));
    for (place, (atom, at)) in properties.in_order().into_iter().enumerate() {
        let entry = Entry { value: Cell::new(qjs::JS_UNINITIALIZED), atom, at: Cell::new(at) };
        // SAFETY: there is room for `count` entries and buckets, and there are `count` properties.
        unsafe {
            entries.add(place).write(entry);
            buckets.add(place).write(Bucket { head: NO_ENTRY, next: NO_ENTRY });
        }
    }
    // SAFETY: all of both were written above, and nothing else refers to them yet.
    let (entries, buckets) = unsafe {
        (NonNull::slice_from_raw_parts(entries, count).as_ref(), NonNull::slice_from_raw_parts(buckets, count).as_mut())
    };
    for (at, entry) in entries.iter().enumerate() {
        let Some(bucket) = bucket(entry.atom, count) else { break };
        buckets[at].next = buckets[bucket].head;
        buckets[bucket].head = at as u32;
    }
    Ok(header)
}

/// Memory for an index, with nothing but its header in it.
fn allocate(ctx: *mut qjs::JSContext, header: Header, buckets: usize) -> Result<NonNull<Header>, Fail> {
    let bytes = size_of::<Header>() + header.count * size_of::<Entry>() + buckets * size_of::<Bucket>();
    // SAFETY: a plain allocation; the result is checked.
    let memory = NonNull::new(unsafe { qjs::js_malloc(ctx, bytes as _) }).ok_or(Fail::Thrown)?.cast();
    // SAFETY: the memory has room for the header.
    unsafe { memory.write(header) };
    Ok(memory)
}

fn first_entry(header: NonNull<Header>) -> NonNull<Entry> {
    // SAFETY: one past the header, inside the memory of `allocate` or at its end.
    unsafe { header.add(1).cast() }
}

fn first_bucket(header: NonNull<Header>) -> NonNull<Bucket> {
    // SAFETY: one past the last entry, inside the memory of `allocate` or at its end.
    unsafe { first_entry(header).add(header.as_ref().count).cast() }
}

/// Gives the memory of an index back, with its values and keys.
///
/// # Safety
/// `header` came from this module, on this runtime, and is not used again.
pub(super) unsafe fn free(header: NonNull<Header>, rt: *mut qjs::JSRuntime) {
    // SAFETY: as the caller promises.
    let index = unsafe { Index::new(header) };
    for entry in index.entries() {
        // SAFETY: the entry owns one reference of its value, and of its key if there is no template.
        unsafe {
            qjs::JS_FreeValueRT(rt, entry.value.replace(qjs::JS_UNDEFINED));
            if index.template().is_none() {
                qjs::JS_FreeAtomRT(rt, entry.atom);
            }
        }
    }
    // SAFETY: as the caller promises; entries and buckets need no drop of their own.
    unsafe { qjs::js_free_rt(rt, header.as_ptr().cast()) };
}

impl<'r> Index<'r> {
    /// # Safety
    /// `header` came from this module and is freed only after `'r`, as is the document of its record.
    #[inline]
    pub(super) unsafe fn new(header: NonNull<Header>) -> Self {
        Self { header, record: PhantomData }
    }

    #[inline]
    fn header(self) -> &'r Header {
        // SAFETY: as `new` was promised; nothing writes to the header.
        unsafe { self.header.as_ref() }
    }

    #[inline]
    pub(super) fn entries(self) -> &'r [Entry] {
        // SAFETY: `count` initialised entries are right behind the header, and they live as long.
        unsafe { NonNull::slice_from_raw_parts(first_entry(self.header), self.header().count).as_ref() }
    }

    fn buckets(self) -> &'r [Bucket] {
        let count = if self.template().is_none() { self.header().count } else { 0 };
        // SAFETY: without a template, `count` initialised buckets are right behind the entries, and they live as long.
        unsafe { NonNull::slice_from_raw_parts(first_bucket(self.header), count).as_ref() }
    }

    #[inline]
    fn template(self) -> Option<&'r Template> {
        // SAFETY: null, or a template of the record's document, which lives as long as the record and its index.
        unsafe { self.header().template.as_ref() }
    }

    /// Which entry a key has.
    #[inline]
    pub(super) fn find(self, atom: qjs::JSAtom) -> Option<usize> {
        match self.template() {
            Some(template) => template.find(atom),
            None => self.find_own(atom),
        }
    }

    fn find_own(self, atom: qjs::JSAtom) -> Option<usize> {
        let (entries, buckets) = (self.entries(), self.buckets());
        let mut at = buckets.get(bucket(atom, buckets.len())?)?.head as usize;
        while let Some(entry) = entries.get(at) {
            if entry.atom == atom {
                return Some(at);
            }
            at = buckets.get(at)?.next as usize;
        }
        None
    }

    /// The value of an entry as an owned reference, made at the first read.
    #[inline]
    pub(super) fn read(self, ctx: *mut qjs::JSContext, of: &Record, place: usize) -> Result<qjs::JSValue, Fail> {
        let entry = self.entries().get(place).ok_or(Fault::Syntax(of.start()))?;
        // SAFETY: only looks at the tag.
        if unsafe { qjs::JS_IsUninitialized(entry.value.get()) } {
            self.make(ctx, of, place, entry)?;
        }
        // SAFETY: the entry owns the value; the caller gets a reference of its own.
        Ok(unsafe { qjs::JS_DupValue(ctx, entry.value.get()) })
    }

    fn make(self, ctx: *mut qjs::JSContext, of: &Record, place: usize, entry: &Entry) -> Result<(), Fail> {
        let at = match entry.at.get() {
            0 => self.locate(of, place)?,
            known => known as usize,
        };
        let (value, end) = build::value(ctx, of.doc(), at, of.mutability())?;
        entry.value.set(value);
        // Programs that read all values read them in order: the next one is found without another look at this one.
        if let (Some(template), Some(next)) = (self.template(), self.entries().get(place + 1)) {
            next.at.set(template.after(end, place + 1).ok_or(Fault::Syntax(end))? as u32);
        }
        Ok(())
    }

    /// Where the value of an entry starts.
    fn locate(self, of: &Record, place: usize) -> Result<usize, Fail> {
        let entries = self.entries();
        let up_to = entries.get(..=place).unwrap_or_default();
        let known = up_to.iter().enumerate().rfind(|(_, entry)| entry.at.get() > 0);
        let known = known.map(|(known, entry)| (known, entry.at.get() as usize));
        let Some(template) = self.template() else {
            return Ok(known.map(|(_, at)| at).ok_or(Fault::Syntax(of.start()))?);
        };
        let at = template.locate(of.doc().text(), of.start(), of.offsets(), known, place);
        let at = at.ok_or(Fault::Syntax(of.start()))?;
        if let Some(entry) = entries.get(place) {
            entry.at.set(at as u32);
        }
        Ok(at)
    }

    /// Notes where the value of an entry starts.
    pub(super) fn note(self, place: usize, at: usize) {
        if let Some(entry) = self.entries().get(place) {
            entry.at.set(at as u32);
        }
    }

    /// Whether an object or array was made of a part, which guest code may have changed since.
    pub(super) fn has_children(self) -> bool {
        // SAFETY: only looks at tags.
        self.entries().iter().any(|entry| unsafe { qjs::JS_IsObject(entry.value.get()) })
    }

    /// Reports to the garbage collector what the index refers to.
    pub(super) fn mark(self, rt: *mut qjs::JSRuntime, mark: qjs::JS_MarkFunc) {
        for entry in self.entries() {
            // SAFETY: the entry owns its value; the collector's own function is passed through.
            unsafe { qjs::JS_MarkValue(rt, entry.value.get(), mark) };
        }
    }
}

impl Entry {
    pub(super) fn atom(&self) -> qjs::JSAtom {
        self.atom
    }
}

/// The hash bucket of a key among so many. The division is one of 32 bits, which takes half the time.
fn bucket(atom: qjs::JSAtom, count: usize) -> Option<usize> {
    Some(atom.checked_rem(count as u32)? as usize)
}
