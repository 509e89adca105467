//! Runs in PostgreSQL: for several replicas.
//!
//! Times are the database's, so replicas need no common clock. Every operation is one statement or one transaction, and
//! ends with an error after `OPERATION_TIMEOUT`. Connections are encrypted where the address says `sslmode=require`, and plain
//! otherwise.

mod connections;
pub mod learned_types;

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Transaction};

use super::{
    Begun, Claim, Decided, Find, GIVEN_UP_LEASES, Held, Lease, Leave, MAX_COUNTED_NAMES, NewRun, PendingRow, Prune,
    Rows, RunRow, RunStatus, Store, StoreError, StoreFuture, fenced, milliseconds, to_prune, too_many_names,
};
use connections::{Connections, fault};

const SCHEMA: &str = include_str!("schema.sql");
/// How long one operation may take.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections of one process.
const MAX_CONNECTIONS: usize = 8;
/// The database's clock, in milliseconds since 1970.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Runs in a database.
pub struct PostgresStore(Connections);

impl PostgresStore {
    /// The store behind this address, `postgres://…`. Its tables are made when they are not there.
    ///
    /// # Errors
    /// If the address is invalid, or the database cannot be reached.
    pub async fn connect(address: &str) -> Result<Self, StoreError> {
        let connections = Connections::new(address, MAX_CONNECTIONS, OPERATION_TIMEOUT)?;
        connections.make_tables(&SCHEMA.replace("BYTES", "BYTEA")).await?;
        Ok(PostgresStore(connections))
    }

    async fn within<T>(&self, work: impl AsyncFnOnce(&mut Client) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.0.within(work).await
    }

    /// Adds rows for the owner of a run's current lease, and gives the lease back, in one transaction.
    async fn write(&self, lease: Lease, added: Option<(u64, Rows)>, how: Option<Leave>) -> Result<(), StoreError> {
        self.within(async |client| {
            let transaction = client.transaction().await.map_err(|error| fault(&error))?;
            let mut is_current = true;
            if let Some((from, rows)) = &added {
                is_current = add(&transaction, &lease, *from, rows).await?;
            }
            if let Some(how) = how.as_ref().filter(|_| is_current) {
                is_current = give_back(&transaction, &lease, how).await?;
            }
            if is_current {
                transaction.commit().await.map_err(|error| fault(&error))?;
                return Ok(Ok(()));
            }
            transaction.rollback().await.map_err(|error| fault(&error))?;
            Ok(Err(fenced(&lease)))
        })
        .await?
    }

    async fn exists(&self, run: &str) -> Result<(), StoreError> {
        let text = "SELECT 1 FROM toolgate_runs WHERE run = $1";
        let found = self.within(async |client| client.query_opt(text, &[&run]).await.map_err(|e| fault(&e))).await?;
        found.map(|_| ()).ok_or_else(|| StoreError::NoSuchRun(run.to_owned()))
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn count(row: &Row, column: usize) -> Result<u64, StoreError> {
    let value: i64 = row.try_get(column).map_err(|error| fault(&error))?;
    Ok(u64::try_from(value).unwrap_or_default())
}

fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| StoreError::Damaged(error.to_string()))
}

/// Locks a run, so that the next statement of the transaction sees what others did to it.
const LOCK: &str = "SELECT 1 FROM toolgate_runs WHERE run = $1 FOR UPDATE";
const RUN_COLUMNS: &str = "run, caller, status, began, changed, epoch, entries, bytes, abort";

fn run_row(row: &Row) -> Result<RunRow, StoreError> {
    Ok(RunRow {
        run: get(row, 0)?,
        caller: get(row, 1)?,
        status: RunStatus::parse(get(row, 2)?)?,
        began: count(row, 3)?,
        changed: count(row, 4)?,
        epoch: count(row, 5)?,
        entries: count(row, 6)?,
        bytes: count(row, 7)?,
        abort: count(row, 8)? > 0,
    })
}

fn boxed<'a, T>(work: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> StoreFuture<'a, T> {
    Box::pin(work)
}

