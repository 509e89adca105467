//! System calls that a worker must not have. One that returns is reported to the host.

use std::ffi::c_long;

use crate::frames::done;

/// Makes a system call by its number, with arguments that do no harm if it is let through.
pub(crate) fn by_number(number: c_long) {
    let got = call(number, [0; 6]);
    done(&format!("system call {number} came back with {got}"));
}

/// Makes an attack by its name.
pub(crate) fn by_name(attack: &str) {
    let page = 4096;
    let (rwx, rw) = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, libc::PROT_READ | libc::PROT_WRITE);
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let got = match attack {
        "map-rwx" => call(libc::SYS_mmap, [0, page, rwx as c_long, anonymous as c_long, -1, 0]),
        "map-exec" => call(libc::SYS_mmap, [0, page, libc::PROT_EXEC as c_long, anonymous as c_long, -1, 0]),
        "map-the-socket" => call(libc::SYS_mmap, [0, page, rw as c_long, libc::MAP_SHARED as c_long, 0, 0]),
        "map-shared" => map(libc::MAP_SHARED | libc::MAP_ANONYMOUS, rw, -1),
        "map-shared-validated" => map(libc::MAP_SHARED_VALIDATE | libc::MAP_ANONYMOUS, rw, -1),
        "map-fixed" => map(anonymous | libc::MAP_FIXED, rw, -1),
        "map-growing-down" => map(anonymous | libc::MAP_GROWSDOWN, rw, -1),
        "map-locked" => map(anonymous | libc::MAP_LOCKED, rw, -1),
        "map-populated" => map(anonymous | libc::MAP_POPULATE, rw, -1),
        "map-huge-pages" => map(anonymous | libc::MAP_HUGETLB, rw, -1),
        "map-without-access" => map(anonymous, libc::PROT_NONE, -1),
        "map-read-only" => map(anonymous, libc::PROT_READ, -1),
        "map-with-a-descriptor" => map(anonymous, rw, 0),
        "move-memory-onto-code" => {
            let at = map(anonymous, rw, -1);
            let code = (by_name as *const () as c_long) & !(page - 1);
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            call(libc::SYS_mremap, [at, page, page, flags as c_long, code, 0])
        }
        "move-memory-and-keep-it" => {
            let at = map(anonymous, rw, -1);
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
            call(libc::SYS_mremap, [at, page, page, flags as c_long, 0, 0])
        }
        "advise-huge-pages" => advise(libc::MADV_HUGEPAGE),
        "advise-merging" => advise(libc::MADV_MERGEABLE),
        "advise-collapse" => advise(libc::MADV_COLLAPSE),
        "advise-poison" => advise(libc::MADV_HWPOISON),
        "advise-populate" => advise(libc::MADV_POPULATE_WRITE),
        "advise-no-fork" => advise(libc::MADV_DONTFORK),
        "read-the-wall-clock" => clock(libc::CLOCK_REALTIME),
        "read-the-time-since-boot" => clock(libc::CLOCK_BOOTTIME),
        "read-the-clock-of-the-process" => clock(libc::CLOCK_PROCESS_CPUTIME_ID),
        // As the kernel names the processor time of process 1.
        "read-the-clock-of-another" => clock((!1 << 3) | 2),
        "limit-addresses" => limit(libc::RLIMIT_AS as c_long, std::ptr::null_mut()),
        "limit-files" => limit(libc::RLIMIT_NOFILE as c_long, std::ptr::null_mut()),
        "read-a-limit" => {
            let mut old = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
            limit(libc::RLIMIT_CPU as c_long, &raw mut old)
        }
        "make-code-executable" => {
            let at = call(libc::SYS_mmap, [0, page, rw as c_long, anonymous as c_long, -1, 0]);
            call(libc::SYS_mprotect, [at, page, rwx as c_long, 0, 0, 0])
        }
        "make-code-writable" => {
            let at = (by_name as *const () as c_long) & !(page - 1);
            call(libc::SYS_mprotect, [at, page, rwx as c_long, 0, 0, 0])
        }
        "open" => open(c"/etc/passwd"),
        "open-own-memory" => open(c"/proc/self/mem"),
        "open-own-maps" => open(c"/proc/self/maps"),
        "open-parents-environment" => open(c"/proc/self/../1/environ"),
        "open-by-old-number" => call(OPEN, [c"/etc/passwd".as_ptr() as c_long, 0, 0, 0, 0, 0]),
        "socket" => call(libc::SYS_socket, [libc::AF_INET as c_long, libc::SOCK_STREAM as c_long, 0, 0, 0, 0]),
        "pass-a-descriptor" => call(libc::SYS_recvmsg, [0, 0, 0, 0, 0, 0]),
        "kill-parent" => call(libc::SYS_kill, [1, libc::SIGKILL as c_long, 0, 0, 0, 0]),
        "kill-group" => call(libc::SYS_kill, [0, libc::SIGKILL as c_long, 0, 0, 0, 0]),
        "trace-parent" => call(libc::SYS_ptrace, [libc::PTRACE_ATTACH as c_long, 1, 0, 0, 0, 0]),
        "read-parents-memory" => call(libc::SYS_process_vm_readv, [1, 0, 0, 0, 0, 0]),
        "execute" => call(libc::SYS_execve, [c"/bin/sh".as_ptr() as c_long, 0, 0, 0, 0, 0]),
        "fork" => call(libc::SYS_clone, [libc::SIGCHLD as c_long, 0, 0, 0, 0, 0]),
        "thread" => call(
            libc::SYS_clone,
            [(libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as c_long, 0, 0, 0, 0, 0],
        ),
        "fork-as-a-zygote" => call(libc::SYS_clone, [(libc::CLONE_PARENT | libc::SIGCHLD) as c_long, 0, 0, 0, 0, 0]),
        "look-at-the-socket" => call(libc::SYS_fcntl, [0, libc::F_GETFD as c_long, 0, 0, 0, 0]),
        "copy-the-socket" => call(libc::SYS_dup3, [0, 1, 0, 0, 0, 0]),
        "copy-onto-the-socket" => call(libc::SYS_dup3, [1, 0, 0, 0, 0, 0]),
        "close-the-others" => call(libc::SYS_close_range, [1, u32::MAX as c_long, 0, 0, 0, 0]),
        "outlive-the-host" => call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as c_long, 0, 0, 0, 0, 0]),
        "no-new-privileges" => call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as c_long, 1, 0, 0, 0, 0]),
        "another-filter" => call(libc::SYS_seccomp, [1, 0, 0, 0, 0, 0]),
        "read-descriptor-1" => call(libc::SYS_read, [1, 0, 0, 0, 0, 0]),
        "read-descriptor-3" => call(libc::SYS_read, [3, 0, 0, 0, 0, 0]),
        "write-descriptor-2" => call(libc::SYS_write, [2, c"x".as_ptr() as c_long, 1, 0, 0, 0]),
        "write-descriptor-with-high-bits" => call(libc::SYS_write, [1 << 32, c"x".as_ptr() as c_long, 1, 0, 0, 0]),
        "close-the-socket" => call(libc::SYS_close, [0, 0, 0, 0, 0, 0]),
        "limits-of-parent" => call(libc::SYS_prlimit64, [1, libc::RLIMIT_CPU as c_long, 0, 0, 0, 0]),
        "raise-memory" => return raised(libc::RLIMIT_DATA as c_long),
        "raise-time" => return raised(libc::RLIMIT_CPU as c_long),
        "throw-code-away" => {
            let huge_page = 2 * 1024 * 1024;
            let at = (by_name as *const () as c_long) & !(huge_page - 1);
            call(libc::SYS_madvise, [at, huge_page, libc::MADV_DONTNEED as c_long, 0, 0, 0])
        }
        "use-all-memory" => return exhaust_memory(),
        "crash" => call_nothing(),
        "abort" => std::process::abort(),
        "spin" => loop {
            std::hint::spin_loop();
        },
        other => return done(&format!("no attack named {other}")),
    };
    done(&format!("{attack} came back with {got}"));
}

