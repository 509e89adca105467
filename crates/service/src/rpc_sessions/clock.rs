//! The wall clock, as a trait, so that tests control the time.
//!
//! Milliseconds only, since expiry times are compared between processes.

use std::time::{SystemTime, UNIX_EPOCH};

/// A wall clock.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        // A clock before 1970 is wrong; with 0 every session counts as valid, and the store's own expiry still applies.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis().try_into().unwrap_or(u64::MAX))
    }
}
