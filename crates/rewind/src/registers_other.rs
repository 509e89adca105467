//! Processors whose registers are not known here: every process is refused, so that no other function is called.

use libc::pid_t;

use crate::Refusal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct General(());

impl General {
    pub(crate) fn of(_: pid_t) -> Result<Self, Refusal> {
        Err(Refusal::Processor)
    }

    pub(crate) fn set(&self, _: pid_t) -> Result<(), Refusal> {
        Err(Refusal::Processor)
    }

    pub(crate) fn is_at_wait(&self) -> bool {
        false
    }

    pub(crate) fn before_wait(&self) -> Option<Self> {
        None
    }

    pub(crate) fn calling(&self, _: u64, _: u64, _: u64) -> Self {
        *self
    }

    pub(crate) fn next(&self) -> u64 {
        0
    }

    pub(crate) fn returned(&self, _: &General) -> Option<u64> {
        None
    }
}

pub(crate) fn is_call(_: &[u8]) -> bool {
    false
}

#[derive(PartialEq, Eq)]
pub(crate) struct Extended(());

impl Extended {
    pub(crate) fn of(_: pid_t) -> Result<Self, Refusal> {
        Err(Refusal::Processor)
    }

    pub(crate) fn are_of(&self, _: pid_t) -> Result<bool, Refusal> {
        Err(Refusal::Processor)
    }

    pub(crate) fn set(&self, _: pid_t) -> Result<(), Refusal> {
        Err(Refusal::Processor)
    }
}