#[cfg(target_arch = "x86_64")]
const OPEN: c_long = libc::SYS_open;
#[cfg(not(target_arch = "x86_64"))]
const OPEN: c_long = libc::SYS_openat;

fn open(path: &std::ffi::CStr) -> c_long {
    call(libc::SYS_openat, [libc::AT_FDCWD as c_long, path.as_ptr() as c_long, libc::O_RDONLY as c_long, 0, 0, 0])
}

/// Maps one page, where its own code is if a fixed place is asked for.
fn map(flags: libc::c_int, protection: libc::c_int, descriptor: c_long) -> c_long {
    const PAGE: c_long = 4096;
    let at = if flags & libc::MAP_FIXED == 0 { 0 } else { (map as *const () as c_long) & !(PAGE - 1) };
    call(libc::SYS_mmap, [at, PAGE, protection as c_long, flags as c_long, descriptor, 0])
}

/// Gives advice about a page of its own.
fn advise(advice: libc::c_int) -> c_long {
    let at = map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE, -1);
    call(libc::SYS_madvise, [at, 4096, advice as c_long, 0, 0, 0])
}

fn clock(id: libc::clockid_t) -> c_long {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    call(libc::SYS_clock_gettime, [id as c_long, &raw mut time as c_long, 0, 0, 0, 0])
}

fn limit(resource: c_long, old: *mut libc::rlimit64) -> c_long {
    call(libc::SYS_prlimit64, [0, resource, 0, old as c_long, 0, 0])
}

/// Whether a bound of the kernel's could be raised to no bound at all.
fn raised(resource: c_long) {
    let none = libc::rlimit64 { rlim_cur: libc::RLIM64_INFINITY, rlim_max: libc::RLIM64_INFINITY };
    let rc = call(libc::SYS_prlimit64, [0, resource, &raw const none as c_long, 0, 0, 0]);
    done(if rc == 0 { "the limit was raised" } else { "refused" });
}

static MEGABYTE: [u8; 1024 * 1024] = [1; 1024 * 1024];

/// Allocates past every limit of the run, as native code without a meter.
fn exhaust_memory() {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for megabytes in 0..4096 {
        let mut block: Vec<u8> = Vec::new();
        if block.try_reserve_exact(1024 * 1024).is_err() {
            drop(kept);
            return done(if megabytes < 200 { "refused" } else { "too late" });
        }
        block.extend_from_slice(&MEGABYTE);
        kept.push(block);
    }
    done("no limit at all");
}

fn call_nothing() -> c_long {
    // SAFETY: none; dying of it is the point.
    unsafe { std::ptr::without_provenance::<c_long>(64).read_volatile() }
}

pub(crate) fn call(number: c_long, arguments: [c_long; 6]) -> c_long {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: none is claimed; a call that the filter lets through is the defect that the test looks for.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}
