//! The life of one backend: start, serve, lose, start again, stop.
//!
//! A backend that comes up and dies again is restarted with growing pauses; one that never comes
//! up is called failed after a few tries and looked at now and then. Traffic shows that it is
//! well, and only silence is looked into.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::timeout;
use toolgate_catalog::Tool;

use super::backend::Shared;
use super::openapi::{self, ApiServer, ApiSpec, OpenFailure};
use super::spec::{BackendKind, StartTime};
use super::state::{BackendChange, BackendState};
use toolgate_mcp::client::auth::{AuthError, LoginVersion, MissingScopes};
use toolgate_mcp::client::{
    Closing, HttpLink, Inbox, Launch, Link, LinkError, ListKind, LocalLink, McpSession, Protocol, Redactor, StdioLink,
    ToolListing, Transport,
};
use toolgate_mcp::protocol::Era;
use toolgate_wire::foreign_text::one_line;

/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// After so many starts in vain a backend is called failed.
const MAX_START_ATTEMPTS: u32 = 5;
/// How often a failed backend is tried.
const FAILED_PAUSE: Duration = Duration::from_secs(60);
/// A backend that was up for so long is well, whatever made it die.
const HEALTHY_LIFE: Duration = Duration::from_secs(30);
/// The least time between two readings of a list of tools, and two tellings of anything else, that keeps changing.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// The most changes of single resources that are told at a time, so that no backend drowns what others tell.
const MAX_UPDATES_AT_ONCE: usize = 64;

/// How much of a reason is shown, in characters.
const MAX_REASON_CHARS: usize = 500;
/// How often a login is looked for where one is needed.
const LOGIN_INTERVAL: Duration = Duration::from_millis(300);
/// How often a server that wants a login is asked whether it still does.
const LOGIN_PAUSE: Duration = Duration::from_secs(300);
/// How often a backend under suspicion is looked at.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Why there is no conversation.
#[derive(Debug)]
enum StartFailure {
    /// It can't work until the configuration or the machine changes.
    Permanent(String),
    /// It may work another time.
    Temporary { reason: String, stderr: String, died: bool },
    /// Only a formality: the backend is well.
    Expected(String),
    /// The issuer gives no token to the client of the configuration. Not tried again before the configuration or the login
    /// changes, or a person restarts it: issuers lock the accounts of clients that try.
    ClientRefused(String),
    /// A person has to log in, with this command.
    NeedsLogin { command: String },
}

impl StartFailure {
    fn of(closing: &Closing) -> Self {
        let (reason, stderr) = (closing.reason.clone(), closing.stderr.clone());
        if closing.is_expected { Self::Expected(reason) } else { Self::Temporary { reason, stderr, died: false } }
    }

    /// The same without the secrets of the backend: what failed may repeat its command, its URL or its own words.
    fn redacted(self, redactor: &Redactor) -> Self {
        match self {
            Self::Permanent(reason) => Self::Permanent(redactor.redact(&reason)),
            Self::ClientRefused(reason) => Self::ClientRefused(redactor.redact(&reason)),
            Self::Temporary { reason, stderr, died } => {
                Self::Temporary { reason: redactor.redact(&reason), stderr: redactor.redact(&stderr), died }
            }
            Self::Expected(reason) => Self::Expected(redactor.redact(&reason)),
            Self::NeedsLogin { .. } => self,
        }
    }

    /// What callers see while the next try is awaited.
    fn state(&self, attempt: u32, delay: Duration) -> BackendState {
        let reason = match self {
            Self::Permanent(reason)
            | Self::Temporary { reason, .. }
            | Self::Expected(reason)
            | Self::ClientRefused(reason) => reason,
            Self::NeedsLogin { command } => return BackendState::NeedsLogin { command: command.clone() },
        };
        BackendState::Restarting { attempt, delay, reason: reason.clone() }
    }
}

/// Why a life ended.
#[derive(Debug)]
enum End {
    Stopped,
    RestartRequested,
    Failed(StartFailure),
}

impl End {
    fn redacted(self, redactor: &Redactor) -> Self {
        match self {
            Self::Failed(failure) => Self::Failed(failure.redacted(redactor)),
            Self::Stopped | Self::RestartRequested => self,
        }
    }
}

