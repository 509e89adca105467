//! Reads a text that is not a program but plain JSON: `{"tool": "backend.tool", "arguments": {…}}`.
//!
//! Integers of 64 bits stay what they are, since no JavaScript reads them. The backend may be left out where one backend has
//! the tool, and `arguments` may be left out or null.

use crate::{
    erase::shorten,
    fault::SyntaxFault,
    fence,
    hints::meta_tool,
    integers::first_rounded,
    suggest::{nearest, question},
    tools::{Call, MAX_DOTS, Tools, resolve_path},
};
use serde_json::{Map, Value};
use toolgate_wire::foreign_text::escaped;

/// Backends that are named where several have a tool of one name.
const MAX_OWNERS: usize = 5;

/// Levels of objects and lists in a call: what serde_json reads.
const MAX_DEPTH: usize = 127;

/// The call that the text describes; `None` when the text is not meant as a call.
pub(crate) fn read(source: &str, tools: &dyn Tools) -> Option<Result<Call, UnusableText>> {
    let (start, end) = fence::code_range(source);
    let code = source.get(start..end)?;
    let text = code.trim();
    if !text.starts_with('{') {
        return None;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) if object.contains_key("tool") => {
            let call = match first_rounded(text) {
                Some(number) => Err(rounded(number)),
                None => call(object, tools),
            };
            Some(call.map_err(UnusableText::Call))
        }
        Ok(_) => None,
        Err(error) if is_meant(text) => {
            let at = start + (code.len() - code.trim_start().len());
            Some(Err(UnusableText::Syntax(malformed(source, at, text, &error))))
        }
        Err(_) => None,
    }
}

/// Whether a text is meant as a call.
pub(crate) fn is_call(source: &str) -> bool {
    let (start, end) = fence::code_range(source);
    let text = source.get(start..end).unwrap_or_default().trim();
    let names_tool = |value: Value| value.as_object().is_some_and(|object| object.contains_key("tool"));
    text.starts_with('{') && serde_json::from_str(text).map_or_else(|_| is_meant(text), names_tool)
}

/// Why a text cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnusableText {
    /// It is neither a program nor JSON.
    Syntax(SyntaxFault),
    /// It is JSON for a call that cannot be made.
    Call(SyntaxFault),
}

/// Whether a text begins like a call. No program does: a label in a block cannot be quoted.
fn is_meant(text: &str) -> bool {
    let inside = text.trim_start_matches('{').trim_start();
    let key = ["\"tool\"", "\"arguments\""].iter().find_map(|key| inside.strip_prefix(key));
    key.is_some_and(|rest| rest.trim_start().starts_with(':'))
}

fn malformed(source: &str, at: usize, text: &str, error: &serde_json::Error) -> SyntaxFault {
    // serde_json ends lines at line feeds only, and its columns count bytes.
    let line_start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    // Column zero is the end of the line before.
    let offset = (line_start + error.column()).saturating_sub(1).min(text.len());
    if depth(text.as_bytes().get(..=offset + 1).unwrap_or(text.as_bytes())) > MAX_DEPTH {
        return SyntaxFault::new(format!("The call is nested deeper than {MAX_DEPTH} levels"))
            .at(source, at + offset)
            .hint("Send the deep part as text, if the tool takes one.");
    }
    let what = if error.is_eof() { ENDS.to_owned() } else { unexpected(text, offset) };
    SyntaxFault::new(format!("The call is not valid JSON: {what}")).at(source, at + offset).hint(SHAPE)
}

