//! How many counted bytes were given back, for the thread that returns memory to the system.
//!
//! An allocator keeps the pages of many small values after they are freed. Holders note here what they give back; a thread that
//! waits is woken once that is enough. A note costs one atomic addition. Knows no allocator and no clock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

/// Bytes that are worth a look at the allocator.
const ENOUGH_BYTES: usize = 4 << 20;

/// Bytes that were given back since the last [`wait`].
static FREED: AtomicUsize = AtomicUsize::new(0);

/// The thread that waits.
static WAITING: OnceLock<Thread> = OnceLock::new();

/// Notes that so many bytes are not held any more.
pub fn note(bytes: usize) {
    if bytes == 0 {
        return;
    }
    let before = FREED.fetch_add(bytes, Ordering::Relaxed);
    if before < ENOUGH_BYTES && before.saturating_add(bytes) >= ENOUGH_BYTES {
        WAITING.get().into_iter().for_each(Thread::unpark);
    }
}

/// Waits until some megabytes were given back. For one thread of the process, and always the same.
pub fn wait() {
    WAITING.get_or_init(thread::current);
    while FREED.load(Ordering::Relaxed) < ENOUGH_BYTES {
        thread::park();
    }
}

/// Begins to count anew.
pub fn reset() {
    FREED.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ByteBudget;

    #[test]
    fn permits_that_are_given_back_wake_the_thread_that_waits() {
        let waits = thread::spawn(|| {
            wait();
            reset();
            wait();
        });
        let budget = ByteBudget::unlimited();
        while !waits.is_finished() {
            drop(budget.try_reserve(ENOUGH_BYTES / 3).expect("it fits"));
            thread::yield_now();
        }
        waits.join().expect("it ends");
    }
}
