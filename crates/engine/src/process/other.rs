//! Systems without the layers that confine a worker: no zygote can be made, so there is no pool and no worker either.

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use toolgate_guest::lockdown::{Reuse, Without};
use toolgate_wire::frame::Layers;

use super::command::{NoWorker, StartError, WorkerCommand};
use super::end::ProcessEnd;
use super::request::{MigrationRequest, ReuseKey};
use crate::migrate::PendingWorker;
use crate::pump::{Driven, Job};

pub(crate) enum Zygote {}

pub(crate) enum Pool {}

pub(crate) enum Ready {}

pub(crate) enum UsedWorker {}

impl Zygote {
    pub(crate) fn new(_: WorkerCommand, _: Without, _: Reuse, _: NonZeroU32) -> Result<Arc<Self>, StartError> {
        Err(StartError::System)
    }
}

impl Pool {
    pub(crate) fn new(zygote: Arc<Zygote>, _: usize, _: Reuse) -> io::Result<Self> {
        match *zygote {}
    }

    pub(crate) fn take(&self, _: Instant, _: Option<&ReuseKey>) -> Result<Ready, NoWorker> {
        match *self {}
    }

    pub(crate) fn rehearsal_worker(&self) -> io::Result<Box<dyn PendingWorker>> {
        match *self {}
    }

    pub(crate) fn reuse_key(&self, _: impl FnOnce() -> Option<ReuseKey>) -> Option<ReuseKey> {
        match *self {}
    }

    pub(crate) fn reuse_refusal(&self) -> Option<String> {
        match *self {}
    }

    pub(crate) fn put_back(&self, _: ReuseKey, _: UsedWorker) {
        match *self {}
    }

    pub(crate) fn refill(&self) {
        match *self {}
    }

    pub(crate) fn stop(&self) {
        match *self {}
    }
}

impl Ready {
    pub(crate) fn layers(&self) -> Layers {
        match *self {}
    }

    pub(crate) fn killer(&self) -> Box<dyn Fn() + Send + Sync> {
        match *self {}
    }

    pub(crate) fn was_rewound(&self) -> bool {
        match *self {}
    }

    pub(crate) fn run(self, _: Job, _: Option<MigrationRequest<'_>>) -> (Driven, ProcessEnd, Option<UsedWorker>) {
        match self {}
    }
}
