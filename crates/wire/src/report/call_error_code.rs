//! Why a host call gave no value, as a kind that decisions can match.
//!
//! A code is text on every wire: in the `ToolError` of a program, in reports and in records. [`CallErrorCode::named`] reads it, and a
//! text that is no known code stays as it is, because host functions and remote functions name kinds of their own. Each text has
//! one value, so that a code that was written and read again is equal to the first.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::foreign_text::clipped;

/// Declares the known codes with their texts, in one table for both directions.
macro_rules! call_error_codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The kind of failure of a host call.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum CallErrorCode {
            $($(#[$doc])* $variant,)*
            /// A kind that a function, a server or an embedder named.
            Foreign(ForeignCode),
        }

        impl CallErrorCode {
            /// The code of that text.
            pub fn named(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    _ => Self::Foreign(ForeignCode(text.into())),
                }
            }

            /// The text that programs, reports and records have.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Foreign(code) => &code.0,
                }
            }
        }

        #[cfg(test)]
        const KNOWN: &[CallErrorCode] = &[$(CallErrorCode::$variant,)*];
    };
}

call_error_codes! {
    /// The run was cancelled while a host function worked.
    Aborted = "ABORTED",
    /// The call was cancelled.
    Cancelled = "CANCELLED",
    /// The backend's process ended during the call.
    Crashed = "CRASHED",
    /// The policy, or a person, does not let the call through.
    Denied = "DENIED",
    /// The call was not decided about in time.
    Expired = "EXPIRED",
    /// A host function ran and failed.
    Failed = "FAILED",
    /// The start of the backend failed.
    FailedToStart = "FAILED_TO_START",
    /// An HTTP backend answered with a status that is no success.
    Http = "HTTP",
    /// The tool asks a person something, and none can be asked.
    InputRequired = "INPUT_REQUIRED",
    /// The host failed during the call.
    Internal = "INTERNAL",
    /// The arguments do not fit what is called.
    InvalidArguments = "INVALID_ARGUMENTS",
    /// A login at the backend's authorization server failed.
    LoginFailed = "LOGIN_FAILED",
    /// A person has to log in first; `data.command` is the command for it.
    NeedsLogin = "NEEDS_LOGIN",
    /// The call's intent could not be made durable.
    NotDurable = "NOT_DURABLE",
    /// A corrected program makes a call with an effect that the earlier run did not make so.
    NotKept = "NOT_KEPT",
    /// The backend is still starting, or disabled.
    NotReady = "NOT_READY",
    /// The record has no answer to this call.
    NotRecorded = "NOT_RECORDED",
    /// An answer does not fit into the bytes that its run, its caller or the process may hold.
    OverBudget = "OVER_BUDGET",
    /// Too many calls wait for the backend.
    Overloaded = "OVERLOADED",
    /// The backend does not keep to its protocol.
    Protocol = "PROTOCOL",
    /// The caller has made too many calls in this minute.
    RateLimited = "RATE_LIMITED",
    /// A program that only reads called something that is not known to change nothing.
    ReadOnly = "READ_ONLY",
    /// Forbidden by a rule of a host function, such as a private address.
    Refused = "REFUSED",
    /// The backend answered with a JSON-RPC error; `data` has its code, message and data.
    Rejected = "REJECTED",
    /// A repeated program of one call made another.
    Replay = "REPLAY",
    /// The call is a line of a review and was not sent.
    Staged = "STAGED",
    /// No answer came in time.
    Timeout = "TIMEOUT",
    /// A request or an answer exceeds its limit.
    TooLarge = "TOO_LARGE",
    /// The tool reported a failure.
    ToolFailed = "TOOL_FAILED",
    /// The remote side of a host function is unreachable or overloaded.
    Unavailable = "UNAVAILABLE",
    /// The host has nothing of that name.
    Unknown = "UNKNOWN",
    /// No backend of that name.
    UnknownBackend = "UNKNOWN_BACKEND",
    /// The call was sent and not answered, and is not sent again.
    UnknownEffect = "UNKNOWN_EFFECT",
    /// No host function of that name.
    UnknownFunction = "UNKNOWN_FUNCTION",
    /// No tool of that name.
    UnknownTool = "UNKNOWN_TOOL",
    /// The backend cannot be reached.
    Unreachable = "UNREACHABLE",
}

/// A text that is no known code; [`CallErrorCode::named`] makes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ForeignCode(Box<str>);

impl CallErrorCode {
    /// Whether the call failed by a decision, of the policy or of a person.
    pub fn is_denial(&self) -> bool {
        matches!(self, Self::Denied | Self::Expired)
    }

    /// Whether Toolgate acts on a call that failed so. What a caller's own function says must not be taken for it.
    pub fn is_reserved(&self) -> bool {
        use CallErrorCode::{Aborted, Cancelled, InputRequired, NeedsLogin, Staged};
        self.is_denial() || matches!(self, Aborted | Cancelled | InputRequired | NeedsLogin | Staged)
    }

    /// The same code, with a foreign text of at most `max` characters.
    pub(super) fn clipped(&self, max: usize) -> Self {
        match self {
            Self::Foreign(code) => Self::named(&clipped(&code.0, max)),
            known => known.clone(),
        }
    }
}

impl From<&str> for CallErrorCode {
    fn from(text: &str) -> Self {
        Self::named(text)
    }
}

impl From<String> for CallErrorCode {
    fn from(text: String) -> Self {
        Self::named(&text)
    }
}

impl fmt::Display for CallErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for CallErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for CallErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_from_the_text_that_it_writes() {
        for code in KNOWN {
            assert_eq!(CallErrorCode::named(code.as_str()), *code);
            assert!(!matches!(CallErrorCode::named(code.as_str()), CallErrorCode::Foreign(_)));
            // The text is the variant's name, as every other enum of the wire has it.
            let variant = format!("{code:?}");
            let shouted = code.as_str().split('_').map(|word| word[..1].to_owned() + &word[1..].to_lowercase());
            assert_eq!(shouted.collect::<String>(), variant);
        }
    }

    #[test]
    fn a_foreign_code_is_kept_as_it_is() {
        for text in ["", "NOT_FOUND", "timeout", "TIMEOUT ", "Ünknown"] {
            let code = CallErrorCode::named(text);
            assert!(matches!(code, CallErrorCode::Foreign(_)), "{text}");
            assert_eq!((code.as_str(), serde_json::to_string(&code).unwrap()), (text, format!("{text:?}")));
        }
    }

    #[test]
    fn a_code_that_was_written_and_read_is_the_same() {
        let codes = [CallErrorCode::NeedsLogin, CallErrorCode::named("E42")];
        let read: Vec<CallErrorCode> = serde_json::from_str(&serde_json::to_string(&codes).unwrap()).unwrap();
        assert_eq!(read, codes);
    }

    #[test]
    fn only_a_foreign_code_is_cut() {
        assert_eq!(CallErrorCode::named("ABCDEF").clipped(3).as_str(), "ABC…");
        assert_eq!(CallErrorCode::InvalidArguments.clipped(3), CallErrorCode::InvalidArguments);
    }
}
