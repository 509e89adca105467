//! Finds one scalar member of a top-level object in text that arrives in pieces, in constant memory.
//!
//! For text that is not kept because it is too long, or that is not valid JSON. Tracks nesting and strings only; does not
//! validate, and does not decode escapes.

use memchr::memchr2;

/// The longest scalar that is found, in bytes; decimal numbers and UUIDs are shorter.
const MAX_SCALAR_BYTES: usize = 64;

/// An incremental scan for the member of one name.
#[derive(Debug)]
pub struct MemberScan {
    name: &'static str,
    depth: u32,
    within: Within,
    /// The last key or value at the top level without its quotes, cut off past the longest scalar.
    last: Vec<u8>,
    quoted: bool,
    escaped: bool,
    /// Whether the value of the member is being read.
    reading: bool,
    found: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Within {
    Nothing,
    String,
    Escape,
}

impl MemberScan {
    /// A scan for the member of this name.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            depth: 0,
            within: Within::Nothing,
            last: Vec::new(),
            quoted: false,
            escaped: false,
            reading: false,
            found: None,
        }
    }

    /// The member of this name in a text that is whole.
    pub fn of(name: &'static str, text: &[u8]) -> Option<String> {
        let mut scan = Self::new(name);
        scan.feed(text);
        scan.found
    }

    /// The member as it was written, a string with its quotes; none before it was complete, if it is a container, has
    /// escapes or is too long.
    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }

    /// Scans more bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            bytes = match self.within {
                Within::Escape => {
                    self.within = Within::String;
                    rest
                }
                Within::String => self.feed_string(bytes),
                Within::Nothing => {
                    self.step(*first);
                    rest
                }
            };
        }
    }

    /// Skips to the end of a string or its next escape; returns what is left.
    fn feed_string<'t>(&mut self, bytes: &'t [u8]) -> &'t [u8] {
        let end = memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
        self.keep(bytes.get(..end).unwrap_or_default());
        match bytes.get(end) {
            Some(b'\\') => {
                self.escaped = true;
                self.within = Within::Escape;
            }
            Some(_) => self.within = Within::Nothing,
            None => {}
        }
        bytes.get(end + 1..).unwrap_or_default()
    }

    fn step(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.within = Within::String;
                if self.depth == 1 {
                    self.last.clear();
                    (self.quoted, self.escaped) = (true, false);
                }
            }
            b'{' | b'[' => {
                // A container is not a scalar.
                self.reading &= self.depth != 1;
                self.depth = self.depth.saturating_add(1);
            }
            b'}' | b']' => {
                self.finish();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.reading = !self.escaped && self.last == self.name.as_bytes();
                self.last.clear();
                self.quoted = false;
            }
            b',' => self.finish(),
            b' ' | b'\t' | b'\n' | b'\r' => {}
            byte => self.keep(&[byte]),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.depth == 1 {
            let room = (MAX_SCALAR_BYTES + 1).saturating_sub(self.last.len());
            self.last.extend(bytes.iter().take(room));
        }
    }

    fn finish(&mut self) {
        if self.depth == 1 && std::mem::take(&mut self.reading) {
            let text = std::str::from_utf8(&self.last).ok();
            let text = text.filter(|text| text.len() <= MAX_SCALAR_BYTES && !(self.quoted && self.escaped));
            self.found = text.map(|text| if self.quoted { format!("\"{text}\"") } else { text.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(MemberScan::of("id", text.as_bytes()).as_deref(), expected, "{text}");
    }

    #[test]
    fn a_scalar_is_found_as_it_was_written() {
        check(r#"{"id":"17","method":"x"}"#, Some("\"17\""));
        check(r#"{"id":"0b4e7a0c-95d1","method":"x"}"#, Some("\"0b4e7a0c-95d1\""));
        check(r#"{"id":-1.5e3,"method":"x"}"#, Some("-1.5e3"));
        check(r#"{"id":null}"#, Some("null"));
        check(r#"{"id":"a\nb","method":"x"}"#, None);
    }

    #[test]
    fn it_is_found_first_or_last() {
        check(r#"{"jsonrpc":"2.0","id":17,"result":{}}"#, Some("17"));
        check(r#"{"result":{"a":[1,{"b":"}"}]},"jsonrpc":"2.0","id": 17 }"#, Some("17"));
    }

    #[test]
    fn a_nested_member_is_not_the_one() {
        check(r#"{"result":{"id":3},"id":4}"#, Some("4"));
        check(r#"{"result":{"id":3}}"#, None);
        check(r#"[{"id":3}]"#, None);
        check(r#"{"id":{"a":1},"b":2}"#, None);
    }

    #[test]
    fn a_string_that_looks_like_a_member_is_text() {
        check(r#"{"note":"\"id\":3,","id":5}"#, Some("5"));
        check(r#"{"a":"id","b":3}"#, None);
    }

    #[test]
    fn text_that_ends_early_gives_what_it_had() {
        check(r#"{"id":7,"result":{"broken"#, Some("7"));
        check("not json", None);
        check(&format!(r#"{{"id":"{}"}}"#, "x".repeat(MAX_SCALAR_BYTES + 1)), None);
    }

    proptest::proptest! {
        #[test]
        fn pieces_do_not_matter(id in 0u64.., text in ".*", cut in 0usize..64) {
            let line = serde_json::json!({ "result": { "id": 1, "text": text }, "id": id }).to_string();
            let cut = cut.min(line.len());
            let mut scan = MemberScan::new("id");
            scan.feed(&line.as_bytes()[..cut]);
            scan.feed(&line.as_bytes()[cut..]);
            proptest::prop_assert_eq!(scan.found().map(str::to_owned), Some(id.to_string()));
        }
    }
}
