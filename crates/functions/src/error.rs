//! Errors of host functions.

use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The longest code that an implementer may name, in bytes.
const MAX_CODE_BYTES: usize = 64;

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
    /// A response does not fit into the bytes that its run, its caller or the process may have in flight.
    OverBudget,
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
    /// What a failure of this kind usually means for the effect. No wildcard arm: a new code must choose.
    fn usual_effect(self) -> FailedEffect {
        match self {
            Self::UnknownFunction | Self::InvalidArguments | Self::Refused => FailedEffect::NotSent,
            Self::TooLarge | Self::OverBudget | Self::Timeout | Self::Aborted | Self::Unavailable => {
                FailedEffect::Unknown
            }
            Self::Failed => FailedEffect::Failed,
        }
    }

    /// The code as callers see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownFunction => "UNKNOWN_FUNCTION",
            Self::InvalidArguments => "INVALID_ARGUMENTS",
            Self::Refused => "REFUSED",
            Self::TooLarge => "TOO_LARGE",
            Self::OverBudget => "OVER_BUDGET",
            Self::Timeout => "TIMEOUT",
            Self::Aborted => "ABORTED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Failed => "FAILED",
        }
    }
}

/// What is known about the effect of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailedEffect {
    /// Nothing was sent, so the call had no effect.
    NotSent,
    /// The other side answered with a failure.
    Failed,
    /// It was sent, and no whole answer came.
    Unknown,
}

/// A failed call of a host function.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct FunctionError {
    /// The kind of failure.
    pub code: ErrorCode,
    /// What is known about its effect.
    pub effect: FailedEffect,
    /// A kind of failure that the implementer of the function named; callers see it instead of `code`.
    pub custom_code: Option<String>,
    /// One sentence for the author of the program.
    pub message: String,
    /// Additional data.
    pub data: Option<Value>,
    /// The delay before a retry, if a retry makes sense.
    pub retry_after: Option<Duration>,
}

impl FunctionError {
    /// An error with a code and a message, and the effect that is usual for the code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let effect = code.usual_effect();
        Self { code, effect, custom_code: None, message: message.into(), data: None, retry_after: None }
    }

    /// An error with the code [`ErrorCode::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Failed, message)
    }

    /// Sets what is known about the effect.
    #[must_use]
    pub fn with_effect(mut self, effect: FailedEffect) -> Self {
        self.effect = effect;
        self
    }

    /// Sets the code that callers see; ignored unless it is a short name of ASCII letters, digits, `_`, `-` and `.`.
    #[must_use]
    pub fn with_custom_code(mut self, code: &str) -> Self {
        let is_name = code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        if is_name && (1..=MAX_CODE_BYTES).contains(&code.len()) {
            self.custom_code = Some(code.to_owned());
        }
        self
    }

    /// The code as callers see it.
    pub fn code_text(&self) -> &str {
        self.custom_code.as_deref().unwrap_or(self.code.as_str())
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
        let mut error = json!({ "code": self.code_text(), "message": self.message });
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
            ErrorCode::OverBudget,
            ErrorCode::Timeout,
            ErrorCode::Aborted,
            ErrorCode::Unavailable,
            ErrorCode::Failed,
        ] {
            assert_eq!(json!(code), json!(code.as_str()));
        }
    }

    #[test]
    fn a_custom_code_is_a_short_name() {
        let code = |custom: &str| FunctionError::failed("no").with_custom_code(custom).code_text().to_owned();
        assert_eq!([code("E_NO.SUCH-1"), code("EBUSY")], ["E_NO.SUCH-1", "EBUSY"]);
        for bad in ["", "two words", "\u{1b}[2J", &"x".repeat(65)] {
            assert_eq!(code(bad), "FAILED", "{bad:?}");
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
