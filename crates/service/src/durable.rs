//! `/v1/runs`: runs that outlive their request and their process.
//!
//! A run belongs to the caller that began it: to every other key it does not exist. Builds no host and keeps nothing
//! itself; that is up to `gateway::run::durable`.

use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use toolgate_gateway::run::durable::{ListRuns, RunStatus, RunSummary, RunView};
use toolgate_gateway::run::{Door, Durability, RunRequest};
use url::form_urlencoded;

use super::body::{Received, escaped};
use super::limits::RequestedLimits;
use super::messages::{DurableRunBody, RunListItem, RunListReply, RunStateReply, RunStatusName};
use super::refusal::Refusal;
use super::run::{answer, context, named};
use super::{Caller, HttpService};

/// The header that makes a repeated request the same request.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Bytes of an idempotency key.
const MAX_IDEMPOTENCY_KEY: usize = 255;
/// Seconds that a request may wait for a change.
const MAX_WAIT_SECONDS: u64 = 300;
/// Runs on a page unless the request says otherwise.
const USUAL_PAGE: usize = 50;
const MAX_PAGE: usize = 200;
/// The longest id that is looked for; those of runs are shorter.
const MAX_ID: usize = 128;

pub(super) async fn begin(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    received: Received<DurableRunBody>,
) -> Result<Response, Refusal> {
    let runs = service.runs().await?;
    let idempotency = idempotency_key(&headers)?;
    let body = received.value;
    if body.durable == Some(false) {
        return Err(Refusal::field("/durable", "must be true here; POST /v1/run is for runs that are not durable"));
    }
    let scope = caller.scope();
    let functions = match &body.functions {
        Some(names) => Some(named(&service.runner().functions(&scope), names, "/functions")?),
        None => None,
    };
    let profile = body.profile.unwrap_or_default().into();
    let limits = RequestedLimits { timeout_ms: body.timeout_ms, max_heap_mb: body.max_heap_mb };
    let request = RunRequest {
        data: context(body.context)?,
        limits: limits.checked(service.runner(), profile)?,
        caller: scope,
        functions,
        engine: body.engine.map(|interpreter| interpreter.0),
        door: Door::Http,
        durable: Durability::Durable,
        ..RunRequest::new(profile, body.code.ok_or_else(|| Refusal::missing("/code"))?)
    };
    let begun = runs.begin(request, idempotency.as_deref(), None).await?;
    let reply = RunStateReply::new(begun.run, begun.status);
    Ok((StatusCode::ACCEPTED, answer(service.budget(), &reply)?).into_response())
}

pub(super) async fn view(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let wait = wait_of(&query.unwrap_or_default())?;
    let (runs, id) = (service.runs().await?, checked(id)?);
    let view = match wait {
        Some(wait) => {
            let _permit = service.waiter_permit()?;
            tokio::select! {
                view = runs.wait(&id, Some(caller.name()), wait) => view?,
                () = service.shutdown().begin.cancelled() => runs.view(&id, Some(caller.name())).await?,
            }
        }
        None => runs.view(&id, Some(caller.name())).await?,
    };
    answer(service.budget(), &RunStateReply::from(view))
}

pub(super) async fn list(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let list = list_of(&query.unwrap_or_default())?;
    let list = ListRuns { caller: Some(caller.name().to_owned()), ..list };
    let page = service.runs().await?.list(list).await?;
    let next = page.next.map(|(began, run)| format!("{began}-{run}"));
    answer(service.budget(), &RunListReply { runs: page.runs.into_iter().map(RunListItem::from).collect(), next })
}

pub(super) async fn abort(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let id = checked(id)?;
    let status = service.runs().await?.abort(&id, Some(caller.name())).await?;
    let reply = answer(service.budget(), &RunStateReply::new(id, status))?;
    Ok((StatusCode::ACCEPTED, reply).into_response())
}

/// An id that may be one.
fn checked(id: String) -> Result<String, Refusal> {
    if id.len() > MAX_ID || id.contains(char::is_control) {
        return Err(Refusal::NoSuchRun(super::refusal::Shown::new(&id)));
    }
    Ok(id)
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut all = headers.get_all(IDEMPOTENCY_KEY).iter();
    let (Some(key), None) = (all.next(), all.next()) else {
        let is_absent = !headers.contains_key(IDEMPOTENCY_KEY);
        return if is_absent { Ok(None) } else { Err(Refusal::BadRequest("Idempotency-Key may occur only once")) };
    };
    let key = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= MAX_IDEMPOTENCY_KEY);
    let wrong = "Idempotency-Key must have between 1 and 255 visible characters";
    key.map(|key| Some(key.to_owned())).ok_or(Refusal::BadRequest(wrong))
}

