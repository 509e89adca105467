//! Mappings that cannot be unmapped, moved or given another protection.
//!
//! A host that puts a worker back compares the kernel's list of its mappings. The list does not show everything: memory that
//! is unmapped and mapped again at the same place looks the same, but a stack that is mapped like this no longer grows.

use std::fs;

/// Room for the stack of the largest run: the interpreter's own limit is at most 4 MB.
const STACK: usize = 5 * 1024 * 1024;

/// Memory that the heap can hand out before the allocator needs another mapping.
const HEAP_ROOM: usize = 1024 * 1024;

/// More than the zygote itself uses.
const STACK_IN_USE: libc::rlim_t = 1024 * 1024;

/// `mseal`, which has this number on every architecture.
const SYS_MSEAL: libc::c_long = 462;

/// Seals every mapping of this process, for itself and its forks. A kernel before 6.10 does not know how.
///
/// Called once, in the zygote, while `/proc` is there.
pub(super) fn all_mappings() {
    grow_stack();
    grow_heap();
    guard_break();
    let mappings = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, end) in mappings.lines().filter_map(range) {
        // SAFETY: forbids changes to mappings of this process and changes none. Memory that the allocator cannot give back
        // stays its own.
        unsafe { libc::syscall(SYS_MSEAL, start, end - start, 0_usize) };
    }
}

fn range(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(start)?, address(end)?))
}

/// Has the stack's mapping be as large as it may become: a sealed one could not be made smaller after a run.
fn grow_stack() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } == 0;
    if known && limit.rlim_cur > STACK as libc::rlim_t + STACK_IN_USE {
        let here = &raw const limit as usize;
        // SAFETY: the kernel grows the main thread's stack down to an address that is used, within the limit checked above;
        // nothing else is mapped there.
        unsafe { std::ptr::with_exposed_provenance::<u8>(here - STACK).read_volatile() };
    }
}

/// Leaves room in the heap, none of it written: a run that finds it there needs no mapping that its host would have to remove.
///
/// The first block is so large that the C library maps it. When it is freed, blocks of this size come from the heap.
fn grow_heap() {
    for _ in 0..2 {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(HEAP_ROOM)));
    }
}

/// Maps a page where the heap ends, so that the break cannot be moved up: where it is can be seen from inside only.
fn guard_break() {
    // SAFETY: reads the break and maps a page that can be neither read nor written, where there is no other mapping.
    unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let end = (libc::sbrk(0) as usize).next_multiple_of(page);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        libc::mmap(std::ptr::with_exposed_provenance_mut(end), page, libc::PROT_NONE, flags, -1, 0);
    }
}
