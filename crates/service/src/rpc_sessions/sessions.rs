//! Opens, checks and ends sessions.
//!
//! A refusal does not help to guess: an unknown id, a wrong token, an expired session and a function that was not granted take
//! the same steps (one lookup, one hash, one comparison) and get the same error. Functions are not called here.

use super::{Clock, ExecutionId, SessionOwner, SessionRecord, SessionStore, SessionStoreError, Token, TokenHash};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a session lasts: 100 ms to 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTtl(Duration);

/// A lifetime out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a session lasts between {} ms and {} ms", SessionTtl::MIN.as_millis(), SessionTtl::MAX.as_millis())]
pub struct BadTtl;

impl SessionTtl {
    /// The shortest, in milliseconds.
    pub const MIN_MS: u64 = 100;
    /// The longest, in milliseconds.
    pub const MAX_MS: u64 = 24 * 60 * 60 * 1000;
    /// The shortest.
    pub const MIN: Duration = Duration::from_millis(Self::MIN_MS);
    /// The longest.
    pub const MAX: Duration = Duration::from_millis(Self::MAX_MS);

    /// Checks a lifetime.
    pub fn new(ttl: Duration) -> Result<Self, BadTtl> {
        if (Self::MIN..=Self::MAX).contains(&ttl) { Ok(Self(ttl)) } else { Err(BadTtl) }
    }
}

/// A session that was just opened. Only this value contains the token.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its id.
    pub execution_id: ExecutionId,
    /// Its secret.
    pub token: Token,
    /// When it ends, in milliseconds since 1970.
    pub expires_at: u64,
}

/// Permission to call one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionGrant {
    /// The session.
    pub execution_id: ExecutionId,
    /// The function's name.
    pub function: String,
    /// Who opened the session. Its key may have been replaced since.
    pub owner: SessionOwner,
    /// When the session ends, in milliseconds since 1970.
    pub expires_at: u64,
}

/// Why permission is not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthoriseError {
    /// Refused; the reason is not disclosed.
    #[error("not authorised")]
    Refused,
    /// Unknown: the store failed.
    #[error(transparent)]
    Store(#[from] SessionStoreError),
}

/// Sessions in a store that other processes may share.
pub struct RpcSessions {
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    own: Mutex<Own>,
}

/// The sessions that this process opened, with their expiry; removed at shutdown.
#[derive(Default)]
struct Own {
    open: HashMap<ExecutionId, u64>,
    sweep_at: usize,
    closed: bool,
}

impl RpcSessions {
    /// Sessions over a store.
    pub fn new(store: Arc<dyn SessionStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, own: Mutex::default() }
    }

    /// Opens a session for `owner` that grants these functions.
    pub async fn open(
        &self,
        owner: SessionOwner,
        functions: Vec<String>,
        ttl: SessionTtl,
    ) -> Result<Opened, SessionStoreError> {
        let (execution_id, token) = (ExecutionId::random()?, Token::random()?);
        let now = self.clock.now_ms();
        let expires_at = now.saturating_add(ttl.0.as_millis().try_into().unwrap_or(u64::MAX));
        let SessionOwner { name: owner, key: owner_key } = owner;
        let token_hash = TokenHash::of(token.reveal());
        let record = SessionRecord { token_hash, expires_at, functions, owner, owner_key };
        self.note(&execution_id, now, expires_at)?;
        self.store.put(&execution_id, &record, ttl.0).await?;
        // The shutdown may have removed all sessions while the store was writing this one.
        if self.own.lock().closed {
            self.end(&execution_id).await?;
            return Err(SessionStoreError::Closed);
        }
        Ok(Opened { execution_id, token, expires_at })
    }

    /// Records the session before it is stored, so that the shutdown also removes one whose write failed half-way.
    fn note(&self, id: &ExecutionId, now: u64, expires_at: u64) -> Result<(), SessionStoreError> {
        let mut own = self.own.lock();
        if own.closed {
            return Err(SessionStoreError::Closed);
        }
        // Sweep whenever the number has doubled: amortised constant cost, and at most twice the live sessions.
        if own.open.len() >= own.sweep_at {
            own.open.retain(|_, end| *end > now);
            own.sweep_at = 64.max(2 * own.open.len());
        }
        own.open.insert(id.clone(), expires_at);
        Ok(())
    }

    /// Checks that the token permits this function in this session now.
    pub async fn authorise(&self, id: &str, token: &str, function: &str) -> Result<SessionGrant, AuthoriseError> {
        let presented = TokenHash::of(token);
        let parsed = ExecutionId::parse(id);
        let execution_id = parsed.clone().unwrap_or_else(ExecutionId::of_no_session);
        let record = self.store.get(&execution_id).await?;
        let stored = record.as_ref().map_or_else(TokenHash::of_nothing, |record| record.token_hash.clone());
        let same = stored.matches(&presented);
        let now = self.clock.now_ms();
        match record {
            Some(SessionRecord { expires_at, functions, owner, owner_key, .. })
                if same && parsed.is_some() && expires_at > now && functions.iter().any(|name| name == function) =>
            {
                let owner = SessionOwner { name: owner, key: owner_key };
                Ok(SessionGrant { execution_id, function: function.to_owned(), owner, expires_at })
            }
            Some(_) | None => Err(AuthoriseError::Refused),
        }
    }

    /// Ends a session of this owner; `false` if the owner has no such session.
    pub async fn revoke(&self, id: &str, owner: &str) -> Result<bool, SessionStoreError> {
        let Some(id) = ExecutionId::parse(id) else { return Ok(false) };
        match self.store.get(&id).await? {
            Some(record) if record.owner == owner => self.end(&id).await.map(|()| true),
            Some(_) | None => Ok(false),
        }
    }

    /// Ends a session.
    async fn end(&self, id: &ExecutionId) -> Result<(), SessionStoreError> {
        self.store.remove(std::slice::from_ref(id)).await?;
        self.own.lock().open.remove(id);
        Ok(())
    }

    /// Ends every session that this process opened, and refuses to open more.
    pub async fn close(&self) -> Result<(), SessionStoreError> {
        let ids: Vec<_> = {
            let mut own = self.own.lock();
            own.closed = true;
            own.open.keys().cloned().collect()
        };
        self.store.remove(&ids).await?;
        self.own.lock().open.clear();
        Ok(())
    }
}
