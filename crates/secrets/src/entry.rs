//! Which secrets there are, and where each is kept: one small file for each, without its value.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::files;

/// Where a secret is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the keyring of the system.
    Keyring,
    /// In an encrypted file.
    File,
}

impl Place {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Keyring => "keyring",
            Self::File => "file",
        }
    }
}

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEntry {
    /// Its name.
    pub name: String,
    /// Where it is kept.
    pub place: Place,
    /// When it was set, in seconds since 1970.
    pub set_at: u64,
}

impl SecretEntry {
    pub(crate) fn new(name: &str, place: Place) -> Self {
        let set_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { name: name.to_owned(), place, set_at }
    }

    pub(crate) fn to_json(&self) -> String {
        json!({ "name": self.name, "place": self.place.word(), "setAt": self.set_at }).to_string()
    }

    /// The entry in a file; none if there is no such file, or it is no entry.
    pub(crate) fn read(path: &Path) -> std::io::Result<Option<Self>> {
        let bytes = match files::read_bounded(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return Ok(None) };
        let place = match value.get("place").and_then(Value::as_str) {
            Some("keyring") => Place::Keyring,
            Some("file") => Place::File,
            _ => return Ok(None),
        };
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Some(Self { name, place, set_at: value.get("setAt").and_then(Value::as_u64).unwrap_or(0) }))
    }
}
