//! The gateway over real backend processes, as an agent meets it.
//!
//! Runs are in threads here: a test harness cannot be started again as a worker. The command line's own tests run
//! the same over confined processes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod agent;
mod approvals;
mod asks_back;
mod budgets;
mod corrections;
mod counting_store;
mod crashed;
mod direct;
mod durable;
mod egress;
mod first_decisions;
mod forward;
mod full_store;
mod functions;
mod hostile;
mod lazy;
mod learning;
mod legacy_forms;
mod lifecycle;
mod offers;
mod parked;
mod policy;
#[path = "../../../journal/tests/support/postgres.rs"]
#[allow(dead_code, reason = "the tests of the journal use the rest")]
mod postgres;
mod registration;
mod remote;
mod returned;
mod run_views;
#[path = "../backends/server.rs"]
mod server;
mod shared_types;
mod staged_functions;
mod stale_schemas;
mod support;
mod tasks;
mod traits;
mod upgrades;
mod watching;
mod while_waiting;
