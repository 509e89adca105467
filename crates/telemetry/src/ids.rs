//! Ids of traces and spans.
//!
//! A keyed hash of a counter: the key is random for each process, so that ids of several processes differ, and an id takes no
//! system call.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The id of a trace: not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

/// The id of a span: not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(u64);

impl TraceId {
    /// A new one.
    pub fn random() -> Self {
        TraceId((u128::from(next()) << 64 | u128::from(next())).max(1))
    }

    /// The id that 32 hexadecimal digits say.
    pub fn parse(digits: &str) -> Option<Self> {
        let id = u128::from_str_radix(hexadecimal(digits, 32)?, 16).ok()?;
        (id != 0).then_some(TraceId(id))
    }
}

impl SpanId {
    /// A new one.
    pub fn random() -> Self {
        SpanId(next().max(1))
    }

    /// The id that 16 hexadecimal digits say.
    pub fn parse(digits: &str) -> Option<Self> {
        let id = u64::from_str_radix(hexadecimal(digits, 16)?, 16).ok()?;
        (id != 0).then_some(SpanId(id))
    }
}

/// The text if it is so many lower-case hexadecimal digits, as W3C Trace Context writes ids: no sign, no capitals.
fn hexadecimal(digits: &str, length: usize) -> Option<&str> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (digits.len() == length && digits.bytes().all(is_digit)).then_some(digits)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

fn next() -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    KEY.hash_one(COUNTER.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_digits_of_fixed_length_and_differ() {
        let ids: HashSet<SpanId> = (0..1_000).map(|_| SpanId::random()).collect();
        assert_eq!(ids.len(), 1_000);
        let (trace, span) = (TraceId::random(), SpanId::random());
        assert_eq!((trace.to_string().len(), span.to_string().len()), (32, 16));
        assert_eq!((TraceId::parse(&trace.to_string()), SpanId::parse(&span.to_string())), (Some(trace), Some(span)));
    }

    #[test]
    fn zero_and_other_lengths_are_no_ids() {
        for digits in ["", "0000000000000000", "1", "g000000000000001", "+b7ad6b716920333", "B7AD6B7169203331"] {
            assert_eq!(SpanId::parse(digits), None, "{digits}");
        }
        assert_eq!(TraceId::parse("00000000000000000000000000000000"), None);
    }
}