/// Leads a backend through its life until it is stopped.
pub(crate) async fn supervise(shared: Arc<Shared>) {
    if wait_until_needed(&shared).await.is_err() {
        return shared.set_state(BackendState::Stopped);
    }
    let mut failures = 0;
    let mut hint = shared.spec.era_hint;
    loop {
        // Looked at before the server is asked, so that a login at that moment is not missed.
        let login = shared.login_version();
        let failure = match run_once(&shared, &mut hint, &mut failures).await {
            End::Stopped => break,
            End::RestartRequested => continue,
            End::Failed(failure) => failure,
        };
        hint = another_era(hint, &failure);
        if wait_for_next_try(&shared, &failure, failures, login).await.is_err() {
            break;
        }
        failures = match failure {
            StartFailure::NeedsLogin { .. } => 0,
            // It is called failed: whatever goes wrong at the next try, it still is.
            StartFailure::Permanent(_) | StartFailure::ClientRefused(_) => failures.max(MAX_START_ATTEMPTS),
            StartFailure::Temporary { .. } | StartFailure::Expected(_) => failures.saturating_add(1),
        };
    }
    shared.set_state(BackendState::Stopped);
}

/// Returns at once unless the backend is to be started when it is needed. An error means that it was stopped before.
async fn wait_until_needed(shared: &Shared) -> Result<(), ()> {
    if shared.spec.start == StartTime::Now {
        return Ok(());
    }
    tokio::select! {
        biased;
        () = shared.stop.cancelled() => Err(()),
        () = shared.needed.cancelled() => {
            shared.set_state(BackendState::Starting);
            Ok(())
        }
    }
}

/// One life, from connecting to the end, after which no process of it is left.
async fn run_once(shared: &Arc<Shared>, hint: &mut Option<Era>, failures: &mut u32) -> End {
    let connected = tokio::select! {
        biased;
        () = shared.stop.cancelled() => return End::Stopped,
        () = shared.restart.notified() => return End::RestartRequested,
        connected = connect(shared) => connected,
    };
    let link = match connected {
        Ok(link) => Arc::new(link),
        Err(failure) => return End::Failed(failure.redacted(&shared.spec.redactor())),
    };
    shared.set_pid(link.pid());
    let started = tokio::select! {
        biased;
        () = shared.stop.cancelled() => Err(End::Stopped),
        // Not kept until it is up: a server that just came up would be stopped and started once more.
        () = shared.restart.notified() => Err(End::RestartRequested),
        started = start(shared, &link, *hint) => started.map_err(End::Failed),
    };
    let (end, protocol) = match started {
        Ok(session) => {
            *hint = Some(session.ready.era);
            (serve(shared, &session, failures).await, session.protocol.clone())
        }
        Err(end) => (end.redacted(&shared.spec.redactor()), Protocol::Handshake),
    };
    link.shut_down(&protocol).await;
    shared.set_pid(None);
    end
}

/// Some legacy servers die of words they don't know: those get only the ones they do.
fn another_era(hint: Option<Era>, failure: &StartFailure) -> Option<Era> {
    match (hint, failure) {
        (None, StartFailure::Temporary { died: true, .. }) => Some(Era::Legacy),
        (_, StartFailure::Temporary { died: true, .. }) => None,
        (hint, _) => hint,
    }
}

/// Starts or connects, says hello and reads the list of tools. On failure nothing is left behind.
async fn start(shared: &Arc<Shared>, link: &Arc<Link>, hint: Option<Era>) -> Result<Arc<McpSession>, StartFailure> {
    let opening = async {
        let session = McpSession::open(Arc::clone(link), hint).await?;
        let tools = match &link.transport {
            Transport::Local(local) => parsed(shared, local.tools()).await?,
            Transport::Stdio(_) | Transport::Http(_) => {
                listed(shared, session.list_tools(shared.spec.start_timeout).await?)
            }
        };
        Ok::<_, LinkError>((session, tools))
    };
    let opened = timeout(shared.spec.start_timeout, opening).await;
    let slow = || StartFailure::Temporary {
        reason: format!("did not come up within {} ms", shared.spec.start_timeout.as_millis()),
        stderr: shared.stderr.shown(),
        died: false,
    };
    let (session, tools) = opened.map_err(|_| slow())?.map_err(|error| failure_of(error, shared))?;
    shared.set_tools(tools);
    Ok(Arc::new(session))
}

