//! A tool that a line of `toolgate policy test` names, as the gateway would know it without its server.
//!
//! Rules may name a tool as its server does or as programs do, and the configuration may say what it does. Its own name is in
//! the cache of tools or in a rule, where the line has the spelling of programs. Annotations come from the line and the
//! configuration only, so that a file of expectations gives the same on every machine.

use serde_json::{Value, json};
use toolgate_catalog::Tool;
use toolgate_catalog::names::{Name, NameScope, NameTable, sanitise};
use toolgate_config::Checked;
use toolgate_gateway::runtime::cached_catalog;
use toolgate_policy::Traits;

/// What rules may look at.
#[derive(Debug, PartialEq)]
pub(super) struct NamedTool {
    /// The spellings by which rules may name it.
    pub(super) paths: Vec<String>,
    /// The server's own name; what is before the first dot where there is no such server.
    pub(super) backend: String,
    /// The tool's own name.
    pub(super) tool: String,
    pub(super) traits: Traits,
}

impl NamedTool {
    pub(super) fn of(config: &Checked, path: &str, annotations: Option<&Value>) -> Self {
        let servers = config.backends.keys().chain(&config.disabled).chain(config.incomplete.keys());
        let servers = NameTable::new(servers.map(|name| name.as_str()), NameScope::Global);
        let Some((server, written)) = split(path, &servers) else {
            let (backend, tool) = path.split_once('.').unwrap_or(("", path));
            let traits = Traits::of(backend, tool, annotations);
            return NamedTool {
                paths: vec![path.to_owned()],
                backend: backend.to_owned(),
                tool: tool.to_owned(),
                traits,
            };
        };
        let tool = own_name(config, server, written);
        let backend = server.original.clone();
        let mut paths = vec![
            format!("{backend}.{tool}"),
            format!("{}.{}", server.identifier, sanitise(&tool, NameScope::Member)),
            path.to_owned(),
        ];
        paths.dedup();
        let traits = traits(config, &backend, &tool, annotations);
        NamedTool { paths, backend, tool, traits }
    }
}

/// The server of a path and the rest of it. The name of a server may have dots.
fn split<'a>(path: &'a str, servers: &'a NameTable) -> Option<(&'a Name, &'a str)> {
    path.match_indices('.').find_map(|(at, _)| {
        let server = servers.names().get(servers.resolve(path.get(..at)?)?)?;
        Some((server, path.get(at + 1..)?))
    })
}

/// The name that the server gives to a tool.
fn own_name(config: &Checked, server: &Name, written: &str) -> String {
    let is_meant = |own: &str| sanitise(own, NameScope::Member) == written;
    let cached = cached_catalog(config, &server.original);
    let known: Vec<&str> =
        cached.backends().iter().flat_map(|it| it.tools()).map(|it| it.tool().name.as_str()).collect();
    if known.contains(&written) {
        return written.to_owned();
    }
    let of_server = |pattern: &'_ str| -> Option<String> {
        let names = [&server.original, &server.identifier];
        let rest = names.iter().find_map(|name| pattern.strip_prefix(name.as_str())?.strip_prefix('.'))?;
        Some(rest.to_owned())
    };
    let in_rules = || config.settings.policy.rules().iter().filter_map(|rule| of_server(rule.tool.as_str()));
    let known = known.into_iter().find(|own| is_meant(own)).map(str::to_owned);
    known.or_else(|| in_rules().find(|own| is_meant(own))).unwrap_or_else(|| written.to_owned())
}

/// What the line and, before it, the configuration say that a tool does.
fn traits(config: &Checked, backend: &str, tool: &str, annotations: Option<&Value>) -> Traits {
    let said = config.backends.get(backend).map(|server| server.policy.traits_of(tool)).unwrap_or_default();
    let listed =
        Tool::from_raw(json!({ "name": tool, "annotations": annotations.cloned().unwrap_or_else(|| json!({})) }));
    let listed = listed.map(|listed| listed.with_hints(said.hints()));
    Traits::of(backend, tool, listed.as_ref().and_then(Tool::annotations))
}
