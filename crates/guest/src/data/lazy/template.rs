//! What records of the same shape have in common.
//!
//! Records in one array mostly have the same keys in the same order, with the
//! same bytes between their values. A template remembers those bytes, so that
//! the next record is recognised by comparing words, its keys are known to be
//! distinct, and a property is found by skipping values only.

use std::cell::Cell;

use super::scan::{Member, array_index, skip_value};

/// A record with more keys gets no template; it is indexed on its own.
const MAX_KEYS: usize = 64;

/// Fixed bytes, compared sixteen at a time.
struct Glue {
    head: u128,
    mask: u128,
    bytes: Box<[u8]>,
}

impl Glue {
    fn new(bytes: &[u8]) -> Self {
        let mut head = [0; 16];
        let mut mask = [0; 16];
        for (at, &byte) in bytes.iter().take(16).enumerate() {
            head[at] = byte;
            mask[at] = 0xff;
        }
        Self { head: u128::from_le_bytes(head), mask: u128::from_le_bytes(mask), bytes: bytes.into() }
    }

    /// One past the glue if it stands at `at`.
    #[inline]
    fn pass(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = text.get(at..)?;
        let fits = match rest.first_chunk::<16>() {
            Some(chunk) if self.bytes.len() <= 16 => (u128::from_le_bytes(*chunk) ^ self.head) & self.mask == 0,
            Some(chunk) => {
                (u128::from_le_bytes(*chunk) ^ self.head) & self.mask == 0
                    && rest.get(16..self.bytes.len()) == self.bytes.get(16..)
            }
            None => rest.starts_with(&self.bytes),
        };
        fits.then_some(at + self.bytes.len())
    }
}

struct Field {
    /// The engine's number for the key; the owner of the template keeps it alive.
    key: u32,
    /// Everything between the previous value and this one.
    glue: Glue,
    /// The same in the serialiser's own format.
    lead: Box<[u8]>,
}

/// Where the first values of one record start, counted from its own start. Zero where it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offsets([u16; 8]);

impl Offsets {
    pub(crate) const NONE: Self = Self([0; 8]);

    #[inline]
    fn note(&mut self, field: usize, offset: usize) {
        if let Some(noted) = self.0.get_mut(field) {
            *noted = u16::try_from(offset).unwrap_or(0);
        }
    }

    /// The last known field up to `field`, and its offset.
    #[inline]
    fn nearest(&self, field: usize) -> Option<(usize, usize)> {
        let up_to = field.min(self.0.len() - 1);
        let known = (0..=up_to).rev().find(|&field| self.0[field] > 0)?;
        Some((known, usize::from(self.0[known])))
    }
}

/// The common shape of some records: distinct keys, none of them an array index, none with escapes.
pub(crate) struct Template {
    fields: Vec<Field>,
    tail: Glue,
    /// Open addressing from key number to field; `NONE` is free.
    slots: Box<[(u32, u32)]>,
    /// Copies of records with this shape; no more are counted than fit.
    copies: Cell<u8>,
}

const NONE: u32 = u32::MAX;

impl Template {
    /// Learns from one record; None if records like it must be indexed one by one.
    pub(crate) fn learn(
        text: &[u8],
        start: usize,
        end: usize,
        members: &[Member],
        mut number: impl FnMut(&[u8]) -> Option<u32>,
    ) -> Option<Self> {
        if !is_regular(text, members) {
            return None;
        }
        let mut fields = Vec::with_capacity(members.len());
        let mut after = start;
        for member in members {
            let glue = text.get(after..member.value)?;
            let mut lead = if fields.is_empty() { b"{".to_vec() } else { b",".to_vec() };
            lead.extend_from_slice(text.get(member.key..member.key_end)?);
            lead.push(b':');
            fields.push(Field { key: number(member.key_text(text))?, glue: Glue::new(glue), lead: lead.into() });
            after = member.end;
        }
        let slots = index(fields.iter().map(|field| field.key));
        Some(Self { fields, tail: Glue::new(text.get(after..end)?), slots, copies: Cell::new(0) })
    }

    /// The key numbers in order.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = u32> {
        self.fields.iter().map(|field| field.key)
    }

    /// Which field a key is.
    #[inline]
    pub(crate) fn find(&self, key: u32) -> Option<usize> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = key as usize & mask;
        loop {
            let &(number, field) = self.slots.get(at)?;
            if field == NONE {
                return None;
            }
            if number == key {
                return Some(field as usize);
            }
            at = (at + 1) & mask;
        }
    }

    /// Counts a copy of a record with this shape; returns how many there were, this one included, up to 255.
    pub(crate) fn note_copy(&self) -> u8 {
        self.copies.set(self.copies.get().saturating_add(1));
        self.copies.get()
    }

    /// Where the record at `start` ends and where its values are, if it has this shape.
    pub(crate) fn fit(&self, text: &[u8], start: usize, depth: u32) -> Option<(usize, Offsets)> {
        let mut offsets = Offsets::NONE;
        let mut at = start;
        for (number, field) in self.fields.iter().enumerate() {
            at = field.glue.pass(text, at)?;
            offsets.note(number, at - start);
            at = skip_value(text, at, depth + 1).ok()?;
        }
        Some((self.tail.pass(text, at)?, offsets))
    }

    /// Where the value of `field` starts in the record at `start`, which has this shape. `known` is another field, up to this one,
    /// and where its value starts.
    #[inline]
    pub(crate) fn locate(
        &self,
        text: &[u8],
        start: usize,
        offsets: Offsets,
        known: Option<(usize, usize)>,
        field: usize,
    ) -> Option<usize> {
        let noted = offsets.nearest(field).map(|(noted, offset)| (noted, start + offset));
        let (mut current, mut at) = match noted.max(known) {
            Some(nearest) => nearest,
            None => (0, self.after(start, 0)?),
        };
        while current < field {
            current += 1;
            at = self.after(skip_value(text, at, 0).ok()?, current)?;
        }
        Some(at)
    }

    /// Where the value of `field` starts if the value before it ends at `end`, or for the first field if the record starts there.
    #[inline]
    pub(crate) fn after(&self, end: usize, field: usize) -> Option<usize> {
        Some(end + self.fields.get(field)?.glue.bytes.len())
    }

    /// What the serialiser writes before the value of `field`.
    pub(crate) fn lead(&self, field: usize) -> Option<&[u8]> {
        self.fields.get(field).map(|field| &*field.lead)
    }
}

fn is_regular(text: &[u8], members: &[Member]) -> bool {
    if members.is_empty() || members.len() > MAX_KEYS {
        return false;
    }
    let mut keys: Vec<&[u8]> = members.iter().map(|member| member.key_text(text)).collect();
    if members.iter().any(|member| member.escaped) || keys.iter().any(|key| array_index(key).is_some()) {
        return false;
    }
    keys.sort_unstable();
    keys.windows(2).all(|pair| pair[0] != pair[1])
}

fn index(keys: impl ExactSizeIterator<Item = u32>) -> Box<[(u32, u32)]> {
    let size = (keys.len() * 2).next_power_of_two();
    let mut slots = vec![(0, NONE); size];
    for (field, key) in keys.enumerate() {
        let mut at = key as usize & (size - 1);
        while slots[at].1 != NONE {
            at = (at + 1) & (size - 1);
        }
        slots[at] = (key, field as u32);
    }
    slots.into()
}
