//! Named secrets of this user: in the keyring of the system, or, where there is none, in encrypted files.
//!
//! A secret is kept in one place, and an entry file beside the encrypted ones says in which: so secrets can be listed
//! without the keyring, a process notices that another one changed a secret, and a machine that loses its keyring for a
//! while does not take a secret for unset. Values are text and are never shown or logged here.
//!
//! # Layout
//! - `entry`: which secrets there are, and where
//! - `keyring`: the keyring of the system, each request with a time limit
//! - `sealed`: encrypted files; `files`: private files that are replaced as a whole

#![forbid(unsafe_code)]

mod entry;
mod files;
mod keyring;
mod sealed;

use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use ring::digest;

pub use entry::{Place, SecretEntry};

/// Where new secrets are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preference {
    /// In the keyring of the system, or in a file if there is none that answers.
    #[default]
    Auto,
    /// In the keyring, or nowhere.
    Keyring,
    /// In files.
    File,
}

/// Why secrets cannot be read or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// A file cannot be read or written.
    #[error("the secrets in {} can't be used: {reason}", .folder.display())]
    Files {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The keyring of the system does not do what it is asked for.
    #[error("the keyring of the system can't be used: {reason}")]
    Keyring {
        /// The reason.
        reason: String,
    },
    /// A secret is damaged, or encrypted with another key.
    #[error("the secret {name} can't be read: set it again")]
    Damaged {
        /// Its name.
        name: String,
    },
}

/// Held by the one process that replaces a secret by what it obtains for it.
#[derive(Debug)]
pub struct StoreLock {
    _file: Option<File>,
}

impl StoreLock {
    /// A lock of secrets that no other process has.
    pub fn unshared() -> Self {
        Self { _file: None }
    }
}

/// The version of a secret: another one after each change by any process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecretVersion(Option<(u64, u128)>);

/// Secrets of one kind. Methods may block for as long as the keyring asks the user for a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretStore {
    folder: PathBuf,
    service: &'static str,
    preference: Preference,
}

impl SecretStore {
    /// Secrets that this folder knows of; `service` is their kind in the keyring. Nothing is opened or made yet.
    pub fn new(folder: impl Into<PathBuf>, service: &'static str, preference: Preference) -> Self {
        Self { folder: folder.into(), service, preference }
    }

    /// The secret of that name.
    pub fn get(&self, name: &str) -> Result<Option<String>, SecretError> {
        let Some(entry) = self.entry(name)? else { return Ok(None) };
        match entry.place {
            Place::Keyring => keyring::get(self.service, name),
            Place::File => sealed::get(&self.folder, &self.path(name, "sealed"), name),
        }
    }

    /// Keeps a secret in place of an earlier one.
    pub fn set(&self, name: &str, value: &str) -> Result<Place, SecretError> {
        let failed = |error: std::io::Error| self.failed(&error);
        files::create_folder(&self.folder).map_err(failed)?;
        let place = match self.preference {
            Preference::File => Place::File,
            Preference::Keyring => keyring::set(self.service, name, value).map(|()| Place::Keyring)?,
            Preference::Auto if keyring::is_likely() && keyring::set(self.service, name, value).is_ok() => {
                Place::Keyring
            }
            Preference::Auto => Place::File,
        };
        let former = self.entry(name)?.map(|entry| entry.place);
        if place == Place::File {
            sealed::set(&self.folder, &self.path(name, "sealed"), name, value)?;
        }
        let entry = SecretEntry::new(name, place);
        files::write_whole(&self.path(name, "entry"), entry.to_json().as_bytes()).map_err(failed)?;
        match former {
            // An older copy elsewhere is of no use.
            Some(Place::Keyring) if place == Place::File => drop(keyring::remove(self.service, name)),
            Some(Place::File) if place == Place::Keyring => {
                files::remove(&self.path(name, "sealed")).map_err(failed)?
            }
            _ => {}
        }
        Ok(place)
    }

    /// Forgets a secret; false if there is none.
    pub fn remove(&self, name: &str) -> Result<bool, SecretError> {
        let Some(entry) = self.entry(name)? else { return Ok(false) };
        match entry.place {
            Place::Keyring => keyring::remove(self.service, name)?,
            Place::File => files::remove(&self.path(name, "sealed")).map_err(|error| self.failed(&error))?,
        }
        files::remove(&self.path(name, "entry")).map_err(|error| self.failed(&error))?;
        Ok(true)
    }

    /// All secrets by name, without their values.
    pub fn list(&self) -> Result<Vec<SecretEntry>, SecretError> {
        let found = match std::fs::read_dir(&self.folder) {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(&error)),
        };
        let paths = found.filter_map(|entry| Some(entry.ok()?.path()));
        let entries = paths.filter(|path| path.extension().is_some_and(|ending| ending == "entry"));
        let mut entries: Vec<SecretEntry> =
            entries.filter_map(|path| SecretEntry::read(&path).ok().flatten()).collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// The version of a secret, which tells whether it has changed. Does not ask the keyring.
    pub fn version(&self, name: &str) -> SecretVersion {
        SecretVersion(files::version(&self.path(name, "entry")))
    }

