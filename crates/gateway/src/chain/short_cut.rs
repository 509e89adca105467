//! One call without an engine.
//!
//! The call is made through the same host that a script would use. Whatever an interpreter would
//! add to the answer, a position, the wording of an error, what happens to a huge value, is had
//! by running the program after all, with the recorded answer in place of the call: so the answer
//! cannot depend on the road, and nothing is called twice.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;
use toolgate_engine::host::Target;
use toolgate_engine::{Host, HostCall, HostError, HostFuture};
use toolgate_plan::{Call, Form, Plan, Script, Tools};
use toolgate_wire::{CallRecord, CallState, Code, Failure, Limits, Outcome, Report};

use super::tools::CatalogTools;
use super::{Chain, ChainRequest, canonical, stopped_by, without_engine};

/// Answers longer than this go through the engine, whose memory limit they may exceed.
const LARGE: usize = 1024 * 1024;

/// A text that is JSON: there is no program to run, so errors have no position.
pub(super) async fn direct(
    chain: &Chain,
    request: &ChainRequest,
    call: Call,
    limits: &Limits,
    since: Instant,
) -> Report {
    let made = make(chain, request, call, limits).await;
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
    let made = make(chain, request, call, limits).await;
    let plain = matches!(&made.answer, Ended::Answered(Ok(json)) if json.len() <= LARGE);
    let program = if plain { None } else { toolgate_plan::compile(&request.code, Form::Script).ok() };
    match (program, made.answer) {
        (Some(program), Ended::Answered(answer)) => {
            let host = Arc::new(Recorded { answer: Mutex::new(Some(answer)), real: chain.host(request) });
            let replay = ChainRequest { observer: None, ..request.clone() };
            let report = chain.in_engine(replay, host, program).await;
            Report { elapsed: since.elapsed(), calls: vec![made.record], ..report }
        }
        (_, answer) => finished(Made { answer, ..made }, limits, since),
    }
}

/// What the preflight of the same script would stop it for. Only wrong arguments can: the call itself is known.
pub(super) fn stopped(code: &str, call: &Call, tools: &CatalogTools<'_>) -> Option<Failure> {
    if tools.check_arguments(&call.backend, &call.tool, &call.arguments).is_empty() {
        return None;
    }
    stopped_by(&toolgate_plan::preflight(code, tools).ok()?)
}

/// The program for the engine, when short cuts are off. A text that is no JavaScript keeps its plan.
pub(super) fn as_script(code: &str, tools: &CatalogTools<'_>) -> Result<Script, Plan> {
    match (toolgate_plan::compile(code, Form::Script), toolgate_plan::preflight(code, tools)) {
        (Ok(program), Ok(preflight)) => Ok(Script { program, preflight }),
        _ => Err(toolgate_plan::plan(code, tools)),
    }
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

async fn make(chain: &Chain, request: &ChainRequest, call: Call, limits: &Limits) -> Made {
    let host = chain.host(request);
    let args = canonical::write(&call.arguments);
    let target = Target::Tool { backend: call.backend, tool: call.tool };
    let mut record = CallRecord {
        name: target.to_string(),
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
        () = tokio::time::sleep(limits.wall) => Ended::Late,
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
        Ended::Answered(Ok(json)) => returned(&json, limits),
        Ended::Answered(Err(error)) => failed(Code::Runtime, format!("ToolError: {}", error.message)),
        Ended::Late => failed(Code::Timeout, format!("the run took longer than its {} ms", limits.wall.as_millis())),
        Ended::Cancelled => failed(Code::Aborted, "cancelled during sandbox execution".to_owned()),
    };
    Report { calls: vec![made.record], ..without_engine(outcome, since) }
}

fn returned(json: &str, limits: &Limits) -> Outcome {
    let value = match serde_json::from_str::<Value>(json) {
        Ok(value) => value,
        Err(error) => return Outcome::Failed(Failure::new(Code::Runtime, error.to_string())),
    };
    let text = canonical::write(&value);
    if text.len() as u64 > limits.result {
        let message = format!("the value is larger than {} bytes of JSON", limits.result);
        return Outcome::Failed(Failure::new(Code::OutputTooLarge, message));
    }
    match serde_json::value::RawValue::from_string(text) {
        Ok(value) => Outcome::Returned(value),
        Err(error) => Outcome::Failed(Failure::new(Code::Runtime, error.to_string())),
    }
}

/// A host that has the answer already.
struct Recorded<H> {
    answer: Mutex<Option<Result<String, HostError>>>,
    real: H,
}

impl<H: Host> Host for Recorded<H> {
    fn call(&self, _: HostCall) -> HostFuture {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let once = || Err(HostError::not_sent("REPLAY", "a program of one call called twice"));
        Box::pin(std::future::ready(answer.unwrap_or_else(once)))
    }

    fn answer(&self, question: toolgate_engine::host::Question, name: &str) -> Option<String> {
        self.real.answer(question, name)
    }

    fn has_tools(&self) -> bool {
        true
    }
}
