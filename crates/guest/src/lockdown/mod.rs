//! What a process gives up before it reads one byte of guest code.
//!
//! The zygote gives up what all its forks shall lack and still can fork ([`settle`]); each fork
//! then gives up the rest ([`seal`]). Nothing given up comes back. This module and what it calls
//! is where the guest crate talks to the kernel; everything platform-specific is in one file.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::*;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub use other::*;

/// Layers that a test or a diagnosis wants left off.
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
