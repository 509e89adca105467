//! Is this text JSON?
//!
//! One strict pass (RFC 8259) with one bit of memory a nesting level. Unlike a
//! parser into Rust strings it accepts escaped lone surrogates, which JavaScript
//! may well return, and reports them instead.

use super::after_space;

/// What the pass noticed on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Some `\ud800`…`\udfff` escape has no partner.
    pub lone_surrogates: bool,
}

/// The facts about a text that is exactly one JSON value, whitespace around it allowed.
pub fn check(text: &str) -> Option<Facts> {
    let bytes = text.as_bytes();
    let mut facts = Facts::default();
    let mut open = Nesting::default();
    let mut at = after_space(bytes, 0);
    loop {
        at = match bytes.get(at)? {
            b'{' => {
                at = after_space(bytes, at + 1);
                if bytes.get(at) != Some(&b'}') {
                    open.push(Container::Object);
                    at = name(bytes, at, &mut facts)?;
                    continue;
                }
                at + 1
            }
            b'[' => {
                at = after_space(bytes, at + 1);
                if bytes.get(at) != Some(&b']') {
                    open.push(Container::Array);
                    continue;
                }
                at + 1
            }
            b'"' => string(bytes, at, &mut facts)?,
            b't' => word(bytes, at, b"true")?,
            b'f' => word(bytes, at, b"false")?,
            b'n' => word(bytes, at, b"null")?,
            _ => number(bytes, at)?,
        };
        // A value is complete; close what it was the last of.
        loop {
            at = after_space(bytes, at);
            match (open.top(), bytes.get(at)) {
                (None, None) => return Some(facts),
                (Some(Container::Object), Some(b'}')) | (Some(Container::Array), Some(b']')) => open.pop(),
                (Some(Container::Object), Some(b',')) => {
                    at = name(bytes, after_space(bytes, at + 1), &mut facts)?;
                    break;
                }
                (Some(Container::Array), Some(b',')) => {
                    at = after_space(bytes, at + 1);
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

/// The open containers, a bit each, so that a megabyte of `[` costs an eighth of itself.
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

/// A member's name and its colon; answers the place of the value.
fn name(bytes: &[u8], at: usize, facts: &mut Facts) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let colon = after_space(bytes, string(bytes, at, facts)?);
    (bytes.get(colon) == Some(&b':')).then(|| after_space(bytes, colon + 1))
}

fn string(bytes: &[u8], at: usize, facts: &mut Facts) -> Option<usize> {
    let mut at = at + 1;
    // A high surrogate that waits for its partner ended here.
    let mut high_until = None;
    loop {
        match bytes.get(at)? {
            b'"' => {
                facts.lone_surrogates |= high_until.is_some();
                return Some(at + 1);
            }
            0..0x20 => return None,
            b'\\' => {
                let pending = high_until.take();
                let unit = match bytes.get(at + 1)? {
                    b'u' => Some(hex4(bytes, at + 2)?),
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => None,
                    _ => return None,
                };
                let begun = at;
                at += if unit.is_some() { 6 } else { 2 };
                let paired = pending == Some(begun);
                match unit {
                    Some(0xDC00..0xE000) => facts.lone_surrogates |= !paired,
                    other => {
                        facts.lone_surrogates |= pending.is_some();
                        if matches!(other, Some(0xD800..0xDC00)) {
                            high_until = Some(at);
                        }
                    }
                }
            }
            _ => {
                facts.lone_surrogates |= high_until.take().is_some();
                at += 1;
            }
        }
    }
}

/// The four hexadecimal digits at `at`.
pub(super) fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
}

fn word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    bytes.get(at..)?.starts_with(word).then_some(at + word.len())
}

fn number(bytes: &[u8], mut at: usize) -> Option<usize> {
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match bytes.get(at)? {
        b'0' => at + 1,
        b'1'..=b'9' => digits(bytes, at)?,
        _ => return None,
    };
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits(bytes, at)?;
    }
    Some(at)
}

/// At least one digit.
fn digits(bytes: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while bytes.get(end).is_some_and(u8::is_ascii_digit) {
        end += 1;
    }
    (end > at).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lone(json: &str, expected: bool) {
        assert_eq!(check(json), Some(Facts { lone_surrogates: expected }), "{json}");
    }

    #[test]
    fn surrogates_without_a_partner_are_noticed() {
        lone(r#""\ud83d\ude00""#, false);
        lone(r#""\u00e9\\ud800""#, false);
        lone(r#""\ud800""#, true);
        lone(r#""\udc00""#, true);
        lone(r#""\ud800x\udc00""#, true);
        lone(r#""\ud800\n\udc00""#, true);
        lone(r#"{"\ud800\ud83d\ude00":1}"#, true);
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(check(&deep), None);
        assert_eq!(check(&(deep + &"]".repeat(1_000_000))), Some(Facts::default()));
    }

    proptest! {
        /// Near-JSON from a small alphabet: the judgement is serde_json's.
        #[test]
        fn the_judgement_is_that_of_a_known_parser(text in r#"([\[\]{},:" 0-9eE+.\\-]|"a"|true|null|\\n){0,12}"#) {
            prop_assert_eq!(check(&text).is_some(), serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok());
        }
    }
}
