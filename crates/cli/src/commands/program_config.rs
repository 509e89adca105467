//! The configuration that a program of the command line runs with: the named one, or the one that is found.
//!
//! A found configuration is in force whether or not the program names one of its servers: limits, host functions, egress,
//! policy, output, audit log. Its servers are started only for a program that seems to use them. A file that cannot be used
//! is reported; it ends the command only if the program seems to need it.

use serde_json::Value;
use toolgate_catalog::names::{NameScope, NameTable};
use toolgate_config::lookup::FoundFile;
use toolgate_config::problem::Problem;
use toolgate_config::text::Source;
use toolgate_config::trust::TrustStore;
use toolgate_config::{Checked, Env, lookup};

use super::Usage;
use super::servers::{configuration, needs_trust, sentences};
use crate::args::servers::Servers;
use crate::consent;
use crate::print::{escape, note};

/// A configuration for one program.
pub(crate) struct ProgramConfig {
    pub(crate) config: Checked,
    pub(crate) servers: ServerUse,
}

/// Whether the servers of a configuration are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerUse {
    /// They are.
    Started,
    /// They are not: the configuration has none here, and its settings hold.
    LeftOut,
}

/// The configuration for a program: the named one; otherwise the one that is found, if it can be used.
pub(crate) fn for_program(servers: &Servers, code: &str) -> anyhow::Result<Option<ProgramConfig>> {
    if servers.are_named() {
        return Ok(Some(with_servers(configuration(servers)?)));
    }
    match lookup::find(None, &Env::of_process()) {
        Ok(Some(found)) => of_file(servers, &found, code),
        Ok(None) => Ok(None),
        Err(fault) => Ok(unused(&fault.to_string())),
    }
}

/// The settings of the configuration that is found, without its servers.
pub(crate) fn settings_only(servers: &Servers) -> anyhow::Result<Option<ProgramConfig>> {
    match lookup::find(None, &Env::of_process()) {
        Ok(Some(found)) => of_file(servers, &found, ""),
        Ok(None) => Ok(None),
        Err(fault) => Ok(unused(&fault.to_string())),
    }
}

fn of_file(servers: &Servers, found: &FoundFile, code: &str) -> anyhow::Result<Option<ProgramConfig>> {
    let source = match Source::open(&found.path) {
        Ok(source) => source,
        Err(problem) => return Ok(unused(&problem.to_string())),
    };
    let needed = seems_to_use(code, &source);
    let store = TrustStore::of(&Env::of_process());
    if needs_trust(servers, found.origin) && !store.trusts(&source) {
        if !needed {
            let file = found.path.to_string_lossy();
            return Ok(unused(&format!("{file} comes from this folder and is not trusted; see `toolgate trust`")));
        }
        consent::require(&source, &store)?;
    }
    // What a server needs is looked up only for a program that uses servers: a command of `${cmd:…}` may ask a person.
    let checked = match needed {
        true => toolgate_config::check(source, &Env::of_process().running_commands()),
        // A setting outside of servers may need a command too.
        false => toolgate_config::check(source.clone(), &Env::of_process())
            .or_else(|_| toolgate_config::check(source, &Env::of_process().running_commands())),
    };
    match checked {
        Ok(config) if needed => Ok(Some(with_servers(config))),
        Ok(config) => Ok(Some(without_servers(config))),
        Err(problems) if needed => Err(Usage(wrong(&problems)).into()),
        Err(problems) => Ok(unused(&wrong(&problems))),
    }
}

fn wrong(problems: &[Problem]) -> String {
    format!("the configuration cannot be used:\n{}", sentences(problems))
}

fn with_servers(config: Checked) -> ProgramConfig {
    for warning in &config.warnings {
        note(escape::text(&warning.to_string()));
    }
    ProgramConfig { config, servers: ServerUse::Started }
}

fn without_servers(mut config: Checked) -> ProgramConfig {
    config.backends.clear();
    config.disabled.clear();
    config.incomplete.clear();
    ProgramConfig { config, servers: ServerUse::LeftOut }
}

/// Reports a configuration that the program runs without.
fn unused(why: &str) -> Option<ProgramConfig> {
    note(format_args!("without a configuration: {}", escape::text(why)));
    None
}

/// Whether a program seems to use a server, or a host function, which may call one.
fn seems_to_use(code: &str, source: &Source) -> bool {
    let Ok(tree) = source.tree() else { return false };
    let tree = tree.to_json();
    let names_of = |section: &str| {
        let entries = tree.pointer(section).and_then(Value::as_object);
        entries.into_iter().flat_map(|it| it.keys().cloned()).collect::<Vec<String>>()
    };
    let servers: Vec<String> = ["/mcpServers", "/servers", "/mcp_servers"].into_iter().flat_map(names_of).collect();
    let functions = names_of("/toolgate/functions");
    let may_call = || match toolgate_plan::may_call_tools(code) {
        Some(may_call) => may_call,
        // It may be a call by a hyphenated name, which is no JavaScript.
        None => NameTable::new(servers.iter().cloned(), NameScope::Global)
            .names()
            .iter()
            .any(|name| has_word(code, &name.original) || has_word(code, &name.identifier)),
    };
    !servers.is_empty() && may_call() || functions.iter().any(|name| has_word(code, name))
}

/// Whether a text has this word.
fn has_word(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    !word.is_empty()
        && code.match_indices(word).any(|(at, _)| {
            let (before, after) = (code.get(..at).unwrap_or_default(), code.get(at + word.len()..).unwrap_or_default());
            !before.ends_with(is_part) && !after.starts_with(is_part)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_config::text::Format;

    #[test]
    fn a_program_that_may_use_a_server_or_a_function_is_known_before_it_runs() {
        let text =
            r#"{ "mcpServers": { "my-notes": {}, "delete": {} }, "toolgate": { "functions": { "price": {} } } }"#;
        let source = Source::new("toolgate.json".as_ref(), Format::Json, text);
        let uses = |code: &str| seems_to_use(code, &source);
        for code in [
            "my_notes.list({})",
            "tools['my-notes'].list({})",
            "{\"tool\": \"my-notes.list\"}",
            "{\"tool\": \"list\"}",
            "await delete_.list({})",
            "lst({})",
            "const r = await my-notes.list({}) return r",
            "Object.keys(tools)",
            "return __interfaces",
            "price(1)",
            "api.price(1)",
        ] {
            assert!(uses(code), "{code}");
        }
        for code in ["return 1", "const toolset = 1; return toolset", "", "httpCall({})", "/* my_notes */ return 1"] {
            assert!(!uses(code), "{code}");
        }
        for without in ["{}", r#"{ "mcpServers": {} }"#] {
            let without = Source::new("toolgate.json".as_ref(), Format::Json, without);
            assert!(!seems_to_use("Object.keys(tools)", &without));
        }
    }
}
