//! Formats sizes as kilobytes of 1024 bytes with one decimal.

use std::fmt;

/// A number of bytes that prints as `12.3KB`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kb(pub(crate) usize);

impl fmt::Display for Kb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}KB", self.0 as f64 / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kilobyte_has_1024_bytes_and_one_decimal() {
        let written: Vec<_> = [0, 51, 52, 1024, 10_240, 200_000].map(|bytes| Kb(bytes).to_string()).into();
        assert_eq!(written, ["0.0KB", "0.0KB", "0.1KB", "1.0KB", "10.0KB", "195.3KB"]);
    }
}
