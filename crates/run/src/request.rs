//! What a door asks for, and what it gets back.

use std::sync::Arc;

use super::door::Door;
use super::durable::{CallKeys, KeptEffects, PendingView};
use serde::{Serialize, Serializer};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_bridge::approvals::Approver;
use toolgate_engine::transcript::{Recorder, Replay};
use toolgate_engine::{EngineChoice, Observer};
use toolgate_functions::Registry;
use toolgate_journal::edited::RecordedHost;
use toolgate_mcp::{Progress, RequestOrigin, TraceContext};
use toolgate_telemetry::{SpanId, TraceId};
use toolgate_wire::report::ReportFields;
use toolgate_wire::{CallerScope, Code, Failure, LimitRequest, Outcome, Profile, Report};

use crate::noted_calls::NotedCalls;
use crate::stage::Staging;
use toolgate_bridge::{AllowedEffects, QuestionWatch};

/// Whether a program may be answered without an interpreter. The answers are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FastPaths {
    /// Where it is certain that the answer is the same.
    #[default]
    Allowed,
    /// Never.
    Off,
}

/// Whether a run outlives its process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// It ends with its process.
    #[default]
    Volatile,
    /// It is kept in the store of durable runs if a rule may ask a person about one of its calls, and there is a store. One of
    /// which that is not known beforehand begins again as such a run when a person has to be asked, unless it has changed
    /// something by then.
    WhenAsked,
    /// It is kept in the store of durable runs.
    Durable,
}

/// One program to run.
#[derive(Clone)]
pub struct RunRequest {
    /// The program.
    pub text: String,
    /// The kind of run.
    pub profile: Profile,
    /// JSON text: what a computation is over, or the program's global `context`.
    pub data: Option<String>,
    /// The limits that the caller asks for.
    pub limits: LimitRequest,
    /// Who asks.
    pub caller: CallerScope,
    /// Host functions; those of the caller's scope when absent.
    pub functions: Option<Registry>,
    /// Ends the run. A durable run goes on.
    pub cancel: CancellationToken,
    /// Ends a durable run: the caller does not want it any more.
    pub withdrawn: Option<CancellationToken>,
    /// Receives console lines and calls while the program runs.
    pub observer: Option<Arc<dyn Observer>>,
    /// Receives the progress of long calls.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// The interpreter; the engine's own choice when absent.
    pub engine: Option<EngineChoice>,
    /// Where random numbers start; chosen at random when absent.
    pub seed: Option<u64>,
    /// Whether the run may be answered without an interpreter.
    pub fast_paths: FastPaths,
    /// The door that the request came by.
    pub door: Door,
    /// Which client asks, and which trace the run belongs to.
    pub origin: RequestOrigin,
    /// The spans of the run, if traces are sent; made by the runner.
    pub trace: Option<Arc<RunTrace>>,
    /// What its calls may do.
    pub effects: AllowedEffects,
    /// The client's session, which has statistics of its own.
    pub session: Option<u64>,
    /// Names the run; a new name when absent.
    pub id: Option<String>,
    /// Keeps the messages of the run, which is then not answered without an interpreter.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// Whether the run outlives its process.
    pub durable: Durability,
    /// Asks a person about calls that the policy does not let through by itself. Without it they fail as `DENIED`.
    pub approver: Option<Arc<dyn Approver>>,
    /// Idempotency keys of the program's calls.
    pub keys: Option<CallKeys>,
    /// The effects of an earlier run that the program keeps.
    pub kept: Option<Arc<KeptEffects>>,
    /// Notes the program's calls, so that a correction can keep them; made by the runner.
    pub noted: Option<Arc<NotedCalls>>,
    /// Whether the program's writes are reviewed before they are sent.
    pub staging: Staging,
    /// A recorded run to repeat. The program is not planned again, and no tool is looked up for it.
    pub recorded: Option<RecordedRun>,
    /// Notices that a person has to be asked, where the run can begin again; made by the runner.
    pub watch: Option<Arc<QuestionWatch>>,
}

/// A recorded run to repeat.
#[derive(Clone)]
pub struct RecordedRun {
    /// What is repeated.
    pub replay: Arc<Replay>,
    /// Who answers calls where the record ends.
    pub host: ReplayHost,
}

/// Who answers the calls of a recorded run where its record ends.
#[derive(Clone)]
pub enum ReplayHost {
    /// The caller's tools.
    Tools,
    /// The record alone.
    Record(Arc<RecordedHost>),
    /// The record, and the caller's tools for calls that it does not have and that change nothing.
    RecordThenReads(Arc<RecordedHost>),
}

impl RunRequest {
    /// A request of the local user, with the profile's limits and no data.
    pub fn new(profile: Profile, text: impl Into<String>) -> Self {
        RunRequest {
            text: text.into(),
            profile,
            data: None,
            limits: LimitRequest::default(),
            caller: CallerScope::default(),
            functions: None,
            cancel: CancellationToken::new(),
            withdrawn: None,
            observer: None,
            progress: None,
            engine: None,
            seed: None,
            fast_paths: FastPaths::Allowed,
            door: Door::Api,
            origin: RequestOrigin::default(),
            trace: None,
            effects: AllowedEffects::Any,
            session: None,
            id: None,
            recorder: None,
            durable: Durability::Volatile,
            approver: None,
            keys: None,
            kept: None,
            noted: None,
            staging: Staging::No,
            recorded: None,
            watch: None,
        }
    }
}

