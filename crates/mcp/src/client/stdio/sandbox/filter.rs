//! The seccomp filter of a server in a sandbox.
//!
//! A list of calls that are refused, since a server may be any program. It closes what landlock does not cover: sockets, of
//! which those in the file system lead to other processes of the user (a container engine, the session bus, an agent with
//! keys), the kernel's keyrings, and parts of the kernel that few programs use. Sockets cannot be made another way:
//! `io_uring` is refused too.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Families of sockets that a server with the network may open; netlink tells it the addresses of this machine.
const NETWORK_FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Calls that no server has.
const REFUSED: &[i64] = &[
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
];

/// The second numbering of the system calls of x86-64 (x32), where the kernel has it.
#[cfg(target_arch = "x86_64")]
const NUMBERINGS: &[i64] = &[0, 0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const NUMBERINGS: &[i64] = &[0];

/// The filter of a server with or without the network.
pub(super) fn filter(network: bool) -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for numbering in NUMBERINGS {
        rules.extend(REFUSED.iter().map(|call| (call | numbering, Vec::new())));
        rules.insert(libc::SYS_socket | numbering, if network { vec![other_families()?] } else { Vec::new() });
        rules.insert(libc::SYS_socketpair | numbering, vec![datagrams()?]);
        rules.insert(libc::SYS_prlimit64 | numbering, vec![other_process()?]);
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Matches pairs of sockets for datagrams: either end of one can send to any address of its family. (`SOCK_RAW` is taken for
/// `SOCK_DGRAM` there, and flags are in higher bits.)
fn datagrams() -> Result<SeccompRule, BackendError> {
    const KIND: u64 = 0xe;
    let kind = SeccompCmpOp::MaskedEq(KIND);
    SeccompRule::new(vec![SeccompCondition::new(1, SeccompCmpArgLen::Dword, kind, libc::SOCK_DGRAM as u64)?])
}

/// Matches limits of another process; 0 is the caller itself.
fn other_process() -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?])
}

/// Matches every family but those of the network.
fn other_families() -> Result<SeccompRule, BackendError> {
    let differs =
        |family: &libc::c_int| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, *family as u64);
    SeccompRule::new(NETWORK_FAMILIES.iter().map(differs).collect::<Result<_, _>>()?)
}
