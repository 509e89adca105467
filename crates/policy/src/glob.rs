//! Patterns over names: `*` is any text, `?` one character, everything else itself.
//!
//! Matching allocates nothing and goes back only to the last `*`, so no pattern is slow. How specific a pattern is decides
//! between rules.

use std::fmt;

/// A pattern over whole names.
#[derive(Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    is_exact: bool,
    literals: usize,
}

impl Glob {
    /// Reads a pattern; every text is one.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let is_exact = !text.contains(['*', '?']);
        let literals = text.chars().filter(|letter| !matches!(letter, '*' | '?')).count();
        Glob { text, is_exact, literals }
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a name fits.
    pub fn matches(&self, name: &str) -> bool {
        if self.is_exact {
            return self.text == name;
        }
        let (pattern, name) = (self.text.as_bytes(), name.as_bytes());
        let (mut at, mut pos, mut retry) = (0, 0, None);
        while let Some(letter) = name.get(pos) {
            match pattern.get(at) {
                Some(b'*') => {
                    retry = Some((at + 1, pos));
                    at += 1;
                }
                Some(b'?') => (at, pos) = (at + 1, pos + character(*letter)),
                Some(wanted) if wanted == letter => (at, pos) = (at + 1, pos + 1),
                Some(_) | None => match retry {
                    Some((after, from)) => {
                        (at, pos) = (after, from + 1);
                        retry = Some((after, from + 1));
                    }
                    None => return false,
                },
            }
        }
        pattern.get(at..).unwrap_or_default().iter().all(|piece| *piece == b'*')
    }

    /// Whether it names one thing only, then how many characters it spells out: the larger, the more specific.
    pub fn specificity(&self) -> (bool, usize) {
        (self.is_exact, self.literals)
    }
}

/// Bytes of the character that begins with this byte.
fn character(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xFF => 4,
        _ => 1,
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Glob({})", self.text)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(pattern: &str, name: &str, expected: bool) {
        assert_eq!(Glob::new(pattern).matches(name), expected, "{pattern} {name}");
    }

    #[test]
    fn a_pattern_covers_whole_names() {
        check("bank.pay", "bank.pay", true);
        check("bank.pay", "bank.pays", false);
        check("bank.*", "bank.pay", true);
        check("bank.*", "banks.pay", false);
        check("*.delete_*", "github.delete_repo", true);
        check("*", "", true);
        check("?", "", false);
        check("?é?", "aéü", true);
        check("*b*b", "abab", true);
        check("*b*c", "abab", false);
    }

    #[test]
    fn an_exact_name_is_the_most_specific() {
        let of = |text: &str| Glob::new(text).specificity();
        assert!(of("bank.pay") > of("bank.pa*") && of("bank.pa*") > of("bank.*") && of("bank.*") > of("*"));
    }

    proptest! {
        #[test]
        fn it_matches_what_the_pattern_of_access_matches(pattern in "[ab*?é.]{0,8}", name in "[abé.]{0,8}") {
            prop_assert_eq!(Glob::new(pattern.as_str()).matches(&name), toolgate_wire::Pattern::new(&pattern).matches(&name));
        }
    }
}
