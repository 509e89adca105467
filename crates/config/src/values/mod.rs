//! The values that settings are made of: each is built by one parser, which is also where its
//! schema for editors and its wording for errors live.

mod choices;
mod names;
mod net;
mod units;

pub use choices::{Engine, Isolation, Method, Mode, TransportKind};
pub use names::{BackendName, FunctionName, Glob, ToolPath};
pub use net::{Allowed, Endpoint, HostName, Network, Origin, Store};
pub use units::{Bytes, KeyHash, Millis, Period, Rate};

use serde_json::{Value as Json, json};

/// Something that is written as text (or as a number) in a file.
pub trait Setting: Sized {
    /// Whether a bare number may stand for the text.
    const NUMBERS: bool = false;

    /// Reads it, after variables were filled in. The error completes "is not …" sentences and must not
    /// quote the text, which may hold a secret.
    fn parse(text: &str) -> Result<Self, String>;

    /// What an editor should accept.
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

/// Text that must not be shown: environment values, headers, arguments, keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
