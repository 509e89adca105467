//! A thread that starts new workers after a run, so that no run waits while the next run's worker is forked.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

/// Delay before refilling a pool, so that on one core the fork does not preempt the thread that delivers the answer.
pub(crate) const ANSWER_HEAD_START: Duration = Duration::from_micros(200);

/// Refills a pool in the background, once for each request.
pub(crate) struct RefillThread<T> {
    running: Mutex<Option<(Sender<T>, JoinHandle<()>)>>,
}

impl<T: Send + 'static> RefillThread<T> {
    /// Starts the thread; `refill` does the work, so long after it was requested.
    pub(crate) fn new(name: &str, delay: Duration, mut refill: impl FnMut(T) + Send + 'static) -> io::Result<Self> {
        let (requests, inbox) = channel();
        let serve = move || {
            while let Ok(request) = inbox.recv() {
                std::thread::sleep(delay);
                refill(request);
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(serve)?;
        Ok(RefillThread { running: Mutex::new(Some((requests, thread))) })
    }

    /// Asks for a refill and returns at once.
    pub(crate) fn request(&self, what: T) {
        if let Some((requests, _)) = &*self.running.lock() {
            // The thread ends only in `stop`.
            let _ = requests.send(what);
        }
    }

    /// Waits until the requested refills are done and ends the thread. Later requests do nothing.
    pub(crate) fn stop(&self) {
        let running = self.running.lock().take();
        if let Some((requests, thread)) = running {
            drop(requests);
            let _ = thread.join();
        }
    }
}
