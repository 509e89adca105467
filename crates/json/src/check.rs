//! Validates JSON text (RFC 8259) in one pass, with one bit of memory per nesting level.
//!
//! Unlike a parser into Rust strings it accepts escaped lone surrogates, which JavaScript may return, and reports them.
//! Nesting is not limited.

use super::scan::{self, skip_number, skip_space, skip_word};
use super::unescape::escape;

/// Properties of a valid JSON text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextFacts {
    /// An escape `\ud800`…`\udfff` is not part of a surrogate pair.
    pub lone_surrogates: bool,
    /// How many containers are inside each other where most are; 0 for a text without one.
    pub depth: usize,
}

/// Validates a text that must be one JSON value with optional white space around it; `None` if it is not.
pub fn check(text: &str) -> Option<TextFacts> {
    let bytes = text.as_bytes();
    let mut facts = TextFacts::default();
    let mut open = Nesting::default();
    let mut at = skip_space(bytes, 0);
    loop {
        at = match bytes.get(at)? {
            b'{' => {
                at = skip_space(bytes, at + 1);
                facts.depth = facts.depth.max(open.depth + 1);
                if bytes.get(at) != Some(&b'}') {
                    open.push(Container::Object);
                    at = name(bytes, at, &mut facts)?;
                    continue;
                }
                at + 1
            }
            b'[' => {
                at = skip_space(bytes, at + 1);
                facts.depth = facts.depth.max(open.depth + 1);
                if bytes.get(at) != Some(&b']') {
                    open.push(Container::Array);
                    continue;
                }
                at + 1
            }
            b'"' => string(bytes, at, &mut facts)?,
            b't' => skip_word(bytes, at, b"true").ok()?,
            b'f' => skip_word(bytes, at, b"false").ok()?,
            b'n' => skip_word(bytes, at, b"null").ok()?,
            _ => skip_number(bytes, at).ok()?,
        };
        // A value is complete: close the containers that it ends.
        loop {
            at = skip_space(bytes, at);
            match (open.top(), bytes.get(at)) {
                (None, None) => return Some(facts),
                (Some(Container::Object), Some(b'}')) | (Some(Container::Array), Some(b']')) => open.pop(),
                (Some(Container::Object), Some(b',')) => {
                    at = name(bytes, skip_space(bytes, at + 1), &mut facts)?;
                    break;
                }
                (Some(Container::Array), Some(b',')) => {
                    at = skip_space(bytes, at + 1);
                    break;
                }
                _ => return None,
            }
            at += 1;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

/// The open containers, one bit each, so that a megabyte of `[` needs 128 KB.
#[derive(Default)]
struct Nesting {
    words: Vec<u64>,
    depth: usize,
}

impl Nesting {
    fn push(&mut self, container: Container) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.words.len() {
            self.words.push(0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word = (*word & !(1 << bit)) | (u64::from(container == Container::Object) << bit);
        }
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn top(&self) -> Option<Container> {
        let last = self.depth.checked_sub(1)?;
        let word = self.words.get(last / 64)?;
        Some(if word >> (last % 64) & 1 == 1 { Container::Object } else { Container::Array })
    }
}

/// Skips a member's name and colon; returns the offset of the value.
fn name(bytes: &[u8], at: usize, facts: &mut TextFacts) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let colon = skip_space(bytes, string(bytes, at, facts)?);
    (bytes.get(colon) == Some(&b':')).then(|| skip_space(bytes, colon + 1))
}

fn string(bytes: &[u8], at: usize, facts: &mut TextFacts) -> Option<usize> {
    let (end, escaped) = scan::skip_string(bytes, at).ok()?;
    if escaped && !facts.lone_surrogates {
        facts.lone_surrogates = has_lone_surrogate(bytes.get(at + 1..end - 1)?);
    }
    Some(end)
}

/// Whether the text between two quotes has a surrogate escape that is not part of a pair.
fn has_lone_surrogate(inside: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&byte) = inside.get(at) {
        if byte != b'\\' {
            at += 1;
            continue;
        }
        let (unit, after) = escape(inside, at);
        at = after;
        match unit {
            0xDC00..0xE000 => return true,
            0xD800..0xDC00 => {
                let (low, after) = escape(inside, at);
                if inside.get(at) != Some(&b'\\') || !(0xDC00..0xE000).contains(&low) {
                    return true;
                }
                at = after;
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lone(json: &str, expected: bool) {
        assert_eq!(check(json).map(|facts| facts.lone_surrogates), Some(expected), "{json}");
    }

    #[test]
    fn unpaired_surrogates_are_reported() {
        lone(r#""\ud83d\ude00""#, false);
        lone(r#""\u00e9\\ud800""#, false);
        lone(r#""\ud800""#, true);
        lone(r#""\udc00""#, true);
        lone(r#""\ud800x\udc00""#, true);
        lone(r#""\ud800\n\udc00""#, true);
        lone(r#"{"\ud800\ud83d\ude00":1}"#, true);
    }

    #[test]
    fn nesting_needs_no_stack() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(check(&deep), None);
        assert_eq!(check(&(deep + &"]".repeat(1_000_000))).map(|facts| facts.depth), Some(1_000_000));
    }

    #[test]
    fn the_depth_is_that_of_the_deepest_container() {
        for (json, depth) in [("1", 0), ("[]", 1), (r#"[1,{"a":[]},2]"#, 3), (r#"{"a":{},"b":[[1]]}"#, 3)] {
            assert_eq!(check(json).map(|facts| facts.depth), Some(depth), "{json}");
        }
    }

    proptest! {
        /// Near-JSON from a small alphabet.
        #[test]
        fn serde_json_accepts_the_same_texts(text in r#"([\[\]{},:" 0-9eE+.\\-]|"a"|true|null|\\n){0,12}"#) {
            prop_assert_eq!(check(&text).is_some(), serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok());
        }
    }
}