fn listed(shared: &Shared, listing: ToolListing) -> Vec<Tool> {
    if shared.set_left_out(&listing.left_out) {
        log_left_out(&shared.name, &listing);
    }
    shared.report_changed_tools(listing.tools.iter());
    listing.tools.into_iter().filter_map(Tool::from_raw).collect()
}

fn log_left_out(backend: &str, ToolListing { tools, left_out }: &ToolListing) {
    if left_out.is_cut {
        tracing::warn!(backend, kept = tools.len(), "too many tools: the others are left out");
    }
    for tool in &left_out.named {
        tracing::warn!(backend, tool = tool.name, reason = %tool.reason, "a tool is left out");
    }
    if left_out.unnamed > 0 {
        tracing::warn!(backend, more = left_out.unnamed, "more tools are left out");
    }
}

/// The tools of a server in this process. Kept as text, and read outside the threads of tasks: an API may have thousands.
async fn parsed(shared: &Arc<Shared>, tools: Vec<Box<RawValue>>) -> Result<Vec<Tool>, LinkError> {
    let shared = Arc::clone(shared);
    let parsed = tokio::task::spawn_blocking(move || {
        let tools: Vec<Tool> = tools.iter().filter_map(|tool| serde_json::from_str(tool.get()).ok()).collect();
        shared.report_changed_tools(tools.iter().map(Tool::to_raw));
        tools
    });
    parsed.await.map_err(|error| LinkError::Protocol(error.to_string()))
}

async fn connect(shared: &Shared) -> Result<Link, StartFailure> {
    let spec = &shared.spec;
    let inbox = Arc::new(Inbox::new(Arc::clone(&shared.watchlist)));
    let wire = match &spec.kind {
        BackendKind::Stdio { command, args, env, cwd } => {
            let launch = Launch {
                command: command.clone(),
                args: args.clone(),
                env: env.clone(),
                redactor: spec.redactor(),
                inherit: spec.inherit_env,
                cwd: cwd.clone(),
                sandbox: spec.sandbox.clone(),
            };
            let link = StdioLink::start(&launch, Arc::clone(&inbox), Arc::clone(&shared.stderr), spec.max_message);
            Transport::Stdio(link.map_err(|error| StartFailure::Permanent(format!("can't run {command}: {error}")))?)
        }
        BackendKind::Http { url, headers, login } => {
            let authorizer = login.as_ref().map(|login| login.authorizer(url)).transpose();
            let authorizer = authorizer.map_err(|error| StartFailure::Permanent(error.to_string()))?;
            let inbox = Arc::clone(&inbox);
            let link = match authorizer {
                Some(authorizer) => HttpLink::authorized(url, headers, authorizer, inbox, spec.max_message),
                None => HttpLink::new(url, headers, inbox, spec.max_message),
            };
            Transport::Http(link.map_err(StartFailure::Permanent)?)
        }
        BackendKind::OpenApi(api) => {
            let server = open_api(shared, api).await?;
            Transport::Local(LocalLink::new(Arc::new(server), Arc::clone(&inbox)))
        }
    };
    Ok(Link::new(wire, inbox).redacting(spec.redactor()))
}

async fn open_api(shared: &Shared, api: &ApiSpec) -> Result<ApiServer, StartFailure> {
    let temporary = |reason: String| StartFailure::Temporary {
        reason: one_line(&reason, MAX_REASON_CHARS),
        stderr: String::new(),
        died: false,
    };
    match timeout(shared.spec.start_timeout, openapi::open(&shared.name, api)).await {
        Ok(Ok(server)) => Ok(server),
        Ok(Err(OpenFailure::Permanent(reason))) => Err(StartFailure::Permanent(one_line(&reason, MAX_REASON_CHARS))),
        Ok(Err(OpenFailure::Temporary(reason))) => Err(temporary(reason)),
        Err(_) => {
            let within = shared.spec.start_timeout.as_millis();
            Err(temporary(format!("its document was not read within {within} ms")))
        }
    }
}

