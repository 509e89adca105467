//! `toolgate policy explain`: what happens to one call, and why.

use serde_json::{Map, Value, json};
use toolgate_bridge::{Explained, QuestionedCall, standing_applies, standing_words};
use toolgate_catalog::UnknownName;
use toolgate_policy::{Rule, RuleMatch};
use toolgate_wire::CallerScope;

use super::super::servers::{Opened, catalog_with, table};
use super::super::{Exit, Usage};
use crate::args::policy::ExplainArgs;
use crate::print::{Style, escape, note, out};

pub(super) fn explain(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let (path, written) = split(&args.call);
    Opened::new(&args.servers)?.within(async |gateway| {
        catalog_with(gateway, &path).await;
        let arguments = arguments(args, written.as_deref())?;
        let (caller, profile) = (args.caller.as_str(), args.profile.as_str());
        let call = QuestionedCall { path: &path, arguments: &arguments, caller, profile };
        let explained = gateway.bridge().explain(&CallerScope::default(), call);
        if !explained.is_known {
            let near = gateway.catalog().suggest(UnknownName::Tool, &path);
            let near = if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(" or ")) };
            let told = format!("there is no tool {path} now; its annotations are not known{near}");
            note(escape::line(&told));
        }
        if args.json {
            let Explained { tool, traits, decision, rules, .. } = &explained;
            let rules: Vec<Value> = rules.iter().map(|(rule, standing)| standing_json(rule, standing)).collect();
            let shown = json!({
                "tool": tool, "known": explained.is_known, "arguments": arguments, "do": decision.action, "reason": decision.reason(),
                "rule": decision.rule.as_ref().map(|rule| &rule.id), "traits": traits, "rules": rules,
            });
            out(escape::json(&shown.to_string()))?;
        } else {
            print(&explained)?;
        }
        Ok(Exit::Done)
    })
}

/// `backend.tool` and what is in the brackets after it.
fn split(call: &str) -> (String, Option<String>) {
    let call = call.trim().trim_end_matches(';').trim_end();
    match call.split_once('(') {
        Some((path, rest)) => {
            let rest = rest.strip_suffix(')').unwrap_or(rest).trim();
            (path.trim().to_owned(), (!rest.is_empty()).then(|| rest.to_owned()))
        }
        None => (call.to_owned(), None),
    }
}

/// The arguments as JSON, or as a program would write them.
fn arguments(args: &ExplainArgs, written: Option<&str>) -> anyhow::Result<Value> {
    let Some(text) = args.arguments.as_deref().or(written) else { return Ok(Value::Object(Map::new())) };
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let known = toolgate_plan::literal_arguments(text);
    known.ok_or_else(|| Usage("the arguments are neither JSON nor an object of literals".to_owned()).into())
}

fn print(explained: &Explained) -> anyhow::Result<()> {
    let (style, decision) = (Style::stdout(), &explained.decision);
    let verdict = match decision.action {
        toolgate_policy::Action::Allow => style.good("allow"),
        toolgate_policy::Action::Ask => style.warn("ask"),
        toolgate_policy::Action::Deny => style.bad("deny"),
    };
    let by = decision.rule.as_ref().map(|rule| format!(" by {}", rule.id)).unwrap_or_default();
    out(format_args!("{verdict}{}: {}", escape::line(&by), escape::line(&decision.reason())))?;
    out(format_args!("{}: {}", escape::line(&explained.tool), explained.effect()))?;
    let row = |(rule, standing): &(std::sync::Arc<Rule>, RuleMatch)| {
        vec![rule.id.clone(), rule.action.to_string(), rule.tool.to_string(), standing_words(standing)]
    };
    let rows: Vec<Vec<String>> = explained.near().map(row).collect();
    if !rows.is_empty() {
        out(table(&["rule", "do", "tool", "here"], &rows, style))?;
    }
    Ok(())
}

fn standing_json(rule: &Rule, standing: &RuleMatch) -> Value {
    let (applies, here) = (standing_applies(standing), standing_words(standing));
    json!({ "rule": rule.id, "do": rule.action, "tool": rule.tool.as_str(), "applies": applies, "here": here })
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_call_is_a_path_and_what_is_in_its_brackets() {
        let check = |call: &str, path: &str, rest: Option<&str>| {
            assert_eq!(split(call), (path.to_owned(), rest.map(str::to_owned)), "{call}");
        };
        check("bank.pay", "bank.pay", None);
        check("bank.pay()", "bank.pay", None);
        check(" bank.pay ({ \"a\": \"(x)\" }); ", "bank.pay", Some("{ \"a\": \"(x)\" }"));
    }
}
