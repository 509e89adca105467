//! Why a request was not carried out, and how that is said: every error body of the service is
//! `{"error": {"code", "message", "pointer"?}}`.
//!
//! Code that failed in the sandbox is no refusal: the service did what it was asked to.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::rpc_sessions::{AuthoriseError, StoreError};

/// How long a caller waits when nobody knows better.
const SOON: Duration = Duration::from_secs(1);

/// The body of every error.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorReply {
    /// What is wrong.
    error: ErrorBody,
}

/// What is wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorBody {
    /// A short name for the kind of error, for programs.
    code: &'static str,
    /// One sentence, for people.
    message: String,
    /// A JSON pointer to the field of the request's body that is wrong; empty for the body as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("{message}")]
    BadInput { pointer: String, message: String },
    #[error("{0}")]
    BadRequest(&'static str),
    /// No reason is given, for each would help a guesser.
    #[error("not authorised")]
    Unauthorised,
    #[error("without API keys only this machine may connect")]
    NotLocal,
    #[error("the host `{0}` is not one that this service answers to (toolgate.http.allowed_hosts)")]
    ForeignHost(String),
    #[error("pages of `{0}` may not call this service (toolgate.http.allowed_origins)")]
    ForeignOrigin(String),
    #[error("there is nothing here")]
    NotFound,
    #[error("this method is not for this path")]
    MethodNotAllowed,
    #[error("the body did not arrive within {} seconds", .0.as_secs())]
    TooSlow(Duration),
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    #[error("the body must be sent as application/json")]
    UnsupportedMediaType,
    #[error("this path speaks WebSocket only")]
    UpgradeRequired,
    #[error("the key's rate is used up")]
    RateLimited { retry_after: Duration },
    #[error("{0}")]
    Busy(String),
    #[error("{message}")]
    Unavailable { message: String, retry_after: Duration },
    #[error("an error of the service itself")]
    Internal,
}

impl Refusal {
    /// A field is wrong.
    pub(super) fn field(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Refusal::BadInput { pointer: pointer.into(), message: message.into() }
    }

    /// A required field is not there.
    pub(super) fn missing(pointer: &str) -> Self {
        Self::field(pointer, "this field is required")
    }

    /// The service can't do it now.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Refusal::Unavailable { message: message.into(), retry_after: SOON }
    }

    fn code(&self) -> &'static str {
        match self {
            Refusal::BadInput { .. } => "INVALID_INPUT",
            Refusal::BadRequest(_) => "BAD_REQUEST",
            Refusal::Unauthorised => "UNAUTHORIZED",
            Refusal::NotLocal | Refusal::ForeignHost(_) | Refusal::ForeignOrigin(_) => "FORBIDDEN",
            Refusal::NotFound => "NOT_FOUND",
            Refusal::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Refusal::TooSlow(_) => "REQUEST_TIMEOUT",
            Refusal::TooLarge(_) => "TOO_LARGE",
            Refusal::UnsupportedMediaType => "UNSUPPORTED_MEDIA_TYPE",
            Refusal::UpgradeRequired => "UPGRADE_REQUIRED",
            Refusal::RateLimited { .. } => "RATE_LIMITED",
            Refusal::Busy(_) | Refusal::Unavailable { .. } => "UNAVAILABLE",
            Refusal::Internal => "INTERNAL",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Refusal::BadInput { .. } | Refusal::BadRequest(_) => StatusCode::BAD_REQUEST,
            Refusal::Unauthorised => StatusCode::UNAUTHORIZED,
            Refusal::NotLocal | Refusal::ForeignHost(_) | Refusal::ForeignOrigin(_) => StatusCode::FORBIDDEN,
            Refusal::NotFound => StatusCode::NOT_FOUND,
            Refusal::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            Refusal::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refusal::UpgradeRequired => StatusCode::UPGRADE_REQUIRED,
            Refusal::RateLimited { .. } | Refusal::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            Refusal::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Refusal::RateLimited { retry_after } | Refusal::Unavailable { retry_after, .. } => Some(*retry_after),
            Refusal::Busy(_) => Some(SOON),
            _ => None,
        }
    }

    /// The body alone, for where there is no status.
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
            // Whole seconds, rounded up: who comes back too early is sent away again.
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)));
        }
        match self {
            Refusal::Unauthorised => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Refusal::UpgradeRequired => {
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            }
            // The rest of the body is still on its way; reading on to keep the connection would be its sender's win.
            Refusal::TooSlow(_) | Refusal::TooLarge(_) => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::Unavailable { retry_after } => Refusal::Unavailable { message, retry_after },
            StoreError::Full | StoreError::Closed | StoreError::NoRandomness => Refusal::unavailable(message),
        }
    }
}

impl From<AuthoriseError> for Refusal {
    fn from(error: AuthoriseError) -> Self {
        match error {
            AuthoriseError::Refused => Refusal::Unauthorised,
            AuthoriseError::Store(error) => error.into(),
        }
    }
}
