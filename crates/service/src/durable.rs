//! `/v1/runs`: runs that outlive their request and their process.
//!
//! A run belongs to the caller that began it: to every other key it does not exist. Builds no host and keeps nothing
//! itself; that is up to `run::durable`.

use std::time::Duration;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use toolgate_run::durable::{CallDecision, DurableRuns, ListRuns, RunEvent, RunStatus, RunSummary, RunView};
use toolgate_run::{Door, RunRequest};
use url::{Url, form_urlencoded};

use super::body::{Received, escaped};
use super::caller_permits::CallerPermit;
use super::limits::RequestedLimits;
use super::messages::Whole;
use super::messages::durable::{
    DecisionBody, DecisionName, DecisionReply, DecisionsBody, DecisionsReply, DurableRunBody, MAX_DECISIONS,
    RunListItem, RunListReply, RunStateReply, RunStatusName,
};
use super::path::Path;
use super::refusal::Refusal;
use super::run::{ProgramFields, answer, requested_functions};
use super::stream_right::StreamRight;
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
/// Bytes of the URL of a webhook.
const MAX_WEBHOOK: usize = 2000;
/// How often the events of a run are looked for.
const EVENT_INTERVAL: Duration = Duration::from_millis(500);
/// Bytes of the reason of a decision.
const MAX_REASON: usize = 10_000;
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
    let webhook = body.webhook.map(webhook).transpose()?;
    let scope = caller.scope();
    let functions = requested_functions(&service, &scope, body.functions.as_deref())?;
    let fields = ProgramFields {
        code: body.code,
        context: body.context,
        profile: body.profile,
        engine: body.engine,
        limits: RequestedLimits { timeout_ms: body.timeout_ms, max_heap_mb: body.max_heap_mb },
        durable: Some(true),
        stage: body.stage,
    };
    let request = RunRequest {
        functions,
        door: Door::Http,
        origin: super::trace::origin(&headers),
        ..fields.request(service.runner(), scope)?
    };
    let begun = runs.begin(request, idempotency.as_deref(), webhook).await?;
    let reply = RunStateReply::new(begun.run, begun.status);
    Ok((StatusCode::ACCEPTED, answer(&service.budget(&caller), &reply)?).into_response())
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
            let _permit = service.waiter_permit(&caller)?;
            tokio::select! {
                view = runs.wait(&id, Some(caller.name()), wait) => view?,
                () = service.shutdown().begin.cancelled() => runs.view(&id, Some(caller.name())).await?,
            }
        }
        None => runs.view(&id, Some(caller.name())).await?,
    };
    let mut reply = RunStateReply::from(view);
    if !reply.pending.is_empty() {
        // A person who decides about a call looks at the program that makes it.
        reply.code = runs.program(&reply.run_id).await?;
    }
    answer(&service.budget(&caller), &reply)
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
    answer(
        &service.budget(&caller),
        &RunListReply { runs: page.runs.into_iter().map(RunListItem::from).collect(), next },
    )
}

pub(super) async fn abort(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let id = checked(id)?;
    let status = service.runs().await?.abort(&id, Some(caller.name())).await?;
    let reply = answer(&service.budget(&caller), &RunStateReply::new(id, status))?;
    Ok((StatusCode::ACCEPTED, reply).into_response())
}

/// What happens in a run, as server-sent events. `Last-Event-ID` goes on behind an event that was received.
pub(super) async fn events(
    State(service): State<HttpService>,
    Extension(right): Extension<StreamRight>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (runs, id, caller) = (service.runs().await?, checked(id)?, right.caller.clone());
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok()).and_then(|last| last.parse().ok());
    let from = last.map_or(0, |last: u64| last.saturating_add(1));
    // Refused before the stream begins where there is no such run.
    runs.events(&id, Some(caller.name()), from).await?;
    let permit = service.waiter_permit(&caller)?;
    let shutdown = service.shutdown().begin.clone();
    let watch = Watch { runs, id, caller: caller.name().to_owned(), from, sent: None, is_over: false, _permit: permit };
    let over = async move {
        tokio::select! {
            () = shutdown.cancelled_owned() => {}
            () = right.lost(service) => {}
        }
    };
    let events = stream::unfold(watch, Watch::next).flat_map(stream::iter).take_until(over);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

/// A client that watches a run.
struct Watch {
    runs: DurableRuns,
    id: String,
    caller: String,
    from: u64,
    /// The status that was sent last, with the calls that waited.
    sent: Option<(RunStatus, Vec<u32>)>,
    is_over: bool,
    _permit: CallerPermit,
}

type Sent = Result<SseEvent, std::convert::Infallible>;

