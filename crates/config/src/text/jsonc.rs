//! Parses JSON with `//` and `/* */` comments and trailing commas.
//!
//! Produces spans and bounds its recursion. Accepts no other extension of JSON: no single quotes, no unquoted keys.

use serde_json::Number;

use super::Fault;
use super::tree::{Entry, MAX_DEPTH, MAX_NODES, Node, TOO_DEEP, TOO_MANY_VALUES, TextSpan, Value};

/// Parses exactly one value.
pub(crate) fn parse(text: &str) -> Result<Node, Fault> {
    let mut reader = Reader { text, at: 0, nodes: 0 };
    reader.at = skip_trivia(text, reader.at)?;
    if reader.peek().is_none() {
        return Err(Fault::new(0, "the file is empty; write {} for an empty configuration"));
    }
    let node = reader.value(0)?;
    reader.at = skip_trivia(text, reader.at)?;
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(Fault::new(reader.at, "unexpected text after the end of the JSON value")),
    }
}

/// The offset of the first byte at or after `at` that is neither white space nor part of a comment.
pub(crate) fn skip_trivia(text: &str, mut at: usize) -> Result<usize, Fault> {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        if let Some(comment) = rest.strip_prefix("//") {
            at += 2 + comment.find(['\n', '\r']).unwrap_or(comment.len());
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or_else(|| Fault::new(at, "unterminated comment: missing */"))?;
            at += 2 + end + 2;
        } else if rest.starts_with([' ', '\t', '\n', '\r']) {
            at += 1;
        } else {
            return Ok(at);
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    nodes: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fault<T>(&self, message: &str) -> Result<T, Fault> {
        Err(Fault::new(self.at, message))
    }

    fn skip(&mut self) -> Result<(), Fault> {
        self.at = skip_trivia(self.text, self.at)?;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Node, Fault> {
        self.nodes += 1;
        if depth > MAX_DEPTH {
            return self.fault(TOO_DEEP);
        }
        if self.nodes > MAX_NODES {
            return self.fault(TOO_MANY_VALUES);
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => Value::Map(self.map(depth)?),
            Some(b'[') => Value::List(self.list(depth)?),
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?),
            _ => self.word()?,
        };
        Ok(Node { value, span: TextSpan::new(start, self.at) })
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Fault> {
        let open = self.at;
        let mut entries = Vec::new();
        self.at += 1;
        loop {
            self.skip()?;
            match self.peek() {
                Some(b'}') => break,
                Some(b'"') => entries.push(self.entry(depth)?),
                None => return Err(Fault::new(open, "unterminated object: missing }")),
                Some(_) => return self.fault("expected a key in double quotes, or }"),
            }
            self.skip()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                None => return Err(Fault::new(open, "unterminated object: missing }")),
                Some(_) => return self.fault("expected a comma or }"),
            }
        }
        self.at += 1;
        Ok(entries)
    }

    fn entry(&mut self, depth: usize) -> Result<Entry, Fault> {
        let start = self.at;
        let key = self.string()?;
        let key_span = TextSpan::new(start, self.at);
        self.skip()?;
        if self.peek() != Some(b':') {
            return self.fault("expected a colon after the key");
        }
        self.at += 1;
        self.skip()?;
        let node = self.value(depth + 1)?;
        Ok(Entry { key, key_span, node })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Fault> {
        let open = self.at;
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.skip()?;
            match self.peek() {
                Some(b']') => break,
                None => return Err(Fault::new(open, "unterminated list: missing ]")),
                Some(_) => items.push(self.value(depth + 1)?),
            }
            self.skip()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                None => return Err(Fault::new(open, "unterminated list: missing ]")),
                Some(_) => return self.fault("expected a comma or ]"),
            }
        }
        self.at += 1;
        Ok(items)
    }

    /// Finds the closing quote; serde_json decodes the escapes, including surrogate pairs.
    fn string(&mut self) -> Result<String, Fault> {
        let open = self.at;
        let mut end = open + 1;
        loop {
            match self.text.as_bytes().get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(b'\n' | b'\r') | None => return Err(Fault::new(open, "unterminated string: missing \"")),
                Some(_) => end += 1,
            }
        }
        let literal = self.text.get(open..=end).unwrap_or_default();
        let text = serde_json::from_str(literal).map_err(|error| {
            let inside = error.column().saturating_sub(1).min(literal.len());
            Fault::new(open + inside, "invalid escape sequence or control character in a string")
        })?;
        self.at = end + 1;
        Ok(text)
    }

    fn number(&mut self) -> Result<Number, Fault> {
        let length = self.rest().find(|c: char| !matches!(c, '-' | '+' | '.' | '0'..='9' | 'a'..='z' | 'A'..='Z'));
        let length = length.unwrap_or(self.rest().len());
        let literal = self.rest().get(..length).unwrap_or_default();
        let number = serde_json::from_str(literal).or_else(|_| self.fault("invalid number"))?;
        self.at += length;
        Ok(number)
    }

    fn word(&mut self) -> Result<Value, Fault> {
        let length = self.rest().find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest().len());
        let value = match self.rest().get(..length) {
            Some("true") => Value::Bool(true),
            Some("false") => Value::Bool(false),
            Some("null") => Value::Null,
            _ => {
                return self.fault(
                    "expected a value: an object, a list, a string in double quotes, a number, true, false or null",
                );
            }
        };
        self.at += length;
        Ok(value)
    }
}
