//! What stands behind a backend's name.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_engine::HostError;

use super::Access;
use crate::backends::Taker;
use toolgate_mcp::Progress;

/// An answer on its way.
pub type ProviderFuture = Pin<Box<dyn Future<Output = Result<Answer, HostError>> + Send>>;

/// Carries out the calls of one backend.
pub trait Provider: Send + Sync + 'static {
    /// Calls a tool by its own name with arguments that were checked.
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: Asked) -> ProviderFuture;
}

/// Who asks for a call, and how long it may take.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Which backends the caller may use.
    pub access: Access,
    /// Ends the call.
    pub cancel: CancellationToken,
    /// Where the call's progress goes.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// A number for whoever asks, so that one caller cannot crowd out another.
    pub caller: u64,
    /// The call's own time; the backend's default when absent.
    pub timeout: Option<Duration>,
    /// When the run around it ends.
    pub deadline: Option<Instant>,
    /// Who gets the answer.
    pub taker: Taker,
}

/// What a tool gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The value that a program gets.
    pub value: Value,
    /// The result as the backend sent it, for clients that want all of it.
    pub raw: Option<Value>,
}

impl Answer {
    /// A value without a form of its own on any wire.
    pub fn value(value: Value) -> Self {
        Answer { value, raw: None }
    }
}