/// Adds rows to a run, numbered from `from`. One statement for all of them: a round trip each would hold the lock of the
/// run for longer.
async fn insert(transaction: &Transaction<'_>, run: &str, from: u64, rows: &Rows) -> Result<(), StoreError> {
    let text = "INSERT INTO toolgate_entries
        SELECT $1, $2 + place - 1, body FROM unnest($3::bytea[]) WITH ORDINALITY AS added (body, place)";
    let values: [&(dyn ToSql + Sync); 3] = [&run, &number(from), &rows.entries];
    transaction.execute(text, &values).await.map_err(|error| fault(&error))?;
    if rows.blobs.is_empty() {
        return Ok(());
    }
    let (names, bodies): (Vec<&String>, Vec<&Vec<u8>>) = rows.blobs.iter().map(|(name, body)| (name, body)).unzip();
    let text = "INSERT INTO toolgate_blobs
        SELECT $1, name, body FROM unnest($2::text[], $3::bytea[]) AS added (name, body) ON CONFLICT DO NOTHING";
    let values: [&(dyn ToSql + Sync); 3] = [&run, &names, &bodies];
    transaction.execute(text, &values).await.map_err(|error| fault(&error))?;
    Ok(())
}

/// Adds rows behind those that a run has; `false` when the lease is not its current one.
async fn add(transaction: &Transaction<'_>, lease: &Lease, from: u64, rows: &Rows) -> Result<bool, StoreError> {
    let text = format!(
        "UPDATE toolgate_runs SET changed = {NOW}, bytes = bytes + $3, entries = entries + $4
         WHERE run = $1 AND epoch = $2 AND status = 'running' AND entries = $5"
    );
    let (bytes, added) = (number(rows.bytes()), number(rows.entries.len() as u64));
    let values: [&(dyn ToSql + Sync); 5] = [&lease.run, &number(lease.epoch), &bytes, &added, &number(from)];
    if transaction.execute(&text, &values).await.map_err(|error| fault(&error))? == 0 {
        return Ok(false);
    }
    insert(transaction, &lease.run, from, rows).await?;
    Ok(true)
}

/// Gives a lease back; `false` when it is not the run's current one.
async fn give_back(transaction: &Transaction<'_>, lease: &Lease, how: &Leave) -> Result<bool, StoreError> {
    let (run, epoch) = (&lease.run, number(lease.epoch));
    let columns = match how {
        Leave::Done => "status = 'done'",
        Leave::Released => "owner = ''",
        Leave::Paused { calls, wake } => return pause(transaction, lease, calls, *wake).await,
    };
    let text = format!(
        "UPDATE toolgate_runs SET changed = {NOW}, lease_until = 0, {columns}
         WHERE run = $1 AND epoch = $2 AND status = 'running'"
    );
    let changed = transaction.execute(&text, &[run, &epoch]).await.map_err(|error| fault(&error))?;
    Ok(changed > 0)
}

/// The same with questions. Both or neither: a paused run without its questions could never go on.
async fn pause(
    transaction: &Transaction<'_>,
    lease: &Lease,
    calls: &[(u32, Vec<u8>)],
    wake: Option<u64>,
) -> Result<bool, StoreError> {
    let (calls, questions): (Vec<i64>, Vec<&Vec<u8>>) =
        calls.iter().map(|(call, question)| (i64::from(*call), question)).unzip();
    let text = format!(
        "WITH left_run AS (
             UPDATE toolgate_runs SET changed = {NOW}, status = 'paused',
                 lease_until = CASE WHEN abort > 0 OR EXISTS (
                     SELECT 1 FROM toolgate_pending
                     WHERE run = $1 AND call = ANY($3) AND decision IS NOT NULL) THEN 0 ELSE $5::bigint END
             WHERE run = $1 AND epoch = $2 AND status = 'running' RETURNING run),
         asked AS (
             INSERT INTO toolgate_pending
             SELECT left_run.run, asked.call, asked.question, NULL
             FROM left_run, unnest($3::bigint[], $4::bytea[]) AS asked (call, question)
             ON CONFLICT DO NOTHING)
         SELECT run FROM left_run"
    );
    let (epoch, wake) = (number(lease.epoch), number(wake.unwrap_or(u64::MAX)));
    let values: [&(dyn ToSql + Sync); 5] = [&lease.run, &epoch, &calls, &questions, &wake];
    transaction.query_opt(LOCK, &[&lease.run]).await.map_err(|error| fault(&error))?;
    let left = transaction.query_opt(&text, &values).await.map_err(|error| fault(&error))?;
    Ok(left.is_some())
}

