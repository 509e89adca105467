//! The layers, on Linux.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use toolgate_wire::Limits;
use toolgate_wire::frame::Layers;
use toolgate_wire::limits::MAX_ARGUMENTS;

use super::{Reuse, Without, root, seal};

/// The one descriptor of a worker: its socket.
pub const SOCKET: RawFd = 0;

/// The first of the user ids that workers of root take; nothing else on a usual system has one of these.
const FIRST_PRIVATE_USER: u32 = 2_000_000_000;

/// What no run may exceed, whatever its own limits say.
const MAX_ADDRESS_SPACE: u64 = 3 * 1024 * 1024 * 1024;

/// More than any run may take, idle time before it included.
const MAX_CPU_SECONDS: u64 = 700;

/// Room beyond a run's own limit for the interpreter's code, stacks and buffers.
const MEMORY_SLACK: u64 = 48 * 1024 * 1024;

/// How a zygote forks: the new process becomes its sibling.
const FORK: libc::c_int = libc::CLONE_PARENT | libc::SIGCHLD;

/// The filter that a fork adds to its zygote's.
pub struct Filter(BpfProgram);

/// Gives up what no fork may have: privileges, files, network, descriptors, core dumps, most system calls.
///
/// Called once, in the zygote, while it is single-threaded. Returns the layers in force and the filter that forks add.
pub fn lock_down_zygote(without: Without, reuse: Reuse) -> (Layers, Option<Filter>) {
    let mut layers = Layers::default();
    die_with_parent();
    prefer_for_oom_kill();
    limit_resources();
    if reuse == Reuse::SameCaller {
        seal::all_mappings();
    }
    if !without.namespaces {
        layers.namespaces = own_namespaces();
        root::empty(layers.namespaces);
    }
    drop_bounding_set();
    layers.private_user = private_user();
    drop_capabilities();
    layers.no_new_privs = prctl(libc::PR_SET_NO_NEW_PRIVS, 1);
    layers.no_exec_memory = prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN);
    // A host that puts workers back traces them, which an ordinary user may do only to what is dumpable. Root may do it
    // anyway, and a private user has no other process.
    let is_traced = reuse == Reuse::SameCaller && !layers.private_user;
    prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(is_traced));
    // `setresuid` clears `PR_SET_PDEATHSIG`, so set it again.
    die_with_parent();
    if !without.landlock {
        layers.landlock = landlock();
    }
    let filter = if without.seccomp { None } else { restrict_to_forking(reuse) };
    (layers, filter)
}

/// Lowers the kernel's own bounds to one run's: called when its limits are known, before its code is looked at.
///
/// The worker does this itself, since a host without CAP_SYS_RESOURCE may not do it to another user's
/// process. Nothing can be raised again: that takes a privilege which was given up. The interpreter's
/// meter is the exact limit; this one stops native code that has no meter.
pub fn limit_run(limits: &Limits) {
    let (data, cpu) = bounds_of(limits);
    limit(libc::RLIMIT_DATA, data);
    limit(libc::RLIMIT_CPU, cpu);
}

/// The kernel's bounds for a run: bytes of data, seconds of processor time.
pub fn bounds_of(limits: &Limits) -> (u64, u64) {
    // A result or a call's arguments are text on their way out: written, doubled while it grows, framed.
    let outgoing = 3 * limits.result.max(if limits.calls > 0 { MAX_ARGUMENTS as u64 } else { 0 });
    let data = limits.memory.saturating_add(outgoing).saturating_add(MEMORY_SLACK);
    (data, limits.wall.as_secs() + 2)
}

/// Gives up the rest: every descriptor but the socket, and the system calls that forking takes.
///
/// Called in each fork before it reads anything. Without a filter `layers` reports none, and the host sends no program.
pub fn lock_down_worker(socket: OwnedFd, filter: Option<&Filter>, layers: &mut Layers) -> io::Result<()> {
    die_with_parent();
    keep_only(socket)?;
    if let Some(filter) = filter {
        seccompiler::apply_filter(&filter.0).map_err(io::Error::other)?;
        layers.seccomp = true;
    }
    Ok(())
}

const PR_SET_MDWE: libc::c_int = 65;
const PR_MDWE_REFUSE_EXEC_GAIN: libc::c_ulong = 1;

pub(super) fn prctl(option: libc::c_int, value: libc::c_ulong) -> bool {
    // SAFETY: these options take plain numbers and change only this process's own attributes.
    unsafe { libc::prctl(option, value, 0, 0, 0) == 0 }
}

