//! The keyed digest of what a guest said.
//!
//! HMAC-SHA256 over the encoded frame, cut to 128 bits: the same in every process and on every machine, and of no use
//! for guessing what was said to anybody who does not have the run's key.

use std::fmt;
use std::str::FromStr;

use ring::hmac;
use toolgate_wire::FromWorker;
use toolgate_wire::codec::{self, HEADER};

/// The key of one run's digests.
#[derive(Clone)]
pub struct DigestKey {
    bytes: [u8; 32],
    key: hmac::Key,
}

impl DigestKey {
    /// The key with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        DigestKey { bytes, key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) }
    }

    /// A new key. Where the system gives no random numbers, the key is not secret; digests still compare.
    pub fn random() -> Self {
        let mut bytes = [0; 32];
        let _ = getrandom::fill(&mut bytes);
        DigestKey::new(bytes)
    }

    /// Its bytes, to be kept beside the digests.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The digest of a frame. What a worker measured of itself does not count.
    pub fn digest(&self, frame: &FromWorker) -> Digest {
        let mut bytes = Vec::new();
        codec::encode_from_worker(frame, &mut bytes);
        if matches!(frame, FromWorker::Done { .. }) {
            // Memory and processor time: two numbers of eight bytes behind the tag.
            bytes.iter_mut().skip(HEADER + 1).take(16).for_each(|byte| *byte = 0);
        }
        Digest::of(&self.key, &bytes)
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

/// The digest of one frame, written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 16]);

impl Digest {
    fn of(key: &hmac::Key, bytes: &[u8]) -> Self {
        let tag = hmac::sign(key, bytes);
        Digest(tag.as_ref().first_chunk().copied().unwrap_or_default())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest has 32 hexadecimal digits")]
pub struct NoDigest;

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex).ok_or(NoDigest)?;
        Ok(Digest(number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use toolgate_wire::CallId;
    use toolgate_wire::frame::{End, Stream};

    use super::*;

    fn done(text: &str, memory: u64, cpu: u64) -> FromWorker {
        FromWorker::Done { end: End::Returned(text.into()), memory, cpu, dropped: 0 }
    }

    #[test]
    fn a_digest_is_the_same_in_every_process() {
        let digest = DigestKey::new([7; 32]).digest(&FromWorker::Cancel { id: CallId(3) });
        assert_eq!(digest.to_string(), "5a439ee28d26c0511b92b1b7089787ae");
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }

    #[test]
    fn what_a_worker_measures_does_not_count() {
        let key = DigestKey::random();
        assert_eq!(key.digest(&done("1", 1, 2)), key.digest(&done("1", u64::MAX, 4)));
        assert_ne!(key.digest(&done("1", 1, 2)), key.digest(&done("2", 1, 2)));
    }

    #[test]
    fn keys_and_contents_change_a_digest() {
        let line = |text: &str| FromWorker::Log { stream: Stream::Stdout, text: text.into() };
        let (one, other) = (DigestKey::new([1; 32]), DigestKey::new([2; 32]));
        assert_ne!(one.digest(&line("a")), other.digest(&line("a")));
        assert_ne!(one.digest(&line("a")), one.digest(&line("b")));
    }

    #[test]
    fn a_text_of_another_form_is_no_digest() {
        for text in ["", "8d", "+a439ee28d26c0511b92b1b7089787ae", "za439ee28d26c0511b92b1b7089787ae"] {
            assert_eq!(text.parse::<Digest>(), Err(NoDigest), "{text}");
        }
    }
}