impl Store for PostgresStore {
    fn begin(&self, new: NewRun) -> StoreFuture<'_, Begun> {
        boxed(async move {
            let text = format!(
                "INSERT INTO toolgate_runs VALUES ($1, $2, 'running', $3, 1, {NOW} + $4, {NOW}, {NOW}, $5, $6, $7, 0)
                 ON CONFLICT (idempotency) DO NOTHING"
            );
            let same = "SELECT run FROM toolgate_runs WHERE idempotency = $1";
            // The new run is among them.
            let open = "SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM toolgate_runs
                WHERE caller = $1 AND status IN ('running', 'paused')";
            self.within(async |client| {
                let transaction = client.transaction().await.map_err(|error| fault(&error))?;
                let (entries, bytes) = (number(new.rows.entries.len() as u64), number(new.rows.bytes()));
                let ttl = number(milliseconds(new.ttl));
                let values: [&(dyn ToSql + Sync); 7] =
                    [&new.run, &new.caller, &new.owner, &ttl, &entries, &bytes, &new.idempotency];
                if transaction.execute(&text, &values).await.map_err(|error| fault(&error))? == 0 {
                    let row = transaction.query_one(same, &[&new.idempotency]).await.map_err(|error| fault(&error))?;
                    return Ok(Ok(Begun::Existing { run: get(&row, 0)? }));
                }
                let open = transaction.query_one(open, &[&new.caller]).await.map_err(|error| fault(&error))?;
                if count(&open, 0)? > new.max_open {
                    transaction.rollback().await.map_err(|error| fault(&error))?;
                    return Ok(Err(StoreError::TooManyRuns(new.max_open)));
                }
                let others = count(&open, 1)?.saturating_sub(new.rows.bytes());
                if let Err(refused) = new.fits(others) {
                    transaction.rollback().await.map_err(|error| fault(&error))?;
                    return Ok(Err(refused));
                }
                insert(&transaction, &new.run, 0, &new.rows).await?;
                transaction.commit().await.map_err(|error| fault(&error))?;
                Ok(Ok(Begun::New(Lease { run: new.run.clone(), epoch: 1 })))
            })
            .await?
        })
    }

    fn open_bytes(&self, run: &str) -> StoreFuture<'_, u64> {
        let run = run.to_owned();
        boxed(async move {
            let text = "SELECT coalesce(sum(bytes), 0)::bigint FROM toolgate_runs
                WHERE caller = (SELECT caller FROM toolgate_runs WHERE run = $1) AND status IN ('running', 'paused')";
            self.within(async |client| {
                let row = client.query_one(text, &[&run]).await.map_err(|error| fault(&error))?;
                count(&row, 0)
            })
            .await
        })
    }

    fn append(&self, lease: Lease, from: u64, rows: Rows) -> StoreFuture<'_, ()> {
        boxed(self.write(lease, Some((from, rows)), None))
    }

    fn read(&self, run: &str) -> StoreFuture<'_, Rows> {
        let run = run.to_owned();
        boxed(async move {
            self.exists(&run).await?;
            let entries = "SELECT body FROM toolgate_entries WHERE run = $1 ORDER BY number";
            let blobs = "SELECT name, body FROM toolgate_blobs WHERE run = $1";
            self.within(async |client| {
                let entries = client.query(entries, &[&run]).await.map_err(|error| fault(&error))?;
                let blobs = client.query(blobs, &[&run]).await.map_err(|error| fault(&error))?;
                Ok(Rows {
                    entries: entries.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?,
                    blobs: blobs
                        .iter()
                        .map(|row| Ok((get(row, 0)?, get(row, 1)?)))
                        .collect::<Result<_, StoreError>>()?,
                })
            })
            .await
        })
    }

    fn entries(&self, run: &str, from: u64, most: usize) -> StoreFuture<'_, Vec<Vec<u8>>> {
        let run = run.to_owned();
        boxed(async move {
            let text = "SELECT body FROM toolgate_entries WHERE run = $1 AND number >= $2 ORDER BY number LIMIT $3";
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let values: [&(dyn ToSql + Sync); 3] = [&run, &number(from), &most];
            let rows = self.within(async |client| client.query(text, &values).await.map_err(|e| fault(&e))).await?;
            rows.iter().map(|row| get(row, 0)).collect()
        })
    }

    fn blob(&self, run: &str, name: &str) -> StoreFuture<'_, Option<Vec<u8>>> {
        let (run, name) = (run.to_owned(), name.to_owned());
        boxed(async move {
            let text = "SELECT body FROM toolgate_blobs WHERE run = $1 AND name = $2";
            let values: [&(dyn ToSql + Sync); 2] = [&run, &name];
            let row = self.within(async |client| client.query_opt(text, &values).await.map_err(|e| fault(&e))).await?;
            row.map(|row| get(&row, 0)).transpose()
        })
    }

    fn claim(&self, claim: Claim) -> StoreFuture<'_, Option<Lease>> {
        boxed(async move {
            // Replicas that look for any run skip those that are locked; a claim of one run waits for its lock.
            let locked = if claim.run.is_some() { "" } else { "SKIP LOCKED" };
            let text = format!(
                "UPDATE toolgate_runs
                 SET owner = $1, epoch = epoch + 1, status = 'running', lease_until = {NOW} + $2, changed = {NOW}
                 WHERE run = (SELECT run FROM toolgate_runs
                     WHERE ($3::text IS NULL AND lease_until <= {NOW} AND caller <> ALL ($4)
                            AND (status = 'paused' OR (status = 'running' AND (owner <> $1
                                 OR (lease_until <= {NOW} - $5 AND run <> ALL ($6))))))
                        OR (run = $3 AND (status = 'paused' OR (status = 'running' AND lease_until <= {NOW})))
                     ORDER BY lease_until, began LIMIT 1 FOR UPDATE {locked})
                 RETURNING run, epoch"
            );
            self.within(async |client| {
                let ttl = number(milliseconds(claim.ttl));
                let given_up = number(milliseconds(claim.ttl * GIVEN_UP_LEASES));
                let values: [&(dyn ToSql + Sync); 6] =
                    [&claim.owner, &ttl, &claim.run, &claim.not_of, &given_up, &claim.held];
                let row = client.query_opt(&text, &values).await.map_err(|error| fault(&error))?;
                row.map(|row| Ok(Lease { run: get(&row, 0)?, epoch: count(&row, 1)? })).transpose()
            })
            .await
        })
    }

    fn heartbeat(&self, owner: &str, runs: Vec<String>, ttl: Duration) -> StoreFuture<'_, Vec<Held>> {
        let owner = owner.to_owned();
        boxed(async move {
            let text = format!(
                "UPDATE toolgate_runs SET lease_until = {NOW} + $1
                 WHERE run = ANY($2) AND owner = $3 AND status = 'running' RETURNING run, epoch, abort"
            );
            let values: [&(dyn ToSql + Sync); 3] = [&number(milliseconds(ttl)), &runs, &owner];
            let rows = self.within(async |client| client.query(&text, &values).await.map_err(|e| fault(&e))).await?;
            let held = rows.iter().map(|row| {
                let lease = Lease { run: get(row, 0)?, epoch: count(row, 1)? };
                Ok(Held { lease, abort: count(row, 2)? > 0 })
            });
            held.collect()
        })
    }

    fn leave(&self, lease: Lease, how: Leave) -> StoreFuture<'_, ()> {
        boxed(self.write(lease, None, Some(how)))
    }

    fn append_and_leave(&self, lease: Lease, from: u64, rows: Rows, how: Leave) -> StoreFuture<'_, ()> {
        boxed(self.write(lease, Some((from, rows)), Some(how)))
    }

    fn pending(&self, run: &str) -> StoreFuture<'_, Vec<PendingRow>> {
        let run = run.to_owned();
        boxed(async move {
            self.exists(&run).await?;
            let text = "SELECT call, question, decision FROM toolgate_pending WHERE run = $1 ORDER BY call";
            let rows = self.within(async |client| client.query(text, &[&run]).await.map_err(|e| fault(&e))).await?;
            let pending = rows.iter().map(|row| {
                let call = u32::try_from(count(row, 0)?).map_err(|error| StoreError::Damaged(error.to_string()))?;
                Ok(PendingRow { call, question: get(row, 1)?, decision: get(row, 2)? })
            });
            pending.collect()
        })
    }

    fn decide(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, Decided> {
        let run = run.to_owned();
        boxed(async move {
            self.exists(&run).await?;
            let update = "UPDATE toolgate_pending SET decision = $3 WHERE run = $1 AND call = $2 AND decision IS NULL";
            let before = "SELECT decision FROM toolgate_pending WHERE run = $1 AND call = $2";
            let due = format!(
                "UPDATE toolgate_runs SET changed = {NOW},
                     lease_until = CASE WHEN status = 'paused' THEN 0 ELSE lease_until END WHERE run = $1"
            );
            self.within(async |client| {
                let transaction = client.transaction().await.map_err(|error| fault(&error))?;
                // A run that is being paused at the same time is either paused before this, or sees the decision.
                transaction.query_opt(LOCK, &[&run]).await.map_err(|error| fault(&error))?;
                let call = i64::from(call);
                let values: [&(dyn ToSql + Sync); 3] = [&run, &call, &decision];
                if transaction.execute(update, &values).await.map_err(|error| fault(&error))? > 0 {
                    transaction.execute(&due, &[&run]).await.map_err(|error| fault(&error))?;
                    transaction.commit().await.map_err(|error| fault(&error))?;
                    return Ok(Decided::Now);
                }
                let row = transaction.query_opt(before, &[&run, &call]).await.map_err(|error| fault(&error))?;
                transaction.commit().await.map_err(|error| fault(&error))?;
                row.map_or(Ok(Decided::NotAsked), |row| Ok(Decided::Before(get(&row, 0)?)))
            })
            .await
        })
    }

    fn amend(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, ()> {
        let run = run.to_owned();
        boxed(async move {
            self.exists(&run).await?;
            let text =
                "UPDATE toolgate_pending SET decision = $3 WHERE run = $1 AND call = $2 AND decision IS NOT NULL";
            let call = i64::from(call);
            self.within(async |client| client.execute(text, &[&run, &call, &decision]).await.map_err(|e| fault(&e)))
                .await?;
            Ok(())
        })
    }

    fn abort(&self, run: &str) -> StoreFuture<'_, ()> {
        let run = run.to_owned();
        boxed(async move {
            self.exists(&run).await?;
            let text = "UPDATE toolgate_runs SET abort = 1,
                    lease_until = CASE WHEN status = 'paused' THEN 0 ELSE lease_until END
                WHERE run = $1 AND status IN ('running', 'paused')";
            self.within(async |client| client.execute(text, &[&run]).await.map_err(|e| fault(&e))).await?;
            Ok(())
        })
    }

    fn find(&self, find: Find) -> StoreFuture<'_, Vec<RunRow>> {
        boxed(async move {
            let text = format!(
                "SELECT {RUN_COLUMNS} FROM toolgate_runs
                 WHERE ($1::text IS NULL OR caller = $1) AND ($2::text IS NULL OR status = $2)
                   AND ($3::text IS NULL OR run = $3) AND ($4::bigint IS NULL OR (began, run) < ($4, $5::text))
                 ORDER BY began DESC, run DESC LIMIT $6"
            );
            let (status, most) = (find.status.map(RunStatus::name), i64::try_from(find.most).unwrap_or(i64::MAX));
            let (began, before) = find.before.map(|(began, run)| (number(began), run)).unzip();
            let values: [&(dyn ToSql + Sync); 6] = [&find.caller, &status, &find.run, &began, &before, &most];
            let rows = self.within(async |client| client.query(&text, &values).await.map_err(|e| fault(&e))).await?;
            rows.iter().map(run_row).collect()
        })
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        boxed(async move {
            let ended = format!("SELECT {RUN_COLUMNS}, {NOW} FROM toolgate_runs WHERE status = 'done'");
            let delete = "DELETE FROM toolgate_runs WHERE status = 'done' AND run = ANY($1)";
            self.within(async |client| {
                let rows = client.query(&ended, &[]).await.map_err(|error| fault(&error))?;
                let Some(now) = rows.first().map(|row| count(row, 9)).transpose()? else { return Ok(0) };
                let ended = rows.iter().map(run_row).collect::<Result<_, _>>()?;
                let forgotten = to_prune(ended, prune, now);
                client.execute(delete, &[&forgotten]).await.map_err(|error| fault(&error))
            })
            .await
        })
    }

    fn counts(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>> {
        boxed(async move {
            let text = "SELECT coalesce(calls, 0) FROM unnest($2::text[]) WITH ORDINALITY AS asked (name, place)
                LEFT JOIN toolgate_counts AS kept ON kept.day = $1 AND kept.name = asked.name ORDER BY place";
            let values: [&(dyn ToSql + Sync); 2] = [&number(day), &names];
            let rows = self.within(async |client| client.query(text, &values).await.map_err(|e| fault(&e))).await?;
            rows.iter().map(|row| count(row, 0)).collect()
        })
    }

    fn count(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>> {
        boxed(async move {
            // In one order, so that statements which lock the same rows wait for each other and never in a circle.
            let add = "INSERT INTO toolgate_counts
                SELECT $1, name, 1 FROM unnest($2::text[]) AS added (name) ORDER BY name
                ON CONFLICT (day, name) DO UPDATE SET calls = toolgate_counts.calls + 1 RETURNING name, calls";
            let bound = "SELECT count(*) FROM toolgate_counts WHERE day = $1";
            let day = number(day);
            self.within(async |client| {
                let transaction = client.transaction().await.map_err(|error| fault(&error))?;
                let values: [&(dyn ToSql + Sync); 2] = [&day, &names];
                let rows = transaction.query(add, &values).await.map_err(|error| fault(&error))?;
                let mut before = HashMap::with_capacity(rows.len());
                for row in &rows {
                    before.insert(get::<String>(row, 0)?, count(row, 1)?.saturating_sub(1));
                }
                if before.values().any(|count| *count == 0) {
                    let kept = transaction.query_one(bound, &[&day]).await.map_err(|error| fault(&error))?;
                    if count(&kept, 0)? > MAX_COUNTED_NAMES {
                        transaction.rollback().await.map_err(|error| fault(&error))?;
                        return Ok(Err(too_many_names()));
                    }
                    let forget = "DELETE FROM toolgate_counts WHERE day < $1";
                    transaction.execute(forget, &[&(day - 1)]).await.map_err(|error| fault(&error))?;
                }
                transaction.commit().await.map_err(|error| fault(&error))?;
                Ok(Ok(names.iter().map(|name| before.get(name).copied().unwrap_or_default()).collect()))
            })
            .await?
        })
    }

    fn uncount(&self, day: u64, names: Vec<(String, u64)>) -> StoreFuture<'_, ()> {
        boxed(async move {
            let text = "UPDATE toolgate_counts SET calls = greatest(calls - $3, 0) WHERE day = $1 AND name = $2";
            self.within(async |client| {
                for (name, by) in &names {
                    let values: [&(dyn ToSql + Sync); 3] = [&number(day), name, &number(*by)];
                    client.execute(text, &values).await.map_err(|error| fault(&error))?;
                }
                Ok(())
            })
            .await
        })
    }
}
