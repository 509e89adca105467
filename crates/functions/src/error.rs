//! Why a host function gave no value.

use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// What kind of failure it was, for code that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// No function of that name is granted.
    UnknownFunction,
    /// The arguments do not fit the signature.
    InvalidArguments,
    /// A rule forbids it: a private address, a forbidden header, a redirect too many.
    Refused,
    /// A request or an answer is over its cap.
    TooLarge,
    /// The function's time or the run's deadline is over.
    Timeout,
    /// The run was cancelled.
    Aborted,
    /// The other side can't be reached or is overloaded; later may be better.
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
    /// One sentence for the one who wrote the code.
    pub message: String,
    /// What else the function wants to say, as JSON.
    pub data: Option<Value>,
    /// When to try again, if that makes sense.
    pub retry_after: Option<Duration>,
}

impl FunctionError {
    /// A failure with a code and a sentence.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, retry_after: None }
    }

    /// The function ran and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Failed, message)
    }

    /// Adds data for the caller.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Adds when to try again.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// The error as the doors send it: `{code, message, data?, retryAfterMs?}`.
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
