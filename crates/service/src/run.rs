//! `POST /v1/run` and `POST /v1/compute`: from a request body to a `RunRequest`, and from its report to a reply.
//!
//! Builds no host, no deadline and no engine request; that is up to `run`.

use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use toolgate_engine::{Engine, EngineChoice};
use toolgate_wire::{CallerScope, Code, Outcome, Profile};

use super::body::{Budget, Received, Share};
use super::limits::RequestedLimits;
use super::measured_json::counted_json;
use super::messages::{ComputeRequest, EngineName, OutputReply, RunBody, RunProfile, RunReply, Whole};
use super::refusal::Refusal;
use super::trace::origin;
use super::{Caller, HttpService};
use toolgate_functions::Registry;
use toolgate_mcp::off_runtime;
use toolgate_output::{Intent, OutputSettings};
use toolgate_run::durable::DurableError;
use toolgate_run::stage::Staging;
use toolgate_run::{Door, Durability, OUTPUT_SIZE, Route, RunReport, RunRequest, Runner};

pub(super) async fn run(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    received: Received<RunBody>,
) -> Result<Response, Refusal> {
    let body = received.value;
    let scope = caller.scope();
    let functions = requested_functions(&service, &scope, body.functions.as_deref())?;
    let output = Output::checked(body.max_output_size, body.intent)?;
    let fields = ProgramFields {
        code: body.code,
        context: body.context,
        profile: body.profile,
        engine: body.engine,
        limits: RequestedLimits { timeout_ms: body.timeout_ms, max_heap_mb: body.max_heap_mb },
        durable: body.durable,
        stage: body.stage,
    };
    fields.check_store(service.runner()).await?;
    let request = RunRequest {
        functions,
        door: Door::Http,
        origin: origin(&headers),
        ..fields.request(service.runner(), scope)?
    };
    let reply = service.perform(request, output).await?;
    answer(&service.budget(&caller), &reply)
}

pub(super) async fn compute(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    received: Received<ComputeRequest>,
) -> Result<Response, Refusal> {
    let body = received.value;
    let limits = RequestedLimits { timeout_ms: body.timeout_ms, max_heap_mb: body.max_heap_mb };
    let output = Output::checked(body.max_output_size, body.intent)?;
    let data = body.data.ok_or_else(|| Refusal::missing("/data"))?;
    let request = RunRequest {
        data: Some(text_of(data)),
        limits: limits.checked(service.runner(), Profile::Compute)?,
        caller: caller.scope(),
        engine: body.engine.map(|interpreter| interpreter.0),
        door: Door::Http,
        origin: origin(&headers),
        ..RunRequest::new(Profile::Compute, body.code.ok_or_else(|| Refusal::missing("/code"))?)
    };
    let reply = service.perform(request, output).await?;
    answer(&service.budget(&caller), &reply)
}

/// What `POST /v1/run`, `POST /v1/runs` and the first message of a WebSocket have in common.
pub(super) struct ProgramFields {
    pub(super) code: Option<String>,
    pub(super) context: Option<Box<RawValue>>,
    pub(super) profile: Option<RunProfile>,
    pub(super) engine: Option<EngineName>,
    pub(super) limits: RequestedLimits,
    pub(super) durable: Option<bool>,
    pub(super) stage: Option<bool>,
}

impl ProgramFields {
    /// Refuses a program that asks for a record where none is kept, which will be so at the next request too.
    async fn check_store(&self, runner: &Runner) -> Result<(), Refusal> {
        let asked = [("durable", self.durable), ("stage", self.stage)];
        let Some((field, _)) = asked.into_iter().find(|(_, asked)| *asked == Some(true)) else { return Ok(()) };
        match runner.durable().await {
            Err(error @ DurableError::NoStore) => Err(Refusal::Conflict(format!("{error}: leave `{field}` out"))),
            // The run itself says what else is wrong.
            _ => Ok(()),
        }
    }

