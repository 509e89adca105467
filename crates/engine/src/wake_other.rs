//! Wakes a pump that waits for its worker's socket, on systems without event counters: a pipe that becomes readable.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::SendFlags;

/// A send never blocks. Programs in Rust ignore SIGPIPE, so that a send to a worker that is gone is an error.
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT;

/// Becomes readable when it is set.
pub(crate) struct WakeSignal {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl WakeSignal {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe()?;
        for end in [&reader, &writer] {
            fcntl_setfd(end, FdFlags::CLOEXEC)?;
            ioctl_fionbio(end, true)?;
        }
        Ok(WakeSignal { reader, writer })
    }

    /// The descriptor to wait for.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.reader
    }

    pub(crate) fn set(&self) {
        // The write fails only when the pipe is full, and then the pump wakes anyway.
        let _ = rustix::io::write(&self.writer, &[1]);
    }

    pub(crate) fn clear(&self) {
        while rustix::io::read(&self.reader, &mut [0u8; 64]).is_ok_and(|length| length > 0) {}
    }
}
