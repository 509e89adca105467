//! Turns the end of a worker into the one outcome of its run.
//!
//! What a worker says is accepted only as far as it can hurt nothing but its own run: a result must be JSON within its
//! limit, a message is cut, and a code must be one that a program can cause.

use serde_json::value::RawValue;
use toolgate_wire::foreign_text::head;
use toolgate_wire::frame::End;
use toolgate_wire::{Code, Failure, Limits, Outcome};

use crate::oom::Killer;
use crate::process::ProcessEnd;
use crate::pump::Lost;
use crate::source::Compiled;

/// Characters of a worker's message that are kept.
const MAX_MESSAGE: usize = 8_000;

/// The outcome that a worker reported.
pub(crate) fn from_end(end: End, limits: &Limits, program: &Compiled, cancelled: bool) -> Outcome {
    match end {
        End::Returned(json) => from_value(json, limits),
        End::Failed { code: Code::Aborted, .. } if cancelled => Outcome::Failed(aborted()),
        End::Failed { code, message, line, column, class } => {
            let (code, position) = (accepted(code), if line > 0 { program.position(line, column) } else { None });
            // A timeout gets the host's message: the worker only knows the time that was left when it started.
            if code == Code::Timeout {
                return Outcome::Failed(Failure { position, ..timeout(limits) });
            }
            let message = head(&message, MAX_MESSAGE).to_owned();
            let hint = class
                .filter(|_| code == Code::Runtime)
                .and_then(|class| toolgate_plan::hint_for_missing(program.text(), class, position, program.profile()));
            Outcome::Failed(Failure { position, hint, class, ..Failure::new(code, message) })
        }
    }
}

fn from_value(json: Vec<u8>, limits: &Limits) -> Outcome {
    if json.len() as u64 > limits.result {
        return Outcome::Failed(too_large(limits));
    }
    let value = String::from_utf8(json).ok().and_then(|text| RawValue::from_string(text).ok());
    match value {
        Some(value) => Outcome::Returned(value),
        None => Outcome::Failed(violation("a result that is not JSON")),
    }
}

fn too_large(limits: &Limits) -> Failure {
    let message = format!("the result is larger than {} bytes of JSON", limits.result);
    Failure::new(Code::OutputTooLarge, message).with_hint("return only what is needed: filter, map or slice first")
}

/// The code itself if a program can cause it, otherwise RUNTIME. No wildcard arm: a new code must choose.
fn accepted(code: Code) -> Code {
    match code {
        Code::Timeout | Code::Memory | Code::Syntax | Code::Runtime | Code::OutputTooLarge | Code::InvalidData => code,
        Code::InvalidCode | Code::Unavailable | Code::Aborted | Code::Diverged => Code::Runtime,
    }
}

/// The failure of a run whose worker reported no end.
///
/// `killer` tells who sent a SIGKILL; it is called only for a worker that died of one.
pub(crate) fn from_exit(
    lost: &Lost,
    process: ProcessEnd,
    limits: &Limits,
    cancelled: bool,
    killer: impl FnOnce() -> Killer,
) -> Failure {
    match lost {
        _ if cancelled => aborted(),
        Lost::Deadline => timeout(limits),
        Lost::Violation(what) => violation(what),
        Lost::Diverged(difference) => Failure::new(Code::Diverged, difference.to_string()),
        Lost::Stopped(failure) => Failure::clone(failure),
        Lost::UnknownEffect(call) => unknown_effect(call),
        Lost::Closed { .. } if process.is_cpu_limit() => timeout(limits),
        Lost::Closed { .. } if process.is_kill() => from_kill(killer()),
        Lost::Closed { .. } => match process {
            ProcessEnd::OutOfMemory => out_of_memory(limits),
            ProcessEnd::Signal(signal) => Failure::new(Code::Runtime, format!("the sandbox died of signal {signal}")),
            ProcessEnd::Exit => Failure::new(Code::Runtime, "the sandbox ended without an answer"),
        },
    }
}

fn unknown_effect(call: &str) -> Failure {
    let message =
        format!("the run was cut off during a call whose effect is unknown, and which is not repeated: {call}");
    Failure::new(Code::Runtime, message).with_hint("find out whether the call took effect before you run this again")
}

/// The code is MEMORY only where the kernel's counter proves it.
fn from_kill(killer: Killer) -> Failure {
    match killer {
        Killer::Oom => Failure::new(Code::Memory, "the system killed the sandbox because memory ran out"),
        Killer::Outside => Failure::new(Code::Runtime, "the sandbox was killed by signal 9 from outside"),
        Killer::Unsure => {
            let message = "the sandbox was killed by signal 9 from outside, or by the system for lack of memory";
            Failure::new(Code::Runtime, message)
        }
    }
}

fn out_of_memory(limits: &Limits) -> Failure {
    let megabytes = limits.memory as f64 / (1024.0 * 1024.0);
    Failure::new(Code::Memory, format!("the run needed more than its {megabytes} MB of memory"))
}

pub(crate) fn timeout(limits: &Limits) -> Failure {
    let message = format!("the run took longer than its {} ms", limits.wall.as_millis());
    Failure::new(Code::Timeout, message)
}

fn violation(what: &str) -> Failure {
    Failure::new(Code::Runtime, format!("the sandbox was stopped: it sent {what}"))
}

/// The engine was disposed of before or during the run.
pub(crate) fn disposed() -> Failure {
    Failure::new(Code::Unavailable, "this engine was disposed of")
}

pub(crate) fn cancelled_before() -> Failure {
    Failure::new(Code::Aborted, "cancelled before sandbox started")
}

fn aborted() -> Failure {
    Failure::new(Code::Aborted, "cancelled during sandbox execution")
}
