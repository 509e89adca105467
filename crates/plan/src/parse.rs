//! Parses text to a checked syntax tree, on a stack that is large enough.
//!
//! Code is parsed as a TypeScript module in which `return` is allowed: strict mode with top-level `await`, as in the async
//! function that it becomes. The rest of this crate uses the result of one parse and one semantic pass.

use crate::{
    fault::SyntaxFault,
    fence,
    nesting::{self, Excess, MAX_BRACKETS, MAX_CHAIN},
};
use oxc::{
    allocator::Allocator,
    ast::ast::{IdentifierReference, Program},
    diagnostics::Diagnostics,
    parser::{ParseOptions, Parser},
    semantic::{IsGlobalReference, Scoping, SemanticBuilder},
    span::SourceType,
};
use std::{
    cell::OnceCell,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};
use toolgate_wire::position::{Lines, Position};

/// Stack that a caller's thread is assumed to have left. Code that may need more is parsed on a thread of its own.
const CALLER_STACK: usize = 768 * 1024;
/// Largest stack of a parsing thread. Nearly all of it is address space that is never touched.
const MAX_STACK: usize = 512 * 1024 * 1024;

/// A program without syntax errors.
pub(crate) struct Parsed<'a> {
    /// The text as the user sent it.
    pub(crate) source: &'a str,
    /// The parsed text: a part of `source`, in brackets if it is a bare function.
    pub(crate) code: &'a str,
    /// Added to an offset in `code`, gives the offset in `source`.
    shift: isize,
    pub(crate) program: &'a Program<'a>,
    pub(crate) scoping: Scoping,
    lines: OnceCell<Lines>,
}

impl Parsed<'_> {
    /// The offset in the user's text of an offset in the parsed text.
    pub(crate) fn source_offset(&self, offset: u32) -> usize {
        (offset as usize).saturating_add_signed(self.shift).min(self.source.len())
    }

    /// The position in the user's text of an offset in the parsed text.
    pub(crate) fn position(&self, offset: u32) -> Position {
        let lines = self.lines.get_or_init(|| Lines::of(self.source));
        lines.position(self.source, self.source_offset(offset))
    }

    /// Whether the program does not declare this name.
    pub(crate) fn is_global(&self, id: &IdentifierReference<'_>) -> bool {
        id.is_global_reference(&self.scoping)
    }

    /// The names that the program uses and does not declare, sorted.
    pub(crate) fn globals(&self) -> Vec<String> {
        let mut names: Vec<_> = self.scoping.root_unresolved_references().keys().map(ToString::to_string).collect();
        names.sort_unstable();
        names
    }

    /// A fault at an offset of the parsed text.
    pub(crate) fn fault(&self, offset: u32, message: impl Into<String>) -> SyntaxFault {
        SyntaxFault::new(message).at(self.source, self.source_offset(offset))
    }
}

/// Parses `source` and passes the tree to `use_it`. Both run on a thread with a larger stack when the text nests too deeply
/// for the caller's stack.
pub(crate) fn with_parsed<R: Send>(
    source: &str,
    use_it: impl FnOnce(Parsed<'_>) -> Result<R, SyntaxFault> + Send,
) -> Result<R, SyntaxFault> {
    with_parsed_as(source, source, use_it)
}

/// Parses `text` in place of `source`: a text of the same length in which some names are replaced.
pub(crate) fn with_parsed_as<R: Send>(
    source: &str,
    text: &str,
    use_it: impl FnOnce(Parsed<'_>) -> Result<R, SyntaxFault> + Send,
) -> Result<R, SyntaxFault> {
    let (start, end) = fence::code_range(text);
    let code = text.get(start..end).unwrap_or_default();
    if let Some(at) = code.find('\0') {
        return Err(nul().at(source, start + at));
    }
    let nesting = nesting::scan(code).map_err(|(excess, at)| refusal(excess).at(source, start + at))?;
    on_stack(nesting.stack, || {
        let allocator = Allocator::default();
        let parsed = parse(source, start, code, &allocator)?;
        use_it(parsed)
    })
}

fn on_stack<R: Send>(needed: usize, work: impl FnOnce() -> Result<R, SyntaxFault> + Send) -> Result<R, SyntaxFault> {
    if needed <= CALLER_STACK {
        // A panic in the parser must fail one request, not the process.
        return catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(unreadable()));
    }
    if needed > MAX_STACK {
        return Err(unreadable());
    }
    thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(needed + CALLER_STACK).spawn_scoped(scope, work);
        match reader {
            Ok(reader) => reader.join().unwrap_or_else(|_| Err(unreadable())),
            Err(_) => Err(unreadable()),
        }
    })
}

