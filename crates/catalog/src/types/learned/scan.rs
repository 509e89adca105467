//! Reads a result into a shape by the tokens of its text: the quick way for what most results are.
//!
//! It decides nothing that the parser in `observe` would decide in another way. Text that nests deeply or that is not
//! JSON is left to the parser; strings with escapes and unusual numbers are read by it one by one.

use std::borrow::Cow;

use serde_json::Value;
use toolgate_json::scan::{skip_number, skip_space, skip_string};

use super::MAX_DEPTH;
use super::shape::{Format, Shape};

/// Digits of an integer that every number type can hold.
const MAX_PLAIN_DIGITS: usize = 18;

/// Counts the value of a JSON text into `shape`. `None` leaves a part of it there, and the parser is to read the text.
pub(super) fn observe(json: &str, shape: &mut Shape) -> Option<()> {
    let mut reader = Reader { text: json, at: 0 };
    reader.skip_space();
    reader.value(shape, 0)?;
    reader.skip_space();
    (reader.at == json.len()).then_some(())
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        self.at = skip_space(self.text.as_bytes(), self.at);
    }

    /// Goes over a text that must be here.
    fn expect(&mut self, text: &str) -> Option<()> {
        self.text.as_bytes().get(self.at..)?.starts_with(text.as_bytes()).then(|| self.at += text.len())
    }

    fn value(&mut self, shape: &mut Shape, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.peek()? {
            b'"' => {
                let text = self.string()?;
                shape.strings += 1;
                if let Some(format) = Format::of(&text) {
                    *shape.formats.entry(format).or_default() += 1;
                }
            }
            b'{' => self.object(shape, depth)?,
            b'[' => self.array(shape, depth)?,
            b't' => {
                self.expect("true")?;
                shape.booleans += 1;
            }
            b'f' => {
                self.expect("false")?;
                shape.booleans += 1;
            }
            b'n' => {
                self.expect("null")?;
                shape.nulls += 1;
            }
            _ => {
                let is_integer = self.is_integer()?;
                shape.integers += u64::from(is_integer);
                shape.fractions += u64::from(!is_integer);
            }
        }
        Some(())
    }

    /// The string that begins here, and goes over it.
    fn string(&mut self) -> Option<Cow<'t, str>> {
        let (end, has_escapes) = skip_string(self.text.as_bytes(), self.at).ok()?;
        let quoted = self.text.get(self.at..end)?;
        self.at = end;
        if has_escapes {
            return serde_json::from_str::<String>(quoted).ok().map(Cow::Owned);
        }
        quoted.get(1..quoted.len() - 1).map(Cow::Borrowed)
    }

    /// Whether the number that begins here is an integer, and goes over it.
    fn is_integer(&mut self) -> Option<bool> {
        let end = skip_number(self.text.as_bytes(), self.at).ok()?;
        let number = self.text.get(self.at..end)?;
        self.at = end;
        let is_plain = number.len() <= MAX_PLAIN_DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
        if is_plain {
            return Some(true);
        }
        match serde_json::from_str(number).ok()? {
            Value::Number(number) => Some(!number.is_f64()),
            _ => None,
        }
    }

    fn array(&mut self, shape: &mut Shape, depth: usize) -> Option<()> {
        shape.arrays += 1;
        self.at += 1;
        self.skip_space();
        if self.peek()? == b']' {
            // An array without items says nothing about items.
            self.at += 1;
            return Some(());
        }
        let items = shape.items.get_or_insert_default();
        loop {
            self.skip_space();
            self.value(items, depth + 1)?;
            self.skip_space();
            match self.peek()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(())
    }

    fn object(&mut self, shape: &mut Shape, depth: usize) -> Option<()> {
        shape.objects += 1;
        self.at += 1;
        self.skip_space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        let mut before = None;
        loop {
            self.skip_space();
            let (inside, position) = self.key(shape, before)?;
            before = position;
            self.skip_space();
            self.expect(":")?;
            self.skip_space();
            self.value(inside, depth + 1)?;
            self.skip_space();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(())
    }

    /// The place of the values of the key that begins here, and goes over the key.
    fn key<'s>(&mut self, shape: &'s mut Shape, before: Option<usize>) -> Option<(&'s mut Shape, Option<usize>)> {
        // Records of a list have the same keys: most often the next one is known before it is read.
        let rest = self.text.as_bytes().get(self.at..)?.strip_prefix(b"\"")?;
        if let Some((position, length)) = shape.fields.starts_after(before, rest) {
            self.at += length + 2;
            return shape.enter_known(position).map(|inside| (inside, Some(position)));
        }
        let key = self.string()?;
        Some(shape.enter(&key, before))
    }
}

