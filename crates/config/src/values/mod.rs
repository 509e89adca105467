//! The types of single values. Each has one parser, its error messages and its JSON Schema in one place.

mod choices;
mod names;
mod net;
mod policy;
mod units;

pub use choices::{
    EgressWord, Engine, HttpAuth, Isolation, LoginGrant, Method, MetricsAccess, Mode, PolicyAction, PolicyAnnotation,
    PolicyProfile, ResultFormat, Reuse, SecretPlace, Start, TransportKind, UnknownCalls,
};
pub use names::{BackendName, FunctionName, Glob, ToolPath};
pub use net::{Allowed, Endpoint, HostName, Origin, RunStorePlace, StoreSetting};
pub use policy::CallLimitWords;
pub use units::{Bytes, KeyHash, Millis, Period, Rate};

use serde_json::{Value as Json, json};

/// A value that is written as a string (or a number) in the file.
pub trait Setting: Sized {
    /// Whether the value may be written as a number.
    const NUMBERS: bool = false;

    /// Parses the text after substitution. The error message must not quote the text, which may be a secret.
    fn parse(text: &str) -> Result<Self, String>;

    /// The JSON Schema of the value.
    fn schema() -> Json;
}

impl Setting for String {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn schema() -> Json {
        json!({"type": "string"})
    }
}

/// A string that must not be printed: environment values, headers, arguments, keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps a string.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The string itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
