//! The tokens of the model by name: a hash table over the model file's own text, which allocates no strings.

/// Slots of the table for each token, at least: few collisions, and an empty slot ends every search.
const SLOTS_PER_TOKEN: usize = 2;
/// The empty slot.
const EMPTY: u32 = u32::MAX;
/// The start of FNV-1a, 32 bits.
const HASH_START: u32 = 0x811c_9dc5;
const HASH_FACTOR: u32 = 0x0100_0193;

/// What a piece that continues a word begins with.
const CONTINUED: &[u8] = b"##";

#[derive(Debug)]
pub(super) struct Vocabulary {
    /// The token names in the order of their ids.
    names: Vec<&'static [u8]>,
    /// Open addressing: ids, at the slot of the name's hash or after it. The length is a power of two.
    slots: Vec<u32>,
}

impl Vocabulary {
    /// Indexes the names of a model file, separated by line feeds.
    pub(super) fn new(text: &'static [u8]) -> Self {
        let names: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        let mut slots = vec![EMPTY; (names.len() * SLOTS_PER_TOKEN).next_power_of_two()];
        let mask = slots.len() - 1;
        for (id, name) in (0..).zip(&names) {
            let mut at = hash(HASH_START, name) as usize & mask;
            while slots.get(at).is_some_and(|&slot| slot != EMPTY) {
                at = (at + 1) & mask;
            }
            if let Some(slot) = slots.get_mut(at) {
                *slot = id;
            }
        }
        Self { names, slots }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// The name of a token.
    #[cfg(test)]
    pub(super) fn name(&self, id: u32) -> &'static str {
        self.names.get(id as usize).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// The token of a whole word.
    pub(super) fn word(&self, word: &[u8]) -> Option<u32> {
        self.find(hash(HASH_START, word), b"", word)
    }

    /// The longest token that `rest` begins with, and its length. `continued` if it goes on within a word.
    pub(super) fn longest(&self, rest: &[u8], continued: bool) -> Option<(u32, usize)> {
        let prefix = if continued { CONTINUED } else { b"" };
        let mut state = hash(HASH_START, prefix);
        let mut hashes = Vec::with_capacity(rest.len());
        for &byte in rest {
            state = hash(state, &[byte]);
            hashes.push(state);
        }
        hashes.into_iter().enumerate().rev().find_map(|(last, hash)| {
            let token = self.find(hash, prefix, rest.get(..=last)?)?;
            Some((token, last + 1))
        })
    }

    fn find(&self, hash: u32, prefix: &[u8], name: &[u8]) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let id = *self.slots.get(at).filter(|&&id| id != EMPTY)?;
            if self.names.get(id as usize).and_then(|own| own.strip_prefix(prefix)) == Some(name) {
                return Some(id);
            }
            at = (at + 1) & mask;
        }
    }
}

/// FNV-1a, continued from `state`.
fn hash(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |state, &byte| (state ^ u32::from(byte)).wrapping_mul(HASH_FACTOR))
}
