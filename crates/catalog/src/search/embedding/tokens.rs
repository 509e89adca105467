//! Cuts a text into tokens of the vocabulary, by the rules of the model's README.

use super::TextKind;
use super::vocabulary::Vocabulary;

/// Maximum number of tokens of a text.
const MAX_TOKENS: usize = 64;
/// Maximum length of a word; what follows is left out.
const MAX_WORD: usize = 48;
/// Maximum number of characters that are read of a text: a text of separators alone has no token to stop at.
const MAX_CHARS: usize = 4_096;

/// The tokens of the texts read so far.
pub(super) struct Tokens<'v> {
    vocabulary: &'v Vocabulary,
    kind: TextKind,
    found: Vec<u32>,
}

impl<'v> Tokens<'v> {
    pub(super) fn new(vocabulary: &'v Vocabulary, kind: TextKind) -> Self {
        Self { vocabulary, kind, found: Vec::with_capacity(MAX_TOKENS) }
    }

    /// The ids of the first tokens.
    pub(super) fn found(&self) -> &[u32] {
        self.found.get(..MAX_TOKENS).unwrap_or(&self.found)
    }

    /// Reads the words of `text`: runs of ASCII letters and digits, accents taken off.
    pub(super) fn read(&mut self, text: &str) {
        let mut word: Vec<u8> = Vec::with_capacity(MAX_WORD);
        for c in text.chars().take(MAX_CHARS) {
            match u8::try_from(without_accent(c)) {
                Ok(byte) if byte.is_ascii_alphanumeric() => {
                    if word.len() < MAX_WORD {
                        word.push(byte);
                    }
                    continue;
                }
                _ => self.read_word(&word),
            }
            word.clear();
            if self.found.len() >= MAX_TOKENS {
                return;
            }
        }
        self.read_word(&word);
    }

    fn read_word(&mut self, word: &[u8]) {
        if word.is_empty() {
            return;
        }
        if self.kind == TextKind::Prose
            && let Some(token) = self.vocabulary.word(&lowered(word))
        {
            self.found.push(token);
            return;
        }
        let mut start = 0;
        for end in (1..word.len()).filter(|&at| is_hump(word, at)).chain([word.len()]) {
            self.read_part(word.get(start..end).unwrap_or_default());
            start = end;
        }
    }

    /// The longest pieces from the left. Every character is a piece, so the loop ends.
    fn read_part(&mut self, part: &[u8]) {
        let part = lowered(part);
        let mut rest = part.as_slice();
        while let Some((token, length)) = self.vocabulary.longest(rest, rest.len() < part.len()) {
            self.found.push(token);
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

/// `createHTTPRoute` has humps at `H` and `R`.
fn is_hump(word: &[u8], at: usize) -> bool {
    let is = |at: Option<usize>, test: fn(&u8) -> bool| at.and_then(|at| word.get(at)).is_some_and(test);
    let (before, after) = (at.checked_sub(1), at.checked_add(1));
    is(Some(at), u8::is_ascii_uppercase) && (!is(before, u8::is_ascii_uppercase) || is(after, u8::is_ascii_lowercase))
}

/// In lower case; digits alone are the number 0.
fn lowered(word: &[u8]) -> Vec<u8> {
    if word.iter().all(u8::is_ascii_digit) { vec![b'0'] } else { word.to_ascii_lowercase() }
}

/// The letter under a Latin-1 accent; other characters stay.
fn without_accent(c: char) -> char {
    match c {
        'À'..='Å' => 'A',
        'Ç' => 'C',
        'È'..='Ë' => 'E',
        'Ì'..='Ï' => 'I',
        'Ñ' => 'N',
        'Ò'..='Ö' | 'Ø' => 'O',
        'Ù'..='Ü' => 'U',
        'Ý' => 'Y',
        'à'..='å' => 'a',
        'ç' => 'c',
        'è'..='ë' => 'e',
        'ì'..='ï' => 'i',
        'ñ' => 'n',
        'ò'..='ö' | 'ø' => 'o',
        'ù'..='ü' => 'u',
        'ý' | 'ÿ' => 'y',
        other => other,
    }
}
