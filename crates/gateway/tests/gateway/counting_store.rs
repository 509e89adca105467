//! A store that tells whether runs were repeated, and may be slow or fail.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use toolgate_journal::store::memory::MemoryStore;
use toolgate_journal::store::{
    Begun, Claim, Decided, Find, Held, Lease, Leave, NewRun, PendingRow, Prune, Rows, RunRow, Store, StoreError,
    StoreFuture,
};

/// A store that counts how often the record of a run is read, which happens when it is repeated.
#[derive(Default)]
pub(crate) struct CountingStore {
    store: MemoryStore,
    reads: AtomicUsize,
    named_claims: AtomicUsize,
    looks: AtomicUsize,
    /// How long a write takes.
    write_time: Duration,
    loses_an_answer: AtomicBool,
    fails_a_read: AtomicBool,
    /// The next record that is read makes the look after it fail.
    read_arms_find: AtomicBool,
    fails_a_find: AtomicBool,
    has_failed_a_find: AtomicBool,
    syncs: AtomicUsize,
    fails_a_sync: AtomicBool,
    is_full: AtomicBool,
}

impl CountingStore {
    /// One whose writes take this long.
    #[allow(dead_code, reason = "two test programs have this file, and one of them needs no slow store")]
    pub(crate) fn slow(write_time: Duration) -> Self {
        CountingStore { write_time, ..CountingStore::default() }
    }

    /// The next entries are kept, and the gateway is told that they are not, as when a connection ends in between.
    #[allow(dead_code, reason = "two test programs have this file, and one of them needs no faults")]
    pub(crate) fn answer_of_next_append_is_lost(&self) {
        self.loses_an_answer.store(true, Ordering::SeqCst);
    }

    /// The next record that is read cannot be.
    #[allow(dead_code, reason = "two test programs have this file, and one of them needs no faults")]
    pub(crate) fn next_read_fails(&self) {
        self.fails_a_read.store(true, Ordering::SeqCst);
    }

    /// Once the next record was read, one look for runs fails.
    #[allow(dead_code, reason = "two test programs have this file, and one of them needs no faults")]
    pub(crate) fn find_after_next_read_fails(&self) {
        self.read_arms_find.store(true, Ordering::SeqCst);
    }

    /// Whether that look has failed.
    #[allow(dead_code, reason = "two test programs have this file, and one of them needs no faults")]
    pub(crate) fn find_has_failed(&self) -> bool {
        self.has_failed_a_find.load(Ordering::SeqCst)
    }

    /// The next sync fails, as when a disk is broken.
    #[allow(dead_code, reason = "two test programs have this file, and one of them needs no faults")]
    pub(crate) fn next_sync_fails(&self) {
        self.fails_a_sync.store(true, Ordering::SeqCst);
    }

    /// No run is begun any more, or runs are again.
    #[allow(dead_code, reason = "two test programs have this file, and one of them needs no faults")]
    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// How often what was written was to be on the disk.
    #[allow(dead_code, reason = "two test programs have this file, and one of them does not ask")]
    pub(crate) fn syncs(&self) -> usize {
        self.syncs.load(Ordering::SeqCst)
    }

    /// How often one run was claimed by its name, without a look for any that is due.
    #[allow(dead_code, reason = "two test programs have this file, and one of them does not ask")]
    pub(crate) fn named_claims(&self) -> usize {
        self.named_claims.load(Ordering::SeqCst)
    }

    /// How often a gateway has looked for any run that is due.
    #[allow(dead_code, reason = "two test programs have this file, and one of them does not ask")]
    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }

    pub(crate) fn repeated(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

impl Store for CountingStore {
    fn open_bytes(&self, run: &str) -> StoreFuture<'_, u64> {
        self.store.open_bytes(run)
    }

    fn begin(&self, run: NewRun) -> StoreFuture<'_, Begun> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Box::pin(std::future::ready(Err(StoreError::Full("no space left on device".to_owned())))),
            false => self.store.begin(run),
        }
    }

    fn append(&self, lease: Lease, from: u64, rows: Rows) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            tokio::time::sleep(self.write_time).await;
            self.store.append(lease, from, rows).await?;
            match self.loses_an_answer.swap(false, Ordering::SeqCst) {
                true => Err(StoreError::Unavailable("the connection was lost".to_owned())),
                false => Ok(()),
            }
        })
    }

    fn read(&self, run: &str) -> StoreFuture<'_, Rows> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.fails_a_read.swap(false, Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(StoreError::Unavailable("the connection was lost".to_owned()))));
        }
        self.fails_a_find.store(self.read_arms_find.swap(false, Ordering::SeqCst), Ordering::SeqCst);
        self.store.read(run)
    }

    fn entries(&self, run: &str, from: u64, most: usize) -> StoreFuture<'_, Vec<Vec<u8>>> {
        self.store.entries(run, from, most)
    }

    fn blob(&self, run: &str, name: &str) -> StoreFuture<'_, Option<Vec<u8>>> {
        self.store.blob(run, name)
    }

    fn claim(&self, claim: Claim) -> StoreFuture<'_, Option<Lease>> {
        let is_look = claim.run.is_none();
        self.named_claims.fetch_add(usize::from(!is_look), Ordering::SeqCst);
        Box::pin(async move {
            let claimed = self.store.claim(claim).await;
            self.looks.fetch_add(usize::from(is_look), Ordering::SeqCst);
            claimed
        })
    }

    fn heartbeat(&self, owner: &str, runs: Vec<String>, ttl: Duration) -> StoreFuture<'_, Vec<Held>> {
        self.store.heartbeat(owner, runs, ttl)
    }

    fn leave(&self, lease: Lease, how: Leave) -> StoreFuture<'_, ()> {
        self.store.leave(lease, how)
    }

    fn append_and_leave(&self, lease: Lease, from: u64, rows: Rows, how: Leave) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            tokio::time::sleep(self.write_time).await;
            self.store.append_and_leave(lease, from, rows, how).await?;
            match self.loses_an_answer.swap(false, Ordering::SeqCst) {
                true => Err(StoreError::Unavailable("the connection was lost".to_owned())),
                false => Ok(()),
            }
        })
    }

    fn pending(&self, run: &str) -> StoreFuture<'_, Vec<PendingRow>> {
        self.store.pending(run)
    }

    fn decide(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, Decided> {
        self.store.decide(run, call, decision)
    }

    fn sync(&self) -> StoreFuture<'_, ()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let synced = match self.fails_a_sync.swap(false, Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("the disk is broken".to_owned())),
            false => Ok(()),
        };
        Box::pin(std::future::ready(synced))
    }

    fn amend(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, ()> {
        self.store.amend(run, call, decision)
    }

    fn abort(&self, run: &str) -> StoreFuture<'_, ()> {
        self.store.abort(run)
    }

    fn find(&self, find: Find) -> StoreFuture<'_, Vec<RunRow>> {
        if self.fails_a_find.swap(false, Ordering::SeqCst) {
            self.has_failed_a_find.store(true, Ordering::SeqCst);
            return Box::pin(std::future::ready(Err(StoreError::Unavailable("the connection was lost".to_owned()))));
        }
        self.store.find(find)
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.store.prune(prune)
    }

    fn counts(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>> {
        self.store.counts(day, names)
    }

    fn count(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>> {
        self.store.count(day, names)
    }

    fn uncount(&self, day: u64, names: Vec<(String, u64)>) -> StoreFuture<'_, ()> {
        self.store.uncount(day, names)
    }
}