/// The reason is shown to people, and parts of it are the backend's own words.
fn failure_of(error: LinkError, shared: &Shared) -> StartFailure {
    let reason = one_line(&error.to_string(), MAX_REASON_CHARS);
    match error {
        LinkError::Closed { closing, .. } => {
            StartFailure::Temporary { reason, stderr: closing.stderr.clone(), died: true }
        }
        LinkError::Auth(AuthError::LoginRequired { .. }) => {
            StartFailure::NeedsLogin { command: shared.login_command(&[]) }
        }
        LinkError::Auth(AuthError::ClientRefused { .. }) => StartFailure::ClientRefused(reason),
        // Another login would be refused as well, until something changes at the server or its issuer.
        LinkError::Auth(AuthError::TokenRefused { .. }) => StartFailure::Permanent(reason),
        LinkError::Auth(AuthError::ScopesRequired { scopes, missing: MissingScopes::Named }) => {
            StartFailure::NeedsLogin { command: shared.login_command(&scopes) }
        }
        LinkError::Auth(AuthError::ScopesRequired { .. }) => {
            let setting = shared.spec.kind.scopes_setting();
            tracing::warn!(backend = &*shared.name, reason, setting, "the login does not cover its start");
            StartFailure::NeedsLogin { command: shared.login_command(&[]) }
        }
        _ => StartFailure::Temporary { reason, stderr: shared.stderr.shown(), died: false },
    }
}

/// Serves until the conversation ends.
async fn serve(shared: &Arc<Shared>, session: &Arc<McpSession>, failures: &mut u32) -> End {
    shared.publish(session);
    let end = tokio::select! {
        biased;
        () = shared.stop.cancelled() => End::Stopped,
        closing = session.link.closed() => End::Failed(StartFailure::of(&closing)),
        () = shared.restart.notified() => End::RestartRequested,
        () = shared.login_ended.notified() => {
            End::Failed(StartFailure::NeedsLogin { command: shared.login_command(&[]) })
        }
        failure = maintain(shared, session) => End::Failed(failure),
        () = listen(shared, session) => End::RestartRequested,
    };
    let end = end.redacted(&shared.spec.redactor());
    match &end {
        // That it is stopped is said only when no process is left.
        End::Stopped => shared.retract(None),
        End::RestartRequested => shared.retract(Some(BackendState::Starting)),
        End::Failed(failure) => shared.retract(Some(failure.state(0, Duration::ZERO))),
    }
    if shared.served.swap(0, Ordering::Relaxed) > 0 || session.ready.since.elapsed() > HEALTHY_LIFE {
        *failures = 0;
    }
    end
}

async fn listen(shared: &Shared, session: &McpSession) {
    let list = &shared.watchlist;
    list.renew();
    tokio::join!(session.listen(list), session.keep_subscribed(list));
    std::future::pending::<()>().await;
}

/// Keeps the list of tools fresh, passes on that others changed, and looks into silence. Ends with what is wrong.
async fn maintain(shared: &Shared, session: &McpSession) -> StartFailure {
    let probe = shared.spec.probe;
    let inbox = &session.link.inbox;
    // They were not there before it came up.
    for kind in [ListKind::Resources, ListKind::Prompts] {
        if session.has(kind) {
            shared.notify(BackendChange::Lists(kind));
        }
    }
    loop {
        tokio::select! {
            () = inbox.tools_changed.notified() => {
                refresh(shared, session).await;
                tokio::time::sleep(REFRESH_PAUSE).await;
            }
            () = inbox.resources_changed.notified() => {
                shared.notify(BackendChange::Lists(ListKind::Resources));
                tokio::time::sleep(REFRESH_PAUSE).await;
            }
            () = inbox.prompts_changed.notified() => {
                shared.notify(BackendChange::Lists(ListKind::Prompts));
                tokio::time::sleep(REFRESH_PAUSE).await;
            }
            () = shared.watchlist.fresh.notified() => {
                for uri in shared.watchlist.take_updated(MAX_UPDATES_AT_ONCE) {
                    shared.notify(BackendChange::Updated(uri));
                }
                tokio::time::sleep(REFRESH_PAUSE).await;
            }
            () = wait_for_silence(shared, session) => {
                if let Err(error) = session.probe(probe.timeout).await {
                    return failure_of(error, shared);
                }
            }
        }
    }
}

