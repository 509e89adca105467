//! The life of one backend: start, serve, lose, start again, stop.
//!
//! A backend that comes up and dies again is restarted with growing pauses; one that never comes
//! up is called failed after a few tries and looked at now and then. Traffic shows that it is
//! well, and only silence is looked into.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;

use super::backend::Shared;
use super::spec::BackendKind;
use super::state::{BackendNews, BackendState};
use toolgate_mcp::client::{
    Closing, HttpLink, Inbox, InheritedEnv, Launch, Link, LinkError, ListKind, McpSession, Protocol, StdioLink, Transport,
};
use toolgate_mcp::protocol::Era;

/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// After so many starts in vain a backend is called failed.
const TRIES: u32 = 5;
/// How often a failed backend is tried.
const FAILED_PAUSE: Duration = Duration::from_secs(60);
/// A backend that was up for so long is well, whatever made it die.
const HEALTHY_LIFE: Duration = Duration::from_secs(30);
/// The least time between two readings of a list of tools, and two tellings of anything else, that keeps changing.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// The most changes of single resources that are told at a time, so that no backend drowns what others tell.
const UPDATES: usize = 64;

/// How much of a reason is shown, in characters.
const LONGEST_REASON: usize = 500;
/// How often a backend under suspicion is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// Why there is no conversation.
#[derive(Debug)]
enum StartFailure {
    /// It can't work until somebody changes something.
    Hopeless(String),
    /// It may work another time.
    Passing { reason: String, stderr: String, died: bool },
    /// Only a formality: the backend is well.
    Formal(String),
}

impl StartFailure {
    fn of(closing: &Closing) -> Self {
        let (reason, stderr) = (closing.reason.clone(), closing.stderr.clone());
        if closing.is_expected { Self::Formal(reason) } else { Self::Passing { reason, stderr, died: false } }
    }

    fn reason(&self) -> &str {
        match self {
            Self::Hopeless(reason) | Self::Passing { reason, .. } | Self::Formal(reason) => reason,
        }
    }

    /// What callers see while the next try is awaited.
    fn state(&self, attempt: u32, delay: Duration) -> BackendState {
        BackendState::Restarting { attempt, delay, reason: self.reason().to_owned() }
    }
}

/// Why a life ended.
#[derive(Debug)]
enum End {
    Stopped,
    RequestContext,
    StartFailure(StartFailure),
}

/// Leads a backend through its life until it is stopped.
pub(crate) async fn supervise(shared: Arc<Shared>) {
    let mut failures = 0;
    let mut hint = shared.spec.era_hint;
    loop {
        let trouble = match live_once(&shared, &mut hint, &mut failures).await {
            End::Stopped => break,
            End::RequestContext => continue,
            End::StartFailure(trouble) => trouble,
        };
        hint = another_era(hint, &trouble);
        if rest(&shared, &trouble, failures).await.is_err() {
            break;
        }
        failures += 1;
    }
    shared.set_state(BackendState::Stopped);
}

/// One life, from connecting to the end, after which no process of it is left.
async fn live_once(shared: &Arc<Shared>, hint: &mut Option<Era>, failures: &mut u32) -> End {
    let link = match connect(shared) {
        Ok(link) => Arc::new(link),
        Err(trouble) => return End::StartFailure(trouble),
    };
    shared.set_pid(link.pid());
    let started = tokio::select! {
        biased;
        () = shared.stop.cancelled() => Err(End::Stopped),
        started = start(shared, &link, *hint) => started.map_err(End::StartFailure),
    };
    let (end, protocol) = match started {
        Ok(session) => {
            *hint = Some(session.ready.era);
            (serve(shared, &session, failures).await, session.protocol.clone())
        }
        Err(end) => (end, Protocol::Handshake),
    };
    link.shut_down(&protocol).await;
    shared.set_pid(None);
    end
}

/// Some legacy servers die of words they don't know: those get only the ones they do.
fn another_era(hint: Option<Era>, trouble: &StartFailure) -> Option<Era> {
    match (hint, trouble) {
        (None, StartFailure::Passing { died: true, .. }) => Some(Era::Legacy),
        (_, StartFailure::Passing { died: true, .. }) => None,
        (hint, _) => hint,
    }
}

/// Starts or connects, says hello and reads the list of tools. On failure nothing is left behind.
async fn start(shared: &Arc<Shared>, link: &Arc<Link>, hint: Option<Era>) -> Result<Arc<McpSession>, StartFailure> {
    let opening = async {
        let session = McpSession::open(Arc::clone(link), hint).await?;
        let tools = session.list_tools(shared.spec.start_timeout).await?;
        Ok::<_, LinkError>((session, tools))
    };
    let opened = timeout(shared.spec.start_timeout, opening).await;
    let slow = || StartFailure::Passing {
        reason: format!("did not come up within {} ms", shared.spec.start_timeout.as_millis()),
        stderr: shared.stderr.shown(),
        died: false,
    };
    let (session, tools) = opened.map_err(|_| slow())?.map_err(|error| trouble_of(error, shared))?;
    shared.set_tools(tools);
    Ok(Arc::new(session))
}

fn connect(shared: &Shared) -> Result<Link, StartFailure> {
    let spec = &shared.spec;
    let inbox = Arc::new(Inbox::new(Arc::clone(&shared.watchlist)));
    let wire = match &spec.kind {
        BackendKind::Stdio { command, args, env, cwd } => {
            let (command_, args, env, cwd) = (command.clone(), args.clone(), env.clone(), cwd.clone());
            let launch = Launch { command: command_, args, env, inherit: InheritedEnv::Basic, cwd };
            let link = StdioLink::start(&launch, Arc::clone(&inbox), Arc::clone(&shared.stderr), spec.max_message);
            Transport::Stdio(link.map_err(|error| StartFailure::Hopeless(format!("can't run {command}: {error}")))?)
        }
        BackendKind::Http { url, headers } => {
            let link = HttpLink::new(url, headers, Arc::clone(&inbox), spec.max_message);
            Transport::Http(link.map_err(StartFailure::Hopeless)?)
        }
    };
    Ok(Link::new(wire, inbox))
}

