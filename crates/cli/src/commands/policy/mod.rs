//! `toolgate policy`: rules drafted, explained, tested, listed and imported. Nothing here changes a file.
//!
//! # Layout
//! - `explain`: what happens to one call; `expectations`: to many, compared with a file; `named_tool`: the tools of its lines
//! - `misnamed`: rules that name a tool which its server does not have
//! - `begin`: policies to begin with: a draft, and imports from clients

mod begin;
mod expectations;
mod explain;
mod misnamed;
mod named_tool;

pub(crate) use misnamed::misnamed_tools;

use serde_json::{Value, json};
use toolgate_bridge::approvals::{RememberError, RememberedRule, RememberedRules};
use toolgate_config::Checked;
use toolgate_gateway::runtime::cached_catalog;
use toolgate_policy::{Policy, WrittenRule};

use super::servers::sharing::{forget_running_approval, running_approvals};
use super::servers::{configuration, table};
use super::{Exit, Usage};
use crate::args::policy::{ListArgs, PolicyCommand, RevokeArgs};
use crate::print::{Style, escape, note, out};

pub(crate) fn policy(command: &PolicyCommand) -> anyhow::Result<Exit> {
    match command {
        PolicyCommand::Draft(args) => begin::draft(args),
        PolicyCommand::Explain(args) => explain::explain(args),
        PolicyCommand::Test(args) => expectations::test(args),
        PolicyCommand::List(args) => list(args),
        PolicyCommand::Revoke(args) => revoke(args),
        PolicyCommand::Import(args) => begin::import(args),
    }
}

fn list(args: &ListArgs) -> anyhow::Result<Exit> {
    let config = configuration(&args.servers)?;
    let policy = &config.settings.policy;
    let mut remembered = RememberedRules::new(config.remembered_rules_file()).list()?;
    remembered.extend(running_approvals(&config)?);
    if args.json {
        let rules: Vec<Value> =
            policy.in_order().iter().map(|rule| described(&rule.id, &WrittenRule::of(rule))).collect();
        let notices = misnamed_in_cache(&config);
        let shown = json!({
            "rules": rules, "default": policy.default_action(), "remembered": remembered, "notices": notices,
        });
        out(escape::json(&shown.to_string()))?;
        return Ok(Exit::Done);
    }
    if policy.rules().is_empty() {
        note("there are no rules: every call is allowed and recorded; `toolgate policy draft` writes some");
    } else {
        let rows: Vec<Vec<String>> =
            policy.in_order().iter().map(|rule| row(&rule.id, &WrittenRule::of(rule))).collect();
        out(table(&["rule", "do", "tool", "conditions", "reason"], &rows, Style::stdout()))?;
    }
    out(format_args!("calls that no rule is about: {}", policy.default_action()))?;
    config.warnings.iter().for_each(|warning| note(escape::text(&warning.to_string())));
    misnamed_in_cache(&config).iter().for_each(|notice| note(escape::line(notice)));
    let (kept, short): (Vec<_>, Vec<_>) = remembered.iter().partition(|rule| rule.for_good);
    if !kept.is_empty() {
        let when = |it: &RememberedRule| it.rule.when.clone().unwrap_or_default();
        list_remembered(&["approved for good", "caller", "tool", "when"], &kept, when)?;
    }
    if !short.is_empty() {
        let until = |it: &RememberedRule| it.run.as_ref().map_or("the session", |_| "the run").to_owned();
        list_remembered(&["approved until", "caller", "tool", "the end of"], &short, until)?;
    }
    Ok(Exit::Done)
}

/// Rules that name tools which their servers did not have when they were last connected to. No server is started.
fn misnamed_in_cache(config: &Checked) -> Vec<String> {
    let of_server = |server: &str| {
        let cached = cached_catalog(config, server);
        let tools = cached.backends().iter().flat_map(|backend| backend.tools());
        let tools: Vec<&str> = tools.map(|entry| entry.tool().name.as_str()).collect();
        misnamed_tools(&config.settings.policy, &cached, server, &tools)
    };
    config.backends.keys().flat_map(|server| of_server(server.as_str())).collect()
}

