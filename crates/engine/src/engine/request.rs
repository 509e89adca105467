//! What a caller asks an engine for.

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use toolgate_plan::Program;
use toolgate_wire::{LimitRequest, Profile};

use crate::host::{Functions, Host};
use crate::observer::Observer;
use crate::transcript::{Recorder, Replay};

/// What separates programs from the rest of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IsolationMode {
    /// A fresh process, jailed by the operating system.
    #[cfg_attr(target_os = "linux", default)]
    Process,
    /// A thread of this process: only the interpreter separates the program from the host.
    #[cfg_attr(not(target_os = "linux"), default)]
    Thread,
}

/// Which interpreter runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// QuickJS at first; a run that computes for long migrates to V8, if there is one.
    #[default]
    Auto,
    /// QuickJS only.
    QuickJs,
    /// V8 only; `UNAVAILABLE` where there is none.
    V8,
}

/// Where a run of [`EngineChoice::Auto`] goes on that has computed for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigrationTarget {
    /// V8, if there is one.
    #[default]
    V8,
    /// A second QuickJS worker: the whole of a migration on a machine without a V8, and nothing gained by it. No setting of the
    /// configuration chooses it.
    QuickJs,
}

impl EngineChoice {
    /// The name used on the command line, in requests and in configuration.
    pub fn name(self) -> &'static str {
        match self {
            EngineChoice::Auto => "auto",
            EngineChoice::QuickJs => "quickjs",
            EngineChoice::V8 => "v8",
        }
    }
}

/// The text is not the name of an engine.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an engine: use auto, quickjs or v8")]
pub struct UnknownEngine(String);

impl std::str::FromStr for EngineChoice {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        let all = [EngineChoice::Auto, EngineChoice::QuickJs, EngineChoice::V8];
        all.into_iter().find(|choice| choice.name() == text).ok_or_else(|| UnknownEngine(text.to_owned()))
    }
}

/// A run to execute.
#[derive(Clone)]
pub struct Request {
    /// The program.
    pub code: String,
    /// The compiled program, if the caller has it; saves a second parse.
    pub compiled: Option<Program>,
    /// The kind of run.
    pub profile: Profile,
    /// Changes to the profile's limits.
    pub limits: LimitRequest,
    /// JSON text: the argument of a computation, or the program's global `context`.
    pub data: Option<String>,
    /// What the program may call.
    pub host: Arc<dyn Host>,
    /// Cancels the run.
    pub cancel: CancellationToken,
    /// Is told what happens during the run.
    pub observer: Option<Arc<dyn Observer>>,
    /// Seed of the random number generator; random when absent.
    pub seed: Option<u64>,
    /// When the wall time began; with the call of the engine when absent.
    pub since: Option<Instant>,
    /// The interpreter; the engine's default when absent.
    pub engine: Option<EngineChoice>,
    /// Keeps the messages of the run.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// Whose turn the run takes in the queue: runs with the same number share their turns.
    pub fairness: u64,
    /// Who asked for the run. A worker is only ever used again for the same caller, and never for a run that names none.
    pub caller: Option<Arc<str>>,
    /// A record that the run repeats before it goes on. Program, data, seed and limits are those of the record, except
    /// for the wall time; `code` must be its source, to which positions refer.
    pub replay: Option<Arc<Replay>>,
}

impl Request {
    /// A request with the profile's limits, no data and an empty host.
    pub fn new(profile: Profile, code: impl Into<String>) -> Self {
        Request {
            code: code.into(),
            compiled: None,
            profile,
            limits: LimitRequest::default(),
            data: None,
            host: Arc::new(Functions::new()),
            cancel: CancellationToken::new(),
            observer: None,
            seed: None,
            since: None,
            engine: None,
            recorder: None,
            fairness: 0,
            caller: None,
            replay: None,
        }
    }
}

/// Options of [`Engine::compute`](crate::Engine::compute).
#[derive(Debug, Clone, Default)]
pub struct ComputeOptions {
    /// Changes to the limits of [`Profile::Compute`].
    pub limits: LimitRequest,
    /// Cancels the run.
    pub cancel: CancellationToken,
    /// The interpreter; the engine's default when absent.
    pub engine: Option<EngineChoice>,
}

impl ComputeOptions {
    pub(super) fn request(self, code: &str, data: String) -> Request {
        let request = Request::new(Profile::Compute, code);
        Request { limits: self.limits, cancel: self.cancel, engine: self.engine, data: Some(data), ..request }
    }
}
