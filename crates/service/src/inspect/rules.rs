//! The rules of the policy as a caller may see them: in `GET /v1/policy`; what they say about a call that is not made:
//! `POST /v1/policy/explain`; an approval that is taken back: `DELETE /v1/policy/remembered/{id}`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolgate_bridge::approvals::{RememberError, RememberedRule};
use toolgate_bridge::{Bridge, QuestionedCall, caller_in_rules, standing_applies, standing_words};
use toolgate_wire::{CallerScope, Profile};

use crate::body::Received;
use crate::path::Path;
use crate::refusal::{Refusal, Shown};
use crate::{Caller, HttpService};

/// A rule of the policy.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RuleReply {
    /// Its name, such as `policy[2]`; reports and the audit log name it.
    rule: String,
    /// What happens: `allow`, `ask` or `deny`.
    #[serde(rename = "do")]
    action: &'static str,
    /// The tools: a pattern over `backend.tool`.
    tool: String,
    /// The annotations that the tool must have.
    annotations: Map<String, Value>,
    /// The callers; every caller when empty. Shown to the user of this machine alone.
    callers: Vec<String>,
    /// The kinds of run; every kind when empty.
    profiles: Vec<String>,
    /// The condition, in CEL.
    when: Option<String>,
    /// How many calls it lets through.
    limits: Option<String>,
    /// Why.
    reason: Option<String>,
    /// Who may decide: patterns over the names of keys; the caller of the run when empty.
    approvers: Vec<String>,
}

/// An approval that stands for later calls.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RememberedReply {
    /// Its name, by which it is forgotten.
    id: String,
    /// The caller whose calls it allows.
    caller: String,
    /// The run whose calls it allows; every run when absent.
    run: Option<String>,
    /// Whether it stays when the gateway ends.
    for_good: bool,
    /// The tool.
    tool: String,
    /// The condition on its arguments.
    when: Option<String>,
}

impl From<RememberedRule> for RememberedReply {
    fn from(it: RememberedRule) -> Self {
        let RememberedRule { id, caller, run, for_good, rule, .. } = it;
        RememberedReply { id, caller, run, for_good, tool: rule.tool, when: rule.when }
    }
}

/// The rules that a caller may see, in the order in which they decide.
pub(super) fn rules(bridge: &Bridge, scope: &CallerScope) -> Vec<RuleReply> {
    let is_local = scope.name.is_empty();
    let shown = bridge.rules_for(scope).into_iter().map(|(rule, it)| RuleReply {
        rule,
        action: it.action.name(),
        tool: it.tool,
        annotations: it.annotations,
        callers: if is_local { it.callers } else { Vec::new() },
        profiles: it.profiles,
        when: it.when,
        limits: it.limits,
        reason: it.reason,
        approvers: it.approvers,
    });
    shown.collect()
}

/// The approvals that stand for calls of a caller. A file that cannot be read shows none.
pub(super) fn remembered(bridge: &Bridge, scope: &CallerScope) -> Vec<RememberedReply> {
    bridge.remembered_for(scope).unwrap_or_default().into_iter().map(RememberedReply::from).collect()
}

/// A call to explain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExplainRequest {
    /// `backend.tool`, in any spelling, or the name of a host function.
    #[schemars(required, with = "String", length(min = 1, max = 500))]
    tool: Option<String>,
    /// The arguments; none when absent.
    #[schemars(with = "Option<Map<String, Value>>")]
    arguments: Option<Box<RawValue>>,
    /// The kind of run: `chain` when absent.
    profile: Option<ProfileName>,
}

/// The kind of run that a call is part of.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProfileName {
    /// A program with tools.
    Chain,
    /// A program of `run_code`.
    Snippet,
    /// A computation.
    Compute,
    /// A call without a program.
    Direct,
}