fn list_remembered(
    head: &[&str],
    rules: &[&RememberedRule],
    last: impl Fn(&RememberedRule) -> String,
) -> anyhow::Result<()> {
    let row = |it: &&RememberedRule| vec![it.id.clone(), it.caller.clone(), it.rule.tool.clone(), last(it)];
    let rows: Vec<Vec<String>> = rules.iter().map(row).collect();
    out(format_args!("\n{}", table(head, &rows, Style::stdout())))
}

fn revoke(args: &RevokeArgs) -> anyhow::Result<Exit> {
    let config = configuration(&args.servers)?;
    if forget_running_approval(&config, &args.id)? {
        note(format_args!("forgotten: {}", escape::line(&args.id)));
        return Ok(Exit::Done);
    }
    match RememberedRules::new(config.remembered_rules_file()).revoke(&args.id) {
        Ok(()) => {
            note(format_args!("forgotten: {}", escape::line(&args.id)));
            Ok(Exit::Done)
        }
        Err(error @ RememberError::Unknown(_)) => Err(Usage(escape::line(&error.to_string()).into_owned()).into()),
        Err(error) => Err(error.into()),
    }
}

/// The rule as it is written, with its name.
fn described(id: &str, rule: &WrittenRule) -> Value {
    let mut shown = json!({ "rule": id });
    if let (Value::Object(shown), Ok(Value::Object(rule))) = (&mut shown, serde_json::to_value(rule)) {
        shown.extend(rule);
    }
    shown
}

fn row(id: &str, rule: &WrittenRule) -> Vec<String> {
    let conditions = [
        (!rule.annotations.is_empty()).then(|| {
            let named = rule.annotations.iter().map(|(name, value)| match value {
                Value::Bool(false) => format!("not {name}"),
                _ => name.clone(),
            });
            named.collect::<Vec<_>>().join(", ")
        }),
        (!rule.callers.is_empty()).then(|| format!("callers {}", rule.callers.join(", "))),
        (!rule.profiles.is_empty()).then(|| rule.profiles.join(", ")),
        rule.when.clone(),
        rule.limits.clone(),
    ];
    let conditions: Vec<String> = conditions.into_iter().flatten().collect();
    let reason = rule.reason.clone().unwrap_or_default();
    vec![id.to_owned(), rule.action.to_string(), rule.tool.clone(), conditions.join("; "), reason]
}

/// The part of a configuration file that has this policy.
fn written(rules: &[WrittenRule], default: Option<toolgate_policy::Action>) -> anyhow::Result<Value> {
    let mut toolgate = json!({ "policy": serde_json::to_value(rules)? });
    if let Some(default) = default {
        toolgate["policy_default"] = json!(default);
    }
    Ok(json!({ "toolgate": toolgate }))
}

/// Prints such a part with one rule a line, after making sure that it can be used.
fn print_written(rules: &[WrittenRule], default: Option<toolgate_policy::Action>) -> anyhow::Result<()> {
    let checked: Result<Vec<_>, String> = rules.iter().map(|rule| rule.check("policy")).collect();
    checked.map(|rules| Policy::new(rules, toolgate_policy::Action::Ask)).map_err(anyhow::Error::msg)?;
    let mut text = "{\n  \"toolgate\": {\n    \"policy\": [".to_owned();
    for (index, rule) in rules.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        text.push_str(&format!("{comma}\n      {}", serde_json::to_string(rule)?));
    }
    text.push_str(if rules.is_empty() { "]" } else { "\n    ]" });
    if let Some(default) = default {
        text.push_str(&format!(",\n    \"policy_default\": \"{default}\""));
    }
    text.push_str("\n  }\n}");
    out(escape::json(&text))
}
