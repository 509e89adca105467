//! A remark of a report that did not stop the run.
//!
//! Reports show it as text; code that depends on what a warning is about matches the variant.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::Position;

/// What a caller should know besides the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// What a check of the program found before its first call.
    Finding {
        /// Where in the program.
        position: Position,
        /// What may go wrong, with advice where there is some.
        message: String,
    },
    /// The record of the run reached its bound, so that the run cannot be repeated beyond it.
    RecordFull {
        /// The bound, in MB.
        megabytes: u64,
    },
    /// Any other remark.
    Remark(String),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Finding { position, message } => write!(f, "{}:{}: {message}", position.line, position.column),
            Warning::RecordFull { megabytes } => {
                write!(f, "not durable beyond here: the record of this run reached its {megabytes} MB")
            }
            Warning::Remark(text) => f.write_str(text),
        }
    }
}

impl From<String> for Warning {
    fn from(text: String) -> Self {
        Warning::Remark(text)
    }
}

impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_text_in_a_report() {
        let position = Position { line: 2, column: 12 };
        let warnings = [
            Warning::Finding { position, message: "never awaited".to_owned() },
            Warning::RecordFull { megabytes: 1 },
            Warning::Remark("a \"remark\"".to_owned()),
        ];
        let expected = r#"["2:12: never awaited","not durable beyond here: the record of this run reached its 1 MB","a \"remark\""]"#;
        assert_eq!(serde_json::to_string(&warnings).unwrap(), expected);
    }
}
