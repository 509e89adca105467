//! A JSON text that records point into, shared by all of them.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use rquickjs::qjs;

use super::super::lazy::scan::{Fault, Member, members};
use super::super::lazy::template::{Offsets, Template};
use super::build;
use super::text::Block;

/// More shapes than this in one text are not remembered.
const MAX_TEMPLATES: usize = 32;
/// What one field of a template takes, about.
const FIELD_BYTES: usize = 256;

/// How the keys of a record are known. A number below [`MAX_TEMPLATES`] names a template.
pub(super) type Shape = u16;
/// Not looked at yet.
pub(super) const UNKNOWN: Shape = u16::MAX;
/// It fits no template and has to be indexed on its own.
const IRREGULAR: Shape = u16::MAX - 1;

/// What is known of a record from passing over it.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) shape: Shape,
    pub(super) offsets: Offsets,
}

impl Seen {
    /// Nothing: not looked at yet.
    pub(super) const NOTHING: Self = Self::of(UNKNOWN);

    /// It has to be indexed on its own.
    pub(super) const IRREGULAR: Self = Self::of(IRREGULAR);

    const fn of(shape: Shape) -> Self {
        Self { shape, offsets: Offsets::NONE }
    }
}

/// Whether a program may change what is made of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutability {
    /// As `JSON.parse` makes it.
    Mutable,
    /// As if `Object.freeze` had been called on every object and array in it.
    Frozen,
}

/// What a document takes, counted while it is there.
struct Tally {
    counter: Option<Rc<Cell<usize>>>,
    added: Cell<usize>,
}

impl Tally {
    fn add(&self, bytes: usize) {
        if let Some(counter) = &self.counter {
            counter.set(counter.get() + bytes);
            self.added.set(self.added.get() + bytes);
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if let Some(counter) = &self.counter {
            counter.set(counter.get().saturating_sub(self.added.get()));
        }
    }
}

/// The shared text of some records, and what was learnt about it.
pub(super) struct Doc {
    /// How many records there are, plus one while the text is being indexed.
    refs: Cell<usize>,
    class: qjs::JSClassID,
    text: Block,
    tally: Tally,
    /// In the order in which they were learnt. They stay in place: records and their indices refer to them.
    templates: [OnceCell<Box<Template>>; MAX_TEMPLATES],
}

impl Doc {
    /// A text with one reference, held by the caller.
    pub(super) fn new(text: Block, class: qjs::JSClassID, counter: Option<Rc<Cell<usize>>>) -> *const Self {
        let tally = Tally { counter, added: Cell::new(0) };
        tally.add(text.bytes().len() + size_of::<Self>());
        let doc = Self { refs: Cell::new(1), class, text, tally, templates: Default::default() };
        Box::into_raw(Box::new(doc))
    }

    pub(super) fn class(&self) -> qjs::JSClassID {
        self.class
    }

    pub(super) fn text(&self) -> &[u8] {
        self.text.bytes()
    }

    /// How many records there are while the text is being indexed.
    pub(super) fn records(&self) -> usize {
        self.refs.get() - 1
    }

    pub(super) fn retain(&self) {
        self.refs.set(self.refs.get() + 1);
    }

    /// Gives one reference back; the last one frees the text.
    ///
    /// # Safety
    /// `doc` came from [`Doc::new`] on this runtime, and the caller owns the reference and does not use it again.
    pub(super) unsafe fn release(doc: *const Self, rt: *mut qjs::JSRuntime) {
        // SAFETY: the caller's reference keeps it alive here.
        let refs = unsafe { &(*doc).refs };
        refs.set(refs.get() - 1);
        if refs.get() > 0 {
            return;
        }
        // SAFETY: that was the last reference, and `new` made the box.
        let doc = unsafe { Box::from_raw(doc.cast_mut()) };
        for key in doc.templates().flat_map(Template::keys) {
            // SAFETY: the template held one reference of each of its keys.
            unsafe { qjs::JS_FreeAtomRT(rt, key) };
        }
        // SAFETY: the text belongs to this document alone.
        unsafe { doc.text.free(rt) };
    }

    #[inline]
    pub(super) fn template(&self, shape: Shape) -> Option<&Template> {
        self.templates.get(usize::from(shape))?.get().map(|template| &**template)
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        self.templates.iter().map_while(|template| template.get().map(|template| &**template))
    }

    /// Where the object at `at` ends, and what was seen of it. `hint` is tried first.
    pub(super) fn recognise(
        &self,
        ctx: *mut qjs::JSContext,
        at: usize,
        depth: u32,
        hint: Shape,
    ) -> Result<(usize, Seen), Fault> {
        if let Some(known) = self.fit(at, depth, hint) {
            return Ok(known);
        }
        let mut found: Vec<Member> = Vec::new();
        let end = members(self.text(), at, depth, |member| found.push(member))?;
        Ok((end, Seen::of(self.learn(ctx, at, end, &found).unwrap_or(IRREGULAR))))
    }

    fn fit(&self, at: usize, depth: u32, hint: Shape) -> Option<(usize, Seen)> {
        let fitting = |shape: Shape, template: &Template| {
            let (end, offsets) = template.fit(self.text(), at, depth)?;
            Some((end, Seen { shape, offsets }))
        };
        let hinted = self.template(hint).and_then(|template| fitting(hint, template));
        hinted.or_else(|| (0..).zip(self.templates()).find_map(|(shape, template)| fitting(shape, template)))
    }

    fn learn(&self, ctx: *mut qjs::JSContext, at: usize, end: usize, found: &[Member]) -> Option<Shape> {
        let free = self.templates.iter().position(|template| template.get().is_none())?;
        let mut keys = Vec::with_capacity(found.len());
        let number = |key: &[u8]| {
            let atom = build::atom(ctx, key);
            keys.push(atom);
            (atom != qjs::JS_ATOM_NULL).then_some(atom)
        };
        let Some(template) = Template::learn(self.text(), at, end, found, number) else {
            // SAFETY: each of these atoms was made above and has found no holder; the null atom is skipped.
            keys.into_iter().for_each(|key| unsafe { qjs::JS_FreeAtom(ctx, key) });
            return None;
        };
        self.tally.add(found.len() * FIELD_BYTES);
        self.templates.get(free)?.set(Box::new(template)).ok()?;
        Some(free as Shape)
    }
}