impl RunRequest {
    /// The trace that the run's calls belong to: its own span, or what the client said.
    pub(super) fn trace_passed_on(&self) -> TraceContext {
        self.trace.as_ref().map_or_else(|| self.origin.trace.clone(), |trace| trace.context.clone())
    }
}

/// The ids of a run's spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTrace {
    /// The trace: the client's, or a new one.
    pub trace_id: TraceId,
    /// The span of the run.
    pub run_span: SpanId,
    /// What servers behind are told: the span of the run as the parent of theirs.
    pub context: TraceContext,
}

impl RunTrace {
    /// A new span in the trace of the request, or in a new one.
    pub fn new(request: &TraceContext) -> Self {
        let trace_id = request.ids().and_then(|(trace, _)| TraceId::parse(trace)).unwrap_or_else(TraceId::random);
        let run_span = SpanId::random();
        RunTrace { trace_id, run_span, context: request.with_span(trace_id, run_span) }
    }
}

/// Which path a program took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// JSON that names one tool.
    Direct,
    /// A question about tools, answered from the catalog.
    Introspection,
    /// A program that is one call.
    OneCall,
    /// A program for an interpreter.
    Script,
    /// Nothing ran: the text is no program, or its calls cannot succeed.
    Refused,
}

impl Route {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Route::Direct => "direct",
            Route::Introspection => "introspection",
            Route::OneCall => "one_call",
            Route::Script => "script",
            Route::Refused => "refused",
        }
    }
}

/// A run's report with its id and the path it took. Every door sends this object.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// Names the run.
    pub id: String,
    /// The path it took.
    pub route: Route,
    /// What happened.
    pub report: Report,
    /// The run has not ended: it waits for decisions, and this is its handle. What happened so far is in the report, whose
    /// outcome says nothing then.
    pub paused: Option<PausedRun>,
    /// Of a dry run: the writes that it did not send.
    pub review: Option<Vec<PendingView>>,
    /// Whether it was kept in the store of durable runs, whichever door it came by.
    pub is_durable: bool,
    /// Whether its hint names `fix_run`, which keeps the effects of a durable run that failed.
    pub(crate) names_fix: bool,
    /// Of a correction: how many effects of the runs before it it has not called again.
    pub(crate) kept_left: usize,
}

/// A run that waits for decisions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PausedRun {
    /// Its id.
    pub run_id: String,
    /// The calls that wait; empty where the run goes on in another process.
    pub pending: Vec<PendingView>,
}

/// Fields that say how a run ended, which one that waits has not.
const OUTCOME_FIELDS: [&str; 6] = ["value", "code", "error", "line", "column", "hint"];

impl RunReport {
    /// The report of a run that has ended.
    pub fn ended(id: String, route: Route, report: Report) -> Self {
        RunReport { id, route, report, paused: None, review: None, is_durable: false, names_fix: false, kept_left: 0 }
    }

    /// The object of a run that waits: without an outcome, with its handle.
    fn paused_fields(&self, paused: &PausedRun) -> serde_json::Result<serde_json::Value> {
        let fields = self.fields();
        let mut fields = serde_json::to_value(fields)?;
        if let Some(fields) = fields.as_object_mut() {
            OUTCOME_FIELDS.iter().for_each(|name| drop(fields.remove(*name)));
            fields.insert("paused".to_owned(), serde_json::to_value(paused)?);
        }
        Ok(fields)
    }

    fn fields(&self) -> Fields<'_> {
        let (report, review) = (self.report.without_value(), self.review.as_deref());
        Fields { report, execution_id: &self.id, path: self.route.name(), review }
    }

    /// The report of a run that waits.
    pub fn waiting(paused: PausedRun) -> Self {
        let outcome = Outcome::Failed(Failure::new(Code::Aborted, "the run waits for a person"));
        let report = Report::not_started(outcome, std::time::Duration::ZERO);
        RunReport { paused: Some(paused.clone()), ..RunReport::ended(paused.run_id, Route::Script, report) }
    }

    /// The report of a request that was refused before a program was looked at.
    pub fn refused(code: Code, message: impl Into<String>) -> Self {
        let outcome = Outcome::Failed(Failure::new(code, message));
        let report = Report::not_started(outcome, std::time::Duration::ZERO);
        RunReport::ended(super::execution_id(), Route::Refused, report)
    }

    /// The same object without the field `value`.
    pub fn without_value(&self) -> impl Serialize + '_ {
        match self.paused.as_ref().map(|paused| self.paused_fields(paused)) {
            Some(Ok(fields)) => WithoutValue::Paused(fields),
            Some(Err(_)) | None => WithoutValue::Ended(self.fields()),
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum WithoutValue<'a> {
    Ended(Fields<'a>),
    Paused(serde_json::Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    #[serde(flatten)]
    report: ReportFields<'a>,
    execution_id: &'a str,
    path: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    review: Option<&'a [PendingView]>,
}

impl Serialize for RunReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(paused) = &self.paused {
            return self.paused_fields(paused).map_err(serde::ser::Error::custom)?.serialize(serializer);
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Whole<'a> {
            #[serde(flatten)]
            report: &'a Report,
            execution_id: &'a str,
            path: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            review: Option<&'a [PendingView]>,
        }
        let review = self.review.as_deref();
        Whole { report: &self.report, execution_id: &self.id, path: self.route.name(), review }.serialize(serializer)
    }
}
