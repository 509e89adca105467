//! Measures how deeply a text nests, before it is parsed.
//!
//! The parser and every visitor of its tree recurse, so a hostile text could overflow the stack, which Rust code cannot
//! catch. This scan reads the tokens of the text once and computes two numbers. The *estimate* of the nesting serves to
//! refuse code that is too deep, with a clear message. The *bound* on the stack holds even for a text that deceives the
//! estimate; `parse` uses it to choose a stack. The bound counts everything that could nest and never subtracts in case of
//! doubt.
//!
//! It also limits what makes the parser slow: at an open `<` it tries type arguments, which takes quadratic time in a row
//! and exponential time when nested.
//!
//! It is a lexer, not a checker: invalid code passes, and the parser refuses it with a better message.

mod literals;
mod words;

use words::{CONTINUING_WORDS, STATEMENT_WORDS};

/// Nesting of brackets that is accepted.
pub(crate) const MAX_BRACKETS: usize = 256;
/// Length of a chain of operators, prefixes, members or `else if` that is accepted.
pub(crate) const MAX_CHAIN: usize = 2_000;
/// Unclosed `<` in one expression that are accepted.
pub(crate) const MAX_ANGLES: usize = 100;
/// Nesting of brackets that each follow an unclosed `<`.
pub(crate) const MAX_ANGLE_BRACKETS: usize = 5;

/// Stack that one level of brackets may take in the parser or a visitor; at most 4.9 KB were measured, without
/// optimisation.
const BRACKET_COST: usize = 8 * 1024;
/// Stack that one operator may take; at most 1.4 KB were measured, without optimisation.
const CHAIN_COST: usize = 3 * 1024;

/// Why a text is refused before it is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// More than [`MAX_BRACKETS`] brackets are open.
    Brackets,
    /// More than [`MAX_CHAIN`] operators follow each other.
    Chain,
    /// Too many `<` that look like type arguments and never close.
    Angles,
    /// `<!--` or a line that starts with `-->`: interpreters and parsers disagree on whether it is a comment.
    HtmlComment,
    /// `@` in code. Decorators are not supported, and many of them take the parser quadratic time.
    Decorator,
}

/// What the scan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nesting {
    /// Bytes of stack that are enough for the parser and for visitors of its tree.
    pub(crate) stack: usize,
}

/// Whether an expression may end at the token before the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// An operand just ended: a slash divides.
    Operand,
    /// An operand must come: a slash starts a regular expression.
    Operator,
    /// Both are possible; only a parser can tell.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Program,
    Round,
    /// The round bracket of `if (…)`, `while (…)`, `for (…)`, `with (…)`: a statement follows, not an operator.
    Header,
    Square,
    Curly,
    /// `${…}` in a template literal.
    Hole,
}

struct Frame {
    bracket: Bracket,
    chain: usize,
    angles: usize,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    before: Before,
    /// The previous token was a keyword with a bracketed header, and not a property name.
    header_word: bool,
    after_dot: bool,
    newline: bool,
    frames: Vec<Frame>,
    chains: usize,
    angle_brackets: usize,
    deepest: usize,
    all_chains: usize,
    regular: bool,
}

/// Scans `text`; `Err` holds the byte offset at which a bound was exceeded.
pub(crate) fn scan(text: &str) -> Result<Nesting, (Excess, usize)> {
    let mut scanner = Scanner {
        text,
        at: 0,
        before: Before::Operator,
        header_word: false,
        after_dot: false,
        newline: true,
        frames: vec![Frame { bracket: Bracket::Program, chain: 0, angles: 0 }],
        chains: 0,
        angle_brackets: 0,
        deepest: 0,
        all_chains: 0,
        regular: true,
    };
    while scanner.at < text.len() {
        let start = scanner.at;
        scanner.step().map_err(|excess| (excess, start))?;
    }
    scanner.finish()
}

