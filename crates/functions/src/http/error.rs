//! Errors of guarded requests.

use super::RefusedHost;
use crate::{ErrorCode, FailedEffect, FunctionError};
use std::error::Error;
use std::time::Duration;
use toolgate_wire::OverBudget;

/// Why a guarded request failed. The texts are for the author of the program and reveal nothing of the local network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The request has invalid fields.
    #[error("the request is not valid: {0}")]
    Shape(String),
    /// The URL is invalid.
    #[error("the URL is not valid: {0}")]
    Url(String),
    /// A scheme other than http and https.
    #[error("the scheme `{0}` is not allowed: use http or https")]
    Scheme(String),
    /// User name or password in the URL.
    #[error("a URL must not contain a user name or password: use the Authorization header")]
    CredentialsInUrl,
    /// The host may not be reached.
    #[error(transparent)]
    Refused(#[from] RefusedHost),
    /// The host is not one of the configured ones.
    #[error("programs may not reach {0} here (toolgate.egress lists the hosts that they may reach)")]
    Egress(String),
    /// A method that is not allowed.
    #[error("the method `{0}` is not allowed: use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")]
    Method(String),
    /// A body with a method that has none.
    #[error("a {0} request must not have a body")]
    BodyNotAllowed(String),
    /// A header that only the client may set.
    #[error("the header `{0}` must not be set")]
    HeaderForbidden(String),
    /// An invalid header.
    #[error("the header `{0}` is not valid: line breaks, control characters and non-ASCII text are not allowed")]
    HeaderInvalid(String),
    /// Too many or too large request headers.
    #[error("the request has too many or too large headers")]
    RequestHeadersTooLarge,
    /// A request body above the limit.
    #[error("the request body has {size} bytes, but at most {cap} are allowed")]
    RequestTooLarge {
        /// Its size.
        size: usize,
        /// The cap.
        cap: usize,
    },
    /// A response body above the limit, after decompression.
    #[error("the response body is larger than {cap} bytes (after decompression)")]
    ResponseTooLarge {
        /// The cap.
        cap: usize,
    },
    /// A response body that does not fit into the bytes that may be in flight.
    #[error("the response: {0}")]
    OverBudget(#[from] OverBudget),
    /// Response headers above the limit.
    #[error("the response has too many or too large headers")]
    ResponseHeadersTooLarge,
    /// Too many redirects.
    #[error("more than {0} redirects")]
    TooManyRedirects(usize),
    /// The timeout of the request or the deadline of the run.
    #[error("no complete response within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The timeout of the HTTP client.
    #[error("the response did not complete in time")]
    Stalled,
    /// The run was cancelled.
    #[error("the request was cancelled with its run")]
    Cancelled,
    /// The name has no address, or no connection was made.
    #[error("the request failed: {0}")]
    Unreachable(String),
    /// The connection was lost, or the response is not HTTP.
    #[error("the request failed: {0}")]
    Network(String),
    /// The HTTP client cannot be created on this machine.
    #[error("HTTP is not available here: {0}")]
    NoClient(String),
}

impl FetchError {
    /// Converts an error of the HTTP client. The guard's refusals are sources of the client's errors and are found by type.
    pub(super) fn from_client(error: reqwest::Error) -> Self {
        let never_connected = error.is_connect();
        if error.is_timeout() && !never_connected {
            return Self::Stalled;
        }
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        let mut innermost = String::new();
        while let Some(current) = cause {
            if let Some(refusal) = current.downcast_ref::<RefusedHost>() {
                return Self::Refused(refusal.clone());
            }
            if let Some(parse) = current.downcast_ref::<hyper::Error>()
                && parse.is_parse_too_large()
            {
                return Self::ResponseHeadersTooLarge;
            }
            innermost = current.to_string();
            cause = current.source();
        }
        if never_connected { Self::Unreachable(innermost) } else { Self::Network(innermost) }
    }
}

impl FetchError {
    /// Whether the request that failed was not sent. No wildcard arm: a new error must choose.
    fn is_before_sending(&self) -> bool {
        match self {
            Self::Shape(_)
            | Self::Url(_)
            | Self::Scheme(_)
            | Self::CredentialsInUrl
            | Self::Refused(_)
            | Self::Egress(_)
            | Self::Method(_)
            | Self::BodyNotAllowed(_)
            | Self::HeaderForbidden(_)
            | Self::HeaderInvalid(_)
            | Self::RequestHeadersTooLarge
            | Self::RequestTooLarge { .. }
            | Self::Unreachable(_)
            | Self::NoClient(_) => true,
            Self::ResponseTooLarge { .. }
            | Self::OverBudget(_)
            | Self::ResponseHeadersTooLarge
            | Self::TooManyRedirects(_)
            | Self::Timeout(_)
            | Self::Stalled
            | Self::Cancelled
            | Self::Network(_) => false,
        }
    }
}

impl From<FetchError> for FunctionError {
    fn from(error: FetchError) -> Self {
        let code = match &error {
            FetchError::Shape(_)
            | FetchError::Url(_)
            | FetchError::Method(_)
            | FetchError::BodyNotAllowed(_)
            | FetchError::HeaderInvalid(_) => ErrorCode::InvalidArguments,
            FetchError::Scheme(_)
            | FetchError::CredentialsInUrl
            | FetchError::Refused(_)
            | FetchError::Egress(_)
            | FetchError::HeaderForbidden(_)
            | FetchError::TooManyRedirects(_) => ErrorCode::Refused,
            FetchError::RequestHeadersTooLarge
            | FetchError::RequestTooLarge { .. }
            | FetchError::ResponseTooLarge { .. }
            | FetchError::ResponseHeadersTooLarge => ErrorCode::TooLarge,
            FetchError::OverBudget(_) => ErrorCode::OverBudget,
            FetchError::Timeout(_) | FetchError::Stalled => ErrorCode::Timeout,
            FetchError::Cancelled => ErrorCode::Aborted,
            FetchError::Network(_) | FetchError::Unreachable(_) | FetchError::NoClient(_) => ErrorCode::Unavailable,
        };
        let effect = if error.is_before_sending() { FailedEffect::NotSent } else { FailedEffect::Unknown };
        Self::new(code, error.to_string()).with_effect(effect)
    }
}
