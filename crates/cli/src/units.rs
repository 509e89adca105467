//! Durations and sizes as people write them.

use std::time::Duration;

use toolgate_wire::UtcTime;
use toolgate_wire::limits::MB;

const UNITS_OF_TIME: [(&str, f64); 3] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0)];
const UNITS_OF_SIZE: [(&str, u64); 8] =
    [("", 1), ("b", 1), ("kb", 1024), ("kib", 1024), ("mb", MB), ("mib", MB), ("gb", 1024 * MB), ("gib", 1024 * MB)];

/// Reads `500ms`, `2s`, `1.5s`, `1m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let factor = UNITS_OF_TIME.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor);
    let seconds = number.parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected a number with a unit, such as 500ms, 2s or 1m".to_owned())
}

/// Reads `65536`, `64KB`, `64MB`, `1GB`; a kilobyte is 1024 bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let unit = unit.to_ascii_lowercase();
    let factor = UNITS_OF_SIZE.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor);
    let bytes = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(*factor));
    bytes.ok_or_else(|| "expected a whole number of bytes, such as 65536, 64KB or 64MB".to_owned())
}

/// The leading number and what follows it.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// A time in seconds since 1970 as people write it, in UTC.
pub(crate) fn utc(seconds: u64) -> String {
    let time = UtcTime::of_unix(i64::try_from(seconds).unwrap_or(i64::MAX));
    format!("{} {:02}:{:02} UTC", time.date(), time.hour, time.minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (1_735_689_600, "2025-01-01 00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
    }

    fn check_time(text: &str, ms: Option<u64>) {
        assert_eq!(duration(text).ok(), ms.map(Duration::from_millis), "{text}");
    }

    fn check_size(text: &str, bytes: Option<u64>) {
        assert_eq!(size(text).ok(), bytes, "{text}");
    }

    #[test]
    fn times_need_a_unit() {
        check_time("2s", Some(2_000));
        check_time("500ms", Some(500));
        check_time("1m", Some(60_000));
        check_time("1.5s", Some(1_500));
        for wrong in ["2", "", "s", "-1s", "1h", "2 s", "1e3s", "infs", "NaNs", "1.2.3s", "1s2"] {
            check_time(wrong, None);
        }
    }

    #[test]
    fn sizes_are_whole_bytes_with_or_without_a_unit() {
        check_size("65536", Some(65_536));
        check_size("64MB", Some(64 * MB));
        check_size("64mb", Some(64 * MB));
        check_size("1GiB", Some(1024 * MB));
        check_size("2KB", Some(2_048));
        for wrong in ["", "MB", "-1", "1.5MB", "64 MB", "64XB", "99999999999999999999", "99999999999999GB"] {
            check_size(wrong, None);
        }
    }

    #[test]
    fn a_time_beyond_all_bounds_is_refused_not_wrapped() {
        check_time(&format!("{}m", "9".repeat(400)), None);
    }
}
