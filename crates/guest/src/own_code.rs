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

/// Pages in place that make a huge page worth its copy. One fault of a fork brings sixteen.
const WORTH: usize = 96;

/// Has a rehearsal, and moves the code that it used to huge pages, as far as they can be had.
///
/// Called once, in the zygote, before it gives up files and the right to make code. The process must have one thread.
pub(crate) fn to_huge_pages(rehearse: impl FnOnce()) {
    let code = Code::of_this_process().filter(Code::is_as_in_its_file);
    code.iter().for_each(Code::forget_pages);
    rehearse();
    code.iter().for_each(Code::move_what_was_used);
}

/// Where the program's code lies in memory.
struct Code(Range<usize>);

impl Code {
    fn of_this_process() -> Option<Self> {
        let regions = std::fs::read_to_string("/proc/self/maps").ok()?;
        Code::find(&regions, Code::of_this_process as fn() -> _ as usize).filter(|_| rustix::param::page_size() == PAGE)
    }

    /// In the kernel's list of regions, the one with the address `here`. It must be a file's.
    fn find(regions: &str, here: usize) -> Option<Self> {
        regions.lines().filter_map(region_of_a_file).find(|region| region.contains(&here)).map(Code)
    }

    /// The places for a huge page that have a part of it.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let first = self.0.start / HUGE_PAGE * HUGE_PAGE;
        (first..self.0.end).step_by(HUGE_PAGE).map(|start| start..start + HUGE_PAGE)
    }

    /// Whether no page of it was written to: a debugger does that, and a linker that had to.
    fn is_as_in_its_file(&self) -> bool {
        pages(&self.0).is_ok_and(|pages| pages.iter().all(|page| !page.in_place || page.of_a_file))
    }

    /// Lets go of every page, so that those come back that are used.
    fn forget_pages(&self) {
        // SAFETY: the region is a file's, and none of its pages differs from it: they are read again as they were.
        unsafe { libc::madvise(self.0.start as *mut c_void, self.0.len(), libc::MADV_DONTNEED) };
    }

    fn move_what_was_used(&self) {
        for block in self.blocks() {
            // One that has other things, or gets no huge page, stays as it is.
            let _ = self.move_if_used(&block);
        }
    }

    fn move_if_used(&self, block: &Range<usize>) -> io::Result<()> {
        let part = self.0.start.max(block.start)..self.0.end.min(block.end);
        if pages(&part)?.iter().filter(|page| page.in_place).count() < WORTH {
            return Ok(());
        }
        claim(block.start..part.start)?;
        claim(part.end..block.end)?;
        replace(block, &part)
    }
}

/// The addresses in a line such as `55adaca00000-55adacd33000 r-xp 00600000 fe:00 1020703 /usr/bin/toolgate`.
fn region_of_a_file(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |digits| usize::from_str_radix(digits, 16).ok();
    let inode = words.nth(3)?;
    if inode == "0" { None } else { Some(address(start)?..address(end)?) }
}

/// What the kernel says of a page.
struct Page {
    in_place: bool,
    /// Not changed since it was read from there.
    of_a_file: bool,
}

fn pages(region: &Range<usize>) -> io::Result<Vec<Page>> {
    const ENTRY: usize = size_of::<u64>();
    let mut entries = vec![0; region.len() / PAGE * ENTRY];
    File::open("/proc/self/pagemap")?.read_exact_at(&mut entries, (region.start / PAGE * ENTRY) as u64)?;
    let (entries, _) = entries.as_chunks::<ENTRY>();
    let page = |bits: u64| Page { in_place: bits >> 63 & 1 == 1, of_a_file: bits >> 61 & 1 == 1 };
    Ok(entries.iter().map(|entry| page(u64::from_ne_bytes(*entry))).collect())
}

/// Takes a place where nothing is, so that nothing can come there; an error, if something is.
fn claim(place: Range<usize>) -> io::Result<()> {
    if place.is_empty() {
        return Ok(());
    }
    let wanted = place.start as *mut c_void;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: new memory that cannot be used. The kernel refuses it where there is some; one that is too old to
    // know how gives it elsewhere, and it is given back.
    unsafe {
        let got = mmap_anonymous(wanted, place.len(), ProtFlags::empty(), flags)?;
        if got != wanted {
            munmap(got, place.len())?;
            return Err(io::ErrorKind::AddrInUse.into());
        }
    }
    Ok(())
}

