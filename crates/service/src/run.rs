//! `POST /v1/run` and `POST /v1/compute`, and the one way from a request to a report.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use toolgate_engine::{Engine, EngineChoice, Observer, Request};
use toolgate_wire::{Code, LimitRequest, Limits, Outcome, Profile, Report};

use super::body::{self, Budget, Share};
use super::limits::{self, Wishes};
use super::messages::{ComputeRequest, RunReply, RunRequest};
use super::refusal::Refusal;
use super::{Caller, Service};
use toolgate_functions::{CallContext, Hints, Registry};
use toolgate_gateway::bridge::{Access, Asked, RunHost};

/// A larger context holds no hints: it would be parsed for nothing.
const MAX_HINTS: usize = 16 * 1024;

pub(super) async fn run(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let (text, _share) = body::read(&headers, body, service.body_limits(), service.budget()).await?;
    let request: RunRequest = body::parse(&text)?;
    drop(text);
    let rules = service.rules();
    let allowed = caller.functions(&rules.functions);
    let functions = match &request.functions {
        Some(names) => named(&allowed, names, "/functions")?,
        None => allowed,
    };
    let profile = request.profile.unwrap_or_default().into();
    let wishes = Wishes { timeout_ms: request.timeout_ms, max_heap_mb: request.max_heap_mb };
    let job = Job {
        code: request.code.ok_or_else(|| Refusal::missing("/code"))?,
        data: context(request.context)?,
        profile,
        limits: limits::granted(profile, &rules.profiles, wishes)?,
        functions,
        engine: request.engine.map(Into::into),
        cancel: CancellationToken::new(),
        observer: None,
    };
    let reply = service.perform(&caller, job).await?;
    answer(service.budget(), &reply)
}

pub(super) async fn compute(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let (text, _share) = body::read(&headers, body, service.body_limits(), service.budget()).await?;
    let request: ComputeRequest = body::parse(&text)?;
    drop(text);
    let wishes = Wishes { timeout_ms: request.timeout_ms, max_heap_mb: request.max_heap_mb };
    let data = request.data.ok_or_else(|| Refusal::missing("/data"))?;
    let job = Job {
        code: request.code.ok_or_else(|| Refusal::missing("/code"))?,
        data: Some(data),
        profile: Profile::Compute,
        limits: limits::granted(Profile::Compute, &service.rules().profiles, wishes)?,
        functions: Registry::new(),
        engine: request.engine.map(Into::into),
        cancel: CancellationToken::new(),
        observer: None,
    };
    let reply = service.perform(&caller, job).await?;
    answer(service.budget(), &reply)
}

/// Only the named functions. One that the caller may not use looks as if there were none of that name.
pub(super) fn named(allowed: &Registry, names: &[String], pointer: &str) -> Result<Registry, Refusal> {
    allowed.restricted(names).map_err(|unknown| {
        let at = names.iter().position(|name| unknown.unknown.first() == Some(name)).unwrap_or(0);
        Refusal::field(format!("{pointer}/{at}"), unknown.to_string())
    })
}

/// Context values are a JSON object.
pub(super) fn context(context: Option<Box<RawValue>>) -> Result<Option<Box<RawValue>>, Refusal> {
    match context {
        Some(context) if !context.get().starts_with('{') => Err(Refusal::field("/context", "must be an object")),
        context => Ok(context),
    }
}

/// A run that was asked for and may be.
pub(super) struct Job {
    pub(super) code: String,
    pub(super) data: Option<Box<RawValue>>,
    pub(super) profile: Profile,
    pub(super) limits: LimitRequest,
    pub(super) functions: Registry,
    pub(super) engine: Option<EngineChoice>,
    pub(super) cancel: CancellationToken,
    pub(super) observer: Option<Arc<dyn Observer>>,
}

impl Service {
    /// Runs a program to its end, which a shutdown brings about early.
    pub(super) async fn perform(&self, caller: &Caller, job: Job) -> Result<RunReply, Refusal> {
        let execution_id = execution_id()?;
        let abort = &self.ending().abort;
        // Whatever calls are under way when the run ends are ended with it, and not before it: a program must not see
        // its calls fail and go on.
        let over = CancellationToken::new();
        let _calls = over.clone().drop_guard();
        let wall = job.limits.resolve(job.profile).map_or(Limits::of(job.profile).wall, |it| it.limits.wall);
        let deadline = Instant::now() + wall;
        let context = CallContext {
            hints: hints(job.data.as_deref()),
            cancel: over.clone(),
            deadline: Some(deadline.into()),
            ..CallContext::default()
        };
        let access = caller.access(&self.bridge().catalog());
        let tools = job.profile == Profile::Chain && access != Access::Only(Vec::new());
        let asked = Asked { access, cancel: over, deadline: Some(deadline), ..Asked::default() };
        let host = RunHost::new(self.bridge().clone(), asked).with_functions(job.functions, context.clone());
        let host = if tools { host } else { host.without_tools() };
        let cancel = job.cancel.clone();
        let request = Request {
            limits: job.limits,
            data: job.data.map(|data| String::from(Box::<str>::from(data))),
            host: Arc::new(host),
            engine: job.engine,
            cancel: job.cancel,
            observer: job.observer,
            ..Request::new(job.profile, job.code)
        };
        let mut run = std::pin::pin!(self.engine().run(request));
        let report = tokio::select! {
            report = &mut run => report,
            () = abort.cancelled() => {
                cancel.cancel();
                run.await
            }
        };
        refused(&report, self.engine(), job.engine)?;
        Ok(RunReply::new(report, execution_id, context.warnings.to_vec()))
    }
}

/// A run for which there was no sandbox was not carried out: that is the service's failure, not the program's.
fn refused(report: &Report, engine: &Engine, asked: Option<EngineChoice>) -> Result<(), Refusal> {
    match &report.outcome {
        // An engine that was disposed of or never there does not come back; one that is busy does.
        Outcome::Failed(failure)
            if failure.code == Code::Unavailable && (engine.is_disposed() || engine.lacks(asked)) =>
        {
            Err(Refusal::unavailable(failure.message.clone()))
        }
        Outcome::Failed(failure) if failure.code == Code::Unavailable => Err(Refusal::Busy(failure.message.clone())),
        Outcome::Returned(_) | Outcome::Failed(_) => Ok(()),
    }
}

fn hints(context: Option<&RawValue>) -> Hints {
    let text = context.map(RawValue::get).filter(|text| text.len() <= MAX_HINTS && text.starts_with('{'));
    text.and_then(|text| serde_json::from_str(text).ok()).map(Hints::new).unwrap_or_default()
}

fn execution_id() -> Result<String, Refusal> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| Refusal::Internal)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Bytes of an answer, with the memory they are counted against: it is given back when the last of them is sent.
struct Counted {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An answer that may be large.
pub(super) fn answer<T: Serialize>(budget: &Budget, reply: &T) -> Result<Response, Refusal> {
    let bytes = serde_json::to_vec(reply).map_err(|_| Refusal::Internal)?;
    let mut share = budget.share();
    budget.cover(&mut share, bytes.len())?;
    let body = Body::from(Bytes::from_owner(Counted { bytes, _share: share }));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
