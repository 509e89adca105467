//! Runs in the memory of this process: for tests, and to say what the other stores must do.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::{
    Begun, Claim, Decided, Find, GIVEN_UP_LEASES, Held, Lease, Leave, MAX_COUNTED_NAMES, NewRun, PendingRow, Prune,
    Rows, RunRow, RunStatus, Store, StoreError, StoreFuture, fenced, milliseconds, to_prune, too_many_names,
};
use crate::unix_ms;

/// Runs in memory.
#[derive(Default)]
pub struct MemoryStore(Mutex<BTreeMap<String, StoredRun>>, Mutex<BTreeMap<(u64, String), u64>>);

struct StoredRun {
    row: RunRow,
    owner: String,
    idempotency: Option<Vec<u8>>,
    lease_until: u64,
    rows: Rows,
    pending: Vec<PendingRow>,
}

impl StoredRun {
    fn append(&mut self, lease: &Lease, from: u64, rows: Rows) -> Result<(), StoreError> {
        if self.row.entries != from {
            return Err(fenced(lease));
        }
        self.row.entries += rows.entries.len() as u64;
        self.row.bytes += rows.bytes();
        self.rows.entries.extend(rows.entries);
        for (name, bytes) in rows.blobs {
            if self.rows.blobs.iter().all(|(kept, _)| *kept != name) {
                self.rows.blobs.push((name, bytes));
            }
        }
        Ok(())
    }

    fn leave(&mut self, how: Leave) {
        match how {
            Leave::Done => self.row.status = RunStatus::Done,
            Leave::Released => {
                self.owner.clear();
                self.lease_until = 0;
            }
            Leave::Paused { calls, wake } => {
                self.row.status = RunStatus::Paused;
                let mut is_decided = self.row.abort;
                for (call, question) in calls {
                    match self.pending.iter().find(|pending| pending.call == call) {
                        Some(known) => is_decided |= known.decision.is_some(),
                        None => self.pending.push(PendingRow { call, question, decision: None }),
                    }
                }
                self.lease_until = if is_decided { 0 } else { wake.unwrap_or(u64::MAX) };
            }
        }
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    /// Changes a run for the owner of its current lease.
    fn owned<T>(&self, lease: &Lease, change: impl FnOnce(&mut StoredRun) -> T) -> Result<T, StoreError> {
        let mut runs = self.0.lock();
        let run = runs.get_mut(&lease.run).ok_or_else(|| StoreError::NoSuchRun(lease.run.clone()))?;
        if run.row.epoch != lease.epoch || run.row.status != RunStatus::Running {
            return Err(fenced(lease));
        }
        run.row.changed = unix_ms();
        Ok(change(run))
    }
}

fn ready<'a, T: Send + 'a>(answer: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(answer))
}

