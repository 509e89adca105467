//! `Idempotency-Key`: an operation that takes one gets one with each call.
//!
//! An API that declares the header keeps the effect of a request from happening twice when it is repeated on the way. A
//! caller who repeats calls itself gives its own key, which is sent as it is. Keys need not be secret, only unique.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::operation::ParameterPlace;

/// Whether a parameter is an idempotency key.
pub(crate) fn is_key(place: ParameterPlace, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    place == ParameterPlace::Header && matches!(name.as_str(), "idempotency-key" | "x-idempotency-key")
}

/// A key that was never given before, in the form of a UUID.
pub(crate) fn new_key() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    // Each state has random keys of its own.
    let random = |part: u8| RandomState::new().hash_one((part, count, now));
    let bits = u128::from(random(0)) << 64 | u128::from(random(1));
    // Version 4, variant 1.
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let text = format!("{bits:032x}");
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default().to_owned();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_look_like_uuids() {
        let keys: std::collections::HashSet<String> = (0..10_000).map(|_| new_key()).collect();
        assert_eq!(keys.len(), 10_000);
        for key in keys.iter().take(100) {
            let parts: Vec<&str> = key.split('-').collect();
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{key}");
            assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{key}");
        }
    }
}
