//! What a process gives up before it reads one byte of guest code.
//!
//! The zygote gives up what no fork may have, and can still fork ([`lock_down_zygote`]); each fork then gives up the rest
//! ([`lock_down_worker`]). Nothing given up comes back.
//!
//! # Layout
//! - `linux`: the layers of zygote and workers
//! - `root`: another root directory
//! - `seal`: mappings that cannot be exchanged
//! - `jail`: the layers of a program that is not ours
//! - `other`: platforms without them

#[cfg(target_os = "linux")]
pub(crate) mod jail;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod seal;
#[cfg(target_os = "linux")]
pub use linux::*;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub use other::*;

/// Layers that are left off for a test or a diagnosis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Without {
    /// No landlock.
    pub landlock: bool,
    /// No namespaces.
    pub namespaces: bool,
    /// No seccomp filter; a worker refuses to run like this.
    pub seccomp: bool,
}

impl Without {
    /// Reads names such as `landlock`, separated by commas; unknown ones are ignored.
    pub fn parse(names: &str) -> Self {
        let has = |layer| names.split(',').any(|name| name == layer);
        Without { landlock: has("landlock"), namespaces: has("namespaces"), seccomp: has("seccomp") }
    }

    /// The names, as [`Without::parse`] reads them.
    pub fn names(self) -> String {
        let all = [(self.landlock, "landlock"), (self.namespaces, "namespaces"), (self.seccomp, "seccomp")];
        all.iter().filter(|(off, _)| *off).map(|(_, name)| *name).collect::<Vec<_>>().join(",")
    }
}

/// Whether a worker may be used for another run of the same caller, after its host has put it back from outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Each run has a process of its own.
    #[default]
    Never,
    /// A worker can be stopped and written to by its host, and has fewer system calls: none that would change what the
    /// host cannot compare.
    SameCaller,
}

impl Reuse {
    /// The name used in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Reuse::Never => "never",
            Reuse::SameCaller => "same_caller",
        }
    }

    /// Reads a name; everything that is none is [`Reuse::Never`].
    pub fn parse(name: &str) -> Self {
        if name == Reuse::SameCaller.name() { Reuse::SameCaller } else { Reuse::Never }
    }
}

/// Processor time of this thread, which in a worker is the whole process.
pub fn cpu_time() -> std::time::Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer. Plain libc: other wrappers make system calls
    // of their own on first use, which the filter does not allow.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
