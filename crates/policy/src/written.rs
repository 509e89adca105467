//! Rules as the configuration writes them: for lists, drafts, imports and rules that are remembered.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rule::{DEFAULT_EXPIRY, parse_limits};
use crate::{Action, Condition, Glob, Rule, TraitFilter};

/// A rule in the form of `toolgate.policy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenRule {
    /// The tools.
    pub tool: String,
    /// The annotations that the tool must have.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
    /// The callers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<String>,
    /// The kinds of run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// The condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What happens.
    #[serde(rename = "do")]
    pub action: Action,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who may decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// How long a question stands, in seconds with the unit `s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<String>,
    /// Whether programs that may make such a call are staged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stage: bool,
    /// How many calls it lets through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<String>,
}

impl WrittenRule {
    /// A rule about these tools without conditions.
    pub fn new(tool: impl Into<String>, action: Action) -> Self {
        WrittenRule {
            tool: tool.into(),
            annotations: Map::new(),
            callers: Vec::new(),
            profiles: Vec::new(),
            when: None,
            action,
            reason: None,
            approvers: Vec::new(),
            expiry: None,
            stage: false,
            limits: None,
        }
    }

    /// The same with a reason.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        WrittenRule { reason: Some(reason.into()), ..self }
    }

    /// How a rule is written.
    pub fn of(rule: &Rule) -> Self {
        let texts = |globs: &[Glob]| globs.iter().map(|glob| glob.as_str().to_owned()).collect();
        let TraitFilter { read_only, destructive, open_world } = rule.traits;
        let annotations = [("readOnly", read_only), ("destructive", destructive), ("openWorld", open_world)];
        WrittenRule {
            tool: rule.tool.as_str().to_owned(),
            annotations: annotations
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), Value::Bool(value?))))
                .collect(),
            callers: texts(&rule.callers),
            profiles: rule.profiles.clone(),
            when: rule.when.as_ref().map(|when| when.text().to_owned()),
            action: rule.action,
            reason: rule.reason.clone(),
            approvers: texts(&rule.approvers),
            expiry: (rule.expiry != DEFAULT_EXPIRY).then(|| format!("{}s", rule.expiry.as_secs())),
            stage: rule.stage,
            limits: (rule.limits != crate::CallLimits::default()).then(|| rule.limits.to_string()),
        }
    }

    /// The rule, under this name.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub fn check(&self, id: impl Into<String>) -> Result<Rule, String> {
        let mut rule = Rule::new(id, self.tool.as_str(), self.action);
        for (name, value) in &self.annotations {
            let value = value.as_bool().ok_or_else(|| format!("annotations.{name} must be true or false"))?;
            match name.as_str() {
                "readOnly" => rule.traits.read_only = Some(value),
                "destructive" => rule.traits.destructive = Some(value),
                "openWorld" => rule.traits.open_world = Some(value),
                _ => {
                    return Err(format!(
                        "no annotation is named {name}: there are readOnly, destructive and openWorld"
                    ));
                }
            }
        }
        let globs = |texts: &[String]| texts.iter().map(|text| Glob::new(text.as_str())).collect();
        rule.callers = globs(&self.callers);
        rule.profiles = self.profiles.clone();
        rule.when = self.when.as_deref().map(Condition::parse).transpose().map_err(|fault| fault.to_string())?;
        rule.reason = self.reason.clone();
        rule.approvers = globs(&self.approvers);
        rule.stage = self.stage;
        if let Some(expiry) = &self.expiry {
            let seconds = expiry.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
            rule.expiry = seconds.map(Duration::from_secs).ok_or("expiry must be seconds, such as 600s")?;
        }
        if let Some(limits) = &self.limits {
            rule.limits = parse_limits(limits)?;
        }
        Ok(rule)
    }
}
