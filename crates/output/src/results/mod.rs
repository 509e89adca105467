//! Whole results of which an answer showed a part.
//!
//! Nothing that the output pipeline leaves out is lost: the whole is kept here for
//! a while and can be read by key path, by line range or by search, or be computed
//! on. The store is bounded in bytes and time, and drops the oldest first. It
//! lives in memory for a server, and in a private directory for the command line,
//! where the process that reads is another than the one that ran.
//!
//! # Layout
//! - `id`: names of results
//! - `memory`, `directory`: the two places to keep them
//! - `path`, `read`, `search`: reading a part

mod directory;
mod id;
mod memory;
mod path;
mod read;
mod search;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use id::{BadId, ResultId};
pub use path::{BadPath, KeyPath};
pub use read::{BadLines, LineRange, ReadError, Reading};

use directory::Directory;
use memory::{Key, Memory};

/// How a kept text is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON text.
    Json,
    /// Plain text.
    Text,
}

/// A whole result on its way into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept<'a> {
    /// How to read it.
    pub kind: Kind,
    /// Exactly what was returned.
    pub text: Cow<'a, str>,
}

/// A whole result out of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// How to read it.
    pub kind: Kind,
    /// Exactly what was returned.
    pub text: Arc<String>,
}

/// What the store may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultLimits {
    /// Of all results together. A larger single result is not kept.
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

/// Keeps whole results. Cheap to clone; clones share what is kept.
#[derive(Clone)]
pub struct ResultStore {
    limits: ResultLimits,
    clock: Clock,
    place: Place,
    /// For whom results are kept and found in memory. The folder of the command line has one user.
    owner: Arc<str>,
}

#[derive(Clone)]
enum Place {
    Memory(Arc<Memory>),
    Directory(Arc<Directory>),
}

impl ResultStore {
    /// A store in memory.
    pub fn new(limits: ResultLimits) -> Self {
        Self { limits, clock: Arc::new(SystemTime::now), place: Place::Memory(Arc::default()), owner: "".into() }
    }

    /// A store in a directory that only the current user can enter. It is made if it is not there.
    ///
    /// # Errors
    /// If the directory cannot be made, is a link, or belongs to someone else.
    pub fn at(dir: &Path, limits: ResultLimits) -> io::Result<Self> {
        let place = Place::Directory(Arc::new(Directory::open(dir)?));
        Ok(Self { limits, clock: Arc::new(SystemTime::now), place, owner: "".into() })
    }

    /// The same store for one owner: results that are kept through it are found through it alone.
    #[must_use]
    pub fn of(&self, owner: &str) -> Self {
        Self { owner: owner.into(), ..self.clone() }
    }

    fn key(&self, id: &ResultId) -> Key {
        Key { owner: Arc::clone(&self.owner), id: id.clone() }
    }

    /// The same store by another clock.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Keeps a result. None if it is larger than the store, or could not be written: losing the rest of an answer must
    /// not lose the answer.
    pub fn keep(&self, kept: Kept<'_>) -> Option<ResultId> {
        let id = ResultId::random()?;
        let now = (self.clock)();
        let taken = match &self.place {
            Place::Memory(memory) => memory.put(self.key(&id), kept, now, &self.limits),
            Place::Directory(directory) => directory.put(&id, &kept, now, &self.limits).unwrap_or_else(|error| {
                tracing::warn!(%error, "a result could not be kept");
                false
            }),
        };
        taken.then_some(id)
    }

    /// The whole result, to compute on.
    ///
    /// # Errors
    /// If the text is no id, or nothing is kept under it (any more).
    pub fn get(&self, id: &str) -> Result<Whole, ReadError> {
        let id = ResultId::parse(id)?;
        let now = (self.clock)();
        let found = match &self.place {
            Place::Memory(memory) => memory.get(&self.key(&id), now, &self.limits),
            Place::Directory(directory) => directory.get(&id, now, &self.limits),
        };
        found.ok_or(ReadError::Gone { id, kept_for: self.limits.time_to_live })
    }

    /// The whole result as JSON text to compute on; a kept text is a JSON string.
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

    /// A part of a result as text.
    ///
    /// # Errors
    /// If there is no such result, or no such part in it.
    pub fn read(&self, id: &str, reading: &Reading) -> Result<String, ReadError> {
        read::read(&self.get(id)?, reading)
    }
}

/// Whether something of that time is past its time. What lies in the future is not.
fn is_expired(kept_at: SystemTime, now: SystemTime, limits: &ResultLimits) -> bool {
    now.duration_since(kept_at).is_ok_and(|age| age > limits.time_to_live)
}