impl Watch {
    /// The next events; `None` when the run has ended, or cannot be read any more.
    async fn next(mut self) -> Option<(Vec<Sent>, Self)> {
        if self.is_over {
            return None;
        }
        loop {
            let page = self.runs.events(&self.id, Some(&self.caller), self.from).await.ok()?;
            self.from = page.next;
            let mut sent: Vec<Sent> = page.events.into_iter().map(|event| Ok(sse(&event))).collect();
            // A run that was paused, went on and is paused again between two looks waits for other calls than before.
            let may_differ = !sent.is_empty() || self.sent.as_ref().is_none_or(|(status, _)| *status != page.status);
            // The end comes behind what led to it.
            if page.is_end && may_differ {
                let view = self.runs.view(&self.id, Some(&self.caller)).await.ok()?;
                let now = (view.summary.status, view.pending.iter().map(|call| call.call_id).collect());
                // A run that has gone on since has events that come first.
                let is_current = view.summary.status == page.status;
                self.is_over = is_current && page.status == RunStatus::Done;
                if is_current && self.sent.as_ref() != Some(&now) {
                    self.sent = Some(now);
                    sent.extend(SseEvent::default().event("status").json_data(RunStateReply::from(view)).ok().map(Ok));
                }
            }
            if !sent.is_empty() {
                return Some((sent, self));
            }
            if page.is_end {
                self.runs.changed(&self.id, EVENT_INTERVAL).await;
            }
        }
    }
}

fn sse(event: &RunEvent) -> SseEvent {
    // JSON text has no line breaks of its own, which an event's data could not have.
    SseEvent::default().id(event.number.to_string()).event(event.name).data(event.data.to_string())
}

pub(super) async fn decide(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    received: Received<DecisionsBody>,
) -> Result<Response, Refusal> {
    let id = checked(id)?;
    let decisions = received.value.decisions.ok_or_else(|| Refusal::missing("/decisions"))?;
    if decisions.is_empty() {
        return Err(Refusal::field("/decisions", format!("must have between 1 and {MAX_DECISIONS} decisions")));
    }
    let decisions = decisions.into_iter().enumerate().map(|(at, body)| decision(at, body));
    let decisions = decisions.collect::<Result<Vec<_>, _>>()?;
    let held = service.runs().await?.decide(&id, Some(caller.name()), decisions).await?;
    let decisions = held.into_iter().map(|held| DecisionReply {
        call_id: held.call_id,
        decision: DecisionName::from(held.decision),
        reason: held.reason,
    });
    answer(&service.budget(&caller), &DecisionsReply { run_id: id, decisions: decisions.collect() })
}

fn decision(at: usize, body: DecisionBody) -> Result<CallDecision, Refusal> {
    let missing = |name: &str| Refusal::missing(&format!("/decisions/{at}/{name}"));
    if body.reason.as_ref().is_some_and(|reason| reason.len() > MAX_REASON) {
        let message = format!("has at most {MAX_REASON} bytes");
        return Err(Refusal::field(format!("/decisions/{at}/reason"), message));
    }
    let Whole(call) = body.call_id.ok_or_else(|| missing("callId"))?;
    let too_large = |_| Refusal::field(format!("/decisions/{at}/callId"), "no call has this number");
    Ok(CallDecision {
        call_id: u32::try_from(call).map_err(too_large)?,
        decision: body.decision.ok_or_else(|| missing("decision"))?.into(),
        arguments: body.arguments,
        reason: body.reason,
        remember: body.remember,
        by: String::new(),
        at: 0,
    })
}

/// An id that may be one.
pub(super) fn checked(id: String) -> Result<String, Refusal> {
    if id.len() > MAX_ID || id.contains(char::is_control) {
        return Err(Refusal::NoSuchRun(super::refusal::Shown::new(&id)));
    }
    Ok(id)
}

/// A URL that may be called; whether its host may be reached is decided when it is.
fn webhook(text: String) -> Result<String, Refusal> {
    let is_url =
        text.len() <= MAX_WEBHOOK && Url::parse(&text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    let wrong = || Refusal::field("/webhook", "must be an http:// or https:// URL");
    is_url.then_some(text).ok_or_else(wrong)
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
            "before" => list.before = Some(cursor(&value)?),
            other => return Err(unknown_parameter(other, "status, limit or before")),
        }
    }
    Ok(list)
}

/// Where an earlier page ended: `before` of a query.
pub(super) fn cursor(text: &str) -> Result<(u64, String), Refusal> {
    let cursor = text.split_once('-').and_then(|(began, run)| Some((began.parse().ok()?, run.to_owned())));
    let cursor = cursor.filter(|(_, run): &(u64, String)| run.len() <= MAX_ID);
    cursor.ok_or_else(|| Refusal::field("/before", "must be the `next` of an earlier page"))
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
