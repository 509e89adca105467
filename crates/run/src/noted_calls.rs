//! The calls of a volatile run, noted in memory while it goes on: what `failed_runs` keeps if it fails.
//!
//! Bounded by calls and by bytes: reads that do not fit are left out, and after an effect that does not fit nothing is noted.

use std::sync::Arc;

use parking_lot::Mutex;
use toolgate_bridge::Bridge;
use toolgate_engine::host::Target;
use toolgate_engine::{Host, HostCall, HostError, HostFuture, HostLayer};
use toolgate_wire::{CallState, Code};

use crate::durable::own_names;

/// Bytes of arguments and answers that are noted of one run.
pub(crate) const MAX_RUN_BYTES: usize = 1 << 20;
/// Calls that are noted of one run.
const MAX_RUN_CALLS: usize = 2_000;

/// One call of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NotedCall {
    /// What was called, by the names that its backend itself uses.
    pub(crate) target: Target,
    /// JSON text of the arguments.
    pub(crate) args: String,
    /// Whether it changes nothing.
    pub(crate) is_read: bool,
    /// JSON text of the answer; `None` before the call is answered, and for a call whose effect is unknown.
    pub(crate) answer: Option<String>,
}

impl NotedCall {
    /// The bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<NotedCall>() + self.args.len() + self.answer.as_ref().map_or(0, String::len)
    }
}

/// The calls of one run.
#[derive(Default)]
pub struct NotedCalls {
    /// The id of the run.
    run: String,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    /// In their order; those that failed or were not sent are taken out.
    calls: Vec<Option<NotedCall>>,
    bytes: usize,
    /// Whether reads are not noted any more, because they did not fit.
    is_without_reads: bool,
    /// Whether an effect did not fit: then the run is not kept.
    is_cut: bool,
    /// Whether the run has ended: nothing more is called, because it would not be known.
    is_closed: bool,
}

/// What becomes of a call that a run is about to make.
#[derive(Debug, PartialEq)]
pub(crate) enum BegunNote {
    /// It is made; its end is noted by this number.
    Noted(usize),
    /// It is made and not noted.
    NotNoted,
    /// It is not made: the run has ended.
    Closed,
}

impl Notes {
    /// Makes room: reads go first.
    fn fit(&mut self) {
        if self.bytes <= MAX_RUN_BYTES && self.calls.len() <= MAX_RUN_CALLS {
            return;
        }
        if !self.is_without_reads {
            self.is_without_reads = true;
            for call in &mut self.calls {
                *call = call.take().filter(|call| !call.is_read);
            }
            self.bytes = self.calls.iter().flatten().map(NotedCall::bytes).sum();
        }
        let effects = self.calls.iter().flatten().count();
        if self.bytes > MAX_RUN_BYTES || effects > MAX_RUN_CALLS {
            *self = Notes { is_cut: true, ..Notes::default() };
        }
    }
}

impl NotedCalls {
    /// Of the run with this id, which has called nothing.
    pub(crate) fn new(run: String) -> Self {
        NotedCalls { run, notes: Mutex::default() }
    }

    /// The id that the run has.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// Notes that a call is made.
    pub(crate) fn begin(&self, target: &Target, args: &str, is_read: bool) -> BegunNote {
        let mut notes = self.notes.lock();
        if notes.is_closed {
            return BegunNote::Closed;
        }
        if notes.is_cut || (is_read && notes.is_without_reads) {
            return BegunNote::NotNoted;
        }
        let call = NotedCall { target: target.clone(), args: args.to_owned(), is_read, answer: None };
        notes.bytes += call.bytes();
        notes.calls.push(Some(call));
        let number = notes.calls.len() - 1;
        notes.fit();
        BegunNote::Noted(number)
    }

    /// Notes how a call ended.
    pub(crate) fn end(&self, number: usize, answer: &Result<String, HostError>) {
        let mut notes = self.notes.lock();
        let Some(noted) = notes.calls.get_mut(number) else { return };
        let Some(call) = noted else { return };
        let before = call.bytes();
        match answer {
            Ok(text) => call.answer = Some(text.clone()),
            Err(error) if error.state == CallState::Unknown && !call.is_read => {}
            // What failed or was not sent may be tried again.
            Err(_) => *noted = None,
        }
        let after = noted.as_ref().map_or(0, NotedCall::bytes);
        notes.bytes = (notes.bytes + after).saturating_sub(before);
        notes.fit();
    }

    /// The calls, if all effects are among them. A read without an answer says nothing. No call is made from now on.
    pub(crate) fn close(&self) -> Option<Vec<NotedCall>> {
        let closed = Notes { is_closed: true, ..Notes::default() };
        let notes = std::mem::replace(&mut *self.notes.lock(), closed);
        let says_something = |call: &NotedCall| !call.is_read || call.answer.is_some();
        (!notes.is_cut).then(|| notes.calls.into_iter().flatten().filter(says_something).collect())
    }
}

/// A host that notes the calls of a run and their answers.
pub(crate) struct NotingHost {
    noted: Arc<NotedCalls>,
    bridge: Arc<Bridge>,
    real: Arc<dyn Host>,
}

impl NotingHost {
    pub(crate) fn new(noted: Arc<NotedCalls>, bridge: Arc<Bridge>, real: Arc<dyn Host>) -> Self {
        NotingHost { noted, bridge, real }
    }
}

impl HostLayer for NotingHost {
    fn inner(&self) -> &dyn Host {
        &*self.real
    }

    fn make_call(&self, call: HostCall) -> HostFuture {
        let is_read = self.real.call_is_read_only(&call.target, &call.args);
        let number = match self.noted.begin(&own_names(&self.bridge, &call.target), &call.args, is_read) {
            BegunNote::Noted(number) => number,
            BegunNote::NotNoted => return self.real.call(call),
            BegunNote::Closed => {
                let refusal = HostError::not_sent(Code::Aborted.name(), "the run has ended");
                return Box::pin(std::future::ready(Err(refusal)));
            }
        };
        let (noted, answer) = (self.noted.clone(), self.real.call(call));
        Box::pin(async move {
            let answer = answer.await;
            noted.end(number, &answer);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes a call that is answered.
    fn call(calls: &NotedCalls, is_read: bool, answer: &str) {
        let target = Target::Tool { backend: "b".into(), tool: "t".into() };
        if let BegunNote::Noted(number) = calls.begin(&target, "{}", is_read) {
            calls.end(number, &Ok(answer.to_owned()));
        }
    }

    /// The answers that are noted; `None` if effects are missing.
    fn answers(calls: &NotedCalls) -> Option<Vec<String>> {
        Some(calls.close()?.into_iter().filter_map(|call| call.answer).collect())
    }

    #[test]
    fn reads_that_do_not_fit_are_left_out() {
        let (calls, large) = (NotedCalls::new("run".into()), "x".repeat(MAX_RUN_BYTES));
        call(&calls, true, "1");
        call(&calls, false, "2");
        call(&calls, true, &large);
        call(&calls, false, "3");
        assert_eq!(answers(&calls), Some(vec!["2".to_owned(), "3".to_owned()]));
    }

    #[test]
    fn effects_that_do_not_fit_leave_nothing() {
        let (calls, large) = (NotedCalls::new("run".into()), "x".repeat(MAX_RUN_BYTES));
        call(&calls, false, "2");
        call(&calls, false, &large);
        call(&calls, false, "3");
        assert_eq!(answers(&calls), None);
        let many = NotedCalls::new("run".into());
        (0..=MAX_RUN_CALLS).for_each(|_| call(&many, false, "2"));
        assert_eq!(answers(&many), None);
    }
}
