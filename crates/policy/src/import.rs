//! Rules from the permission settings of clients: Claude Code's `permissions` and Codex's approval modes.
//!
//! What has no meaning here (rules about the client's own tools, such as `Bash(…)`) is listed, not guessed at.

use serde_json::Value;

use crate::{Action, WrittenRule};

/// What an import found.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The rules.
    pub rules: Vec<WrittenRule>,
    /// What happens to calls that no rule is about, where the file says so.
    pub default: Option<Action>,
    /// Entries that are about something else, or cannot be read.
    pub skipped: Vec<String>,
}

/// Reads the `permissions` of a Claude Code settings file: `allow`, `ask` and `deny` with entries such as
/// `mcp__github__create_issue`, `mcp__github` or `mcp__github__*`.
pub fn claude_code(settings: &Value) -> Imported {
    let permissions = settings.get("permissions").unwrap_or(settings);
    let mut imported = Imported { rules: Vec::new(), default: None, skipped: Vec::new() };
    for (list, action) in [("deny", Action::Deny), ("ask", Action::Ask), ("allow", Action::Allow)] {
        for entry in permissions.get(list).and_then(Value::as_array).into_iter().flatten() {
            match entry.as_str().and_then(mcp_path) {
                Some(tool) => imported.rules.push(WrittenRule::new(tool, action)),
                None => imported.skipped.push(entry.as_str().map_or_else(|| entry.to_string(), str::to_owned)),
            }
        }
    }
    imported.default = match permissions.get("defaultMode").and_then(Value::as_str) {
        Some("bypassPermissions") => Some(Action::Allow),
        Some("dontAsk") => Some(Action::Deny),
        Some("default" | "acceptEdits" | "plan") => Some(Action::Ask),
        _ if imported.rules.is_empty() => None,
        // What a client's rules do not mention, it asks about.
        _ => Some(Action::Ask),
    };
    imported
}

/// `mcp__server__tool` as `server.tool`; a server alone is all its tools. Names of tools may have `__` in them, names of
/// servers not.
fn mcp_path(entry: &str) -> Option<String> {
    let rest = entry.trim().strip_prefix("mcp__")?;
    // A constraint in brackets is the client's own, and means nothing for tools of servers.
    if rest.is_empty() || rest.contains(['(', ')']) {
        return None;
    }
    Some(match rest.split_once("__") {
        Some((server, tool)) if !tool.is_empty() => format!("{server}.{tool}"),
        Some((server, _)) => format!("{server}.*"),
        None => format!("{rest}.*"),
    })
}

/// Reads a Codex configuration, as a JSON tree: `approval_policy`, and per server `default_tools_approval_mode`,
/// `tools.NAME.approval_mode`, `enabled_tools` and `disabled_tools`.
pub fn codex(config: &Value) -> Imported {
    let mut imported = Imported { rules: Vec::new(), default: None, skipped: Vec::new() };
    imported.default = match config.get("approval_policy").and_then(Value::as_str) {
        Some("never") => Some(Action::Allow),
        Some("untrusted" | "on-request" | "on-failure") => Some(Action::Ask),
        Some(other) => {
            imported.skipped.push(format!("approval_policy = {other}"));
            None
        }
        None => None,
    };
    for (server, settings) in config.get("mcp_servers").and_then(Value::as_object).into_iter().flatten() {
        of_server(server, settings, &mut imported);
    }
    imported
}

