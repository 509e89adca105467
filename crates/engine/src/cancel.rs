//! A caller's wish that a run end now.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

type Stopper = Arc<dyn Fn() + Send + Sync>;

/// Cancels the runs it was given to. Cloning gives another handle on the same wish.
///
/// Cancelling twice, or after the end, does nothing.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Mutex<Wish>>);

#[derive(Default)]
struct Wish {
    made: bool,
    next: u64,
    stoppers: Vec<(u64, Stopper)>,
}

impl Cancel {
    /// A wish not yet made.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the wish: every run that holds this handle is stopped at once.
    pub fn cancel(&self) {
        let stoppers = {
            let mut wish = self.wish();
            wish.made = true;
            std::mem::take(&mut wish.stoppers)
        };
        for (_, stop) in stoppers {
            stop();
        }
    }

    /// Whether the wish was made.
    pub fn is_cancelled(&self) -> bool {
        self.wish().made
    }

    /// Calls `stop` when the wish is made, at once if it is already; forgotten with the guard.
    pub(crate) fn on_cancel(&self, stop: impl Fn() + Send + Sync + 'static) -> Registered {
        let stop: Stopper = Arc::new(stop);
        let mut wish = self.wish();
        let id = wish.next;
        wish.next += 1;
        if wish.made {
            drop(wish);
            stop();
        } else {
            wish.stoppers.push((id, stop));
        }
        Registered { cancel: self.clone(), id }
    }

    /// Waits until the wish is made.
    pub(crate) async fn cancelled(&self) {
        let made = Arc::new(Notify::new());
        let tell = made.clone();
        let _registered = self.on_cancel(move || tell.notify_one());
        made.notified().await;
    }

    fn wish(&self) -> MutexGuard<'_, Wish> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// A run's entry in the list of those to stop.
pub(crate) struct Registered {
    cancel: Cancel,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.cancel.wish().stoppers.retain(|(id, _)| *id != self.id);
    }
}
