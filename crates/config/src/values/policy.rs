//! Values of the policy's rules.

use serde_json::{Value as Json, json};
use toolgate_policy::{CallLimits, parse_limits};

use super::Setting;

/// How many calls a rule lets through, in words: `at most 20 a run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimitWords(pub CallLimits);

impl Setting for CallLimitWords {
    fn parse(text: &str) -> Result<Self, String> {
        parse_limits(text).map(Self)
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "[0-9]"})
    }
}
