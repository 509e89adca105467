//! Finds the id of a message that is not decoded because it is too long or not valid JSON.
//!
//! Without the id, the request that the message answers would wait until its timeout. Tracks nesting and strings only, in
//! constant memory; does not validate the text.

use serde_json::Value;

/// An incremental scan of one line.
#[derive(Debug, Default)]
pub(crate) struct IdScan {
    depth: u32,
    string: Within,
    /// The last string at the top level, cut off past the length of an id.
    last: Vec<u8>,
    /// Whether `last` was in quotes, and whether it had escapes.
    quoted: bool,
    escaped: bool,
    /// Whether the value of `id` is being read.
    reading: bool,
    found: Option<Value>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    String,
    Escape,
}

/// The longest id that is found; decimal numbers and UUIDs are shorter.
const MAX_ID_BYTES: usize = 64;

impl IdScan {
    /// The id in a whole line.
    pub(crate) fn of(line: &[u8]) -> Option<Value> {
        let mut scan = Self::default();
        scan.feed(line);
        scan.found()
    }

    /// Scans more bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    /// The id, if one was found so far.
    pub(crate) fn found(&self) -> Option<Value> {
        self.found.clone()
    }

    fn step(&mut self, byte: u8) {
        match (&self.string, byte) {
            (Within::Escape, _) => self.string = Within::String,
            (Within::String, b'\\') => {
                self.escaped = true;
                self.string = Within::Escape;
            }
            (Within::String, b'"') => self.string = Within::Nothing,
            (Within::String, _) => self.keep(byte),
            (Within::Nothing, _) => self.step_outside(byte),
        }
    }

    fn step_outside(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.string = Within::String;
                if self.depth == 1 {
                    self.last.clear();
                    self.quoted = true;
                    self.escaped = false;
                }
            }
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => {
                self.finish();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.reading = self.last == b"id";
                self.last.clear();
                self.quoted = false;
            }
            b',' => self.finish(),
            b'0'..=b'9' if self.reading => self.keep(byte),
            _ => {}
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.last.len() <= MAX_ID_BYTES {
            self.last.push(byte);
        }
    }

    fn value(&self) -> Option<Value> {
        let text = std::str::from_utf8(&self.last).ok().filter(|text| text.len() <= MAX_ID_BYTES)?;
        match self.quoted {
            true if self.escaped => None,
            true => Some(Value::String(text.to_owned())),
            false => text.parse::<u64>().ok().map(Value::from),
        }
    }

    fn finish(&mut self) {
        if self.depth == 1 && std::mem::take(&mut self.reading) {
            self.found = self.value();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<u64>) {
        assert_eq!(IdScan::of(line.as_bytes()), expected.map(Value::from), "{line}");
    }

    #[test]
    fn an_id_in_quotes_stays_a_text() {
        assert_eq!(IdScan::of(br#"{"id":"17","method":"x"}"#), Some(Value::from("17")));
        assert_eq!(IdScan::of(br#"{"id":"0b4e7a0c-95d1","method":"x"}"#), Some(Value::from("0b4e7a0c-95d1")));
        assert_eq!(IdScan::of(br#"{"id":"a\nb","method":"x"}"#), None);
    }

    #[test]
    fn the_id_is_found_first_or_last() {
        check(r#"{"jsonrpc":"2.0","id":17,"result":{}}"#, Some(17));
        check(r#"{"result":{"a":[1,{"b":"}"}]},"jsonrpc":"2.0","id": 17 }"#, Some(17));
    }

    #[test]
    fn a_nested_id_is_not_the_messages() {
        check(r#"{"result":{"id":3},"id":4}"#, Some(4));
        check(r#"{"result":{"id":3}}"#, None);
        check(r#"[{"id":3}]"#, None);
    }

    #[test]
    fn a_string_that_looks_like_an_id_is_text() {
        check(r#"{"note":"\"id\":3,","id":5}"#, Some(5));
        check(r#"{"a":"id","b":3}"#, None);
    }

    #[test]
    fn an_id_that_is_neither_a_string_nor_a_u64_is_none() {
        check(r#"{"id":null,"result":1}"#, None);
        check(r#"{"id":99999999999999999999999999,"result":1}"#, None);
    }

    #[test]
    fn text_that_ends_early_gives_what_it_had() {
        check(r#"{"id":7,"result":{"broken"#, Some(7));
        check("not json", None);
    }

    proptest::proptest! {
        #[test]
        fn pieces_do_not_matter(id in 0u64.., text in ".*", cut in 0usize..64) {
            let line = serde_json::json!({ "result": { "id": 1, "text": text }, "id": id }).to_string();
            let cut = cut.min(line.len());
            let mut scan = IdScan::default();
            scan.feed(&line.as_bytes()[..cut]);
            scan.feed(&line.as_bytes()[cut..]);
            proptest::prop_assert_eq!(scan.found(), Some(Value::from(id)));
        }
    }
}
