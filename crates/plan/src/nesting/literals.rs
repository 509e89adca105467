//! Scans tokens whose content is not code: comments, strings, templates, numbers, regular expressions; and words.

use super::{Before, Bracket, Excess, Scanner, words::Word};
use oxc::syntax::identifier::{is_identifier_part_unicode, is_identifier_start_unicode};

impl Scanner<'_> {
    pub(super) fn line_comment(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.find(['\n', '\r', '\u{2028}', '\u{2029}']).unwrap_or(rest.len());
        self.at += end;
    }

    pub(super) fn block_comment(&mut self) {
        let rest = self.text.get(self.at + 2..).unwrap_or_default();
        match rest.find("*/") {
            Some(end) => {
                self.newline |= rest.get(..end).is_some_and(|c| c.contains(['\n', '\r', '\u{2028}', '\u{2029}']));
                self.at += end + 4;
            }
            None => {
                self.regular = false;
                self.at = self.text.len();
            }
        }
    }

    pub(super) fn string(&mut self, quote: u8) {
        self.at += 1;
        loop {
            match self.peek(0) {
                0 if self.at >= self.text.len() => break self.regular = false,
                b'\\' if self.peek(1) == b'\r' && self.peek(2) == b'\n' => self.at += 3,
                b'\\' => self.at += 2,
                b'\n' | b'\r' => break self.regular = false,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        break;
                    }
                }
            }
        }
        self.operand();
    }

    /// Skips the text of a template literal, to its end or to the next `${`.
    pub(super) fn template(&mut self) -> Result<(), Excess> {
        loop {
            match self.peek(0) {
                0 if self.at >= self.text.len() => {
                    self.regular = false;
                    return Ok(());
                }
                b'\\' => self.at += 2,
                b'`' => {
                    self.at += 1;
                    self.operand();
                    return Ok(());
                }
                b'$' if self.peek(1) == b'{' => {
                    self.at += 2;
                    self.push(Bracket::Hole)?;
                    self.operator();
                    return Ok(());
                }
                _ => self.at += 1,
            }
        }
    }

    pub(super) fn number(&mut self) {
        while matches!(self.peek(0), b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'.') {
            let exponent = matches!(self.peek(0), b'e' | b'E');
            self.at += 1;
            if exponent && matches!(self.peek(0), b'+' | b'-') && self.peek(1).is_ascii_digit() {
                // In `0xe+1` this takes an operator for a sign, which does not change the nesting.
                self.at += 1;
            }
        }
        self.statement_may_start("");
        self.operand();
    }

    /// A division or a regular expression.
    pub(super) fn slash(&mut self) -> Result<(), Excess> {
        let end = self.regex_end();
        match (self.before, end) {
            (Before::Operator, Some(end)) => {
                self.at = end;
                self.operand();
                return Ok(());
            }
            (Before::Operator, None) | (Before::Unknown, Some(_)) => self.regular = false,
            (Before::Operand, _) | (Before::Unknown, None) => {}
        }
        self.at += 1;
        self.chain()?;
        self.operator();
        Ok(())
    }

    /// The end of a regular expression that would start here, without its flags, which are scanned as a word.
    pub(super) fn regex_end(&self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = self.at + 1;
        let mut class = false;
        loop {
            match bytes.get(at)? {
                b'\n' | b'\r' => return None,
                0xe2 if matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) => return None,
                b'\\' if !matches!(bytes.get(at + 1), Some(b'\n' | b'\r' | 0x80..)) => at += 1,
                b'[' => class = true,
                b']' => class = false,
                b'/' if !class => return Some(at + 1),
                _ => {}
            }
            at += 1;
        }
    }

    pub(super) fn unicode(&mut self) -> Result<(), Excess> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let Some(first) = rest.chars().next() else {
            self.regular = false;
            self.at += 1;
            return Ok(());
        };
        match first {
            '\u{2028}' | '\u{2029}' => self.line_break(first.len_utf8()),
            _ if is_identifier_start_unicode(first) => return self.word(),
            _ => {
                // White space, or a character that no parser accepts.
                self.regular &= first.is_whitespace() || first == '\u{feff}';
                self.at += first.len_utf8();
            }
        }
        Ok(())
    }

    pub(super) fn word(&mut self) -> Result<(), Excess> {
        let start = self.at;
        self.skip_word();
        let word = self.text.get(start..self.at).unwrap_or_default();
        if self.after_dot {
            self.operand();
            return Ok(());
        }
        self.statement_may_start(word);
        let kind = Word::of(word);
        let for_await = word == "await" && self.header_word;
        if kind != Word::Name {
            self.chain()?;
            self.forget_angles();
        }
        match kind {
            Word::Name | Word::Type => self.operand(),
            Word::Of => {
                self.operand();
                self.before = Before::Unknown;
            }
            Word::Prefix => self.operator(),
            Word::Header => {
                self.operator();
                self.header_word = true;
            }
        }
        self.header_word |= for_await;
        Ok(())
    }

    pub(super) fn skip_word(&mut self) {
        loop {
            match self.peek(0) {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$' | b'#' => self.at += 1,
                b'\\' => self.skip_escape(),
                0x80.. => match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
                    Some(c) if is_identifier_part_unicode(c) => self.at += c.len_utf8(),
                    _ => break,
                },
                _ => break,
            }
        }
    }

    /// `\u{…}` has brackets of its own; no other token starts with a backslash.
    pub(super) fn skip_escape(&mut self) {
        self.at += 1;
        if self.starts_with("u{") {
            let rest = self.text.get(self.at + 2..).unwrap_or_default();
            match rest.find(|c: char| !c.is_ascii_hexdigit()) {
                Some(end) if rest.as_bytes().get(end) == Some(&b'}') => self.at += end + 3,
                _ => self.regular = false,
            }
        } else if self.peek(0) != b'u' {
            self.regular = false;
        }
    }
}
