//! How a worker's process ended.

use rustix::process::Signal;

/// How a worker's process ended, when it did not report the end of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessEnd {
    /// Killed by a signal that the engine did not send.
    Signal(i32),
    /// Ended by its interpreter or its allocator when memory ran out.
    OutOfMemory,
    /// It exited, or the reason is not known.
    Exit,
}

impl ProcessEnd {
    /// SIGXCPU: the process used more processor time than RLIMIT_CPU allows.
    pub(crate) fn is_cpu_limit(self) -> bool {
        self == ProcessEnd::Signal(Signal::XCPU.as_raw())
    }

    /// SIGKILL, which the engine did not send: from the OOM killer or from another process.
    pub(crate) fn is_kill(self) -> bool {
        self == ProcessEnd::Signal(Signal::KILL.as_raw())
    }
}