pub(super) fn die_with_parent() {
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
}

fn limit_resources() {
    let caps = [
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_FSIZE, 0),
        (libc::RLIMIT_MEMLOCK, 0),
        (libc::RLIMIT_MSGQUEUE, 0),
        (libc::RLIMIT_AS, MAX_ADDRESS_SPACE),
        (libc::RLIMIT_DATA, MAX_ADDRESS_SPACE),
        (libc::RLIMIT_CPU, MAX_CPU_SECONDS),
    ];
    for (resource, value) in caps {
        limit(resource, value);
    }
}

pub(super) fn limit(resource: libc::__rlimit_resource_t, value: u64) {
    let cap = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: `cap` is initialised and outlives the call, which only reads it; process 0 is this one.
    unsafe { libc::prlimit(0, resource, &cap, std::ptr::null_mut()) };
}

/// A network, IPC and host name of its own. An extra layer: many systems refuse it.
pub(super) fn own_namespaces() -> bool {
    const HOST_NAME: &CStr = c"toolgate";
    let spaces = libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    // SAFETY: these calls take plain numbers; the process is single-threaded.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: as above.
    let own = unsafe {
        libc::unshare(spaces) == 0 || {
            let own = libc::unshare(libc::CLONE_NEWUSER | spaces) == 0;
            keep_user(own, user, group);
            own
        }
    };
    if own {
        // SAFETY: the name is a text as long as is said.
        unsafe { libc::sethostname(HOST_NAME.as_ptr(), HOST_NAME.count_bytes()) };
    }
    own
}

/// Has the user keep its number in its new user namespace: without one it could make no file in a root of its own.
fn keep_user(own: bool, user: u32, group: u32) {
    if own {
        let _ = std::fs::write("/proc/self/setgroups", "deny");
        let _ = std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"));
        let _ = std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"));
    }
}

/// Has the kernel end this process and its forks before the host when memory runs out.
pub(super) fn prefer_for_oom_kill() {
    const MAX_OOM_SCORE: &str = "1000";
    // Where /proc is not mounted, the kernel decides by size alone.
    let _ = std::fs::write("/proc/self/oom_score_adj", MAX_OOM_SCORE);
}

/// No program that is executed later can have a capability, whatever its file says.
pub(super) fn drop_bounding_set() {
    const HIGHEST_CAPABILITY: libc::c_ulong = 63;
    // The kernel refuses numbers past the last that it knows.
    (0..=HIGHEST_CAPABILITY).take_while(|capability| prctl(libc::PR_CAPBSET_DROP, *capability)).for_each(drop);
}

/// Gives up every capability: a new user namespace gives its first process all of them.
pub(super) fn drop_capabilities() {
    const VERSION_3: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION_3, 0];
    let none = [0_u32; 6];
    prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    // SAFETY: this version's header is two words and its data six; both outlive the call, which only reads them.
    unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
}

/// As root: changes to a user id that owns nothing. Otherwise the user stays, and the other layers hold.
pub(super) fn private_user() -> bool {
    // SAFETY: these calls take plain numbers; setgroups reads no list when its length is zero.
    unsafe {
        if libc::geteuid() != 0 {
            return false;
        }
        let user = FIRST_PRIVATE_USER + libc::getpid() as u32 % 100_000_000;
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(user, user, user) == 0
            && libc::setresuid(user, user, user) == 0
    }
}

/// Denies every file and every port, as far as this kernel knows how. Gives the version in force.
fn landlock() -> u32 {
    let newest = ABI::V6;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(newest)))
        .and_then(|rules| rules.scope(Scope::from_all(newest)))
        .and_then(Ruleset::create);
    match ruleset.and_then(|rules| rules.restrict_self()) {
        Ok(status) if status.ruleset != RulesetStatus::NotEnforced => landlock_version(),
        _ => 0,
    }
}

