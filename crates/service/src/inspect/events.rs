//! `GET /v1/events`: server-sent events of what changes: runs of the caller that ended, what waits for decisions, backends,
//! tools, tools that changed what they say, learned types that became wider.
//!
//! Events name what changed and carry at most one line of the list of runs; a reader asks the other routes for the rest.
//! The number of open streams is bounded. A reader that falls behind is told to start over (`lagged`) instead of being
//! buffered for. A stream ends when its caller has no right to it any more (a sign-out included), or the service shuts down.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use toolgate_gateway::runtime::{ToolChangeNotice, WidenedType};
use toolgate_mcp::server::{Change, ChangeNotice};
use toolgate_wire::CallerScope;

use super::query::Query;
use super::run_log::RunLine;
use crate::HttpService;
use crate::caller_permits::CallerPermit;
use crate::refusal::Refusal;
use crate::stream_right::{LOOK_INTERVAL, StreamRight};

/// Streams at one time; one key has at most half of them.
pub(crate) const MAX_STREAMS: usize = 128;

struct Stream {
    service: HttpService,
    right: StreamRight,
    runs: broadcast::Receiver<Arc<RunLine>>,
    changes: Option<broadcast::Receiver<ChangeNotice>>,
    changed_tools: Option<broadcast::Receiver<ToolChangeNotice>>,
    widened: Option<broadcast::Receiver<WidenedType>>,
    durable: broadcast::Receiver<()>,
    /// How often a silent stream says that it is alive, and its caller is looked up again.
    pulse: tokio::time::Interval,
    began: bool,
    _permit: CallerPermit,
}

pub(crate) async fn stream(
    State(service): State<HttpService>,
    Extension(right): Extension<StreamRight>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    Query::parse(&query.unwrap_or_default(), &[])?;
    let busy = || Refusal::unavailable("too many event streams are open");
    let stream = Stream {
        runs: service.run_log().news(),
        durable: service.run_log().durable_changes(),
        changes: service.gateway().map(|gateway| gateway.changes()),
        changed_tools: service.gateway().map(|gateway| gateway.changed_tools()),
        widened: service.gateway().and_then(|gateway| gateway.widened_types()),
        pulse: tokio::time::interval_at(tokio::time::Instant::now() + LOOK_INTERVAL, LOOK_INTERVAL),
        began: false,
        _permit: service.event_permit(&right.caller).ok_or_else(busy)?,
        service,
        right,
    };
    let events = stream::unfold(stream, |mut stream| async {
        let event = stream.next().await?;
        Some((Ok::<Event, Infallible>(event), stream))
    });
    let mut response = Sse::new(events).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

impl Stream {
    /// The next event; none at the end.
    async fn next(&mut self) -> Option<Event> {
        if !self.began {
            self.began = true;
            return Some(event("begin", json!({})));
        }
        let scope = self.right.caller.scope();
        loop {
            tokio::select! {
                run = self.runs.recv() => match run {
                    Ok(line) if line.is_visible_to(&scope) => return Some(event("run", json!(*line))),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return Some(event("lagged", json!({}))),
                    Err(RecvError::Closed) => return None,
                },
                durable = self.durable.recv() => match durable {
                    // Whose run it is stays untold: the reader asks what waits for it.
                    Ok(()) | Err(RecvError::Lagged(_)) => return Some(event("pending", json!({}))),
                    Err(RecvError::Closed) => return None,
                },
                change = next_of(&mut self.changes) => match change {
                    Ok(notice) => if let Some(told) = change_event(&notice, &scope) {
                        return Some(told);
                    },
                    Err(RecvError::Lagged(_)) => return Some(event("lagged", json!({}))),
                    Err(RecvError::Closed) => self.changes = None,
                },
                changed = next_of(&mut self.changed_tools) => match changed {
                    Ok(ToolChangeNotice { backend, tool, parts }) => if scope.permits_tool(&backend, &tool) {
                        return Some(event("tool-changed", json!({ "backend": backend, "tool": tool, "parts": parts })));
                    },
                    Err(RecvError::Lagged(_)) => return Some(event("lagged", json!({}))),
                    Err(RecvError::Closed) => self.changed_tools = None,
                },
                widened = next_of(&mut self.widened) => match widened {
                    Ok(WidenedType { backend, tool, results }) => if scope.permits_tool(&backend, &tool) {
                        return Some(event("types", json!({ "backend": backend, "tool": tool, "results": results })));
                    },
                    Err(RecvError::Lagged(_)) => return Some(event("lagged", json!({}))),
                    Err(RecvError::Closed) => self.widened = None,
                },
                _ = self.pulse.tick() => {
                    return self.right.is_known(&self.service).then(|| Event::default().comment("alive"));
                }
                () = self.right.session_ended() => return None,
                () = self.service.shutdown().begin.cancelled() => return None,
            }
        }
    }
}

/// What comes next; nothing ever from a sender that is not there.
async fn next_of<T: Clone>(receiver: &mut Option<broadcast::Receiver<T>>) -> Result<T, RecvError> {
    match receiver {
        Some(receiver) => receiver.recv().await,
        None => std::future::pending().await,
    }
}

/// The event about a change, if the caller may know of it.
fn change_event(notice: &ChangeNotice, scope: &CallerScope) -> Option<Event> {
    let is_visible = notice.backend.as_deref().is_none_or(|name| scope.backends.permits(name));
    let kind = match notice.change {
        Change::Tools => "tools",
        Change::Resource(_) => "backends",
        Change::Resources | Change::Prompts => return None,
    };
    is_visible.then(|| event(kind, json!({})))
}

fn event(kind: &str, data: serde_json::Value) -> Event {
    // JSON text has no line break, which an event's data may not have.
    Event::default().event(kind).data(data.to_string())
}
