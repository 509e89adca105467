//! Ids of kept results.

use std::fmt;

const PREFIX: &str = "res_";
const DIGITS: usize = 32;

/// `res_` and 32 hexadecimal digits: 128 random bits.
///
/// An id grants access to its result, so ids must be unguessable. The format is validated before an id becomes a file name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResultId(String);

/// The text is not a result id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a result id: an id is res_ followed by 32 hexadecimal digits, as in the footer of a result")]
pub struct BadId;

impl ResultId {
    /// A random id; `None` if the system provides no randomness.
    pub(super) fn random() -> Option<Self> {
        let mut bits = [0u8; DIGITS / 2];
        getrandom::fill(&mut bits).ok()?;
        Some(Self(format!("{PREFIX}{:032x}", u128::from_be_bytes(bits))))
    }

    /// Parses an id.
    ///
    /// # Errors
    /// If the text has another format.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        let digits = text.strip_prefix(PREFIX).ok_or(BadId)?;
        let fits = digits.len() == DIGITS && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if fits { Ok(Self(text.to_owned())) } else { Err(BadId) }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ResultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_ids_are_well_formed_and_differ() {
        let (one, other) = (ResultId::random().expect("randomness"), ResultId::random().expect("randomness"));
        assert_ne!(one, other);
        assert_eq!(ResultId::parse(one.as_str()), Ok(one));
    }

    #[test]
    fn nothing_else_is_an_id() {
        for text in [
            "",
            "res_",
            "res_00112233445566778899aabbccddeef",
            "res_00112233445566778899aabbccddeeff0",
            "res_00112233445566778899AABBCCDDEEFF",
            "res_../../../../../../../etc/passwd0",
            "res_0011223344556677 899aabbccddeeff",
            "00112233445566778899aabbccddeeff",
        ] {
            assert_eq!(ResultId::parse(text), Err(BadId), "{text}");
        }
    }
}
