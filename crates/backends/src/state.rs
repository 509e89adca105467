//! The states of a backend, and the events about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use toolgate_catalog::{BackendState as Known, Tool};
use toolgate_mcp::client::{ListKind, Ready, ToolChange};
use toolgate_wire::foreign_text::one_line;

/// The target of lines about backends, for filters of the log.
const LOG_TARGET: &str = "toolgate::backend";
/// Characters of a reason in the log.
const MAX_LOGGED_REASON: usize = 300;

/// A server that its configuration keeps from being started, as a line in the log.
pub fn log_not_started(backend: &str, reason: &str) {
    let reason = one_line(reason, MAX_LOGGED_REASON);
    tracing::warn!(target: LOG_TARGET, backend, reason, "not started");
}

/// Where a backend is in its life.
#[derive(Debug, Clone, PartialEq)]
pub enum BackendState {
    /// Not started yet: its tools are known, and none was called.
    Idle,
    /// On its way up for the first time.
    Starting,
    /// Answers calls.
    Ready(Arc<Ready>),
    /// Lost, and coming back.
    Restarting {
        /// How many starts failed in a row before this one.
        attempt: u32,
        /// When the next try begins, counted from the change of state.
        delay: Duration,
        /// Why it was lost.
        reason: String,
    },
    /// Gave up for now; tried again now and then, or at once when asked to.
    Failed {
        /// Why it does not come up.
        reason: String,
        /// The end of what it wrote to its standard error.
        stderr: String,
    },
    /// A person has to log in; goes on by itself afterwards.
    NeedsLogin {
        /// The command that does it.
        command: String,
    },
    /// Ended by us, for good.
    Stopped,
}

impl BackendState {
    /// Whether calls are answered.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }

    /// The state as the catalog shows it. `tools_known` tells whether the backend's tools are known from the cache.
    pub fn in_catalog(&self, tools_known: bool) -> Known {
        match self {
            Self::Ready(_) => Known::Ready,
            Self::Idle | Self::Starting | Self::Restarting { .. } if tools_known => Known::Cached,
            Self::Idle | Self::Starting | Self::Restarting { .. } => Known::Starting,
            Self::Failed { reason, .. } => Known::Failed { reason: reason.clone() },
            Self::NeedsLogin { command } => Known::NeedsLogin { command: command.clone() },
            Self::Stopped => Known::Failed { reason: "it was stopped".to_owned() },
        }
    }

    /// Writes one log line for the operator, without the server's standard error, which may hold secrets.
    pub(super) fn log(&self, backend: &str) {
        let shown = |text: &str| one_line(text, MAX_LOGGED_REASON);
        match self {
            Self::Failed { reason, .. } => {
                let reason = shown(reason);
                tracing::warn!(target: LOG_TARGET, backend, reason, "does not come up");
            }
            // Later tries of the same start are told by its end.
            Self::Restarting { attempt: 0, reason, .. } => {
                let reason = shown(reason);
                tracing::warn!(target: LOG_TARGET, backend, reason, "down, and started again");
            }
            Self::NeedsLogin { command } => {
                let command = shown(command);
                tracing::warn!(target: LOG_TARGET, backend, command, "needs a login");
            }
            Self::Ready(ready) => {
                let (server, version) = (shown(&ready.server.name), shown(&ready.server.version));
                tracing::info!(target: LOG_TARGET, backend, server, version, "ready");
            }
            Self::Idle | Self::Starting | Self::Restarting { .. } | Self::Stopped => {}
        }
    }

    /// Whether waiting a little may be enough.
    pub fn may_become_ready(&self) -> bool {
        matches!(self, Self::Idle | Self::Starting | Self::Ready(_) | Self::Restarting { .. })
    }
}

impl fmt::Display for BackendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("not started: the first call starts it"),
            Self::Starting => f.write_str("still starting"),
            Self::Ready(ready) => write!(f, "ready ({}, {})", ready.era, ready.server.protocol),
            Self::Restarting { attempt, delay, reason } => {
                write!(f, "restarting (try {} in {} ms): {reason}", attempt + 1, delay.as_millis())
            }
            Self::Failed { reason, .. } => write!(f, "not running: {reason}"),
            Self::NeedsLogin { command } => write!(f, "not logged in: run `{command}`"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

/// Something that happened to a backend.
#[derive(Debug, Clone)]
pub struct BackendEvent {
    /// Which backend.
    pub backend: Arc<str>,
    /// What happened.
    pub change: BackendChange,
}

/// The kinds of news.
#[derive(Debug, Clone)]
pub enum BackendChange {
    /// It moved to another state.
    State(BackendState),
    /// Its list of tools is another one than before.
    Tools(Arc<[Tool]>),
    /// Tools that say something else than before under the same name, also since the last start. A person who approved
    /// them should look again.
    ToolsChanged(Arc<[ToolChange]>),
    /// What else it lists may be another list than before.
    Lists(ListKind),
    /// One of its resources that is watched may hold something else than before.
    Updated(String),
    /// It answered a call with 401: it does not take the credentials that the configuration has for it.
    Unauthorized,
}

/// Counters of one backend, for health pages and tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackendStats {
    /// The child process, if there is one now.
    pub pid: Option<u32>,
    /// Calls it works on now.
    pub in_flight: usize,
    /// Calls that wait their turn.
    pub queued: usize,
    /// How often it was started again.
    pub restarts: u64,
    /// Output lines that were no message.
    pub garbage: u64,
    /// Replies that match no open request: late, repeated or with an invented id.
    pub stray_replies: u64,
}
