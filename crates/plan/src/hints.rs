//! Hints after a failure: what is probably wrong with the program.
//!
//! A hint comes from suspicious syntax at or before the position of the failure. The error message is not read, because
//! the program controls its text. A hint is a guess and is worded as advice.

use crate::{
    facility, hyphen,
    parse::{Parsed, with_parsed},
    preflight::{FindingCode, inspect},
    reach::is_built_in,
    suggest::{nearest, question},
    tools::Tools,
};
use oxc::{ast::ast::*, ast_visit::Visit, str::Ident};
use std::collections::HashSet;
use toolgate_wire::{Position, Profile};

/// What is known about a failed run.
#[derive(Debug, Clone, Copy)]
pub struct FailureFacts<'f> {
    /// The program, as the user sent it.
    pub source: &'f str,
    /// The `name` of the error, such as `TypeError`, if an error was thrown.
    pub error_name: Option<&'f str>,
    /// The position of the failure in the user's text.
    pub position: Option<Position>,
    /// The kind of run.
    pub profile: Profile,
}

/// A hint for a failed run, if one fits.
pub fn hint_for(failure: &FailureFacts<'_>, tools: &dyn Tools) -> Option<String> {
    // A hyphenated call of an existing tool has no suspicious syntax; parsed as JavaScript it would be a subtraction.
    if hyphen::script(failure.source, tools).is_some() {
        return None;
    }
    with_parsed(failure.source, |parsed| Ok(choose(suspects(&parsed, tools, failure), failure))).ok()?
}

struct Suspect {
    position: Position,
    hint: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Fails at its own position.
    Here,
    /// Fails at its own position or later.
    Later,
}

/// The suspect on the line of the failure, or the last one before it that can fail later.
fn choose(mut suspects: Vec<Suspect>, failure: &FailureFacts<'_>) -> Option<String> {
    suspects.sort_by_key(|suspect| suspect.position);
    let Some(place) = failure.position else { return suspects.into_iter().next().map(|suspect| suspect.hint) };
    let here = suspects
        .iter()
        .filter(|suspect| suspect.position.line == place.line)
        .min_by_key(|suspect| suspect.position.column.abs_diff(place.column));
    let earlier = || {
        let type_error = failure.error_name.is_none_or(|name| name == "TypeError");
        suspects.iter().rev().find(|one| type_error && one.kind == Kind::Later && one.position < place)
    };
    here.or_else(earlier).map(|suspect| suspect.hint.clone())
}

fn suspects(parsed: &Parsed<'_>, tools: &dyn Tools, failure: &FailureFacts<'_>) -> Vec<Suspect> {
    let preflight = inspect(parsed, tools);
    let mut found: Vec<Suspect> = preflight
        .errors
        .into_iter()
        .chain(preflight.warnings)
        .filter(|finding| finding.code != FindingCode::NotAwaited && finding.code != FindingCode::InvalidArguments)
        .map(|finding| Suspect {
            position: finding.position,
            hint: [Some(finding.message + "."), finding.suggestion].into_iter().flatten().collect::<Vec<_>>().join(" "),
            kind: match finding.code {
                FindingCode::ShadowedBackend | FindingCode::MissingAwait => Kind::Later,
                _ => Kind::Here,
            },
        })
        .collect();
    let line = failure.position.map(|position| position.line);
    let profile = failure.profile;
    let mut undefined = UndefinedGlobals { parsed, tools, line, profile, seen: HashSet::new(), found: Vec::new() };
    undefined.visit_program(parsed.program);
    found.append(&mut undefined.found);
    found
}

/// Finds global names that are not defined.
struct UndefinedGlobals<'p, 'a> {
    parsed: &'p Parsed<'a>,
    tools: &'p dyn Tools,
    /// The line of the failure; if it is known, other lines are skipped.
    line: Option<u32>,
    profile: Profile,
    seen: HashSet<Ident<'a>>,
    found: Vec<Suspect>,
}

/// Names that are examined. Each is compared with every tool.
const MAX_NAMES: usize = 20;

impl<'a> Visit<'a> for UndefinedGlobals<'_, 'a> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        let name = it.name.as_str();
        if self.seen.len() >= MAX_NAMES || !self.parsed.is_global(it) || self.tools.global(name).is_some() {
            return;
        }
        let position = self.parsed.position(it.span.start);
        if self.line.is_some_and(|line| line != position.line) || !self.seen.insert(it.name) {
            return;
        }
        if let Some(hint) = hint_for_global(name, self.profile, self.tools) {
            self.found.push(Suspect { position, hint, kind: Kind::Here });
        }
    }
}

fn hint_for_global(name: &str, profile: Profile, tools: &dyn Tools) -> Option<String> {
    if let Some(facility) = facility::missing(name, profile) {
        return Some(facility.advice(profile, tool_for(facility.tool_words, tools).as_deref()));
    }
    if let Some(hint) = meta_tool(name) {
        return Some(hint);
    }
    if is_built_in(name) {
        return None;
    }
    let owners = owners(name, tools);
    if !owners.is_empty() {
        return Some(format!("`{name}` is a tool: call it as {}.", alternatives(&owners)));
    }
    let names = tools.backends();
    question(&nearest(name, names.iter().map(String::as_str)))
        .map(|guess| format!("There is no backend `{name}`. {guess}"))
}

/// The hint for a program that calls one of the gateway's own tools as if it were a backend's.
pub(crate) fn meta_tool(name: &str) -> Option<String> {
    META_TOOLS.contains(&name).then(|| {
        format!(
            "`{name}` is a meta-tool: it is a separate call beside this one. Inside a program, `__interfaces` and `__getToolInterface(\"name\")` describe the tools."
        )
    })
}

/// Tools that the gateway offers beside the one that runs programs.
const META_TOOLS: [&str; 10] = [
    "call_tool_chain",
    "deregister_manual",
    "get_required_keys_for_tool",
    "list_tools_meta",
    "query_result",
    "read_result",
    "register_manual",
    "run_code",
    "search_tools",
    "tool_info",
];

/// Calls of the tools of this name, one per backend that has it.
fn owners(tool: &str, tools: &dyn Tools) -> Vec<String> {
    let has = |name: &String| tools.backend(name).is_some_and(|backend| tools.tool(&backend, tool).is_some());
    tools.backends().into_iter().filter(has).take(3).map(|backend| format!("`{backend}.{tool}({{…}})`")).collect()
}

fn alternatives(calls: &[String]) -> String {
    calls.join(" or ")
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
