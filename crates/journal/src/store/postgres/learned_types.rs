//! Learned types of tools in PostgreSQL, for replicas that have no folder in common.
//!
//! One row for each tool, with the merged shape of what all replicas have seen: kinds and names of fields, never values. Writers wait
//! for each other at one row, the edition, and merge what they add into what is there, so none of them loses what another one added.
//! A reader asks for what changed since the edition that it knows. This module does not know what a shape says: the caller merges.
//! What is read is bounded by the database, and what cannot be a row of this table is left out.

use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connections::{Connections, fault};
use super::{StoreError, count, get};

const SCHEMA: &str = include_str!("learned_types.sql");
/// How long one operation may take: no call waits for it.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Connections of one process.
const MAX_CONNECTIONS: usize = 1;

/// The most tools that have a row.
pub const MAX_TYPES: usize = 5_000;
/// Maximum size of one shape, in bytes.
pub const MAX_TYPE_BYTES: usize = 2 << 20;
/// Maximum size of all shapes together, in bytes.
pub const MAX_ALL_BYTES: usize = 64 << 20;
/// Maximum length of the name of a backend or of a tool, in bytes. An index entry holds both.
pub const MAX_NAME_BYTES: usize = 1_000;

/// What all replicas learned, in a database.
pub struct LearnedTypeTable {
    connections: Connections,
    /// The version of the shapes. Rows of other versions are those of other releases, and stay as they are.
    version: i64,
}

/// The name of a tool: its backend's, and its own.
pub type ToolName = (String, String);

/// The shape of a tool's results that is to be changed.
#[derive(Debug, Clone, Copy)]
pub struct KeptShape<'a> {
    /// The tool.
    pub tool: &'a ToolName,
    /// Its shape, as JSON; `None` where it has none, or one that is too large.
    pub shape: Option<&'a str>,
    /// The most bytes that the new shape may take.
    pub room: usize,
}

/// The shape of a tool's results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRow {
    /// The tool.
    pub tool: ToolName,
    /// The shape, as JSON.
    pub shape: String,
}

/// What is different from an earlier edition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedTypes {
    /// The edition up to which this was read.
    pub edition: u64,
    /// Whether the rows are all that there are; otherwise they replace those of the same tools.
    pub is_whole: bool,
    /// The rows.
    pub rows: Vec<TypeRow>,
}

impl LearnedTypeTable {
    /// The table behind this address, `postgres://…`, for shapes of this version. It is made when it is not there.
    ///
    /// # Errors
    /// If the address is invalid, or the database cannot be reached.
    pub async fn connect(address: &str, version: u32) -> Result<Self, StoreError> {
        let connections = Connections::new(address, MAX_CONNECTIONS, OPERATION_TIMEOUT)?;
        connections.make_tables(SCHEMA).await?;
        Ok(LearnedTypeTable { connections, version: i64::from(version) })
    }

