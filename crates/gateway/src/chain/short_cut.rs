//! One call without an engine.
//!
//! The call is made through the same host that a script would use. Whatever an interpreter would
//! add to the answer, a position, the wording of an error, what happens to a huge value, is had
//! by running the program after all, with the recorded answer in place of the call: so the answer
//! cannot depend on the road, and nothing is called twice.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::RawValue;
use toolgate_engine::host::{Question, Target};
use toolgate_engine::{Host, HostCall, HostError, HostFuture};
use toolgate_plan::Call;
use toolgate_wire::{CallRecord, CallState, Code, Failure, LimitRequest, Limits, Outcome, Report};

use super::{Chain, ChainRequest, canonical, without_engine};
use crate::bridge::RunHost;

/// Answers longer than this go through the engine, whose memory limit they may exceed.
const LARGE: usize = 1024 * 1024;
/// An interpreter needs at most this many times its size for an answer that is only passed on: `[],` takes it 180 bytes.
const SPREAD: u64 = 80;

/// A text that is JSON: there is no program to run, so errors have no position.
pub(super) async fn direct(
    chain: &Chain,
    request: &ChainRequest,
    call: Call,
    limits: &Limits,
    since: Instant,
) -> Report {
    let made = make(chain, request, call, limits, since).await;
    finished(made, limits, since)
}

/// A program that is one call.
pub(super) async fn one_call(
    chain: &Chain,
    request: &ChainRequest,
    call: Call,
    limits: &Limits,
    since: Instant,
) -> Report {
    let Made { answer, record } = make(chain, request, call, limits, since).await;
    let answer = match answer {
        Ended::Answered(Ok(json)) => match plain(&json, limits) {
            Some(value) => {
                return Report { calls: vec![record], ..without_engine(Outcome::Returned(value), since) };
            }
            None => Ok(json),
        },
        Ended::Answered(Err(error)) => Err(error),
        ended => return finished(Made { answer: ended, record }, limits, since),
    };
    let report = replay(chain, request, answer, limits.wall.saturating_sub(since.elapsed())).await;
    Report { elapsed: since.elapsed(), calls: vec![record], ..report }
}

/// Runs the program with the answer that was had already.
async fn replay(chain: &Chain, request: &ChainRequest, answer: Result<String, HostError>, left: Duration) -> Report {
    let limits = LimitRequest { wall: Some(left.max(Duration::from_millis(1))), ..request.limits.clone() };
    let again = ChainRequest { observer: None, limits, ..request.clone() };
    let catalog = chain.bridge().catalog();
    let program = toolgate_plan::script(&request.code, &request.reachable(&catalog));
    match program {
        Ok(script) => {
            let host = Recorded { answer: Mutex::new(Some(answer)), real: chain.host(request) };
            chain.in_engine(again, Arc::new(host), script.program).await
        }
        // It was planned as a program a moment ago.
        Err(fault) => without_engine(Outcome::Failed(super::not_a_program(fault)), Instant::now()),
    }
}

/// The value as a program would return it, if that is certain: not when it is so large that a limit may be met.
pub(super) fn plain(json: &str, limits: &Limits) -> Option<Box<RawValue>> {
    let certain = LARGE.min(usize::try_from(limits.memory / SPREAD).unwrap_or(usize::MAX));
    if json.len() > certain || limits.result_depth.is_some() {
        return None;
    }
    let text = canonical::write(&serde_json::from_str::<Value>(json).ok()?);
    if text.len() as u64 > limits.result {
        return None;
    }
    RawValue::from_string(text).ok()
}

/// A call that was made, and its line in the ledger.
struct Made {
    answer: Ended,
    record: CallRecord,
}

enum Ended {
    Answered(Result<String, HostError>),
    Late,
    Cancelled,
}

async fn make(chain: &Chain, request: &ChainRequest, call: Call, limits: &Limits, begun: Instant) -> Made {
    let host = chain.host(request);
    let args = canonical::write(&call.arguments);
    let target = Target::Tool { backend: call.backend, tool: call.tool };
    let mut record = CallRecord {
        target: target.clone(),
        state: CallState::Unknown,
        ms: 0.0,
        request_bytes: args.len() as u64,
        reply_bytes: 0,
        read_only: host.is_read_only(&target),
        error: None,
    };
    if let Some(observer) = &request.observer {
        observer.call_began(&target);
    }
    let since = Instant::now();
    let answer = tokio::select! {
        answer = host.call(HostCall { target, args }) => Ended::Answered(answer),
        () = tokio::time::sleep_until((begun + limits.wall).into()) => Ended::Late,
        () = request.asked.cancel.cancelled() => Ended::Cancelled,
    };
    record.ms = since.elapsed().as_secs_f64() * 1e3;
    match &answer {
        Ended::Answered(Ok(json)) => {
            record.state = CallState::Applied;
            record.reply_bytes = json.len() as u64;
        }
        Ended::Answered(Err(error)) => {
            record.state = error.state;
            record.error = Some(error.message.clone());
        }
        Ended::Late | Ended::Cancelled => {}
    }
    if let Some(observer) = &request.observer {
        observer.call_ended(&record);
    }
    Made { answer, record }
}

fn finished(made: Made, limits: &Limits, since: Instant) -> Report {
    let failed = |code, message: String| Outcome::Failed(Failure::new(code, message));
    let outcome = match made.answer {
        Ended::Answered(Ok(json)) => returned(json, limits),
        Ended::Answered(Err(error)) => failed(Code::Runtime, format!("ToolError: {}", error.message)),
        Ended::Late => failed(Code::Timeout, format!("the run took longer than its {} ms", limits.wall.as_millis())),
        Ended::Cancelled => failed(Code::Aborted, "cancelled during sandbox execution".to_owned()),
    };
    Report { calls: vec![made.record], ..without_engine(outcome, since) }
}

/// Hands the answer on as JavaScript would print it; one that cannot be read so deep is handed on as it is.
fn returned(json: String, limits: &Limits) -> Outcome {
    let text = serde_json::from_str::<Value>(&json).map_or(json, |value| canonical::write(&value));
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
    real: RunHost,
}

impl Host for Recorded {
    fn call(&self, _: HostCall) -> HostFuture {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let once = || Err(HostError::not_sent("REPLAY", "a program of one call called twice"));
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
}
