//! The interpreter's allocator: malloc with a meter.
//!
//! Everything that the interpreter allocates is counted here, array buffers included, and so is every buffer that the
//! guest's Rust code fills for a program ([`Meter::charge`]). A refusal is recorded: a run that hit its limit differs by it
//! from one that throws "out of memory" itself.

use std::cell::Cell;
use std::rc::Rc;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::time::Duration;

#[cfg(target_vendor = "apple")]
use libc::malloc_size as usable_size;
#[cfg(not(target_vendor = "apple"))]
use libc::malloc_usable_size as usable_size;
use rquickjs::TypedArray;
use rquickjs::allocator::Allocator;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use toolgate_wire::freed_bytes;

/// Bytes in use, and whether an allocation was refused.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    used: Cell<u64>,
    peak: Cell<u64>,
    limit: Cell<Option<u64>>,
    refused: Cell<bool>,
}

impl Meter {
    /// Limits what is allocated from now on to `limit` bytes, on top of what is in use.
    pub(crate) fn limit_to(&self, limit: u64) {
        let base = self.used.get();
        self.peak.set(base);
        self.limit.set(Some(base.saturating_add(limit)));
    }

    /// Counts bytes that live outside the interpreter's heap; false, when there is no room for them.
    pub(crate) fn charge(&self, bytes: u64) -> bool {
        let used = self.used.get().saturating_add(bytes);
        if self.limit.get().is_some_and(|limit| used > limit) {
            self.refused.set(true);
            return false;
        }
        self.used.set(used);
        self.peak.set(self.peak.get().max(used));
        true
    }

    /// Whether so much could be charged now; if not, that is recorded as a refusal.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let room = self.charge(bytes);
        if room {
            self.release(bytes);
        }
        room
    }

    /// Takes back what was charged.
    pub(crate) fn release(&self, bytes: u64) {
        self.used.set(self.used.get().saturating_sub(bytes));
    }

    /// Whether an allocation was refused since the limit was set.
    pub(crate) fn was_refused(&self) -> bool {
        self.refused.get()
    }

    /// The most bytes in use at one time.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.get()
    }
}

/// Allocates from the C library what the meter allows.
pub(crate) struct Metered(pub(crate) Rc<Meter>);

impl Metered {
    fn admit(&self, size: usize, allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
        if !self.0.charge(size as u64) {
            return std::ptr::null_mut();
        }
        let block = allocate();
        self.0.release(size as u64);
        if block.is_null() {
            self.0.refused.set(true);
            return block;
        }
        // SAFETY: `block` came from the C allocator just now.
        let real = unsafe { usable_size(block.cast()) } as u64;
        self.0.used.set(self.0.used.get() + real);
        block
    }
}

// SAFETY: every block is the C library's own, aligned for any type, and at least as long as asked for.
unsafe impl Allocator for Metered {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        // SAFETY: malloc takes any size.
        self.admit(size, || unsafe { libc::malloc(size) }.cast())
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(total) = count.checked_mul(size) else { return std::ptr::null_mut() };
        // SAFETY: the product does not overflow.
        self.admit(total, || unsafe { libc::calloc(count, size) }.cast())
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        // SAFETY: the caller says that the block is this allocator's, and so the C library's.
        unsafe {
            self.0.release(usable_size(block.cast()) as u64);
            libc::free(block.cast());
        }
    }

    unsafe fn realloc(&mut self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`; null asks for a fresh block.
        let old = unsafe { usable_size(block.cast()) } as u64;
        let grown = (size as u64).saturating_sub(old);
        if !self.0.charge(grown) {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        let moved: *mut u8 = unsafe { libc::realloc(block.cast(), size) }.cast();
        self.0.release(grown);
        if moved.is_null() {
            if size > 0 {
                self.0.refused.set(true);
            }
            return moved;
        }
        // SAFETY: `moved` came from the C allocator just now.
        let real = unsafe { usable_size(moved.cast()) } as u64;
        self.0.used.set((self.0.used.get() + real).saturating_sub(old));
        moved
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: the caller says that the block is this allocator's.
        unsafe { usable_size(block.cast()) }
    }
}

/// Bytes that an array holds now: what the interpreter has allocated, not what its property `length` says.
pub(crate) fn length_of(array: &TypedArray<'_, u8>) -> usize {
    array.as_raw().map_or(0, |bytes| bytes.len())
}

/// What a byte array holds now; nothing, if its buffer was detached.
pub(crate) fn copy_of(array: &TypedArray<'_, u8>) -> Vec<u8> {
    // SAFETY: the slice is copied before anything can run in the interpreter that might move or free it.
    unsafe { array.as_bytes() }.map(<[u8]>::to_vec).unwrap_or_default()
}

/// Blocks of this many bytes and more go back to the system as soon as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: libc::c_int = 2 * 1024 * 1024;

/// Time between two returns of freed memory. Holders free what they gave back within it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

/// For a host, at its start: has freed memory go back to the system. Other C libraries than glibc do so by themselves.
///
/// Large blocks become mappings of their own. Left alone, glibc raises the size from which it does so with every large block that is
/// freed, up to 32 MB, and what a large answer took stays with the process. Many small values, such as the arguments of a call as a
/// tree, leave pages in the middle of a heap, which glibc keeps: a thread returns them after some megabytes were freed.
///
/// The number of heaps stays as it is: all of them are trimmed, and threads that share one wait for each other.
pub fn give_back_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: changes a setting of the C allocator under its own lock; no block is touched.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
        }
        // Without the thread the process keeps what small values took, and works.
        let _ =
            std::thread::Builder::new().name("memory".to_owned()).stack_size(TRIM_STACK_BYTES).spawn(trim_when_freed);
    }
}

/// The thread calls two functions of the C library and nothing else.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_STACK_BYTES: usize = 128 * 1024;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim_when_freed() {
    loop {
        freed_bytes::wait();
        freed_bytes::reset();
        std::thread::sleep(TRIM_INTERVAL);
        // SAFETY: returns free pages of each heap under the lock of that heap; no block in use is touched.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}
