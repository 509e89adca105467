//! Runs in one SQLite file: for one host.
//!
//! Write-ahead log with `synchronous=FULL`: an append that has returned survives a crash of the machine. Leases need not: a crash of
//! the machine ends all that hold one. Decisions are written to the disk by the append that they lead to, or by `sync`. Statements run on
//! the blocking threads of the runtime, one at a time.

#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::{
    Begun, Claim, Decided, Find, GIVEN_UP_LEASES, Held, Lease, Leave, MAX_COUNTED_NAMES, NewRun, PendingRow, Prune,
    Rows, RunRow, RunStatus, Store, StoreError, StoreFuture, fenced, milliseconds, to_prune, too_many_names,
};
use crate::unix_ms;

const SCHEMA: &str = include_str!("schema.sql");
/// How long a statement waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements that stay prepared: more than there are in this file.
const MAX_PREPARED: usize = 64;

/// Runs in a file: its connection, and the file of its write-ahead log.
#[derive(Clone)]
pub struct SqliteStore(Arc<Mutex<Connection>>, Arc<Path>);

impl SqliteStore {
    /// The store in this file, which is made when it is not there, for this user alone.
    ///
    /// # Errors
    /// If the file cannot be opened or written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let made = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        made.map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
        let store = SqliteStore::with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        {
            let connection = store.0.lock();
            connection.pragma_update(None, "journal_mode", "WAL").map_err(fault)?;
            connection.pragma_update(None, "synchronous", "FULL").map_err(fault)?;
            connection.execute_batch(&SCHEMA.replace("BYTES", "BLOB")).map_err(fault)?;
        }
        Ok(store)
    }

    /// The store in this file, to look at.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        SqliteStore::with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn with_flags(path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(fault)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(fault)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(fault)?;
        connection.set_prepared_statement_cache_capacity(MAX_PREPARED);
        // Where the path is a link, the log is beside the file that it leads to.
        let mut log = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).into_os_string();
        log.push("-wal");
        Ok(SqliteStore(Arc::new(Mutex::new(connection)), PathBuf::from(log).into()))
    }

    /// Lets the file grow to this many bytes and no further.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn limit(&self, max_bytes: u64) -> Result<(), StoreError> {
        let connection = self.0.lock();
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(fault)?;
        let pages = i64::try_from(max_bytes).unwrap_or(i64::MAX) / page.max(1);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).map_err(fault)
    }

    /// Refuses writes from now on, or takes them again: what a file system does that became read-only.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn set_read_only(&self, is_read_only: bool) -> Result<(), StoreError> {
        self.0.lock().pragma_update(None, "query_only", is_read_only).map_err(fault)
    }

    /// Runs one transaction on a blocking thread.
    fn transact<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        self.with(TransactionBehavior::Immediate, work)
    }

    /// Reads on a blocking thread.
    fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        self.with(TransactionBehavior::Deferred, work)
    }

    /// Runs one transaction that may be lost when the machine crashes; the next one that may not takes it along.
    fn transact_unsynced<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let connection = self.0.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || {
                let mut unsynced = Unsynced::begin(connection.lock())?;
                in_transaction(&mut unsynced.0, TransactionBehavior::Immediate, work)
            });
            done.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
        })
    }

    fn with<T: Send + 'static>(
        &self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let connection = self.0.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || in_transaction(&mut connection.lock(), behavior, work));
            done.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
        })
    }
}

/// A connection whose commits are not synced until this is dropped, also by a panic.
struct Unsynced<'a>(MutexGuard<'a, Connection>);

impl<'a> Unsynced<'a> {
    fn begin(connection: MutexGuard<'a, Connection>) -> Result<Self, StoreError> {
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(fault)?;
        Ok(Unsynced(connection))
    }
}

impl Drop for Unsynced<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.pragma_update(None, "synchronous", "FULL") {
            tracing::error!(%error, "writes to the store of runs may be lost when the machine crashes");
        }
    }
}

fn in_transaction<T>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction = connection.transaction_with_behavior(behavior).map_err(fault)?;
    let answer = work(&transaction)?;
    transaction.commit().map_err(fault)?;
    Ok(answer)
}

