//! The recorded messages that a run repeats before it goes on.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use toolgate_wire::{CallId, CallState, Failure, FromWorker, Start, ToWorker};

use super::digest::{Digest, DigestKey};

/// A recorded run.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The program as it was sent to the first worker. Its wall time is replaced by what this run has left.
    pub start: Start,
    /// The data that `start` announces.
    pub data: Option<String>,
    /// The key of the digests.
    pub key: DigestKey,
    /// What followed the start, in order.
    pub steps: Vec<Step>,
    /// How console lines are compared.
    pub lines: LineCheck,
    /// Wall time that the run has from the end of the steps on; the rest of the request's when absent.
    pub left: Option<Duration>,
    /// What happens at the end of the steps, unless the last one ended the run.
    pub then: AfterReplay,
    /// Calls without an answer that were not sent: a person was asked about them.
    pub unsent: HashSet<CallId>,
}

/// One recorded message.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its number in the record.
    pub number: u64,
    /// When it happened, from the beginning of the run.
    pub at: Duration,
    /// What happened.
    pub event: StepEvent,
}

/// What happened in a step.
#[derive(Debug, Clone)]
pub enum StepEvent {
    /// A message was delivered to the guest.
    Delivered {
        /// The message; never a start.
        message: ToWorker,
        /// What is known about the effect of the call that a reply answers.
        state: Option<CallState>,
    },
    /// The guest said something.
    Said {
        /// The digest that it must have again.
        digest: Digest,
        /// What it said then, for the report of a difference.
        then: FromWorker,
        /// For a call: whether it was known to change nothing.
        read_only: bool,
    },
}

/// How console lines are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LineCheck {
    /// Like everything else.
    #[default]
    Compared,
    /// Counted only: the text of an error differs between interpreters.
    Counted,
}

/// What happens where the record ends.
#[derive(Debug, Clone)]
pub enum AfterReplay {
    /// The run ends with this failure, because the recorded one was ended from outside.
    Stop(Failure),
    /// The run goes on. A call without a reply is treated as its entry says; without an entry it is unknown.
    GoOn(HashMap<CallId, OpenCall>),
}

/// A call that had no reply where the record ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenCall {
    /// Its answer was kept, but not delivered: it is delivered now.
    Answered {
        /// What is known about its effect.
        state: CallState,
        /// The body of the reply.
        body: Result<Vec<u8>, Vec<u8>>,
    },
    /// It was not sent, or is harmless to repeat: it is made.
    Make,
    /// It was sent and may have had an effect: the run ends and names it.
    Unknown {
        /// What is known of it, such as when it was sent.
        known: String,
    },
}

/// The first difference between a record and its repetition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The number of the step in the record.
    pub step: u64,
    /// What the guest said then.
    pub then: String,
    /// What it says now.
    pub now: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} differs from the record: then the program {}, now it {}", self.step, self.then, self.now)
    }
}