impl Store for MemoryStore {
    fn begin(&self, new: NewRun) -> StoreFuture<'_, Begun> {
        let mut runs = self.0.lock();
        let same = new.idempotency.as_ref().and_then(|key| {
            runs.iter().find(|(_, run)| run.idempotency.as_ref() == Some(key)).map(|(id, _)| id.clone())
        });
        if let Some(run) = same {
            return ready(Ok(Begun::Existing { run }));
        }
        let open = || runs.values().filter(|run| run.row.caller == new.caller && run.row.status != RunStatus::Done);
        if open().count() as u64 >= new.max_open {
            return ready(Err(StoreError::TooManyRuns(new.max_open)));
        }
        let bytes = open().map(|run| run.row.bytes).sum();
        if let Err(refused) = new.fits(bytes) {
            return ready(Err(refused));
        }
        let now = unix_ms();
        let row = RunRow {
            run: new.run.clone(),
            caller: new.caller,
            status: RunStatus::Running,
            began: now,
            changed: now,
            epoch: 1,
            entries: new.rows.entries.len() as u64,
            bytes: new.rows.bytes(),
            abort: false,
        };
        let lease_until = now + milliseconds(new.ttl);
        let NewRun { owner, idempotency, .. } = new;
        let run = StoredRun { row, owner, idempotency, lease_until, rows: new.rows, pending: vec![] };
        runs.insert(new.run.clone(), run);
        ready(Ok(Begun::New(Lease { run: new.run, epoch: 1 })))
    }

    fn open_bytes(&self, run: &str) -> StoreFuture<'_, u64> {
        let runs = self.0.lock();
        let caller = runs.get(run).map(|run| run.row.caller.as_str());
        let open =
            runs.values().filter(|run| Some(run.row.caller.as_str()) == caller && run.row.status != RunStatus::Done);
        ready(Ok(open.map(|run| run.row.bytes).sum()))
    }

    fn append(&self, lease: Lease, from: u64, rows: Rows) -> StoreFuture<'_, ()> {
        ready(self.owned(&lease, |run| run.append(&lease, from, rows)).and_then(|appended| appended))
    }

    fn read(&self, run: &str) -> StoreFuture<'_, Rows> {
        let runs = self.0.lock();
        ready(runs.get(run).map(|run| run.rows.clone()).ok_or_else(|| StoreError::NoSuchRun(run.to_owned())))
    }

    fn entries(&self, run: &str, from: u64, most: usize) -> StoreFuture<'_, Vec<Vec<u8>>> {
        let runs = self.0.lock();
        let Some(run) = runs.get(run) else { return ready(Err(StoreError::NoSuchRun(run.to_owned()))) };
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        ready(Ok(run.rows.entries.iter().skip(from).take(most).cloned().collect()))
    }

    fn blob(&self, run: &str, name: &str) -> StoreFuture<'_, Option<Vec<u8>>> {
        let runs = self.0.lock();
        let Some(run) = runs.get(run) else { return ready(Err(StoreError::NoSuchRun(run.to_owned()))) };
        let found = run.rows.blobs.iter().find(|(kept, _)| kept == name);
        ready(Ok(found.map(|(_, bytes)| bytes.clone())))
    }

    fn claim(&self, claim: Claim) -> StoreFuture<'_, Option<Lease>> {
        let (mut runs, now) = (self.0.lock(), unix_ms());
        let given_up = milliseconds(claim.ttl * GIVEN_UP_LEASES);
        let is_due = |id: &String, run: &StoredRun| match (&claim.run, run.row.status) {
            (_, RunStatus::Done) => false,
            (Some(wanted), RunStatus::Paused) => wanted == id,
            (Some(wanted), RunStatus::Running) => wanted == id && run.lease_until <= now,
            (None, RunStatus::Paused) => run.lease_until <= now,
            (None, RunStatus::Running) if run.owner != claim.owner => run.lease_until <= now,
            (None, RunStatus::Running) => run.lease_until.saturating_add(given_up) <= now && !claim.held.contains(id),
        };
        let may_go = |run: &StoredRun| claim.run.is_some() || !claim.not_of.contains(&run.row.caller);
        let due = runs.iter_mut().filter(|(id, run)| is_due(id, run) && may_go(run));
        let found = due.min_by_key(|(_, run)| (run.lease_until, run.row.began));
        ready(Ok(found.map(|(id, run)| {
            run.row.epoch += 1;
            run.row.status = RunStatus::Running;
            run.row.changed = now;
            run.owner.clone_from(&claim.owner);
            run.lease_until = now + milliseconds(claim.ttl);
            Lease { run: id.clone(), epoch: run.row.epoch }
        })))
    }

    fn heartbeat(&self, owner: &str, held: Vec<String>, ttl: std::time::Duration) -> StoreFuture<'_, Vec<Held>> {
        let (mut runs, until) = (self.0.lock(), unix_ms() + milliseconds(ttl));
        let own = held.into_iter().filter_map(|id| {
            let run = runs.get_mut(&id).filter(|run| run.owner == owner && run.row.status == RunStatus::Running)?;
            run.lease_until = until;
            Some(Held { lease: Lease { run: id, epoch: run.row.epoch }, abort: run.row.abort })
        });
        ready(Ok(own.collect()))
    }

    fn leave(&self, lease: Lease, how: Leave) -> StoreFuture<'_, ()> {
        ready(self.owned(&lease, |run| run.leave(how)))
    }

    fn append_and_leave(&self, lease: Lease, from: u64, rows: Rows, how: Leave) -> StoreFuture<'_, ()> {
        let left = self.owned(&lease, |run| run.append(&lease, from, rows).map(|()| run.leave(how)));
        ready(left.and_then(|left| left))
    }

    fn pending(&self, run: &str) -> StoreFuture<'_, Vec<PendingRow>> {
        let runs = self.0.lock();
        ready(runs.get(run).map(|run| run.pending.clone()).ok_or_else(|| StoreError::NoSuchRun(run.to_owned())))
    }

    fn decide(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, Decided> {
        let mut runs = self.0.lock();
        let Some(run) = runs.get_mut(run) else { return ready(Err(StoreError::NoSuchRun(run.to_owned()))) };
        let pending = run.pending.iter_mut().find(|pending| pending.call == call);
        ready(Ok(match pending {
            None => Decided::NotAsked,
            Some(PendingRow { decision: Some(before), .. }) => Decided::Before(before.clone()),
            Some(pending) => {
                pending.decision = Some(decision);
                run.row.changed = unix_ms();
                if run.row.status == RunStatus::Paused {
                    run.lease_until = 0;
                }
                Decided::Now
            }
        }))
    }

    fn amend(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, ()> {
        let mut runs = self.0.lock();
        let Some(run) = runs.get_mut(run) else { return ready(Err(StoreError::NoSuchRun(run.to_owned()))) };
        let decided = run.pending.iter_mut().find(|pending| pending.call == call && pending.decision.is_some());
        if let Some(decided) = decided {
            decided.decision = Some(decision);
        }
        ready(Ok(()))
    }

    fn abort(&self, run: &str) -> StoreFuture<'_, ()> {
        let mut runs = self.0.lock();
        let Some(run) = runs.get_mut(run) else { return ready(Err(StoreError::NoSuchRun(run.to_owned()))) };
        run.row.abort |= run.row.status != RunStatus::Done;
        if run.row.status == RunStatus::Paused {
            run.lease_until = 0;
        }
        ready(Ok(()))
    }

    fn find(&self, find: Find) -> StoreFuture<'_, Vec<RunRow>> {
        let runs = self.0.lock();
        let rows = runs.values().map(|run| &run.row);
        let found = rows.filter(|row| {
            find.caller.as_ref().is_none_or(|caller| *caller == row.caller)
                && find.status.is_none_or(|status| status == row.status)
                && find.run.as_ref().is_none_or(|run| *run == row.run)
                && find.before.as_ref().is_none_or(|(began, run)| (row.began, &row.run) < (*began, run))
        });
        let mut found: Vec<RunRow> = found.cloned().collect();
        found.sort_by(|one, other| (other.began, &other.run).cmp(&(one.began, &one.run)));
        found.truncate(find.most);
        ready(Ok(found))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        let mut runs = self.0.lock();
        let ended = runs.values().filter(|run| run.row.status == RunStatus::Done).map(|run| run.row.clone());
        let forgotten = to_prune(ended.collect(), prune, unix_ms());
        forgotten.iter().for_each(|run| {
            runs.remove(run);
        });
        ready(Ok(forgotten.len() as u64))
    }

    fn counts(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>> {
        let counted = self.1.lock();
        ready(Ok(names.into_iter().map(|name| counted.get(&(day, name)).copied().unwrap_or_default()).collect()))
    }

    fn count(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>> {
        let mut counted = self.1.lock();
        counted.retain(|(of, _), _| of.saturating_add(1) >= day);
        let new = names.iter().filter(|name| !counted.contains_key(&(day, (*name).clone()))).count() as u64;
        if new > 0 && counted.keys().filter(|(of, _)| *of == day).count() as u64 + new > MAX_COUNTED_NAMES {
            return ready(Err(too_many_names()));
        }
        let before = names.into_iter().map(|name| {
            let count = counted.entry((day, name)).or_default();
            *count += 1;
            *count - 1
        });
        ready(Ok(before.collect()))
    }

    fn uncount(&self, day: u64, names: Vec<(String, u64)>) -> StoreFuture<'_, ()> {
        let mut counted = self.1.lock();
        for (name, by) in names {
            counted.get_mut(&(day, name)).into_iter().for_each(|count| *count = count.saturating_sub(by));
        }
        ready(Ok(()))
    }
}
