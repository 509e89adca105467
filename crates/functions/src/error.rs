//! Errors of host functions.

use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// No function of that name is granted.
    UnknownFunction,
    /// The arguments do not fit the signature.
    InvalidArguments,
    /// Forbidden by a rule: a private address, a forbidden header, too many redirects.
    Refused,
    /// A request or a response exceeds its limit.
    TooLarge,
    /// The timeout of the function or the deadline of the run has passed.
    Timeout,
    /// The run was cancelled.
    Aborted,
    /// The remote side is unreachable or overloaded; a retry may succeed.
    Unavailable,
    /// The function ran and failed.
    Failed,
}

impl ErrorCode {
    /// The code as callers see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownFunction => "UNKNOWN_FUNCTION",
            Self::InvalidArguments => "INVALID_ARGUMENTS",
            Self::Refused => "REFUSED",
            Self::TooLarge => "TOO_LARGE",
            Self::Timeout => "TIMEOUT",
            Self::Aborted => "ABORTED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Failed => "FAILED",
        }
    }
}

/// A failed call of a host function.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct FunctionError {
    /// The kind of failure.
    pub code: ErrorCode,
    /// One sentence for the author of the program.
    pub message: String,
    /// Additional data.
    pub data: Option<Value>,
    /// The delay before a retry, if a retry makes sense.
    pub retry_after: Option<Duration>,
}

impl FunctionError {
    /// An error with a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, retry_after: None }
    }

    /// An error with the code [`ErrorCode::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Failed, message)
    }

    /// Adds data for the caller.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Adds the delay before a retry.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// The error in JSON: `{code, message, data?, retryAfterMs?}`.
    pub fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        if let Some(wait) = self.retry_after {
            error["retryAfterMs"] = json!(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_code_is_the_text_code() {
        for code in [
            ErrorCode::UnknownFunction,
            ErrorCode::InvalidArguments,
            ErrorCode::Refused,
            ErrorCode::TooLarge,
            ErrorCode::Timeout,
            ErrorCode::Aborted,
            ErrorCode::Unavailable,
            ErrorCode::Failed,
        ] {
            assert_eq!(json!(code), json!(code.as_str()));
        }
    }

    #[test]
    fn only_what_is_known_is_in_the_json() {
        assert_eq!(FunctionError::failed("no").to_json(), json!({"code": "FAILED", "message": "no"}));
        let full = FunctionError::new(ErrorCode::Unavailable, "later")
            .with_data(json!({"status": 503}))
            .with_retry_after(Some(Duration::from_secs(2)));
        let expected =
            json!({"code": "UNAVAILABLE", "message": "later", "data": {"status": 503}, "retryAfterMs": 2000});
        assert_eq!(full.to_json(), expected);
    }
}
