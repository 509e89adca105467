//! The data that Toolgate's crates exchange: profiles, limits, outcomes, reports, and the frames between the host and
//! a worker.
//!
//! Plain data only: no I/O, no clock, no policy.
//!
//! # Layout
//! - [`profile`]: the three kinds of run
//! - [`limits`]: how much a run may use, and which values are accepted
//! - [`position`]: lines and columns in the user's text
//! - [`outcome`]: how a run ended
//! - [`report`]: the outcome with logs, calls and usage, as every door sends it
//! - [`scope`]: who asks for a run, and what that caller may use
//! - [`addresses`]: which IP addresses are public
//! - [`byte_budget`]: how many bytes the host holds for a run, a caller, a backend or all of them
//! - [`freed_bytes`]: how many of these were given back
//! - [`caller_shares`]: how much of a bound each caller has
//! - [`calendar`]: dates and times of day in UTC
//! - [`http_text`]: headers of the connection, percent-encoded text
//! - [`foreign_text`]: text of programs, servers and clients, made fit to be shown
//! - [`stem`]: what the forms of a word have in common
//! - [`frame`]: the messages on a worker's socket
//! - [`codec`]: their encoding, and the only place where bytes of a worker are decoded

#![forbid(unsafe_code)]

pub mod addresses;
pub mod byte_budget;
pub mod calendar;
pub mod caller_shares;
pub mod codec;
pub mod foreign_text;
pub mod frame;
pub mod freed_bytes;
pub mod http_text;
pub mod limits;
pub mod outcome;
pub mod position;
pub mod profile;
pub mod report;
pub mod scope;
pub mod stem;

pub use byte_budget::{ByteBudget, BytePermit, OverBudget};
pub use calendar::UtcTime;
pub use caller_shares::CallerShares;
pub use frame::{CallId, FromWorker, Start, Target, ToWorker};
pub use limits::{Limit, LimitFault, LimitRequest, LimitSpec, Limits};
pub use outcome::{Code, ErrorClass, Failure, Outcome};
pub use position::Position;
pub use profile::{Profile, Profiles};
pub use report::{
    CallErrorCode, CallRecord, CallState, Destination, Interpreter, Isolation, IsolationLevel, Logs, Moved, Report,
    ReportFields, Usage, Warning,
};
pub use scope::{Access, CallRate, CallerScope, Pattern};
