//! Finds integers that would lose digits: JavaScript's numbers are doubles, which hold every integer only up to 2^53.

/// Whether an integer literal of JavaScript, as it is written, is not exactly the number that it becomes.
pub(crate) fn is_rounded_literal(raw: &str) -> bool {
    let digits = raw.replace('_', "");
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = match lower.get(..2) {
        Some("0x") => (lower.get(2..), 16),
        Some("0o") => (lower.get(2..), 8),
        Some("0b") => (lower.get(2..), 2),
        _ => (Some(lower.as_str()), 10),
    };
    let digits = digits.unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| char::from(byte).is_digit(radix)) && !is_double(digits, radix)
}

/// The first integer in a JSON text that fits neither 64 bits nor a double.
pub(crate) fn first_rounded(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let length = bytes.get(at..)?.iter().take_while(|byte| is_part(byte)).count();
                let number = json.get(at..at + length)?;
                if is_rounded_number(number) {
                    return Some(number);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// The offset after a string that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    at
}

fn is_rounded_number(number: &str) -> bool {
    let digits = number.trim_start_matches('-');
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    let fits = number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    is_integer && !fits && !is_double(digits, 10)
}

fn is_double(digits: &str, radix: u32) -> bool {
    u128::from_str_radix(digits, radix).is_ok_and(|integer| integer as f64 as u128 == integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_compared_with_the_double_that_they_become() {
        for exact in
            ["0", "9007199254740992", "9007199254740994", "1_000", "0x20000000000000", "1e30", "0.1", "1.5e300"]
        {
            assert!(!is_rounded_literal(exact), "{exact}");
        }
        for exact in ["100000000000000000000", "18446744073709551616", "0b101", "0o17", "017", ".5", ""] {
            assert!(!is_rounded_literal(exact), "{exact}");
        }
        for rounded in ["9007199254740993", "9_007_199_254_740_993", "0x20000000000001", "12345678901234567890"] {
            assert!(is_rounded_literal(rounded), "{rounded}");
        }
        assert!(is_rounded_literal(&"9".repeat(60)));
    }

    #[test]
    fn json_keeps_integers_of_64_bits() {
        let kept = r#"{"a": [9007199254740993, -9223372036854775808, 18446744073709551615, 1e400, 0.1], "b": 100000000000000000000}"#;
        assert_eq!(first_rounded(kept), None);
        assert_eq!(first_rounded(r#"{"36893488147419103233": "36893488147419103233\""}"#), None);
        assert_eq!(first_rounded(r#"["\\", 36893488147419103233]"#), Some("36893488147419103233"));
        assert_eq!(first_rounded("[-9223372036854775809]"), Some("-9223372036854775809"));
    }
}
