//! From a record to what the engine repeats.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_engine::transcript::{AfterReplay, LineCheck, OpenCall, Replay, Step, StepEvent};
use toolgate_wire::frame::End;
use toolgate_wire::{CallId, Code, Failure, FromWorker, LimitRequest, Position, Target, ToWorker, UtcTime};

use crate::entry::{AllowedBy, Call, Event, FORMAT_VERSION, Header, ProgramEnd, Reply};
use crate::recording::{MAX_RECORD_BYTES, Record};
use crate::report;
use crate::start::NoStart;
use crate::text::{ContentHash, MissingBlob};

/// Bytes of texts of a record that is repeated, each as often as it occurs: more than are recorded, since the last text may
/// be longer than what was left.
const MAX_REPLAY_BYTES: u64 = 2 * MAX_RECORD_BYTES;

/// Why a record cannot be repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoReplay {
    /// It has no header.
    #[error("the record has no header")]
    NoHeader,
    /// It is of another version of the format.
    #[error("the record has format version {0}, and this program reads version {FORMAT_VERSION}")]
    Version(u32),
    /// No program was started.
    #[error("the record has no program: the run was refused before one was started")]
    NotStarted,
    /// It reached its bound and does not have the rest of the run.
    #[error("the record ends where it reached its bound of {0} bytes")]
    Truncated(u64),
    /// Its texts are longer than this program records of a run.
    #[error("the texts of the record have {0} bytes together, and at most {MAX_REPLAY_BYTES} are repeated")]
    TooLong(u64),
    /// The run has not ended.
    #[error("the record has no report: the run has not ended")]
    NoReport,
    /// Its report has another form.
    #[error("the report of the record is no report: {0}")]
    Report(String),
    /// The program of its header is not the one that was run.
    #[error("the program of the record has the hash {found}, where its header has {kept}: it was changed")]
    Program {
        /// The hash in the header.
        kept: ContentHash,
        /// The hash of the program.
        found: ContentHash,
    },
    /// Its key is none.
    #[error("the digest key of the record has another form")]
    Key,
    /// Its start is none.
    #[error(transparent)]
    Start(#[from] NoStart),
    /// A text is missing.
    #[error(transparent)]
    Missing(#[from] MissingBlob),
}

/// A call that was sent and has no answer.
#[derive(Debug, Clone, Copy)]
pub struct SentCall<'a> {
    /// Its number.
    pub id: CallId,
    /// What it invoked.
    pub target: &'a Target,
    /// Its arguments as the program gave them, as JSON text.
    pub args: &'a str,
}

/// A record that the engine can repeat.
#[derive(Debug, Clone)]
pub struct Replayable {
    /// Its header.
    pub header: Header,
    /// The program as its author wrote it.
    pub code: String,
    /// The limits that the run had; the wall time is what its worker had left at its start.
    pub limits: LimitRequest,
    /// How long the run had been running where the record ends: what is left of its wall time is the caller's to say.
    pub ran: Duration,
    /// What the policy let calls through by, where the record says so.
    pub allowed: HashMap<CallId, AllowedBy>,
    /// What the engine repeats.
    pub replay: Replay,
}

impl Replayable {
    /// Whether the program has said that it failed.
    pub fn has_failed(&self) -> bool {
        let is_failure = |said: &FromWorker| matches!(said, FromWorker::Done { end: End::Failed { .. }, .. });
        let mut steps = self.replay.steps.iter();
        steps.any(|step| matches!(&step.event, StepEvent::Said { then, .. } if is_failure(then)))
    }

    /// Whether a call of the run may have taken effect and is not repeated: the run ends then.
    pub fn is_unknown(&self) -> bool {
        match &self.replay.then {
            AfterReplay::GoOn(open) => open.values().any(|call| matches!(call, OpenCall::Unknown { .. })),
            AfterReplay::Stop(_) => false,
        }
    }
}

/// Repeats a run that has ended, without any host.
///
/// # Errors
/// If the record is not the whole record of a run.
pub fn offline(record: &Record) -> Result<Replayable, NoReplay> {
    if let Some(bytes) = truncated(record) {
        return Err(NoReplay::Truncated(bytes));
    }
    record.header().ok_or(NoReplay::NoHeader)?;
    let report = record.report().ok_or(NoReplay::NoReport)?;
    report::check(report).map_err(|fault| NoReplay::Report(fault.to_string()))?;
    replayable(record, AfterReplay::Stop(recorded_failure(report)))
}

