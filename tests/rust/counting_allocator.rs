//! An allocator that counts the bytes of each thread, so that tests and peers beside each other do not disturb.
//!
//! Included by `#[path]` in the tests that measure memory: an allocator is a static of its program, not of a library.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

impl Counting {
    fn took(size: usize) {
        LIVE.set(LIVE.get() + size);
        PEAK.set(PEAK.get().max(LIVE.get()));
    }

    /// A block of another thread may be more than what this one has.
    fn gave(size: usize) {
        LIVE.set(LIVE.get().saturating_sub(size));
    }
}

// SAFETY: every request is passed to the system's allocator as it is; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::took(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        Self::gave(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`, and the block came from `System`.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() {
            Self::took(size);
            Self::gave(layout.size());
        } else {
            Self::gave(layout.size() - size);
        }
        // SAFETY: the caller keeps the contract of `realloc`, and the block came from `System`.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The bytes that are alive from one moment on.
pub(crate) struct Peak {
    before: usize,
}

impl Peak {
    /// Begins to measure.
    pub(crate) fn begin() -> Self {
        PEAK.set(LIVE.get());
        Peak { before: LIVE.get() }
    }

    /// The most bytes above those at the start that were alive at once.
    pub(crate) fn bytes(&self) -> usize {
        PEAK.get() - self.before
    }
}