    /// Waits until no other process holds the lock of that secret. Not needed for the other methods.
    pub fn lock(&self, name: &str) -> Result<StoreLock, SecretError> {
        let failed = |error: std::io::Error| self.failed(&error);
        files::create_folder(&self.folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let file = files::private(&mut options).open(self.path(name, "lock")).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(StoreLock { _file: Some(file) })
    }

    /// The file that changes whenever the secret does. It may not exist.
    pub fn entry_file(&self, name: &str) -> PathBuf {
        self.path(name, "entry")
    }

    fn entry(&self, name: &str) -> Result<Option<SecretEntry>, SecretError> {
        let entry = SecretEntry::read(&self.path(name, "entry")).map_err(|error| self.failed(&error))?;
        match entry {
            Some(entry) if entry.name != name => Err(SecretError::Damaged { name: name.to_owned() }),
            entry => Ok(entry),
        }
    }

    /// Names may have any characters, so files are named by their digest.
    fn path(&self, name: &str, ending: &str) -> PathBuf {
        let digest = digest::digest(&digest::SHA256, name.as_bytes());
        let name: String = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.{ending}"))
    }

    fn failed(&self, error: &std::io::Error) -> SecretError {
        files::failed(&self.folder, error)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn store(folder: &Path) -> SecretStore {
        SecretStore::new(folder, "toolgate test", Preference::File)
    }

    #[test]
    fn a_secret_is_kept_listed_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder.path().join("inner"));
        assert_eq!(store.get("a/../b"), Ok(None));
        assert_eq!(store.list(), Ok(Vec::new()));
        assert_eq!(store.remove("a/../b"), Ok(false));
        assert_eq!(store.set("a/../b", "one"), Ok(Place::File));
        assert_eq!(store.get("a/../b"), Ok(Some("one".to_owned())));
        assert_eq!(store.get("b"), Ok(None));
        store.set("A", "").unwrap();
        assert_eq!(store.get("A"), Ok(Some(String::new())));
        let names: Vec<String> = store.list().unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["A", "a/../b"]);
        assert_eq!(store.remove("a/../b"), Ok(true));
        assert_eq!((store.get("a/../b"), store.list().unwrap().len()), (Ok(None), 1));
    }

    #[test]
    fn every_change_gives_another_version() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let mut versions = vec![store.version("a")];
        for value in ["1", "1", "2"] {
            store.set("a", value).unwrap();
            assert_ne!(store.version("a"), *versions.last().unwrap());
            assert_eq!(store.version("a"), store.version("a"));
            versions.push(store.version("a"));
        }
        store.remove("a").unwrap();
        assert_eq!(store.version("a"), versions[0]);
    }

    #[cfg(unix)]
    #[test]
    fn files_are_encrypted_and_readable_by_their_user_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("secrets");
        let store = store(&inner);
        store.set("github", "canary-value").unwrap();
        drop(store.lock("github").unwrap());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&inner), 0o700);
        let files: Vec<PathBuf> = std::fs::read_dir(&inner).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 4, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
            let bytes = std::fs::read(&file).unwrap();
            assert!(!bytes.windows(6).any(|window| window == b"canary"), "{}", file.display());
        }
    }

    #[test]
    fn a_file_that_was_damaged_or_renamed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        store.set("one", "value").unwrap();
        store.set("two", "other").unwrap();
        std::fs::copy(store.path("one", "sealed"), store.path("two", "sealed")).unwrap();
        assert_eq!(store.get("two"), Err(SecretError::Damaged { name: "two".to_owned() }));
        std::fs::copy(store.path("one", "entry"), store.path("two", "entry")).unwrap();
        assert_eq!(store.get("two"), Err(SecretError::Damaged { name: "two".to_owned() }));
        let sealed = std::fs::read(store.path("one", "sealed")).unwrap();
        for cut in [0, 1, 12, 13, sealed.len() - 1] {
            std::fs::write(store.path("one", "sealed"), &sealed[..cut]).unwrap();
            assert!(store.get("one").is_err(), "{cut}");
        }
        std::fs::write(store.path("one", "sealed"), &sealed).unwrap();
        assert_eq!(store.get("one"), Ok(Some("value".to_owned())));
        std::fs::remove_file(store.path("one", "sealed")).unwrap();
        assert!(store.get("one").is_err());
    }

    #[test]
    fn many_first_uses_at_one_time_share_one_key() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let store = store(folder.path());
                scope.spawn(move || store.set(&format!("n{number}"), "value").unwrap());
            }
        });
        for number in 0..8 {
            assert_eq!(store(folder.path()).get(&format!("n{number}")), Ok(Some("value".to_owned())));
        }
    }
}
