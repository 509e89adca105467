//! The handle to one backend: its state, its tools, and calls to them.

mod tool_notices;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::call::{CallError, CallOptions, CallReply, LoginReason, ReplyMode, WhenUnready, http_status};
use super::spec::{BackendKind, BackendSpec, StartTime};
use super::state::{BackendChange, BackendEvent, BackendState, BackendStats};
use super::supervisor::supervise;
use tool_notices::{ago, latest_changes, left_out_notices, note_changes, recent_changes, unix_seconds};
use toolgate_catalog::Tool;
use toolgate_catalog::cache::ChangedTool;
use toolgate_engine::{Permit, TurnQueue};
use toolgate_mcp::client::auth::{AuthError, LoginVersion, MissingScopes};
use toolgate_mcp::client::{
    LeftOutTools, LinkError, McpSession, StderrTail, ToolCallOptions, ToolChange, ToolFingerprints, ToolName, Watchlist,
};
use toolgate_mcp::process_budget;
use toolgate_mcp::result::{ToolResult, Wrapping};
use toolgate_wire::foreign_text::one_line;

/// The least time between a failed start and the next one that a call asks for.
const RETRY_PAUSE: Duration = Duration::from_secs(3);

/// The most characters of a tool's name in a log line.
const MAX_SHOWN_NAME: usize = 100;

/// The HTTP status of a request whose credentials are missing or not taken.
const UNAUTHORIZED: u64 = 401;

/// A backend that runs for as long as a handle to it exists. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Backend {
    pub(super) shared: Arc<Shared>,
    _stop_with_the_last: Arc<DropGuard>,
}

/// What handles and the supervisor share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) spec: BackendSpec,
    pub(crate) queue: Arc<TurnQueue>,
    pub(crate) stderr: Arc<StderrTail>,
    pub(crate) stop: CancellationToken,
    /// Ends whatever it does now, also a start, and starts it. Kept until it is seen.
    pub(crate) restart: Notify,
    /// Ends the pause after a failed start. Not kept: a start that is under way is what the caller wants.
    pub(crate) retry: Notify,
    /// Cancelled once something of the backend is needed.
    pub(crate) needed: CancellationToken,
    pub(crate) suspicion: Notify,
    /// The server refused the login during a call.
    pub(crate) login_ended: Notify,
    pub(crate) restarts: AtomicU64,
    /// Calls answered since the backend came up.
    pub(crate) served: AtomicU64,
    state: watch::Sender<BackendState>,
    /// When its start was called failed; none in any other state.
    failed_at: Mutex<Option<Instant>>,
    session: Mutex<Option<Arc<McpSession>>>,
    toolbox: RwLock<Arc<Toolbox>>,
    pid: AtomicU32,
    events: broadcast::Sender<BackendEvent>,
    pub(crate) watchlist: Arc<Watchlist>,
    /// What its tools said last, in this session or an earlier one.
    fingerprints: Mutex<ToolFingerprints>,
    /// Tools of an earlier start, until their fingerprints are taken.
    known: Mutex<Vec<Tool>>,
    /// Tools that changed what they say, oldest first.
    changed: Mutex<Vec<ChangedTool>>,
    /// The tools of its list that are not kept.
    left_out: Mutex<LeftOutTools>,
    /// Whether the store has a login for it, as of this version.
    pub(super) known_login: Mutex<Option<(LoginVersion, bool)>>,
}

impl Backend {
    /// Starts a backend in the background. Needs a Tokio runtime.
    pub fn start(spec: BackendSpec, events: broadcast::Sender<BackendEvent>) -> Self {
        Self::start_watched(spec, events, Arc::default())
    }

    /// Starts a backend of which these resources are watched already.
    pub(super) fn start_watched(
        mut spec: BackendSpec,
        events: broadcast::Sender<BackendEvent>,
        watchlist: Arc<Watchlist>,
    ) -> Self {
        let known = std::mem::take(&mut spec.known);
        let stop = CancellationToken::new();
        let (needed, state) = (
            CancellationToken::new(),
            match spec.start {
                StartTime::Now => BackendState::Starting,
                StartTime::WhenNeeded => BackendState::Idle,
            },
        );
        let shared = Arc::new(Shared {
            name: spec.name.as_str().into(),
            queue: TurnQueue::new(spec.max_concurrent_calls, spec.max_queued_calls),
            spec,
            stderr: Arc::default(),
            stop: stop.clone(),
            restart: Notify::new(),
            retry: Notify::new(),
            needed,
            suspicion: Notify::new(),
            login_ended: Notify::new(),
            restarts: AtomicU64::new(0),
            served: AtomicU64::new(0),
            state: watch::channel(state).0,
            failed_at: Mutex::default(),
            session: Mutex::default(),
            toolbox: RwLock::default(),
            pid: AtomicU32::new(0),
            events,
            watchlist,
            fingerprints: Mutex::default(),
            changed: Mutex::new(recent_changes(known.changed)),
            known: Mutex::new(known.tools),
            left_out: Mutex::default(),
            known_login: Mutex::default(),
        });
        tokio::spawn(supervise(Arc::clone(&shared)));
        Self { shared, _stop_with_the_last: Arc::new(stop.drop_guard()) }
    }

