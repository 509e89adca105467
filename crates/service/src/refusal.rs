//! Why a request was refused. Every error body of the service is `{"error": {"code", "message", "pointer"?}}`.
//!
//! A program that failed in the sandbox is not a refusal: its report is the reply.

use std::fmt;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::rpc_sessions::{AuthoriseError, SessionStoreError};
use toolgate_mcp::server::HostGuardError;
use toolgate_run::durable::DurableError;
use toolgate_wire::foreign_text::escaped;

/// `Retry-After` where no better estimate exists.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The most characters of a request's text that an error repeats.
const MAX_SHOWN_CHARS: usize = 100;

/// Text of a request in an error: escaped and bounded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown(String);

impl Shown {
    pub(super) fn new(text: &str) -> Self {
        Self(escaped(text, MAX_SHOWN_CHARS))
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The body of every error.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorReply {
    /// What is wrong.
    error: ErrorBody,
}

/// What is wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorBody {
    /// The kind of error, for programs.
    code: &'static str,
    /// The reason, for people.
    message: String,
    /// A JSON pointer to the field of the request's body that is wrong; empty for the body as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("{message}")]
    BadInput { pointer: String, message: String },
    #[error("{0}")]
    BadRequest(&'static str),
    /// Names no reason, since each would help to guess credentials: the sentence is the same whatever exists.
    #[error(
        "not authorised: send the header `authorization: Bearer KEY`, where KEY is a key of the configuration or the token \
         in the file that `toolgate serve` names at its start"
    )]
    Unauthorised,
    /// The same for a call in a session, by the session's own token.
    #[error(
        "not authorised: send the header `authorization: Bearer TOKEN` with the token that the session was opened with, \
         and call a function of that session before it ends"
    )]
    UnauthorisedInSession,
    /// The same where callers present tokens of an issuer, for a request without one.
    #[error("not authorised: {}", token_of(.issuer))]
    NoToken { issuer: String },
    /// The same for a request with a token that opens nothing. Names no reason either.
    #[error("not authorised: the token is not accepted; {}", token_of(.issuer))]
    InvalidToken { issuer: String },
    /// A key that does not sign a browser in where callers present tokens of an issuer.
    #[error(
        "not signed in: give a key of the configuration (toolgate.http.keys), or open the link that `toolgate ui` prints"
    )]
    NotSignedIn,
    /// A link that signs no browser in: no reason is named here either.
    #[error(
        "not signed in: a link signs one browser in, once, within {} minutes; run `toolgate ui` for another one",
        .0.as_secs() / 60
    )]
    LinkNotValid(Duration),
    #[error("the token has no scope that opens anything")]
    InsufficientScope,
    #[error("without API keys only this machine may connect (toolgate.http.keys)")]
    NotLocal,
    #[error("the host `{0}` is not accepted (toolgate.http.allowed_hosts)")]
    ForeignHost(String),
    #[error("requests from pages of `{0}` are not accepted (toolgate.http.allowed_origins)")]
    ForeignOrigin(String),
    #[error("{0}")]
    NotPermitted(&'static str),
    #[error("a request of the page needs its session's token in the header x-toolgate-csrf")]
    NoPageToken,
    #[error("no such path: {0}")]
    NoSuchPath(Shown),
    #[error("no such session: {0}")]
    NoSuchSession(Shown),
    #[error("{0}")]
    NoSuchResult(String),
    #[error("{0}")]
    NoSuch(String),
    #[error("no such run: {0}")]
    NoSuchRun(Shown),
    #[error("the method {method} is not allowed for {path}")]
    MethodNotAllowed { method: Shown, path: Shown },
    #[error("the body was not received within {} seconds", .0.as_secs())]
    TooSlow(Duration),
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    #[error("the body must be sent as application/json")]
    UnsupportedMediaType,
    #[error("this path requires a WebSocket upgrade")]
    UpgradeRequired,
    #[error("the rate limit of the key is exceeded")]
    RateLimited { retry_after: Duration },
    #[error("too many wrong keys or tokens came from your address")]
    TooManyWrongKeys { retry_after: Duration },
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    Busy(String),
    #[error("{message}")]
    Unavailable { message: String, retry_after: Duration },
    #[error("internal error of the service")]
    Internal,
}

/// What to send where tokens of an issuer are accepted.
fn token_of(issuer: &str) -> String {
    format!(
        "send the header `authorization: Bearer TOKEN`, where TOKEN is an access token of {issuer} for this service or a key \
         of the configuration"
    )
}

