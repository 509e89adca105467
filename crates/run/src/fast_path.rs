//! A program that is one tool call, answered without an interpreter.
//!
//! The call is made through the same host that a script would use. Whatever an interpreter would
//! add to the answer, a position, the wording of an error, what happens to a huge value, is had
//! by running the program after all, with the recorded answer in place of the call: so the answer
//! cannot depend on the path, and nothing is called twice.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;
use toolgate_engine::host::{HeldBytes, Question, Target};
use toolgate_engine::{Host, HostCall, HostError, HostFuture};
use toolgate_mcp::{TreeError, bounded_tree};
use toolgate_plan::Call;
use toolgate_wire::{
    ByteBudget, CallErrorCode, CallId, CallRecord, Code, ErrorClass, Failure, Limits, Outcome, Report,
};

use super::attempt::{Attempt, Watched, without_engine};
use super::check::not_a_program;
use toolgate_bridge::RunHost;
use toolgate_json::{minified, stringify, stringify_exact};

/// The number that a program gives to its first call.
const FIRST_CALL: CallId = CallId(1);
/// Answers longer than this go through the engine, whose memory limit they may exceed.
const MAX_PLAIN: usize = 1024 * 1024;
/// The memory that the values of an answer may take while it is written as JavaScript writes it.
const MAX_TREE_BYTES: usize = 32 << 20;
/// Bytes of answers that wait for a worker.
const MAX_QUEUED_BYTES: usize = 128 << 20;
/// An interpreter needs at most this many times its size for an answer that is only passed on: `[],` takes it 180 bytes.
const SPREAD: u64 = 80;

/// Counts answers that wait for a worker. No call waits for this budget: a run that waits for a worker must not hold bytes that
/// calls of running programs wait for.
static QUEUED: LazyLock<ByteBudget> =
    LazyLock::new(|| ByteBudget::new("answers that wait for a worker", MAX_QUEUED_BYTES));

/// A text that is JSON: there is no program to run, so errors have no position, and integers keep their digits.
pub(super) async fn direct(attempt: &Attempt<'_>, call: Call) -> Report {
    if let Some(report) = report_if_late(attempt) {
        return report;
    }
    let args = stringify_exact(&call.arguments);
    finished(call_tool(attempt, &attempt.host(), call, args).await, attempt)
}

/// A program that is one call.
pub(super) async fn one_call(attempt: &Attempt<'_>, call: Call) -> Report {
    if let Some(report) = report_if_late(attempt) {
        return report;
    }
    let args = stringify(&call.arguments);
    let CallResult { answer, record, held } = call_tool(attempt, &*attempt.noting_host(), call, args).await;
    let answer = match answer {
        CallEnd::Answered(Ok(json)) => match plain(&json, &attempt.limits) {
            Some(value) => {
                return Report { calls: vec![record], ..without_engine(Outcome::Returned(value), attempt.since) };
            }
            None => Ok(json),
        },
        CallEnd::Answered(Err(error)) => Err(error),
        ended => return finished(CallResult { answer: ended, record, held }, attempt),
    };
    drop(held);
    Report { calls: vec![record], ..Box::pin(replay(attempt, answer)).await }
}

/// The report of a run whose time was over before its call: nothing was sent.
fn report_if_late(attempt: &Attempt<'_>) -> Option<Report> {
    let is_late = attempt.since.elapsed() >= attempt.limits.wall;
    is_late.then(|| without_engine(Outcome::Failed(timeout(&attempt.limits)), attempt.since))
}

fn timeout(limits: &Limits) -> Failure {
    Failure::new(Code::Timeout, format!("the run took longer than its {} ms", limits.wall.as_millis()))
}

/// Runs the program with the answer that the call has given already.
async fn replay(attempt: &Attempt<'_>, answer: Result<String, HostError>) -> Report {
    let catalog = attempt.runner.bridge().catalog();
    let program = match toolgate_plan::script(&attempt.request.text, &attempt.reachable(&catalog)) {
        Ok(script) => script.program,
        // It was planned as a program a moment ago.
        Err(fault) => return without_engine(Outcome::Failed(not_a_program(fault)), attempt.since),
    };
    let bytes = answer.as_ref().map_or(0, String::len);
    let (answer, queued) = match QUEUED.try_reserve(bytes) {
        Ok(permit) => (answer, Some(Box::new(permit) as HeldBytes)),
        Err(over) => (Err(HostError::new(CallErrorCode::OverBudget, over.to_string())), None),
    };
    let host = Recorded { answer: Mutex::new(Some(answer)), held: Mutex::new(queued), real: attempt.host() };
    // The observer has been told of the call.
    attempt.in_engine(Arc::new(host), Some(program), Watched::No).await
}

