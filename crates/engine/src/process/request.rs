//! What a run asks of its worker: who may have it again, and how the run may migrate away from it.

use std::sync::Arc;

use toolgate_wire::{Limits, Profile};

use crate::migrate::{OnCancel, RacePolicy, StartTarget, Thresholds};

/// Who may get a used worker again: the same caller, for a run of the same kind with the same limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReuseKey {
    pub(crate) caller: Arc<str>,
    pub(crate) profile: Profile,
    pub(crate) limits: Limits,
}

/// How a run may migrate away from its worker.
pub(crate) struct MigrationRequest<'a> {
    pub(crate) thresholds: Thresholds,
    pub(crate) race: RacePolicy,
    pub(crate) start: StartTarget<'a>,
    pub(crate) on_cancel: OnCancel<'a>,
}
