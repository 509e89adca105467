//! Writes a JSON value as `JSON.stringify` writes it after `JSON.parse` has read it.
//!
//! Numbers become doubles, printed as JavaScript prints them, and keys that are array indices come first. A path that
//! answers without an interpreter writes its result this way, so that the result does not depend on the path. Where there is
//! no program at all, [`stringify_exact`] keeps integers of 64 bits.

use serde_json::{Map, Number, Value};

use super::scan::array_index;
use super::write;

/// The result of `JSON.stringify(JSON.parse(value))`.
pub fn stringify(value: &Value) -> String {
    written(value, Integers::Doubles)
}

/// The same, but integers of 64 bits keep all their digits.
pub fn stringify_exact(value: &Value) -> String {
    written(value, Integers::Exact)
}

/// What becomes of integers beyond 2^53.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Integers {
    Doubles,
    Exact,
}

fn written(value: &Value, integers: Integers) -> String {
    let mut out = Vec::new();
    put(value, integers, &mut out);
    // The tokens of UTF-8 input are UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

fn put(value: &Value, integers: Integers, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => put_number(number, integers, out),
        Value::String(text) => write::quote(out, text.as_bytes()),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                separate(index, out);
                put(item, integers, out);
            }
            out.push(b']');
        }
        Value::Object(fields) => put_object(fields, integers, out),
    }
}

fn separate(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

fn put_object(fields: &Map<String, Value>, integers: Integers, out: &mut Vec<u8>) {
    let index = |key: &str| array_index(key.as_bytes());
    let mut indexed: Vec<(u32, &String, &Value)> =
        fields.iter().filter_map(|(key, value)| Some((index(key)?, key, value))).collect();
    indexed.sort_by_key(|(index, ..)| *index);
    let named = fields.iter().filter(|(key, _)| index(key).is_none());
    out.push(b'{');
    for (place, (key, value)) in indexed.into_iter().map(|(_, key, value)| (key, value)).chain(named).enumerate() {
        separate(place, out);
        write::quote(out, key.as_bytes());
        out.push(b':');
        put(value, integers, out);
    }
    out.push(b'}');
}

/// Integers up to 2^53 are exact as doubles.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

fn put_number(number: &Number, integers: Integers, out: &mut Vec<u8>) {
    if integers == Integers::Exact && (number.is_i64() || number.is_u64()) {
        return out.extend_from_slice(number.to_string().as_bytes());
    }
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) if integer.unsigned_abs() <= MAX_EXACT_INTEGER => write::integer(out, integer),
        (_, Some(double)) => write::number(out, double),
        _ => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let value: Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(stringify(&value), expected);
    }

    #[test]
    fn numbers_are_doubles_as_javascript_prints_them() {
        check("[1, 1.0, -0, -0.0, 0.1, 1e3]", "[1,1,0,0,0.1,1000]");
        check(
            "[12345678901234567890, 9007199254740993, -9007199254740993]",
            "[12345678901234567000,9007199254740992,-9007199254740992]",
        );
        check(
            "[1e21, 1e20, 123e-20, 1e-6, 1e-7, 1.5e300]",
            "[1e+21,100000000000000000000,1.23e-18,0.000001,1e-7,1.5e+300]",
        );
        check(
            "[5e-324, 1.7976931348623157e308, 0.000001234, 100.25]",
            "[5e-324,1.7976931348623157e+308,0.000001234,100.25]",
        );
    }

    #[test]
    fn exact_integers_keep_64_bits() {
        let value: Value = serde_json::from_str(
            r#"{"b": [9007199254740993, -9223372036854775808, 18446744073709551615, 1.0, 1e21], "1": -0.0}"#,
        )
        .expect("JSON");
        let exact = r#"{"1":0,"b":[9007199254740993,-9223372036854775808,18446744073709551615,1,1e+21]}"#;
        assert_eq!(stringify_exact(&value), exact);
    }

    #[test]
    fn keys_that_are_indices_come_first_in_order() {
        check(
            r#"{"b":1,"10":2,"a":3,"2":4,"01":5,"-1":6,"4294967295":7,"4294967294":8}"#,
            r#"{"2":4,"10":2,"4294967294":8,"b":1,"a":3,"01":5,"-1":6,"4294967295":7}"#,
        );
    }

    #[test]
    fn texts_are_escaped_as_json_stringify_does() {
        check(r#""a\u0000\u001f\"\\\/\u2028é\n""#, "\"a\\u0000\\u001f\\\"\\\\/\u{2028}é\\n\"");
    }
}
