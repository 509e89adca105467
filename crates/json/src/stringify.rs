//! Writes a JSON value as `JSON.stringify` writes it after `JSON.parse` has read it.
//!
//! Numbers become doubles, printed as JavaScript prints them, and keys that are array indices come first. A path that
//! answers without an interpreter writes its result this way, so that the result does not depend on the path.

use serde_json::{Map, Number, Value};

/// The text that `JSON.stringify(JSON.parse(value))` would be.
pub fn stringify(value: &Value) -> String {
    let mut out = String::new();
    put(value, &mut out);
    out
}

fn put(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => put_number(number, out),
        Value::String(text) => put_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(index, out);
                put(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => put_object(fields, out),
    }
}

fn separate(index: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
}

fn put_object(fields: &Map<String, Value>, out: &mut String) {
    let mut indexed: Vec<(u32, &Value)> =
        fields.iter().filter_map(|(key, value)| Some((array_index(key)?, value))).collect();
    indexed.sort_by_key(|(index, _)| *index);
    let named = fields.iter().filter(|(key, _)| array_index(key).is_none());
    out.push('{');
    let first = indexed.into_iter().map(|(index, value)| (index.to_string(), value));
    for (place, (key, value)) in first.chain(named.map(|(key, value)| (key.clone(), value))).enumerate() {
        separate(place, out);
        put_text(&key, out);
        out.push(':');
        put(value, out);
    }
    out.push('}');
}

/// The number that a key is, if JavaScript orders it before all names.
fn array_index(key: &str) -> Option<u32> {
    let digits = !key.is_empty() && key.len() <= 10 && key.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits && (key == "0" || !key.starts_with('0'));
    key.parse().ok().filter(|index| canonical && *index != u32::MAX)
}

fn put_text(text: &str, out: &mut String) {
    // Escapes exactly what JSON.stringify escapes: quotes, backslashes and control characters.
    out.push_str(&Value::from(text).to_string());
}

/// Integers that a double holds exactly are printed as they are.
const EXACT: u64 = 1 << 53;

fn put_number(number: &Number, out: &mut String) {
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) if integer.unsigned_abs() <= EXACT => out.push_str(&integer.to_string()),
        (_, Some(double)) if double.is_finite() => put_double(double, out),
        _ => out.push_str("null"),
    }
}

/// As ECMAScript's Number::toString: the shortest digits that read back the same.
fn put_double(double: f64, out: &mut String) {
    if double == 0.0 {
        return out.push('0');
    }
    if double < 0.0 {
        out.push('-');
    }
    let shortest = format!("{:e}", double.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits = mantissa.replace('.', "");
    // The decimal point stands after this many digits.
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let count = digits.len() as i32;
    if (count..=21).contains(&point) {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', (point - count) as usize));
    } else if (1..=21).contains(&point) {
        let (whole, fraction) = digits.split_at(point as usize);
        out.push_str(&format!("{whole}.{fraction}"));
    } else if (-5..=0).contains(&point) {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', -point as usize));
        out.push_str(&digits);
    } else {
        put_exponential(&digits, point - 1, out);
    }
}

fn put_exponential(digits: &str, exponent: i32, out: &mut String) {
    let (first, rest) = digits.split_at(1);
    out.push_str(first);
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    out.push_str(if exponent < 0 { "e-" } else { "e+" });
    out.push_str(&exponent.unsigned_abs().to_string());
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
