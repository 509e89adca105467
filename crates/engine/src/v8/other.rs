//! Systems without a jail for deno: no pool can be made.

use std::io;
use std::path::Path;
use std::time::Instant;

use toolgate_guest::lockdown::Without;
use toolgate_wire::frame::Layers;

use super::V8Settings;
use crate::migrate::PendingWorker;
use crate::process::ProcessEnd;
use crate::pump::{Driven, Job};

pub(crate) enum Pool {}

pub(crate) enum Ready {}

/// As on Linux.
#[derive(Debug)]
pub(crate) enum NoWorker {
    Start(io::Error),
    Late,
}

/// Not looked at: no worker is started for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemorySize;

impl MemorySize {
    pub(crate) fn of(_: u64) -> Self {
        MemorySize
    }
}

impl Pool {
    pub(super) fn new(_: (&Path, Without), _: &Path, _: &V8Settings) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn take(&self, _: MemorySize, _: Instant) -> Result<Ready, NoWorker> {
        match *self {}
    }

    pub(crate) fn target(&self, _: MemorySize) -> io::Result<Box<dyn PendingWorker>> {
        match *self {}
    }

    pub(crate) fn refill(&self, _: MemorySize) {
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

    pub(crate) fn run(self, _: Job) -> (Driven, ProcessEnd) {
        match self {}
    }
}
