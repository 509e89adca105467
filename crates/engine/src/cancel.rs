//! Calls a function when a [`CancellationToken`] is cancelled, on the thread that cancels it.
//!
//! A run blocks its thread in `poll(2)`, so it cannot await the token. It registers what kills its worker instead; see
//! `docs/decisions/0006-cancellation-token.md`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A registered function; dropping it removes the registration.
pub(crate) struct Registered {
    _future: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// Calls `stop` when the token is cancelled, or at once if it is already.
///
/// `stop` runs while the token's tree is locked: it must not block and must not touch the token.
pub(crate) fn on_cancel(token: &CancellationToken, stop: impl Fn() + Send + Sync + 'static) -> Registered {
    let waker = Waker::from(Arc::new(CallOnWake(stop)));
    let mut future = Box::pin(token.clone().cancelled_owned());
    // The token keeps the waker of a future that was polled once and wakes it from within `cancel`.
    if let Poll::Ready(()) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
        waker.wake();
    }
    Registered { _future: future }
}

struct CallOnWake<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for CallOnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn counted(token: &CancellationToken) -> (Arc<AtomicUsize>, Registered) {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        let registered = on_cancel(token, move || {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        (count, registered)
    }

    #[test]
    fn the_function_is_called_once_before_cancel_returns() {
        let token = CancellationToken::new();
        let (count, _registered) = counted(&token);
        assert_eq!(count.load(Ordering::SeqCst), 0);
        token.cancel();
        token.cancel();
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_token_that_is_cancelled_already_calls_at_once() {
        let token = CancellationToken::new();
        token.cancel();
        let (count, _registered) = counted(&token);
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_dropped_registration_is_not_called() {
        let token = CancellationToken::new();
        let (count, registered) = counted(&token);
        drop(registered);
        token.cancel();
        assert_eq!(count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_child_token_is_cancelled_with_its_parent_and_not_the_other_way() {
        let parent = CancellationToken::new();
        let child = parent.child_token();
        let (of_parent, _parent) = counted(&parent);
        let (of_child, _child) = counted(&child);
        child.cancel();
        assert_eq!((of_parent.load(Ordering::SeqCst), of_child.load(Ordering::SeqCst)), (0, 1));
        let (of_sibling, _sibling) = counted(&parent.child_token());
        parent.cancel();
        assert_eq!((of_parent.load(Ordering::SeqCst), of_sibling.load(Ordering::SeqCst)), (1, 1));
    }
}
