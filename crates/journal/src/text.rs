//! Texts of a record: short ones where they stand, long ones once, by the hash of their content.

use std::collections::BTreeMap;
use std::fmt;

use ring::digest::{SHA256, digest};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Bytes of a text above which it is kept as a blob.
pub const MAX_INLINE: usize = 64 * 1024;

/// The SHA-256 of a text, as 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentHash(String);

impl ContentHash {
    /// The hash of a text.
    pub fn of(text: &str) -> Self {
        ContentHash(digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Text {
    /// The length of the text.
    pub fn bytes(&self) -> u64 {
        match self {
            Text::Inline(text) => text.len() as u64,
            Text::Blob { bytes, .. } => *bytes,
        }
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text, or where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Text {
    /// The text itself.
    Inline(String),
    /// A text above [`MAX_INLINE`].
    Blob {
        /// Its hash.
        blob: ContentHash,
        /// Its length.
        bytes: u64,
    },
}

/// Written by hand: the derived reader of an untagged enum does not say what is wrong with an invalid value.
impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InlineOrBlob;

        #[derive(Deserialize)]
        struct BlobFields {
            blob: ContentHash,
            bytes: u64,
        }

        impl<'de> Visitor<'de> for InlineOrBlob {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or the hash of a text with its length")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text::Inline(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Text, E> {
                Ok(Text::Inline(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Text, A::Error> {
                let BlobFields { blob, bytes } = BlobFields::deserialize(MapAccessDeserializer::new(members))?;
                Ok(Text::Blob { blob, bytes })
            }
        }
        deserializer.deserialize_any(InlineOrBlob)
    }
}

/// The long texts of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blobs(BTreeMap<ContentHash, String>);

/// A record names a text that it does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the text {0} is missing from the record")]
pub struct MissingBlob(pub ContentHash);

impl Blobs {
    /// Keeps a text: in place, or as a blob when it is long. Returns its bytes, also where the same blob is here already:
    /// what is made of a record later has the text as often as the record names it.
    pub fn keep(&mut self, text: &str) -> (Text, usize) {
        if text.len() <= MAX_INLINE {
            return (Text::Inline(text.to_owned()), text.len());
        }
        let blob = ContentHash::of(text);
        self.0.entry(blob.clone()).or_insert_with(|| text.to_owned());
        (Text::Blob { blob, bytes: text.len() as u64 }, text.len())
    }

    /// The text.
    ///
    /// # Errors
    /// If it is a blob that is not here.
    pub fn text<'a>(&'a self, text: &'a Text) -> Result<&'a str, MissingBlob> {
        match text {
            Text::Inline(text) => Ok(text),
            Text::Blob { blob, .. } => self.0.get(blob).map(String::as_str).ok_or_else(|| MissingBlob(blob.clone())),
        }
    }

    /// Adds a blob.
    pub fn insert(&mut self, text: String) {
        self.0.insert(ContentHash::of(&text), text);
    }

    /// Adds the beginning of a blob, under the hash of the whole.
    pub(crate) fn insert_beginning(&mut self, whole: ContentHash, beginning: String) {
        self.0.insert(whole, beginning);
    }

    /// Adds all blobs of another set.
    pub fn extend(&mut self, other: Blobs) {
        self.0.extend(other.0);
    }

    /// All of them, in the order of their hashes.
    pub fn iter(&self) -> impl Iterator<Item = (&ContentHash, &str)> {
        self.0.iter().map(|(hash, text)| (hash, text.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_kept_once() {
        let mut blobs = Blobs::default();
        let long = "x".repeat(MAX_INLINE + 1);
        let (first, bytes) = blobs.keep(&long);
        let (second, again) = blobs.keep(&long);
        assert_eq!((bytes, again, &first), (MAX_INLINE + 1, MAX_INLINE + 1, &second));
        assert_eq!(blobs.text(&first), Ok(long.as_str()));
        assert_eq!(blobs.keep("short"), (Text::Inline("short".into()), 5));
        assert_eq!(blobs.iter().count(), 1);
    }

    #[test]
    fn a_missing_text_is_named() {
        let (text, _) = Blobs::default().keep(&"x".repeat(MAX_INLINE + 1));
        assert!(Blobs::default().text(&text).is_err());
    }
}
