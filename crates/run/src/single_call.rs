//! Calls without a program, as history has them: in direct mode, at `/rpc`, of a command.
//!
//! Each is told to the listeners before it is made, where it may have an effect, and is recorded as a run of one call.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use serde_json::value::RawValue;
use toolgate_mcp::RequestOrigin;
use toolgate_wire::{CallErrorCode, CallRecord, CallState, CallerScope, Code, Failure, Outcome, Report, Target};

use super::door::Door;
use super::execution_id;
use super::history::History;
use super::listen::{BegunCall, CallDetails, EndedRun};
use super::request::{Route, RunReport};
use super::statistics::Transfer;

/// A call without a program: of a client in direct mode, at `/rpc`, of a command.
#[derive(Debug, Clone, Copy)]
pub struct SingleCall<'a> {
    /// The door that it comes by.
    pub door: Door,
    /// Who calls.
    pub caller: &'a CallerScope,
    /// Where the call comes from.
    pub origin: &'a RequestOrigin,
    /// The client's session, if it has one.
    pub session: Option<u64>,
    /// What is called.
    pub target: &'a Target,
    /// JSON text.
    pub arguments: &'a str,
    /// Whether it is declared to change nothing.
    pub read_only: bool,
}

/// A call without a program that is being made. One that is dropped before its end, because its caller went away, is recorded as
/// unknown.
pub struct BegunSingleCall<'a> {
    history: &'a History,
    call: SingleCall<'a>,
    run: String,
    since: Instant,
    /// Taken at its end.
    noted: Option<Arc<CallDetails>>,
}

impl BegunSingleCall<'_> {
    /// The record of the call, to be filled in with how it ended.
    pub fn record(&self) -> CallRecord {
        CallRecord::begin(self.call.target, self.call.arguments.len(), self.call.read_only)
    }
}

impl Drop for BegunSingleCall<'_> {
    fn drop(&mut self) {
        if self.noted.is_some() {
            let mut record = self.record();
            record.failed(CallState::Unknown, &CallErrorCode::Aborted, "its caller went away before it was answered");
            let history = self.history;
            history.add_single(self, record, 0);
        }
    }
}

impl History {
    /// Notes a call without a program before it is made.
    pub fn begin_call<'a>(&'a self, call: SingleCall<'a>) -> BegunSingleCall<'a> {
        let (run, noted) = (execution_id(), self.listeners.of_one_call(call.arguments));
        if !call.read_only {
            let SingleCall { door, caller, origin, target, .. } = call;
            let digest = noted.digest(0);
            let begun = BegunCall { run: &run, door, caller, origin, target, digest: digest.as_deref() };
            self.listeners.tell(|listener| listener.call_begins(&begun));
        }
        BegunSingleCall { history: self, call, run, since: Instant::now(), noted: Some(noted) }
    }

    /// Adds a call without a program with how it ended, and the bytes that were returned.
    pub fn end_call(&self, mut begun: BegunSingleCall<'_>, record: CallRecord, bytes: u64) {
        self.add_single(&mut begun, record, bytes);
    }

    fn add_single(&self, begun: &mut BegunSingleCall<'_>, mut record: CallRecord, bytes: u64) {
        let SingleCall { door, caller, origin, session, .. } = begun.call;
        let (run, since, noted) = (std::mem::take(&mut begun.run), begun.since, begun.noted.take().unwrap_or_default());
        record.ms = since.elapsed().as_secs_f64() * 1e3;
        let outcome = match record.error_code {
            None => Outcome::Returned(Box::<RawValue>::default()),
            Some(_) => Outcome::Failed(Failure::new(Code::Runtime, String::new())),
        };
        let report = Report { calls: vec![record], ..Report::not_started(outcome, since.elapsed()) };
        let run = RunReport::ended(run, Route::Direct, report);
        self.add(EndedRun {
            door,
            caller,
            session,
            text: None,
            origin,
            trace: None,
            noted: &noted,
            at: SystemTime::now(),
            report: &run,
            transfer: Transfer { processed: bytes, returned: bytes },
            saved: 0,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(history: &History) -> usize {
        history.recent(&CallerScope::default())["recent"].as_array().unwrap().len()
    }

    #[test]
    fn a_single_call_whose_caller_goes_away_is_recorded_as_unknown() {
        let history = History::default();
        let caller = CallerScope::default();
        let (origin, target) = (RequestOrigin::default(), Target::Function("f".into()));
        let (door, session, arguments, read_only) = (Door::Rpc, None, "[]", true);
        let single =
            SingleCall { door, caller: &caller, origin: &origin, session, target: &target, arguments, read_only };
        drop(history.begin_call(single));
        assert_eq!(seen(&history), 1);
        let begun = history.begin_call(single);
        let record = begun.record();
        history.end_call(begun, record, 0);
        assert_eq!(seen(&history), 2, "one that ends is recorded once");
    }
}
