//! Why a durable run is not begun, found or decided.

use toolgate_journal::fork::NoFork;
use toolgate_journal::replay::NoReplay;
use toolgate_journal::store::StoreError;
use toolgate_wire::LimitFault;

use super::open::OpenError;

/// Why a durable run was not begun, or not found.
#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// There is no such run of this caller.
    #[error("there is no run {0}")]
    NoSuchRun(String),
    /// A limit is out of range.
    #[error(transparent)]
    Limit(#[from] LimitFault),
    /// The program is longer than its limit.
    #[error("the code has {length} characters; at most {most} are taken")]
    TooLong {
        /// Its characters.
        length: u64,
        /// The limit.
        most: u64,
    },
    /// Too many records are being read at one time.
    #[error("too many records of runs are being read at one time: try again later")]
    Busy,
    /// A webhook is asked for, and there is no secret to sign it with.
    #[error("webhooks need toolgate.runs.webhook_secret in the configuration")]
    NoWebhooks,
    /// The run has not ended.
    #[error("the run {0} has not ended")]
    NotEnded(String),
    /// A run that this one corrected, directly or not, is not in the store any more.
    #[error(
        "the run {run} cannot be corrected: what it keeps of the run {earlier} is not known any more, because the store has \
         forgotten that run. Begin a new run with a program that does only what is left to do"
    )]
    Forgotten {
        /// The run that was to be corrected.
        run: String,
        /// The run that is gone.
        earlier: String,
    },
    /// The record of a run that this one corrected, directly or not, or its own, ends before the run did.
    #[error(
        "the run {run} cannot be corrected: the record of the run {earlier} is too long to be kept whole, so not all of its \
         effects are known. Begin a new run with a program that does only what is left to do"
    )]
    Truncated {
        /// The run that was to be corrected.
        run: String,
        /// The run whose record is not whole.
        earlier: String,
    },
    /// The run is corrected already, by a run that has not ended.
    #[error(
        "the run {run} is corrected by the run {by} already, which has not ended: run_status gives its result. What it does is \
         kept by the next correction, once it has ended"
    )]
    BeingCorrected {
        /// The run that was to be corrected.
        run: String,
        /// The run that corrects it.
        by: String,
    },
    /// The run is a correction of a correction, and so on, more often than is followed.
    #[error(
        "the run {run} cannot be corrected: it is the last of too many corrections. Begin a new run with a program that does \
         only what is left to do"
    )]
    TooManyCorrections {
        /// The run.
        run: String,
    },
    /// The process is ending.
    #[error("the service is shutting down")]
    Stopping,
    /// There is no store.
    #[error("no durable runs are kept here")]
    NoStore,
    /// The store cannot be opened.
    #[error("durable runs cannot be kept: {0}")]
    Open(#[from] OpenError),
    /// A decision cannot be taken.
    #[error("{message}")]
    BadDecision {
        /// Its place in the list.
        at: usize,
        /// What is wrong with it.
        message: String,
    },
    /// The run has no such beginning.
    #[error(transparent)]
    Fork(#[from] NoFork),
    /// The record of the run cannot be repeated.
    #[error("the run cannot be repeated: {0}")]
    NoReplay(#[from] NoReplay),
    /// What is kept of a run has another form.
    #[error("the run cannot be read: {0}")]
    Unreadable(String),
    /// The store does not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DurableError {
    /// Whether there is no room now and will be later.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy | Self::Store(StoreError::TooManyRuns(_) | StoreError::TooManyBytes { .. }))
    }

    /// Whether nothing was recorded and the request is not the reason: it could be a run without a record. A store that does not
    /// answer may have the run, which another process would execute as well. No wildcard arm: a new variant must choose.
    pub(crate) fn is_of_store(&self) -> bool {
        match self {
            Self::Busy | Self::Stopping | Self::NoStore | Self::Open(_) => true,
            Self::Store(error) => match error {
                StoreError::TooManyRuns(_)
                | StoreError::TooManyBytes { .. }
                | StoreError::Full(_)
                | StoreError::ReadOnly(_) => true,
                StoreError::Fenced(_)
                | StoreError::NoSuchRun(_)
                | StoreError::Unavailable(_)
                | StoreError::Damaged(_) => false,
            },
            Self::NoSuchRun(_)
            | Self::Limit(_)
            | Self::TooLong { .. }
            | Self::NoWebhooks
            | Self::NotEnded(_)
            | Self::Forgotten { .. }
            | Self::Truncated { .. }
            | Self::BeingCorrected { .. }
            | Self::TooManyCorrections { .. }
            | Self::BadDecision { .. }
            | Self::Fork(_)
            | Self::NoReplay(_)
            | Self::Unreadable(_) => false,
        }
    }
}
