//! Sessions of legacy clients: unguessable, few, and gone when idle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::server::party::Party;
use crate::server::service::News;

/// A session that nobody used for that long is over.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// Sessions at the same time; the one idle for longest makes room.
const MOST: usize = 4096;

/// A legacy client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) party: Arc<Party>,
    /// Whose it is: nobody else can use it, even knowing its name.
    holder: u64,
    used: Mutex<Instant>,
    /// Kept while no stream is open, so that the next one misses nothing.
    changes: Mutex<Option<broadcast::Receiver<News>>>,
    /// Ends the stream of changes, while one is open.
    stream: Mutex<Option<CancellationToken>>,
}

impl Session {
    /// The changes since the last stream ended, or since the session began.
    pub(super) fn take_changes(&self) -> Option<broadcast::Receiver<News>> {
        lock(&self.changes).take()
    }

    pub(super) fn give_back(&self, changes: broadcast::Receiver<News>) {
        *lock(&self.changes) = Some(changes);
    }

    /// Makes way for a new stream of changes: the client has lost the old one, or soon will.
    pub(super) fn next_stream(&self) -> CancellationToken {
        let next = CancellationToken::new();
        if let Some(former) = lock(&self.stream).replace(next.clone()) {
            former.cancel();
        }
        next
    }

    /// When it was used last; one with requests or a stream open is in use.
    fn last_used(&self, now: Instant) -> Instant {
        let listens = lock(&self.stream).as_ref().is_some_and(|stream| !stream.is_cancelled());
        if listens || self.party.is_busy() { now } else { *lock(&self.used) }
    }

    fn close(&self) {
        self.party.leave();
        if let Some(stream) = lock(&self.stream).take() {
            stream.cancel();
        }
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

impl Sessions {
    /// Begins a session; none if the system has no randomness to name it by.
    pub(super) fn open(&self, party: Arc<Party>, holder: u64, changes: broadcast::Receiver<News>) -> Option<String> {
        let mut name = [0u8; 32];
        getrandom::fill(&mut name).ok()?;
        let name = BASE64_URL_SAFE_NO_PAD.encode(name);
        let (used, changes) = (Mutex::new(Instant::now()), Mutex::new(Some(changes)));
        let session = Session { party, holder, used, changes, stream: Mutex::default() };
        let mut table = lock(&self.0);
        make_room(&mut table);
        table.insert(name.clone(), Arc::new(session));
        Some(name)
    }

    /// The holder's session of that name.
    pub(super) fn find(&self, name: &str, holder: u64) -> Option<Arc<Session>> {
        let session = lock(&self.0).get(name).filter(|session| session.holder == holder).cloned()?;
        *lock(&session.used) = Instant::now();
        Some(session)
    }

    /// Ends the holder's session of that name; false if there is none.
    pub(super) fn end(&self, name: &str, holder: u64) -> bool {
        let mut table = lock(&self.0);
        let is_theirs = table.get(name).is_some_and(|session| session.holder == holder);
        let ended = if is_theirs { table.remove(name) } else { None };
        ended.inspect(|session| session.close()).is_some()
    }
}

fn make_room(table: &mut HashMap<String, Arc<Session>>) {
    let now = Instant::now();
    table.retain(|_, session| {
        let stays = now.duration_since(session.last_used(now)) < IDLE;
        if !stays {
            session.close();
        }
        stays
    });
    if table.len() >= MOST {
        let longest = table.iter().min_by_key(|(_, session)| session.last_used(now)).map(|(name, _)| name.clone());
        if let Some(session) = longest.and_then(|name| table.remove(&name)) {
            session.close();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(sessions: &Sessions, holder: u64) -> (String, Arc<Party>) {
        let party = Arc::new(Party::new(holder));
        let changes = broadcast::channel(1).1;
        (sessions.open(Arc::clone(&party), holder, changes).unwrap(), party)
    }

    #[test]
    fn a_session_is_its_holders_alone() {
        let sessions = Sessions::default();
        let (name, _) = open(&sessions, 1);
        assert!(sessions.find(&name, 1).is_some());
        assert!(sessions.find(&name, 2).is_none());
        assert!(!sessions.end(&name, 2));
        assert!(sessions.end(&name, 1));
        assert!(sessions.find(&name, 1).is_none());
    }

    #[test]
    fn names_differ_and_are_long() {
        let sessions = Sessions::default();
        let (one, other) = (open(&sessions, 1).0, open(&sessions, 1).0);
        assert_ne!(one, other);
        assert_eq!(one.len(), 43);
    }

    #[tokio::test]
    async fn there_are_only_so_many_and_who_is_idle_for_longest_goes() {
        let sessions = Sessions::default();
        let (first, party) = open(&sessions, 1);
        for _ in 0..MOST {
            open(&sessions, 1);
        }
        assert_eq!(lock(&sessions.0).len(), MOST);
        assert!(sessions.find(&first, 1).is_none());
        party.left().await;
    }
}
