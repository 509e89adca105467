//! The store of durable runs that a configuration names.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_config::checked::{RunStore, Runs};
use toolgate_journal::durable::Journal;
use toolgate_journal::seal::{NoKey, Sealer};
use toolgate_journal::store::postgres::PostgresStore;
use toolgate_journal::store::sqlite::SqliteStore;
use toolgate_journal::store::{Store, StoreError};

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
    let owner = format!("{}-{}", std::process::id(), super::super::execution_id());
    Ok(Journal::new(store, sealer, owner, runs.lease).with_max_open(runs.max_open))
}

/// For this user alone: who runs what, and when, is not encrypted.
fn make_folder_of(file: &Path) -> Result<(), OpenError> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| OpenError::Folder { path: folder.to_owned(), error })
}