/// Containers inside each other in a text, where most are.
fn depth(text: &[u8]) -> usize {
    let (mut open, mut most, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                open += 1;
                most = most.max(open);
            }
            b'}' | b']' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

const ENDS: &str = "it ends too early";

/// What stands at the place where a text stops being JSON. Told by the text: the parser's errors have a place, and their
/// wording is not promised.
fn unexpected(text: &str, offset: usize) -> String {
    let offset = (0..=offset).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (before, rest) = text.split_at(offset);
    let Some(found) = rest.chars().next() else { return ENDS.to_owned() };
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    match (before.trim_end().chars().next_back(), found) {
        (Some(','), '}' | ']') => "there is a comma after the last item".to_owned(),
        (_, '\'') => "texts and keys need double quotes".to_owned(),
        (_, '\n' | '\r' | '\t') => "a line break or tab inside a text must be written as \\n or \\t".to_owned(),
        _ if half_character(before).is_some() => "a text has half of a character".to_owned(),
        _ if is_number(found) && before.chars().next_back().is_some_and(is_number) => {
            "a number is not written as JSON has it, or is too large".to_owned()
        }
        _ => format!("`{}` is not expected here", escaped(&found.to_string(), 1)),
    }
}

/// The escape of half a surrogate pair, such as `\ud800`, at the end of a text.
fn half_character(text: &str) -> Option<u32> {
    let escape = text.get(text.len().checked_sub(6)?..)?.strip_prefix("\\u")?;
    u32::from_str_radix(escape, 16).ok().filter(|unit| (0xd800..0xe000).contains(unit))
}

const SHAPE: &str = "Send {\"tool\": \"backend.tool\", \"arguments\": {…}}.";

fn rounded(number: &str) -> SyntaxFault {
    SyntaxFault::new(format!("The integer {} would lose digits: it needs more than 64 bits", shorten(number)))
        .hint("Send it as a string, if the tool takes one.")
}

fn call(mut object: Map<String, Value>, tools: &dyn Tools) -> Result<Call, SyntaxFault> {
    let Some(Value::String(path)) = object.remove("tool") else {
        return Err(SyntaxFault::new("`tool` must be a string").hint(SHAPE));
    };
    let arguments = match object.remove("arguments") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(arguments @ Value::Object(_)) => arguments,
        Some(_) => return Err(SyntaxFault::new("`arguments` must be an object").hint(SHAPE)),
    };
    if let Some(key) = object.keys().next() {
        return Err(
            SyntaxFault::new(format!("`{}` is not expected beside `tool` and `arguments`", shorten(key))).hint(SHAPE)
        );
    }
    match resolve_path(&path, tools) {
        Ok((backend, tool)) => Ok(Call { backend, tool, arguments }),
        Err(0) => match unlisted(&path, tools) {
            Some((backend, tool)) => Ok(Call { backend, tool, arguments }),
            None => bare(&path, arguments, tools),
        },
        Err(_) => Err(SyntaxFault::new(format!("`{}` can mean more than one tool", shorten(&path)))
            .hint("Call it from code: `__backends[\"backend\"][\"tool\"]({…})`.")),
    }
}

/// A tool of a backend whose tools are not all known: the call itself says what is the matter with the backend, and starts
/// it again, as a call of a program does.
fn unlisted(path: &str, tools: &dyn Tools) -> Option<(String, String)> {
    if meta_tool(path).is_some() {
        return None;
    }
    path.match_indices('.').take(MAX_DOTS).find_map(|(dot, _)| {
        let (backend, tool) = (tools.backend(path.get(..dot)?)?, path.get(dot + 1..)?);
        tools.unready(&backend).map(|_| (backend, tool.to_owned()))
    })
}

/// A tool that is named without its backend, where one backend has it.
fn bare(name: &str, arguments: Value, tools: &dyn Tools) -> Result<Call, SyntaxFault> {
    let owned = |backend: String| Some((tools.tool(&backend, name)?, backend));
    let all = tools.backends().into_iter().filter_map(|spelling| tools.backend(&spelling).and_then(owned));
    let mut owners: Vec<(String, String)> = all.take(MAX_OWNERS + 1).collect();
    match (owners.pop(), owners.as_slice()) {
        (None, _) => Err(unknown(name, tools)),
        (Some((tool, backend)), []) => Ok(Call { backend, tool, arguments }),
        (Some(last), others) => {
            let named = others.iter().chain([&last]).map(|(tool, backend)| format!("`{backend}.{tool}`"));
            let named: Vec<String> = named.take(MAX_OWNERS).collect();
            Err(SyntaxFault::new(format!("More than one backend has a tool `{}`", shorten(name)))
                .hint(format!("Name one of them: {}.", named.join(", "))))
        }
    }
}

fn unknown(path: &str, tools: &dyn Tools) -> SyntaxFault {
    if let Some(hint) = meta_tool(path) {
        return SyntaxFault::new(format!("There is no tool `{path}` behind a backend")).hint(hint);
    }
    let all: Vec<(String, String)> = tools
        .backends()
        .into_iter()
        .flat_map(|name| {
            let backend = tools.backend(&name).unwrap_or_default();
            tools.tools(&backend).into_iter().map(move |tool| (format!("{name}.{tool}"), tool))
        })
        .collect();
    let near = nearest(path, all.iter().map(|(path, _)| path.as_str()));
    let near = if near.is_empty() { nearest_bare(path, &all) } else { near };
    let mut fault = SyntaxFault::new(format!("There is no tool `{}`", shorten(path)));
    fault.hint = question(&near);
    fault
}

/// The paths of tools whose own name is close to this one.
fn nearest_bare(name: &str, all: &[(String, String)]) -> Vec<String> {
    let near = nearest(name, all.iter().map(|(_, tool)| tool.as_str()));
    all.iter().filter(|(_, tool)| near.contains(tool)).map(|(path, _)| path.clone()).take(MAX_OWNERS).collect()
}

#[cfg(test)]
mod tests {
    /// Holds only with the feature `float_roundtrip` of serde_json.
    #[test]
    fn numbers_in_json_are_read_exactly() {
        let value: serde_json::Value = serde_json::from_str("85.104e-20").expect("a number");
        assert_eq!(value.as_f64(), Some(85.104e-20));
    }
}
