//! How much memory a piece of asynchronous work takes.

#[path = "../../../../tests/rust/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::Peak;

/// The most bytes above those at the start that were alive at once, and what the work gave.
pub(crate) async fn peak_of<R>(work: impl Future<Output = R>) -> (usize, R) {
    let peak = Peak::begin();
    let result = work.await;
    (peak.bytes(), result)
}
