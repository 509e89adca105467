//! Advice about names that are not defined: a facility of another runtime, a gateway's object, a tool without its backend,
//! a misspelt name.

use crate::{
    facility,
    reach::is_built_in,
    suggest::{self, nearest, question},
    tools::Tools,
};
use toolgate_wire::Profile;

/// Backends that are named where a program used one that does not exist.
const MAX_LISTED: usize = 5;
/// Calls that are suggested for one name.
const MAX_CALLS: usize = 3;

/// What a program does with a name that it does not declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use<'n> {
    /// Reads it.
    Read,
    /// Calls it: `name()`.
    Call,
    /// Takes a property of it: `name.property`.
    Member(&'n str),
}

/// What surrounds the name.
pub(super) struct Surroundings<'t> {
    pub(super) profile: Profile,
    pub(super) tools: &'t dyn Tools,
    /// The names that the program declares.
    pub(super) declared: Vec<String>,
}

/// Advice about a global that does not exist; `None` for one that does.
pub(super) fn advice(name: &str, used: Use<'_>, around: &Surroundings<'_>) -> Option<String> {
    let Surroundings { profile, tools, .. } = around;
    let functions = tools.functions();
    if let Use::Member(property) = used
        && let Some(hint) = about_group(name, property, &functions)
    {
        return Some(hint);
    }
    let is_fetch = name == "api" && used == Use::Member("fetch") && !functions.iter().any(|it| it == "api.fetch");
    if !is_fetch && functions.iter().any(|function| function.split('.').next() == Some(name)) {
        return None;
    }
    if let Some(facility) = facility::missing(name, *profile) {
        return Some(facility.advice(*profile, tool_for(facility.tool_words, *tools).as_deref()));
    }
    if let Some(hint) = meta_tool(name) {
        return Some(hint);
    }
    if is_built_in(name) {
        return None;
    }
    match used {
        Use::Member(property) => about_receiver(name, property, around),
        Use::Call | Use::Read => about_name(name, used, around),
    }
}

/// `group.property`, where host functions are in `group` and none has this name. All of them are in `api`.
fn about_group(group: &str, property: &str, functions: &[String]) -> Option<String> {
    let member = |function: &String| match function.split_once('.') {
        Some((of, name)) => (of == group).then(|| name.to_owned()),
        None => (group == "api").then(|| function.clone()),
    };
    let members: Vec<String> = functions.iter().filter_map(member).collect();
    // Whether requests may be sent is said for `api.fetch` itself.
    let is_fetch = group == "api" && property == "fetch";
    if members.is_empty() || is_fetch || members.iter().any(|one| one == property) {
        return None;
    }
    let near: Vec<String> =
        nearest(property, members.iter().map(String::as_str)).iter().map(|one| format!("{group}.{one}")).collect();
    let next = question(&near).or_else(|| suggest::listed(members.iter().map(String::as_str)))?;
    Some(format!("There is no function `{group}.{property}`. {next}"))
}

/// `name.property`, where there is no `name`.
fn about_receiver(name: &str, property: &str, around: &Surroundings<'_>) -> Option<String> {
    let tools = around.tools;
    let backends = tools.backends();
    if let Some(hint) = meta_tool(property) {
        return Some(format!("There is no object `{name}` in a program. {hint}"));
    }
    if tools.global(property).is_some() {
        let instead = format!("write `{property}` instead of `{name}.{property}`");
        return Some(format!("There is no object `{name}` in a program. Backends are globals: {instead}."));
    }
    if let Some(guess) = question(&nearest(name, backends.iter().map(String::as_str))) {
        return Some(format!("There is no backend `{name}`. {guess}"));
    }
    if let Some(guess) = question(&nearest(name, around.declared.iter().map(String::as_str))) {
        return Some(format!("`{name}` is not defined. {guess}"));
    }
    let owners = owners(property, tools);
    if !owners.is_empty() {
        return Some(format!(
            "There is no backend `{name}`. `{property}` is a tool: call it as {}.",
            owners.join(" or ")
        ));
    }
    let calls = nearest_calls(property, tools);
    let next = question(&calls).or_else(|| listed(&backends))?;
    Some(format!("`{name}` is not defined: there is no backend and no library of this name. {next}"))
}

/// `name` or `name()`, where there is no `name`.
fn about_name(name: &str, used: Use<'_>, around: &Surroundings<'_>) -> Option<String> {
    let tools = around.tools;
    let owners = owners(name, tools);
    if !owners.is_empty() {
        return Some(format!("`{name}` is a tool: call it as {}.", owners.join(" or ")));
    }
    let functions = tools.functions();
    let own = around.declared.iter().chain(&functions).map(String::as_str);
    if let Some(guess) = question(&nearest(name, own)) {
        return Some(format!("`{name}` is not defined. {guess}"));
    }
    let backends = tools.backends();
    if let Some(guess) = question(&nearest(name, backends.iter().map(String::as_str))) {
        return Some(format!("There is no backend `{name}`. {guess}"));
    }
    if used != Use::Call {
        return None;
    }
    let next = question(&nearest_calls(name, tools)).or_else(|| listed(&backends)).unwrap_or_default();
    let has = "a program has JavaScript's own functions, the functions that it declares, and tools";
    Some(format!("`{name}` is not defined: {has}. {next}").trim_end().to_owned())
}

