//! A first policy for the tools that there are, for review.
//!
//! Reads are allowed, what adds or is not known is asked about, and what destroys too. The draft names tools one by one where
//! only a preset or a verb tells what they do, so that a reviewer sees each guess.

use serde::Serialize;

use crate::effect::TraitSource;
use crate::{Action, Traits, WrittenRule};

/// A tool that a draft is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DraftedTool {
    /// The backend's name.
    pub backend: String,
    /// The tool's own name.
    pub tool: String,
    /// What is known about its effects.
    pub traits: Traits,
}

/// A policy for these tools: rules, and what happens to calls that no rule is about.
pub fn draft(tools: &[DraftedTool]) -> (Vec<WrittenRule>, Action) {
    let mut backends: Vec<&str> = tools.iter().map(|tool| tool.backend.as_str()).collect();
    backends.sort_unstable();
    backends.dedup();
    let rules = backends.into_iter().flat_map(|backend| {
        let own: Vec<&DraftedTool> = tools.iter().filter(|tool| tool.backend == backend).collect();
        of_backend(backend, &own)
    });
    (rules.collect(), Action::Ask)
}

fn of_backend(backend: &str, tools: &[&DraftedTool]) -> Vec<WrittenRule> {
    let mut rules: Vec<WrittenRule> = Vec::new();
    if !tools.is_empty() && tools.iter().all(|tool| tool.traits.read_only) {
        let sources: Vec<&str> = tools.iter().map(|tool| because(tool.traits.source)).collect();
        let reason = match sources.iter().all(|source| *source == because(TraitSource::Annotation)) {
            true => "every tool says that it only reads",
            false => "every tool seems to only read",
        };
        rules.push(WrittenRule::new(format!("{backend}.*"), Action::Allow).because(reason));
        return rules;
    }
    for tool in tools {
        let path = format!("{backend}.{}", tool.tool);
        let Traits { read_only, destructive, source, .. } = tool.traits;
        let (action, effect) = match (read_only, destructive, source) {
            (_, _, TraitSource::Unknown) => (Action::Ask, "what it does is not known"),
            (true, ..) => (Action::Allow, "only reads"),
            (false, false, _) => (Action::Ask, "adds something"),
            (false, true, _) => (Action::Ask, "may change or delete something"),
        };
        let reason = match source {
            TraitSource::Unknown => effect.to_owned(),
            source => format!("{effect} ({})", because(source)),
        };
        rules.push(WrittenRule::new(path, action).because(reason));
    }
    rules
}

fn because(source: TraitSource) -> &'static str {
    match source {
        TraitSource::Annotation => "says its annotation",
        TraitSource::Preset => "known of this server",
        TraitSource::Verb => "by its name",
        TraitSource::Unknown => "not known",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_are_allowed_and_the_rest_is_asked_about() {
        let tool = |backend: &str, tool: &str, annotations| DraftedTool {
            backend: backend.to_owned(),
            tool: tool.to_owned(),
            traits: Traits::of(backend, tool, Some(&annotations)),
        };
        let tools = [
            tool("bank", "get_balance", json!({ "readOnlyHint": true })),
            tool("bank", "pay", json!({ "destructiveHint": true })),
            tool("bank", "frob", json!(null)),
            tool("docs", "search", json!(null)),
        ];
        let (rules, default) = draft(&tools);
        assert_eq!(default, Action::Ask);
        let shown: Vec<String> = rules
            .iter()
            .map(|rule| format!("{} {} {}", rule.tool, rule.action, rule.reason.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(
            shown,
            [
                "bank.get_balance allow only reads (says its annotation)",
                "bank.pay ask may change or delete something (says its annotation)",
                "bank.frob ask what it does is not known",
                "docs.* allow every tool seems to only read",
            ]
        );
        for rule in &rules {
            rule.check("draft").expect("a rule that can be used");
        }
    }
}
