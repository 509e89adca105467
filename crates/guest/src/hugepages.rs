//! Moves this program's code to huge pages, which forks share.
//!
//! `fork` does not copy the page table entries of file mappings. Every worker would fault the interpreter's code in again,
//! sixteen pages at a time, and the kernel would unmap each page when the worker ends. A huge page of anonymous memory is
//! one page table entry, and is copied. So the zygote runs a warm-up program, looks which parts of its code that used,
//! copies them to huge pages and maps these over the original: the same bytes at the same addresses.
//!
//! This changes speed only. Where the kernel has no free huge page, or the 2 MB block holds other mappings (the linker
//! aligns the program for it, see `crates/cli/build.rs`), the code stays in its file mapping.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags, mmap_anonymous, mprotect, mremap_fixed, munmap};

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 * 1024 * 1024;

/// Pages of a block that must be in use for a huge page to be worth its copy. One fault maps sixteen.
const MIN_PAGES_IN_USE: usize = 96;

/// Runs `warm_up`, and moves the code that it used to huge pages, as far as the kernel has some.
///
/// Called once, in the zygote, before it gives up files and the right to map code. The process must have one thread.
pub(crate) fn move_code(warm_up: impl FnOnce()) {
    let code = Code::of_this_process().filter(Code::is_as_in_its_file);
    code.iter().for_each(Code::release_pages);
    warm_up();
    code.iter().for_each(Code::move_what_was_used);
}

/// The addresses of the program's code.
struct Code(Range<usize>);

impl Code {
    fn of_this_process() -> Option<Self> {
        let regions = std::fs::read_to_string("/proc/self/maps").ok()?;
        Code::find(&regions, Code::of_this_process as fn() -> _ as usize).filter(|_| rustix::param::page_size() == PAGE)
    }

    /// The region of the kernel's list that has the address `here`. It must be a file mapping.
    fn find(regions: &str, here: usize) -> Option<Self> {
        regions.lines().filter_map(region_of_a_file).find(|region| region.contains(&here)).map(Code)
    }

    /// The aligned blocks of 2 MB that hold a part of it.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let first = self.0.start / HUGE_PAGE * HUGE_PAGE;
        (first..self.0.end).step_by(HUGE_PAGE).map(|start| start..start + HUGE_PAGE)
    }

    /// Whether no page was written to; debuggers write, and so do linkers that relocate code.
    fn is_as_in_its_file(&self) -> bool {
        pages(&self.0).is_ok_and(|pages| pages.iter().all(|page| !page.is_mapped || page.is_of_file))
    }

    /// Unmaps every page, so that those in use are the ones that are faulted in again.
    fn release_pages(&self) {
        // SAFETY: the region maps a file, and none of its pages differs from it: they are read from there again.
        unsafe { libc::madvise(self.0.start as *mut c_void, self.0.len(), libc::MADV_DONTNEED) };
    }

    fn move_what_was_used(&self) {
        for block in self.blocks() {
            // A block that holds other mappings, or gets no huge page, stays as it is.
            let _ = self.move_if_used(&block);
        }
    }

    fn move_if_used(&self, block: &Range<usize>) -> io::Result<()> {
        let part = self.0.start.max(block.start)..self.0.end.min(block.end);
        if pages(&part)?.iter().filter(|page| page.is_mapped).count() < MIN_PAGES_IN_USE {
            return Ok(());
        }
        reserve(block.start..part.start)?;
        reserve(part.end..block.end)?;
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
    is_mapped: bool,
    /// Still the file's, not a private copy.
    is_of_file: bool,
}

fn pages(region: &Range<usize>) -> io::Result<Vec<Page>> {
    const ENTRY: usize = size_of::<u64>();
    let mut entries = vec![0; region.len() / PAGE * ENTRY];
    File::open("/proc/self/pagemap")?.read_exact_at(&mut entries, (region.start / PAGE * ENTRY) as u64)?;
    let (entries, _) = entries.as_chunks::<ENTRY>();
    let page = |bits: u64| Page { is_mapped: bits >> 63 & 1 == 1, is_of_file: bits >> 61 & 1 == 1 };
    Ok(entries.iter().map(|entry| page(u64::from_ne_bytes(*entry))).collect())
}

