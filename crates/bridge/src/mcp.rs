//! A running MCP server as a provider.

use serde_json::{Map, Value, json};
use toolgate_engine::HostError;
use toolgate_wire::{CallErrorCode, CallState, Target};

use super::server_questions;
use super::{Answer, Provider, ProviderFuture, RequestContext, not_ready};
use toolgate_backends::{Backend, CallError, CallOptions, CallReply, Effect, ReplyMode, WhenUnready};

/// Calls go to this backend.
pub struct McpProvider(Backend);

impl McpProvider {
    /// A provider over a backend that someone else starts and stops.
    pub fn new(backend: Backend) -> Self {
        McpProvider(backend)
    }
}

impl Provider for McpProvider {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        let backend = self.0.clone();
        Box::pin(async move {
            let (mode, end) = (asked.reply.clone(), asked.cancel.clone());
            let reply = match mode {
                ReplyMode::Value if asked.approver.is_some() => {
                    Box::pin(asking(&backend, &tool, arguments, asked)).await?
                }
                ReplyMode::Value if asked.may_begin_again() => noticing(&backend, &tool, arguments, asked).await,
                _ => {
                    let reply = asked.reply.clone();
                    backend.call(&tool, arguments, options(asked, reply)).await
                }
            };
            // A large reply takes a while to read: not after the end of its run.
            let reply = reply.and_then(|reply| match end.is_cancelled() {
                true => Err(CallError::Cancelled { sent: true }),
                false => Ok(reply),
            });
            let answer = reply.map(|reply| match mode {
                ReplyMode::Value | ReplyMode::Asking(_) => Answer::Text(reply.into_text()),
                ReplyMode::Raw | ReplyMode::Interactive(_) => Answer::Raw(reply.into_result()),
            });
            answer.map_err(|error| host_error(backend.name(), &tool, error))
        })
    }

    fn has_more_tools(&self) -> bool {
        self.0.has_more_tools()
    }
}

fn options(asked: RequestContext, reply: ReplyMode) -> CallOptions {
    CallOptions {
        timeout: asked.timeout,
        cancel: asked.cancel,
        progress: asked.progress,
        caller: asked.caller,
        unready: WhenUnready::Wait,
        reply,
        budget: asked.budget,
        trace: asked.trace,
    }
}

/// Calls a tool of a server that may ask a person something before it answers.
///
/// What the server asked in attempts before a pause is settled before the call is sent again. A modern server goes on from its last
/// question, with the state that it gave then; a legacy server begins anew with each attempt.
async fn asking(
    backend: &Backend,
    tool: &str,
    arguments: Map<String, Value>,
    asked: RequestContext,
) -> Result<Result<CallReply, CallError>, HostError> {
    let target = Target::Tool { backend: backend.name().to_owned(), tool: tool.to_owned() };
    let settled = server_questions::settle(&asked, &target, &arguments).await?;
    let kept = server_questions::kept_answers(&settled);
    let mut goes_on = kept.is_some();
    let mut answers = kept.unwrap_or_default();
    let mut attempt = if goes_on { u32::try_from(settled.len()).unwrap_or(u32::MAX) } else { 0 };
    while attempt < u32::MAX {
        attempt += 1;
        let reply = server_questions::client(&asked, &answers, &settled).map_or(ReplyMode::Value, ReplyMode::Asking);
        let reply = backend.call(tool, arguments.clone(), options(asked.clone(), reply)).await;
        if std::mem::take(&mut goes_on) && server_questions::refuses_state(&reply) {
            (answers, attempt) = (Map::new(), 0);
            continue;
        }
        let Err(CallError::InputRequired { requests, state }) = &reply else { return Ok(reply) };
        let round = server_questions::round(attempt, settled.len(), requests);
        if round > server_questions::MAX_ROUNDS {
            return Ok(reply);
        }
        let input = (requests, state.as_deref());
        let Some(answer) = server_questions::ask(&asked, &target, &arguments, round, input).await else {
            return Ok(reply);
        };
        answers = answer?;
    }
    Err(HostError::new(CallErrorCode::InputRequired, "the tool asks without end"))
}

/// Calls a tool of a server that may ask a person something, in a run that begins again then as one that can wait.
async fn noticing(
    backend: &Backend,
    tool: &str,
    arguments: Map<String, Value>,
    asked: RequestContext,
) -> Result<CallReply, CallError> {
    let (run, call_id) = (asked.run.clone(), asked.call_id);
    let reply = ReplyMode::Asking(server_questions::form_client());
    let reply = backend.call(tool, arguments, options(asked, reply)).await;
    if let (Err(CallError::InputRequired { requests, .. }), Some(run)) = (&reply, run)
        && server_questions::is_form(requests)
        && run.begin_again(call_id, Some(backend.name())).await
    {
        // The call is dropped with the run.
        return std::future::pending().await;
    }
    reply
}

fn host_error(backend: &str, tool: &str, error: CallError) -> HostError {
    let state = match error.effect() {
        Effect::NotSent => CallState::NotSent,
        Effect::Failed => CallState::Failed,
        Effect::Unknown => CallState::Unknown,
    };
    if let CallError::NotReady { state, .. } = &error {
        return not_ready(backend, Some(tool), &state.in_catalog(true));
    }
    let (code, data) = describe(&error);
    HostError { code, message: error.to_string(), data, state }
}

/// A short name for the failure, and what a program may want to know of it. No wildcard arm: a new error must choose.
fn describe(error: &CallError) -> (CallErrorCode, Option<Value>) {
    match error {
        CallError::Unknown { .. } => (CallErrorCode::UnknownTool, None),
        CallError::Tool(fault) => (CallErrorCode::ToolFailed, fault.data.clone()),
        CallError::Rejected { code, message, data } => {
            (CallErrorCode::Rejected, Some(json!({ "code": code, "message": message, "data": data })))
        }
        CallError::InputRequired { requests, .. } => (CallErrorCode::InputRequired, Some(requests.clone())),
        CallError::InvalidArguments { .. } => (CallErrorCode::InvalidArguments, None),
        CallError::Timeout { .. } => (CallErrorCode::Timeout, None),
        CallError::Crashed { stderr, .. } => (CallErrorCode::Crashed, Some(json!({ "stderr": stderr }))),
        CallError::NotReady { state, .. } if state.may_become_ready() => (CallErrorCode::NotReady, None),
        CallError::NotReady { .. } => (CallErrorCode::FailedToStart, None),
        CallError::Unreachable { .. } => (CallErrorCode::Unreachable, None),
        CallError::Cancelled { .. } => (CallErrorCode::Cancelled, None),
        CallError::Protocol { .. } => (CallErrorCode::Protocol, None),
        CallError::Http { status, .. } => (CallErrorCode::Http, Some(json!({ "status": status }))),
        CallError::TooLarge { .. } | CallError::TooManyValues { .. } => (CallErrorCode::TooLarge, None),
        CallError::OverBudget { .. } => (CallErrorCode::OverBudget, None),
        CallError::NeedsLogin { command, scopes, .. } => {
            (CallErrorCode::NeedsLogin, Some(json!({ "command": command, "scopes": scopes })))
        }
        CallError::Auth(_) => (CallErrorCode::LoginFailed, None),
        CallError::Overloaded { .. } => (CallErrorCode::Overloaded, None),
    }
}