/// "The backends are `a`, `b` and 3 more; …"; `None` where there are none.
fn listed(backends: &[String]) -> Option<String> {
    let named: Vec<String> = backends.iter().take(MAX_LISTED).map(|name| format!("`{name}`")).collect();
    let more = backends.len().saturating_sub(MAX_LISTED);
    let names = match (named.as_slice(), more) {
        ([], _) => return None,
        ([only], _) => return Some(format!("The backend is {only}; `__interfaces` lists its tools.")),
        ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
        (named, more) => format!("{} and {more} more", named.join(", ")),
    };
    Some(format!("The backends are {names}; `__interfaces` lists their tools."))
}

/// Calls of existing tools whose names are close to this one, as code writes them.
fn nearest_calls(tool: &str, tools: &dyn Tools) -> Vec<String> {
    let names: Vec<(String, Vec<String>)> = tools
        .backends()
        .into_iter()
        .map(|name| {
            let known = tools.backend(&name).map(|backend| tools.tools(&backend)).unwrap_or_default();
            (name, known)
        })
        .collect();
    let all = names.iter().flat_map(|(_, known)| known.iter().map(String::as_str));
    let near = nearest(tool, all);
    let calls = names.iter().flat_map(|(backend, known)| {
        known.iter().filter(|one| near.contains(one)).map(move |one| format!("{backend}.{one}({{…}})"))
    });
    calls.take(MAX_CALLS).collect()
}

/// The hint for a program that calls one of the gateway's own tools as if it were a backend's.
pub(crate) fn meta_tool(name: &str) -> Option<String> {
    is_meta_tool(name).then(|| {
        format!(
            "`{name}` is a meta-tool: it is a separate call beside this one. Inside a program, `__interfaces` and `__getToolInterface(\"name\")` describe the tools."
        )
    })
}

/// Whether the gateway offers a tool of this name beside the one that runs programs.
pub(crate) fn is_meta_tool(name: &str) -> bool {
    META_TOOLS.contains(&name)
}

const META_TOOLS: [&str; 12] = [
    "call_tool_chain",
    "compute",
    "deregister_manual",
    "get_required_keys_for_tool",
    "list_tools_meta",
    "query_result",
    "query_tools",
    "read_result",
    "register_manual",
    "run_code",
    "search_tools",
    "tool_info",
];

/// Calls of the tools of this name, one per backend that has it.
fn owners(tool: &str, tools: &dyn Tools) -> Vec<String> {
    let has = |name: &String| tools.backend(name).is_some_and(|backend| tools.tool(&backend, tool).is_some());
    tools
        .backends()
        .into_iter()
        .filter(has)
        .take(MAX_CALLS)
        .map(|backend| format!("`{backend}.{tool}({{…}})`"))
        .collect()
}

/// A call of the first host function or tool whose name contains one of the words; earlier words are preferred.
fn tool_for(words: &[&str], tools: &dyn Tools) -> Option<String> {
    let functions = tools.functions();
    let function = words.iter().find_map(|word| functions.iter().find(|name| name.to_lowercase().contains(word)));
    if let Some(name) = function {
        return Some(format!("`await {name}(…)`"));
    }
    let all: Vec<(String, String)> = tools
        .backends()
        .into_iter()
        .flat_map(|name| {
            let backend = tools.backend(&name).unwrap_or_default();
            tools.tools(&backend).into_iter().map(move |tool| (name.clone(), tool))
        })
        .collect();
    words.iter().find_map(|word| {
        let (backend, tool) = all.iter().find(|(_, tool)| tool.to_lowercase().contains(word))?;
        Some(format!("`{backend}.{tool}({{…}})`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_a_group_does_not_have_is_answered_with_those_that_it_has() {
        let functions = ["api.quote".to_owned(), "wr".to_owned(), "weather.today".to_owned()];
        let check = |group: &str, property: &str, expected: Option<&str>| {
            assert_eq!(about_group(group, property, &functions).as_deref(), expected, "{group}.{property}");
        };
        check("api", "qote", Some("There is no function `api.qote`. Did you mean `api.quote`?"));
        check("api", "wrr", Some("There is no function `api.wrr`. Did you mean `api.wr`?"));
        check("api", "nothing_like_it", Some("There is no function `api.nothing_like_it`. It has quote, wr."));
        check("weather", "tody", Some("There is no function `weather.tody`. Did you mean `weather.today`?"));
        check("api", "quote", None);
        check("api", "fetch", None);
        check("other", "quote", None);
    }
}
