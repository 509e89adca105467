//! Which pages of a process may differ from its snapshot, and their contents.
//!
//! Without the kernel's record of writes (`CONFIG_MEM_SOFT_DIRTY`, which not every kernel has, and which takes a fault for each page that is written) a
//! page is put back if it may have been written: if no other process maps it, or if it is mapped in another way than it was. A
//! page that is still shared with the zygote was not written, since a write would have copied it.
//!
//! A page of the process's own is written without a look at it: comparing it first takes more time than writing it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use libc::pid_t;

use crate::Refusal;
use crate::kernel::{self, AddressRange, MAX_PAGES_PER_READ, MAX_PAGES_PER_WRITE, Mapped, PAGE};
use crate::mappings::Mapping;

/// How a page is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    /// Not at all, or by a page of its file: it reads as zeroes, or as its file.
    Untouched,
    /// The kernel's page of zeroes.
    Zero,
    /// A private page that another process maps as well: the parent or a sibling, from before a fork.
    Shared,
    /// A private page of this process alone.
    Own,
}

impl Page {
    /// Whether a page that is mapped like this now has the contents that it had when it was mapped like `before`.
    fn is_unchanged_since(self, before: Page) -> bool {
        matches!(
            (before, self),
            (Page::Shared, Page::Shared) | (Page::Untouched | Page::Zero, Page::Untouched | Page::Zero)
        )
    }
}

/// A mapping that can be written.
struct Region {
    range: AddressRange,
    /// How each page was mapped, when the snapshot was taken or at an earlier rewind that put it back.
    pages: Vec<Page>,
    /// Where in the contents each page is.
    stored: Vec<Option<u32>>,
}

/// All memory that the process can write.
pub(crate) struct Memory {
    /// By address.
    regions: Vec<Region>,
    /// Ranges that have all regions, and little else, each looked at by one system call.
    spans: Vec<AddressRange>,
    contents: Vec<[u8; PAGE]>,
}

/// Regions that are as close to each other are looked at together. What is between them is looked at as well.
const MAX_GAP: u64 = 16 * PAGE as u64;

const ZEROES: [u8; PAGE] = [0; PAGE];

impl Memory {
    /// Copies everything that a stopped process can write.
    pub(crate) fn of(pid: pid_t, pagemap: &File, mappings: &[Mapping]) -> Result<Self, Refusal> {
        let writable: Vec<_> = mappings.iter().filter(|mapping| mapping.is_writable).collect();
        if writable.iter().any(|mapping| !mapping.is_private) {
            return Err(Refusal::Differs("memory that is shared with another process"));
        }
        let mut memory = Memory {
            regions: writable.iter().map(|mapping| Region::new(mapping.range)).collect(),
            spans: spans(writable.iter().map(|mapping| mapping.range)),
            contents: Vec::new(),
        };
        let mut before = memory.look(pagemap)?;
        for (mapping, pages) in writable.iter().zip(&mut before) {
            // A page of zeroes has no place in a file: whatever it is, it is put back each time.
            let strange = |page: &&mut Page| mapping.is_of_file && **page == Page::Zero;
            pages.iter_mut().filter(strange).for_each(|page| *page = Page::Own);
        }
        for (at, pages) in before.into_iter().enumerate() {
            memory.copy(pid, at, writable[at].is_of_file, pages)?;
        }
        Ok(memory)
    }

    /// Copies the pages of a region.
    fn copy(&mut self, pid: pid_t, at: usize, is_of_file: bool, pages: Vec<Page>) -> Result<(), Refusal> {
        let region = &mut self.regions[at];
        let has_contents = |page: &Page| is_of_file || !matches!(page, Page::Untouched | Page::Zero);
        let first = u32::try_from(self.contents.len()).unwrap_or(u32::MAX);
        let mut next = first..u32::MAX;
        region.stored = pages.iter().map(|page| if has_contents(page) { next.next() } else { None }).collect();
        region.pages = pages;
        let stored = addresses(region.range).zip(&region.stored);
        let addresses: Vec<u64> = stored.filter_map(|(at, to)| to.map(|_| at)).collect();
        for part in addresses.chunks(MAX_PAGES_PER_READ) {
            let start = self.contents.len();
            self.contents.resize(start + part.len(), ZEROES);
            let into = self.contents[start..].as_flattened_mut();
            kernel::read_pages(pid, part.iter().copied(), into).map_err(|error| Refusal::Kernel("reading", error))?;
        }
        Ok(())
    }

    /// Puts every page of a stopped process back; returns how many were written. Its mappings must be those of the snapshot.
    pub(crate) fn restore(&mut self, pid: pid_t, pagemap: &File) -> Result<usize, Refusal> {
        let all = self.look(pagemap)?;
        let mut written = Vec::new();
        let mut compared = Vec::new();
        for (region, now) in self.regions.iter_mut().zip(all) {
            let pages = addresses(region.range).zip(&region.stored).zip(region.pages.iter_mut().zip(now));
            for ((at, stored), (before, now)) in pages {
                if now == Page::Own {
                    // From here on it stays the process's own, so that nothing need be asked about it.
                    *before = Page::Own;
                    written.push((at, contents_of(&self.contents, *stored)?));
                } else if !now.is_unchanged_since(*before) {
                    compared.push((at, contents_of(&self.contents, *stored)?));
                }
            }
        }
        written.extend(differing(pid, &compared)?);
        for part in written.chunks(MAX_PAGES_PER_WRITE) {
            kernel::write_pages(pid, part).map_err(|error| Refusal::Kernel("writing", error))?;
        }
        Ok(written.len())
    }

