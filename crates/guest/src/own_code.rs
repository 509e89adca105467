//! This program's own code, on huge pages that forks share.
//!
//! A fork begins without the pages of a file that its parent had in place. Every worker would find the interpreter's code
//! missing again, sixteen pages at a time, and the kernel would let go of each of them when it ends. A huge page of plain
//! memory is handed on as one entry. So the zygote looks which parts of its code a rehearsal uses, copies them to huge
//! pages and puts these where the code was: the same bytes at the same addresses.
//!
//! It is a matter of speed alone. Where the kernel has no huge page to give, or other things lie within the bounds of one
//! (a program is laid out for it by its linker, see `crates/cli/build.rs`), the code stays where it is.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags, mmap_anonymous, mprotect, mremap_fixed, munmap};

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 * 1024 * 1024;

/// Pages in place that show a use of the code around them. One fault brings sixteen, so it takes a few.
const PAGES_IN_USE: usize = 64;

/// Moves the code that a rehearsal uses to huge pages, as far as they can be had.
///
/// Called once, in the zygote, before it gives up files and the right to make code. The process must have one thread.
pub(crate) fn to_huge_pages<Rehearse: Fn()>(rehearse: Rehearse) {
    let Some(layout) = Layout::of_this_process().filter(|_| rustix::param::page_size() == PAGE) else { return };
    layout.forget_pages();
    rehearse();
    let in_use: Vec<usize> = layout.blocks().filter(|block| layout.pages_in_place(*block) >= PAGES_IN_USE).collect();
    for neighbours in in_use.chunk_by(|one, next| one + HUGE_PAGE == *next) {
        let _ = replace(neighbours[0]..neighbours[0] + neighbours.len() * HUGE_PAGE, &layout.code);
    }
}

/// Where the program lies in memory.
struct Layout {
    code: Range<usize>,
    others: Vec<Range<usize>>,
}

impl Layout {
    fn of_this_process() -> Option<Self> {
        let regions = std::fs::read_to_string("/proc/self/maps").ok()?;
        Layout::of(&regions, to_huge_pages::<fn()> as fn(_) as usize)
    }

    /// Reads the kernel's list of regions. The code is the one with the address `here`, and must be a file's.
    fn of(regions: &str, here: usize) -> Option<Self> {
        let (code, others): (Vec<_>, Vec<_>) =
            regions.lines().filter_map(Region::read).partition(|region| region.place.contains(&here));
        let code = code.into_iter().find(|region| region.is_of_a_file)?;
        Some(Layout { code: code.place, others: others.into_iter().map(|region| region.place).collect() })
    }

    /// The beginnings of all places for a huge page that have a part of the code and nothing else.
    fn blocks(&self) -> impl Iterator<Item = usize> {
        let first = self.code.start / HUGE_PAGE * HUGE_PAGE;
        (first..self.code.end).step_by(HUGE_PAGE).filter(|&block| {
            self.others.iter().all(|other| other.end <= block || block.saturating_add(HUGE_PAGE) <= other.start)
        })
    }

    /// Lets go of every page of code, so that those come back that are used.
    fn forget_pages(&self) {
        // SAFETY: the region is the program's file, and code is never written to: its pages are read again as they were.
        unsafe { libc::madvise(self.code.start as *mut c_void, self.code.len(), libc::MADV_DONTNEED) };
    }

    /// How many pages of a block this process has in place.
    fn pages_in_place(&self, block: usize) -> usize {
        const IN_PLACE: u64 = 1 << 63;
        const ENTRY: usize = size_of::<u64>();
        let part = intersection(&self.code, &(block..block + HUGE_PAGE));
        let mut entries = vec![0; part.len() / PAGE * ENTRY];
        let read = File::open("/proc/self/pagemap")
            .and_then(|pagemap| pagemap.read_exact_at(&mut entries, (part.start / PAGE * ENTRY) as u64));
        let (entries, _) = entries.as_chunks::<ENTRY>();
        let in_place = entries.iter().filter(|entry| u64::from_ne_bytes(**entry) & IN_PLACE != 0).count();
        if read.is_ok() { in_place } else { 0 }
    }
}

/// A line such as `55adaca00000-55adacd33000 r-xp 00600000 fe:00 1020703 /usr/bin/toolgate`.
struct Region {
    place: Range<usize>,
    is_of_a_file: bool,
}

