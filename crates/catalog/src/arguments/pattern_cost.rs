//! How much work a regular expression may be, read off its text.
//!
//! The engine simulates an automaton: at worst it looks at every state for every byte. A counted repetition is written
//! out, so `a{500}` has 500 states. An expression that looks around or refers back is matched by backtracking instead, up
//! to a limit, and each way back may begin such a simulation.
//!
//! The estimate is for expressions that compile; it is no parser of them, and errs upwards.

use super::{MAX_BACKTRACKS, MAX_PATTERN_SIZE};

/// States that are looked at in one step of the validator.
const STATES_OF_A_STEP: u64 = 4;
/// The same of an expression that backtracks. Few ways back lead through the whole text.
const BACKTRACKED_STATES_OF_A_STEP: u64 = 256;
/// What an expression takes besides its states.
const PATTERN_BYTES: u64 = 4 << 10;
const STATE_BYTES: u64 = 64;

/// What one match may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternCost {
    states: u64,
    bytes: u64,
    may_backtrack: bool,
}

impl PatternCost {
    pub(super) fn of(pattern: &str) -> Self {
        let kept = states(pattern, UNICODE_CLASS_STATES).saturating_mul(STATE_BYTES).min(MAX_PATTERN_SIZE as u64);
        PatternCost {
            states: states(pattern, CLASS_STATES),
            bytes: PATTERN_BYTES + 2 * kept,
            may_backtrack: may_backtrack(pattern),
        }
    }

    /// Whether a match may end without an outcome.
    pub(super) fn may_backtrack(self) -> bool {
        self.may_backtrack
    }

    /// Bytes that it may take compiled: its automaton, and what a match remembers of it.
    pub(super) fn bytes(self) -> u64 {
        self.bytes
    }

    /// Steps of a match on a text of this length.
    pub(super) fn steps(self, bytes: usize) -> u64 {
        let looked_at = self.states.saturating_mul(bytes as u64 + 1);
        if self.may_backtrack {
            1 + looked_at.saturating_mul(MAX_BACKTRACKS as u64) / BACKTRACKED_STATES_OF_A_STEP
        } else {
            1 + looked_at / STATES_OF_A_STEP
        }
    }
}

/// Whether the expression may look around, refer back or be possessive: what the automaton can't do.
fn may_backtrack(pattern: &str) -> bool {
    let bytes = pattern.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        let found = match byte {
            b'\\' => next.is_ascii_digit() && next != b'0' || matches!(next, b'k' | b'g' | b'G' | b'K' | b'Z'),
            b'(' if next == b'?' => {
                matches!(bytes.get(at + 2), Some(b'=' | b'!' | b'<' | b'>' | b'(' | b'#' | b'&' | b'R' | b'|' | b'~'))
            }
            b'*' | b'+' | b'?' | b'}' => next == b'+',
            _ => false,
        };
        if found {
            return true;
        }
        at += if byte == b'\\' { 2 } else { 1 };
    }
    false
}

/// States of the automaton; a Unicode class such as `\p{L}` counts as `unicode_class` states.
fn states(pattern: &str, unicode_class: u64) -> u64 {
    let mut characters = pattern.chars().peekable();
    let mut group = Part::default();
    let mut around = Vec::new();
    while let Some(character) = characters.next() {
        match character {
            '(' => around.push(std::mem::take(&mut group)),
            ')' => {
                let closed = std::mem::replace(&mut group, around.pop().unwrap_or_default());
                group.add(closed.all.saturating_add(1));
            }
            '[' => group.add(class(&mut characters, unicode_class)),
            '\\' => group.add(escaped(characters.next(), unicode_class)),
            '.' => group.add(CLASS_STATES),
            '{' => {
                let text: String = std::iter::from_fn(|| characters.next_if(|next| *next != '}')).collect();
                let most = text.split(',').filter_map(|number| number.trim().parse::<u64>().ok()).max();
                match most {
                    Some(times) => group.repeat(times),
                    None => group.add(text.len() as u64),
                }
            }
            '}' => {}
            '*' | '+' | '?' => group.extend(1),
            _ => group.add(1),
        }
    }
    // An expression with an open group does not compile.
    around.iter().fold(group.all.saturating_add(1), |sum, group| sum.saturating_add(group.all))
}

