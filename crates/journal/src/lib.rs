//! The journal of a run: the total order of the messages to its guest, kept so that the run can be repeated.
//!
//! A guest is deterministic, so its messages determine everything that it does (see `toolgate_engine::transcript`).
//! This crate writes them down, keeps them in a store with leases, gives them to the engine again after a crash, and
//! exports them as a file. It decides nothing about calls: policy and approvals are above it.
//!
//! # Layout
//! - [`entry`]: what a record consists of; [`start`]: the message that began the run; [`text`]: long texts by the hash of their content
//! - [`recording`]: the recorder of one run, in memory, with its bound
//! - [`replay`]: from a record to what the engine repeats: offline, or to go on; [`report`]: the report of a replay
//! - [`cassette`]: a record as a file; [`redact`]: secrets replaced by stand-ins; [`edited`]: answers for a changed program; [`fork`]: the beginning of a run as a new one; [`page`]: a record for people
//! - [`store`]: where durable runs are: memory, SQLite, PostgreSQL; [`seal`]: encryption at rest
//! - [`durable`]: a durable run: recorded into a store, claimed, resumed

#![forbid(unsafe_code)]

pub mod cassette;
pub mod durable;
pub mod edited;
pub mod entry;
pub mod fork;
pub mod page;
pub mod recording;
pub mod redact;
pub mod replay;
pub mod report;
pub mod seal;
pub mod start;
pub mod store;
pub mod text;

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, by the clock of the system: what times of runs and decisions are written in.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
