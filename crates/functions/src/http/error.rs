//! Why a guarded request gave no response.

use super::Refusal;
use crate::{ErrorCode, FunctionError};
use std::error::Error;
use std::time::Duration;

/// Why a guarded request gave no response. The texts are for the author of sandboxed code and hold nothing of our network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The request itself can't be read.
    #[error("the request is not valid: {0}")]
    Shape(String),
    /// The URL can't be read.
    #[error("the URL is not valid: {0}")]
    Url(String),
    /// Another scheme than http and https.
    #[error("the scheme `{0}` is not allowed: use http or https")]
    Scheme(String),
    /// User name or password in the URL.
    #[error("a URL must not hold a user name or password: use the Authorization header")]
    CredentialsInUrl,
    /// The host may not be reached.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A method we do not send.
    #[error("the method `{0}` is not allowed: use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")]
    Method(String),
    /// A body where the method has none.
    #[error("a {0} request has no body")]
    BodyNotAllowed(String),
    /// A header that only the client may set.
    #[error("the header `{0}` can't be set")]
    HeaderForbidden(String),
    /// A header that is none.
    #[error("the header `{0}` is not valid: no line breaks, control characters or non-ASCII text")]
    HeaderInvalid(String),
    /// Too many or too large request headers.
    #[error("the request's headers are too many or too large")]
    RequestHeadersTooLarge,
    /// A request body over the cap.
    #[error("the request body has {size} bytes, at most {cap} are allowed")]
    RequestTooLarge {
        /// Its size.
        size: usize,
        /// The cap.
        cap: usize,
    },
    /// A response body over the cap, counted after decompression.
    #[error("the response body is larger than {cap} bytes (after decompression)")]
    ResponseTooLarge {
        /// The cap.
        cap: usize,
    },
    /// Response headers over the cap.
    #[error("the response's headers are too many or too large")]
    ResponseHeadersTooLarge,
    /// More hops than allowed.
    #[error("more than {0} redirects")]
    TooManyRedirects(usize),
    /// Time is over.
    #[error("no complete response within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The client's own time for the response is over.
    #[error("the response did not come to its end in time")]
    Stalled,
    /// The run was cancelled.
    #[error("the request was cancelled with its run")]
    Cancelled,
    /// The name has no address, nobody answers, or the answer is no HTTP.
    #[error("the request failed: {0}")]
    Network(String),
    /// No client could be made on this machine.
    #[error("HTTP is not available here: {0}")]
    NoClient(String),
}

impl FetchError {
    /// What a failed exchange means. Our own refusals travel inside the client's errors, and so are found by type.
    pub(super) fn from_client(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::Stalled;
        }
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        let mut innermost = String::new();
        while let Some(current) = cause {
            if let Some(refusal) = current.downcast_ref::<Refusal>() {
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
        Self::Network(innermost)
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
            | FetchError::HeaderForbidden(_)
            | FetchError::TooManyRedirects(_) => ErrorCode::Refused,
            FetchError::RequestHeadersTooLarge
            | FetchError::RequestTooLarge { .. }
            | FetchError::ResponseTooLarge { .. }
            | FetchError::ResponseHeadersTooLarge => ErrorCode::TooLarge,
            FetchError::Timeout(_) | FetchError::Stalled => ErrorCode::Timeout,
            FetchError::Cancelled => ErrorCode::Aborted,
            FetchError::Network(_) | FetchError::NoClient(_) => ErrorCode::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}