/// The version of landlock that this kernel has, zero for none.
pub fn landlock_version() -> u32 {
    const VERSION: libc::c_ulong = 1;
    // SAFETY: with a null attribute, a zero size and this flag the call only reports a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// Whether this kernel has handles of processes.
pub fn has_pidfd() -> bool {
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    pidfd_open(getpid(), PidfdFlags::empty()).is_ok()
}

/// Moves the socket to descriptor 0 and closes all others.
fn keep_only(socket: OwnedFd) -> io::Result<()> {
    // SAFETY: plain descriptor numbers; nothing else in this single-threaded process uses a
    // descriptor, and `socket` is forgotten below rather than closed twice.
    unsafe {
        if libc::dup3(socket.as_raw_fd(), SOCKET, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        std::mem::forget(socket);
        if libc::syscall(libc::SYS_close_range, SOCKET as u32 + 1, u32::MAX, 0) < 0 {
            (SOCKET + 1..1024).for_each(|fd| {
                libc::close(fd);
            });
        }
    }
    Ok(())
}

/// System calls by number, each with what its arguments must be.
type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Restricts the zygote to the calls of a worker and those that forking takes. Returns the filter that denies the latter.
///
/// Two filters, since installing one costs each fork: the fork's own is a short list of denials, where an allow-list would be
/// compiled and checked against every system call number.
fn restrict_to_forking(reuse: Reuse) -> Option<Filter> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let forking = forking_calls();
    let denied: Calls = forking.keys().map(|call| (*call, Vec::new())).collect();
    let allowed: Calls = worker_calls(reuse).into_iter().chain(forking).collect();
    let zygote = SeccompFilter::new(allowed, SeccompAction::KillProcess, SeccompAction::Allow, arch).ok()?;
    let worker = SeccompFilter::new(denied, SeccompAction::Allow, SeccompAction::KillProcess, arch).ok()?;
    let worker = Filter(worker.try_into().ok()?);
    seccompiler::apply_filter(&BpfProgram::try_from(zygote).ok()?).ok()?;
    Some(worker)
}

/// The allow-list: reading and writing the socket, private memory, its own limits, the clock, the end.
///
/// Everything else kills the process. Nothing on it opens, connects, executes or forks. Arguments are as narrow as what
/// the C library's allocator, the clock and [`limit_run`] use.
fn worker_calls(reuse: Reuse) -> Calls {
    let any = Vec::new;
    let on_socket = || rules(vec![equal(0, SOCKET as u64)]);
    let one_of = |argument, numbers: &[libc::c_int]| {
        numbers.iter().flat_map(|number| rules(vec![number_is(argument, *number)])).collect::<Vec<_>>()
    };
    let mut calls = BTreeMap::from([
        (libc::SYS_read, on_socket()),
        (libc::SYS_write, on_socket()),
        (libc::SYS_mmap, rules(private_memory())),
        // To where the kernel likes: a fixed place could be that of code.
        (libc::SYS_mremap, rules(vec![equal(3, libc::MREMAP_MAYMOVE as u64)])),
        (libc::SYS_munmap, any()),
        (libc::SYS_brk, any()),
        (libc::SYS_madvise, one_of(2, &[libc::MADV_DONTNEED, libc::MADV_FREE])),
        // Of itself only, where limits can be lowered and never raised.
        (
            libc::SYS_prlimit64,
            [libc::RLIMIT_DATA, libc::RLIMIT_CPU]
                .iter()
                .flat_map(|resource| rules(vec![equal(0, 0), number_is(1, *resource as libc::c_int), equal(3, 0)]))
                .collect(),
        ),
        // Negative numbers are clocks of other processes.
        (libc::SYS_clock_gettime, one_of(0, &[libc::CLOCK_MONOTONIC, libc::CLOCK_THREAD_CPUTIME_ID])),
        (libc::SYS_exit_group, any()),
        (libc::SYS_exit, any()),
        (libc::SYS_rt_sigreturn, any()),
        (libc::SYS_restart_syscall, any()),
    ]);
    if reuse == Reuse::SameCaller {
        // The host could not find out that memory was given back to be dropped later, or the place of a signal stack. The
        // allocator uses the first for threads only, and without handlers nothing returns from one.
        calls.retain(|call, _| ![libc::SYS_madvise, libc::SYS_rt_sigreturn].contains(call));
        // Nor where within its page the break is. The allocator moves it by pages.
        calls.insert(libc::SYS_brk, rules(vec![masked(0, 0xfff, 0)]));
    }
    calls
}

/// What a mapping must be: read and written, of no file, shared with no process, at a place of the kernel's choice. Shared
/// memory is not counted by `RLIMIT_DATA`. An allocator may leave it unreserved.
fn private_memory() -> Vec<SeccompCondition> {
    let optional = libc::MAP_NORESERVE as u64;
    vec![
        equal(2, (libc::PROT_READ | libc::PROT_WRITE) as u64),
        masked(3, !optional, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64),
        number_is(4, -1),
    ]
}

/// What forking takes, from the message on the control socket to the worker's own filter. None is on the allow-list.
fn forking_calls() -> Calls {
    let any = Vec::new;
    let only = |argument, number| rules(vec![number_is(argument, number)]);
    let until_the_parent_dies = rules(vec![number_is(0, libc::PR_SET_PDEATHSIG), equal(1, libc::SIGKILL as u64)]);
    let without_new_privileges = only(0, libc::PR_SET_NO_NEW_PRIVS);
    BTreeMap::from([
        (libc::SYS_recvmsg, only(0, SOCKET)),
        (libc::SYS_clone, rules(vec![equal(0, FORK as u64)])),
        (libc::SYS_getpid, any()),
        (libc::SYS_prctl, [until_the_parent_dies, without_new_privileges].concat()),
        (libc::SYS_dup3, only(1, SOCKET)),
        // A debug build asks whether a descriptor is open before it closes it.
        (libc::SYS_fcntl, only(1, libc::F_GETFD)),
        (libc::SYS_close, any()),
        (libc::SYS_close_range, only(0, SOCKET + 1)),
        (libc::SYS_seccomp, only(0, libc::SECCOMP_SET_MODE_FILTER as libc::c_int)),
    ])
}

pub(super) fn rules(conditions: Vec<SeccompCondition>) -> Vec<SeccompRule> {
    SeccompRule::new(conditions).into_iter().collect()
}

pub(super) fn equal(argument: u8, value: u64) -> SeccompCondition {
    condition(argument, SeccompCmpOp::Eq, value)
}

pub(super) fn masked(argument: u8, mask: u64, value: u64) -> SeccompCondition {
    condition(argument, SeccompCmpOp::MaskedEq(mask), value)
}

/// For an argument of which the kernel reads 32 bits; the upper ones may hold anything.
fn number_is(argument: u8, value: libc::c_int) -> SeccompCondition {
    made(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(value as u32)))
}