    /// Replaces the shapes of these tools by what `merged` makes of them, all of them or none. Tools whose names are too long, or
    /// for which there is no room, are left out.
    ///
    /// # Errors
    /// If the database cannot be written to.
    pub async fn merge(
        &self,
        tools: &[ToolName],
        merged: impl FnMut(KeptShape<'_>) -> String,
    ) -> Result<(), StoreError> {
        let tools: Vec<&ToolName> = tools.iter().filter(|tool| is_name(&tool.0) && is_name(&tool.1)).collect();
        if tools.is_empty() {
            return Ok(());
        }
        let next = "INSERT INTO toolgate_learned_editions VALUES ($1, 1, 0)
            ON CONFLICT (version) DO UPDATE SET edition = toolgate_learned_editions.edition + 1 RETURNING edition";
        let taken = "SELECT count(*), coalesce(sum(octet_length(shape)), 0)::bigint FROM toolgate_learned_types
            WHERE version = $1";
        let before =
            "SELECT backend, tool, CASE WHEN octet_length(shape) <= $4 THEN shape END, octet_length(shape)::bigint
            FROM unnest($2::bytea[], $3::bytea[]) AS asked (backend, tool)
            JOIN toolgate_learned_types AS kept USING (backend, tool) WHERE version = $1";
        let write = "INSERT INTO toolgate_learned_types
            SELECT $1::bigint, backend, tool, shape, $2::bigint
            FROM unnest($3::bytea[], $4::bytea[], $5::bytea[]) AS changed (backend, tool, shape)
            ON CONFLICT (version, backend, tool) DO UPDATE SET shape = excluded.shape, edition = excluded.edition";
        self.connections
            .within(async |client| {
                let transaction = client.transaction().await.map_err(|error| fault(&error))?;
                // Locks the row: the statements below see what the writers before this one wrote.
                let row = transaction.query_one(next, &[&self.version]).await.map_err(|error| fault(&error))?;
                let edition: i64 = get(&row, 0)?;
                let row = transaction.query_one(taken, &[&self.version]).await.map_err(|error| fault(&error))?;
                let room = Room { rows: count(&row, 0)?, bytes: count(&row, 1)? };
                let (backends, names): (Vec<&[u8]>, Vec<&[u8]>) =
                    tools.iter().map(|(backend, tool)| (backend.as_bytes(), tool.as_bytes())).unzip();
                let most = MAX_TYPE_BYTES as i32;
                let values: [&(dyn ToSql + Sync); 4] = [&self.version, &backends, &names, &most];
                let rows = transaction.query(before, &values).await.map_err(|error| fault(&error))?;
                let kept = rows.iter().map(kept_row).collect::<Result<HashMap<_, _>, _>>()?;
                let changed = room.changes(&tools, &kept, merged);
                let backends: Vec<&[u8]> = changed.iter().map(|row| row.0).collect();
                let names: Vec<&[u8]> = changed.iter().map(|row| row.1).collect();
                let shapes: Vec<&Vec<u8>> = changed.iter().map(|row| &row.2).collect();
                let values: [&(dyn ToSql + Sync); 5] = [&self.version, &edition, &backends, &names, &shapes];
                transaction.execute(write, &values).await.map_err(|error| fault(&error))?;
                transaction.commit().await.map_err(|error| fault(&error))
            })
            .await
    }

    /// Deletes what was learned of these backends, whatever the version.
    ///
    /// # Errors
    /// If the database cannot be written to.
    pub async fn forget(&self, backends: &[String]) -> Result<(), StoreError> {
        let backends: Vec<&[u8]> = backends.iter().map(String::as_bytes).collect();
        if backends.is_empty() {
            return Ok(());
        }
        let is_known = "SELECT 1 FROM toolgate_learned_types WHERE backend = ANY($1) LIMIT 1";
        let next = "UPDATE toolgate_learned_editions SET edition = edition + 1, cleared = edition + 1";
        let delete = "DELETE FROM toolgate_learned_types WHERE backend = ANY($1)";
        self.connections
            .within(async |client| {
                // Most of the time there is nothing, and other replicas need not read everything again.
                if client.query_opt(is_known, &[&backends]).await.map_err(|error| fault(&error))?.is_none() {
                    return Ok(());
                }
                let transaction = client.transaction().await.map_err(|error| fault(&error))?;
                transaction.execute(next, &[]).await.map_err(|error| fault(&error))?;
                transaction.execute(delete, &[&backends]).await.map_err(|error| fault(&error))?;
                transaction.commit().await.map_err(|error| fault(&error))
            })
            .await
    }

    /// What has changed since an edition; 0 is before the first one.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn changed_since(&self, edition: u64) -> Result<ChangedTypes, StoreError> {
        let current = "SELECT edition, cleared FROM toolgate_learned_editions WHERE version = $1";
        let changed = "SELECT backend, tool, shape FROM (
                SELECT backend, tool, shape, sum(octet_length(shape)) OVER (ORDER BY backend, tool) AS bytes
                FROM toolgate_learned_types
                WHERE version = $1 AND edition > $2 AND octet_length(shape) <= $3
                  AND octet_length(backend) <= $4 AND octet_length(tool) <= $4) AS kept
            WHERE bytes <= $5 ORDER BY backend, tool LIMIT $6";
        self.connections
            .within(async |client| {
                let row = client.query_opt(current, &[&self.version]).await.map_err(|error| fault(&error))?;
                let (now, cleared) = match row {
                    Some(row) => (count(&row, 0)?, count(&row, 1)?),
                    None => (0, 0),
                };
                // An edition that is lower than a known one is that of a new table.
                let is_whole = edition == 0 || cleared > edition || now < edition;
                if now == edition && !is_whole {
                    return Ok(ChangedTypes { edition, is_whole, rows: Vec::new() });
                }
                let since = if is_whole { -1 } else { i64::try_from(edition).unwrap_or(i64::MAX) };
                let (shape, name) = (MAX_TYPE_BYTES as i32, MAX_NAME_BYTES as i32);
                let (all, most) = (MAX_ALL_BYTES as i64, MAX_TYPES as i64);
                let values: [&(dyn ToSql + Sync); 6] = [&self.version, &since, &shape, &name, &all, &most];
                let rows = client.query(changed, &values).await.map_err(|error| fault(&error))?;
                Ok(ChangedTypes { edition: now, is_whole, rows: rows.iter().filter_map(type_row).collect() })
            })
            .await
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
}

