//! The record of a program's host calls.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use toolgate_wire::frame::Target;
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallErrorCode, CallId, CallRecord, CallState};

use crate::host::HostError;

/// Host calls in the order in which they were made. A call without an answer stays `unknown`, unless it is known not to have been
/// sent.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    records: Vec<CallRecord>,
    open: HashMap<CallId, (usize, Instant)>,
}

fn leave_open(record: &mut CallRecord, since: Instant, is_unsent: bool) {
    record.ms = since.elapsed().as_secs_f64() * 1e3;
    if is_unsent {
        record.state = CallState::NotSent;
    }
}

impl Ledger {
    /// Records a call that is about to be made, and returns its index.
    pub(crate) fn begin(&mut self, id: CallId, target: &Target, request_bytes: usize, read_only: bool) -> usize {
        let index = self.records.len();
        self.open.insert(id, (index, Instant::now()));
        self.records.push(CallRecord::begin(target, request_bytes, read_only));
        index
    }

    /// Records the answer and returns the completed record; `None` when the call is not open.
    pub(crate) fn end(
        &mut self,
        id: CallId,
        answer: &Result<String, HostError>,
        decision: Option<DecisionRecord>,
    ) -> Option<&CallRecord> {
        let (index, since) = self.open.remove(&id)?;
        let record = self.records.get_mut(index)?;
        record.ms = since.elapsed().as_secs_f64() * 1e3;
        record.decision = decision.map(Box::new);
        match answer {
            Ok(json) => record.applied(json.len()),
            Err(error) => record.failed(error.state, &error.code, &error.message),
        }
        Some(record)
    }

    /// Records the answer of a call that is repeated from a record, with the time that it took then.
    pub(crate) fn repeat_end(
        &mut self,
        id: CallId,
        took: Duration,
        state: CallState,
        body: &Result<Vec<u8>, Vec<u8>>,
        decision: Option<DecisionRecord>,
    ) {
        let Some((index, _)) = self.open.remove(&id) else { return };
        let Some(record) = self.records.get_mut(index) else { return };
        record.ms = took.as_secs_f64() * 1e3;
        record.decision = decision.map(Box::new);
        match body {
            Ok(json) => record.applied(json.len()),
            Err(fields) => {
                let fields: Value = serde_json::from_slice(fields).unwrap_or_default();
                let text = |name: &str| fields[name].as_str().unwrap_or_default();
                record.failed(state, &CallErrorCode::named(text("code")), text("message"));
            }
        }
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

    /// The records so far; calls that are still open have their time so far, and those that `is_unsent` are not sent.
    pub(crate) fn so_far(&self, is_unsent: impl Fn(CallId) -> bool) -> Vec<CallRecord> {
        let mut records = self.records.clone();
        for (id, (index, since)) in &self.open {
            if let Some(record) = records.get_mut(*index) {
                leave_open(record, *since, is_unsent(*id));
            }
        }
        records
    }

    /// Takes the records; calls that are still open are as [`Ledger::so_far`] says.
    pub(crate) fn close(&mut self, is_unsent: impl Fn(CallId) -> bool) -> Vec<CallRecord> {
        for (id, (index, since)) in std::mem::take(&mut self.open) {
            if let Some(record) = self.records.get_mut(index) {
                leave_open(record, since, is_unsent(id));
            }
        }
        std::mem::take(&mut self.records)
    }
}
