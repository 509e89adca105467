//! Answers for a changed program, from the record of the original one.
//!
//! The same call with the same arguments gets the recorded answer, in the recorded order; a call that was not recorded
//! fails and names the nearest one that was. [`RecordedHost`] sends nothing anywhere; [`LiveReads`] makes calls that were not
//! recorded and are known to change nothing.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use toolgate_engine::host::{HeldBytes, Question, Target};
use toolgate_engine::{Host, HostCall, HostError, HostFuture};
use toolgate_wire::foreign_text::clipped;
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallErrorCode, CallId, CallState};

use crate::entry::{AskedFor, Event, ReplyBody};
use crate::recording::Record;
use crate::replay::NoReplay;

/// Characters of recorded arguments that an error shows.
const MAX_SHOWN: usize = 200;

/// The answers of a record.
pub struct RecordedHost {
    functions: Vec<String>,
    tools: bool,
    answers: HashMap<AskedFor, Option<String>>,
    read_only: HashSet<Target>,
    calls: Mutex<Vec<RecordedCalls>>,
}

/// Calls of one target with the same arguments.
struct RecordedCalls {
    target: Target,
    arguments: Value,
    replies: VecDeque<Result<String, HostError>>,
}

impl RecordedHost {
    /// The answers of this record.
    ///
    /// # Errors
    /// If the record is incomplete, or no program was started.
    pub fn new(record: &Record) -> Result<Self, NoReplay> {
        let start = record.entries.iter().find_map(|entry| match &entry.event {
            Event::Start(start) => Some(start),
            _ => None,
        });
        let start = start.ok_or(NoReplay::NotStarted)?;
        let mut host = RecordedHost {
            functions: start.functions.clone(),
            tools: start.tools,
            answers: HashMap::new(),
            read_only: HashSet::new(),
            calls: Mutex::default(),
        };
        for (name, answer) in &start.named {
            host.answers.insert(AskedFor::Global(name.clone()), Some(record.blobs.text(answer)?.to_owned()));
        }
        host.fill(record)?;
        Ok(host)
    }

