//! What is asked of an engine.

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use toolgate_plan::Program;
use toolgate_wire::{LimitRequest, Profile};

use crate::host::{Functions, Host};
use crate::observer::Observer;

/// What keeps a program from the rest of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IsolationMode {
    /// A fresh process under an operating-system jail.
    #[cfg_attr(target_os = "linux", default)]
    Process,
    /// A thread of this process: nothing but the interpreter itself.
    #[cfg_attr(not(target_os = "linux"), default)]
    Thread,
}

/// The interpreter that a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// QuickJS first; a run that computes for long moves to V8, if there is one.
    #[default]
    Auto,
    /// QuickJS only.
    QuickJs,
    /// V8 only; `UNAVAILABLE` where there is none.
    V8,
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

/// The text names no engine.
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

/// One run that is asked for.
#[derive(Clone)]
pub struct Request {
    /// The program.
    pub code: String,
    /// The same program, where the caller has compiled it already; makes a second parse unnecessary.
    pub compiled: Option<Program>,
    /// The kind of run.
    pub profile: Profile,
    /// Changes to the profile's limits.
    pub limits: LimitRequest,
    /// JSON text: what a computation is over, or the program's global `context`.
    pub data: Option<String>,
    /// What the program may call.
    pub host: Arc<dyn Host>,
    /// How the caller takes the request back.
    pub cancel: CancellationToken,
    /// Who listens.
    pub observer: Option<Arc<dyn Observer>>,
    /// Where random numbers start; chosen at random when absent.
    pub seed: Option<u64>,
    /// When the wall time began; with the call of the engine when absent.
    pub since: Option<Instant>,
    /// The interpreter; the engine's own choice when absent.
    pub engine: Option<EngineChoice>,
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
        }
    }
}

/// How a computation is to be run.
#[derive(Debug, Clone, Default)]
pub struct ComputeOptions {
    /// Changes to the limits of [`Profile::Compute`].
    pub limits: LimitRequest,
    /// How the caller takes the request back.
    pub cancel: CancellationToken,
    /// The interpreter, if not the engine's own choice.
    pub engine: Option<EngineChoice>,
}

impl ComputeOptions {
    pub(super) fn request(self, code: &str, data: String) -> Request {
        let request = Request::new(Profile::Compute, code);
        Request { limits: self.limits, cancel: self.cancel, engine: self.engine, data: Some(data), ..request }
    }
}
