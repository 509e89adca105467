//! What a backend offers besides tools: resources, templates of resources, prompts.
//!
//! Lists are kept for as long as they are right; what is asked for by name never is. It takes its turn among the calls of
//! tools, under the same limits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::backend::{Backend, answered};
use super::call::{CallError, Partner};
use super::shelf::Offered;
use super::watchlist::{Crowded, Watching};

/// A kind of thing that a backend lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Resources by their URIs.
    Resources,
    /// Templates of such URIs.
    Templates,
    /// Prompts by their names.
    Prompts,
}

impl Offer {
    /// What a backend declares that has some.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Resources | Self::Templates => "resources",
            Self::Prompts => "prompts",
        }
    }

    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// Where the list is in the answer.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// What tells one entry from another.
    pub fn id(self) -> &'static str {
        match self {
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
            Self::Prompts => "name",
        }
    }
}

/// Something that a backend is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// What a resource holds.
    Read {
        /// Its URI.
        uri: String,
    },
    /// A prompt, filled in.
    Prompt {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// Values that begin like what is typed.
    Complete {
        /// The prompt or the template, as the protocol refers to it.
        reference: Value,
        /// The argument's name.
        argument: String,
        /// What is typed so far.
        typed: String,
    },
}

impl Question {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Read { .. } => "resources/read",
            Self::Prompt { .. } => "prompts/get",
            Self::Complete { .. } => "completion/complete",
        }
    }

    /// The one thing that it is about, where proxies are to see it.
    pub(crate) fn target(&self) -> Option<&str> {
        match self {
            Self::Read { uri } => Some(uri),
            Self::Prompt { name, .. } => Some(name),
            Self::Complete { .. } => None,
        }
    }

    pub(crate) fn into_params(self) -> Map<String, Value> {
        let params = match self {
            Self::Read { uri } => json!({ "uri": uri }),
            Self::Prompt { name, arguments } => json!({ "name": name, "arguments": arguments }),
            Self::Complete { reference, argument, typed } => {
                json!({ "ref": reference, "argument": { "name": argument, "value": typed } })
            }
        };
        if let Value::Object(params) = params { params } else { Map::new() }
    }
}

/// Why changes of a resource will not be told of.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WatchError {
    /// The backend tells of none.
    #[error("{0} does not tell of changes of its resources")]
    Untold(Arc<str>),
    /// Too many of its resources are watched already.
    #[error("too many resources of {0} are watched already")]
    Crowded(Arc<str>),
    /// It was asked and did not agree.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Backend {
    /// Wants to hear of changes of a resource until the answer is dropped; they come as
    /// [`Updated`](super::BackendNews::Updated).
    pub async fn watch_resource(&self, uri: &str) -> Result<Watching, WatchError> {
        let within = self.shared.spec.timeout;
        self.ready(within).await?;
        let session = self.shared.session().ok_or_else(|| self.not_ready())?;
        if !session.tells_of_updates() {
            return Err(WatchError::Untold(Arc::clone(&self.shared.name)));
        }
        let crowded = |Crowded| WatchError::Crowded(Arc::clone(&self.shared.name));
        let watching = self.shared.watchlist.add(uri).map_err(crowded)?;
        let settled = timeout(within, watching.settled()).await;
        settled.map_err(|_| CallError::Timeout { after: within })?.map_err(|error| self.explain(error))?;
        Ok(watching)
    }

    /// Counts everything that is watched as changed: news of it may have been lost.
    pub(crate) fn doubt_watched(&self) {
        self.shared.watchlist.doubt();
    }

    /// Whether it is up and says that it has such things.
    pub fn has(&self, offer: Offer) -> bool {
        self.shared.session().is_some_and(|session| session.has(offer))
    }

    /// What it lists now; nothing if it is not up, has none, or does not answer in time.
    pub async fn list(&self, offer: Offer, within: Duration) -> Arc<Offered> {
        let Some(session) = self.shared.session() else { return Arc::default() };
        let list = self.attempt(session, (), |session, ()| async move { session.list(offer, within).await });
        match timeout(within, list).await {
            Ok(Ok(list)) => list,
            Ok(Err(error)) => {
                tracing::warn!(backend = self.name(), %error, "its {} can't be listed", offer.key());
                Arc::default()
            }
            Err(_) => Arc::default(),
        }
    }

    /// Asks it for something; gives the result as it came. Dropping the future cancels the request.
    pub async fn ask(&self, question: Question, partner: Option<&Partner>, caller: u64) -> Result<Value, CallError> {
        let within = self.shared.spec.timeout;
        self.ready(within).await?;
        let _permit = self.turn(caller).await?;
        // It may have been lost while the question waited for its turn.
        self.ready(within).await?;
        let session = self.shared.session().ok_or_else(|| self.not_ready())?;
        let ask =
            self.attempt(session, question, |session, question| async move { session.ask(question, partner).await });
        let result = timeout(within, ask).await.map_err(|_| CallError::Timeout { after: within })?;
        answered(result.map_err(|error| self.explain(error))?, partner.is_some())
    }
}
