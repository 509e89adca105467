//! Reads a text that is not a program but plain JSON: `{"tool": "backend.tool", "arguments": {…}}`.

use crate::{
    erase::shorten,
    fault::SyntaxFault,
    fence,
    suggest::{nearest, question},
    tools::{Call, Tools, resolve_path},
};
use serde_json::{Map, Value};

/// The call that the text is; `None` if it is something else altogether.
pub(crate) fn read(source: &str, tools: &dyn Tools) -> Option<Result<Call, SyntaxFault>> {
    let (start, end) = fence::code_range(source);
    let text = source.get(start..end)?.trim();
    if !text.starts_with('{') || !text.ends_with('}') {
        return None;
    }
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(text) else { return None };
    object.contains_key("tool").then(|| call(object, tools))
}

const SHAPE: &str = "Send {\"tool\": \"backend.tool\", \"arguments\": {…}}.";

fn call(mut object: Map<String, Value>, tools: &dyn Tools) -> Result<Call, SyntaxFault> {
    let Some(Value::String(path)) = object.remove("tool") else {
        return Err(SyntaxFault::new("`tool` must be a string").hint(SHAPE));
    };
    let arguments = match object.remove("arguments") {
        None => Value::Object(Map::new()),
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
        Err(0) => Err(unknown(&path, tools)),
        Err(_) => Err(SyntaxFault::new(format!("`{}` can mean more than one tool", shorten(&path)))
            .hint("Call it from code: `__backends[\"backend\"][\"tool\"]({…})`.")),
    }
}

fn unknown(path: &str, tools: &dyn Tools) -> SyntaxFault {
    let all: Vec<String> = tools
        .backends()
        .into_iter()
        .flat_map(|name| {
            let backend = tools.backend(&name).unwrap_or_default();
            tools.tools(&backend).into_iter().map(move |tool| format!("{name}.{tool}"))
        })
        .collect();
    let mut fault = SyntaxFault::new(format!("There is no tool `{}`", shorten(path)));
    fault.hint = question(&nearest(path, all.iter().map(String::as_str)));
    fault
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
