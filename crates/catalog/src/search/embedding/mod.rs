//! Reads the static embedding of the search: a text is the sum of its tokens' vectors, at unit length.
//!
//! Two texts are about the same if the dot product of their vectors is high. The model is a table without a network: its
//! format, its tokens and what it was trained on are described beside the file, in `data/search-model/README.md`. English
//! only; a text without ASCII letters and digits has no tokens, and then the word ranking decides alone.

mod tokens;
mod vocabulary;

use std::sync::OnceLock;

use super::words::{is_stop_word, plain_words};
use tokens::Tokens;
use vocabulary::Vocabulary;

/// The model file, part of the program.
static FILE: &[u8] = include_bytes!("../../../data/search-model/model.bin");
/// The first bytes of a model file.
const MAGIC: &[u8] = b"STATEMB4";
/// The number of dimensions of a vector.
pub(crate) const DIMENSIONS: usize = 256;
/// The bytes of one token's row: two dimensions a byte.
const ROW: usize = DIMENSIONS / 2;

/// A vector of the model: of unit length, or zero for a text without tokens.
pub(crate) type Vector = [f32; DIMENSIONS];

/// Where a text is cut into tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// Prose: a word that the vocabulary has stays whole (`GitHub`).
    Prose,
    /// A name: cut at its humps first (`getUser` is `get`, `User`).
    Name,
}

/// The table of token vectors, read in place.
#[derive(Debug)]
pub(crate) struct Model {
    vocabulary: Vocabulary,
    /// One little-endian f32 a token.
    scales: &'static [u8],
    rows: &'static [u8],
}

/// The model of this program. Reading it indexes the vocabulary, once a process.
pub(crate) fn model() -> Option<&'static Model> {
    static MODEL: OnceLock<Option<Model>> = OnceLock::new();
    MODEL.get_or_init(|| Model::read(FILE)).as_ref()
}

impl Model {
    /// `None` if the file is of another form; a test holds that ours is not.
    fn read(file: &'static [u8]) -> Option<Self> {
        let file = file.strip_prefix(MAGIC)?;
        let (head, file) = file.split_at_checked(12)?;
        let mut numbers = head.chunks_exact(4).map(|bytes| bytes.try_into().map_or(0, u32::from_le_bytes) as usize);
        let (count, dimensions, length) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let (names, file) = file.split_at_checked(length)?;
        let (scales, rows) = file.split_at_checked(count.checked_mul(4)?)?;
        let vocabulary = Vocabulary::new(names);
        let fits = dimensions == DIMENSIONS && vocabulary.len() == count && rows.len() == count * ROW;
        fits.then_some(Self { vocabulary, scales, rows })
    }

    /// Whether a word of `text` that carries meaning is a token as a whole. The pieces of unknown words say little.
    pub(crate) fn knows(&self, text: &str) -> bool {
        let words = plain_words(text);
        words.iter().any(|word| !is_stop_word(word) && self.vocabulary.word(word.as_bytes()).is_some())
    }

    /// The vector of a text. Reads no further than its first tokens, so a text of any length costs the same.
    pub(crate) fn embed(&self, text: &str, kind: TextKind) -> Vector {
        self.embed_each([text], kind)
    }

    /// The vector of several texts as if they were one.
    pub(crate) fn embed_each<'t>(&self, texts: impl IntoIterator<Item = &'t str>, kind: TextKind) -> Vector {
        let mut tokens = Tokens::new(&self.vocabulary, kind);
        for text in texts {
            tokens.read(text);
        }
        let mut sum = [0.0; DIMENSIONS];
        for &token in tokens.found() {
            self.add(&mut sum, token as usize);
        }
        unit(sum)
    }

    fn add(&self, sum: &mut Vector, token: usize) {
        let scale = self.scales.chunks_exact(4).nth(token).and_then(|bytes| bytes.try_into().ok());
        let (Some(scale), Some(row)) = (scale.map(f32::from_le_bytes), self.rows.chunks_exact(ROW).nth(token)) else {
            return;
        };
        for (pair, &byte) in sum.chunks_exact_mut(2).zip(row) {
            if let [low, high] = pair {
                *low += scale * (f32::from(byte & 15) - 8.0);
                *high += scale * (f32::from(byte >> 4) - 8.0);
            }
        }
    }
}

/// A vector at unit length; zero stays zero.
pub(crate) fn unit(mut vector: Vector) -> Vector {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    vector
}

#[cfg(test)]
mod tests;
