//! What a client and a server exchange during one request: progress, and input that the server requests.
//!
//! Data only; sending is up to `server` and `client`.

use std::fmt;
use std::sync::Arc;

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
    known: Option<KnownAnswers>,
}

/// From the `params` of `elicitation/create` to its result.
type FindAnswer = dyn Fn(&Value) -> Option<Value> + Send + Sync;

/// Finds the answer to a question that was answered before.
#[derive(Clone)]
pub(crate) struct KnownAnswers(Arc<FindAnswer>);

impl KnownAnswers {
    /// The result for the server, where there is one.
    pub(crate) fn find(&self, params: &Value) -> Option<Value> {
        (self.0)(params)
    }
}

impl fmt::Debug for KnownAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownAnswers")
    }
}

impl PartialEq for KnownAnswers {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
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
            known: None,
        }
    }

    /// The same client, with the results of forms that were answered before this request. Legacy servers get them when they ask.
    #[must_use]
    pub fn with_known_answers(self, find: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static) -> Self {
        Self { known: Some(KnownAnswers(Arc::new(find))), ..self }
    }

    pub(crate) fn known_answers(&self) -> Option<&KnownAnswers> {
        self.known.as_ref()
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
