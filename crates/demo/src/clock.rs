//! The clock tool.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Outcome, arguments};

const DAY: i64 = 86_400;
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
    let local = unix + offset * 60;
    let (year, month, day) = date(local.div_euclid(DAY));
    let second = local.rem_euclid(DAY);
    let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
    let zone = match offset {
        0 => "Z".to_owned(),
        1.. => format!("+{hours:02}:{minutes:02}"),
        _ => format!("-{hours:02}:{minutes:02}"),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}")
}

/// Converts a day number since 1970-01-01 to year, month and day, in eras of 400 years that begin in March.
fn date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, of_year - (153 * march + 2) / 5 + 1)
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