/// Puts a copy of `part` on a huge page in the place of `block`; leaves it alone when there is none.
fn replace(block: &Range<usize>, part: &Range<usize>) -> io::Result<()> {
    const ROOM: usize = 2 * HUGE_PAGE;
    // SAFETY: new memory at an address of the kernel's choice, large enough for an aligned huge page. Once that is
    // moved away, or was of no use, nothing refers to what is left here.
    unsafe {
        let memory = mmap_anonymous(std::ptr::null_mut(), ROOM, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?;
        let moved = copy_and_move(memory.wrapping_add(memory.align_offset(HUGE_PAGE)), block, part);
        munmap(memory, ROOM)?;
        moved
    }
}

/// # Safety
/// `copy` is the place of a huge page, in unused memory. `block` has `part`, which is code, and nothing else, and no other
/// thread is there to run it.
unsafe fn copy_and_move(copy: *mut c_void, block: &Range<usize>, part: &Range<usize>) -> io::Result<()> {
    // SAFETY: `part` can be read, since it is code, and lies in `block`, so its copy lies in `copy`. One system call then
    // puts the same bytes where they were: whoever runs there finds the next instruction as before.
    unsafe {
        libc::madvise(copy, HUGE_PAGE, libc::MADV_HUGEPAGE);
        let start = copy.cast::<u8>().add(part.start - block.start);
        std::ptr::copy_nonoverlapping(part.start as *const u8, start, part.len());
        // An error, if this is no huge page and cannot be made one: small ones would make forks slower.
        if libc::madvise(copy, HUGE_PAGE, libc::MADV_COLLAPSE) != 0 {
            return Err(io::Error::last_os_error());
        }
        mprotect(copy, HUGE_PAGE, MprotectFlags::READ | MprotectFlags::EXEC)?;
        mremap_fixed(copy, HUGE_PAGE, HUGE_PAGE, MremapFlags::MAYMOVE, block.start as *mut c_void)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGIONS: &str = "\
        400000-575000 r--p 00000000 fe:00 7 /bin/program\n\
        600000-933000 r-xp 00200000 fe:00 7 /bin/program\n\
        7ffd1000-7ffd2000 rw-p 00000000 00:00 0 [stack]\n";

    #[test]
    fn code_is_found_by_an_address_in_it_and_looked_at_by_huge_pages() {
        let code = Code::find(REGIONS, 0x700000).expect("a region with code");
        assert_eq!(code.0, 0x600000..0x933000);
        assert_eq!(code.blocks().collect::<Vec<_>>(), [0x600000..0x800000, 0x800000..0xa00000]);
    }

    #[test]
    fn what_cannot_be_read_is_no_code() {
        assert!(Code::find("", 0x700000).is_none());
        assert!(Code::find("600000 933000 r-xp\nx-y r-xp 0 fe:00 7\n-\n600000-933000 r-xp", 0x700000).is_none());
        assert!(Code::find(REGIONS, 0x599000).is_none());
    }

    #[test]
    fn code_that_is_no_files_is_left_alone() {
        // Such as an unpacker made: let go of, it would be gone.
        let unpacked = REGIONS.replace("r-xp 00200000 fe:00 7 /bin/program", "r-xp 00000000 00:00 0");
        assert!(Code::find(&unpacked, 0x700000).is_none());
    }

    #[test]
    fn code_that_runs_is_in_place() {
        let Some(code) = Code::of_this_process() else { return eprintln!("skipped: pages of another size") };
        assert!(code.is_as_in_its_file());
        assert!(pages(&code.0).expect("pages").iter().any(|page| page.in_place));
    }

    #[test]
    fn a_page_that_was_written_to_is_no_files_any_more() {
        let written = vec![1_u8; 3 * PAGE];
        let start = written.as_ptr().addr().next_multiple_of(PAGE);
        let pages = pages(&(start..start + PAGE)).expect("pages");
        assert!(pages[0].in_place && !pages[0].of_a_file);
    }

    #[test]
    fn a_place_that_has_something_cannot_be_claimed() {
        let held = vec![1_u8; 3 * PAGE];
        let start = held.as_ptr().addr().next_multiple_of(PAGE);
        claim(start..start + PAGE).expect_err("there is something");
        assert!(held.iter().all(|byte| *byte == 1), "it is still there");
        claim(start..start).expect("nothing to claim");
    }
}
