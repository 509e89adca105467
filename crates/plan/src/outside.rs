//! Tells whether a text may call a tool, without knowing any tool.

use crate::{
    direct,
    parse::{Parsed, with_parsed},
    reach,
};

/// Globals of the sandbox through which a program reaches tools that it does not name.
const GATES: [&str; 5] = ["__backends", "__getToolInterface", "__interfaces", "globalThis", "tools"];

/// The built-in host function that is a global.
const HOST_FUNCTION: &str = "httpCall";

/// Whether a text may call a tool: it is a call as JSON, or a program with a name that neither it nor the sandbox defines, or
/// with one through which every tool can be reached. `None` for a text that cannot be parsed.
pub fn may_call_tools(source: &str) -> Option<bool> {
    if direct::is_call(source) {
        return Some(true);
    }
    with_parsed(source, |parsed| Ok(uses_unknown_name(&parsed))).ok()
}

fn uses_unknown_name(parsed: &Parsed<'_>) -> bool {
    let scoping = &parsed.scoping;
    // A name that is only a type, such as `Record`, is no tool.
    let values = scoping
        .root_unresolved_references()
        .iter()
        .filter(|(_, uses)| uses.iter().any(|one| scoping.get_reference(*one).is_value()));
    let mut names = values.map(|(name, _)| name.as_str());
    names.any(|name| GATES.contains(&name) || !(reach::is_built_in(name) || name == HOST_FUNCTION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: Option<bool>) {
        assert_eq!(may_call_tools(source), expected, "{source}");
    }

    #[test]
    fn a_name_that_nothing_defines_may_be_a_backend_or_a_tool() {
        check("return await delete_.echo({ x: 1 })", Some(true));
        check("_123start.echo({})", Some(true));
        check("list_isues({})", Some(true));
        check("const f = () => dem.list({}); return f()", Some(true));
    }

    #[test]
    fn every_tool_can_be_reached_through_a_gate() {
        for source in ["Object.keys(tools)", "return __interfaces", "globalThis['a b'].list()", "__backends['x']"] {
            check(source, Some(true));
        }
    }

    #[test]
    fn a_call_as_json_is_a_call() {
        check(r#"{"tool": "list_issues", "arguments": {"limit": 1}}"#, Some(true));
        check("```json\n{\"tool\": \"echo\"}\n```", Some(true));
        check(r#"{"tool": "echo", "arguments": {"a": 1,}}"#, Some(true));
    }

    #[test]
    fn a_program_that_defines_what_it_names_calls_nothing() {
        check("return 1", Some(false));
        check("", Some(false));
        check("/* demo */ return \"demo\"", Some(false));
        check("const demo = { list: () => 1 }; return demo.list()", Some(false));
        check("const m: Record<string, number> = {}; console.log(Math.max(1, 2)); return m", Some(false));
        check("return await httpCall({ url: context.url })", Some(false));
        check("return {}", Some(false));
    }

    #[test]
    fn nothing_is_known_of_a_text_that_cannot_be_parsed() {
        check("const r = await my-notes.list-notes({}) return r", None);
    }
}
