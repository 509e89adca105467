//! A thread that brings new workers after a run, so that no run waits for the next one's worker.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long it lets the run's answer go first: on one core, a fork would stand in its way.
const AFTER_YOU: Duration = Duration::from_micros(200);

/// Does its work once for each call, later and elsewhere.
pub(crate) struct Porter<T> {
    at_work: Mutex<Option<(Sender<T>, JoinHandle<()>)>>,
}

impl<T: Send + 'static> Porter<T> {
    pub(crate) fn new(name: &str, mut work: impl FnMut(T) + Send + 'static) -> io::Result<Self> {
        let (calls, inbox) = channel();
        let serve = move || {
            while let Ok(call) = inbox.recv() {
                std::thread::sleep(AFTER_YOU);
                work(call);
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(serve)?;
        Ok(Porter { at_work: Mutex::new(Some((calls, thread))) })
    }

    pub(crate) fn call(&self, what: T) {
        if let Some((calls, _)) = &*self.lock() {
            let _ = calls.send(what);
        }
    }

    /// Waits for work under way; later calls are not heard.
    pub(crate) fn stop(&self) {
        let at_work = self.lock().take();
        if let Some((calls, thread)) = at_work {
            drop(calls);
            let _ = thread.join();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Sender<T>, JoinHandle<()>)>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