/// The reason is shown to people, and parts of it are the backend's own words.
fn trouble_of(error: LinkError, shared: &Shared) -> StartFailure {
    let reason = error.to_string().chars().filter(|c| !c.is_control()).take(LONGEST_REASON).collect();
    match error {
        LinkError::Closed { closing, .. } => {
            StartFailure::Passing { reason, stderr: closing.stderr.clone(), died: true }
        }
        _ => StartFailure::Passing { reason, stderr: shared.stderr.shown(), died: false },
    }
}

/// Serves until the conversation ends.
async fn serve(shared: &Arc<Shared>, session: &Arc<McpSession>, failures: &mut u32) -> End {
    shared.publish(session);
    let end = tokio::select! {
        biased;
        () = shared.stop.cancelled() => End::Stopped,
        closing = session.link.closed() => End::StartFailure(StartFailure::of(&closing)),
        () = shared.restart.notified() => End::RequestContext,
        trouble = tend(shared, session) => End::StartFailure(trouble),
        () = listen_for_ever(shared, session) => End::RequestContext,
    };
    match &end {
        // That it is stopped is said only when no process is left.
        End::Stopped => shared.retract(None),
        End::RequestContext => shared.retract(Some(BackendState::Starting)),
        End::StartFailure(trouble) => shared.retract(Some(trouble.state(0, Duration::ZERO))),
    }
    if shared.served.swap(0, Ordering::Relaxed) > 0 || session.ready.since.elapsed() > HEALTHY_LIFE {
        *failures = 0;
    }
    end
}

async fn listen_for_ever(shared: &Shared, session: &McpSession) {
    let list = &shared.watchlist;
    list.renew();
    tokio::join!(session.listen(list), session.keep_subscribed(list));
    std::future::pending::<()>().await;
}

/// Keeps the list of tools fresh, passes on that others changed, and looks into silence. Ends with what is wrong.
async fn tend(shared: &Shared, session: &McpSession) -> StartFailure {
    let probe = shared.spec.probe;
    let inbox = &session.link.inbox;
    // They were not there before it came up.
    for offer in [ListKind::Resources, ListKind::Prompts] {
        if session.has(offer) {
            shared.tell(BackendNews::Offers(offer));
        }
    }
    loop {
        tokio::select! {
            () = inbox.tools_changed.notified() => {
                refresh(shared, session).await;
                tokio::time::sleep(REFRESH_PAUSE).await;
            }
            () = inbox.resources_changed.notified() => {
                shared.tell(BackendNews::Offers(ListKind::Resources));
                tokio::time::sleep(REFRESH_PAUSE).await;
            }
            () = inbox.prompts_changed.notified() => {
                shared.tell(BackendNews::Offers(ListKind::Prompts));
                tokio::time::sleep(REFRESH_PAUSE).await;
            }
            () = shared.watchlist.fresh.notified() => {
                for uri in shared.watchlist.take_updated(UPDATES) {
                    shared.tell(BackendNews::Updated(uri));
                }
                tokio::time::sleep(REFRESH_PAUSE).await;
            }
            () = silence(shared, session) => {
                if let Err(error) = session.probe(probe.timeout).await {
                    return trouble_of(error, shared);
                }
            }
        }
    }
}

/// Waits until the backend should be asked for a sign of life.
async fn silence(shared: &Shared, session: &McpSession) {
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
        let pause = if suspected { GLANCE } else { left.max(GLANCE) };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.suspicion.notified() => suspected = true,
        }
    }
}

async fn refresh(shared: &Shared, session: &McpSession) {
    match session.list_tools(shared.spec.timeout).await {
        Ok(tools) => shared.set_tools(tools),
        Err(error) => tracing::warn!(backend = &*shared.name, %error, "the changed list of tools can't be read"),
    }
}

/// Shows the trouble and waits for the next try. An error means that we were stopped meanwhile.
async fn rest(shared: &Shared, trouble: &StartFailure, failures: u32) -> Result<(), ()> {
    let failed = |stderr: &str| BackendState::Failed { reason: trouble.reason().to_owned(), stderr: stderr.to_owned() };
    let (state, pause) = match trouble {
        StartFailure::Hopeless(_) => (failed(""), FAILED_PAUSE),
        StartFailure::Passing { stderr, .. } if failures + 1 >= TRIES => (failed(stderr), FAILED_PAUSE),
        StartFailure::Passing { .. } => {
            let pause = pause_after(failures);
            (trouble.state(failures, pause), pause)
        }
        StartFailure::Formal(_) => (trouble.state(failures, Duration::ZERO), Duration::ZERO),
    };
    shared.set_state(state);
    shared.restarts.fetch_add(1, Ordering::Relaxed);
    tokio::select! {
        biased;
        () = shared.stop.cancelled() => Err(()),
        () = shared.restart.notified() => Ok(()),
        () = tokio::time::sleep(pause) => Ok(()),
    }
}

/// Twice as long each time, and never quite the same for two backends that died together.
fn pause_after(failures: u32) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE);
    let chance = RandomState::new().hash_one(failures) % 41;
    pause.mul_f64(0.8 + chance as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_vary() {
        for failures in 0..40 {
            let full = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE);
            let pause = pause_after(failures);
            assert!(pause >= full.mul_f64(0.79) && pause <= full.mul_f64(1.21), "{failures}: {pause:?}");
        }
    }
}