    /// The user's name for it.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What the user asked for.
    pub fn spec(&self) -> &BackendSpec {
        &self.shared.spec
    }

    /// Where it is in its life.
    pub fn state(&self) -> BackendState {
        self.shared.state.borrow().clone()
    }

    /// Its state, and every change of it.
    pub fn watch(&self) -> watch::Receiver<BackendState> {
        self.shared.state.subscribe()
    }

    /// The tools it listed last; none before it first came up.
    pub fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.shared.toolbox().tools)
    }

    /// Tools that changed what they say within the last week, also before this start; oldest first.
    pub fn changed_tools(&self) -> Vec<ChangedTool> {
        recent_changes(self.shared.changed.lock().clone())
    }

    /// Whether it lists more tools than are kept.
    pub fn has_more_tools(&self) -> bool {
        self.shared.left_out.lock().has_any()
    }

    /// What a person should know about its tools, a sentence each; of single tools only of those that `sees` permits.
    pub fn notices(&self, sees: impl Fn(&str) -> bool) -> Vec<String> {
        let left_out = left_out_notices(&self.shared.left_out.lock().clone(), self.tools().len(), &sees);
        let changed = self.changed_tools();
        let changed = changed.iter().rev().filter(|change| sees(&change.tool)).map(|change| {
            let (tool, parts) = (one_line(&change.tool, MAX_SHOWN_NAME), change.parts.join(" and "));
            format!("{tool} changed its {parts} {}: read what it says now before you rely on it", ago(change.at))
        });
        left_out.into_iter().chain(changed).collect()
    }

    /// Counters for health pages and tests.
    pub fn stats(&self) -> BackendStats {
        let (in_flight, queued) = self.shared.queue.load();
        let session = self.shared.session();
        let count = |of: fn(&McpSession) -> &AtomicU64| {
            session.as_deref().map_or(0, |session| of(session).load(Ordering::Relaxed))
        };
        BackendStats {
            pid: Some(self.shared.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0),
            in_flight,
            queued,
            restarts: self.shared.restarts.load(Ordering::Relaxed),
            garbage: count(|session| &session.link.inbox.malformed),
            stray_replies: count(|session| &session.link.inbox.unmatched_replies),
        }
    }

    /// The end of what it wrote to its standard error, safe to print.
    pub fn stderr(&self) -> String {
        self.shared.stderr.shown()
    }

    /// Changes how many calls it works on at the same time, without a restart.
    pub fn resize(&self, max_concurrent_calls: usize) {
        self.shared.queue.resize(max_concurrent_calls);
    }

    /// Starts it if it was not started yet.
    pub fn start_if_idle(&self) {
        self.shared.needed.cancel();
    }

    /// Starts it if it was not started yet, or again if its start failed and the last try is some seconds ago: a caller
    /// needs it now.
    pub fn retry_failed_start(&self) {
        self.start_if_idle();
        if self.shared.leave_failed() {
            self.shared.retry.notify_waiters();
        }
    }

    /// Starts it again now, whatever its state.
    pub fn restart(&self) {
        if !self.shared.needed.is_cancelled() && self.state() == BackendState::Idle {
            return self.start_if_idle();
        }
        if matches!(self.state(), BackendState::Failed { .. }) {
            self.shared.set_state(BackendState::Starting);
        }
        self.shared.restart.notify_one();
    }

    /// Ends it, and waits until no process of it is left.
    pub async fn shut_down(&self) {
        self.shared.stop.cancel();
        let _ = self.watch().wait_for(|state| *state == BackendState::Stopped).await;
    }

    /// Waits until it answers calls, at most for `within`. Starts it if it was not started yet.
    pub async fn ready(&self, within: Duration) -> Result<(), CallError> {
        self.start_if_idle();
        let mut state = self.watch();
        let is_settled = |state: &BackendState| self.shared.session().is_some() || !state.may_become_ready();
        let settled = timeout(within, state.wait_for(is_settled)).await.is_ok_and(|state| state.is_ok());
        if settled && self.shared.session().is_some() { Ok(()) } else { Err(self.not_ready()) }
    }

    /// Calls a tool. Dropping the future cancels the call, as the token in `options` does.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<CallReply, CallError> {
        let cancel = options.cancel.clone();
        let mut sent = false;
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            outcome = self.call_in_turn(tool, arguments, options, &mut sent) => return outcome,
        }
        Err(CallError::Cancelled { sent })
    }

    async fn call_in_turn(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
        sent: &mut bool,
    ) -> Result<CallReply, CallError> {
        let within = options.timeout.unwrap_or(self.shared.spec.timeout);
        self.wait_if_asked(&options, within).await?;
        let _permit = self.turn(options.caller).await?;
        // It may have been lost while the call waited for its turn.
        self.wait_if_asked(&options, within).await?;
        let session = self.shared.session().ok_or_else(|| self.not_ready())?;
        let toolbox = self.shared.toolbox();
        let unknown = || CallError::Unknown { backend: Arc::clone(&self.shared.name), tool: tool.to_owned() };
        let tool = toolbox.get(tool).ok_or_else(unknown)?;
        *sent = true;
        let options = &options;
        let deadline = tokio::time::Instant::now().checked_add(within);
        let call = self.attempt(session, arguments, |session, arguments| async move {
            let name = ToolName { name: &tool.name, input_schema: tool.input_schema() };
            let options = ToolCallOptions {
                client: options.reply.interactive(),
                may_repeat: matches!(options.reply, ReplyMode::Asking(_)),
                progress: options.progress.clone(),
                budget: options.budget.as_ref().unwrap_or(process_budget()).clone(),
                idempotency_key: toolgate_functions::idempotency::current(),
                trace: options.trace.clone(),
                deadline,
            };
            session.call(name, arguments, options).await
        });
        let answer = match timeout(within, call).await {
            Ok(answer) => answer.map_err(|error| self.explain(error))?,
            Err(_) => {
                self.shared.suspicion.notify_one();
                return Err(CallError::Timeout { after: within });
            }
        };
        self.shared.served.fetch_add(1, Ordering::Relaxed);
        self.finish(answer, tool, &options.reply)
    }

    /// From a raw result to a reply or a fault. A client gets what a program could do nothing with.
    fn finish(&self, result: ToolResult, tool: &Tool, mode: &ReplyMode) -> Result<CallReply, CallError> {
        let may_ask = matches!(mode, ReplyMode::Interactive(_));
        match result.result_type().as_deref() {
            Some("input_required") if !(may_ask && result.requests_input()) => {
                return Err(CallError::InputRequired {
                    requests: result.input_requests(),
                    state: result.request_state(),
                });
            }
            Some("task") => return Err(not_asked_for()),
            _ => {}
        }
        let fault = result.fault();
        let is_api = matches!(self.shared.spec.kind, BackendKind::OpenApi(_));
        if is_api && fault.as_ref().and_then(http_status) == Some(UNAUTHORIZED) {
            self.shared.notify(BackendChange::Unauthorized);
        }
        match fault {
            Some(fault) if matches!(mode, ReplyMode::Value | ReplyMode::Asking(_)) => {
                Err(CallError::Tool(Box::new(fault)))
            }
            _ => Ok(CallReply::new(result, Wrapping::of_schema(tool.output_schema()))),
        }
    }

    /// Waits for the caller's turn.
    pub(super) async fn turn(&self, caller: u64) -> Result<Permit, CallError> {
        let queue = &self.shared.queue;
        let full = |_| CallError::Overloaded { backend: Arc::clone(&self.shared.name), queued: queue.load().1 };
        queue.enter(caller).await.map_err(full)
    }

    async fn wait_if_asked(&self, options: &CallOptions, within: Duration) -> Result<(), CallError> {
        match options.unready {
            WhenUnready::Wait if self.shared.session().is_none() => Box::pin(self.ready(within)).await,
            WhenUnready::Wait | WhenUnready::Fail => Ok(()),
        }
    }

    /// One try, and a second one after a new session if the server had forgotten ours: it did not serve the first.
    pub(super) async fn attempt<W: Clone, T, F: Future<Output = Result<T, LinkError>>>(
        &self,
        session: Arc<McpSession>,
        input: W,
        operation: impl Fn(Arc<McpSession>, W) -> F,
    ) -> Result<T, LinkError> {
        let saved = session.may_expire().then(|| input.clone());
        let first = operation(session, input).await;
        let (Err(LinkError::SessionExpired), Some(saved)) = (&first, saved) else { return first };
        let mut state = self.watch();
        let _ = state.wait_for(|_| self.shared.session().is_some()).await;
        let session = self.shared.session().ok_or(LinkError::SessionExpired)?;
        operation(session, saved).await
    }

    pub(super) fn not_ready(&self) -> CallError {
        CallError::NotReady { backend: Arc::clone(&self.shared.name), state: self.state() }
    }

    fn needs_login(&self, named: &[String], scopes: Vec<String>) -> CallError {
        CallError::NeedsLogin { command: self.shared.login_command(named), scopes, reason: LoginReason::Missing }
    }

    /// A login whose scopes do not cover a call.
    fn needs_scopes(&self, scopes: Vec<String>, missing: MissingScopes) -> CallError {
        let asks_for_more = match missing {
            MissingScopes::Named => return self.needs_login(&scopes.clone(), scopes),
            MissingScopes::UnnamedWithMoreToAsk => true,
            MissingScopes::Unnamed => false,
        };
        let setting = self.shared.spec.kind.scopes_setting();
        let reason = LoginReason::UnnamedScopes { setting, asks_for_more };
        // Without a scope it asks for those of the configuration and of the server's metadata.
        CallError::NeedsLogin { command: self.shared.login_command(&[]), scopes, reason }
    }

    pub(super) fn explain(&self, error: LinkError) -> CallError {
        match error {
            LinkError::Closed { sent: false, .. } | LinkError::SessionExpired => self.not_ready(),
            LinkError::Closed { closing, sent: true } => {
                CallError::Crashed { reason: closing.reason.clone(), stderr: closing.stderr.clone() }
            }
            LinkError::Unreachable(reason) => CallError::Unreachable { reason },
            LinkError::InvalidArguments(reason) => CallError::InvalidArguments { reason },
            LinkError::Rejected(error) => {
                CallError::Rejected { code: error.code, message: error.message, data: error.data }
            }
            LinkError::Http { status, message } => {
                if u64::from(status) == UNAUTHORIZED {
                    self.shared.notify(BackendChange::Unauthorized);
                }
                CallError::Http { status, message }
            }
            LinkError::TooLarge { limit } => CallError::TooLarge { limit },
            LinkError::OverBudget { refused, sent } => CallError::OverBudget { refused, sent },
            LinkError::TooManyValues { limit } => CallError::TooManyValues { limit },
            LinkError::Auth(AuthError::LoginRequired { scopes }) => {
                // No call can succeed before the next login; of an API, some operations may need none.
                if matches!(self.shared.spec.kind, BackendKind::Http { .. }) {
                    self.shared.login_ended.notify_one();
                }
                self.needs_login(&[], scopes)
            }
            LinkError::Auth(AuthError::ScopesRequired { scopes, missing }) => self.needs_scopes(scopes, missing),
            LinkError::Auth(error) => {
                // As above: the state says that the server refuses the login.
                let is_refused = matches!(error, AuthError::TokenRefused { .. });
                if is_refused && matches!(self.shared.spec.kind, BackendKind::Http { .. }) {
                    self.shared.login_ended.notify_one();
                }
                CallError::Auth(error)
            }
            LinkError::Protocol(reason) => CallError::Protocol { reason },
        }
    }
}