/// Reserves addresses that nothing is mapped at; an error, if something is.
fn reserve(place: Range<usize>) -> io::Result<()> {
    if place.is_empty() {
        return Ok(());
    }
    let wanted = place.start as *mut c_void;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: new memory without access. The kernel refuses addresses that are taken; one that does not know the flag maps
    // it elsewhere, and it is unmapped again.
    unsafe {
        let got = mmap_anonymous(wanted, place.len(), ProtFlags::empty(), flags)?;
        if got != wanted {
            munmap(got, place.len())?;
            return Err(io::ErrorKind::AddrInUse.into());
        }
    }
    Ok(())
}

/// Maps a huge page with a copy of `part` over `block`; an error, and no change, where the kernel has none.
fn replace(block: &Range<usize>, part: &Range<usize>) -> io::Result<()> {
    const ROOM: usize = 2 * HUGE_PAGE;
    // SAFETY: new memory at an address of the kernel's choice, large enough for an aligned huge page. Once that is
    // moved, or could not be made, nothing refers to the rest.
    unsafe {
        let memory = mmap_anonymous(std::ptr::null_mut(), ROOM, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?;
        let moved = copy_and_move(memory.wrapping_add(memory.align_offset(HUGE_PAGE)), block, part);
        munmap(memory, ROOM)?;
        moved
    }
}

/// # Safety
/// `copy` is aligned for a huge page, in unused memory. `block` holds `part`, which is code, and no other mapping, and the
/// process has no other thread.
unsafe fn copy_and_move(copy: *mut c_void, block: &Range<usize>, part: &Range<usize>) -> io::Result<()> {
    // SAFETY: `part` can be read, since it is code, and lies in `block`, so its copy lies in `copy`. One system call then
    // maps the same bytes at the same addresses: this function's next instruction is where it was.
    unsafe {
        libc::madvise(copy, HUGE_PAGE, libc::MADV_HUGEPAGE);
        let start = copy.cast::<u8>().add(part.start - block.start);
        std::ptr::copy_nonoverlapping(part.start as *const u8, start, part.len());
        // An error, if this is no huge page and cannot be made one: small anonymous pages would make forks slower.
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
    fn lines_of_another_form_are_skipped() {
        assert!(Code::find("", 0x700000).is_none());
        assert!(Code::find("600000 933000 r-xp\nx-y r-xp 0 fe:00 7\n-\n600000-933000 r-xp", 0x700000).is_none());
        assert!(Code::find(REGIONS, 0x599000).is_none());
    }

    #[test]
    fn code_of_no_file_is_left_alone() {
        // An unpacker makes such code; unmapped, it would be lost.
        let unpacked = REGIONS.replace("r-xp 00200000 fe:00 7 /bin/program", "r-xp 00000000 00:00 0");
        assert!(Code::find(&unpacked, 0x700000).is_none());
    }

    #[test]
    fn code_that_runs_is_mapped() {
        let Some(code) = Code::of_this_process() else { return eprintln!("skipped: pages of another size") };
        assert!(code.is_as_in_its_file());
        assert!(pages(&code.0).expect("pages").iter().any(|page| page.is_mapped));
    }

    #[test]
    fn a_page_that_was_written_to_is_a_private_copy() {
        let written = vec![1_u8; 3 * PAGE];
        let start = written.as_ptr().addr().next_multiple_of(PAGE);
        let pages = pages(&(start..start + PAGE)).expect("pages");
        assert!(pages[0].is_mapped && !pages[0].is_of_file);
    }

    #[test]
    fn addresses_that_are_taken_cannot_be_reserved() {
        let held = vec![1_u8; 3 * PAGE];
        let start = held.as_ptr().addr().next_multiple_of(PAGE);
        reserve(start..start + PAGE).expect_err("taken");
        assert!(held.iter().all(|byte| *byte == 1), "unchanged");
        reserve(start..start).expect("nothing to reserve");
    }
}