impl Scanner<'_> {
    fn finish(self) -> Result<Nesting, (Excess, usize)> {
        // A text with ambiguous tokens may hide brackets from the estimate, so every bracket in it counts.
        let (brackets, chains) = if self.regular {
            (self.deepest, self.all_chains)
        } else {
            let count = |of: &[u8]| self.text.bytes().filter(|byte| of.contains(byte)).count();
            (count(b"([{<"), self.text.split_ascii_whitespace().count() + count(b".+-*/%=!?:|&^~>,;)`'\""))
        };
        Ok(Nesting { stack: brackets.saturating_mul(BRACKET_COST).saturating_add(chains.saturating_mul(CHAIN_COST)) })
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn starts_with(&self, what: &str) -> bool {
        self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(what.as_bytes()))
    }

    fn step(&mut self) -> Result<(), Excess> {
        match self.peek(0) {
            b'\n' | b'\r' => self.line_break(1),
            b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
            b'/' if self.peek(1) == b'/' => self.line_comment(),
            b'/' if self.peek(1) == b'*' => self.block_comment(),
            b'#' if self.at == 0 && self.peek(1) == b'!' => self.line_comment(),
            b'/' => return self.slash(),
            quote @ (b'"' | b'\'') => self.string(quote),
            b'`' => {
                self.at += 1;
                self.chain()?;
                return self.template();
            }
            b'(' | b'[' | b'{' => return self.open(),
            b')' | b']' | b'}' => return self.close(),
            b'0'..=b'9' => self.number(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'\\' | b'#' => return self.word(),
            b'@' => return Err(Excess::Decorator),
            0x80.. => return self.unicode(),
            _ => return self.punctuation(),
        }
        Ok(())
    }

    fn line_break(&mut self, length: usize) {
        self.newline = true;
        self.at += length;
    }

    fn operand(&mut self) {
        self.before = Before::Operand;
        self.header_word = false;
        self.after_dot = false;
        self.newline = false;
    }

    fn operator(&mut self) {
        self.before = Before::Operator;
        self.header_word = false;
        self.after_dot = false;
        self.newline = false;
    }

    /// Counts one more level that nests without a bracket.
    fn chain(&mut self) -> Result<(), Excess> {
        self.all_chains += 1;
        self.chains += 1;
        if let Some(frame) = self.frames.last_mut() {
            frame.chain += 1;
        }
        if self.chains > MAX_CHAIN { Err(Excess::Chain) } else { Ok(()) }
    }

    /// Ends the chain, at the end of a statement or an element.
    fn end_chain(&mut self, statement: bool) {
        if let Some(frame) = self.frames.last_mut() {
            self.chains -= frame.chain;
            frame.chain = 0;
            if statement {
                frame.angles = 0;
            }
        }
    }

    fn forget_angles(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.angles = 0;
        }
    }

    fn open(&mut self) -> Result<(), Excess> {
        // `{` on a new line starts a new statement unless an operand was expected.
        let bracket = match self.peek(0) {
            b'(' if self.header_word => Bracket::Header,
            b'(' => Bracket::Round,
            b'[' => Bracket::Square,
            _ => Bracket::Curly,
        };
        if bracket != Bracket::Curly {
            self.chain()?; // calls and index accesses chain as well
        }
        self.at += 1;
        self.push(bracket)?;
        self.operator();
        Ok(())
    }

    fn push(&mut self, bracket: Bracket) -> Result<(), Excess> {
        if self.frames.last().is_some_and(|frame| frame.angles > 0) {
            self.angle_brackets += 1;
        }
        self.frames.push(Frame { bracket, chain: 0, angles: 0 });
        self.deepest = self.deepest.max(self.frames.len());
        if self.frames.len() > MAX_BRACKETS + 1 {
            Err(Excess::Brackets)
        } else if self.angle_brackets > MAX_ANGLE_BRACKETS {
            Err(Excess::Angles)
        } else {
            Ok(())
        }
    }

    fn pop(&mut self) -> Option<Bracket> {
        if self.frames.len() < 2 {
            return None;
        }
        let frame = self.frames.pop()?;
        self.chains -= frame.chain;
        if self.frames.last().is_some_and(|outer| outer.angles > 0) {
            self.angle_brackets -= 1;
        }
        Some(frame.bracket)
    }

    fn close(&mut self) -> Result<(), Excess> {
        let closer = self.peek(0);
        let Some(bracket) = self.pop() else {
            // No bracket is open: the parser fails at this point.
            self.regular = false;
            self.at += 1;
            return Ok(());
        };
        self.at += 1;
        self.operand();
        match (bracket, closer) {
            (Bracket::Hole, b'}') => return self.template(),
            (Bracket::Header, b')') => self.before = Before::Operator,
            (Bracket::Round, b')') | (Bracket::Square, b']') => {}
            (Bracket::Curly, b'}') => self.before = Before::Unknown,
            _ => self.regular = false,
        }
        Ok(())
    }

    /// Ends the chain where automatic semicolon insertion, or a block before it, certainly starts a new statement.
    fn statement_may_start(&mut self, word: &str) {
        let after_end = match self.before {
            Before::Operator => false,
            Before::Operand => self.newline || STATEMENT_WORDS.contains(&word),
            Before::Unknown => true,
        };
        if after_end && !CONTINUING_WORDS.contains(&word) {
            self.end_chain(true);
        }
    }

    fn punctuation(&mut self) -> Result<(), Excess> {
        if self.starts_with("<!--") || (self.newline && self.starts_with("-->")) {
            return Err(Excess::HtmlComment);
        }
        let (first, second) = (self.peek(0), self.peek(1));
        match (first, second) {
            (b';', _) => self.end_chain(true),
            (b',', _) => self.end_chain(false),
            (b'+', b'+') | (b'-', b'-') => return self.update(),
            (b'!', next) if next != b'=' => return self.exclamation(),
            (b'.', b'0'..=b'9') if self.before != Before::Operand => {
                self.at += 1;
                self.number();
                return Ok(());
            }
            (b'.', b'.') => self.at += 2,
            (b'.', _) | (b'?', b'.') => {
                self.at += usize::from(first == b'?') + 1;
                self.chain()?;
                self.operator();
                self.after_dot = true;
                return Ok(());
            }
            (b'<', next) if next != b'=' && next != b'<' => self.angle()?,
            (b'>', _) => self.close_angle(),
            (b'&', b'&') | (b'|', b'|') | (b'?', b'?') => {
                self.at += 1;
                self.forget_angles();
            }
            (b'=', b'>') => self.at += 1,
            _ => {}
        }
        self.at += 1;
        if first != b';' && first != b',' {
            self.chain()?;
            self.skip_operator(first);
        }
        self.operator();
        if first == b'>' {
            self.before = Before::Unknown;
        }
        Ok(())
    }

    /// The rest of an operator such as `===`, `**=` or `<<`.
    fn skip_operator(&mut self, first: u8) {
        let doubles = matches!(first, b'=' | b'*' | b'<' | b'&' | b'|' | b'?');
        while self.peek(0) == b'=' && self.peek(1) != b'>' || doubles && self.peek(0) == first {
            self.at += 1;
        }
    }

    /// `++` and `--` after an operand on the same line belong to it.
    fn update(&mut self) -> Result<(), Excess> {
        self.at += 2;
        self.chain()?;
        if self.before == Before::Operand && !self.newline {
            self.operand();
        } else if self.before == Before::Operator {
            self.operator();
        } else {
            self.newline = false;
        }
        Ok(())
    }

    /// `!` negates what follows or, after an operand on the same line, asserts that it is not null.
    fn exclamation(&mut self) -> Result<(), Excess> {
        self.at += 1;
        self.chain()?;
        match self.before {
            Before::Operand if !self.newline => self.operand(),
            Before::Operand | Before::Operator => self.operator(),
            Before::Unknown => self.newline = false,
        }
        Ok(())
    }

    fn angle(&mut self) -> Result<(), Excess> {
        self.all_chains += BRACKET_COST / CHAIN_COST;
        match self.frames.last_mut() {
            Some(frame) => {
                frame.angles += 1;
                if frame.angles > MAX_ANGLES { Err(Excess::Angles) } else { Ok(()) }
            }
            None => Ok(()),
        }
    }

    fn close_angle(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.angles = frame.angles.saturating_sub(1);
        }
    }
}