/// A result that is one, or a question to someone who may be asked.
pub(super) fn answered(result: ToolResult, may_ask: bool) -> Result<ToolResult, CallError> {
    match result.result_type().as_deref() {
        Some("input_required") if !(may_ask && result.requests_input()) => {
            Err(CallError::InputRequired { requests: result.input_requests(), state: None })
        }
        Some("task") => Err(not_asked_for()),
        _ => Ok(result),
    }
}

fn not_asked_for() -> CallError {
    CallError::Protocol { reason: "a task, which we did not ask for".to_owned() }
}

/// The tools of a backend, found by name in a list that may be long.
#[derive(Debug, Default)]
struct Toolbox {
    tools: Arc<[Tool]>,
    by_name: HashMap<String, usize>,
}

impl Toolbox {
    fn new(tools: Vec<Tool>) -> Self {
        let by_name = tools.iter().enumerate().map(|(index, tool)| (tool.name.clone(), index)).collect();
        Self { tools: tools.into(), by_name }
    }

    fn get(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).and_then(|index| self.tools.get(*index))
    }
}

impl Shared {
    /// The command with which a person logs in.
    pub(crate) fn login_command(&self, scopes: &[String]) -> String {
        let login = self.spec.kind.login();
        login.map(|login| login.command_for(scopes)).unwrap_or_default()
    }

