//! After a failure: what the writer of the program probably got wrong.
//!
//! The syntax tree tells which suspicious things stand at or before the place of the failure; the message of the error
//! is never read, because the program itself can make it say anything. A hint is a guess and is worded as advice.

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
    /// The program as the user sent it.
    pub source: &'f str,
    /// The `name` of the error, such as `TypeError`, if an error was thrown.
    pub error_name: Option<&'f str>,
    /// Where it happened, in the user's lines.
    pub position: Option<Position>,
    /// The kind of run.
    pub profile: Profile,
}

/// A hint for a failed run, if one fits.
pub fn hint_for(failure: &FailureFacts<'_>, tools: &dyn Tools) -> Option<String> {
    // Its one call names a tool that exists; the tree of the text would be one of subtractions.
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
    /// Fails where it stands.
    Here,
    /// Fails where it stands or later.
    Later,
}

/// The suspect at the place of the failure, or the last one before it that can make itself felt later.
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
    let mut strangers = Strangers { parsed, tools, line, profile, seen: HashSet::new(), found: Vec::new() };
    strangers.visit_program(parsed.program);
    found.append(&mut strangers.found);
    found
}

/// Finds global names that nobody defines.
struct Strangers<'p, 'a> {
    parsed: &'p Parsed<'a>,
    tools: &'p dyn Tools,
    /// The line of the failure, if it is known: no other matters then.
    line: Option<u32>,
    profile: Profile,
    seen: HashSet<Ident<'a>>,
    found: Vec<Suspect>,
}

/// Most names that are looked at. Each is compared with every tool there is.
const MOST: usize = 20;

impl<'a> Visit<'a> for Strangers<'_, 'a> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        let name = it.name.as_str();
        if self.seen.len() >= MOST || !self.parsed.is_global(it) || self.tools.global(name).is_some() {
            return;
        }
        let position = self.parsed.position(it.span.start);
        if self.line.is_some_and(|line| line != position.line) || !self.seen.insert(it.name) {
            return;
        }
        if let Some(hint) = stranger(name, self.profile, self.tools) {
            self.found.push(Suspect { position, hint, kind: Kind::Here });
        }
    }
}

fn stranger(name: &str, profile: Profile, tools: &dyn Tools) -> Option<String> {
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

/// What to do about a tool of the gateway's own that is called like one of a backend.
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

/// The backends that have a tool of this name, as calls.
fn owners(tool: &str, tools: &dyn Tools) -> Vec<String> {
    let has = |name: &String| tools.backend(name).is_some_and(|backend| tools.tool(&backend, tool).is_some());
    tools.backends().into_iter().filter(has).take(3).map(|backend| format!("`{backend}.{tool}({{…}})`")).collect()
}

fn alternatives(calls: &[String]) -> String {
    calls.join(" or ")
}

/// The first host function or tool whose name has one of the words, the words in order of preference.
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
