//! The sandbox of a child process: a server that is not trusted with what its user may read and write.
//!
//! Landlock bounds the files, a seccomp filter the sockets, a cgroup (or `RLIMIT_DATA`, where none can be made) the memory;
//! no privilege can be gained and capabilities are dropped. All of these are inherited, so they are put on a thread that
//! starts the child and ends: no code runs between fork and execution, and none of it is unsafe. What is started is a shell
//! that waits for a line, then executes the server; meanwhile it is put into its cgroup, so that the server never runs
//! outside of it.
//!
//! A server whose sandbox cannot be made is not started. Landlock does not cover the metadata of files: their names and
//! sizes stay visible, and those of this user can get other modes.
//!
//! # Layout
//! - `paths`: which files a server needs to start
//! - `filter`: the system calls that it has not
//! - `cgroup`: memory and processes

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod paths;

use std::path::PathBuf;

#[cfg(target_os = "linux")]
pub(super) use self::cgroup::Cgroup;
#[cfg(target_os = "linux")]
pub(super) use self::confine::{Confined, leads_home};

/// What a child in a sandbox may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioSandbox {
    /// Files and folders that it may read, besides those that every program needs.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may read and write, besides its own.
    pub write: Vec<PathBuf>,
    /// Whether it may open network sockets.
    pub network: bool,
    /// Maximum memory in bytes.
    pub memory: u64,
    /// Maximum number of processes and threads.
    pub processes: usize,
    /// Its home directory, which is made when it does not exist.
    pub home: Option<PathBuf>,
}

/// What a sandbox has on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSupport {
    /// Why no sandbox can be made, so that no server with one is started.
    pub refusal: Option<String>,
    /// Whether a cgroup bounds the memory and the number of all processes of a server. Otherwise each process has a bound
    /// of its own for memory, and there is none for their number.
    pub cgroup: bool,
}

impl StdioSandbox {
    /// Finds out what a sandbox would have here: makes the rules and a cgroup, and removes both. No process is started.
    #[cfg(target_os = "linux")]
    pub fn support() -> SandboxSupport {
        const MEMORY: u64 = 64 << 20;
        let refusal = confine::refusal().map(|error| error.to_string());
        SandboxSupport { refusal, cgroup: Cgroup::create(MEMORY, 1).is_some() }
    }

    /// Finds out what a sandbox would have here.
    #[cfg(not(target_os = "linux"))]
    pub fn support() -> SandboxSupport {
        SandboxSupport { refusal: Some(SandboxError::System.to_string()), cgroup: false }
    }
}

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum SandboxError {
    #[error("its sandbox needs Linux; set sandbox to false to start it without one")]
    #[cfg_attr(target_os = "linux", allow(dead_code, reason = "on other systems"))]
    System,
    #[error("its sandbox needs landlock as of Linux 6.2, which this kernel does not permit: {0}")]
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "on Linux"))]
    Landlock(String),
    #[error("its sandbox needs seccomp: {0}")]
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "on Linux"))]
    Seccomp(String),
    #[error("its sandbox needs a home directory of this user, to make one for it in")]
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "on Linux"))]
    NoHome,
    #[error("its sandbox: {path}: {error}")]
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "on Linux"))]
    Path { path: PathBuf, error: std::io::Error },
    #[error("its sandbox: {what}: {error}")]
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "on Linux"))]
    Limit { what: &'static str, error: std::io::Error },
}

impl From<SandboxError> for std::io::Error {
    fn from(error: SandboxError) -> Self {
        Self::other(error)
    }
}
