//! The store of full results, for answers that show only a part.
//!
//! A full result can be read by key path, by line range or by search, or be the input of a program. The store is limited
//! in bytes and time, and removes the oldest result first, in memory that of the owner with the most. A server keeps results in memory; the command line keeps them
//! in a private directory, because the process that reads is not the one that ran.
//!
//! # Layout
//! - `id`: ids of results
//! - `memory`, `directory`: the two stores
//! - `path`, `read`, `search`: reading a part, over the `tokens` of JSON
//! - `readers`: reading outside the threads of tasks

mod directory;
mod id;
mod memory;
mod path;
mod read;
mod readers;
mod search;
mod tokens;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

pub use id::{BadId, ResultId};
pub use path::{BadPath, KeyPath};
pub use read::{BadLines, LineRange, ReadError, ReadSubject, Reading};

use directory::Directory;
use memory::{Key, Memory};
use readers::Readers;

/// The kind of a kept result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON text.
    Json,
    /// Plain text.
    Text,
}

/// A full result to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept<'a> {
    /// JSON or text.
    pub kind: Kind,
    /// The result exactly as returned.
    pub text: Cow<'a, str>,
}

/// A full result from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// JSON or text.
    pub kind: Kind,
    /// The result exactly as returned.
    pub text: Arc<String>,
}

/// The limits of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultLimits {
    /// Maximum total size. A single larger result is not kept.
    pub max_bytes: usize,
    /// How long a result is kept.
    pub time_to_live: Duration,
}

impl Default for ResultLimits {
    fn default() -> Self {
        Self { max_bytes: 64 * 1024 * 1024, time_to_live: Duration::from_secs(60 * 60) }
    }
}

type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Stores full results. Clones share the store.
#[derive(Clone)]
pub struct ResultStore {
    limits: ResultLimits,
    clock: Clock,
    place: Place,
    /// The owner of the results in memory. The directory of the command line has one user.
    owner: Arc<str>,
    readers: Arc<Readers>,
}

#[derive(Clone)]
enum Place {
    Memory(Arc<Memory>),
    Directory(Arc<Directory>),
}

impl ResultStore {
    /// A store in memory.
    pub fn new(limits: ResultLimits) -> Self {
        // What is in memory lives by time that passes: a system clock that is set forwards expires nothing.
        let (began, since) = (SystemTime::now(), Instant::now());
        let clock = Arc::new(move || began + since.elapsed());
        Self { limits, clock, place: Place::Memory(Arc::default()), owner: "".into(), readers: Arc::default() }
    }

    /// A store in a directory with mode 0700, which is created if it does not exist.
    ///
    /// # Errors
    /// If the directory cannot be created, is a symbolic link, or belongs to another user.
    pub fn at(dir: &Path, limits: ResultLimits) -> io::Result<Self> {
        let place = Place::Directory(Arc::new(Directory::open(dir)?));
        Ok(Self { limits, clock: Arc::new(SystemTime::now), place, owner: "".into(), readers: Arc::default() })
    }

    /// This store for one owner: results that are kept through it are found only through it.
    #[must_use]
    pub fn of(&self, owner: &str) -> Self {
        Self { owner: owner.into(), ..self.clone() }
    }

    fn key(&self, id: &ResultId) -> Key {
        Key { owner: Arc::clone(&self.owner), id: id.clone() }
    }

    /// This store with another clock.
    #[cfg(test)]
    pub(crate) fn with_clock(self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Keeps a result. `None` if it is larger than the store or cannot be written: a failure to keep the rest must not fail
    /// the answer.
    pub fn keep(&self, kept: Kept<'_>) -> Option<ResultId> {
        self.try_keep(kept).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot keep a result");
            None
        })
    }

    /// As [`ResultStore::keep`], for a caller that says why a result was not kept.
    ///
    /// # Errors
    /// If the result cannot be written.
    pub fn try_keep(&self, kept: Kept<'_>) -> io::Result<Option<ResultId>> {
        let Some(id) = ResultId::random() else { return Ok(None) };
        let now = (self.clock)();
        let taken = match &self.place {
            Place::Memory(memory) => memory.put(self.key(&id), kept, now, &self.limits),
            Place::Directory(directory) => directory.put(&id, &kept, now, &self.limits)?,
        };
        Ok(taken.then_some(id))
    }

    /// The full result.
    ///
    /// # Errors
    /// If the text is not an id, or there is no such result (any more).
    pub fn get(&self, id: &str) -> Result<Whole, ReadError> {
        let id = ResultId::parse(id)?;
        let now = (self.clock)();
        let found = match &self.place {
            Place::Memory(memory) => memory.get(&self.key(&id), now, &self.limits).map(Some),
            Place::Directory(directory) => directory.get(&id, now, &self.limits),
        };
        match found {
            Some(Some(whole)) => Ok(whole),
            Some(None) => Err(ReadError::Damaged { id }),
            None => Err(ReadError::Gone { id, kept_for: self.limits.time_to_live }),
        }
    }

    /// The full result as JSON, as the input of a program; plain text becomes a JSON string.
    ///
    /// # Errors
    /// See [`ResultStore::get`].
    pub fn data(&self, id: &str) -> Result<String, ReadError> {
        let whole = self.get(id)?;
        Ok(match whole.kind {
            Kind::Json => whole.text.to_string(),
            Kind::Text => serde_json::Value::from(whole.text.as_str()).to_string(),
        })
    }

    /// Reads from this store on a thread that may block, when it is the owner's turn: a large result takes longer than a
    /// thread of tasks may be held up. Needs a Tokio runtime.
    ///
    /// # Errors
    /// Those of `work`, and if the process ends.
    pub async fn in_background<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let store = self.clone();
        self.readers.run(&self.owner, move || work(&store)).await.unwrap_or(Err(ReadError::Interrupted))
    }

    /// A part of a result as text.
    ///
    /// # Errors
    /// If there is no such result, or it has no such part.
    pub fn read(&self, id: &str, reading: &Reading) -> Result<String, ReadError> {
        read::read(&self.get(id)?, reading)
    }
}

/// Whether a result of that time has expired. A time in the future has not.
fn is_expired(kept_at: SystemTime, now: SystemTime, limits: &ResultLimits) -> bool {
    now.duration_since(kept_at).is_ok_and(|age| age > limits.time_to_live)
}
