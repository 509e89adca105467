//! What passes between a client and a server during one request: progress, and questions to the client.

use serde_json::{Map, Value};

/// One step of a call that takes long.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far it is.
    pub progress: f64,
    /// How far it will be in the end, where known.
    pub total: Option<f64>,
    /// What it is doing.
    pub message: Option<String>,
}

/// A client that may be asked something: what it can answer, and what it has answered. Nothing else of it is passed on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InteractiveClient {
    capabilities: Map<String, Value>,
    answers: Map<String, Value>,
}

impl InteractiveClient {
    /// From what a client declares, and the parameters of its request.
    pub fn new(declared: &Map<String, Value>, params: &Map<String, Value>) -> Self {
        let some = |of: &Map<String, Value>, keys: &[&str]| {
            keys.iter().filter_map(|key| Some(((*key).to_owned(), of.get(*key)?.clone()))).collect()
        };
        Self {
            capabilities: some(declared, &["elicitation", "sampling", "roots"]),
            answers: some(params, &["inputResponses", "requestState"]),
        }
    }

    /// What it can answer, as it declares it.
    pub fn capabilities(&self) -> &Map<String, Value> {
        &self.capabilities
    }

    /// Its answers and the state it was given with the questions, as the protocol names them.
    pub fn answers(&self) -> &Map<String, Value> {
        &self.answers
    }
}