    /// The request of a caller with these fields.
    pub(super) fn request(self, runner: &Runner, caller: CallerScope) -> Result<RunRequest, Refusal> {
        let profile = self.profile.unwrap_or_default().into();
        Ok(RunRequest {
            data: context(self.context)?,
            limits: self.limits.checked(runner, profile)?,
            caller,
            engine: self.engine.map(|interpreter| interpreter.0),
            durable: match (self.durable, self.stage) {
                (Some(true), _) | (_, Some(true)) => Durability::Durable,
                (Some(false), _) => Durability::Volatile,
                (None, _) => Durability::WhenAsked,
            },
            staging: if self.stage == Some(true) { Staging::Wanted } else { Staging::No },
            ..RunRequest::new(profile, self.code.ok_or_else(|| Refusal::missing("/code"))?)
        })
    }
}

/// The functions that a request names; `None` where it names none, and gets all that its caller may use.
pub(super) fn requested_functions(
    service: &HttpService,
    scope: &CallerScope,
    names: Option<&[String]>,
) -> Result<Option<Registry>, Refusal> {
    names.map(|names| named(&service.runner().functions(scope), names, "/functions")).transpose()
}

/// The named functions. A function that the caller may not use is reported like one that does not exist.
pub(super) fn named(allowed: &Registry, names: &[String], pointer: &str) -> Result<Registry, Refusal> {
    allowed.restricted(names).map_err(|unknown| {
        let at = names.iter().position(|name| unknown.unknown.first() == Some(name)).unwrap_or(0);
        Refusal::field(format!("{pointer}/{at}"), unknown.to_string())
    })
}

/// The context values, which must be a JSON object.
fn context(context: Option<Box<RawValue>>) -> Result<Option<String>, Refusal> {
    match context {
        Some(context) if !context.get().starts_with('{') => Err(Refusal::field("/context", "must be an object")),
        context => Ok(context.map(text_of)),
    }
}

fn text_of(json: Box<RawValue>) -> String {
    String::from(Box::<str>::from(json))
}

/// How long a run may take to end and to be recorded when its caller has gone.
const RECORD_TIMEOUT: Duration = Duration::from_secs(30);

/// The same range as `max_output_size` of `call_tool_chain`.
pub(super) fn output_size(Whole(bytes): Whole) -> Result<u64, Refusal> {
    let (min, max) = (*OUTPUT_SIZE.start(), *OUTPUT_SIZE.end());
    let message = || format!("must be between {min} and {max} bytes, got {bytes}");
    OUTPUT_SIZE.contains(&bytes).then_some(bytes).ok_or_else(|| Refusal::field("/maxOutputSize", message()))
}

/// How the value is shaped for a context window; not at all if both are absent.
#[derive(Debug, Default)]
pub(super) struct Output {
    max_size: Option<u64>,
    intent: Option<Intent>,
}

impl Output {
    /// The options of a request, if the size is in range.
    pub(super) fn checked(max_output_size: Option<Whole>, intent: Option<Intent>) -> Result<Self, Refusal> {
        Ok(Output { max_size: max_output_size.map(output_size).transpose()?, intent })
    }
}

impl HttpService {
    /// Runs a program; a shutdown aborts it.
    pub(super) async fn perform(&self, request: RunRequest, output: Output) -> Result<RunReply, Refusal> {
        let (caller, engine) = (request.caller.clone(), request.engine);
        let run = self.run(request).await;
        self.reply(run, &caller, engine, &output)
    }

