//! Puts a process back to an earlier state from outside, and compares the two.
//!
//! The process is a child of this one, has one thread, and is assumed to run hostile native code since its [`Snapshot`]:
//! nothing in it takes part. It is stopped, everything that the kernel tells about it is compared with the snapshot, what can
//! be written from outside (pages, registers) is written, and mappings that were added are removed. Every difference that
//! remains is a [`Refusal`], and the process is killed.
//!
//! What the kernel does not tell cannot be compared. The process must not have system calls that change such things: its
//! filter must allow no `mprotect`, `madvise`, `rt_sigreturn`, `prctl` or `sigaction`, `brk` only at the beginning of a page,
//! and its mappings must be sealed (`mseal`), so that none can be exchanged for another of the same name. [`Snapshot::take`]
//! checks the seal.
//!
//! # Layout
//! - `snapshot`: takes a snapshot and returns to it
//! - `tracee`: stops a process, and has it make a system call while it is stopped
//! - `registers`: its registers, and the state in which it waits for a message
//! - `pages`: which pages may differ from the snapshot, and their contents
//! - `mappings`: the kernel's list of mappings
//! - `identity`: signals, privileges, filters, descriptors, limits
//! - `kernel`: the system calls that have no safe wrapper

#![cfg(target_os = "linux")]
#![deny(unsafe_code)]
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "registers of other processors are not read"))]

mod identity;
#[allow(unsafe_code, reason = "decision 53")]
mod kernel;
mod mappings;
mod pages;
#[cfg_attr(not(target_arch = "x86_64"), path = "registers_other.rs")]
mod registers;
mod snapshot;
mod tracee;

pub use identity::Bounds;
pub use kernel::unread_by_peer;
pub use snapshot::{Restored, Snapshot, Stopped};

/// Why a process cannot be put back. It must be ended.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// This kind of processor is not supported.
    #[error("registers of this processor cannot be put back")]
    Processor,
    /// The process has ended.
    #[error("the process has ended")]
    Ended,
    /// The kernel refused.
    #[error("{0}: {1}")]
    Kernel(&'static str, #[source] std::io::Error),
    /// The process stopped for another reason than being told to.
    #[error("the process stopped by itself")]
    Stop,
    /// The process does not come to the point at which it waits for a message.
    #[error("the process does not wait for a message")]
    NotWaiting,
    /// Its mappings are not sealed, so that one could be exchanged for another.
    #[error("its mappings are not sealed")]
    NotSealed,
    /// This differs from the snapshot and cannot be put back.
    #[error("{0} cannot be put back")]
    Differs(&'static str),
}
