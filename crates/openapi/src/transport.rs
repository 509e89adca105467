//! The seam to the network: this crate builds requests and reads answers, and something else sends them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use toolgate_wire::OverBudget;
use url::Url;

/// A request to an API.
#[derive(Clone, PartialEq)]
pub struct ApiRequest {
    /// The method, in upper case.
    pub method: String,
    /// The URL; below the configured base.
    pub url: Url,
    /// Headers; names and values are valid.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// The header of an idempotency key that was made for this request alone; a caller that has one for the call puts its own there.
    pub made_key: Option<String>,
}

/// Headers and queries hold credentials, so only names are shown.
impl fmt::Debug for ApiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let body = self.body.as_ref().map(Vec::len);
        f.debug_struct("ApiRequest")
            .field("method", &self.method)
            .field("path", &self.url.path())
            .field("headers", &headers)
            .field("body", &body)
            .finish()
    }
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiAnswer {
    /// The status code.
    pub status: u16,
    /// Headers with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, decompressed.
    pub body: Vec<u8>,
}

impl ApiAnswer {
    /// The first header of that name, which is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Why there is no answer. The texts contain no URL, because its query may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Nothing was sent: the address is not allowed, or no connection was made.
    #[error("{0}")]
    NotSent(String),
    /// Nothing was sent: the request itself breaks a bound, by its arguments.
    #[error("{0}")]
    Unsendable(String),
    /// The request may have arrived.
    #[error("{0}")]
    Lost(String),
    /// The answer is too large.
    #[error("the answer is larger than {cap} bytes")]
    TooLarge {
        /// The cap.
        cap: usize,
    },
    /// The values of the answer, or of all pages of a list, take too much memory.
    #[error("the values of the answer take more than {limit} bytes of memory: ask for less data")]
    TooManyValues {
        /// The bound in bytes.
        limit: usize,
    },
    /// The answer does not fit into a byte budget.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

impl TransportError {
    /// The same for a request that follows an answered one of the same call, which therefore was sent.
    pub(crate) fn after_an_answer(self) -> Self {
        match self {
            Self::NotSent(reason) | Self::Unsendable(reason) => Self::Lost(reason),
            Self::Lost(_) | Self::TooLarge { .. } | Self::TooManyValues { .. } | Self::OverBudget(_) => self,
        }
    }
}

/// An answer on its way.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Result<ApiAnswer, TransportError>> + Send>>;

/// Sends one request and follows no redirect.
pub trait ApiTransport: Send + Sync + 'static {
    /// Sends a request.
    fn send(&self, request: ApiRequest) -> AnswerFuture;
}
