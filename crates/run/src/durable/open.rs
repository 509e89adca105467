//! The store of durable runs that a configuration names.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolgate_config::checked::{RunStore, Runs};
use toolgate_journal::durable::Journal;
use toolgate_journal::seal::{NoKey, Sealer};
use toolgate_journal::store::memory::MemoryStore;
use toolgate_journal::store::postgres::PostgresStore;
use toolgate_journal::store::sqlite::SqliteStore;
use toolgate_journal::store::{Store, StoreError};

use super::{DurableError, DurableRuns, DurableSettings, LocalCaller};
use crate::{Runner, execution_id};

/// Why durable runs cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no home directory, and the configuration names no place.
    #[error("there is no place for durable runs: set toolgate.runs.store and toolgate.runs.key_file")]
    NoPlace,
    /// A folder cannot be made.
    #[error("{}: {error}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        error: std::io::Error,
    },
    /// There is no key.
    #[error(transparent)]
    Key(#[from] NoKey),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How long a run in memory waits for its process, which is the only one.
const MEMORY_LEASE: Duration = Duration::from_secs(60);
/// How long such a run keeps its worker while it waits for a person.
const MEMORY_PARK_TIME: Duration = Duration::from_secs(86_400);

impl DurableRuns {
    /// Durable runs in the memory of this process: for a program that waits for a person who is here. They end with the process.
    ///
    /// # Errors
    /// If there is no random number for the key.
    pub fn in_memory(runner: &Runner) -> Result<Self, DurableError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|_| DurableError::NoStore)?;
        let sealer = Sealer::new(key).map_err(OpenError::from)?;
        let journal = Journal::new(Arc::new(MemoryStore::new()), sealer, execution_id(), MEMORY_LEASE);
        // No other run needs the worker, and what watches the run is not in its record.
        let settings = DurableSettings { names_fix: false, park_time: MEMORY_PARK_TIME, ..DurableSettings::default() };
        Ok(DurableRuns::start(journal, runner.clone(), Arc::new(LocalCaller), settings))
    }
}

/// Opens the journal of these settings, in the configuration of this file. What is not there is made.
///
/// # Errors
/// If the key or the store cannot be used.
pub async fn journal_of(runs: &Runs, configuration: &Path) -> Result<Journal, OpenError> {
    let store = runs.store.as_ref().ok_or(OpenError::NoPlace)?;
    let sealer = match (&runs.key, runs.key_file.as_deref()) {
        (Some(key), _) => Sealer::from_text(key)?,
        (None, Some(file)) => {
            make_folder_of(file)?;
            Sealer::from_file(file)?
        }
        (None, None) => return Err(OpenError::NoPlace),
    };
    let store: Arc<dyn Store> = match store {
        RunStore::File(_) | RunStore::Folder(_) => {
            let path = store.file(configuration).ok_or(OpenError::NoPlace)?;
            make_folder_of(&path)?;
            Arc::new(SqliteStore::open(&path)?)
        }
        RunStore::Postgres(url) => Arc::new(PostgresStore::connect(url.as_str()).await?),
    };
    let owner = format!("{}-{}", std::process::id(), execution_id());
    Ok(Journal::new(store, sealer, owner, runs.lease)
        .with_max_open(runs.max_open)
        .with_max_open_bytes(runs.max_open_size.get()))
}

/// For this user alone: who runs what, and when, is not encrypted.
fn make_folder_of(file: &Path) -> Result<(), OpenError> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| OpenError::Folder { path: folder.to_owned(), error })
}