/// The value as a program would return it, if that is certain: not when it is so large that a limit may be met.
pub(super) fn plain(json: &str, limits: &Limits) -> Option<Box<RawValue>> {
    let certain = MAX_PLAIN.min(usize::try_from(limits.memory / SPREAD).unwrap_or(usize::MAX));
    if json.len() > certain || limits.result_depth.is_some() {
        return None;
    }
    let text = stringify(&serde_json::from_str::<Value>(json).ok()?);
    if text.len() as u64 > limits.result {
        return None;
    }
    RawValue::from_string(text).ok()
}

/// A call that was made, and its record.
struct CallResult {
    answer: CallEnd,
    record: CallRecord,
    /// Counts the answer for as long as it is kept.
    held: Option<HeldBytes>,
}

enum CallEnd {
    Answered(Result<String, HostError>),
    Late,
    Cancelled,
}

async fn call_tool(attempt: &Attempt<'_>, host: &dyn Host, call: Call, args: String) -> CallResult {
    let target = Target::Tool { backend: call.backend, tool: call.tool };
    let mut record = CallRecord::begin(&target, args.len(), host.call_is_read_only(&target, &args));
    let observer = attempt.request.observer.as_ref();
    if let Some(observer) = observer {
        observer.call_noted(0, &args, None);
        observer.call_began(&target);
        observer.call_arguments(&target, &args, record.read_only);
    }
    let since = Instant::now();
    let answer = tokio::select! {
        // In this order: an answer that is there at once needs no timer.
        biased;
        () = attempt.request.cancel.cancelled() => CallEnd::Cancelled,
        answer = host.call(HostCall { id: FIRST_CALL, target, args }) => CallEnd::Answered(answer),
        () = tokio::time::sleep_until((attempt.since + attempt.limits.wall).into()) => CallEnd::Late,
    };
    record.ms = since.elapsed().as_secs_f64() * 1e3;
    record.decision = host.decision(FIRST_CALL).map(Box::new);
    match &answer {
        CallEnd::Answered(Ok(json)) => record.applied(json.len()),
        CallEnd::Answered(Err(error)) => record.failed(error.state, &error.code, &error.message),
        CallEnd::Late | CallEnd::Cancelled => {}
    }
    if let Some(observer) = observer {
        observer.call_ended(&record);
    }
    CallResult { answer, record, held: host.take_held(FIRST_CALL) }
}

fn finished(made: CallResult, attempt: &Attempt<'_>) -> Report {
    let limits = &attempt.limits;
    let outcome = match made.answer {
        CallEnd::Answered(Ok(json)) => returned(json, limits),
        CallEnd::Answered(Err(error)) => {
            let failure = Failure::new(Code::Runtime, format!("ToolError: {}", error.message));
            Outcome::Failed(Failure { class: Some(ErrorClass::Other), ..failure })
        }
        CallEnd::Late => Outcome::Failed(timeout(limits)),
        CallEnd::Cancelled => {
            Outcome::Failed(Failure::new(Code::Aborted, "cancelled during sandbox execution".to_owned()))
        }
    };
    Report { calls: vec![made.record], ..without_engine(outcome, attempt.since) }
}

/// Hands the answer on as JavaScript would print it, integers of 64 bits aside, which keep their digits; one that cannot be
/// read so deep is handed on as it is, and one with very many values without its white space.
fn returned(json: String, limits: &Limits) -> Outcome {
    let text = match bounded_tree(&json, MAX_TREE_BYTES) {
        Ok(value) => stringify_exact(&value),
        Err(TreeError::TooManyValues { .. } | TreeError::OverBudget(_)) => {
            let room = usize::try_from(limits.result).unwrap_or(usize::MAX);
            minified(toolgate_json::Value::of(&json), room).unwrap_or(json)
        }
        Err(TreeError::NotJson(_)) => json,
    };
    if text.len() as u64 > limits.result {
        let message = format!("the value is larger than {} bytes of JSON", limits.result);
        return Outcome::Failed(Failure::new(Code::OutputTooLarge, message));
    }
    match RawValue::from_string(text) {
        Ok(value) => Outcome::Returned(value),
        Err(error) => Outcome::Failed(Failure::new(Code::InvalidData, format!("the answer is not JSON: {error}"))),
    }
}

/// A host that has the answer already.
struct Recorded {
    answer: Mutex<Option<Result<String, HostError>>>,
    held: Mutex<Option<HeldBytes>>,
    real: RunHost,
}

impl Host for Recorded {
    fn call(&self, _: HostCall) -> HostFuture {
        let answer = self.answer.lock().take();
        let once = || Err(HostError::not_sent(CallErrorCode::Replay, "a program of one call called twice"));
        Box::pin(std::future::ready(answer.unwrap_or_else(once)))
    }

    fn answer(&self, question: &Question) -> Option<String> {
        self.real.answer(question)
    }

    fn functions(&self) -> Vec<String> {
        self.real.functions()
    }

    fn has_tools(&self) -> bool {
        self.real.has_tools()
    }

    fn take_held(&self, _: CallId) -> Option<HeldBytes> {
        self.held.lock().take()
    }
}
