//! Whether this machine permits a host to put its workers back.

use std::fs;

/// What `mseal` needs.
const OLDEST_KERNEL: (u32, u32) = (6, 10);
/// The number of `CAP_SYS_PTRACE`: workers of root have another user id.
const TRACING: u32 = 19;

/// Whether it does; says why not on stderr.
pub(crate) fn permits_rewinding() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.trim().parse::<u32>().ok());
    let kernel = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
    let capabilities = u64::from_str_radix(field("CapEff:"), 16).unwrap_or(0);
    let may_trace = !field("Uid:").starts_with("0\t") || capabilities & (1 << TRACING) != 0;
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let most = if field("Uid:").starts_with("0\t") { 2 } else { 1 };
    let may_trace = may_trace && field("Seccomp:") == "0" && yama.trim().parse().unwrap_or(0) <= most;
    let permits = cfg!(target_arch = "x86_64") && kernel >= OLDEST_KERNEL && may_trace;
    if !permits {
        eprintln!("skipped: this system does not permit a host to put its workers back");
    }
    permits
}
