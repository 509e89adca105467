//! Lines and their hashes.

use std::time::{SystemTime, UNIX_EPOCH};

use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};
use toolgate_wire::UtcTime;

/// `prev` of the first line.
pub(crate) const BEGINNING: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// The longest line; a record that would be longer keeps its first fields only.
pub(crate) const MAX_LINE: usize = 32 * 1024;

/// The end of a chain: what the next line refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    /// The number of the last line; zero before the first.
    pub(crate) seq: u64,
    /// Its hash.
    pub(crate) hash: String,
    /// Whether the last line is the beginning of one that was never finished.
    pub(crate) torn: bool,
    /// Whether the next line is the first of its file.
    pub(crate) begins_file: bool,
}

impl Default for ChainEnd {
    fn default() -> Self {
        ChainEnd { seq: 0, hash: BEGINNING.to_owned(), torn: false, begins_file: true }
    }
}

/// The hash of a line, without its line break.
pub(crate) fn hash_of(line: &[u8]) -> String {
    hexadecimal(digest(&SHA256, line).as_ref())
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    let mut text = String::with_capacity(2 * bytes.len());
    text.extend(bytes.iter().flat_map(digits));
    text
}

/// The next line, without its line break.
pub(crate) fn next_line(end: &ChainEnd, time: SystemTime, lost: u64, fields: &Map<String, Value>) -> String {
    let mut line = Map::new();
    line.insert("seq".to_owned(), (end.seq + 1).into());
    line.insert("time".to_owned(), timestamp(time).into());
    line.insert("prev".to_owned(), end.hash.clone().into());
    if end.torn {
        line.insert("after_torn".to_owned(), true.into());
    }
    // The first line of all is known by its number.
    if end.begins_file && end.seq > 0 {
        line.insert("begins_file".to_owned(), true.into());
    }
    if lost > 0 {
        line.insert("lost".to_owned(), lost.into());
    }
    let mut length = 300;
    for (name, value) in fields {
        length += name.len() + value.to_string().len() + 4;
        if length > MAX_LINE {
            line.insert("shortened".to_owned(), true.into());
            break;
        }
        line.insert(name.clone(), value.clone());
    }
    Value::Object(line).to_string()
}

/// `2026-11-16T07:57:00.123Z`
pub fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let utc = UtcTime::of_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
    format!("{}T{}.{:03}Z", utc.date(), utc.time_of_day(), since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn times_are_dates_of_the_calendar() {
        let check = |seconds: u64, expected: &str| {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        };
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400, "2000-02-29T00:00:00.000Z");
        check(1_794_815_820, "2026-11-16T07:57:00.000Z");
        check(4_107_542_399, "2100-02-28T23:59:59.000Z");
    }

    #[test]
    fn a_line_is_bounded() {
        let mut fields = Map::new();
        fields.insert("who".to_owned(), json!("ada"));
        fields.insert("arguments".to_owned(), json!("x".repeat(MAX_LINE)));
        let line = next_line(&ChainEnd::default(), UNIX_EPOCH, 2, &fields);
        assert!(line.len() < 1_000 && line.contains("\"shortened\":true") && line.contains("\"lost\":2"), "{line}");
    }
}
