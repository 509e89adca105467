//! Which pages of a process may differ from its snapshot, and their contents.
//!
//! Without the kernel's record of writes (`CONFIG_MEM_SOFT_DIRTY` is rare, and costs a fault for each page that is written) a
//! page is compared if it may have been written: if no other process maps it, or if it is mapped in another way than it was. A
//! page that is still shared with the zygote was not written, since a write would have copied it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use libc::pid_t;

use crate::Refusal;
use crate::kernel::{self, AddressRange, MAX_PAGES_PER_CALL, PAGE};
use crate::mappings::Mapping;

/// How a page is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    /// Not at all: it reads as zeroes, or as its file.
    Absent,
    /// The kernel's page of zeroes.
    Zero,
    /// A page of its file.
    OfFile,
    /// A private page that another process maps as well: the parent or a sibling, from before a fork.
    Shared,
    /// A private page of this process alone.
    Own,
}

impl Page {
    /// Reads an entry of `/proc/PID/pagemap`.
    fn of(entry: u64) -> Self {
        let has = |bit: u32| entry & (1 << bit) != 0;
        let (is_present, is_swapped, is_of_file, is_exclusive) = (has(63), has(62), has(61), has(56));
        match (is_present, is_of_file) {
            (false, _) if is_swapped => Page::Own,
            (false, _) => Page::Absent,
            (true, true) => Page::OfFile,
            (true, false) if is_exclusive => Page::Own,
            (true, false) => Page::Shared,
        }
    }

    /// Whether a page that is mapped like this now has the contents that it had when it was mapped like `before`.
    fn is_unchanged_since(self, before: Page) -> bool {
        matches!(
            (before, self),
            (Page::Shared, Page::Shared)
                | (Page::Absent | Page::Zero, Page::Absent | Page::Zero)
                | (Page::Absent | Page::OfFile, Page::Absent | Page::OfFile)
        )
    }
}

/// A mapping that can be written.
struct Region {
    range: AddressRange,
    pages: Vec<Page>,
    /// Where in the contents each page is.
    stored: Vec<Option<u32>>,
}

/// All memory that the process can write.
pub(crate) struct Memory {
    regions: Vec<Region>,
    contents: Vec<u8>,
}

/// A page that may differ: its address, and where its contents are.
type Candidate = (u64, Option<u32>);

const ZEROES: [u8; PAGE] = [0; PAGE];

impl Memory {
    /// Copies everything that a stopped process can write.
    pub(crate) fn of(pid: pid_t, pagemap: &File, mappings: &[Mapping]) -> Result<Self, Refusal> {
        let mut memory = Memory { regions: Vec::new(), contents: Vec::new() };
        for mapping in mappings.iter().filter(|mapping| mapping.is_writable) {
            if !mapping.is_private {
                return Err(Refusal::Differs("memory that is shared with another process"));
            }
            memory.add(pid, pagemap, mapping)?;
        }
        Ok(memory)
    }

    fn add(&mut self, pid: pid_t, pagemap: &File, mapping: &Mapping) -> Result<(), Refusal> {
        let has_contents = |page: &Page| mapping.is_of_file || !matches!(page, Page::Absent | Page::Zero);
        let before = look(pagemap, mapping.range)?;
        let first = u32::try_from(self.contents.len() / PAGE).unwrap_or(u32::MAX);
        let mut next = first..u32::MAX;
        let stored: Vec<_> = before.iter().map(|page| if has_contents(page) { next.next() } else { None }).collect();
        let addresses: Vec<u64> = addresses(mapping.range).zip(&stored).filter_map(|(at, to)| to.map(|_| at)).collect();
        for part in addresses.chunks(MAX_PAGES_PER_CALL) {
            let start = self.contents.len();
            self.contents.resize(start + part.len() * PAGE, 0);
            kernel::read_pages(pid, part.iter().copied(), &mut self.contents[start..])
                .map_err(|error| Refusal::Kernel("reading", error))?;
        }
        // Pages of a file are mapped by reading them.
        self.regions.push(Region { range: mapping.range, pages: look(pagemap, mapping.range)?, stored });
        Ok(())
    }

