//! Execution ids and tokens: 128 random bits each, as 32 lower-case hexadecimal digits.
//!
//! Tokens are stored as SHA-256 hashes and compared in constant time.

use super::SessionStoreError;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use subtle::ConstantTimeEq;

const BYTES: usize = 16;

/// The id of a session. Not a secret, but not guessable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(String);

impl ExecutionId {
    /// A new random one.
    pub(super) fn random() -> Result<Self, SessionStoreError> {
        random_hex().map(Self)
    }

    /// Parses an id from a request.
    pub fn parse(text: &str) -> Option<Self> {
        is_hex(text, BYTES).then(|| Self(text.to_owned()))
    }

    /// An id that no session has, looked up in place of an invalid one so that both take the same time.
    pub(super) fn of_no_session() -> Self {
        Self("0".repeat(2 * BYTES))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The secret of a session. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new random one.
    pub(crate) fn random() -> Result<Self, SessionStoreError> {
        random_hex().map(Self)
    }

    /// The secret itself, to hand to its holder once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The SHA-256 of a token. A token is 128 random bits, so the hash needs no salt and no stretching.
#[derive(Clone)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a presented token.
    pub fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        // SHA-256 has 32 bytes; zip copies without a length to get wrong.
        hash.iter_mut().zip(digest(&SHA256, token.as_bytes()).as_ref()).for_each(|(to, from)| *to = *from);
        Self(hash)
    }

    /// Matches no token; compared with where there is no session.
    pub(super) fn of_nothing() -> Self {
        Self([0; 32])
    }

    /// Compares in constant time.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

impl Serialize for TokenHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for TokenHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        unhex(&text).map(Self).ok_or_else(|| D::Error::custom("not a SHA-256 in hexadecimal"))
    }
}

fn random_hex() -> Result<String, SessionStoreError> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| SessionStoreError::NoRandomness)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == 2 * bytes && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if !is_hex(text, bytes.len()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_32_digits_and_never_the_same() {
        let ids: std::collections::BTreeSet<_> = (0..100).map(|_| ExecutionId::random().expect("randomness")).collect();
        assert_eq!(ids.len(), 100);
        assert!(ids.iter().all(|id| ExecutionId::parse(id.as_str()).as_ref() == Some(id)));
    }

    #[test]
    fn text_that_is_no_id_is_refused() {
        let digits = "0123456789abcdef0123456789abcdef";
        assert!(ExecutionId::parse(digits).is_some());
        for text in ["", "*", &digits[1..], &digits.to_uppercase(), &format!("{digits}0"), &digits.replace('0', "\n")] {
            assert!(ExecutionId::parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn only_the_same_token_matches() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let stored: TokenHash = serde_json::from_value(known.into()).expect("a hash");
        assert!(stored.matches(&TokenHash::of("abc")));
        assert!(!stored.matches(&TokenHash::of("abd")));
        assert!(!stored.matches(&TokenHash::of("")));
        assert_eq!(serde_json::json!(TokenHash::of("abc")), known);
    }

    #[test]
    fn debug_output_has_no_secrets() {
        let token = Token::random().expect("randomness");
        assert_eq!(format!("{token:?} {:?}", TokenHash::of(token.reveal())), "Token(…) TokenHash(…)");
    }
}
