//! Bodies of `/v1/runs`: durable runs, the calls that wait in them, and decisions.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolgate_run::durable::{DecisionKind, PendingView, RunStatus};
use toolgate_wire::Limit;
use toolgate_wire::limits::MB;

use super::bounded::text_or_one_member;
use super::{BoundedList, EngineName, FunctionNames, RunProfile, RunReply, Whole};

/// Decisions in one request.
pub(crate) const MAX_DECISIONS: usize = 1000;

/// A program to run that outlives its request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "DurableRunRequest")]
pub(crate) struct DurableRunBody {
    /// TypeScript or JavaScript: the body of an async function, or a module with a default export.
    #[schemars(required, with = "String")]
    pub(crate) code: Option<String>,
    /// Values that the program sees as its frozen global `context`.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub(crate) context: Option<Box<RawValue>>,
    /// The functions that the program may call; without a list, all that the caller may use.
    pub(crate) functions: Option<FunctionNames>,
    /// Time limit in milliseconds. Time in which no process executes the run does not count.
    #[schemars(with = "Option<u64>", range(min = Limit::Wall.spec().min, max = Limit::Wall.spec().max))]
    pub(crate) timeout_ms: Option<Whole>,
    /// Memory limit in megabytes.
    #[serde(rename = "maxHeapMB")]
    #[schemars(with = "Option<u64>", range(min = Limit::Memory.spec().min / MB, max = Limit::Memory.spec().max / MB))]
    pub(crate) max_heap_mb: Option<Whole>,
    /// The kind of run; `chain` if absent.
    pub(crate) profile: Option<RunProfile>,
    /// The interpreter; the configured one if absent.
    pub(crate) engine: Option<EngineName>,
    /// A URL that gets a signed request when the run has ended.
    #[schemars(with = "Option<String>", url)]
    pub(crate) webhook: Option<String>,
    /// Always true; may be absent.
    #[schemars(with = "Option<bool>", extend("const" = true))]
    pub(crate) durable: Option<bool>,
    /// Sends no write before all of them were reviewed: the run is paused with the review.
    pub(crate) stage: Option<bool>,
}

/// Where a durable run is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunStatusName(pub(crate) RunStatus);

impl Serialize for RunStatusName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl JsonSchema for RunStatusName {
    fn schema_name() -> Cow<'static, str> {
        "RunStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let all = [RunStatus::Running, RunStatus::Paused, RunStatus::Done].map(RunStatus::name);
        json_schema!({"type": "string", "enum": all, "description": "Where a durable run is in its life."})
    }
}

/// A durable run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunStateReply {
    /// The id of the run.
    pub(crate) run_id: String,
    /// Whether it runs, waits for decisions, or has ended.
    pub(crate) status: RunStatusName,
    /// When it began and when it last changed, in milliseconds since 1970.
    #[serde(flatten, serialize_with = "times")]
    #[schemars(with = "RunTimes")]
    pub(crate) times: Option<(u64, u64)>,
    /// The report of a run that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<RunReply>")]
    pub(crate) report: Option<Box<RawValue>>,
    /// The calls that wait for a decision.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<PendingReply>>")]
    pub(crate) pending: Vec<PendingView>,
    /// The program, where calls wait for a decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
}

impl RunStateReply {
    /// A run of which nothing else is known.
    pub(crate) fn new(run_id: String, status: RunStatus) -> Self {
        RunStateReply {
            run_id,
            status: RunStatusName(status),
            times: None,
            report: None,
            pending: Vec::new(),
            code: None,
        }
    }
}

fn times<S: Serializer>(times: &Option<(u64, u64)>, serializer: S) -> Result<S::Ok, S::Error> {
    let times = RunTimes { began_at: times.map(|times| times.0), changed_at: times.map(|times| times.1) };
    times.serialize(serializer)
}

/// When a run began and last changed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RunTimes {
    /// When it began, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    began_at: Option<u64>,
    /// When it last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_at: Option<u64>,
}

/// The fields of a call that waits for a decision, for the schema alone.
#[derive(JsonSchema)]
#[schemars(rename = "PendingCall", rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema is generated from it")]
pub(crate) struct PendingReply {
    /// Names the question, for decisions: the number of the call in its run, or another one where no rule asks.
    call_id: u32,
    /// The backend; absent where a host function is called.
    #[schemars(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    /// The tool, or the function.
    tool: String,
    /// The arguments as they would be sent.
    arguments: Value,
    /// Why a person is asked.
    reason: String,
    /// The rule that says so.
    #[schemars(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Who may decide: patterns over the names of keys.
    #[schemars(skip_serializing_if = "Option::is_none")]
    approvers: Option<Vec<String>>,
    /// The command with which a person logs in, where the call waits for that: it is made once the login is there.
    #[schemars(skip_serializing_if = "Option::is_none")]
    login: Option<String>,
    /// When it was asked first, in milliseconds since 1970.
    asked_at: u64,
    /// When the call fails if it is still undecided.
    expires_at: u64,
    /// What the question is about, where no rule asks: `{"kind": "unknownEffect", "call", "sentAt"}` or
    /// `{"kind": "changedSchema", "schema"}`, or `{"kind": "form", "message", "schema"}`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    about: Option<Value>,
    /// Of a line of the review of a staged run: what else a person should know about it.
    #[schemars(skip_serializing_if = "Option::is_none")]
    staged: Option<StagedReply>,
}

