//! Sessions of legacy clients: random ids, a bounded number, removed when idle.
//!
//! A full table makes room at the caller that has the most sessions. A session that is in use is not removed for another one
//! of the same caller.
//!
//! Sessions live in this process only, and a session holds no reply: what a client missed, it has to request again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use toolgate_wire::CallerShares;

use crate::server::client::Client;
use crate::server::service::ChangeNotice;

/// A session that was not used for this long is removed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The most sessions; beyond it, of the caller that has the most the one that has been idle longest is removed.
const MAX_SESSIONS: usize = 4096;

/// The session of a legacy client.
#[derive(Debug)]
pub(super) struct LegacySession {
    pub(super) client: Arc<Client>,
    /// Hash of the credentials it was opened with; a request with other credentials cannot use it.
    holder: u64,
    /// The name of its caller, whose credentials may change.
    caller: String,
    used: Mutex<Instant>,
    /// Receives changes while no stream is open, so that the next stream starts where the last one ended.
    changes: Mutex<Option<broadcast::Receiver<ChangeNotice>>>,
    /// Ends the open stream of changes, if there is one.
    stream: Mutex<Option<CancellationToken>>,
}

impl LegacySession {
    /// The changes since the last stream ended, or since the session began.
    pub(super) fn take_changes(&self) -> Option<broadcast::Receiver<ChangeNotice>> {
        self.changes.lock().take()
    }

    pub(super) fn return_changes(&self, changes: broadcast::Receiver<ChangeNotice>) {
        *self.changes.lock() = Some(changes);
    }

    /// Registers a new stream of changes and ends the previous one: a session has one at a time.
    pub(super) fn next_stream(&self) -> CancellationToken {
        let next = CancellationToken::new();
        if let Some(former) = self.stream.lock().replace(next.clone()) {
            former.cancel();
        }
        next
    }

    /// Whether a request or a stream is open.
    fn is_in_use(&self) -> bool {
        self.client.is_busy() || self.stream.lock().as_ref().is_some_and(|stream| !stream.is_cancelled())
    }

    /// When it was last used; now, while it is in use.
    fn last_used(&self, now: Instant) -> Instant {
        if self.is_in_use() { now } else { *self.used.lock() }
    }

    fn close(&self) {
        self.client.disconnect();
        if let Some(stream) = self.stream.lock().take() {
            stream.cancel();
        }
    }
}

/// Who opens a session.
#[derive(Debug, Clone)]
pub(super) struct SessionHolder {
    /// Hash of the credentials.
    pub(super) credentials: u64,
    /// The name of the caller; empty without keys.
    pub(super) caller: String,
}

/// Why no session was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenError {
    /// The system provides no random bytes.
    NoRandomness,
    /// The caller has the most sessions, and all are in use.
    TooMany,
}

/// All sessions, by id.
#[derive(Debug)]
pub(super) struct LegacySessions {
    table: Mutex<HashMap<String, Arc<LegacySession>>>,
    capacity: usize,
}

impl Default for LegacySessions {
    fn default() -> Self {
        Self { table: Mutex::default(), capacity: MAX_SESSIONS }
    }
}

impl LegacySessions {
    /// Opens a session and returns its id.
    pub(super) fn open(
        &self,
        client: Arc<Client>,
        holder: SessionHolder,
        changes: broadcast::Receiver<ChangeNotice>,
    ) -> Result<String, OpenError> {
        let mut name = [0u8; 32];
        getrandom::fill(&mut name).map_err(|_| OpenError::NoRandomness)?;
        let name = BASE64_URL_SAFE_NO_PAD.encode(name);
        let (used, changes) = (Mutex::new(Instant::now()), Mutex::new(Some(changes)));
        let SessionHolder { credentials: holder, caller } = holder;
        let session = LegacySession { client, holder, caller, used, changes, stream: Mutex::default() };
        let mut table = self.table.lock();
        make_room(&mut table, self.capacity, &session.caller)?;
        table.insert(name.clone(), Arc::new(session));
        Ok(name)
    }

    /// The session of that id, if it belongs to the holder.
    pub(super) fn find(&self, name: &str, holder: u64) -> Option<Arc<LegacySession>> {
        let session = self.table.lock().get(name).filter(|session| session.holder == holder).cloned()?;
        *session.used.lock() = Instant::now();
        Some(session)
    }

