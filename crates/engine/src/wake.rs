//! Wakes a pump that waits for its worker's socket: a counter of the kernel that becomes readable.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::SendFlags;

/// A send to a worker that is gone is an error, not a signal, and it never blocks.
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// Becomes readable when it is set.
pub(crate) struct WakeSignal(OwnedFd);

impl WakeSignal {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(WakeSignal(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// The descriptor to wait for.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    pub(crate) fn set(&self) {
        // The write fails only when the counter is full, and then the pump wakes anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}
