//! Things that native code tries to leave behind in its process for the next run, and how the next run looks for them.
//!
//! The host puts a worker back from outside, so each attack answers its run honestly and then waits, as a worker does that
//! hopes to be used again.

use std::ffi::c_long;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::calls::call;
use crate::frames::{done, done_frame, echo_without_reading, write};

const PAGE: usize = 4096;
const PRIVATE: c_long = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as c_long;
const READ_WRITE: c_long = (libc::PROT_READ | libc::PROT_WRITE) as c_long;
/// What is written to memory. Computed, so that the text of the program does not have it in a page that is searched.
fn mark() -> u64 {
    std::hint::black_box(0x5a17_c0de_u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

static IN_DATA: AtomicU64 = AtomicU64::new(1);
static IN_BSS: AtomicU64 = AtomicU64::new(0);
/// Every range of memory that could be written when the program started.
static WRITABLE: OnceLock<Vec<(usize, usize)>> = OnceLock::new();

/// Notes the writable mappings, while `/proc` can still be read.
pub(crate) fn note_mappings() {
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let range = |line: &str| {
        let (range, flags) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        flags.starts_with("rw").then_some((address(start)?, address(end)?))
    };
    let _ = WRITABLE.set(mappings.lines().filter_map(range).collect());
}

/// Leaves something behind, answers, and waits.
pub(crate) fn leave(what: &str) {
    let answer = match what {
        "nothing" => String::new(),
        "data" => {
            IN_DATA.store(mark(), Ordering::Relaxed);
            IN_BSS.store(mark(), Ordering::Relaxed);
            String::new()
        }
        "every-page" => return mark_every_page(),
        "stack" => descend(64).to_string(),
        "more-stack-than-a-run-has" => descend(6 * 1024 * 1024 / PAGE).to_string(),
        "mapping" => map(16 * PAGE, 0).to_string(),
        "many-mappings" => {
            // Every second one is of another kind, so that neighbours are not one mapping.
            (0..70).for_each(|n| {
                map(PAGE, if n % 2 == 0 { libc::MAP_NORESERVE } else { 0 });
            });
            String::new()
        }
        "break" => {
            let before = call(libc::SYS_brk, [0; 6]);
            call(libc::SYS_brk, [before + 1024 * 1024, 0, 0, 0, 0, 0]);
            before.to_string()
        }
        "break-within-a-page" => {
            let before = call(libc::SYS_brk, [0; 6]);
            call(libc::SYS_brk, [before - 8, 0, 0, 0, 0, 0]);
            before.to_string()
        }
        "break-over-a-hole" => {
            let before = call(libc::SYS_brk, [0; 6]);
            call(libc::SYS_brk, [before + PAGE as c_long, 0, 0, 0, 0, 0]);
            hole(before as usize);
            before.to_string()
        }
        "break-without-its-guard" => {
            let before = call(libc::SYS_brk, [0; 6]);
            hole(before as usize)
        }
        "hole-in-the-stack" => hole(lowest_of_stack()),
        "hole-in-the-data" => hole(&raw const IN_BSS as usize / PAGE * PAGE),
        "exchanged-data" => {
            let at = &raw const IN_BSS as usize / PAGE * PAGE;
            let hole = hole(at);
            call(libc::SYS_mmap, [at as c_long, PAGE as c_long, READ_WRITE, PRIVATE, -1, 0]);
            hole
        }
        "moved-data" => {
            let at = &raw const IN_BSS as usize / PAGE * PAGE;
            let may_move = libc::MREMAP_MAYMOVE as c_long;
            call(libc::SYS_mremap, [at as c_long, PAGE as c_long, 2 * PAGE as c_long, may_move, 0, 0]).to_string()
        }
        "less-memory" => limit(libc::RLIMIT_DATA as c_long, 64 << 20, 64 << 20),
        "a-lower-soft-limit" => limit(libc::RLIMIT_CPU as c_long, 5, 6),
        "unread-reply" => {
            echo_without_reading();
            String::new()
        }
        "half-a-frame" => {
            // At once: the host may stop the process as soon as it has the answer.
            write(&[done_frame("").as_slice(), &[9, 0, 0]].concat());
            return wait();
        }
        "frames-for-ever" => {
            write(&[done_frame("").as_slice(), &[0; 64]].concat());
            loop {
                write(&[0; 64]);
            }
        }
        "a-loop" => {
            done("");
            loop {
                std::hint::spin_loop();
            }
        }
        "an-end" => {
            done("");
            call(libc::SYS_exit_group, [0; 6]);
            String::new()
        }
        "handler" => call(libc::SYS_rt_sigaction, [libc::SIGUSR1 as c_long, 0, 0, 8, 0, 0]).to_string(),
        "mask" => call(libc::SYS_rt_sigprocmask, [0, 0, 0, 8, 0, 0]).to_string(),
        "mask-by-return" => call(libc::SYS_rt_sigreturn, [0; 6]).to_string(),
        "signal-stack" => call(libc::SYS_sigaltstack, [0; 6]).to_string(),
        "thread" => call(
            libc::SYS_clone,
            [(libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as c_long, 0, 0, 0, 0, 0],
        )
        .to_string(),
        "descriptor" => call(libc::SYS_dup, [0; 6]).to_string(),
        "protection" => call(libc::SYS_mprotect, [0, 0, 0, 0, 0, 0]).to_string(),
        "memory-to-drop-later" => advise(libc::MADV_FREE),
        "dropped-memory" => advise(libc::MADV_DONTNEED),
        "timer" => call(libc::SYS_setitimer, [0; 6]).to_string(),
        "restart-list" => call(libc::SYS_rseq, [0; 6]).to_string(),
        #[cfg(target_arch = "x86_64")]
        register => return registers::leave(register),
        #[cfg(not(target_arch = "x86_64"))]
        other => format!("nothing named {other}"),
    };
    done(&answer);
    wait();
}

/// Answers with what is left of an earlier run; `hint` is what that run answered.
pub(crate) fn find(what: &str, hint: usize) {
    let found = match what {
        "data" => (IN_DATA.load(Ordering::Relaxed), IN_BSS.load(Ordering::Relaxed)) != (1, 0),
        "every-page" => count_marks() > 0,
        "stack" => stack_is_marked(hint),
        "mapping" => {
            call(libc::SYS_mmap, [hint as c_long, PAGE as c_long, READ_WRITE, PRIVATE, -1, 0]) != hint as c_long
        }
        "break" | "break-over-a-hole" => call(libc::SYS_brk, [0; 6]) != hint as c_long,
        #[cfg(target_arch = "x86_64")]
        "vectors-of-this-run" => registers::keeps_vectors(),
        #[cfg(target_arch = "x86_64")]
        register if registers::is_one(register) => registers::find(register),
        _ => false,
    };
    done(if found { "found" } else { "clean" });
    wait();
}

/// Waits as a worker does that has answered. The host kills it, or puts it back to where it was.
fn wait() {
    let mut byte = 0_u8;
    while call(libc::SYS_read, [0, &raw mut byte as c_long, 1, 0, 0, 0]) > 0 {}
}

fn map(length: usize, more: libc::c_int) -> c_long {
    let at = call(libc::SYS_mmap, [0, length as c_long, READ_WRITE, PRIVATE | more as c_long, -1, 0]);
    (0..length).step_by(PAGE).for_each(|offset| write_mark(at as usize + offset));
    at
}

fn hole(at: usize) -> String {
    call(libc::SYS_munmap, [at as c_long, PAGE as c_long, 0, 0, 0, 0]).to_string()
}

fn limit(resource: c_long, soft: u64, hard: u64) -> String {
    let new = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
    call(libc::SYS_prlimit64, [0, resource, &raw const new as c_long, 0, 0, 0]).to_string()
}

fn advise(advice: libc::c_int) -> String {
    let at = &raw const IN_BSS as usize / PAGE * PAGE;
    call(libc::SYS_madvise, [at as c_long, PAGE as c_long, advice as c_long, 0, 0, 0]).to_string()
}

fn write_mark(at: usize) {
    // SAFETY: none is claimed: damage to its own memory is what the attack does.
    unsafe { std::ptr::with_exposed_provenance_mut::<u64>(at).write_volatile(mark()) };
}

fn read_mark(at: usize) -> bool {
    // SAFETY: none is claimed; only readable pages are asked for.
    unsafe { std::ptr::with_exposed_provenance::<u64>(at).read_volatile() == mark() }
}

/// Marks pages of the stack below this frame; returns where they begin.
#[inline(never)]
fn descend(pages: usize) -> usize {
    let here = 0_u8;
    let top = &raw const here as usize / PAGE * PAGE - 4 * PAGE;
    (0..pages).for_each(|page| write_mark(top - page * PAGE));
    top
}

fn stack_is_marked(top: usize) -> bool {
    (0..64).any(|page| read_mark(top - page * PAGE))
}

fn lowest_of_stack() -> usize {
    let here = 0_u8;
    let within = |(start, end): &&(usize, usize)| (*start..*end).contains(&(&raw const here as usize));
    WRITABLE.get().and_then(|all| all.iter().find(within)).map_or(0, |(start, _)| *start)
}

/// The last word of every page that the program could write when it started, but for the pages in use by this function.
fn last_words() -> impl Iterator<Item = usize> {
    let here = 0_u8;
    let here = &raw const here as usize;
    let ranges = WRITABLE.get().map(Vec::as_slice).unwrap_or_default();
    let pages = ranges.iter().flat_map(|(start, end)| (*start..*end).step_by(PAGE));
    pages.filter(move |page| page.abs_diff(here) > 16 * PAGE).map(|page| page + PAGE - 8)
}

/// Changes a word of every page: allocator, libraries, loader, thread, stack to its end. Nothing works afterwards, so the
/// answer is prepared before.
fn mark_every_page() {
    let frame = done_frame("");
    let mut answer = [0; 256];
    let length = frame.len().min(answer.len());
    answer[..length].copy_from_slice(&frame[..length]);
    last_words().for_each(write_mark);
    call(libc::SYS_write, [0, answer.as_ptr() as c_long, length as c_long, 0, 0, 0]);
    wait();
}

fn count_marks() -> usize {
    last_words().filter(|at| read_mark(*at)).count()
}

#[cfg(target_arch = "x86_64")]
mod registers {
    //! State of the processor that a process keeps over system calls.

    use std::arch::asm;

    use crate::frames::{done, done_frame, echo};

    const ALL: [&str; 8] =
        ["x87-control", "sse-control", "vectors", "direction", "alignment", "fs-base", "gs-base", "callee-saved"];
    /// `HWCAP2_FSGSBASE`: programs may set these registers.
    const SETS_BASES: u64 = 1 << 1;

    pub(super) fn is_one(register: &str) -> bool {
        ALL.contains(&register) || register == "identification"
    }

    /// Changes a register, then answers and waits without using it.
    macro_rules! leave {
        ($($change:literal),+) => {{
            let frame = done_frame("");
            // SAFETY: none is claimed. It writes the frame and then waits for ever, with whatever the registers hold.
            unsafe {
                asm!(
                    $($change,)+
                    "mov eax, 1",
                    "xor edi, edi",
                    "syscall",
                    "2:",
                    "xor eax, eax",
                    "xor edi, edi",
                    "lea rsi, [rsp - 512]",
                    "mov edx, 1",
                    "syscall",
                    "jmp 2b",
                    in("rsi") frame.as_ptr(),
                    in("rdx") frame.len(),
                    options(noreturn)
                )
            }
        }};
    }

    pub(super) fn leave(register: &str) {
        // SAFETY: reads a number that the kernel gave the process.
        let sets_bases = unsafe { libc::getauxval(libc::AT_HWCAP2) } & SETS_BASES != 0;
        match register {
            "x87-control" => leave!("push 0x0c7f", "fldcw [rsp]", "pop rax"),
            "sse-control" => leave!("push 0x7f80", "ldmxcsr [rsp]", "pop rax"),
            "vectors" => leave!(
                "pcmpeqd xmm8, xmm8",
                "pcmpeqd xmm9, xmm9",
                "pcmpeqd xmm10, xmm10",
                "pcmpeqd xmm11, xmm11",
                "pcmpeqd xmm12, xmm12",
                "pcmpeqd xmm13, xmm13",
                "pcmpeqd xmm14, xmm14",
                "pcmpeqd xmm15, xmm15"
            ),
            "direction" => leave!("std"),
            "alignment" => leave!("pushfq", "or qword ptr [rsp], 0x40000", "popfq"),
            "identification" => leave!("pushfq", "xor qword ptr [rsp], 0x200000", "popfq"),
            "callee-saved" => {
                leave!("mov rbx, -7", "mov rbp, -7", "mov r12, -7", "mov r13, -7", "mov r14, -7", "mov r15, -7")
            }
            "fs-base" if sets_bases => leave!("mov rax, 0x1000", "wrfsbase rax"),
            "gs-base" if sets_bases => leave!("mov rax, 0x1000", "wrgsbase rax"),
            "fs-base" | "gs-base" => done("no such instruction"),
            other => done(&format!("nothing named {other}")),
        }
    }

    /// Marks vector registers, reads a frame as the next run does, and looks whether they are still marked: whether
    /// [`vectors_are_marked`] finds what stays in a process that is not put back.
    pub(super) fn keeps_vectors() -> bool {
        // SAFETY: changes only the registers that it names.
        unsafe {
            asm!(
                "pcmpeqd xmm8, xmm8",
                "pcmpeqd xmm9, xmm9",
                "pcmpeqd xmm10, xmm10",
                "pcmpeqd xmm11, xmm11",
                "pcmpeqd xmm12, xmm12",
                "pcmpeqd xmm13, xmm13",
                "pcmpeqd xmm14, xmm14",
                "pcmpeqd xmm15, xmm15",
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            );
        }
        echo();
        vectors_are_marked()
    }

    /// Whether one of the registers that code between two runs seldom uses is marked. All of them are looked at, since it may
    /// use some.
    fn vectors_are_marked() -> bool {
        let mut vectors = [0_u128; 8];
        // SAFETY: stores eight registers of 16 bytes each at a place that is large enough.
        unsafe {
            asm!(
                "movdqu [{at}], xmm8",
                "movdqu [{at} + 16], xmm9",
                "movdqu [{at} + 32], xmm10",
                "movdqu [{at} + 48], xmm11",
                "movdqu [{at} + 64], xmm12",
                "movdqu [{at} + 80], xmm13",
                "movdqu [{at} + 96], xmm14",
                "movdqu [{at} + 112], xmm15",
                at = in(reg) vectors.as_mut_ptr(),
            );
        }
        vectors.contains(&u128::MAX)
    }

    pub(super) fn find(register: &str) -> bool {
        let marked = vectors_are_marked();
        let (mut control, mut vectors, mut flags, mut gs, mut fs) = (0_u16, 0_u32, 0_u64, 0_u64, 0_u64);
        // SAFETY: each stores a register at a place that is large enough.
        unsafe {
            asm!("fnstcw [{}]", in(reg) &raw mut control);
            asm!("stmxcsr [{}]", in(reg) &raw mut vectors);
            asm!("pushfq", "pop {}", out(reg) flags);
            if libc::getauxval(libc::AT_HWCAP2) & SETS_BASES != 0 {
                asm!("rdgsbase {}", out(reg) gs);
                asm!("rdfsbase {}", out(reg) fs);
            } else {
                fs = 1;
            }
        }
        match register {
            "x87-control" => control != 0x037f,
            // The low bits tell what has happened since.
            "sse-control" => vectors & !0x3f != 0x1f80,
            "vectors" => marked,
            "direction" => flags & 0x400 != 0,
            "alignment" => flags & 0x40000 != 0,
            "identification" => flags & 0x20_0000 != 0,
            "gs-base" => gs != 0,
            "fs-base" => fs == 0x1000,
            // The program that runs here would not have come so far.
            _ => false,
        }
    }
}
