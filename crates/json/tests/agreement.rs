//! All readers and writers of JSON in this crate agree with each other and with serde_json, byte for byte.

#[path = "../src/samples.rs"]
mod samples;

use proptest::prelude::*;
use serde_json::Value as Tree;
use serde_json::value::RawValue;
use toolgate_json::scan::{self, expect_end, members, skip_space, skip_value};
use toolgate_json::unescape::{Unescaped, unescape, unescape_wtf8};
use toolgate_json::{
    Shape, Value, Window, check, minified, pretty, replace_lone_surrogates, stringify, unquote, write,
};

/// Whether the scanner accepts the text as one value.
fn scans(text: &str) -> bool {
    let bytes = text.as_bytes();
    let end = skip_value(bytes, skip_space(bytes, 0), 0);
    end.and_then(|end| expect_end(bytes, end)).is_ok()
}

fn indented(text: &str) -> String {
    let mut out = String::new();
    pretty(Value::of(text), &mut Window::new(0, usize::MAX, &mut out));
    out
}

/// The members of an object as (key between quotes, value), by the scanner.
fn scanned_members(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let part = |from: usize, to: usize| text.get(from..to).expect("offsets at character boundaries");
    let end = members(text.as_bytes(), 0, 0, |member| {
        found.push((part(member.key + 1, member.key_end - 1), part(member.value, member.end)));
    });
    assert_eq!(end, Ok(text.len()));
    found
}

/// Compares the two walks over objects, at every level.
fn check_walks(value: Value<'_>) {
    if value.shape() == Shape::Object {
        let walked: Vec<_> = value.entries().map(|entry| (key(entry.key), entry.value.text())).collect();
        assert_eq!(walked, scanned_members(value.text()));
    }
    value.entries().for_each(|entry| check_walks(entry.value));
}

fn key(quoted: Option<&str>) -> &str {
    quoted.and_then(|key| key.strip_prefix('"')?.strip_suffix('"')).expect("a quoted key")
}

/// Strings as they may be spelt in JSON, with every kind of escape and lone surrogates.
fn spelling() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zé\u{d7ff}\u{1f600}]{1,3}",
        Just(r"\n\t\r\b\f\/\\".to_owned()),
        Just("\\\"".to_owned()),
        any::<u16>().prop_map(|unit| format!("\\u{unit:04x}")),
        (0xd800_u16..0xdc00, 0xdc00_u16..0xe000).prop_map(|(high, low)| format!("\\u{high:04X}\\u{low:04x}")),
        (0xd800_u16..0xe000).prop_map(|unit| format!("\\u{unit:04x}")),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

#[test]
fn nesting_is_bounded_only_by_the_scanner() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let max = scan::MAX_DEPTH as usize;
    assert!(scans(&nested(max)) && check(&nested(max)).is_some());
    assert!(!scans(&nested(max + 1)) && check(&nested(max + 1)).is_some());
}

proptest! {
    /// Near-JSON from a small alphabet.
    #[test]
    fn the_validators_accept_the_same_texts(text in r#"([\[\]{},:" 0-9eE+.\\\t-]|"a"|true|false|null|\\n|\\u00e9){0,14}"#) {
        let expected = serde_json::from_str::<&RawValue>(&text).is_ok();
        prop_assert_eq!(check(&text).is_some(), expected);
        prop_assert_eq!(scans(&text), expected);
    }

    #[test]
    fn the_walks_find_the_same_members(value in samples::json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("JSON")] {
            check_walks(Value::of(&text));
        }
    }

    #[test]
    fn the_decoders_give_the_same_text(spelt in spelling()) {
        let quoted = format!("\"{spelt}\"");
        let decoded = unescape(spelt.as_bytes());
        let lone = matches!(decoded, Unescaped::Utf16(_));
        let text = match decoded {
            Unescaped::Utf8(bytes) => String::from_utf8(bytes).expect("UTF-8"),
            Unescaped::Utf16(units) => String::from_utf16_lossy(&units),
        };
        prop_assert_eq!(unquote(&quoted), text.as_str());
        prop_assert_eq!(check(&quoted).map(|facts| facts.lone_surrogates), Some(lone));
        prop_assert_eq!(serde_json::from_str::<String>(&replace_lone_surrogates(&quoted)).expect("JSON"), text);
    }

    #[test]
    fn writing_undoes_decoding(spelt in spelling()) {
        let wtf8 = unescape_wtf8(spelt.as_bytes());
        let mut quoted = Vec::new();
        write::quote(&mut quoted, &wtf8);
        prop_assert_eq!(unescape_wtf8(&quoted[1..quoted.len() - 1]), wtf8);
    }

    #[test]
    fn strings_are_written_as_serde_json_writes_them(text: String) {
        let expected = serde_json::to_string(&text).expect("JSON");
        let mut quoted = Vec::new();
        write::quote(&mut quoted, text.as_bytes());
        prop_assert_eq!(quoted.as_slice(), expected.as_bytes());
        let mut bounded = Vec::new();
        prop_assert!(write::quote_within(&mut bounded, text.as_bytes(), expected.len()));
        prop_assert_eq!(bounded, quoted);
        prop_assert!(!write::quote_within(&mut Vec::new(), text.as_bytes(), expected.len() - 1));
    }

    #[test]
    fn a_written_number_parses_to_the_same_number(bits: u64) {
        let number = f64::from_bits(bits);
        prop_assume!(number.is_finite());
        let mut text = Vec::new();
        write::number(&mut text, number);
        let parsed: f64 = serde_json::from_slice(&text).expect("a JSON number");
        prop_assert_eq!(parsed, number);
    }

    #[test]
    fn values_are_written_as_serde_json_writes_them(value in samples::json()) {
        // The samples have neither array indices as keys nor fractions; integers above 2^53 are rounded.
        let rounded: Tree = serde_json::from_str(&stringify(&value)).expect("JSON");
        prop_assert_eq!(stringify(&value), rounded.to_string());
        let text = value.to_string();
        prop_assert_eq!(minified(Value::of(&indented(&text)), usize::MAX), Some(text.clone()));
        prop_assert_eq!(indented(&text), serde_json::to_string_pretty(&value).expect("JSON"));
    }
}