fn fault(error: rusqlite::Error) -> StoreError {
    let message = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(message),
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(message),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged(message),
        _ => StoreError::Unavailable(message),
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default())
}

const RUN_COLUMNS: &str = "run, caller, status, began, changed, epoch, entries, bytes, abort";

fn run_row(row: &Row<'_>) -> rusqlite::Result<Result<RunRow, StoreError>> {
    let status: String = row.get(2)?;
    let (began, changed, epoch) = (count(row, 3)?, count(row, 4)?, count(row, 5)?);
    let (run, caller, entries, bytes) = (row.get(0)?, row.get(1)?, count(row, 6)?, count(row, 7)?);
    let abort = count(row, 8)? > 0;
    Ok(RunStatus::parse(&status).map(|status| RunRow {
        run,
        caller,
        status,
        began,
        changed,
        epoch,
        entries,
        bytes,
        abort,
    }))
}

/// Executes a statement; gives the number of rows that it changed.
fn execute(transaction: &Transaction<'_>, text: &str, values: impl rusqlite::Params) -> Result<usize, StoreError> {
    transaction.prepare_cached(text).and_then(|mut statement| statement.execute(values)).map_err(fault)
}

/// The first row that a statement gives, if there is one.
fn first<T>(
    transaction: &Transaction<'_>,
    text: &str,
    values: impl rusqlite::Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    let mut statement = transaction.prepare_cached(text).map_err(fault)?;
    statement.query_row(values, read).optional().map_err(fault)
}

fn rows(transaction: &Transaction<'_>, filter: &str, values: impl rusqlite::Params) -> Result<Vec<RunRow>, StoreError> {
    let text = format!("SELECT {RUN_COLUMNS} FROM toolgate_runs WHERE {filter}");
    let mut statement = transaction.prepare_cached(&text).map_err(fault)?;
    let found = statement.query_map(values, run_row).map_err(fault)?;
    found.map(|row| row.map_err(fault).and_then(|row| row)).collect()
}

/// Changes columns of a run for the owner of its current lease.
fn change(transaction: &Transaction<'_>, lease: &Lease, columns: &str, value: i64) -> Result<(), StoreError> {
    let text = format!(
        "UPDATE toolgate_runs SET changed = ?1, {columns} WHERE run = ?2 AND epoch = ?3 AND status = 'running'"
    );
    let values = params![number(unix_ms()), lease.run, number(lease.epoch), value];
    match execute(transaction, &text, values)? {
        0 => Err(fenced(lease)),
        _ => Ok(()),
    }
}

fn pending_of(transaction: &Transaction<'_>, run: &str) -> Result<Vec<PendingRow>, StoreError> {
    let text = "SELECT call, question, decision FROM toolgate_pending WHERE run = ?1 ORDER BY call";
    let mut statement = transaction.prepare_cached(text).map_err(fault)?;
    let pending = |row: &Row<'_>| Ok(PendingRow { call: row.get(0)?, question: row.get(1)?, decision: row.get(2)? });
    let found = statement.query_map([run], pending).map_err(fault)?;
    found.collect::<Result<_, _>>().map_err(fault)
}

/// Takes a run that is paused, or whose lease has ended; where it was found before, only in the epoch that it had then.
fn take(
    transaction: &Transaction<'_>,
    run: &str,
    owner: &str,
    ttl: Duration,
    epoch: Option<u64>,
) -> Result<Option<Lease>, StoreError> {
    let text = "UPDATE toolgate_runs
        SET owner = ?1, epoch = epoch + 1, status = 'running', lease_until = ?2, changed = ?3
        WHERE run = ?4 AND epoch = coalesce(?5, epoch) AND (status = 'paused' OR (status = 'running' AND lease_until <= ?3))
        RETURNING run, epoch";
    let now = number(unix_ms());
    let values = params![owner, now + number(milliseconds(ttl)), now, run, epoch.map(number)];
    first(transaction, text, values, |row| Ok(Lease { run: row.get(0)?, epoch: count(row, 1)? }))
}