/// A row that is there, by its names.
fn kept_row(row: &Row) -> Result<(RowName, KeptRow), StoreError> {
    let bytes = usize::try_from(count(row, 3)?).unwrap_or(usize::MAX);
    Ok(((get(row, 0)?, get(row, 1)?), KeptRow { shape: get(row, 2)?, bytes }))
}

/// The names of a row, as bytes.
type RowName = (Vec<u8>, Vec<u8>);

struct KeptRow {
    /// `None` where it is too large to be read.
    shape: Option<Vec<u8>>,
    bytes: usize,
}

/// A row that another program wrote may be anything: one that is no text is left out.
fn type_row(row: &Row) -> Option<TypeRow> {
    let text = |column| String::from_utf8(get(row, column).ok()?).ok();
    Some(TypeRow { tool: (text(0)?, text(1)?), shape: text(2)? })
}

/// What the rows of a version take.
struct Room {
    rows: u64,
    bytes: u64,
}

impl Room {
    /// The most bytes that a row may take, without those that it takes now; `None` where there is no room for one more row.
    fn take_out(&mut self, kept: Option<&KeptRow>) -> Option<usize> {
        match kept {
            Some(kept) => self.bytes = self.bytes.saturating_sub(kept.bytes as u64),
            None if self.rows >= MAX_TYPES as u64 => return None,
            None => self.rows += 1,
        }
        let left = (MAX_ALL_BYTES as u64).saturating_sub(self.bytes);
        Some(MAX_TYPE_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }

    fn put_in(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// The rows to write.
    fn changes<'a>(
        mut self,
        tools: &[&'a ToolName],
        kept: &HashMap<RowName, KeptRow>,
        mut merged: impl FnMut(KeptShape<'_>) -> String,
    ) -> Vec<(&'a [u8], &'a [u8], Vec<u8>)> {
        let mut changed = Vec::with_capacity(tools.len());
        for &tool in tools {
            let (backend, name) = (tool.0.as_bytes(), tool.1.as_bytes());
            let kept = kept.get(&(backend.to_vec(), name.to_vec()));
            let Some(room) = self.take_out(kept) else { continue };
            let shape = kept.and_then(|kept| std::str::from_utf8(kept.shape.as_deref()?).ok());
            let shape = merged(KeptShape { tool, shape, room });
            if shape.len() <= room {
                self.put_in(shape.len());
                changed.push((backend, name, shape.into_bytes()));
            } else {
                self.put_in(kept.map_or(0, |kept| kept.bytes));
            }
        }
        changed
    }
}
