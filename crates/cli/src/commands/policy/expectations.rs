//! `toolgate policy test`: the policy against a file of expected decisions.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_config::Checked;
use toolgate_policy::{Action, CallCounts, Policy, PolicyCall};

use super::super::servers::configuration;
use super::super::{Exit, Usage};
use super::begin::text_of;
use super::named_tool::NamedTool;
use crate::args::policy::TestArgs;
use crate::print::{Style, counted, escape, out};

/// The most calls that a line may say were made before.
const MAX_COUNT: u64 = 100_000;

/// One line of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    tool: String,
    #[serde(default, alias = "args")]
    arguments: Map<String, Value>,
    #[serde(default = "local")]
    caller: String,
    #[serde(default = "chain")]
    profile: String,
    #[serde(default)]
    annotations: Option<Value>,
    #[serde(default)]
    counts: Earlier,
    #[serde(default, alias = "do")]
    expect: Option<Action>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Earlier {
    run: u64,
    day: u64,
}

fn local() -> String {
    "local".to_owned()
}

fn chain() -> String {
    "chain".to_owned()
}

pub(super) fn test(args: &TestArgs) -> anyhow::Result<Exit> {
    let config = configuration(&args.servers)?;
    let text = text_of(&args.file)?;
    let (mut lines, mut wrong) = (Vec::new(), 0_usize);
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let expectation: Expectation = serde_json::from_str(line)
            .map_err(|error| Usage(format!("{}:{number}: {error}", escape::line(&args.file.to_string_lossy()))))?;
        let (found, rule, reason) = decide(&config, &expectation);
        let is_wrong = expectation.expect.is_some_and(|expected| expected != found);
        wrong += usize::from(is_wrong);
        lines.push((number, expectation, found, rule, reason, is_wrong));
    }
    if lines.is_empty() {
        let file = escape::line(&args.file.to_string_lossy()).into_owned();
        let message = format!(
            "{file} expects nothing: write one JSON object a line, such as {{\"tool\": \"bank.pay\", \"expect\": \"ask\"}}"
        );
        return Err(Usage(message).into());
    }
    if args.json {
        let shown: Vec<Value> = lines
            .iter()
            .map(|(number, expectation, found, rule, reason, is_wrong)| {
                json!({
                    "line": number, "tool": expectation.tool, "do": found, "rule": rule, "reason": reason,
                    "expect": expectation.expect, "ok": !is_wrong,
                })
            })
            .collect();
        out(escape::json(&json!({ "lines": shown, "wrong": wrong }).to_string()))?;
    } else {
        let style = Style::stdout();
        for (number, expectation, found, rule, reason, is_wrong) in &lines {
            let mark = match (expectation.expect, is_wrong) {
                (None, _) => "  ".to_owned(),
                (Some(_), false) => style.good("ok"),
                (Some(expected), true) => style.bad(format_args!("expected {expected}")),
            };
            let by = rule.as_ref().map(|rule| format!(" by {rule}")).unwrap_or_default();
            let told = format!("{number}: {} {found}{by}: {reason}", expectation.tool);
            out(format_args!("{mark} {}", escape::line(&told)))?;
        }
        out(format_args!("{}, {wrong} other than expected", counted(lines.len(), "decision")))?;
    }
    Ok(if wrong == 0 { Exit::Done } else { Exit::Failed })
}

fn decide(config: &Checked, expectation: &Expectation) -> (Action, Option<String>, String) {
    let Expectation { tool: path, arguments, caller, profile, annotations, counts, .. } = expectation;
    let (policy, named) = (&config.settings.policy, NamedTool::of(config, path, annotations.as_ref()));
    let paths: Vec<&str> = named.paths.iter().map(String::as_str).collect();
    let args = Value::Object(arguments.clone());
    let call = PolicyCall {
        paths: &paths,
        backend: &named.backend,
        tool: &named.tool,
        traits: named.traits,
        caller,
        profile,
        args: &args,
    };
    let (run, day) = (made(policy, &call, counts.run), made(policy, &call, counts.day.max(counts.run)));
    let decision = policy.decide(&call, &run, &day);
    (decision.action, decision.rule.as_ref().map(|rule| rule.id.clone()), decision.reason())
}

/// So many calls like this one were let through before.
fn made(policy: &Policy, call: &PolicyCall<'_>, count: u64) -> CallCounts {
    let mut counts = CallCounts::default();
    let rule = policy.decide(call, &counts, &counts).rule;
    for _ in 0..count.min(MAX_COUNT) {
        counts.add(call.paths.first().unwrap_or(&""), rule.as_deref());
    }
    counts
}