impl Region {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let address = |digits| usize::from_str_radix(digits, 16).ok();
        let inode = words.nth(3)?;
        Some(Region { place: address(start)?..address(end)?, is_of_a_file: inode != "0" })
    }
}

fn intersection(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    one.start.max(other.start)..one.end.min(other.end)
}

/// Puts a copy on huge pages in the place of the code there; leaves it alone when there are none.
fn replace(place: Range<usize>, code: &Range<usize>) -> io::Result<()> {
    let room = place.len() + HUGE_PAGE;
    // SAFETY: new memory at an address of the kernel's choice, large enough for an aligned copy of `place`. Once that is
    // moved away, or was of no use, nothing refers to what is left here.
    unsafe {
        let memory = mmap_anonymous(std::ptr::null_mut(), room, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?;
        let moved = copy_and_move(memory.wrapping_add(memory.align_offset(HUGE_PAGE)), &place, code);
        munmap(memory, room)?;
        moved
    }
}

/// # Safety
/// `copy` is unused memory of `place.len()` bytes, on the bounds of huge pages as `place` is. `place` has a part of
/// `code` and nothing else, and no other thread is there to run it.
unsafe fn copy_and_move(copy: *mut c_void, place: &Range<usize>, code: &Range<usize>) -> io::Result<()> {
    let part = intersection(place, code);
    // SAFETY: `part` can be read, since it is code, and lies in `place`, so its copy lies in `copy`. One system call then
    // puts the same bytes where they were: whoever runs there finds the next instruction as before.
    unsafe {
        libc::madvise(copy, place.len(), libc::MADV_HUGEPAGE);
        let start = copy.cast::<u8>().add(part.start - place.start);
        std::ptr::copy_nonoverlapping(part.start as *const u8, start, part.len());
        // An error, if these are not huge pages and cannot be made such: small ones would make forks slower.
        if libc::madvise(copy, place.len(), libc::MADV_COLLAPSE) != 0 {
            return Err(io::Error::last_os_error());
        }
        mprotect(copy, place.len(), MprotectFlags::READ | MprotectFlags::EXEC)?;
        mremap_fixed(copy, place.len(), place.len(), MremapFlags::MAYMOVE, place.start as *mut c_void)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose code begins on the bound of a huge page, ends within one, and is followed by its data.
    const REGIONS: &str = "\
        400000-575000 r--p 00000000 fe:00 7 /bin/program\n\
        600000-933000 r-xp 00200000 fe:00 7 /bin/program\n\
        a00000-a1c000 rw-p 00600000 fe:00 7 /bin/program\n\
        7ffd1000-7ffd2000 rw-p 00000000 00:00 0 [stack]\n";

    fn blocks(regions: &str) -> Vec<usize> {
        Layout::of(regions, 0x700000).expect("a region with code").blocks().collect()
    }

    #[test]
    fn the_last_piece_of_code_may_be_shorter_than_a_huge_page() {
        assert_eq!(blocks(REGIONS), [0x600000, 0x800000]);
    }

    #[test]
    fn a_place_that_has_other_things_is_left_alone() {
        assert_eq!(blocks(&REGIONS.replace("a00000-a1c000", "933000-a1c000")), [0x600000]);
        assert_eq!(blocks(&REGIONS.replace("400000-575000", "400000-600001")), [0x800000]);
        assert_eq!(blocks("6ff000-701000 r-xp 0 fe:00 7\n701000-702000 rw-p 0 00:00 0"), [0; 0]);
    }

    #[test]
    fn what_cannot_be_read_gives_no_layout() {
        assert!(Layout::of("", 0x700000).is_none());
        assert!(Layout::of("600000 933000 r-xp\nx-y r-xp 0 fe:00 7\n-\n600000-933000 r-xp", 0x700000).is_none());
        assert!(Layout::of(REGIONS, 0x599000).is_none());
    }

    #[test]
    fn code_that_is_no_files_is_left_alone() {
        // Such as an unpacker made: let go of, it would be gone.
        let unpacked = REGIONS.replace("r-xp 00200000 fe:00 7 /bin/program", "r-xp 00000000 00:00 0");
        assert!(Layout::of(&unpacked, 0x700000).is_none());
    }

    #[test]
    fn code_that_runs_is_in_place() {
        let layout = Layout::of_this_process().expect("this code");
        let here = code_that_runs_is_in_place as fn() as usize;
        assert!((1..=HUGE_PAGE / PAGE).contains(&layout.pages_in_place(here / HUGE_PAGE * HUGE_PAGE)));
    }
}
