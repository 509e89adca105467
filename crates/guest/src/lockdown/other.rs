//! Platforms without seccomp: no worker process, thread mode only.

/// The version of landlock that this system has: none.
pub fn landlock_version() -> u32 {
    0
}

/// Whether this system has handles of processes: no.
pub fn has_pidfd() -> bool {
    false
}

/// Does nothing: there is no worker process to limit.
pub fn limit_run(_: &toolgate_wire::Limits) {}