    /// Puts every page of a stopped process back; returns how many differed. Its mappings must be those of the snapshot.
    pub(crate) fn restore(&self, pid: pid_t, pagemap: &File) -> Result<usize, Refusal> {
        let mut candidates: Vec<Candidate> = Vec::new();
        for region in &self.regions {
            let now = look(pagemap, region.range)?;
            let pages = addresses(region.range).zip(&region.stored).zip(region.pages.iter().zip(&now));
            let differing = pages.filter(|(_, (before, now))| !now.is_unchanged_since(**before));
            candidates.extend(differing.map(|((at, stored), _)| (at, *stored)));
        }
        let mut now = vec![0; candidates.len().min(MAX_PAGES_PER_CALL) * PAGE];
        let mut restored = 0;
        for part in candidates.chunks(MAX_PAGES_PER_CALL) {
            restored += self.restore_part(pid, part, &mut now[..part.len() * PAGE])?;
        }
        Ok(restored)
    }

    /// Reads the candidates into `now`, and writes those that differ.
    fn restore_part(&self, pid: pid_t, candidates: &[Candidate], now: &mut [u8]) -> Result<usize, Refusal> {
        let addresses = candidates.iter().map(|(at, _)| *at);
        kernel::read_pages(pid, addresses, now).map_err(|error| Refusal::Kernel("reading", error))?;
        let mut differing = Vec::with_capacity(candidates.len());
        for ((at, stored), now) in candidates.iter().zip(now.chunks_exact(PAGE)) {
            let before = self.contents_of(*stored)?;
            if now != before {
                differing.push((*at, before));
            }
        }
        if !differing.is_empty() {
            kernel::write_pages(pid, &differing).map_err(|error| Refusal::Kernel("writing", error))?;
        }
        Ok(differing.len())
    }

    fn contents_of(&self, stored: Option<u32>) -> Result<&[u8], Refusal> {
        let Some(stored) = stored else { return Ok(&ZEROES) };
        let start = stored as usize * PAGE;
        self.contents.get(start..start + PAGE).ok_or(Refusal::Differs("a page that was not copied"))
    }
}

fn addresses(range: AddressRange) -> impl Iterator<Item = u64> {
    (range.0..range.1).step_by(PAGE)
}

/// How each page of a range is mapped.
fn look(pagemap: &File, range: AddressRange) -> Result<Vec<Page>, Refusal> {
    let kernel = |error| Refusal::Kernel("page table", error);
    let mut entries = vec![0; (range.1 - range.0) as usize / PAGE * 8];
    pagemap.read_exact_at(&mut entries, range.0 / PAGE as u64 * 8).map_err(kernel)?;
    let (words, _) = entries.as_chunks::<8>();
    let mut pages: Vec<Page> = words.iter().map(|word| Page::of(u64::from_ne_bytes(*word))).collect();
    let mut zeroes = Vec::new();
    kernel::zero_pages(pagemap, range, &mut zeroes).map_err(kernel)?;
    for (start, end) in zeroes {
        let at = |address: u64| (address.clamp(range.0, range.1) - range.0) as usize / PAGE;
        pages[at(start)..at(end)].fill(Page::Zero);
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_that_cannot_have_been_written_is_taken_as_unchanged() {
        use Page::{Absent, OfFile, Own, Shared, Zero};
        for before in [Absent, Zero, OfFile, Shared, Own] {
            assert!(!Own.is_unchanged_since(before), "{before:?}");
        }
        for now in [Absent, Zero, OfFile, Own] {
            assert!(!now.is_unchanged_since(Own) && !now.is_unchanged_since(Shared), "{now:?}");
        }
        assert!(
            Shared.is_unchanged_since(Shared) && Zero.is_unchanged_since(Absent) && Absent.is_unchanged_since(OfFile)
        );
        assert!(!OfFile.is_unchanged_since(Zero) && !Zero.is_unchanged_since(OfFile));
    }

    #[test]
    fn an_entry_of_the_page_table_is_read() {
        assert_eq!(Page::of(0), Page::Absent);
        assert_eq!(Page::of(1 << 62), Page::Own);
        assert_eq!(Page::of(1 << 63), Page::Shared);
        assert_eq!(Page::of(1 << 63 | 1 << 56), Page::Own);
        assert_eq!(Page::of(1 << 63 | 1 << 61 | 1 << 56), Page::OfFile);
    }
}
