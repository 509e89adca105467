//! Accepts `my-backend.my-tool({…})`, which models write although it is not JavaScript, or is a subtraction.
//!
//! Only if the whole program is this one call and the name is that of an existing tool. The name is found by reading the
//! tokens up to the first call. For parsing it is replaced by a placeholder of the same length, so that offsets stay those
//! of the user's text; the compiled program has `__backends["my-backend"]["my-tool"]` in its place.

use crate::{
    compile::{Form, compile_edited},
    edit::Edits,
    fence,
    literal::{Arguments, arguments},
    one_call::{self, only_call},
    parse::{Parsed, skip_trivia, with_parsed_as},
    plan::{Plan, Script},
    preflight::inspect,
    reach::{self, Target},
    tools::{ArgumentFault, Foreseen, Parameters, Tools, resolve_path, split_path},
    words,
};
use oxc::span::{GetSpan, Span};
use serde_json::Value;

/// The plan for a text that is one call by a hyphenated name.
pub(crate) fn plan(source: &str, tools: &dyn Tools) -> Option<Plan> {
    read(source, tools, |parsed, spelt| match one_call::read(parsed, spelt) {
        Some(call) => Some(Plan::OneCall(call)),
        None => spelt.script(parsed).map(|script| Plan::Script(Box::new(script))),
    })
}

/// The same text, compiled for an engine.
pub(crate) fn script(source: &str, tools: &dyn Tools) -> Option<Script> {
    read(source, tools, |parsed, spelt| spelt.script(parsed))
}

fn read<R: Send>(
    source: &str,
    tools: &dyn Tools,
    use_it: impl FnOnce(&Parsed<'_>, &Spelt<'_>) -> Option<R> + Send,
) -> Option<R> {
    let (spelt, text) = Spelt::find(source, tools)?;
    let used = with_parsed_as(source, &text, |parsed| {
        Ok(if spelt.is_all_of(&parsed) { use_it(&parsed, &spelt) } else { None })
    });
    used.ok()?
}

/// A hyphenated name and its placeholder.
struct Spelt<'t> {
    tools: &'t dyn Tools,
    /// The name as the user wrote it.
    path: String,
    /// The placeholders for the backend and the tool.
    receiver: String,
    name: String,
    /// The original names of backend and tool.
    backend: String,
    tool: String,
    /// The JavaScript expression for the tool.
    reach: String,
}

impl<'t> Spelt<'t> {
    /// The name, and the text with the placeholder.
    fn find(source: &str, tools: &'t dyn Tools) -> Option<(Self, String)> {
        let (start, end) = fence::code_range(source);
        let code = source.get(start..end)?;
        let (from, to) = path_range(code)?;
        let path = code.get(from..to)?;
        let (backend, tool) = resolve_path(path, tools).ok()?;
        let (left, right) = split_path(path, (&backend, &tool), tools)?;
        if words::is_called_implicitly(right) {
            return None;
        }
        let receiver = stand_in(left, code)?;
        let name = stand_in(right, code)?;
        let text = format!("{}{receiver}.{name}{}", source.get(..start + from)?, source.get(start + to..)?);
        // A path consists of letters, digits, `_`, `$`, `-` and `.`: nothing that must be escaped in a string.
        let reach = format!("__backends[\"{left}\"][\"{right}\"]");
        Some((Spelt { tools, path: path.to_owned(), receiver, name, backend, tool, reach }, text))
    }

    /// Whether the program is one call of the placeholder with literal arguments.
    fn is_all_of(&self, parsed: &Parsed<'_>) -> bool {
        let Some(call) = only_call(parsed) else { return false };
        // The compiled program begins with this name, so the program must not declare it.
        if parsed.scoping.symbol_names().any(|name| name == "__backends") {
            return false;
        }
        let reached = reach::callee(parsed, &call.callee, self);
        let meant = reached.is_some_and(|it| matches!(it.target, Target::Tool { .. }) && it.receiver == self.receiver);
        meant && matches!(arguments(call), Arguments::Known(value) if value.is_object())
    }

    fn script(&self, parsed: &Parsed<'_>) -> Option<Script> {
        let Span { start, end, .. } = only_call(parsed)?.callee.span();
        let mut edits = Edits::default();
        edits.replace(start, end, self.reach.clone());
        let program = compile_edited(parsed, Form::Script, edits).ok()?;
        let mut preflight = inspect(parsed, self);
        let stand_in = format!("{}.{}", self.receiver, self.name);
        for finding in preflight.errors.iter_mut().chain(&mut preflight.warnings) {
            finding.message = finding.message.replace(&stand_in, &self.path);
        }
        Some(Script { program, preflight })
    }
}

/// The tools, with the placeholder as another name of one of them.
impl Tools for Spelt<'_> {
    fn global(&self, name: &str) -> Option<String> {
        if name == self.receiver { Some(self.backend.clone()) } else { self.tools.global(name) }
    }

    fn backend(&self, name: &str) -> Option<String> {
        self.tools.backend(name)
    }

    fn tool(&self, backend: &str, name: &str) -> Option<String> {
        let meant = backend == self.backend && name == self.name;
        if meant { Some(self.tool.clone()) } else { self.tools.tool(backend, name) }
    }

    fn backends(&self) -> Vec<String> {
        self.tools.backends()
    }

    fn tools(&self, backend: &str) -> Vec<String> {
        self.tools.tools(backend)
    }

    fn parameters(&self, backend: &str, tool: &str) -> Option<Parameters> {
        self.tools.parameters(backend, tool)
    }

    fn foresee(&self, backend: &str, tool: &str, arguments: Option<&Value>) -> Foreseen {
        self.tools.foresee(backend, tool, arguments)
    }

    fn check_arguments(&self, backend: &str, tool: &str, arguments: &Value) -> Vec<ArgumentFault> {
        self.tools.check_arguments(backend, tool, arguments)
    }

    fn unready(&self, backend: &str) -> Option<String> {
        self.tools.unready(backend)
    }
}

/// An identifier of the same length that does not occur in the code.
fn stand_in(name: &str, code: &str) -> Option<String> {
    ('A'..='Z').map(|letter| letter.to_string().repeat(name.len())).find(|candidate| !code.contains(candidate))
}

/// The range of the first name with a hyphen and a dot that is followed by a bracket. The parser decides later whether the
/// text is a program of one call.
fn path_range(code: &str) -> Option<(usize, usize)> {
    if !code.contains('-') {
        return None;
    }
    let mut at = 0;
    loop {
        at += skip_trivia(code.get(at..)?);
        let rest = code.get(at..)?;
        let first = rest.chars().next()?;
        let length = rest.find(|c: char| !is_path_char(c)).unwrap_or(rest.len());
        let word = rest.get(..length)?;
        if word.contains('.') && rest.get(length + skip_trivia(rest.get(length..)?)..)?.starts_with('(') {
            // The first call has no hyphen, so a hyphenated one would be the second.
            return word.contains('-').then_some((at, at + length));
        }
        // In a program of one call, no string precedes the call.
        if matches!(first, '"' | '\'' | '`') {
            return None;
        }
        at += length.max(first.len_utf8());
    }
}

pub(crate) fn is_path_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '.')
}