    fn fill(&mut self, record: &Record) -> Result<(), NoReplay> {
        let mut made: HashMap<u32, (Target, Value)> = HashMap::new();
        let mut asked = None;
        for entry in &record.entries {
            match &entry.event {
                Event::Call(call) => {
                    let target = Target::from(&call.target);
                    if call.read_only {
                        self.read_only.insert(target.clone());
                    }
                    let arguments = serde_json::from_str(record.blobs.text(&call.args)?).unwrap_or_default();
                    made.insert(call.id, (target, arguments));
                }
                Event::Reply(reply) => {
                    let Some((target, arguments)) = made.remove(&reply.id) else { continue };
                    let text = record.blobs.text(reply.body.text())?;
                    let reply = match &reply.body {
                        ReplyBody::Value(_) => Ok(text.to_owned()),
                        ReplyBody::Error(_) => Err(error(text, reply.state)),
                    };
                    self.add(target, arguments, reply);
                }
                Event::Ask { question, .. } => asked = Some(question.clone()),
                Event::Answer { body } => {
                    let body = body.as_ref().map(|body| record.blobs.text(body)).transpose()?.map(str::to_owned);
                    if let Some(question) = asked.take() {
                        self.answers.insert(question, body);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, target: Target, arguments: Value, reply: Result<String, HostError>) {
        let calls = self.calls.get_mut();
        match calls.iter_mut().find(|calls| calls.target == target && calls.arguments == arguments) {
            Some(calls) => calls.replies.push_back(reply),
            None => calls.push(RecordedCalls { target, arguments, replies: VecDeque::from([reply]) }),
        }
    }

    fn reply(&self, call: &HostCall) -> Result<Result<String, HostError>, NotRecorded> {
        let arguments: Value = serde_json::from_str(&call.args).unwrap_or_default();
        let mut calls = self.calls.lock();
        let recorded = calls.iter_mut().find(|calls| calls.target == call.target && calls.arguments == arguments);
        let reply = recorded.and_then(|calls| calls.replies.pop_front());
        reply.ok_or_else(|| NotRecorded(not_recorded(call, &arguments, &calls)))
    }
}

/// Why the record has no answer to a call.
struct NotRecorded(String);

impl From<NotRecorded> for HostError {
    fn from(NotRecorded(why): NotRecorded) -> Self {
        HostError::not_sent(CallErrorCode::NotRecorded, why)
    }
}

impl Host for RecordedHost {
    fn call(&self, call: HostCall) -> HostFuture {
        Box::pin(std::future::ready(self.reply(&call).unwrap_or_else(|fault| Err(fault.into()))))
    }

    fn answer(&self, question: &Question) -> Option<String> {
        self.answers.get(&question.into()).cloned().flatten()
    }

    fn functions(&self) -> Vec<String> {
        self.functions.clone()
    }

    fn has_tools(&self) -> bool {
        self.tools
    }

    fn is_read_only(&self, target: &Target) -> bool {
        self.read_only.contains(target)
    }

    fn take_held(&self, _: CallId) -> Option<HeldBytes> {
        None
    }
}

/// A record in front of real tools: what was not recorded is called if it is known to change nothing.
pub struct LiveReads {
    recorded: Arc<RecordedHost>,
    real: Arc<dyn Host>,
}

impl LiveReads {
    /// The record in front of these tools.
    pub fn new(recorded: Arc<RecordedHost>, real: Arc<dyn Host>) -> Self {
        LiveReads { recorded, real }
    }
}

impl Host for LiveReads {
    fn call(&self, call: HostCall) -> HostFuture {
        let not_recorded = match self.recorded.reply(&call) {
            Ok(reply) => return Box::pin(std::future::ready(reply)),
            Err(fault) => fault,
        };
        if self.real.call_is_read_only(&call.target, &call.args) {
            return self.real.call(call);
        }
        let why = format!("{}; it is not known to change nothing, so it is not sent", not_recorded.0);
        Box::pin(std::future::ready(Err(NotRecorded(why).into())))
    }

    fn answer(&self, question: &Question) -> Option<String> {
        match self.recorded.answers.get(&question.into()) {
            Some(answer) => answer.clone(),
            None => self.real.answer(question),
        }
    }

    fn functions(&self) -> Vec<String> {
        let mut names = self.real.functions();
        names.extend(self.recorded.functions.clone());
        names.sort();
        names.dedup();
        names
    }

    fn has_tools(&self) -> bool {
        self.recorded.tools || self.real.has_tools()
    }

    fn is_read_only(&self, target: &Target) -> bool {
        self.recorded.is_read_only(target) || self.real.is_read_only(target)
    }

    fn decision(&self, id: CallId) -> Option<DecisionRecord> {
        self.real.decision(id)
    }

    fn call_is_read_only(&self, target: &Target, args: &str) -> bool {
        self.recorded.is_read_only(target) || self.real.call_is_read_only(target, args)
    }

    fn take_held(&self, id: CallId) -> Option<HeldBytes> {
        self.real.take_held(id)
    }
}

fn error(fields: &str, state: CallState) -> HostError {
    let fields: Value = serde_json::from_str(fields).unwrap_or_default();
    let text = |name: &str| fields[name].as_str().unwrap_or_default();
    let data = fields.get("data").filter(|data| !data.is_null()).cloned();
    HostError { code: CallErrorCode::named(text("code")), message: text("message").to_owned(), data, state }
}

fn not_recorded(call: &HostCall, arguments: &Value, calls: &[RecordedCalls]) -> String {
    let of_target = calls.iter().filter(|calls| calls.target == call.target);
    let nearest = of_target.max_by_key(|calls| common_members(&calls.arguments, arguments));
    match nearest {
        Some(calls) if calls.arguments == *arguments => {
            format!("{} was called with these arguments fewer times in the record", call.target)
        }
        Some(calls) => {
            let recorded = calls.arguments.to_string();
            let shown = clipped(&recorded, MAX_SHOWN);
            format!("{} was recorded with other arguments; the nearest are {shown}", call.target)
        }
        None => format!("{} was not called in the record", call.target),
    }
}

/// How many members two values have in common.
fn common_members(one: &Value, other: &Value) -> usize {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().filter(|(name, value)| other.get(*name) == Some(value)).count()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.iter().zip(other).map(|(one, other)| usize::from(one == other) + common_members(one, other)).sum()
        }
        _ => usize::from(one == other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool whose answers are counted.
    struct Counted;

    impl Host for Counted {
        fn call(&self, _: HostCall) -> HostFuture {
            Box::pin(std::future::ready(Ok("1".to_owned())))
        }

        fn take_held(&self, id: CallId) -> Option<HeldBytes> {
            Some(Box::new(id))
        }
    }

    #[test]
    fn what_counts_a_live_answer_goes_with_it() {
        let recorded = RecordedHost {
            functions: Vec::new(),
            tools: false,
            answers: HashMap::new(),
            read_only: HashSet::new(),
            calls: Mutex::default(),
        };
        let host = LiveReads::new(Arc::new(recorded), Arc::new(Counted));
        let held = host.take_held(CallId(7)).and_then(|held| held.downcast::<CallId>().ok());
        assert_eq!(held.as_deref(), Some(&CallId(7)));
    }
}