/// What would happen to a call, and why.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainReply {
    /// The name of the tool as its server gives it; the name in the request if there is no such tool.
    tool: String,
    /// Whether the caller has such a tool now. The annotations of one that it has not are not known.
    known: bool,
    /// What would happen: `allow`, `ask` or `deny`.
    #[serde(rename = "do")]
    action: &'static str,
    /// The rule that decides; `null` where none is about the call.
    rule: Option<String>,
    /// Why.
    reason: String,
    /// What the tool does, and from where that is known.
    effect: &'static str,
    /// The rules that are about the tool, in the order in which they decide.
    rules: Vec<StandingReply>,
}

/// A rule, and what it says of the call.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StandingReply {
    /// Its name.
    rule: String,
    /// What it says.
    #[serde(rename = "do")]
    action: &'static str,
    /// The tools that it is about.
    tool: String,
    /// Whether it holds for this call.
    applies: bool,
    /// Why it does or does not.
    here: String,
}

/// Characters of the name of a tool.
const MAX_NAME: usize = 500;

pub(crate) async fn explain(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    received: Received<ExplainRequest>,
) -> Result<Json<ExplainReply>, Refusal> {
    let Received { value: ExplainRequest { tool, arguments, profile }, mut share } = received;
    let tool = tool.ok_or_else(|| Refusal::missing("/tool"))?;
    if tool.is_empty() || tool.chars().nth(MAX_NAME).is_some() {
        return Err(Refusal::field("/tool", format!("must have between 1 and {MAX_NAME} characters")));
    }
    let profile = match profile.unwrap_or(ProfileName::Chain) {
        ProfileName::Chain => Profile::Chain.name(),
        ProfileName::Snippet => Profile::Snippet.name(),
        ProfileName::Compute => Profile::Compute.name(),
        ProfileName::Direct => "direct",
    };
    let (scope, bridge) = (caller.scope(), service.runner().bridge());
    let arguments = match arguments.map(|text| share.tree("/arguments", &text)).transpose()? {
        None => Value::Object(Map::new()),
        Some(object @ Value::Object(_)) => object,
        Some(_) => return Err(Refusal::field("/arguments", "must be an object")),
    };
    let call = QuestionedCall { path: &tool, arguments: &arguments, caller: caller_in_rules(&scope), profile };
    // What the policy does to a function that the caller has is told, though the catalog does not know the function.
    let is_function = service.runner().functions(&scope).get(&tool).is_some();
    let explained = match is_function {
        true => bridge.explain(&CallerScope { name: String::new(), ..scope.clone() }, call),
        false => bridge.explain(&scope, call),
    };
    let visible: Vec<String> = bridge.rules_for(&scope).into_iter().map(|(id, _)| id).collect();
    let rules = explained.near().filter(|(rule, _)| visible.contains(&rule.id)).map(|(rule, standing)| StandingReply {
        rule: rule.id.clone(),
        action: rule.action.name(),
        tool: rule.tool.as_str().to_owned(),
        applies: standing_applies(standing),
        here: standing_words(standing),
    });
    let decided = explained.decision.rule.as_ref();
    let is_shown = decided.is_none_or(|rule| visible.contains(&rule.id) || explained.is_known);
    Ok(Json(ExplainReply {
        rules: rules.collect(),
        known: explained.is_known,
        action: explained.decision.action.name(),
        rule: decided.filter(|_| is_shown).map(|rule| rule.id.clone()),
        reason: if is_shown {
            explained.decision.reason()
        } else {
            "a rule that this caller does not see decides".to_owned()
        },
        effect: explained.effect(),
        tool: explained.tool,
    }))
}

pub(crate) async fn forget(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<StatusCode, Refusal> {
    match service.runner().forget_approval(&caller.scope(), &id).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(RememberError::Unknown(_)) => {
            Err(Refusal::NoSuch(format!("no remembered rule is named {}", Shown::new(&id))))
        }
        Err(error) => Err(Refusal::unavailable(error.to_string())),
    }
}