/// A line of the review of a staged run, for the schema alone.
#[derive(JsonSchema)]
#[schemars(rename = "StagedCall", rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema is generated from it")]
struct StagedReply {
    /// What is filled into the arguments once earlier lines are sent.
    substitutions: Vec<SubstitutionReply>,
    /// Of the last line: the value that the program depends on, so that what it does afterwards is not known yet.
    #[schemars(skip_serializing_if = "Option::is_none")]
    commit_point: Option<String>,
}

/// A value that is filled in.
#[derive(JsonSchema)]
#[schemars(rename = "Substitution", rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema is generated from it")]
struct SubstitutionReply {
    /// The place in the arguments: a JSON pointer.
    at: String,
    /// The line whose answer is filled in.
    line: u32,
    /// The value in that answer: a JSON pointer.
    value: String,
}

/// Decisions about calls that wait for a person.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "DecisionsRequest")]
pub(crate) struct DecisionsBody {
    /// The decisions; all are checked before the first is taken.
    #[schemars(required, with = "BoundedList<DecisionBody, MAX_DECISIONS>", length(min = 1))]
    pub(crate) decisions: Option<BoundedList<DecisionBody, MAX_DECISIONS>>,
}

/// A decision about one call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Decision")]
pub(crate) struct DecisionBody {
    /// The number of the call in its run.
    #[schemars(required, with = "u32")]
    pub(crate) call_id: Option<Whole>,
    /// What to do with it.
    #[schemars(required, with = "DecisionName")]
    pub(crate) decision: Option<DecisionName>,
    /// With `edit`: the arguments to send instead. With `answer`: what the program gets.
    #[schemars(with = "Option<Value>")]
    pub(crate) arguments: Option<Box<RawValue>>,
    /// Why, for the program and for the report.
    pub(crate) reason: Option<String>,
    /// For what else the decision holds.
    #[serde(default, deserialize_with = "text_or_one_member")]
    #[schemars(!default, with = "Option<Value>")]
    pub(crate) remember: Option<Value>,
}

/// What to do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DecisionName {
    /// Make it.
    Approve,
    /// Make it with other arguments.
    Edit,
    /// Do not send it again, and give the program `arguments` as its answer: for a call whose effect is unknown.
    Answer,
    /// Let it fail with `DENIED`; the program may go on.
    Deny,
    /// End the run.
    Stop,
}

impl From<DecisionName> for DecisionKind {
    fn from(name: DecisionName) -> Self {
        match name {
            DecisionName::Approve => DecisionKind::Approve,
            DecisionName::Edit => DecisionKind::Edit,
            DecisionName::Answer => DecisionKind::Answer,
            DecisionName::Deny => DecisionKind::Deny,
            DecisionName::Stop => DecisionKind::Stop,
        }
    }
}

impl From<DecisionKind> for DecisionName {
    fn from(kind: DecisionKind) -> Self {
        match kind {
            DecisionKind::Approve => DecisionName::Approve,
            DecisionKind::Edit => DecisionName::Edit,
            DecisionKind::Answer => DecisionName::Answer,
            DecisionKind::Deny => DecisionName::Deny,
            DecisionKind::Stop => DecisionName::Stop,
        }
    }
}

/// The decisions that hold.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DecisionsReply {
    /// The id of the run.
    pub(crate) run_id: String,
    /// For each call, the decision that holds: the first one about it.
    pub(crate) decisions: Vec<DecisionReply>,
}

/// The decision that holds for a call.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DecisionReply {
    /// The number of the call.
    pub(crate) call_id: u32,
    /// What was decided.
    pub(crate) decision: DecisionName,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Durable runs of the caller, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunListReply {
    /// The runs.
    pub(crate) runs: Vec<RunListItem>,
    /// `before` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A durable run in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunListItem {
    /// The id of the run.
    pub(crate) run_id: String,
    /// Whether it runs, waits for decisions, or has ended.
    pub(crate) status: RunStatusName,
    /// When it began, in milliseconds since 1970.
    pub(crate) began_at: u64,
    /// When it last changed.
    pub(crate) changed_at: u64,
}
