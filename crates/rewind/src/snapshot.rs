//! Takes a snapshot of a process and returns to it.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;

use libc::pid_t;

use crate::Refusal;
use crate::identity::{Bounds, Identity};
use crate::kernel::{self, AddressRange, PAGE};
use crate::mappings::{Mapping, Mappings, Seals};
use crate::pages::Memory;
use crate::registers::{Extended, General, is_call};
use crate::tracee::Tracee;

/// Mappings that a run may add. More of them end its process.
const MAX_ADDED: usize = 64;

/// The state of a process that waits for its first message.
pub struct Snapshot {
    pid: pid_t,
    files: ProcessFiles,
    mappings: Mappings,
    memory: Memory,
    identity: Identity,
    waiting: General,
    extended: Extended,
    program_break: u64,
    /// Pages of all mappings together, if as many pages are the same mappings.
    size: Option<u64>,
}

/// What had to be put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Pages that were written.
    pub pages: usize,
    /// Ranges of mappings that were removed.
    pub mappings: usize,
}

impl Snapshot {
    /// Stops a child, takes the snapshot when the child waits for a message on descriptor 0, and has it wait on.
    ///
    /// The child must not have read any message yet. It is killed if this fails after it was stopped.
    pub fn take(pid: u32) -> Result<Self, Refusal> {
        let pid = pid_t::try_from(pid).map_err(|_| Refusal::Ended)?;
        let files = ProcessFiles::open(pid)?;
        let tracee = Tracee::stop(pid)?;
        let waiting = tracee.run_to_wait()?;
        check_call(pid, &waiting)?;
        let extended = Extended::of(pid)?;
        // Asking for a break at zero returns where it is.
        let program_break = tracee.call(&waiting, libc::SYS_brk, 0, 0)?;
        waiting.set(pid)?;
        let seals = Seals::of(&fs::read_to_string(format!("/proc/{pid}/smaps")).map_err(in_proc)?);
        if !seals.stack {
            return Err(Refusal::NotSealed);
        }
        let mappings = files.mappings()?;
        let all = mappings.all()?;
        let is_fixed = seals.all && is_fixed(program_break, &all);
        let snapshot = Snapshot {
            pid,
            memory: Memory::of(pid, &files.pagemap, &all)?,
            mappings,
            identity: Identity::of(pid, &text_at_once(&files.status)?)?,
            waiting,
            extended,
            program_break,
            size: if is_fixed { Some(files.size()?) } else { None },
            files,
        };
        tracee.release()?;
        Ok(snapshot)
    }

    /// Stops the process, wherever it is. Then nothing more comes from it.
    pub fn stop(&mut self) -> Result<Stopped<'_>, Refusal> {
        Ok(Stopped { tracee: Tracee::stop(self.pid)?, snapshot: self })
    }
}

/// A process that is stopped. It is killed unless it is rewound.
pub struct Stopped<'a> {
    tracee: Tracee,
    snapshot: &'a mut Snapshot,
}

impl Stopped<'_> {
    /// Puts everything back and has the process wait for a message again. `bounds` are the limits that it must have.
    pub fn rewind(self, bounds: Bounds) -> Result<Restored, Refusal> {
        let Stopped { tracee, snapshot } = self;
        let pid = tracee.pid();
        snapshot.identity.check(&text_at_once(&snapshot.files.status)?)?;
        if Bounds::parse(&text_at_once(&snapshot.files.limits)?) != Some(bounds) {
            return Err(Refusal::Differs("a limit"));
        }
        let mappings = snapshot.restore_mappings(&tracee)?;
        let pages = snapshot.memory.restore(pid, &snapshot.files.pagemap)?;
        snapshot.restore_registers(pid)?;
        tracee.release()?;
        Ok(Restored { pages, mappings })
    }
}

