//! The jail of a program that is not ours: a stock `deno`, started as a V8 worker, or a `tsc` that checks types.
//!
//! It needs threads, executable memory and its libraries, so its jail allows more than a worker's: landlock permits reading
//! the program (with its folder, for `tsc`) and the system's libraries and no writing, and the filter has no socket, no ptrace, no new process and no
//! execution but of an open descriptor. It does not set one run's limits: the process starts before its run is known.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};
use toolgate_wire::frame::Layers;

use super::Without;
use super::linux::{
    die_with_parent, drop_bounding_set, drop_capabilities, equal, landlock_version, limit, masked, own_namespaces,
    prctl, prefer_for_oom_kill, private_user, rules,
};
use super::root;

/// Where a program's libraries are, and the loader's index of them.
pub(super) const LIBRARIES: [&str; 6] =
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"];

/// Files that a V8 worker may have open at one time.
const MAX_FILES: u64 = 128;

/// A program to start in a jail, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JailedProgram {
    /// The program.
    pub(crate) program: OsString,
    /// Its arguments; the layers in force are added as the last.
    pub(crate) arguments: Vec<OsString>,
    /// Its `RLIMIT_DATA`, in bytes.
    pub(crate) memory: u64,
    /// What it may read besides the system's libraries.
    pub(crate) reads: Reads,
}

/// What a jailed program may read besides the system's libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Its own file.
    Itself,
    /// The folder that its file is in: the declarations beside a TypeScript compiler.
    ItsFolder,
}