impl Refusal {
    /// A field is invalid.
    pub(super) fn field(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Refusal::BadInput { pointer: pointer.into(), message: message.into() }
    }

    /// A required field is missing.
    pub(super) fn missing(pointer: &str) -> Self {
        Self::field(pointer, "this field is required")
    }

    /// The service cannot do it at this time.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Refusal::Unavailable { message: message.into(), retry_after: DEFAULT_RETRY_AFTER }
    }

    fn code(&self) -> &'static str {
        match self {
            Refusal::BadInput { .. } => "INVALID_INPUT",
            Refusal::BadRequest(_) => "BAD_REQUEST",
            Refusal::Unauthorised
            | Refusal::UnauthorisedInSession
            | Refusal::NoToken { .. }
            | Refusal::InvalidToken { .. }
            | Refusal::NotSignedIn
            | Refusal::LinkNotValid(_) => "UNAUTHORIZED",
            Refusal::NotLocal
            | Refusal::ForeignHost(_)
            | Refusal::ForeignOrigin(_)
            | Refusal::NotPermitted(_)
            | Refusal::NoPageToken => "FORBIDDEN",
            Refusal::NoSuchPath(_)
            | Refusal::NoSuchSession(_)
            | Refusal::NoSuchResult(_)
            | Refusal::NoSuchRun(_)
            | Refusal::NoSuch(_) => "NOT_FOUND",
            Refusal::InsufficientScope => "FORBIDDEN",
            Refusal::MethodNotAllowed { .. } => "METHOD_NOT_ALLOWED",
            Refusal::Conflict(_) => "CONFLICT",
            Refusal::TooSlow(_) => "REQUEST_TIMEOUT",
            Refusal::TooLarge(_) => "TOO_LARGE",
            Refusal::UnsupportedMediaType => "UNSUPPORTED_MEDIA_TYPE",
            Refusal::UpgradeRequired => "UPGRADE_REQUIRED",
            Refusal::RateLimited { .. } | Refusal::TooManyWrongKeys { .. } => "RATE_LIMITED",
            Refusal::Busy(_) | Refusal::Unavailable { .. } => "UNAVAILABLE",
            Refusal::Internal => "INTERNAL",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Refusal::BadInput { .. } | Refusal::BadRequest(_) => StatusCode::BAD_REQUEST,
            Refusal::Unauthorised
            | Refusal::UnauthorisedInSession
            | Refusal::NoToken { .. }
            | Refusal::InvalidToken { .. }
            | Refusal::NotSignedIn
            | Refusal::LinkNotValid(_) => StatusCode::UNAUTHORIZED,
            Refusal::NotLocal
            | Refusal::ForeignHost(_)
            | Refusal::ForeignOrigin(_)
            | Refusal::NotPermitted(_)
            | Refusal::NoPageToken => StatusCode::FORBIDDEN,
            Refusal::NoSuchPath(_)
            | Refusal::NoSuchSession(_)
            | Refusal::NoSuchResult(_)
            | Refusal::NoSuchRun(_)
            | Refusal::NoSuch(_) => StatusCode::NOT_FOUND,
            Refusal::InsufficientScope => StatusCode::FORBIDDEN,
            Refusal::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Conflict(_) => StatusCode::CONFLICT,
            Refusal::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            Refusal::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refusal::UpgradeRequired => StatusCode::UPGRADE_REQUIRED,
            Refusal::RateLimited { .. } | Refusal::TooManyWrongKeys { .. } | Refusal::Busy(_) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Refusal::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Refusal::RateLimited { retry_after }
            | Refusal::TooManyWrongKeys { retry_after }
            | Refusal::Unavailable { retry_after, .. } => Some(*retry_after),
            Refusal::Busy(_) => Some(DEFAULT_RETRY_AFTER),
            _ => None,
        }
    }

    /// The error of a `Bearer` challenge (RFC 6750, section 3); none for a request that had no token.
    pub(super) fn bearer_error(&self) -> Option<&'static str> {
        match self {
            Refusal::InvalidToken { .. } => Some("invalid_token"),
            Refusal::InsufficientScope => Some("insufficient_scope"),
            _ => None,
        }
    }

    /// The error body alone, for WebSocket messages.
    pub(super) fn to_reply(&self) -> ErrorReply {
        let pointer = match self {
            Refusal::BadInput { pointer, .. } => Some(pointer.clone()),
            _ => None,
        };
        ErrorReply { error: ErrorBody { code: self.code(), message: self.to_string(), pointer } }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status(), Json(self.to_reply())).into_response();
        let headers = response.headers_mut();
        if let Some(wait) = self.retry_after() {
            // Whole seconds, rounded up: a retry that is too early would be refused again.
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)));
        }
        match self {
            // Completed with where to log in, if tokens of an issuer are accepted.
            Refusal::Unauthorised
            | Refusal::UnauthorisedInSession
            | Refusal::NoToken { .. }
            | Refusal::InvalidToken { .. }
            | Refusal::NotSignedIn
            | Refusal::LinkNotValid(_)
            | Refusal::InsufficientScope => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Refusal::UpgradeRequired => {
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            }
            // The rest of the body is still being sent; close the connection instead of reading it.
            Refusal::TooSlow(_) | Refusal::TooLarge(_) => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

impl From<HostGuardError> for Refusal {
    fn from(error: HostGuardError) -> Self {
        match error {
            HostGuardError::MissingHost => Refusal::BadRequest("the Host header is missing"),
            HostGuardError::InvalidHost => Refusal::BadRequest("the Host header is not a host name or an address"),
            HostGuardError::InvalidOrigin => Refusal::BadRequest("the Origin header is not text"),
            HostGuardError::Repeated => Refusal::BadRequest("Host and Origin may each occur only once"),
            HostGuardError::ForeignHost(host) => Refusal::ForeignHost(host),
            HostGuardError::ForeignOrigin(origin) => Refusal::ForeignOrigin(origin),
        }
    }
}

impl From<SessionStoreError> for Refusal {
    fn from(error: SessionStoreError) -> Self {
        let message = error.to_string();
        match error {
            SessionStoreError::Unavailable { retry_after } => Refusal::Unavailable { message, retry_after },
            SessionStoreError::Full | SessionStoreError::Closed | SessionStoreError::NoRandomness => {
                Refusal::unavailable(message)
            }
        }
    }
}

impl From<DurableError> for Refusal {
    fn from(error: DurableError) -> Self {
        use toolgate_run::durable::StoreFault;
        match error {
            DurableError::NoSuchRun(run) | DurableError::Store(StoreFault::NoSuchRun(run)) => {
                Refusal::NoSuchRun(Shown::new(&run))
            }
            DurableError::Store(fault @ (StoreFault::TooManyRuns(_) | StoreFault::TooManyBytes { .. })) => {
                Refusal::Busy(fault.to_string())
            }
            DurableError::Busy => Refusal::Busy(error.to_string()),
            DurableError::TooLong { .. } => Refusal::field("/code", error.to_string()),
            DurableError::Limit(fault) => Refusal::field("", fault.to_string()),
            DurableError::NoWebhooks => Refusal::field("/webhook", error.to_string()),
            DurableError::Fork(fault) => Refusal::field("/from", fault.to_string()),
            DurableError::BadDecision { at, message } => Refusal::field(format!("/decisions/{at}"), message),
            // The same request is refused again as long as the run is as it is.
            DurableError::NotEnded(_)
            | DurableError::NoReplay(_)
            | DurableError::Forgotten { .. }
            | DurableError::Truncated { .. }
            | DurableError::TooManyCorrections { .. }
            | DurableError::BeingCorrected { .. } => Refusal::Conflict(error.to_string()),
            DurableError::Stopping
            | DurableError::NoStore
            | DurableError::Unreadable(_)
            | DurableError::Open(_)
            | DurableError::Store(_) => Refusal::unavailable(error.to_string()),
        }
    }
}

impl From<AuthoriseError> for Refusal {
    fn from(error: AuthoriseError) -> Self {
        match error {
            AuthoriseError::Refused => Refusal::UnauthorisedInSession,
            AuthoriseError::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &str) {
        assert_eq!(Refusal::NoSuchPath(Shown::new(path)).to_string(), expected);
    }

    #[test]
    fn a_path_is_shown_escaped_and_bounded() {
        check("/v2/run", "no such path: /v2/run");
        check("/a\u{1b}[2J\"", "no such path: /a\\u{1b}[2J\\\"");
        check(&"x".repeat(100), &format!("no such path: {}", "x".repeat(100)));
        check(&"x".repeat(101), &format!("no such path: {}…", "x".repeat(100)));
    }
}