const OPEN_BYTES: &str = "SELECT coalesce(sum(bytes), 0) FROM toolgate_runs
    WHERE caller = (SELECT caller FROM toolgate_runs WHERE run = ?1) AND status IN ('running', 'paused')";

/// The rows that a look is for. One run is found by its key: beside "or is not asked for" the key would not be used.
fn find_filter(find: &Find) -> String {
    let run = if find.run.is_some() { "run = ?3" } else { "?3 IS NULL" };
    format!(
        "(?1 IS NULL OR caller = ?1) AND (?2 IS NULL OR status = ?2) AND {run}
            AND (?4 IS NULL OR (began, run) < (?4, ?5))
            ORDER BY began DESC, run DESC LIMIT ?6"
    )
}

/// Adds rows to a run, numbered from `from`.
fn insert(transaction: &Transaction<'_>, run: &str, from: u64, rows: &Rows) -> Result<(), StoreError> {
    let mut statement =
        transaction.prepare_cached("INSERT INTO toolgate_entries VALUES (?1, ?2, ?3)").map_err(fault)?;
    for (body, place) in rows.entries.iter().zip(number(from)..) {
        statement.execute(params![run, place, body]).map_err(fault)?;
    }
    let text = "INSERT INTO toolgate_blobs VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    let mut statement = transaction.prepare_cached(text).map_err(fault)?;
    for (name, body) in &rows.blobs {
        statement.execute(params![run, name, body]).map_err(fault)?;
    }
    Ok(())
}

/// Adds rows for the owner of the run's current lease, behind those that it has.
fn add(transaction: &Transaction<'_>, lease: &Lease, from: u64, rows: &Rows) -> Result<(), StoreError> {
    let moved = "UPDATE toolgate_runs SET changed = ?1, bytes = bytes + ?2, entries = entries + ?3
        WHERE run = ?4 AND epoch = ?5 AND status = 'running' AND entries = ?6";
    let (bytes, entries) = (number(rows.bytes()), number(rows.entries.len() as u64));
    let (now, epoch) = (number(unix_ms()), number(lease.epoch));
    if execute(transaction, moved, params![now, bytes, entries, lease.run, epoch, number(from)])? == 0 {
        return Err(fenced(lease));
    }
    insert(transaction, &lease.run, from, rows)
}

fn give_back(transaction: &Transaction<'_>, lease: &Lease, how: Leave) -> Result<(), StoreError> {
    let (calls, wake) = match how {
        Leave::Done => return change(transaction, lease, "status = 'done', lease_until = ?4", 0),
        Leave::Released => return change(transaction, lease, "owner = '', lease_until = ?4", 0),
        Leave::Paused { calls, wake } => (calls, wake),
    };
    let mut is_decided = false;
    for (call, question) in calls {
        let text = "INSERT INTO toolgate_pending VALUES (?1, ?2, ?3, NULL) ON CONFLICT DO NOTHING";
        execute(transaction, text, params![lease.run, call, question])?;
        let text = "SELECT decision IS NOT NULL FROM toolgate_pending WHERE run = ?1 AND call = ?2";
        let decided = first(transaction, text, params![lease.run, call], |row| row.get::<_, bool>(0))?;
        is_decided |= decided.unwrap_or_default();
    }
    let wake = if is_decided { 0 } else { number(wake.unwrap_or(u64::MAX)) };
    change(transaction, lease, "status = 'paused', lease_until = CASE WHEN abort > 0 THEN 0 ELSE ?4 END", wake)
}