    /// Ends the session of that id, if it belongs to the holder; false otherwise.
    pub(super) fn end(&self, name: &str, holder: u64) -> bool {
        let mut table = self.table.lock();
        let is_theirs = table.get(name).is_some_and(|session| session.holder == holder);
        let ended = if is_theirs { table.remove(name) } else { None };
        ended.inspect(|session| session.close()).is_some()
    }
}

/// Makes room for one more session of a caller.
fn make_room(table: &mut HashMap<String, Arc<LegacySession>>, capacity: usize, caller: &str) -> Result<(), OpenError> {
    let now = Instant::now();
    table.retain(|_, session| {
        let stays = now.duration_since(session.last_used(now)) < IDLE_TIMEOUT;
        if !stays {
            session.close();
        }
        stays
    });
    if table.len() < capacity {
        return Ok(());
    }
    let name = {
        let mut shares = CallerShares::new(capacity);
        table.values().for_each(|session| shares.add(session.caller.as_str(), 1));
        shares.add(caller, 1);
        let largest = shares.largest().copied().unwrap_or_default();
        let theirs = table.iter().filter(|(_, session)| session.caller == largest);
        let longest = theirs.min_by_key(|(_, session)| (session.is_in_use(), session.last_used(now)));
        longest.filter(|(_, session)| largest != caller || !session.is_in_use()).map(|(name, _)| name.clone())
    };
    let session = name.and_then(|name| table.remove(&name)).ok_or(OpenError::TooMany)?;
    session.close();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: usize = 64;

    fn few() -> LegacySessions {
        LegacySessions { capacity: FEW, ..LegacySessions::default() }
    }

    fn open(sessions: &LegacySessions, holder: u64) -> (String, Arc<Client>) {
        let client = Arc::new(Client::new(holder));
        let changes = broadcast::channel(1).1;
        let holder = SessionHolder { credentials: holder, caller: holder.to_string() };
        (sessions.open(Arc::clone(&client), holder, changes).unwrap(), client)
    }

    #[test]
    fn a_session_is_usable_only_by_its_holder() {
        let sessions = LegacySessions::default();
        let (name, _) = open(&sessions, 1);
        assert!(sessions.find(&name, 1).is_some());
        assert!(sessions.find(&name, 2).is_none());
        assert!(!sessions.end(&name, 2));
        assert!(sessions.end(&name, 1));
        assert!(sessions.find(&name, 1).is_none());
    }

    #[test]
    fn ids_differ_and_are_long() {
        let sessions = LegacySessions::default();
        let (one, other) = (open(&sessions, 1).0, open(&sessions, 1).0);
        assert_ne!(one, other);
        assert_eq!(one.len(), 43);
    }

    #[tokio::test]
    async fn the_number_is_bounded_and_the_longest_idle_session_is_removed() {
        let sessions = few();
        let (first, client) = open(&sessions, 1);
        for _ in 0..FEW {
            open(&sessions, 1);
        }
        assert_eq!(sessions.table.lock().len(), FEW);
        assert!(sessions.find(&first, 1).is_none());
        client.disconnected().await;
    }

    #[test]
    fn a_caller_with_many_sessions_removes_none_of_another_caller() {
        let sessions = few();
        let (first, _) = open(&sessions, 1);
        let names: Vec<_> = (0..FEW + 10).map(|_| open(&sessions, 2).0).collect();
        assert!(sessions.find(&first, 1).is_some(), "idle for longer, and of a caller that has one");
        // The first caller opens more, at the cost of the one that has the most.
        for _ in 0..10 {
            open(&sessions, 1);
        }
        assert!(sessions.find(&first, 1).is_some());
        let left = names.iter().filter(|name| sessions.find(name, 2).is_some()).count();
        assert_eq!(left, FEW - 11);
    }

    #[test]
    fn a_session_in_use_is_not_removed_for_another_one_of_its_caller() {
        let sessions = few();
        let names: Vec<_> = (0..FEW).map(|_| open(&sessions, 1).0).collect();
        for name in &names {
            sessions.find(name, 1).unwrap().next_stream();
        }
        let changes = || broadcast::channel(1).1;
        let holder = |caller: &str| SessionHolder { credentials: 1, caller: caller.to_owned() };
        let refused = sessions.open(Arc::new(Client::new(1)), holder("1"), changes());
        assert_eq!(refused, Err(OpenError::TooMany));
        assert!(
            sessions.open(Arc::new(Client::new(1)), holder("2"), changes()).is_ok(),
            "another caller gets its place"
        );
        assert_eq!(sessions.table.lock().len(), FEW);
    }
}