fn unreadable() -> SyntaxFault {
    SyntaxFault::new("This code could not be read").hint("Split it into smaller statements with less nesting.")
}

/// The error for NUL, which an interpreter takes for the end of the program.
fn nul() -> SyntaxFault {
    SyntaxFault::new("A NUL character is not allowed in code")
        .hint("Write `\\0` in a string, and leave it out elsewhere.")
}

fn refusal(excess: Excess) -> SyntaxFault {
    match excess {
        Excess::Brackets => SyntaxFault::new(format!("Brackets are nested more than {MAX_BRACKETS} levels deep"))
            .hint("Split the code into named parts."),
        Excess::Chain => SyntaxFault::new(format!("More than {MAX_CHAIN} operators are chained in one expression"))
            .hint("Split the expression, or use an array with `join` or `reduce`."),
        Excess::Angles => SyntaxFault::new("Too many `<` in one expression never close")
            .hint("Put each comparison into a statement of its own."),
        Excess::Decorator => {
            SyntaxFault::new("Decorators are not supported").hint("Call the decorating function yourself.")
        }
        Excess::HtmlComment => {
            SyntaxFault::new("HTML comments are not allowed").hint("Use `//`, or write `< !--x` with a space.")
        }
    }
}

fn parse<'a>(
    source: &'a str,
    start: usize,
    code: &'a str,
    allocator: &'a Allocator,
) -> Result<Parsed<'a>, SyntaxFault> {
    match read(code, allocator) {
        Ok((program, scoping)) => {
            Ok(Parsed { source, code, shift: start.cast_signed(), program, scoping, lines: OnceCell::new() })
        }
        Err(diagnostics) => {
            bare_function(source, start, code, allocator).ok_or_else(|| worst(&diagnostics, source, start))
        }
    }
}

/// `function (d) { … }` is an expression but not a statement, so it is parsed in brackets.
fn bare_function<'a>(source: &'a str, start: usize, code: &'a str, allocator: &'a Allocator) -> Option<Parsed<'a>> {
    let first = code.get(skip_trivia(code)..)?;
    if !first.starts_with("function") && !first.starts_with("async") {
        return None;
    }
    let function = code.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let code = allocator.alloc_str(&format!("({function}\n)"));
    let (program, scoping) = read(code, allocator).ok()?;
    Some(Parsed { source, code, shift: start.cast_signed() - 1, program, scoping, lines: OnceCell::new() })
}

fn read<'a>(code: &'a str, allocator: &'a Allocator) -> Result<(&'a Program<'a>, Scoping), Diagnostics> {
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parsed = Parser::new(allocator, code, SourceType::ts().with_module(true)).with_options(options).parse();
    if parsed.panicked || parsed.diagnostics.has_errors() {
        return Err(parsed.diagnostics);
    }
    let program: &Program<'_> = allocator.alloc(parsed.program);
    let checked = SemanticBuilder::new_compiler().build(program);
    if checked.diagnostics.has_errors() {
        return Err(checked.diagnostics);
    }
    Ok((program, checked.semantic.into_scoping()))
}

fn worst(diagnostics: &Diagnostics, source: &str, base: usize) -> SyntaxFault {
    match diagnostics.errors().next() {
        Some(diagnostic) => SyntaxFault::of_diagnostic(diagnostic, source, base),
        None => SyntaxFault::new("This is not valid TypeScript"),
    }
}

/// The offset of the first byte of `text` that is neither white space nor in a comment.
pub(crate) fn skip_trivia(text: &str) -> usize {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        let skipped = if rest.starts_with("//") || rest.starts_with("#!") && rest.len() == text.len() {
            rest.find(['\n', '\r', '\u{2028}', '\u{2029}']).unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.get(2..).and_then(|inner| inner.find("*/")).map_or(rest.len(), |end| end + 4)
        } else {
            return text.len() - rest.len();
        };
        rest = rest.get(skipped..).unwrap_or_default();
    }
}