impl Store for SqliteStore {
    fn begin(&self, new: NewRun) -> StoreFuture<'_, Begun> {
        self.transact(move |transaction| {
            let text = "SELECT run FROM toolgate_runs WHERE idempotency = ?1";
            if let Some(run) = first(transaction, text, [&new.idempotency], |row| row.get(0))? {
                return Ok(Begun::Existing { run });
            }
            let text = "SELECT count(*), coalesce(sum(bytes), 0) FROM toolgate_runs
                WHERE caller = ?1 AND status IN ('running', 'paused')";
            let open = first(transaction, text, [&new.caller], |row| Ok((count(row, 0)?, count(row, 1)?)))?;
            let (open, bytes) = open.unwrap_or_default();
            if open >= new.max_open {
                return Err(StoreError::TooManyRuns(new.max_open));
            }
            new.fits(bytes)?;
            let now = unix_ms();
            let lease_until = number(now + milliseconds(new.ttl));
            let text = "INSERT INTO toolgate_runs VALUES (?1, ?2, 'running', ?3, 1, ?4, ?5, ?5, ?6, ?7, ?8, 0)";
            let (entries, bytes) = (number(new.rows.entries.len() as u64), number(new.rows.bytes()));
            let now = number(now);
            let values = params![new.run, new.caller, new.owner, lease_until, now, entries, bytes, new.idempotency];
            execute(transaction, text, values)?;
            insert(transaction, &new.run, 0, &new.rows)?;
            Ok(Begun::New(Lease { run: new.run, epoch: 1 }))
        })
    }

    fn open_bytes(&self, run: &str) -> StoreFuture<'_, u64> {
        let run = run.to_owned();
        self.look(move |transaction| {
            Ok(first(transaction, OPEN_BYTES, [&run], |row| count(row, 0))?.unwrap_or_default())
        })
    }

    fn append(&self, lease: Lease, from: u64, rows: Rows) -> StoreFuture<'_, ()> {
        self.transact(move |transaction| add(transaction, &lease, from, &rows))
    }

    fn read(&self, run: &str) -> StoreFuture<'_, Rows> {
        let run = run.to_owned();
        self.look(move |transaction| {
            if rows(transaction, "run = ?1", [&run])?.is_empty() {
                return Err(StoreError::NoSuchRun(run));
            }
            let text = "SELECT body FROM toolgate_entries WHERE run = ?1 ORDER BY number";
            let mut statement = transaction.prepare_cached(text).map_err(fault)?;
            let entries = statement.query_map([&run], |row| row.get(0)).map_err(fault)?;
            let entries = entries.collect::<Result<_, _>>().map_err(fault)?;
            let text = "SELECT name, body FROM toolgate_blobs WHERE run = ?1";
            let mut statement = transaction.prepare_cached(text).map_err(fault)?;
            let blobs = statement.query_map([&run], |row| Ok((row.get(0)?, row.get(1)?))).map_err(fault)?;
            Ok(Rows { entries, blobs: blobs.collect::<Result<_, _>>().map_err(fault)? })
        })
    }

    fn entries(&self, run: &str, from: u64, most: usize) -> StoreFuture<'_, Vec<Vec<u8>>> {
        let run = run.to_owned();
        self.look(move |transaction| {
            let text = "SELECT body FROM toolgate_entries WHERE run = ?1 AND number >= ?2 ORDER BY number LIMIT ?3";
            let mut statement = transaction.prepare_cached(text).map_err(fault)?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let found = statement.query_map(params![run, number(from), most], |row| row.get(0)).map_err(fault)?;
            found.collect::<Result<_, _>>().map_err(fault)
        })
    }

    fn blob(&self, run: &str, name: &str) -> StoreFuture<'_, Option<Vec<u8>>> {
        let (run, name) = (run.to_owned(), name.to_owned());
        self.look(move |transaction| {
            let text = "SELECT body FROM toolgate_blobs WHERE run = ?1 AND name = ?2";
            first(transaction, text, [&run, &name], |row| row.get(0))
        })
    }

    fn claim(&self, claim: Claim) -> StoreFuture<'_, Option<Lease>> {
        let store = self.clone();
        Box::pin(async move {
            if let Some(run) = claim.run {
                return store
                    .transact_unsynced(move |transaction| take(transaction, &run, &claim.owner, claim.ttl, None))
                    .await;
            }
            let now = number(unix_ms());
            let due = "lease_until <= ?1 AND caller NOT IN (SELECT value FROM json_each(?3))
                    AND (status = 'paused' OR (status = 'running' AND (owner <> ?2
                        OR (lease_until <= ?1 - ?4 AND run NOT IN (SELECT value FROM json_each(?5))))))
                ORDER BY lease_until, began LIMIT 1";
            // A look without the lock of writers: most of the time nothing is due.
            let list = |names: &[String]| serde_json::to_string(names).unwrap_or_default();
            let (not_of, held) = (list(&claim.not_of), list(&claim.held));
            let owner = claim.owner.clone();
            let given_up = number(milliseconds(claim.ttl * GIVEN_UP_LEASES));
            let looked =
                store.look(move |transaction| rows(transaction, due, params![now, owner, not_of, given_up, held]));
            let Some(found) = looked.await?.pop() else { return Ok(None) };
            let taken = store.transact_unsynced(move |transaction| {
                take(transaction, &found.run, &claim.owner, claim.ttl, Some(found.epoch))
            });
            taken.await
        })
    }

    fn heartbeat(&self, owner: &str, runs: Vec<String>, ttl: Duration) -> StoreFuture<'_, Vec<Held>> {
        let owner = owner.to_owned();
        self.transact_unsynced(move |transaction| {
            let text = "UPDATE toolgate_runs SET lease_until = ?1 WHERE run = ?2 AND owner = ?3 AND status = 'running'
                RETURNING run, epoch, abort";
            let mut statement = transaction.prepare_cached(text).map_err(fault)?;
            let until = number(unix_ms() + milliseconds(ttl));
            let mut held = Vec::new();
            for run in runs {
                let found = statement.query_row(params![until, run, owner], |row| {
                    let lease = Lease { run: row.get(0)?, epoch: count(row, 1)? };
                    Ok(Held { lease, abort: count(row, 2)? > 0 })
                });
                held.extend(found.optional().map_err(fault)?);
            }
            Ok(held)
        })
    }

    fn leave(&self, lease: Lease, how: Leave) -> StoreFuture<'_, ()> {
        self.transact(move |transaction| give_back(transaction, &lease, how))
    }

    fn append_and_leave(&self, lease: Lease, from: u64, rows: Rows, how: Leave) -> StoreFuture<'_, ()> {
        self.transact(move |transaction| {
            add(transaction, &lease, from, &rows)?;
            give_back(transaction, &lease, how)
        })
    }

    fn pending(&self, run: &str) -> StoreFuture<'_, Vec<PendingRow>> {
        let run = run.to_owned();
        self.look(move |transaction| {
            if rows(transaction, "run = ?1", [&run])?.is_empty() {
                return Err(StoreError::NoSuchRun(run));
            }
            pending_of(transaction, &run)
        })
    }

    fn look_at(&self, run: &str) -> StoreFuture<'_, Option<(RunRow, Vec<PendingRow>)>> {
        let run = run.to_owned();
        self.look(move |transaction| {
            let Some(row) = rows(transaction, "run = ?1", [&run])?.pop() else { return Ok(None) };
            Ok(Some((row, pending_of(transaction, &run)?)))
        })
    }

    fn decide(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, Decided> {
        let run = run.to_owned();
        self.transact_unsynced(move |transaction| {
            if rows(transaction, "run = ?1", [&run])?.is_empty() {
                return Err(StoreError::NoSuchRun(run));
            }
            let text = "UPDATE toolgate_pending SET decision = ?3 WHERE run = ?1 AND call = ?2 AND decision IS NULL";
            if execute(transaction, text, params![run, call, decision])? > 0 {
                let due = "UPDATE toolgate_runs SET changed = ?1,
                    lease_until = CASE WHEN status = 'paused' THEN 0 ELSE lease_until END WHERE run = ?2";
                execute(transaction, due, params![number(unix_ms()), run])?;
                return Ok(Decided::Now);
            }
            let text = "SELECT decision FROM toolgate_pending WHERE run = ?1 AND call = ?2";
            let before = first(transaction, text, params![run, call], |row| row.get(0))?;
            Ok(before.map_or(Decided::NotAsked, Decided::Before))
        })
    }

    /// Syncs the file of the log itself, so that transactions that come meanwhile need not wait for it.
    fn sync(&self) -> StoreFuture<'_, ()> {
        let log = self.1.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || {
                match File::open(&log) {
                    // Nothing was written yet.
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                    opened => opened.and_then(|log| log.sync_data()),
                }
            });
            let unavailable = |error: String| StoreError::Unavailable(format!("the write-ahead log: {error}"));
            done.await.map_err(|error| unavailable(error.to_string()))?.map_err(|error| unavailable(error.to_string()))
        })
    }

    fn amend(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, ()> {
        let run = run.to_owned();
        self.transact(move |transaction| {
            if rows(transaction, "run = ?1", [&run])?.is_empty() {
                return Err(StoreError::NoSuchRun(run));
            }
            let text =
                "UPDATE toolgate_pending SET decision = ?3 WHERE run = ?1 AND call = ?2 AND decision IS NOT NULL";
            execute(transaction, text, params![run, call, decision])?;
            Ok(())
        })
    }

    fn abort(&self, run: &str) -> StoreFuture<'_, ()> {
        let run = run.to_owned();
        self.transact(move |transaction| {
            if rows(transaction, "run = ?1", [&run])?.is_empty() {
                return Err(StoreError::NoSuchRun(run));
            }
            let text = "UPDATE toolgate_runs SET abort = 1,
                lease_until = CASE WHEN status = 'paused' THEN 0 ELSE lease_until END
                WHERE run = ?1 AND status IN ('running', 'paused')";
            execute(transaction, text, [&run])?;
            Ok(())
        })
    }

    fn find(&self, find: Find) -> StoreFuture<'_, Vec<RunRow>> {
        self.look(move |transaction| {
            let filter = find_filter(&find);
            let most = i64::try_from(find.most).unwrap_or(i64::MAX);
            let (began, before) = find.before.map(|(began, run)| (number(began), run)).unzip();
            let status = find.status.map(RunStatus::name);
            rows(transaction, &filter, params![find.caller, status, find.run, began, before, most])
        })
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.transact(move |transaction| {
            let forgotten = to_prune(rows(transaction, "status = 'done'", [])?, prune, unix_ms());
            for run in &forgotten {
                execute(transaction, "DELETE FROM toolgate_runs WHERE run = ?1", [run])?;
            }
            Ok(forgotten.len() as u64)
        })
    }

    fn counts(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>> {
        self.look(move |transaction| {
            let text = "SELECT calls FROM toolgate_counts WHERE day = ?1 AND name = ?2";
            let mut statement = transaction.prepare_cached(text).map_err(fault)?;
            let mut counted = |name: &String| {
                let found = statement.query_row(params![number(day), name], |row| count(row, 0)).optional();
                Ok(found.map_err(fault)?.unwrap_or_default())
            };
            names.iter().map(&mut counted).collect()
        })
    }

    fn count(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>> {
        self.transact(move |transaction| {
            let text = "INSERT INTO toolgate_counts VALUES (?1, ?2, 1)
                ON CONFLICT (day, name) DO UPDATE SET calls = calls + 1 RETURNING calls";
            let mut before = Vec::with_capacity(names.len());
            {
                let mut statement = transaction.prepare_cached(text).map_err(fault)?;
                for name in &names {
                    let now = statement.query_row(params![number(day), name], |row| count(row, 0)).map_err(fault)?;
                    before.push(now.saturating_sub(1));
                }
            }
            if before.contains(&0) {
                let text = "DELETE FROM toolgate_counts WHERE day < ?1";
                execute(transaction, text, [number(day) - 1])?;
                let text = "SELECT count(*) FROM toolgate_counts WHERE day = ?1";
                let kept = first(transaction, text, [number(day)], |row| count(row, 0))?;
                if kept.is_some_and(|kept| kept > MAX_COUNTED_NAMES) {
                    return Err(too_many_names());
                }
            }
            Ok(before)
        })
    }

    fn uncount(&self, day: u64, names: Vec<(String, u64)>) -> StoreFuture<'_, ()> {
        self.transact(move |transaction| {
            let text = "UPDATE toolgate_counts SET calls = max(calls - ?3, 0) WHERE day = ?1 AND name = ?2";
            let mut statement = transaction.prepare_cached(text).map_err(fault)?;
            for (name, by) in names {
                statement.execute(params![number(day), name, number(by)]).map_err(fault)?;
            }
            Ok(())
        })
    }
}