/// Waits until the backend should be asked for a sign of life.
async fn wait_for_silence(shared: &Shared, session: &McpSession) {
    let mut suspected = false;
    loop {
        let silence = session.link.inbox.silence();
        let left = shared.spec.probe.idle.saturating_sub(silence);
        let busy = shared.queue.load().0 > 0;
        // A server that works on one call at a time can't answer a probe meanwhile. But if calls ran
        // out of time and nothing at all was heard for long, it is not working any more.
        let mute = suspected && silence > shared.spec.timeout.saturating_mul(2);
        if mute || (!busy && (suspected || left.is_zero())) {
            return;
        }
        let pause = if suspected { PROBE_INTERVAL } else { left.max(PROBE_INTERVAL) };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.suspicion.notified() => suspected = true,
        }
    }
}

async fn refresh(shared: &Shared, session: &McpSession) {
    match session.list_tools(shared.spec.timeout).await {
        Ok(tools) => shared.set_tools(listed(shared, tools)),
        Err(error) => tracing::warn!(backend = &*shared.name, %error, "the changed list of tools can't be read"),
    }
}

/// Shows the failure and waits for the next try. An error means that we were stopped meanwhile.
async fn wait_for_next_try(
    shared: &Shared,
    failure: &StartFailure,
    failures: u32,
    login: Option<LoginVersion>,
) -> Result<(), ()> {
    let failed =
        |reason: &str, stderr: &str| BackendState::Failed { reason: reason.to_owned(), stderr: stderr.to_owned() };
    let (state, pause) = match failure {
        StartFailure::Permanent(reason) => (failed(reason, ""), FAILED_PAUSE),
        StartFailure::ClientRefused(reason) => {
            // As of now: the try itself keeps which issuer the client belongs to.
            let login = shared.login_version();
            shared.set_failed_for_good(failed(reason, ""));
            return tokio::select! {
                biased;
                () = shared.stop.cancelled() => Err(()),
                () = shared.restart.notified() => Ok(()),
                () = login_changed(shared, login) => Ok(()),
            };
        }
        StartFailure::Temporary { reason, stderr, .. } if failures + 1 >= MAX_START_ATTEMPTS => {
            (failed(reason, stderr), FAILED_PAUSE)
        }
        StartFailure::Temporary { .. } => {
            let pause = pause_after(failures);
            (failure.state(failures, pause), pause)
        }
        StartFailure::Expected(_) => (failure.state(failures, Duration::ZERO), Duration::ZERO),
        StartFailure::NeedsLogin { .. } => (failure.state(failures, Duration::ZERO), LOGIN_PAUSE),
    };
    let login = match failure {
        // As of now: the try itself may have renewed the token, which is no new login.
        StartFailure::Permanent(_) => shared.login_version(),
        _ => login,
    };
    // Made before the state is shown, so that it hears a caller who sees the state.
    let retry = shared.retry.notified();
    shared.set_state(state);
    shared.restarts.fetch_add(1, Ordering::Relaxed);
    tokio::select! {
        biased;
        () = shared.stop.cancelled() => Err(()),
        () = shared.restart.notified() => Ok(()),
        () = retry => Ok(()),
        () = login_changed(shared, login) => Ok(()),
        () = tokio::time::sleep(pause) => Ok(()),
    }
}

/// Waits until a process changes the login: the next try may succeed then, whatever made the last one fail.
async fn login_changed(shared: &Shared, before: Option<LoginVersion>) {
    if before.is_none() {
        return std::future::pending().await;
    }
    while shared.login_version() == before {
        tokio::time::sleep(LOGIN_INTERVAL).await;
    }
}

/// Twice as long each time, and never quite the same for two backends that died together.
fn pause_after(failures: u32) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(MAX_PAUSE);
    let chance = RandomState::new().hash_one(failures) % 41;
    pause.mul_f64(0.8 + chance as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_vary() {
        for failures in 0..40 {
            let full = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(MAX_PAUSE);
            let pause = pause_after(failures);
            assert!(pause >= full.mul_f64(0.79) && pause <= full.mul_f64(1.21), "{failures}: {pause:?}");
        }
    }
}