/// States of a class that one match goes through: one for each byte of a character.
const CLASS_STATES: u64 = 4;
/// States for each character that a class lists.
const LISTED_STATES: u64 = 3;
/// States that a class of Unicode such as `\p{L}` has.
const UNICODE_CLASS_STATES: u64 = 1 << 10;

/// The states of a group, and those of its last part, which a repetition is about.
#[derive(Default)]
struct Part {
    all: u64,
    last: u64,
}

impl Part {
    fn add(&mut self, states: u64) {
        self.all = self.all.saturating_add(states);
        self.last = states;
    }

    /// More states of the last part: one that is repeated without a bound, or optional, may be repeated again.
    fn extend(&mut self, states: u64) {
        self.all = self.all.saturating_add(states);
        self.last = self.last.saturating_add(states);
    }

    fn repeat(&mut self, times: u64) {
        let repeated = self.last.saturating_mul(times.max(1));
        self.all = (self.all - self.last).saturating_add(repeated);
        self.last = repeated;
    }
}

fn escaped(next: Option<char>, unicode_class: u64) -> u64 {
    match next {
        Some('p' | 'P') => unicode_class,
        Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'u' | 'x') => CLASS_STATES,
        _ => 1,
    }
}

/// Reads a class to its end; classes nest.
fn class(characters: &mut std::iter::Peekable<std::str::Chars<'_>>, unicode_class: u64) -> u64 {
    let mut states = CLASS_STATES;
    let mut listed = 0;
    let mut depth = 1;
    let mut is_first = true;
    while depth > 0 {
        match characters.next() {
            Some('\\') => {
                states = states.max(escaped(characters.next(), unicode_class));
                listed += 1;
            }
            Some('[') => depth += 1,
            // `[]a]` and `[^]a]`: the first one is a character.
            Some(']') if !is_first => depth -= 1,
            Some('^') if is_first => continue,
            Some(_) => listed += 1,
            None => break,
        }
        is_first = false;
    }
    states.max((CLASS_STATES + LISTED_STATES * listed).min(unicode_class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, states: u64, may_backtrack: bool) {
        let cost = PatternCost::of(pattern);
        assert_eq!((cost.states, cost.may_backtrack), (states, may_backtrack), "{pattern}");
    }

    #[test]
    fn repetitions_are_written_out() {
        check("abc", 4, false);
        check("a{500}", 501, false);
        check("a{100}?{200}", 1 + 101 * 200, false);
        check("(ab){2,10}", 31, false);
        check("((a{10}){10}){10}", 1_111, false);
        check("[ab]*a[ab]{500}c", 1 + 4 + 1 + 1 + 2_000 + 1, false);
        check(r"\w{3}\.", 14, false);
        check("x{", 2, false);
        check("a{2", 3, false);
    }

    #[test]
    fn what_looks_around_or_refers_back_backtracks() {
        for pattern in ["(?=a)b", "(?!a)", "(?<=a)b", "(?<!a)b", r"(a)\1", r"(?<n>a)\k<n>", "(?>a)", "a++", "a{2}+"] {
            assert!(PatternCost::of(pattern).may_backtrack(), "{pattern}");
        }
        for pattern in ["(?:a|b)+", "(?i)a", r"\\1", r"\d+", "^[a-z+]+$", "a+b+"] {
            assert!(!PatternCost::of(pattern).may_backtrack(), "{pattern}");
        }
    }

    #[test]
    fn the_cost_of_a_huge_repetition_does_not_overflow() {
        let pattern = format!("{}a{}", "(".repeat(50), "{999999999})".repeat(50));
        assert_eq!(PatternCost::of(&pattern).steps(usize::MAX - 1), 1 + u64::MAX / STATES_OF_A_STEP);
    }
}
