//! The total order of messages between the host and a run's guest: recorded, and repeated on another worker.
//!
//! A guest has no clock, chance or timer of its own, so the messages that it gets, in their order, determine
//! everything that it says. Migration to V8, resuming a run after a crash, and offline replay are all repetitions of a
//! transcript. What the guest said is only compared, by a keyed digest; it is never acted on twice.
//!
//! This module keeps no file and knows no store: a [`Recorder`] does.
//!
//! # Layout
//! - `digest`: the keyed digest of what a guest said
//! - `recorder`: who is told of every message, and may hold back a call with an effect until it is durable
//! - `replay`: the recorded messages that a run repeats before it goes on
//! - `repeat`: the repetition itself, as the pump carries it out
//! - `channel`: sends messages to the run's worker and records them
//! - `describe`: what a guest said, in words

mod channel;
mod describe;
mod digest;
mod recorder;
mod repeat;
mod replay;

pub use crate::call_replies::RunSoFar;
pub use describe::describe;
pub use digest::{Digest, DigestKey, NoDigest};
pub use recorder::{Delivery, Durable, NotDurable, Recorder};
pub use replay::{AfterReplay, Divergence, LineCheck, OpenCall, Replay, Step, StepEvent};

#[cfg(test)]
pub(crate) use channel::MAX_BYTES;
pub(crate) use channel::{Channel, ChannelOptions, Entry};
pub(crate) use recorder::hold_back;
