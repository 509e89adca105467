//! `toolgate policy explain`: what happens to one call, and why.

use serde_json::{Map, Value, json};
use toolgate_gateway::run::RunRequest;
use toolgate_gateway::runtime::Gateway;
use toolgate_plan::Arguments;
use toolgate_policy::{Call, Decision, Rule, Standing, TraitSource, Traits, Usage as Counts};
use toolgate_wire::Profile;

use super::super::servers::{Opened, catalog_with, table};
use super::super::{Exit, Usage};
use crate::args::policy::ExplainArgs;
use crate::print::{Style, escape, note, out};

pub(super) fn explain(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let (path, written) = split(&args.call);
    Opened::new(&args.servers)?.within(async |gateway| {
        let catalog = catalog_with(gateway, &path).await;
        let arguments = arguments(gateway, args, &path, written.as_deref())?;
        let found = match catalog.resolve(&path) {
            toolgate_catalog::Resolution::Found(found) => Some(found),
            _ => None,
        };
        let (paths, backend, tool, traits) = match found {
            Some(found) => {
                let (backend, tool) = (found.backend.name().to_owned(), found.tool().name.clone());
                let traits = Traits::of(&backend, &tool, found.tool().raw().get("annotations"));
                (vec![found.path(), found.spelling()], backend, tool, traits)
            }
            None => {
                note(format_args!("there is no tool {} now; its annotations are not known", escape::line(&path)));
                let (backend, tool) = path.split_once('.').unwrap_or(("", &path));
                (vec![path.clone()], backend.to_owned(), tool.to_owned(), Traits::of(backend, tool, None))
            }
        };
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let call = Call {
            paths: &paths,
            backend: &backend,
            tool: &tool,
            traits,
            caller: &args.caller,
            profile: &args.profile,
            args: &arguments,
        };
        let (policy, counts) = (gateway.bridge().policy(), Counts::default());
        let decision = policy.decide(&call, &counts, &counts);
        let rules: Vec<_> = policy.explain(&call, &counts, &counts);
        if args.json {
            let rules: Vec<Value> = rules.iter().map(|(rule, standing)| standing_json(rule, standing)).collect();
            let shown = json!({
                "tool": paths.first(), "arguments": arguments, "do": decision.action, "reason": decision.reason(),
                "rule": decision.rule.as_ref().map(|rule| &rule.id), "traits": traits, "rules": rules,
            });
            out(escape::json(&shown.to_string()))?;
        } else {
            print(&call, &decision, &rules)?;
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
fn arguments(gateway: &Gateway, args: &ExplainArgs, path: &str, written: Option<&str>) -> anyhow::Result<Value> {
    let Some(text) = args.arguments.as_deref().or(written) else { return Ok(Value::Object(Map::new())) };
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let program = format!("return await {path}({text})");
    let planned = gateway.runner().check(&RunRequest::new(Profile::Chain, program));
    let known = planned.ok().and_then(|found| match found.calls.into_iter().next()?.arguments {
        Arguments::Known(value) => Some(value),
        Arguments::Partial { .. } | Arguments::Unknown => None,
    });
    known.ok_or_else(|| Usage("the arguments are neither JSON nor an object of literals".to_owned()).into())
}

fn print(call: &Call<'_>, decision: &Decision, rules: &[(std::sync::Arc<Rule>, Standing)]) -> anyhow::Result<()> {
    let style = Style::stdout();
    let verdict = match decision.action {
        toolgate_policy::Action::Allow => style.good("allow"),
        toolgate_policy::Action::Ask => style.warn("ask"),
        toolgate_policy::Action::Deny => style.bad("deny"),
    };
    let by = decision.rule.as_ref().map(|rule| format!(" by {}", rule.id)).unwrap_or_default();
    out(format_args!("{verdict}{}: {}", escape::line(&by), escape::line(&decision.reason())))?;
    let Traits { read_only, destructive, source, .. } = call.traits;
    let effect = match (source, read_only, destructive) {
        (TraitSource::Unknown, ..) => "what it does is not known",
        (_, true, _) => "only reads",
        (_, false, true) => "may change or delete something",
        (_, false, false) => "adds something",
    };
    let from = match source {
        TraitSource::Annotation => " (says its annotation)",
        TraitSource::Preset => " (known of this server)",
        TraitSource::Verb => " (by its name)",
        TraitSource::Unknown => "",
    };
    out(format_args!("{}: {effect}{from}", escape::line(call.paths.first().unwrap_or(&""))))?;
    let near = rules.iter().filter(|(_, standing)| *standing != Standing::OtherTool);
    let rows: Vec<Vec<String>> = near
        .map(|(rule, standing)| vec![rule.id.clone(), rule.action.to_string(), rule.tool.to_string(), words(standing)])
        .collect();
    if !rows.is_empty() {
        out(table(&["rule", "do", "tool", "here"], &rows, style))?;
    }
    Ok(())
}

fn words(standing: &Standing) -> String {
    match standing {
        Standing::Applies => "applies".to_owned(),
        Standing::OtherTool => "is about other tools".to_owned(),
        Standing::OtherAnnotations => "is about tools with other annotations".to_owned(),
        Standing::OtherCaller => "is about other callers or kinds of run".to_owned(),
        Standing::ConditionFalse => "its condition does not hold".to_owned(),
        Standing::ConditionFailed(error) => format!("its condition fails: {error}"),
        Standing::UsedUp => "its limit is used up".to_owned(),
    }
}

fn standing_json(rule: &Rule, standing: &Standing) -> Value {
    let applies = matches!(standing, Standing::Applies | Standing::ConditionFailed(_) | Standing::UsedUp);
    json!({ "rule": rule.id, "do": rule.action, "tool": rule.tool.as_str(), "applies": applies, "here": words(standing) })
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