impl Snapshot {
    /// Removes mappings that were added, then compares the list.
    fn restore_mappings(&self, tracee: &Tracee) -> Result<usize, Refusal> {
        // None of the snapshot's can be gone, so that another one would be more.
        if self.size.is_some() && self.size == Some(self.files.size()?) {
            return Ok(0);
        }
        // No list shows where the break is.
        if tracee.call(&self.waiting, libc::SYS_brk, self.program_break, 0)? != self.program_break {
            return Err(Refusal::Differs("the program break"));
        }
        let now = self.files.mappings()?;
        if now == self.mappings {
            return Ok(0);
        }
        let added = now.added_since(&self.mappings)?;
        if added.len() > MAX_ADDED {
            return Err(Refusal::Differs("the number of mappings"));
        }
        added.iter().try_for_each(|range| self.unmap(tracee, *range))?;
        if self.files.mappings()? == self.mappings { Ok(added.len()) } else { Err(Refusal::Differs("a mapping")) }
    }

    fn unmap(&self, tracee: &Tracee, (start, end): AddressRange) -> Result<(), Refusal> {
        match tracee.call(&self.waiting, libc::SYS_munmap, start, end - start)? {
            0 => Ok(()),
            _ => Err(Refusal::Differs("a mapping")),
        }
    }

    /// Sets the registers, and reads them again: the kernel ignores parts that it does not let a tracer set.
    fn restore_registers(&self, pid: pid_t) -> Result<(), Refusal> {
        self.extended.set(pid)?;
        self.waiting.set(pid)?;
        if !self.extended.are_of(pid)? || General::of(pid)? != self.waiting {
            return Err(Refusal::Differs("a register"));
        }
        Ok(())
    }
}

/// Whether the program break cannot be moved: not down, since the heap is sealed, not up, since another mapping begins there,
/// and not within its page, which the process's filter denies.
fn is_fixed(program_break: u64, mappings: &[Mapping]) -> bool {
    program_break.is_multiple_of(PAGE as u64) && mappings.iter().any(|mapping| mapping.range.0 == program_break)
}

/// Fails unless the instruction with which the process waits is a system call: others are made by it.
fn check_call(pid: pid_t, waiting: &General) -> Result<(), Refusal> {
    let mut code = [0; PAGE];
    let page = waiting.next() / PAGE as u64 * PAGE as u64;
    let offset = (waiting.next() - page) as usize;
    kernel::read_pages(pid, std::iter::once(page), &mut code).map_err(|error| Refusal::Kernel("reading", error))?;
    if is_call(&code[offset..]) { Ok(()) } else { Err(Refusal::NotWaiting) }
}

/// The kernel's files about a process, open as long as the snapshot is kept.
struct ProcessFiles {
    maps: File,
    status: File,
    pagemap: File,
    limits: File,
    statm: File,
}

impl ProcessFiles {
    fn open(pid: pid_t) -> Result<Self, Refusal> {
        let open = |name| File::open(format!("/proc/{pid}/{name}")).map_err(in_proc);
        Ok(ProcessFiles {
            maps: open("maps")?,
            status: open("status")?,
            pagemap: open("pagemap")?,
            limits: open("limits")?,
            statm: open("statm")?,
        })
    }

    fn mappings(&self) -> Result<Mappings, Refusal> {
        text(&self.maps).map(Mappings)
    }

    /// Pages of all mappings together.
    fn size(&self) -> Result<u64, Refusal> {
        let text = text_at_once(&self.statm)?;
        let first = text.split_ascii_whitespace().next().and_then(|first| first.parse().ok());
        first.ok_or(Refusal::Differs("the size of its mappings"))
    }
}

/// The text of a file that the kernel writes anew for each read from its beginning.
fn text_at_once(file: &File) -> Result<String, Refusal> {
    let mut text = vec![0; 2 * PAGE];
    let length = file.read_at(&mut text, 0).map_err(in_proc)?;
    if length == text.len() {
        return Err(Refusal::Differs("the length of a file of /proc"));
    }
    text.truncate(length);
    String::from_utf8(text).map_err(|error| in_proc(io::Error::other(error)))
}

/// The text of a file that the kernel writes in parts.
fn text(mut file: &File) -> Result<String, Refusal> {
    let read = |file: &mut &File| -> io::Result<String> {
        let mut text = String::with_capacity(2 * PAGE);
        file.rewind()?;
        file.read_to_string(&mut text)?;
        Ok(text)
    };
    read(&mut file).map_err(in_proc)
}

fn in_proc(error: io::Error) -> Refusal {
    Refusal::Kernel("a file of /proc", error)
}