/// Gives up everything but what the program needs, and executes it. Returns only with an error.
pub(crate) fn execute(jailed: JailedProgram, without: Without) -> io::Error {
    match confine_and_execute(jailed, without) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn confine_and_execute(jailed: JailedProgram, without: Without) -> io::Result<std::convert::Infallible> {
    let program = open_path(Path::new(&jailed.program))?;
    let folder = Path::new(&jailed.program).parent().filter(|_| jailed.reads == Reads::ItsFolder);
    let readable = LIBRARIES.iter().map(Path::new).chain(folder);
    let libraries: Vec<_> = readable.filter_map(|path| PathFd::new(path).ok()).collect();
    close_others(&program)?;
    prefer_for_oom_kill();
    limit_resources(jailed.memory);
    let mut layers = Layers::default();
    if !without.namespaces {
        layers.namespaces = own_namespaces();
        root::keep_only(Path::new(&jailed.program), jailed.reads, layers.namespaces);
    }
    drop_bounding_set();
    layers.private_user = private_user();
    drop_capabilities();
    layers.no_new_privs = prctl(libc::PR_SET_NO_NEW_PRIVS, 1);
    die_with_parent();
    if !without.landlock {
        layers.landlock = landlock(&program, libraries);
    }
    layers.seccomp = !without.seccomp;
    // The working directory would tell where the host was started.
    std::env::set_current_dir("/")?;
    let name = match jailed.reads {
        Reads::Itself => "deno",
        Reads::ItsFolder => "tsc",
    };
    let mut arguments = vec![OsString::from(name)];
    arguments.extend(jailed.arguments);
    if jailed.reads == Reads::Itself {
        arguments.push(flags_of(layers).into());
    }
    let arguments = arguments.iter().map(|text| CString::new(text.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    if layers.seccomp {
        filter().ok_or_else(|| io::Error::other("no filter for this machine"))?.apply()?;
    }
    Err(execute_descriptor(&program, &arguments, jailed.reads))
}

/// Five flags in the order of the frame, then the version of landlock.
fn flags_of(layers: Layers) -> String {
    let flags = [layers.seccomp, layers.no_new_privs, layers.no_exec_memory, layers.namespaces, layers.private_user];
    let mut text: String = flags.iter().map(|flag| if *flag { '1' } else { '0' }).collect();
    text.push_str(&layers.landlock.to_string());
    text
}

fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a C string that outlives the call; nothing else owns the new descriptor.
    unsafe {
        match libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Sets close-on-exec on all descriptors but the standard three: an embedder may have left some open.
fn close_others(program: &OwnedFd) -> io::Result<()> {
    debug_assert!(program.as_raw_fd() > 2);
    // SAFETY: marks descriptors only; nothing is closed before the program is executed.
    let marked = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if marked < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn limit_resources(memory: u64) {
    limit(libc::RLIMIT_CORE, 0);
    limit(libc::RLIMIT_FSIZE, 0);
    limit(libc::RLIMIT_MEMLOCK, 0);
    limit(libc::RLIMIT_MSGQUEUE, 0);
    limit(libc::RLIMIT_NOFILE, MAX_FILES);
    limit(libc::RLIMIT_DATA, memory);
}

/// Lets the program be read and executed, and the libraries read; denies every other file and every port.
fn landlock(program: &OwnedFd, libraries: Vec<PathFd>) -> u32 {
    match restrict(program, libraries) {
        Ok(true) => landlock_version(),
        _ => 0,
    }
}

fn restrict(program: &OwnedFd, libraries: Vec<PathFd>) -> Result<bool, landlock::RulesetError> {
    let newest = ABI::V6;
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))?
        .handle_access(AccessNet::from_all(newest))?
        .scope(Scope::from_all(newest))?
        .create()?
        .add_rule(PathBeneath::new(program, AccessFs::Execute | AccessFs::ReadFile))?;
    let with_library = |rules: RulesetCreated, library: PathFd| {
        rules.add_rule(PathBeneath::new(library, AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir))
    };
    let rules = libraries.into_iter().try_fold(rules, with_library)?;
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// Each answers for the calls that the others let through.
struct Filters([BpfProgram; 3]);

impl Filters {
    fn apply(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|filter| seccompiler::apply_filter(filter).map_err(io::Error::other))
    }
}

/// Calls that are not listed fail with EPERM instead of killing: a stock program tries some that it can do without.
fn filter() -> Option<Filters> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let listed = SeccompFilter::new(allowed(), SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow, arch);
    let answered = |calls: &[i64], errno: libc::c_int| {
        let calls = calls.iter().map(|call| (*call, Vec::new())).collect();
        SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(errno as u32), arch)
    };
    let programs = [answered(&MISSING, libc::ENOSYS), answered(&ZERO, 0), listed];
    let [missing, zero, listed] = programs.map(|filter| BpfProgram::try_from(filter.ok()?).ok());
    Some(Filters([missing?, zero?, listed?]))
}

/// Calls that this kernel seems not to have. The flags of `clone3` are in memory, which no filter sees; without it the C
/// library uses `clone`. `sysinfo` tells of the machine. So does `uname`, but V8 does not start without it: the host's name is
/// replaced in it where namespaces are permitted, the kernel's version stays.
const MISSING: [i64; 2] = [libc::SYS_clone3, libc::SYS_sysinfo];

/// Calls whose answer is zero: the numbers of this process and its parent. `gettid` tells, since V8 knows its threads by it.
const ZERO: [i64; 2] = [libc::SYS_getpid, libc::SYS_getppid];

fn allowed() -> BTreeMap<i64, Vec<SeccompRule>> {
    let thread = libc::CLONE_THREAD as u64;
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = ANY.iter().map(|call| (*call, Vec::new())).collect();
    calls.extend([
        (libc::SYS_clone, rules(vec![masked(0, thread, thread)])),
        // Shared memory is not counted by `RLIMIT_DATA`.
        (libc::SYS_mmap, rules(vec![masked(3, libc::MAP_TYPE as u64, libc::MAP_PRIVATE as u64)])),
        (libc::SYS_execveat, rules(vec![equal(4, libc::AT_EMPTY_PATH as u64)])),
        (libc::SYS_socketpair, rules(vec![equal(0, libc::AF_UNIX as u64)])),
        (libc::SYS_prlimit64, rules(vec![equal(2, 0)])),
        (
            libc::SYS_prctl,
            [libc::PR_SET_NAME, PR_SET_VMA].iter().flat_map(|name| rules(vec![equal(0, *name as u64)])).collect(),
        ),
    ]);
    // Allowed here, so that the other filters' answers are the ones that count.
    calls.extend(MISSING.iter().chain(&ZERO).map(|call| (*call, Vec::new())));
    calls
}

const PR_SET_VMA: libc::c_int = 0x5356_4d41;

/// Memory, threads, clocks, and files as far as landlock lets it.
const ANY: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_arch_prctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
];

/// Executes the open program with an environment of three fixed variables; returns the error.
fn execute_descriptor(program: &OwnedFd, arguments: &[CString], reads: Reads) -> io::Error {
    let mut pointers: Vec<*const libc::c_char> = arguments.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // No cache directory can be made below a file, so there is none, whatever else holds.
    let deno = [c"PATH=/usr/bin:/bin", c"DENO_DIR=/dev/null/deno", c"NO_COLOR=1"];
    // The Go runtime of `tsc` collects garbage harder before it meets `RLIMIT_DATA`, which would end it.
    let tsc = [c"GOMEMLIMIT=384MiB", c"GOMAXPROCS=2", c"GOTRACEBACK=none"];
    let variables = match reads {
        Reads::Itself => deno,
        Reads::ItsFolder => tsc,
    };
    let mut environment = variables.map(|text| text.as_ptr()).to_vec();
    environment.push(std::ptr::null());
    // SAFETY: both lists end with null and point to C strings that outlive the call; the path is an empty C string.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            pointers.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}