#[cfg(test)]
mod tests {
    use super::super::observe;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Both ways have the same result, or the quick one has none.
    fn check(text: &str) -> Option<bool> {
        let (mut quick, mut parsed) = (Shape::default(), Shape::default());
        let parsed_well = observe::observe(text, &mut parsed).is_ok();
        let read = super::observe(text, &mut quick).is_some();
        if read {
            quick.settle();
            parsed.settle();
            assert!(parsed_well, "{text}");
            assert_eq!(quick, parsed, "{text}");
        }
        parsed_well.then_some(read)
    }

    #[test]
    fn usual_results_are_read_as_by_the_parser() {
        for text in [
            "null",
            " [ ] ",
            "{}",
            "[[],[1]]",
            "-0",
            "-12",
            "0.5",
            "1e3",
            "123456789012345678",
            "18446744073709551615",
            "18446744073709551616",
            r#"{"a":1,"b":{"c":[true,false,null]},"a":"x"}"#,
            r#"[{"a":1,"b":2},{"b":2,"a":1},{"a":1},{"ab":1,"a":2}]"#,
            r#"{"a\u0062":"\ud83d\ude00","\"":"x\ny"}"#,
            r#"["2026-01-31","2026-01-31T12:00:00Z","a@b.cd","https://x","00000000-0000-0000-0000-000000000000"]"#,
            r#"{"00000000-1111":{"x":1},"ü":2}"#,
        ] {
            assert_eq!(check(text), Some(true), "{text}");
        }
        let many: serde_json::Map<String, Value> = (0..200).map(|n| (format!("key_{n}"), json!(n))).collect();
        assert_eq!(check(&json!([many, many]).to_string()), Some(true));
    }

    #[test]
    fn what_is_not_json_or_too_deep_is_left_to_the_parser() {
        for text in
            ["", "{", "[1,]", "{\"a\"}", "01", "nul", "1 2", "\"\u{1}\"", r#""\ud800""#, "1e999", "{,}", "[1 2]"]
        {
            assert_eq!(check(text), None, "{text}");
        }
        let deep = format!("{}1{}", "[".repeat(40), "]".repeat(40));
        assert_eq!(check(&deep), Some(false));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9_f64).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "20[0-9]{2}-[01][0-9]-[0-3][0-9](T[0-9:]{8}Z)?".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 8, |inside| {
            let key = prop_oneof!["[a-d]", "[a-z_]{1,5}", any::<String>()];
            prop_oneof![
                proptest::collection::vec(inside.clone(), 0..8).prop_map(Value::from),
                proptest::collection::vec((key, inside), 0..8).prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn random_results_are_read_as_by_the_parser(value in value(), is_pretty: bool) {
            let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            prop_assert_eq!(check(&text.unwrap()), Some(true));
        }

        #[test]
        fn damaged_results_are_read_as_by_the_parser(value in value(), at: prop::sample::Index, with in "[\\[\\]{},:\"0-9e.\\\\ -]{0,2}") {
            let text = value.to_string();
            let mut begin = at.index(text.len());
            while !text.is_char_boundary(begin) {
                begin -= 1;
            }
            let end = text[begin..].chars().next().map_or(begin, |c| begin + c.len_utf8());
            check(&format!("{}{with}{}", &text[..begin], &text[end..]));
        }
    }
}
