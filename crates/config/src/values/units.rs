//! Durations, sizes, rates and key hashes.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::Setting;

/// A duration: `500ms`, `30s`, `5m`, `1h`, `1d`; a bare number is seconds. Never zero, at most 30 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(Duration);

impl Period {
    /// Maximum duration.
    pub const MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    /// The duration.
    pub fn get(self) -> Duration {
        self.0
    }

    fn of_seconds(seconds: f64) -> Result<Self, String> {
        let duration = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        if duration.is_zero() || duration > Self::MAX {
            return Err("must be a duration between one nanosecond and 30 days".to_owned());
        }
        Ok(Self(duration))
    }
}

impl Setting for Period {
    const NUMBERS: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || "must be a duration, such as 500ms, 30s, 5m or 1h (a number without a unit means seconds)".to_owned();
        let (amount, unit) = amount_and_unit(text).ok_or_else(wrong)?;
        let scale = match unit {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        Self::of_seconds(amount * scale)
    }

    fn schema() -> Json {
        json!({"anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": Self::MAX.as_secs()},
            {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|min|h|d)?\s*$"},
        ]})
    }
}

/// A duration in a server entry of a client, where a number without a unit means milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Millis {
    /// The duration.
    pub period: Period,
    /// Whether it is a number without a unit below 1000, which was probably meant as seconds.
    pub doubtful: bool,
}

impl Setting for Millis {
    const NUMBERS: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        match text.trim().parse::<f64>() {
            Ok(amount) => Period::of_seconds(amount / 1000.0).map(|period| Self { period, doubtful: amount < 1000.0 }),
            Err(_) => Period::parse(text).map(|period| Self { period, doubtful: false }),
        }
    }

    fn schema() -> Json {
        Period::schema()
    }
}

/// A size: `64KB`, `16MB`, `1GB`, each step being 1024; a bare number is bytes. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(u64);

impl Bytes {
    /// A size in bytes, for defaults.
    pub const fn new(bytes: u64) -> Self {
        Self(if bytes == 0 { 1 } else { bytes })
    }

    /// The number of bytes.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let steps = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
        match steps.iter().find(|(step, _)| self.0.is_multiple_of(*step)) {
            Some((step, unit)) => write!(f, "{} {unit}", self.0 / step),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

impl Setting for Bytes {
    const NUMBERS: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "must be a size, such as 64KB, 16MB or 1GB (a number without a unit means bytes)".to_owned();
        let (amount, unit) = amount_and_unit(text).ok_or_else(wrong)?;
        let scale = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "kb" | "kib" | "k" => 1024.0,
            "mb" | "mib" | "m" => 1024.0 * 1024.0,
            "gb" | "gib" | "g" => 1024.0 * 1024.0 * 1024.0,
            _ => return Err(wrong()),
        };
        // Below 2^50 an f64 is exact.
        match amount * scale {
            bytes if (1.0..=(1u64 << 50) as f64).contains(&bytes) => Ok(Self(bytes as u64)),
            _ => Err("must be a size between one byte and 1 PB".to_owned()),
        }
    }

    fn schema() -> Json {
        json!({"anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([KMGkmg]([Ii]?[Bb])?|[Bb])?\s*$"},
        ]})
    }
}

/// A rate limit: `100/s`, `60/m`, `1000/h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests in each period.
    pub count: NonZeroU32,
    /// The period.
    pub per: Duration,
}

impl Setting for Rate {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "must be a rate, such as 100/s, 60/m or 1000/h".to_owned();
        let (count, per) = text.split_once('/').ok_or_else(wrong)?;
        let count = count.trim().parse().map_err(|_| wrong())?;
        let per = match per.trim() {
            "s" => 1,
            "m" | "min" => 60,
            "h" => 3_600,
            _ => return Err(wrong()),
        };
        Ok(Self { count, per: Duration::from_secs(per) })
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r"^\s*\+?0*[1-9][0-9]*\s*/\s*(s|m|min|h)\s*$"})
    }
}

/// The SHA-256 of an API key, written `sha256:` and 64 hexadecimal digits.
///
/// A single hash suffices because keys are long and random; it would not suffice for passwords.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// The digest.
    pub fn digest(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

impl Setting for KeyHash {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "must be sha256: followed by 64 hexadecimal digits".to_owned();
        let digits = text.trim().strip_prefix("sha256:").ok_or_else(wrong)?.as_bytes();
        let mut digest = [0; 32];
        if digits.len() != 64 {
            return Err(wrong());
        }
        for (byte, pair) in digest.iter_mut().zip(digits.chunks(2)) {
            *byte = pair.iter().try_fold(0, |sum, digit| Some(sum * 16 + hex(*digit)?)).ok_or_else(wrong)?;
        }
        Ok(Self(digest))
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r"^\s*sha256:[0-9a-fA-F]{64}\s*$"})
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Splits `30 s` into 30 and `s`.
fn amount_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (amount, unit) = text.split_at_checked(end)?;
    // `f64::from_str` also accepts `5.` and `.5`, which the schema rejects.
    if !amount.starts_with(|c: char| c.is_ascii_digit()) || !amount.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some((amount.parse().ok()?, unit.trim()))
}
