//! The record of a program's host calls.

use std::collections::HashMap;
use std::time::Instant;

use toolgate_wire::frame::Target;
use toolgate_wire::{CallId, CallRecord};

use crate::host::HostError;

/// Host calls in the order in which they were made. A call without an answer stays `unknown`.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    records: Vec<CallRecord>,
    open: HashMap<CallId, (usize, Instant)>,
}

impl Ledger {
    /// Records a call that is about to be made.
    pub(crate) fn begin(&mut self, id: CallId, target: &Target, request_bytes: usize, read_only: bool) {
        self.open.insert(id, (self.records.len(), Instant::now()));
        self.records.push(CallRecord::begin(target, request_bytes, read_only));
    }

    /// Records the answer and returns the completed record; `None` when the call is not open.
    pub(crate) fn end(&mut self, id: CallId, answer: &Result<String, HostError>) -> Option<&CallRecord> {
        let (index, since) = self.open.remove(&id)?;
        let record = self.records.get_mut(index)?;
        record.ms = since.elapsed().as_secs_f64() * 1e3;
        match answer {
            Ok(json) => record.applied(json.len()),
            Err(error) => record.failed(error.state, &error.code, &error.message),
        }
        Some(record)
    }

    pub(crate) fn is_open(&self, id: CallId) -> bool {
        self.open.contains_key(&id)
    }

    /// Number of calls without an answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.open.len()
    }

    /// Number of calls so far.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Takes the records; calls that are still open get their time so far.
    pub(crate) fn close(&mut self) -> Vec<CallRecord> {
        for (index, since) in std::mem::take(&mut self.open).into_values() {
            if let Some(record) = self.records.get_mut(index) {
                record.ms = since.elapsed().as_secs_f64() * 1e3;
            }
        }
        std::mem::take(&mut self.records)
    }
}