fn condition(argument: u8, op: SeccompCmpOp, value: u64) -> SeccompCondition {
    made(SeccompCondition::new(argument, SeccompCmpArgLen::Qword, op, value))
}

/// The constructor refuses argument numbers above five; ours are literals below that.
fn made<Fault>(condition: Result<SeccompCondition, Fault>) -> SeccompCondition {
    condition.unwrap_or_else(|_| unreachable!())
}

/// Which side of a fork this is.
pub enum Side {
    /// The zygote goes on.
    Zygote,
    /// The new process; its parent is the zygote's parent.
    Worker,
}

/// Forks. The new process becomes a sibling of the zygote, so the host that waits for it is its parent.
pub fn fork_sibling() -> io::Result<Side> {
    // SAFETY: a plain fork of a single-threaded process: no shared memory, no new stack.
    match unsafe { libc::syscall(libc::SYS_clone, FORK as libc::c_ulong, 0usize, 0usize, 0usize, 0usize) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Worker),
        _ => Ok(Side::Zygote),
    }
}

/// The control socket that a zygote is started with.
pub fn control_socket() -> OwnedFd {
    // SAFETY: the host starts a zygote with the control socket as descriptor 0, and nothing else here owns it.
    unsafe { OwnedFd::from_raw_fd(0) }
}

/// Closes descriptors that an embedder left open, sets the time zone to UTC, resets signal handlers.
pub fn reset_inherited_state() {
    // SAFETY: single-threaded; descriptors above the control socket are used by nothing here, and
    // the environment is read by no other thread.
    unsafe {
        libc::syscall(libc::SYS_close_range, 1u32, u32::MAX, 0);
        libc::setenv(c"TZ".as_ptr(), c"UTC0".as_ptr(), 1);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        // A crash must end a worker by its own signal: Rust's handler makes calls that the filter kills for.
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
    }
}

/// The id of this process.
pub fn process_id() -> u32 {
    std::process::id()
}

/// Ends the process without running anything.
pub fn exit_now() -> ! {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_put_back_has_fewer_calls() {
        let (once, again) = (worker_calls(Reuse::Never), worker_calls(Reuse::SameCaller));
        let missing: Vec<_> = once.keys().filter(|call| !again.contains_key(call)).copied().collect();
        assert_eq!(missing, [libc::SYS_rt_sigreturn, libc::SYS_madvise]);
        assert!(again.keys().all(|call| once.contains_key(call)));
        // No condition for one, at the beginning of a page for the other.
        assert_eq!((once[&libc::SYS_brk].len(), again[&libc::SYS_brk].len()), (0, 1));
    }

    #[test]
    fn the_calls_of_forking_and_of_a_worker_are_disjoint() {
        let (worker, forking) = (worker_calls(Reuse::Never), forking_calls());
        assert!(forking.keys().all(|call| !worker.contains_key(call)), "the second filter would take it from workers");
    }
}