    /// The version of the login, where there can be one.
    pub(crate) fn login_version(&self) -> Option<LoginVersion> {
        self.spec.kind.login().map(super::login::LoginSpec::version)
    }

    pub(crate) fn set_state(&self, state: BackendState) {
        let changed = self.state.send_if_modified(|now| {
            let differs = *now != state;
            now.clone_from(&state);
            differs
        });
        if changed {
            *self.failed_at.lock() = matches!(state, BackendState::Failed { .. }).then(Instant::now);
            state.log(&self.name);
            self.notify(BackendChange::State(state));
        }
    }

    /// Calls it failed until its configuration or its login changes, or a person restarts it: no call does.
    pub(crate) fn set_failed_for_good(&self, state: BackendState) {
        self.set_state(state);
        *self.failed_at.lock() = None;
    }

    /// Moves from failed to starting; false in any other state, or if it failed only a moment ago.
    fn leave_failed(&self) -> bool {
        let mut last = self.failed_at.lock();
        if !last.is_some_and(|at| at.elapsed() >= RETRY_PAUSE)
            || !matches!(*self.state.borrow(), BackendState::Failed { .. })
        {
            return false;
        }
        // The background retry may have come up since.
        let has_left = self.state.send_if_modified(|now| {
            let is_failed = matches!(now, BackendState::Failed { .. });
            if is_failed {
                *now = BackendState::Starting;
            }
            is_failed
        });
        if has_left {
            *last = None;
            drop(last);
            BackendState::Starting.log(&self.name);
            self.notify(BackendChange::State(BackendState::Starting));
        }
        has_left
    }

