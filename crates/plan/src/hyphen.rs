//! `my-backend.my-tool({…})`: no JavaScript, or JavaScript for a subtraction, yet models write it.
//!
//! It counts only when the whole program is this one call and the name is a registered tool's. The name is found by
//! reading the few tokens before the first bracket; what remains is then parsed with a plain name in its place.

use crate::{
    compile::unused_name,
    fence,
    literal::{Arguments, arguments},
    one_call::only_call,
    parse::{skip_trivia, with_parsed},
    tools::{Call, Tools, resolve_path},
};
use oxc::ast::ast::Expression;

/// The call that the text is, if it is one by a name with hyphens.
pub(crate) fn one_call(source: &str, tools: &dyn Tools) -> Option<Call> {
    let (start, end) = fence::code_range(source);
    let code = source.get(start..end)?;
    let (from, to) = path_range(code)?;
    let (backend, tool) = resolve_path(code.get(from..to)?, tools).ok()?;
    let stand_in = unused_name(code, "__tool");
    let plain = format!("{}{stand_in}{}", code.get(..from)?, code.get(to..)?);
    let arguments = with_parsed(&plain, |parsed| {
        let call = only_call(&parsed).filter(|call| {
            matches!(call.callee.get_inner_expression(), Expression::Identifier(id) if id.name == stand_in.as_str())
        });
        Ok(call.map(arguments))
    });
    match arguments.ok()?? {
        Arguments::Known(arguments) if arguments.is_object() => Some(Call { backend, tool, arguments }),
        _ => None,
    }
}

/// Where a name with a hyphen and a dot stands between the start of a statement and its first bracket.
fn path_range(code: &str) -> Option<(usize, usize)> {
    let head = code.get(..code.find('(')?)?;
    if !head.contains('-') {
        return None;
    }
    let mut at = skip_trivia(head);
    loop {
        let rest = head.get(at..)?;
        let length = rest.find(|c: char| !is_path_char(c)).unwrap_or(rest.len());
        let word = rest.get(..length)?;
        let next = at + length + skip_trivia(rest.get(length..)?);
        match word {
            "return" | "await" => at = next,
            "const" | "let" | "var" => at = next + after_assignment(head.get(next..)?)?,
            path if path.contains('-') && path.contains('.') && next == head.len() => return Some((at, at + length)),
            _ => return None,
        }
    }
}

fn after_assignment(declaration: &str) -> Option<usize> {
    let equals = declaration.find('=')? + 1;
    Some(equals + skip_trivia(declaration.get(equals..)?))
}

fn is_path_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '.')
}
