//! Reads of results outside the threads of tasks: a bounded number at one time, and of each owner fewer.
//!
//! A read takes time that is linear in the result, tens of milliseconds for a large one. On the threads of tasks two such
//! reads would hold up every other request; without a bound of an owner, one caller would hold up the reads of others.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Reads at one time.
const MAX_READS: usize = 4;

/// Reads of one owner at one time; an owner's others wait behind these.
const MAX_READS_OF_OWNER: usize = 2;

/// The turns of reads.
#[derive(Debug)]
pub(super) struct Readers {
    all: Arc<Semaphore>,
    /// Of owners that read or wait.
    of_owner: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

impl Default for Readers {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(MAX_READS)), of_owner: Mutex::default() }
    }
}

impl Readers {
    /// Does `work` when it is the owner's turn; `None` if the runtime ends, or the work panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        owner: &Arc<str>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let of_owner = self.of_owner(owner).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        let held = move || {
            // Held to the end of the work, also where its caller no longer waits.
            let _permits = (of_owner, of_all);
            work()
        };
        tokio::task::spawn_blocking(held).await.ok()
    }

    fn of_owner(&self, owner: &Arc<str>) -> Arc<Semaphore> {
        let mut owners = self.of_owner.lock();
        if let Some(known) = owners.get(owner).and_then(Weak::upgrade) {
            return known;
        }
        owners.retain(|_, semaphore| semaphore.strong_count() > 0);
        let new = Arc::new(Semaphore::new(MAX_READS_OF_OWNER));
        owners.insert(Arc::clone(owner), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn reads_of_one_owner_leave_places_to_another_and_block_no_task() {
        let readers = Arc::new(Readers::default());
        let (begun, beginnings) = mpsc::channel();
        let (let_go, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let busy: Vec<_> = (0..10)
            .map(|_| {
                let (readers, begun, gate) = (Arc::clone(&readers), begun.clone(), Arc::clone(&gate));
                tokio::spawn(async move {
                    let work = move || {
                        begun.send(()).expect("counted");
                        let _ = gate.lock().recv();
                    };
                    readers.run(&"alice".into(), work).await
                })
            })
            .collect();
        // This runtime has one thread, so that anything that blocked it would end the test here.
        assert_eq!(readers.run(&"bob".into(), || 7).await, Some(7));
        assert!(beginnings.try_iter().count() <= MAX_READS_OF_OWNER);
        drop(let_go);
        for read in busy {
            assert_eq!(read.await.expect("no panic"), Some(()));
        }
        assert_eq!(readers.run(&"bob".into(), || 7).await, Some(7));
        assert_eq!(readers.of_owner.lock().len(), 1, "owners that no longer read are forgotten");
    }

    #[tokio::test]
    async fn a_read_that_panics_gives_its_place_back() {
        let readers = Readers::default();
        for _ in 0..MAX_READS + 1 {
            assert_eq!(readers.run(&"alice".into(), || -> u8 { panic!("on purpose") }).await, None);
        }
        assert_eq!(readers.run(&"alice".into(), || 7).await, Some(7));
    }
}
