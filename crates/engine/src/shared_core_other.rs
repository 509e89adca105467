//! Systems on which a thread cannot be kept on a core: a run and its worker are where the kernel puts them.

use std::time::Instant;

/// There is none.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CpuSet {}

/// There is none.
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
