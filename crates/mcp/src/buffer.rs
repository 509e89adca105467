//! A buffer for bytes of unknown number from a peer that is not trusted: bounded, and counted in a byte budget.
//!
//! Grows by half, not by doubling, and is cut to its length at the end, so that a message of N bytes never holds more than
//! two and a half times N. Messages of a few kilobytes are not counted: their number is bounded by the requests in flight.

use std::sync::LazyLock;

use toolgate_wire::{ByteBudget, BytePermit, OverBudget};

/// Messages up to this size are not counted in budgets.
pub(crate) const MAX_UNCOUNTED_BYTES: usize = 64 << 10;
/// The bytes of messages that this process holds at one time, in both directions.
const PROCESS_BYTES: usize = 256 << 20;

static PROCESS: LazyLock<ByteBudget> = LazyLock::new(|| ByteBudget::new("toolgate", PROCESS_BYTES));

/// The budget of this process, of which the budgets of runs, callers and backends are children.
pub fn process_budget() -> &'static ByteBudget {
    &PROCESS
}

/// Why a buffer takes no more bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The message is longer than its limit.
    TooLong,
    /// The bytes do not fit into the budget.
    OverBudget(OverBudget),
}

/// Bytes that arrive in pieces.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    permit: BytePermit,
    limit: usize,
}

impl Buffer {
    /// An empty buffer for at most `limit` bytes.
    pub(crate) fn new(budget: &ByteBudget, limit: usize) -> Self {
        Self { bytes: Vec::new(), permit: budget.empty_permit(), limit }
    }

    /// A buffer whose final length is announced, reserved at once: waits until the budget has room.
    pub(crate) async fn announced(budget: &ByteBudget, length: usize, limit: usize) -> Result<Self, Overflow> {
        if length > limit {
            return Err(Overflow::TooLong);
        }
        let mut buffer = Self::new(budget, limit);
        if length > MAX_UNCOUNTED_BYTES {
            buffer.permit = budget.reserve(length).await.map_err(Overflow::OverBudget)?;
        }
        Ok(buffer)
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a piece, or leaves the buffer as it is.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<(), Overflow> {
        let length = self.bytes.len().saturating_add(piece.len());
        if length > self.limit {
            return Err(Overflow::TooLong);
        }
        if length > self.bytes.capacity() {
            let announced = self.permit.bytes();
            let ample = if length <= announced { announced } else { length.saturating_add(length / 2).min(self.limit) };
            // Close to the end of the budget it grows by what is needed only.
            let capacity = if self.count(ample).is_ok() { ample } else { self.count(length).map(|()| length)? };
            self.bytes.reserve_exact(capacity.max(length) - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Removes the first bytes.
    pub(crate) fn cut_front(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
    }

    fn count(&mut self, capacity: usize) -> Result<(), Overflow> {
        let more = if capacity > MAX_UNCOUNTED_BYTES { capacity.saturating_sub(self.permit.bytes()) } else { 0 };
        self.permit.try_grow(more).map_err(Overflow::OverBudget)
    }

    /// The bytes, and the permit that counts them.
    pub(crate) fn finish(mut self) -> (Vec<u8>, BytePermit) {
        self.bytes.shrink_to_fit();
        self.permit.shrink_to(if self.bytes.len() > MAX_UNCOUNTED_BYTES { self.bytes.len() } else { 0 });
        (self.bytes, self.permit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_message_is_not_counted() {
        let budget = ByteBudget::new("b", 1);
        let mut buffer = Buffer::new(&budget, MAX_UNCOUNTED_BYTES);
        buffer.push(&[1; 1000]).unwrap();
        assert_eq!(buffer.finish().1.bytes(), 0);
    }

    #[test]
    fn a_large_message_is_counted_with_its_length() {
        let budget = ByteBudget::new("b", 1 << 20);
        let mut buffer = Buffer::new(&budget, 1 << 20);
        for _ in 0..200 {
            buffer.push(&[1; 1000]).unwrap();
        }
        let (bytes, permit) = buffer.finish();
        assert_eq!((bytes.len(), permit.bytes(), budget.used()), (200_000, 200_000, 200_000));
        drop(permit);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_message_over_its_limit_or_its_budget_is_refused() {
        let budget = ByteBudget::new("b", 200_000);
        assert_eq!(Buffer::new(&budget, 10).push(&[1; 11]), Err(Overflow::TooLong));
        let mut buffer = Buffer::new(&budget, 1 << 20);
        buffer.push(&[1; 100_000]).unwrap();
        assert!(matches!(buffer.push(&[1; 110_000]), Err(Overflow::OverBudget(_))));
        assert_eq!(buffer.len(), 100_000);
    }

    #[tokio::test]
    async fn an_announced_length_is_reserved_and_may_be_wrong() {
        let budget = ByteBudget::new("b", 1 << 20);
        let mut buffer = Buffer::announced(&budget, 100_000, 1 << 20).await.unwrap();
        assert_eq!(budget.used(), 100_000);
        buffer.push(&[1; 150_000]).unwrap();
        assert_eq!(buffer.finish().1.bytes(), 150_000);
        assert_eq!(Buffer::announced(&budget, 11, 10).await.err(), Some(Overflow::TooLong));
    }
}