fn of_server(server: &str, settings: &Value, imported: &mut Imported) {
    let named = |key: &str| settings.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for tool in named("disabled_tools") {
        imported.rules.push(WrittenRule::new(format!("{server}.{tool}"), Action::Deny).because("disabled in Codex"));
    }
    if settings.get("enabled_tools").is_some() {
        let enabled: Vec<&str> = named("enabled_tools").collect();
        let list = serde_json::to_string(&enabled).unwrap_or_default();
        let others = WrittenRule {
            when: Some(format!("!(tool.name in {list})")),
            ..WrittenRule::new(format!("{server}.*"), Action::Deny).because("not enabled in Codex")
        };
        imported.rules.push(others);
    }
    let mut of_mode = |tool: String, mode: &Value| match mode.as_str() {
        Some("approve") => imported.rules.push(WrittenRule::new(tool, Action::Allow)),
        Some("prompt") => imported.rules.push(WrittenRule::new(tool, Action::Ask)),
        // Codex decides by annotations.
        Some("auto") => {
            let mut rule = WrittenRule::new(tool, Action::Ask);
            rule.annotations.insert("readOnly".to_owned(), Value::Bool(false));
            imported.rules.push(rule);
        }
        _ => imported.skipped.push(format!("{tool}: approval mode {mode}")),
    };
    let tools = settings.get("tools").and_then(Value::as_object);
    let own: Vec<(&String, &Value)> =
        tools.into_iter().flatten().filter_map(|(tool, it)| Some((tool, it.get("approval_mode")?))).collect();
    for (tool, mode) in &own {
        of_mode(format!("{server}.{tool}"), mode);
    }
    let Some(mode) = settings.get("default_tools_approval_mode") else { return };
    of_mode(format!("{server}.*"), mode);
    // A tool with a mode of its own is not asked about because others are.
    let approved: Vec<&String> =
        own.iter().filter(|(_, mode)| mode.as_str() == Some("approve")).map(|(tool, _)| *tool).collect();
    if let Some(rule) = imported.rules.last_mut().filter(|rule| rule.action == Action::Ask && !approved.is_empty()) {
        rule.when = Some(format!("!(tool.name in {})", serde_json::to_string(&approved).unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(imported: &Imported, rules: &[&str], default: Option<Action>, skipped: &[&str]) {
        let shown = imported.rules.iter().map(|rule| {
            let when = rule.when.as_ref().map(|when| format!(" when {when}")).unwrap_or_default();
            let annotations = if rule.annotations.is_empty() { "" } else { " writes" };
            format!("{} {}{annotations}{when}", rule.action, rule.tool)
        });
        assert_eq!(shown.collect::<Vec<_>>(), rules);
        assert_eq!(imported.default, default);
        assert_eq!(imported.skipped, skipped);
        for rule in &imported.rules {
            rule.check("imported").expect("a rule that can be used");
        }
    }

    #[test]
    fn rules_of_claude_code_name_servers_and_tools() {
        let settings = json!({ "permissions": {
            "allow": ["mcp__github__list_issues", "mcp__docs", "mcp__fs__read_*", "Bash(npm test:*)"],
            "ask": ["mcp__github__create_issue"],
            "deny": ["mcp__bank__*", "mcp__slack__", 7, "mcp__", "mcp__a__b(c)"],
        }});
        check(
            &claude_code(&settings),
            &[
                "deny bank.*",
                "deny slack.*",
                "ask github.create_issue",
                "allow github.list_issues",
                "allow docs.*",
                "allow fs.read_*",
            ],
            Some(Action::Ask),
            &["7", "mcp__", "mcp__a__b(c)", "Bash(npm test:*)"],
        );
        check(&claude_code(&json!({ "permissions": {} })), &[], None, &[]);
        let open = json!({ "permissions": { "allow": ["mcp__a"], "defaultMode": "bypassPermissions" } });
        check(&claude_code(&open), &["allow a.*"], Some(Action::Allow), &[]);
    }

    #[test]
    fn modes_of_codex_are_about_servers_and_their_tools() {
        let config = json!({
            "approval_policy": "on-request",
            "mcp_servers": {
                "docs": { "default_tools_approval_mode": "approve" },
                "github": {
                    "disabled_tools": ["delete_repo"],
                    "default_tools_approval_mode": "auto",
                    "tools": { "close_issue": { "approval_mode": "prompt" }, "star": { "approval_mode": "approve" } },
                },
                "fs": { "enabled_tools": ["read_file"], "default_tools_approval_mode": "sometimes" },
            },
        });
        check(
            &codex(&config),
            &[
                "allow docs.*",
                "deny github.delete_repo",
                "ask github.close_issue",
                "allow github.star",
                "ask github.* writes when !(tool.name in [\"star\"])",
                "deny fs.* when !(tool.name in [\"read_file\"])",
            ],
            Some(Action::Ask),
            &["fs.*: approval mode \"sometimes\""],
        );
    }
}