    /// How each page of each region is mapped now.
    fn look(&self, pagemap: &File) -> Result<Vec<Vec<Page>>, Refusal> {
        let kernel = |error| Refusal::Kernel("page table", error);
        let mut found = Vec::new();
        for span in &self.spans {
            kernel::scan(pagemap, *span, &mut found).map_err(kernel)?;
        }
        let mut all: Vec<_> = self.regions.iter().map(|region| vec![Page::Untouched; region.pages.len()]).collect();
        for (range, mapped) in found {
            let first = self.regions.partition_point(|region| region.range.1 <= range.0);
            let regions = self.regions.iter().zip(&mut all).skip(first);
            for (region, pages) in regions.take_while(|(region, _)| region.range.0 < range.1) {
                region.note(pagemap, range, mapped, pages).map_err(kernel)?;
            }
        }
        Ok(all)
    }
}

impl Region {
    /// A region of which nothing is known.
    fn new(range: AddressRange) -> Self {
        let count = (range.1 - range.0) as usize / PAGE;
        Region { range, pages: vec![Page::Shared; count], stored: Vec::new() }
    }

    /// Notes in `pages` what is mapped at the part of `range` that is in this region.
    fn note(&self, pagemap: &File, range: AddressRange, mapped: Mapped, pages: &mut [Page]) -> io::Result<()> {
        let range = (range.0.max(self.range.0), range.1.min(self.range.1));
        let at = |address: u64| (address - self.range.0) as usize / PAGE;
        let (before, pages) = (&self.pages[at(range.0)..at(range.1)], &mut pages[at(range.0)..at(range.1)]);
        pages.fill(if mapped == Mapped::Zero { Page::Zero } else { Page::Own });
        // A page that was the process's own is put back in any case.
        let is_open = |page: &Page| mapped == Mapped::Memory && *page != Page::Own;
        let (Some(first), Some(last)) = (before.iter().position(is_open), before.iter().rposition(is_open)) else {
            return Ok(());
        };
        let mut entries = vec![[0; 8]; last - first + 1];
        let offset = (range.0 / PAGE as u64 + first as u64) * 8;
        pagemap.read_exact_at(entries.as_flattened_mut(), offset)?;
        for (page, entry) in pages[first..].iter_mut().zip(entries) {
            *page = if is_shared(u64::from_ne_bytes(entry)) { Page::Shared } else { Page::Own };
        }
        Ok(())
    }
}

/// Whether an entry of `/proc/PID/pagemap` is of a page that is present and that another process maps as well.
fn is_shared(entry: u64) -> bool {
    let has = |bit: u32| entry & (1 << bit) != 0;
    let (is_present, is_exclusive) = (has(63), has(56));
    is_present && !is_exclusive
}

fn contents_of(contents: &[[u8; PAGE]], stored: Option<u32>) -> Result<&[u8; PAGE], Refusal> {
    let Some(stored) = stored else { return Ok(&ZEROES) };
    contents.get(stored as usize).ok_or(Refusal::Differs("a page that was not copied"))
}

/// Those that do not have the contents that they should have.
fn differing<'a>(pid: pid_t, pages: &[(u64, &'a [u8; PAGE])]) -> Result<Vec<(u64, &'a [u8; PAGE])>, Refusal> {
    let mut differing = Vec::new();
    for part in pages.chunks(MAX_PAGES_PER_READ) {
        let mut now = vec![ZEROES; part.len()];
        let addresses = part.iter().map(|(at, _)| *at);
        kernel::read_pages(pid, addresses, now.as_flattened_mut())
            .map_err(|error| Refusal::Kernel("reading", error))?;
        differing.extend(part.iter().zip(&now).filter(|((_, before), now)| before != now).map(|(page, _)| *page));
    }
    Ok(differing)
}

fn addresses(range: AddressRange) -> impl Iterator<Item = u64> {
    (range.0..range.1).step_by(PAGE)
}

/// Ranges that have all of `ranges`, which are in order; neighbours are in one.
fn spans(ranges: impl Iterator<Item = AddressRange>) -> Vec<AddressRange> {
    let mut spans: Vec<AddressRange> = Vec::new();
    for (start, end) in ranges {
        match spans.last_mut() {
            Some(last) if start - last.1 <= MAX_GAP => last.1 = end,
            _ => spans.push((start, end)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_that_cannot_have_been_written_is_taken_as_unchanged() {
        use Page::{Own, Shared, Untouched, Zero};
        for before in [Untouched, Zero, Shared, Own] {
            assert!(!Own.is_unchanged_since(before), "{before:?}");
        }
        for now in [Untouched, Zero, Own] {
            assert!(!now.is_unchanged_since(Own) && !now.is_unchanged_since(Shared), "{now:?}");
        }
        assert!(!Shared.is_unchanged_since(Own) && !Shared.is_unchanged_since(Untouched));
        assert!(Shared.is_unchanged_since(Shared) && Zero.is_unchanged_since(Untouched));
    }

    #[test]
    fn only_a_present_page_can_be_shared() {
        assert!(is_shared(1 << 63));
        assert!(!is_shared(1 << 63 | 1 << 56) && !is_shared(0) && !is_shared(1 << 62));
    }

    #[test]
    fn neighbours_are_looked_at_together() {
        let far = 3 * MAX_GAP;
        assert_eq!(
            spans([(0, 4096), (8192, far), (far + MAX_GAP + 1, 2 * far)].into_iter()),
            [(0, far), (far + MAX_GAP + 1, 2 * far)]
        );
    }
}
