//! JSON that is measured before it is written, so that its memory can be counted first and is taken once.
//!
//! A result may have 16 MB, a reply has it twice, and a buffer that grows by doubling has up to twice as much again. A small
//! text is written while it is measured; a larger one is only counted at first, which takes no memory.

use std::io;

use serde::Serialize;

use super::body::{Budget, Share};
use super::refusal::Refusal;

/// The longest text that is written while it is measured.
const MAX_DRAFT_BYTES: usize = 64 * 1024;

/// The length of a value as JSON, and its text if that is short.
#[derive(Debug, Default)]
pub(super) struct MeasuredJson {
    draft: Vec<u8>,
    bytes: usize,
}

impl MeasuredJson {
    pub(super) fn of(value: &impl Serialize) -> serde_json::Result<Self> {
        let mut measured = Self::default();
        serde_json::to_writer(&mut measured, value)?;
        Ok(measured)
    }

    /// The length of the text.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The text of the value that was measured.
    pub(super) fn write(self, value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
        if self.draft.len() == self.bytes {
            return Ok(self.draft);
        }
        let mut text = Vec::with_capacity(self.bytes);
        serde_json::to_writer(&mut text, value)?;
        Ok(text)
    }
}

impl io::Write for MeasuredJson {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes <= MAX_DRAFT_BYTES {
            self.draft.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value as JSON, with a share of the memory budget that covers so many copies of it. The share is taken first.
pub(super) fn counted_json(
    budget: &Budget,
    value: &impl Serialize,
    copies: usize,
) -> Result<(Vec<u8>, Share), Refusal> {
    let measured = MeasuredJson::of(value).map_err(|_| Refusal::Internal)?;
    let mut share = budget.share();
    budget.cover(&mut share, measured.bytes().saturating_mul(copies))?;
    let text = measured.write(value).map_err(|_| Refusal::Internal)?;
    Ok((text, share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller_permits::CallerPermits;
    use std::cell::Cell;

    /// A text that counts how often it is written.
    struct Counting {
        text: String,
        times: Cell<usize>,
    }

    impl Serialize for Counting {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.times.set(self.times.get() + 1);
            serializer.serialize_str(&self.text)
        }
    }

    fn counting(bytes: usize) -> Counting {
        Counting { text: "x".repeat(bytes), times: Cell::new(0) }
    }

    #[test]
    fn the_text_is_the_one_of_serde_in_memory_of_its_size() {
        for (bytes, times) in [(10, 1), (MAX_DRAFT_BYTES - 2, 1), (MAX_DRAFT_BYTES, 2), (1_000_000, 2)] {
            let value = counting(bytes);
            let budget = Budget::new(CallerPermits::new(4 << 20), "");
            let (text, share) = counted_json(&budget, &value, 1).expect("room");
            assert_eq!(value.times.get(), times, "{bytes}");
            assert_eq!(text, serde_json::to_vec(&value.text).expect("JSON"), "{bytes}");
            assert!(times == 1 || text.capacity() == text.len(), "{} for {bytes}", text.capacity());
            drop(share);
        }
    }

    #[test]
    fn what_does_not_fit_is_measured_and_not_written() {
        let all = CallerPermits::new(1 << 20);
        let budget = Budget::new(all.clone(), "");
        let value = counting(600_000);
        assert!(counted_json(&budget, &value, 2).is_err());
        assert_eq!((value.times.get(), all.used()), (1, 0));
        let (_text, share) = counted_json(&budget, &value, 1).expect("room");
        assert!(all.used() >= 600_000);
        drop(share);
        assert_eq!(all.used(), 0);
    }
}
