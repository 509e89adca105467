//! The wall clock, as something a test can hold still.

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        // A clock before 1970 is a broken one; with 0 every session is still valid, and the store's own expiry holds.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis().try_into().unwrap_or(u64::MAX))
    }
}
