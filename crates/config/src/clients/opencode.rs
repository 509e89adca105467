//! The tool filters of opencode, which are not in the entries of its servers.
//!
//! opencode calls a tool `SERVER_TOOL` and switches tools on and off by patterns of these names, in `tools` and `permission`
//! of its file; the last pattern that fits decides. They become `allow` and `deny` of each server that they fit. A filter
//! that has no equivalent is reported with the server: one that is lost silently widens what an agent may do.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::import::FoundServer;
use super::translate::DroppedKey;
use crate::text::tree::{Entry, Node};
use crate::values::Glob;

/// Longest pattern that is translated, in characters.
const MAX_PATTERN_CHARS: usize = 400;

/// One pattern of a file.
#[derive(Debug, Clone)]
pub(super) struct ToolRule {
    /// Where it is in the file.
    key: String,
    pattern: String,
    effect: RuleEffect,
}

#[derive(Debug, Clone, Copy)]
enum RuleEffect {
    Hide,
    Show,
    /// Nothing that Toolgate can do, with the reason.
    Unmapped(&'static str),
}

/// The patterns of a file, in the order in which they hold.
pub(super) fn rules(file: &Node) -> Vec<ToolRule> {
    let mut rules = section(file.get("tools"), "tools", |value| match value {
        Json::Bool(false) => RuleEffect::Hide,
        Json::Bool(true) => RuleEffect::Show,
        _ => RuleEffect::Unmapped("it is neither true nor false"),
    });
    rules.extend(section(file.get("permission"), "permission", |value| match value.as_str() {
        Some("deny") => RuleEffect::Hide,
        Some("allow") => RuleEffect::Show,
        _ => RuleEffect::Unmapped("a rule of toolgate.policy asks about calls"),
    }));
    for agent in file.get("agent").and_then(Node::entries).unwrap_or_default() {
        for kind in ["tools", "permission"] {
            let key = format!("agent.{}.{kind}", agent.key);
            let why = "Toolgate does not know the agents of a client";
            rules.extend(section(agent.node.get(kind), &key, |_| RuleEffect::Unmapped(why)));
        }
    }
    rules
}

fn section(node: Option<&Node>, key: &str, effect: impl Fn(&Json) -> RuleEffect) -> Vec<ToolRule> {
    let rule = |entry: &Entry| ToolRule {
        key: format!("{key}.{}", entry.key),
        pattern: entry.key.clone(),
        effect: match entry.key.chars().count() > MAX_PATTERN_CHARS {
            true => RuleEffect::Unmapped("the pattern is too long"),
            false => effect(&entry.node.to_json()),
        },
    };
    node.and_then(Node::entries).unwrap_or_default().iter().map(rule).collect()
}

/// Applies the rules to a server that is imported.
pub(super) fn filter<'a>(server: &mut FoundServer, rules: impl Iterator<Item = &'a ToolRule>) {
    if server.skipped.is_some() {
        return;
    }
    let mut filter = ToolFilter::default();
    for rule in rules {
        for rest in tools_of(&rule.pattern, &server.name) {
            if let Some(why) = filter.apply(rest, rule.effect)
                && !server.dropped.iter().any(|dropped| dropped.key == rule.key)
            {
                server.dropped.push(DroppedKey { key: rule.key.clone(), why });
            }
        }
    }
    match filter.shown.as_deref() {
        Some([]) => filter.hidden = vec!["*".to_owned()],
        Some(shown) => drop(server.settings.insert("allow".to_owned(), json!(shown))),
        None => {}
    }
    if !filter.hidden.is_empty() {
        server.settings.insert("deny".to_owned(), json!(filter.hidden));
    }
}

/// The patterns of a server's own tools, as far as the rules have been applied.
#[derive(Default)]
struct ToolFilter {
    /// The only tools that are shown; `None` means all.
    shown: Option<Vec<String>>,
    /// Tools that are hidden; takes precedence.
    hidden: Vec<String>,
}

impl ToolFilter {
    /// Applies one rule; returns why it cannot be.
    fn apply(&mut self, tools: String, effect: RuleEffect) -> Option<&'static str> {
        match (effect, tools.as_str()) {
            (RuleEffect::Unmapped(why), _) => return Some(why),
            (RuleEffect::Hide, "*") => *self = ToolFilter { shown: Some(Vec::new()), hidden: Vec::new() },
            (RuleEffect::Show, "*") => *self = ToolFilter::default(),
            (RuleEffect::Hide, _) => self.hidden.push(tools),
            (RuleEffect::Show, _) => {
                self.hidden.retain(|hidden| *hidden != tools);
                let is_pattern = tools.contains(['*', '?']);
                let stays_hidden = self.hidden.iter().any(|hidden| is_pattern || Glob::new(hidden).matches(&tools));
                self.shown.as_mut().into_iter().for_each(|shown| shown.push(tools.clone()));
                return stays_hidden.then_some("tools that another pattern hides stay hidden");
            }
        }
        None
    }
}

/// The patterns of the tools of a server that a pattern fits; none if it is not about this server.
fn tools_of(pattern: &str, server: &str) -> Vec<String> {
    let is_long = pattern.chars().count() > MAX_PATTERN_CHARS;
    let (pattern, server) = (plain(pattern), plain(server));
    // The name of a server alone stands for all of its tools, and a long pattern may fit any.
    if is_long || pattern == server { vec!["*".to_owned()] } else { rest_after(&pattern, &format!("{server}_")) }
}

/// As opencode writes names; stars and question marks of patterns stay.
fn plain(text: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '?');
    text.chars().map(|c| if is_kept(c) { c } else { '_' }).collect()
}

/// What is left of a pattern behind a text that it begins with: several patterns where a star may end inside the text or
/// behind it.
fn rest_after(pattern: &str, text: &str) -> Vec<String> {
    let mut pattern: Vec<char> = pattern.chars().collect();
    pattern.dedup_by(|next, before| (*next, *before) == ('*', '*'));
    let mut places = BTreeSet::from([0]);
    for c in text.chars() {
        let mut next = BTreeSet::new();
        for mut place in places {
            if pattern.get(place) == Some(&'*') {
                next.insert(place);
                // It may also stand for nothing.
                place += 1;
            }
            if pattern.get(place).is_some_and(|fits| *fits == '?' || *fits == c) {
                next.insert(place + 1);
            }
        }
        places = next;
    }
    let rests = places.into_iter().filter_map(|place| pattern.get(place..).map(|rest| rest.iter().collect::<String>()));
    let rests: Vec<String> = rests.filter(|rest| !rest.is_empty()).collect();
    if rests.iter().any(|rest| rest == "*") { vec!["*".to_owned()] } else { rests }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_behind_the_name_of_its_server_is_one_of_its_tools() {
        let check = |pattern: &str, server: &str, expected: &[&str]| {
            assert_eq!(tools_of(pattern, server), expected, "{pattern} of {server}");
        };
        check("gh_*", "gh", &["*"]);
        check("gh", "gh", &["*"]);
        check("gh*", "gh-work", &["*"]);
        check("gh_get_issue", "gh", &["get_issue"]);
        check("gh_get_?", "gh", &["get_?"]);
        check("g?_get", "gh", &["get"]);
        check("*", "gh", &["*"]);
        check("*_delete_*", "gh", &["*_delete_*", "delete_*"]);
        check("my_server_*", "my.server", &["*"]);
        check("gh_", "gh", &[]);
        check("bash", "gh", &[]);
        check("ghost_*", "gh", &[]);
    }
}
