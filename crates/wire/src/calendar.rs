//! Dates and times of day in UTC, from a number of seconds since 1970. It reads no clock.

/// A moment as the proleptic Gregorian calendar writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtcTime {
    /// The year; zero is the year before the year one.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// 0 to 23.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
    /// 0 to 59.
    pub second: i64,
}

const SECONDS_PER_DAY: i64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;
/// Days from the first of March of the year zero to 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

impl UtcTime {
    /// The moment that many seconds after the start of 1970.
    pub fn of_unix(seconds: i64) -> Self {
        let (year, month, day) = date(seconds.div_euclid(SECONDS_PER_DAY));
        let of_day = seconds.rem_euclid(SECONDS_PER_DAY);
        UtcTime { year, month, day, hour: of_day / 3600, minute: of_day / 60 % 60, second: of_day % 60 }
    }

    /// `2026-11-16`
    pub fn date(&self) -> String {
        let UtcTime { year, month, day, .. } = self;
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// `07:57:00`
    pub fn time_of_day(&self) -> String {
        let UtcTime { hour, minute, second, .. } = self;
        format!("{hour:02}:{minute:02}:{second:02}")
    }
}

/// Year, month and day of a number of days since 1970. Years begin in March here, so that the leap day is the last one.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(DAYS_BEFORE_1970);
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seconds: i64, expected: &str) {
        let time = UtcTime::of_unix(seconds);
        assert_eq!(format!("{} {}", time.date(), time.time_of_day()), expected);
    }

    #[test]
    fn times_are_dates_of_the_calendar() {
        check(0, "1970-01-01 00:00:00");
        check(-1, "1969-12-31 23:59:59");
        check(951_782_400, "2000-02-29 00:00:00");
        check(1_709_251_199, "2024-02-29 23:59:59");
        check(1_735_689_600, "2025-01-01 00:00:00");
        check(1_794_815_820, "2026-11-16 07:57:00");
        check(4_107_542_399, "2100-02-28 23:59:59");
        check(4_107_542_400, "2100-03-01 00:00:00");
    }

    #[test]
    fn every_day_of_an_era_follows_the_one_before() {
        let mut before = date(-1);
        for day in 0..DAYS_PER_ERA {
            let (year, month, of_month) = date(day);
            let is_next = match before {
                (y, m, d) if (y, m) == (year, month) => of_month == d + 1,
                (y, 12, 31) => (year, month, of_month) == (y + 1, 1, 1),
                (y, m, _) => (year, month, of_month) == (y, m + 1, 1),
            };
            assert!(is_next, "{before:?} is not the day before {year}-{month}-{of_month}");
            before = (year, month, of_month);
        }
    }

    #[test]
    fn no_number_is_too_large() {
        for seconds in [i64::MIN, i64::MAX] {
            let _ = UtcTime::of_unix(seconds).date();
        }
    }
}