/// Repeats a run that was cut off, and goes on.
///
/// An answer that was kept is delivered. A call that was not sent is made, and so is one that only reads, or that
/// `is_harmless` to repeat, which is asked once for every call that was sent, in the order of their numbers. Every other call
/// without an answer is unknown: the run ends and names it.
///
/// # Errors
/// If the record is incomplete.
pub fn resume(record: &Record, is_harmless: &mut dyn FnMut(SentCall<'_>) -> bool) -> Result<Replayable, NoReplay> {
    if let Some(bytes) = truncated(record) {
        return Err(NoReplay::Truncated(bytes));
    }
    let open = open_calls(record, is_harmless)?;
    replayable(record, AfterReplay::GoOn(open))
}

/// Repeats what is known of a run, and ends it with this failure. The record may have no report.
///
/// # Errors
/// If no program was started, or a part of the record is missing.
pub fn stopped(record: &Record, failure: Failure) -> Result<Replayable, NoReplay> {
    replayable(record, AfterReplay::Stop(failure))
}

/// Whether the record ends before its run did, because it reached its bound.
pub fn is_truncated(record: &Record) -> bool {
    truncated(record).is_some()
}

fn truncated(record: &Record) -> Option<u64> {
    record.entries.iter().find_map(|entry| match entry.event {
        Event::Truncated { bytes } => Some(bytes),
        _ => None,
    })
}

fn replayable(record: &Record, then: AfterReplay) -> Result<Replayable, NoReplay> {
    let header = record.header().ok_or(NoReplay::NoHeader)?;
    if header.version != FORMAT_VERSION {
        return Err(NoReplay::Version(header.version));
    }
    // A file from elsewhere may name one long text as often as it likes.
    let blobs = &record.blobs;
    let mut bytes = 0_u64;
    for text in record.entries.iter().flat_map(|entry| entry.event.texts()) {
        bytes = bytes.saturating_add(blobs.text(text)?.len() as u64);
    }
    if bytes > MAX_REPLAY_BYTES {
        return Err(NoReplay::TooLong(bytes));
    }
    // What is executed is the compiled program: without this, a header could show another one.
    let (code, kept) = (blobs.text(&header.code)?, &header.code_hash);
    let found = ContentHash::of(code);
    if found != *kept {
        return Err(NoReplay::Program { kept: kept.clone(), found });
    }
    let start = record.entries.iter().find_map(|entry| match &entry.event {
        Event::Start(start) => Some(start),
        _ => None,
    });
    let message = start.ok_or(NoReplay::NotStarted)?;
    let (start, data) = message.start(header.profile, blobs)?;
    let mut steps = Vec::new();
    for (number, entry) in record.entries.iter().enumerate() {
        if let Some(event) = step(&entry.event, record)? {
            steps.push(Step { number: number as u64, at: since_begin(entry.at), event });
        }
    }
    Ok(Replayable {
        code: code.to_owned(),
        limits: message.limits.request(),
        ran: record.entries.last().map_or(Duration::ZERO, |entry| since_begin(entry.at)),
        allowed: record.allowed(),
        replay: Replay {
            start,
            data,
            key: header.key().ok_or(NoReplay::Key)?,
            steps,
            lines: LineCheck::Compared,
            left: None,
            then,
            unsent: unsent_calls(record),
        },
        header: header.clone(),
    })
}

fn since_begin(milliseconds: f64) -> Duration {
    Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default()
}

fn step(event: &Event, record: &Record) -> Result<Option<StepEvent>, NoReplay> {
    let blobs = &record.blobs;
    let delivered = |message| Some(StepEvent::Delivered { message, state: None });
    Ok(match event {
        Event::Reply(reply) => {
            let (id, now) = (CallId(reply.id), reply.now.unwrap_or_default());
            let message = ToWorker::Reply { id, now, body: reply.body.bytes(blobs)? };
            Some(StepEvent::Delivered { message, state: Some(reply.state) })
        }
        Event::Fire { id, now } => delivered(ToWorker::Fire { id: CallId(*id), now: *now }),
        Event::Answer { body } => {
            let body = body.as_ref().map(|body| blobs.text(body)).transpose()?;
            delivered(ToWorker::Answer(body.map(|body| body.as_bytes().to_vec())))
        }
        // A worker that ends itself because time is up, or because it was told to, does not do so again.
        Event::End { end: ProgramEnd::Failed { code: Code::Timeout | Code::Aborted, .. }, .. } => None,
        said => match (said.digest(), said.frame(blobs)?) {
            (Some(digest), Some(then)) => {
                let read_only = matches!(said, Event::Call(call) if call.read_only);
                Some(StepEvent::Said { digest, then, read_only })
            }
            _ => None,
        },
    })
}

/// Calls without an answer that a person was asked about last, and that were not sent. A record that is not whole does not know.
fn unsent_calls(record: &Record) -> HashSet<CallId> {
    let mut unsent = HashSet::new();
    if is_truncated(record) {
        return unsent;
    }
    for entry in &record.entries {
        match &entry.event {
            Event::Asked { id, by_server: false } => drop(unsent.insert(CallId(*id))),
            Event::Asked { id, .. } | Event::Intent { id, .. } => drop(unsent.remove(&CallId(*id))),
            Event::Answered(reply) | Event::Reply(reply) => drop(unsent.remove(&CallId(reply.id))),
            _ => {}
        }
    }
    unsent
}

/// What to do about the calls without a delivered reply.
fn open_calls(
    record: &Record,
    is_harmless: &mut dyn FnMut(SentCall<'_>) -> bool,
) -> Result<HashMap<CallId, OpenCall>, NoReplay> {
    let mut open: BTreeMap<u32, OpenCall> = BTreeMap::new();
    let mut calls: BTreeMap<u32, &Call> = BTreeMap::new();
    for entry in &record.entries {
        match &entry.event {
            Event::Call(call) => {
                calls.insert(call.id, call);
                open.insert(call.id, OpenCall::Make);
            }
            Event::Intent { id, sent } if calls.get(id).is_none_or(|call| !call.read_only) => {
                open.insert(*id, OpenCall::Unknown { known: format!("sent at {}, no answer", clock(*sent)) });
            }
            Event::Asked { id, .. } => {
                open.insert(*id, OpenCall::Make);
            }
            Event::Answered(reply) => {
                open.insert(reply.id, answered(reply, record)?);
            }
            Event::Reply(reply) => {
                open.remove(&reply.id);
            }
            _ => {}
        }
    }
    for (id, what) in &mut open {
        let (OpenCall::Unknown { .. }, Some(call)) = (&what, calls.get(id)) else { continue };
        let (id, target, args) = (CallId(*id), Target::from(&call.target), record.blobs.text(&call.args)?);
        if is_harmless(SentCall { id, target: &target, args }) {
            *what = OpenCall::Make;
        }
    }
    Ok(open.into_iter().map(|(id, call)| (CallId(id), call)).collect())
}

fn answered(reply: &Reply, record: &Record) -> Result<OpenCall, MissingBlob> {
    Ok(OpenCall::Answered { state: reply.state, body: reply.body.bytes(&record.blobs)? })
}

/// The time of day in UTC.
pub fn clock(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    format!("{} UTC", UtcTime::of_unix(seconds).time_of_day())
}

/// The failure in the JSON text of a report.
fn recorded_failure(report: &str) -> Failure {
    // The report has the run's value too, of up to 16 MB, which stays text.
    let report: HashMap<String, &RawValue> = serde_json::from_str(report).unwrap_or_default();
    let position = field(&report, "line").zip(field(&report, "column"));
    Failure {
        code: field(&report, "code").unwrap_or(Code::Runtime),
        message: field(&report, "error").unwrap_or_else(|| "the recorded run ended without a failure".to_owned()),
        position: position.map(|(line, column)| Position { line, column }),
        hint: field(&report, "hint"),
        class: None,
    }
}

/// A field of a report; none if it is absent or of another type.
fn field<'a, T: Deserialize<'a>>(report: &HashMap<String, &'a RawValue>, name: &str) -> Option<T> {
    report.get(name).and_then(|text| serde_json::from_str(text.get()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;
    use crate::recording::Recording;
    use crate::recording::tests::facts;
    use toolgate_wire::{FromWorker, frame::Stream};

    #[test]
    fn a_failure_is_read_from_its_report() {
        let report =
            r#"{"ok":false,"code":"TIMEOUT","error":"late","line":3,"column":null,"hint":"a\u0062","value":[1]}"#;
        let failure = recorded_failure(report);
        assert_eq!((failure.code, failure.message.as_str()), (Code::Timeout, "late"));
        assert_eq!((failure.position, failure.hint.as_deref()), (None, Some("ab")));
        let placed = recorded_failure(r#"{"code":"?","line":3,"column":4}"#);
        assert_eq!((placed.code, placed.position), (Code::Runtime, Some(Position { line: 3, column: 4 })));
        assert_eq!(recorded_failure("").message, "the recorded run ended without a failure");
    }

    #[test]
    fn a_record_that_names_one_long_text_too_often_is_refused() {
        let recording = Recording::new(facts());
        recording.said(&FromWorker::Log { stream: Stream::Stdout, text: "x".repeat(1 << 20) }, false);
        let mut record = recording.take();
        let line: Entry = record.entries.last().expect("a line").clone();
        record.entries.extend(std::iter::repeat_n(line, 600));
        let refused = stopped(&record, Failure::new(Code::Aborted, "")).expect_err("too long");
        assert!(matches!(refused, NoReplay::TooLong(bytes) if bytes > 600 << 20), "{refused}");
    }
}