    /// Runs a program until it ends or waits for a person; a shutdown aborts it, and so does the request's own token.
    pub(super) async fn run(&self, request: RunRequest) -> RunReport {
        let cancel = self.shutdown().abort.child_token();
        // A caller that goes away drops this future. The run then ends as ABORTED and is recorded like every other: otherwise its
        // reads would be in no log.
        let _cancels = cancel.clone().drop_guard();
        let left = CancellationToken::new();
        let _leaves = left.clone().drop_guard();
        let asked = request.cancel.clone();
        let (service, request) = (self.clone(), RunRequest { cancel: cancel.clone(), ..request });
        let run = tokio::spawn(async move {
            let mut run = std::pin::pin!(service.runner().run(request));
            tokio::select! {
                report = &mut run => Some(report),
                () = asked.cancelled() => {
                    cancel.cancel();
                    tokio::time::timeout(RECORD_TIMEOUT, run).await.ok()
                }
                // A durable run goes on without being waited for.
                () = left.cancelled() => tokio::time::timeout(RECORD_TIMEOUT, run).await.ok(),
            }
        });
        match run.await {
            Ok(Some(report)) => report,
            Ok(None) => std::future::pending().await,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// What a caller is answered about a run.
    pub(super) fn reply(
        &self,
        run: RunReport,
        caller: &CallerScope,
        engine: Option<EngineChoice>,
        output: &Output,
    ) -> Result<RunReply, Refusal> {
        let runner = self.runner();
        refused(&run, runner.engine(), engine)?;
        if output.max_size.is_none() && output.intent.is_none() {
            return Ok(RunReply::whole(run));
        }
        let default = runner.output();
        let max = output.max_size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let settings = OutputSettings { max_output_size: max.unwrap_or(default.max_output_size), ..default };
        let bytes = run.report.value().map_or(0, |value| value.get().len());
        let shaped = off_runtime(bytes, || runner.shape(&run, caller, &settings, output.intent.as_deref()));
        Ok(RunReply::shaped(run, shaped.map(OutputReply::from)))
    }
}

/// Refuses a run for which there was no sandbox or no store: then the service failed, not the program.
fn refused(run: &RunReport, engine: &Engine, requested: Option<EngineChoice>) -> Result<(), Refusal> {
    let Outcome::Failed(failure) = &run.report.outcome else { return Ok(()) };
    if failure.code != Code::Unavailable {
        return Ok(());
    }
    // A disposed or missing engine stays unavailable, and so does a store that refused the run; a busy one does not.
    if engine.is_disposed() || engine.lacks(requested) || run.route == Route::Refused {
        return Err(Refusal::unavailable(failure.message.clone()));
    }
    Err(Refusal::Busy(failure.message.clone()))
}

/// Bytes of a reply with their share of the memory budget, which is returned once all are sent.
struct Counted {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A JSON reply, counted against the memory budget.
pub(super) fn answer<T: Serialize>(budget: &Budget, reply: &T) -> Result<Response, Refusal> {
    let (bytes, share) = counted_json(budget, reply, 1)?;
    let body = Body::from(Bytes::from_owner(Counted { bytes, _share: share }));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// A body, counted against the memory budget until it is sent.
pub(super) fn counted(budget: &Budget, bytes: Vec<u8>) -> Result<Body, Refusal> {
    let mut share = budget.share();
    budget.cover(&mut share, bytes.len())?;
    Ok(Body::from(Bytes::from_owner(Counted { bytes, _share: share })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use toolgate_bridge::Bridge;
    use toolgate_catalog::{Catalog, CatalogHandle};
    use toolgate_engine::IsolationMode;
    use toolgate_run::FixedEnvironment;

    /// The service has no place for the run: that is no queue which becomes shorter.
    #[tokio::test]
    async fn a_run_that_the_store_refuses_is_unavailable() {
        let engine = Engine::builder().workers_ahead(0).isolation(IsolationMode::Thread).build().expect("an engine");
        let full = || RunReport::refused(Code::Unavailable, "the journal's store is full");
        let refusal = |run: &RunReport| refused(run, &engine, None).expect_err("refused");
        assert_eq!(refusal(&full()), Refusal::unavailable("the journal's store is full"));
        let mut waits = full();
        waits.route = Route::Script;
        assert_eq!(refusal(&waits), Refusal::Busy("the journal's store is full".to_owned()), "as of an engine");
    }

    #[tokio::test]
    async fn a_program_that_asks_for_a_record_where_none_is_kept_is_told_which_field_does() {
        let engine = Engine::builder().workers_ahead(0).isolation(IsolationMode::Thread).build().expect("an engine");
        let bridge = Bridge::new(CatalogHandle::new(Catalog::new(Vec::new())));
        let runner = Runner::new(engine, Arc::new(bridge), Arc::new(FixedEnvironment::default()));
        let check = async |durable, stage, expected: Result<(), &str>| {
            let limits = RequestedLimits { timeout_ms: None, max_heap_mb: None };
            let (code, context, profile, engine) = (None, None, None, None);
            let fields = ProgramFields { code, context, profile, engine, limits, durable, stage };
            let expected = expected.map_err(|message| Refusal::Conflict(message.to_owned()));
            assert_eq!(fields.check_store(&runner).await, expected);
        };
        check(None, Some(false), Ok(())).await;
        check(Some(true), None, Err("no durable runs are kept here: leave `durable` out")).await;
        check(None, Some(true), Err("no durable runs are kept here: leave `stage` out")).await;
    }
}
