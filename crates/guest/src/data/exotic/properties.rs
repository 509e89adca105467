//! The properties of one JSON object in the order that JavaScript gives them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use rquickjs::qjs;

use super::super::lazy::scan::{Member, array_index, members};
use super::super::lazy::unescape::{Unescaped, unescape};
use super::build::{self, Fail};

/// Where a key stands among the properties so far.
type Places = HashMap<qjs::JSAtom, usize, BuildHasherDefault<Spread>>;

/// Spreads key numbers. The engine hands them out itself, so a program cannot choose them to collide.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Keys, each with a reference of its own, and where their values start.
pub(super) struct Properties {
    ctx: *mut qjs::JSContext,
    /// Keys that are array indices come first, in ascending order.
    indices: Vec<(u32, (qjs::JSAtom, u32))>,
    /// The others keep the order of the text.
    named: Vec<(qjs::JSAtom, u32)>,
}

impl Properties {
    fn new(ctx: *mut qjs::JSContext) -> Self {
        Self { ctx, indices: Vec::new(), named: Vec::new() }
    }

    /// The properties of the object at `start`, and where it ends.
    pub(super) fn scan(ctx: *mut qjs::JSContext, text: &[u8], start: usize) -> Result<(Self, usize), Fail> {
        let mut properties = Self::new(ctx);
        let mut places = Places::default();
        let mut no_memory = false;
        let end = members(text, start, 0, |member| no_memory |= !properties.add(text, member, &mut places))?;
        if no_memory {
            return Err(Fail::Thrown);
        }
        properties.indices.sort_by_key(|(index, _)| *index);
        Ok((properties, end))
    }

    /// Adds one member; of equal keys the last value wins, at the place of the first. False if memory ran out.
    fn add(&mut self, text: &[u8], member: Member, places: &mut Places) -> bool {
        let (atom, index) = key(self.ctx, member.key_text(text), member.escaped);
        if atom == qjs::JS_ATOM_NULL {
            return false;
        }
        let at = member.value as u32;
        if let Some(&place) = places.get(&atom) {
            match index {
                Some(_) => self.indices[place].1.1 = at,
                None => self.named[place].1 = at,
            }
            // SAFETY: the first of the equal keys holds the atom; this second reference is ours.
            unsafe { qjs::JS_FreeAtom(self.ctx, atom) };
            return true;
        }
        if let Some(index) = index {
            places.insert(atom, self.indices.len());
            self.indices.push((index, (atom, at)));
        } else {
            places.insert(atom, self.named.len());
            self.named.push((atom, at));
        }
        true
    }

    pub(super) fn len(&self) -> usize {
        self.indices.len() + self.named.len()
    }

    /// Hands the properties and their atoms over.
    pub(super) fn in_order(mut self) -> Vec<(qjs::JSAtom, u32)> {
        let named = std::mem::take(&mut self.named);
        if self.indices.is_empty() {
            return named;
        }
        let indices = std::mem::take(&mut self.indices);
        indices.into_iter().map(|(_, property)| property).chain(named).collect()
    }
}

impl Drop for Properties {
    fn drop(&mut self) {
        for (atom, _) in self.indices.iter().map(|(_, property)| property).chain(&self.named) {
            // SAFETY: each property owns one reference of its atom.
            unsafe { qjs::JS_FreeAtom(self.ctx, *atom) };
        }
    }
}

/// The key's atom, owned by the caller (null if memory ran out), and its number if it is an array index.
fn key(ctx: *mut qjs::JSContext, inside: &[u8], escaped: bool) -> (qjs::JSAtom, Option<u32>) {
    if !escaped {
        return (build::atom(ctx, inside), array_index(inside));
    }
    match unescape(inside) {
        Unescaped::Utf8(key) => (build::atom(ctx, &key), array_index(&key)),
        Unescaped::Utf16(units) => (build::wide_atom(ctx, &units), None),
    }
}
