//! Platforms without seccomp: no worker process, thread mode only.

/// The version of landlock that this system has: none.
pub fn landlock_version() -> u32 {
    0
}
