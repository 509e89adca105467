//! Systems on which a thread cannot be kept on a core: a run and its worker are where the kernel puts them.

use std::time::Instant;

/// A set of cores. It has no values here: this system cannot bind a thread to a core.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CpuSet {}

/// The core that a run shares with its worker. It has no values here, as [`CpuSet`] has none.
pub(crate) struct SharedCore {
    cores: CpuSet,
    pub(crate) until: Instant,
}

impl SharedCore {
    pub(crate) fn give_up(self) {
        match self.cores {}
    }
}

/// The system does not tell.
pub(crate) fn cores_of_thread() -> Option<CpuSet> {
    None
}
