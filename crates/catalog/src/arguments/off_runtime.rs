//! Work of some tens of milliseconds that is called from asynchronous code and from threads of their own alike.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does `work` on this thread. If it is a worker of a runtime of several threads, another thread takes the runtime's other tasks
/// meanwhile. On the thread of a run this costs nothing; a runtime of one thread has no other, and waits.
pub(super) fn off_runtime<R>(work: impl FnOnce() -> R) -> R {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
