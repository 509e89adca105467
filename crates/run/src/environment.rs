//! What a runner asks of its surroundings: configured limits, host functions, backends that are still starting.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::durable::{DurableRuns, OpenError};
use super::type_check::{LearnedResults, ProgramTypes};
use toolgate_config::checked::BytesInFlight;
use toolgate_functions::Registry;
use toolgate_output::OutputSettings;
use toolgate_output::results::ResultStore;
use toolgate_wire::{Access, CallerScope, LimitRequest, Profile, Profiles};

/// The opening of the store of durable runs.
pub type OpeningRuns<'a> = Pin<Box<dyn Future<Output = Option<Result<DurableRuns, OpenError>>> + Send + 'a>>;

/// A wait that ends by itself.
pub type Waiting<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// How far a backend must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Its tools are known, from itself or from the cache.
    Known,
    /// It answers calls, so that what it does not list is not there.
    Ready,
}

/// The surroundings of a [`Runner`](super::Runner).
pub trait Environment: Send + Sync + 'static {
    /// The limits that the operator configured: the defaults of every run, and the most that a caller may ask for.
    fn limits(&self, profile: Profile) -> LimitRequest {
        let _ = profile;
        LimitRequest::default()
    }

    /// The bytes that callers and runs may have in flight.
    fn bytes_in_flight(&self) -> BytesInFlight {
        BytesInFlight::default()
    }

    /// The host functions that programs of this caller may call.
    fn functions(&self, caller: &CallerScope) -> Registry {
        let _ = caller;
        Registry::new()
    }

    /// How results are shaped for a context window.
    fn output(&self) -> OutputSettings {
        OutputSettings::default()
    }

    /// Where results are kept of which an answer shows a part; nothing is kept when absent.
    fn results(&self) -> Option<ResultStore> {
        None
    }

    /// What was learned of results that tools do not declare.
    fn learned(&self) -> Option<Arc<dyn LearnedResults>> {
        None
    }
    /// Opens the store of durable runs, if it is not open; `None` where no store is configured.
    fn durable_runs(&self) -> OpeningRuns<'_> {
        Box::pin(std::future::ready(None))
    }

    /// Checks the types of programs, where there is a checker.
    fn types(&self) -> Option<Arc<ProgramTypes>> {
        None
    }

    /// Waits until the backends that a program seems to name are that far, or have failed.
    fn wait_for_named<'a>(
        &'a self,
        text: &'a str,
        caller: &'a CallerScope,
        until: Readiness,
        within: Duration,
    ) -> Waiting<'a> {
        let _ = (text, caller, until, within);
        Box::pin(std::future::ready(()))
    }
}

/// Surroundings that do not change: for the command line, for embedders and for tests.
#[derive(Clone, Default)]
pub struct FixedEnvironment {
    /// Host functions of every caller whose scope permits them.
    pub functions: Registry,
    /// Limits of each profile.
    pub limits: Profiles<LimitRequest>,
    /// Where results are kept.
    pub results: Option<ResultStore>,
    /// Checks the types of programs.
    pub types: Option<Arc<ProgramTypes>>,
}

impl Environment for FixedEnvironment {
    fn limits(&self, profile: Profile) -> LimitRequest {
        self.limits.of(profile).clone()
    }

    fn functions(&self, caller: &CallerScope) -> Registry {
        permitted(&self.functions, caller)
    }

    fn results(&self) -> Option<ResultStore> {
        self.results.clone()
    }

    fn types(&self) -> Option<Arc<ProgramTypes>> {
        self.types.clone()
    }
}

/// The functions that a caller's scope permits by name.
pub fn permitted(all: &Registry, caller: &CallerScope) -> Registry {
    if caller.functions == Access::All {
        return all.clone();
    }
    all.iter().filter(|function| caller.functions.permits(function.name().as_str())).cloned().collect()
}
