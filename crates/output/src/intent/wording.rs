//! The text of an intent, bounded once for every door.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// Maximum number of characters of an intent.
pub const MAX_INTENT_CHARS: usize = 2_000;

/// What a caller looks for, in at most [`MAX_INTENT_CHARS`] characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent(String);

/// An intent is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("has at most {MAX_INTENT_CHARS} characters: say in a few words what you look for")]
pub struct IntentTooLong;

impl FromStr for Intent {
    type Err = IntentTooLong;

    fn from_str(text: &str) -> Result<Self, IntentTooLong> {
        if text.chars().nth(MAX_INTENT_CHARS).is_some() { Err(IntentTooLong) } else { Ok(Self(text.to_owned())) }
    }
}

impl Deref for Intent {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Intent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Intent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Intent, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(), IntentTooLong>) {
        assert_eq!(text.parse::<Intent>().map(|intent| assert_eq!(&*intent, text)), expected);
        let json = serde_json::Value::from(text);
        let read = Intent::deserialize(&json).map(drop).map_err(|error| error.to_string());
        assert_eq!(read, expected.map_err(|error| error.to_string()));
    }

    #[test]
    fn an_intent_is_a_few_words() {
        check("", Ok(()));
        check("errors of the database", Ok(()));
        check(&"é".repeat(MAX_INTENT_CHARS), Ok(()));
        check(&"é".repeat(MAX_INTENT_CHARS + 1), Err(IntentTooLong));
    }
}