    /// Lets calls through.
    pub(crate) fn publish(&self, session: &Arc<McpSession>) {
        *self.session.lock() = Some(Arc::clone(session));
        self.set_state(BackendState::Ready(Arc::clone(&session.ready)));
    }

    /// Lets no more calls through.
    pub(crate) fn retract(&self, state: Option<BackendState>) {
        self.session.lock().take();
        state.into_iter().for_each(|state| self.set_state(state));
    }

    pub(crate) fn set_pid(&self, pid: Option<u32>) {
        self.pid.store(pid.unwrap_or(0), Ordering::Relaxed);
    }

    /// Reports tools that say something else than they did.
    pub(crate) fn report_changed_tools(&self, tools: impl IntoIterator<Item = impl Borrow<Value>>) {
        let known = std::mem::take(&mut *self.known.lock());
        let mut fingerprints = self.fingerprints.lock();
        for tool in known {
            // An owned copy, so that the tree is not kept with the tool.
            fingerprints.update([&tool.to_raw()]);
        }
        // One at a time: an API has thousands of tools, which are kept as text.
        let changes: Vec<ToolChange> =
            tools.into_iter().flat_map(|tool| fingerprints.update([tool.borrow()])).collect();
        drop(fingerprints);
        let told = latest_changes(&changes, unix_seconds());
        for change in &told {
            tracing::warn!(backend = &*self.name, tool = change.tool, parts = ?change.parts, "a tool changed what it says");
        }
        if changes.len() > told.len() {
            let more = changes.len() - told.len();
            tracing::warn!(backend = &*self.name, more, "more tools changed what they say");
        }
        note_changes(&mut self.changed.lock(), told);
        if !changes.is_empty() {
            self.notify(BackendChange::ToolsChanged(changes.into()));
        }
    }

    /// Notes the tools of its list that are not kept; false if they are the same as before.
    pub(crate) fn set_left_out(&self, left_out: &LeftOutTools) -> bool {
        let mut before = self.left_out.lock();
        let differs = *before != *left_out;
        before.clone_from(left_out);
        differs
    }

    pub(crate) fn set_tools(&self, tools: Vec<Tool>) {
        if self.toolbox().tools[..] == tools[..] {
            return;
        }
        let toolbox = Arc::new(Toolbox::new(tools));
        let change = BackendChange::Tools(Arc::clone(&toolbox.tools));
        *self.toolbox.write() = toolbox;
        self.notify(change);
    }

    fn toolbox(&self) -> Arc<Toolbox> {
        Arc::clone(&self.toolbox.read())
    }

    /// The conversation, if it is still of use: the supervisor may not have seen its end yet.
    pub(super) fn session(&self) -> Option<Arc<McpSession>> {
        let session = self.session.lock().clone();
        session.filter(|session| !session.link.is_closed())
    }

    /// Sends a change to every listener; without listeners nothing happens.
    pub(crate) fn notify(&self, change: BackendChange) {
        let _ = self.events.send(BackendEvent { backend: Arc::clone(&self.name), change });
    }
}

#[cfg(test)]
mod tests;
