//! What Toolgate's crates say to each other: profiles, limits, outcomes, reports and the frames
//! between a host and its worker.
//!
//! Plain data only. No I/O, no clock, no policy: whoever depends on this crate gets no way to
//! reach anything.
//!
//! # Layout
//! - [`profile`]: the three kinds of run
//! - [`limits`]: how much a run may use, and what may be asked for
//! - [`outcome`]: how a run ended
//! - [`report`]: the outcome with logs, ledger and usage, as every door shows it
//! - [`scope`]: who asks, and what that caller may use
//! - [`frame`]: the messages on a worker's one socket
//! - [`codec`]: their bytes, and the one place where a worker's bytes are decoded

#![forbid(unsafe_code)]

pub mod codec;
pub mod frame;
pub mod limits;
pub mod outcome;
pub mod profile;
pub mod report;
pub mod scope;

pub use frame::{CallId, FromWorker, Start, ToWorker};
pub use limits::{LimitFault, LimitRequest, Limits};
pub use outcome::{Code, Failure, Outcome, Position};
pub use profile::Profile;
pub use report::{CallRecord, CallState, Destination, Isolation, Logs, Moved, Report, Usage};
pub use scope::Access;
