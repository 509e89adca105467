//! The clock tool.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_wire::UtcTime;

use super::answer::{Outcome, arguments};

/// Maximum offset from UTC, in minutes.
const MAX_OFFSET: i64 = 18 * 60;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Where {
    #[serde(default)]
    utc_offset_minutes: i64,
}

/// The time now, at an offset from UTC.
pub(super) fn now(given: Map<String, Value>) -> Outcome {
    let Where { utc_offset_minutes: offset } = arguments(given)?;
    if offset.abs() > MAX_OFFSET {
        return Err(format!("utc_offset_minutes lies between -{MAX_OFFSET} and {MAX_OFFSET}"));
    }
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let unix = i64::try_from(unix).unwrap_or_default();
    Ok(json!({ "iso": iso(unix, offset), "unix": unix }))
}

/// The time in RFC 3339 format.
fn iso(unix: i64, offset: i64) -> String {
    let local = UtcTime::of_unix(unix + offset * 60);
    let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
    let zone = match offset {
        0 => "Z".to_owned(),
        1.. => format!("+{hours:02}:{minutes:02}"),
        _ => format!("-{hours:02}:{minutes:02}"),
    };
    format!("{}T{}{zone}", local.date(), local.time_of_day())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_everybody_writes_it() {
        for (unix, offset, expected) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_782_400, 0, "2000-02-29T00:00:00Z"),
            (1_785_196_799, 0, "2026-07-27T23:59:59Z"),
            (1_785_196_799, 120, "2026-07-28T01:59:59+02:00"),
            (0, -210, "1969-12-31T20:30:00-03:30"),
        ] {
            assert_eq!(iso(unix, offset), expected);
        }
    }
}
