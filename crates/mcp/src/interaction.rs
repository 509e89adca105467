//! What a client and a server exchange during one request: progress, and input that the server requests.
//!
//! Data only; sending is up to `server` and `client`.

use serde_json::{Map, Value};

/// A progress report of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The progress so far.
    pub progress: f64,
    /// The progress at the end, where known.
    pub total: Option<f64>,
    /// What the call is doing.
    pub message: Option<String>,
}

/// A client from which a server may request input: the capabilities for it, and the input given so far. Nothing else of
/// the client is passed on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InteractiveClient {
    capabilities: Map<String, Value>,
    answers: Map<String, Value>,
}

impl InteractiveClient {
    /// From the client's declared capabilities and the parameters of its request.
    pub fn new(declared: &Map<String, Value>, params: &Map<String, Value>) -> Self {
        let select = |of: &Map<String, Value>, keys: &[&str]| {
            keys.iter().filter_map(|key| Some(((*key).to_owned(), of.get(*key)?.clone()))).collect()
        };
        Self {
            capabilities: select(declared, &["elicitation", "sampling", "roots"]),
            answers: select(params, &["inputResponses", "requestState"]),
        }
    }

    /// The capabilities for input, as declared.
    pub fn capabilities(&self) -> &Map<String, Value> {
        &self.capabilities
    }

    /// `inputResponses` and `requestState` of its request.
    pub fn answers(&self) -> &Map<String, Value> {
        &self.answers
    }
}
