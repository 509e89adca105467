//! Sessions of legacy clients: random ids, a bounded number, removed when idle.
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

use crate::server::client::Client;
use crate::server::service::ChangeNotice;

/// A session that was not used for this long is removed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The most sessions; beyond it, the one that has been idle longest is removed.
const MAX_SESSIONS: usize = 4096;

/// The session of a legacy client.
#[derive(Debug)]
pub(super) struct LegacySession {
    pub(super) client: Arc<Client>,
    /// Hash of the credentials it was opened with; a request with other credentials cannot use it.
    holder: u64,
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

    /// When it was last used; now, while a request or a stream is open.
    fn last_used(&self, now: Instant) -> Instant {
        let has_stream = self.stream.lock().as_ref().is_some_and(|stream| !stream.is_cancelled());
        if has_stream || self.client.is_busy() { now } else { *self.used.lock() }
    }

    fn close(&self) {
        self.client.disconnect();
        if let Some(stream) = self.stream.lock().take() {
            stream.cancel();
        }
    }
}

/// All sessions, by id.
#[derive(Debug, Default)]
pub(super) struct LegacySessions(Mutex<HashMap<String, Arc<LegacySession>>>);

impl LegacySessions {
    /// Opens a session and returns its id; none if the system provides no random bytes.
    pub(super) fn open(
        &self,
        client: Arc<Client>,
        holder: u64,
        changes: broadcast::Receiver<ChangeNotice>,
    ) -> Option<String> {
        let mut name = [0u8; 32];
        getrandom::fill(&mut name).ok()?;
        let name = BASE64_URL_SAFE_NO_PAD.encode(name);
        let (used, changes) = (Mutex::new(Instant::now()), Mutex::new(Some(changes)));
        let session = LegacySession { client, holder, used, changes, stream: Mutex::default() };
        let mut table = self.0.lock();
        make_room(&mut table);
        table.insert(name.clone(), Arc::new(session));
        Some(name)
    }

    /// The session of that id, if it belongs to the holder.
    pub(super) fn find(&self, name: &str, holder: u64) -> Option<Arc<LegacySession>> {
        let session = self.0.lock().get(name).filter(|session| session.holder == holder).cloned()?;
        *session.used.lock() = Instant::now();
        Some(session)
    }

    /// Ends the session of that id, if it belongs to the holder; false otherwise.
    pub(super) fn end(&self, name: &str, holder: u64) -> bool {
        let mut table = self.0.lock();
        let is_theirs = table.get(name).is_some_and(|session| session.holder == holder);
        let ended = if is_theirs { table.remove(name) } else { None };
        ended.inspect(|session| session.close()).is_some()
    }
}

fn make_room(table: &mut HashMap<String, Arc<LegacySession>>) {
    let now = Instant::now();
    table.retain(|_, session| {
        let stays = now.duration_since(session.last_used(now)) < IDLE_TIMEOUT;
        if !stays {
            session.close();
        }
        stays
    });
    if table.len() >= MAX_SESSIONS {
        let longest = table.iter().min_by_key(|(_, session)| session.last_used(now)).map(|(name, _)| name.clone());
        if let Some(session) = longest.and_then(|name| table.remove(&name)) {
            session.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(sessions: &LegacySessions, holder: u64) -> (String, Arc<Client>) {
        let client = Arc::new(Client::new(holder));
        let changes = broadcast::channel(1).1;
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
        let sessions = LegacySessions::default();
        let (first, client) = open(&sessions, 1);
        for _ in 0..MAX_SESSIONS {
            open(&sessions, 1);
        }
        assert_eq!(sessions.0.lock().len(), MAX_SESSIONS);
        assert!(sessions.find(&first, 1).is_none());
        client.disconnected().await;
    }
}
