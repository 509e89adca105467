//! System calls without a safe wrapper. Every function here only reads this process's memory, or writes to what it is given.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_long, c_void, pid_t};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Why a process stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It was told to.
    Told,
    /// A system call begins or has returned.
    Call,
    /// This signal is about to be delivered.
    Signal(i32),
    /// Something else.
    Other,
    /// It has ended. Its status is not consumed.
    Ended,
}

fn checked(result: c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// `ptrace`, whose requests are of another type in each C library.
macro_rules! trace {
    ($request:expr, $pid:expr, $address:expr, $data:expr) => {{
        let (address, data): (usize, usize) = ($address, $data);
        // SAFETY: only used with requests that take numbers, or a structure that lives until after the call and is as large as
        // it says. The kernel refuses a process that this thread does not trace.
        checked(unsafe { libc::ptrace($request, $pid, address, data) }).map(drop)
    }};
}

/// Becomes the tracer of a child, which runs on. It is killed if this process ends first.
pub(crate) fn seize(pid: pid_t) -> io::Result<()> {
    let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
    trace!(libc::PTRACE_SEIZE, pid, 0, options as usize)
}

/// Tells a traced process to stop. It does so at its next return from the kernel.
pub(crate) fn interrupt(pid: pid_t) -> io::Result<()> {
    trace!(libc::PTRACE_INTERRUPT, pid, 0, 0)
}

/// Has a stopped process run on, without the signal that stopped it.
pub(crate) fn resume(pid: pid_t) -> io::Result<()> {
    trace!(libc::PTRACE_CONT, pid, 0, 0)
}

/// Has a stopped process run to the next begin or end of a system call.
pub(crate) fn resume_to_call(pid: pid_t) -> io::Result<()> {
    trace!(libc::PTRACE_SYSCALL, pid, 0, 0)
}

/// Has a stopped process run one instruction.
pub(crate) fn step(pid: pid_t) -> io::Result<()> {
    trace!(libc::PTRACE_SINGLESTEP, pid, 0, 0)
}

/// Has a stopped process run on, no longer traced.
pub(crate) fn detach(pid: pid_t) -> io::Result<()> {
    trace!(libc::PTRACE_DETACH, pid, 0, 0)
}

/// Kills a child that was not waited for, so that its number cannot be another process's.
pub(crate) fn kill(pid: pid_t) {
    // SAFETY: takes numbers only.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Waits until a traced child stops or ends, and leaves its status for later waits.
pub(crate) fn wait(pid: pid_t) -> io::Result<Stop> {
    /// `PTRACE_EVENT_STOP`, which the C library's headers give as a number of requests.
    const EVENT_STOP: i32 = 128;
    const CALL: i32 = libc::SIGTRAP | 0x80;
    const TOLD: i32 = libc::SIGTRAP | EVENT_STOP << 8;
    let id = libc::id_t::try_from(pid).map_err(io::Error::other)?;
    let options = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::__WALL;
    loop {
        // SAFETY: all zeroes is a valid value of this plain structure.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is a valid place for the answer.
        if unsafe { libc::waitid(libc::P_PID, id, &mut info, options) } == 0 {
            // SAFETY: an answer of waitid has this field.
            let status = unsafe { info.si_status() };
            return Ok(match (info.si_code, status) {
                (libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED, _) => Stop::Ended,
                (_, TOLD) => Stop::Told,
                (_, CALL) => Stop::Call,
                (_, 1..=64) => Stop::Signal(status),
                _ => Stop::Other,
            });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Reads a set of registers; returns how many bytes it has.
pub(crate) fn get_registers(pid: pid_t, set: libc::c_int, into: &mut [u8]) -> io::Result<usize> {
    let mut place = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    trace!(libc::PTRACE_GETREGSET, pid, set as usize, &raw mut place as usize)?;
    Ok(place.iov_len)
}

/// Writes a set of registers.
pub(crate) fn set_registers(pid: pid_t, set: libc::c_int, from: &[u8]) -> io::Result<()> {
    let mut place = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    trace!(libc::PTRACE_SETREGSET, pid, set as usize, &raw mut place as usize)
}

/// Pages of one call that reads another process's memory. They fit into a processor's cache, and into memory that the
/// allocator does not map anew for each use.
pub(crate) const MAX_PAGES_PER_READ: usize = 24;

/// Pages of one call that writes another process's memory: fewer than the ranges that the kernel accepts (`IOV_MAX`).
pub(crate) const MAX_PAGES_PER_WRITE: usize = 512;

/// Ranges of pages, of which neighbours are one. The kernel's work for a range of another process is less than for its pages.
fn ranges(pages: impl Iterator<Item = u64>) -> Vec<libc::iovec> {
    let mut ranges: Vec<libc::iovec> = Vec::new();
    for page in pages {
        match ranges.last_mut() {
            Some(last) if last.iov_base as u64 + last.iov_len as u64 == page => last.iov_len += PAGE,
            _ => ranges.push(libc::iovec { iov_base: page as *mut c_void, iov_len: PAGE }),
        }
    }
    ranges
}

fn place(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

fn all_of(moved: isize, length: usize) -> io::Result<()> {
    if checked(moved as c_long)? == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Reads pages of another process, at most [`MAX_PAGES_PER_READ`], into as many bytes.
pub(crate) fn read_pages(pid: pid_t, pages: impl Iterator<Item = u64>, into: &mut [u8]) -> io::Result<()> {
    let remote = ranges(pages);
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: the local range is `into`, which is borrowed for the call; remote addresses are the other process's.
    let read = unsafe { libc::process_vm_readv(pid, &local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0) };
    all_of(read, into.len())
}

/// Writes pages of another process, at most [`MAX_PAGES_PER_WRITE`].
pub(crate) fn write_pages(pid: pid_t, pages: &[(u64, &[u8; PAGE])]) -> io::Result<()> {
    let local: Vec<libc::iovec> = pages.iter().map(|(_, bytes)| place(*bytes)).collect();
    let remote = ranges(pages.iter().map(|(page, _)| *page));
    let (locals, remotes) = (local.len() as libc::c_ulong, remote.len() as libc::c_ulong);
    // SAFETY: local ranges are borrowed for the call and only read; remote addresses are the other process's.
    let written = unsafe { libc::process_vm_writev(pid, local.as_ptr(), locals, remote.as_ptr(), remotes, 0) };
    all_of(written, pages.len() * PAGE)
}

/// Bytes that were sent on a Unix socket and that its peer has not read, with the kernel's overhead; zero if there are none.
pub fn unread_by_peer(socket: impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: this request writes one int, for which there is a place.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    checked(result.into())?;
    usize::try_from(bytes).map_err(io::Error::other)
}

/// Addresses from the first to before the second.
pub(crate) type AddressRange = (u64, u64);

/// What is mapped at a range of pages that are not of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// The kernel's page of zeroes.
    Zero,
    /// Memory of this process, perhaps shared with another one.
    Memory,
    /// Memory that was moved to swap.
    Swapped,
}

/// The ranges within `range` where something is mapped that is not of a file, by address. `pagemap` is a process's
/// `/proc/PID/pagemap`.
pub(crate) fn scan(pagemap: impl AsFd, range: AddressRange, found: &mut Vec<(AddressRange, Mapped)>) -> io::Result<()> {
    // Categories of `linux/fs.h`.
    const IS_OF_FILE: u64 = 1 << 2;
    const IS_PRESENT: u64 = 1 << 3;
    const IS_SWAPPED: u64 = 1 << 4;
    const IS_ZERO: u64 = 1 << 5;
    /// `PAGEMAP_SCAN`: `_IOWR('f', 16, struct pm_scan_arg)`.
    const SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;
    const BATCH: usize = 128;
    /// `struct pm_scan_arg`.
    #[repr(C)]
    struct Arguments {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walked_to: u64,
        regions: u64,
        regions_length: u64,
        max_pages: u64,
        inverted: u64,
        required: u64,
        any_of: u64,
        returned: u64,
    }
    let mut start = range.0;
    while start < range.1 {
        // Start, end and categories of a region.
        let mut regions = [[0_u64; 3]; BATCH];
        let mut arguments = Arguments {
            size: size_of::<Arguments>() as u64,
            flags: 0,
            start,
            end: range.1,
            walked_to: 0,
            regions: regions.as_mut_ptr() as u64,
            regions_length: BATCH as u64,
            max_pages: 0,
            // Those that are not of a file.
            inverted: IS_OF_FILE,
            required: IS_OF_FILE,
            any_of: IS_PRESENT | IS_SWAPPED,
            returned: IS_PRESENT | IS_SWAPPED | IS_ZERO,
        };
        // SAFETY: the kernel reads and writes `arguments`, and writes at most `BATCH` regions.
        let count = unsafe { libc::ioctl(pagemap.as_fd().as_raw_fd(), SCAN, &raw mut arguments) };
        let count = checked(count.into())?;
        found.extend(regions.iter().take(count).map(|[start, end, categories]| {
            let mapped = match (categories & IS_SWAPPED != 0, categories & IS_ZERO != 0) {
                (true, _) => Mapped::Swapped,
                (false, true) => Mapped::Zero,
                (false, false) => Mapped::Memory,
            };
            ((*start, *end), mapped)
        }));
        if arguments.walked_to <= start {
            return Err(io::ErrorKind::InvalidData.into());
        }
        start = arguments.walked_to;
    }
    Ok(())
}