fn wait_of(query: &str) -> Result<Option<Duration>, Refusal> {
    let mut wait = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "wait" => {
                let seconds = value.parse().ok().filter(|seconds| *seconds <= MAX_WAIT_SECONDS);
                let message = || format!("must be a whole number of seconds, at most {MAX_WAIT_SECONDS}");
                wait = Some(Duration::from_secs(seconds.ok_or_else(|| Refusal::field("/wait", message()))?));
            }
            other => return Err(unknown_parameter(other, "wait")),
        }
    }
    Ok(wait)
}

fn list_of(query: &str) -> Result<ListRuns, Refusal> {
    let mut list = ListRuns { most: USUAL_PAGE, ..ListRuns::default() };
    for (name, value) in form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty()) {
        match &*name {
            "status" => {
                let status = RunStatus::parse(&value).map_err(|_| "must be running, paused or done");
                list.status = Some(status.map_err(|message| Refusal::field("/status", message))?);
            }
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
                let message = || format!("must be a whole number between 1 and {MAX_PAGE}");
                list.most = limit.ok_or_else(|| Refusal::field("/limit", message()))?;
            }
            "before" => {
                let cursor = value.split_once('-').and_then(|(began, run)| Some((began.parse().ok()?, run.to_owned())));
                let cursor = cursor.filter(|(_, run): &(u64, String)| run.len() <= MAX_ID);
                let message = "must be the `next` of an earlier page";
                list.before = Some(cursor.ok_or_else(|| Refusal::field("/before", message))?);
            }
            other => return Err(unknown_parameter(other, "status, limit or before")),
        }
    }
    Ok(list)
}

fn unknown_parameter(name: &str, known: &str) -> Refusal {
    Refusal::field(format!("/{}", escaped(name)), format!("unknown parameter: use {known}"))
}

impl From<RunView> for RunStateReply {
    fn from(view: RunView) -> Self {
        let RunView { summary, report, pending } = view;
        let times = Some((summary.began, summary.changed));
        RunStateReply { report, pending, times, ..RunStateReply::new(summary.run, summary.status) }
    }
}

impl From<RunSummary> for RunListItem {
    fn from(summary: RunSummary) -> Self {
        RunListItem {
            run_id: summary.run,
            status: RunStatusName(summary.status),
            began_at: summary.began,
            changed_at: summary.changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: &str) {
        let found = match list_of(query) {
            Ok(list) => format!("{:?} {} {:?}", list.status, list.most, list.before),
            Err(Refusal::BadInput { pointer, message }) => format!("{pointer}: {message}"),
            Err(other) => other.to_string(),
        };
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn a_list_has_filters_and_pages() {
        check("", "None 50 None");
        check("status=paused&limit=3&before=17-abc", r#"Some(Paused) 3 Some((17, "abc"))"#);
        check("status=lost", "/status: must be running, paused or done");
        check("limit=0", "/limit: must be a whole number between 1 and 200");
        check("limit=9999", "/limit: must be a whole number between 1 and 200");
        check("before=abc", "/before: must be the `next` of an earlier page");
        check("page=2", "/page: unknown parameter: use status, limit or before");
    }

    #[test]
    fn a_wait_is_bounded() {
        assert_eq!(wait_of("wait=3"), Ok(Some(Duration::from_secs(3))));
        assert_eq!(wait_of(""), Ok(None));
        for wrong in ["wait=-1", "wait=x", "wait=301", "wait=", "weight=3"] {
            assert!(wait_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_idempotency_key_is_one_short_text() {
        let check = |values: &[&[u8]], expected: Result<Option<&str>, ()>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(IDEMPOTENCY_KEY, axum::http::HeaderValue::from_bytes(value).expect("a value"));
            }
            assert_eq!(idempotency_key(&headers).map_err(|_| ()), expected.map(|key| key.map(str::to_owned)));
        };
        check(&[], Ok(None));
        check(&[b"order-7"], Ok(Some("order-7")));
        check(&[b""], Err(()));
        check(&[b"a", b"b"], Err(()));
        check(&["ü".as_bytes()], Err(()));
        check(&["x".repeat(256).as_bytes()], Err(()));
    }
}
