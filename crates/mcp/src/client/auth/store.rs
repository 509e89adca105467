//! Where logins are kept: in memory for tests, in encrypted files of mode 0600 for a machine without a keyring.
//!
//! A file is sealed with ChaCha20-Poly1305 under a key in a file of its own, and bound to its name, so that a copied file is
//! of no use alone or under another name. That protects backups and single files, not against who reads the whole folder
//! as this user. A lock per login lets one of several processes refresh a token while the others wait for the result.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest;
use serde_json::{Value, json};

use super::SecretText;
use super::registration::RegisteredClient;
use super::token::Tokens;

/// The first byte of a file.
const VERSION: u8 = 1;
/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A login at an issuer for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Who issued the tokens; they are useless for any other.
    pub issuer: String,
    /// The resource that they are for.
    pub resource: String,
    /// The client that they were issued to.
    pub client: RegisteredClient,
    /// The tokens; none while only the client is registered.
    pub tokens: Option<Tokens>,
}

/// Why logins cannot be read or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be read or written.
    #[error("the logins in {} can't be used: {reason}", .folder.display())]
    Files {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file is damaged, or sealed with another key.
    #[error("the login {name} can't be read: log in again")]
    Damaged {
        /// The name of the login.
        name: String,
    },
}

/// Held by the one process that refreshes a token.
pub struct StoreLock {
    _file: Option<File>,
}

impl std::fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreLock")
    }
}

/// Keeps logins by the name of their backend. Methods may block for a moment.
pub trait TokenStore: Send + Sync + 'static {
    /// The login of that name.
    fn load(&self, name: &str) -> Result<Option<Login>, StoreError>;
    /// Keeps a login in place of an earlier one.
    fn save(&self, name: &str, login: &Login) -> Result<(), StoreError>;
    /// Forgets a login.
    fn remove(&self, name: &str) -> Result<(), StoreError>;
    /// Waits until no other process holds the lock of that login.
    fn lock(&self, name: &str) -> Result<StoreLock, StoreError>;
}

/// Logins in memory.
#[derive(Debug, Default)]
pub struct MemoryTokenStore(Mutex<HashMap<String, Login>>);

impl TokenStore for MemoryTokenStore {
    fn load(&self, name: &str) -> Result<Option<Login>, StoreError> {
        Ok(self.0.lock().get(name).cloned())
    }

    fn save(&self, name: &str, login: &Login) -> Result<(), StoreError> {
        self.0.lock().insert(name.to_owned(), login.clone());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.0.lock().remove(name);
        Ok(())
    }

    fn lock(&self, _: &str) -> Result<StoreLock, StoreError> {
        Ok(StoreLock { _file: None })
    }
}

/// Logins in encrypted files of one folder.
pub struct FileTokenStore {
    folder: PathBuf,
    key: LessSafeKey,
}

impl std::fmt::Debug for FileTokenStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTokenStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl FileTokenStore {
    /// Opens a folder; makes it and its key where there are none.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let folder = folder.into();
        let failed = |error: std::io::Error| files(&folder, &error);
        create_folder(&folder).map_err(failed)?;
        let key = read_or_make_key(&folder).map_err(failed)?;
        let key =
            UnboundKey::new(&CHACHA20_POLY1305, &key).map_err(|_| failed(std::io::ErrorKind::InvalidData.into()))?;
        Ok(Self { folder, key: LessSafeKey::new(key) })
    }

    /// Names may have any characters, so files are named by their digest.
    fn path(&self, name: &str, ending: &str) -> PathBuf {
        let digest = digest::digest(&digest::SHA256, name.as_bytes());
        let name: String = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.{ending}"))
    }

    fn seal(&self, name: &str, text: &str) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let mut sealed = text.as_bytes().to_vec();
        let aad = Aad::from(name.as_bytes());
        self.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
        Some([&[VERSION][..], &nonce, &sealed].concat())
    }

    fn unseal(&self, name: &str, bytes: &[u8]) -> Option<Login> {
        let (version, rest) = bytes.split_first()?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok().filter(|_| *version == VERSION)?;
        let mut sealed = sealed.to_vec();
        let text = self.key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut sealed).ok()?;
        login_of(&serde_json::from_slice(text).ok()?)
    }
}

impl TokenStore for FileTokenStore {
    fn load(&self, name: &str) -> Result<Option<Login>, StoreError> {
        match read_bounded(&self.path(name, "login")) {
            Ok(bytes) => match self.unseal(name, &bytes) {
                Some(login) => Ok(Some(login)),
                None => Err(StoreError::Damaged { name: name.to_owned() }),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(files(&self.folder, &error)),
        }
    }

    fn save(&self, name: &str, login: &Login) -> Result<(), StoreError> {
        let no_seal = || files(&self.folder, &std::io::Error::other("the login can't be encrypted"));
        let sealed = self.seal(name, &text_of(login).to_string()).ok_or_else(no_seal)?;
        let path = self.path(name, "login");
        write_whole(&path, &sealed).map_err(|error| files(&self.folder, &error))
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        match std::fs::remove_file(self.path(name, "login")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(files(&self.folder, &error)),
            _ => Ok(()),
        }
    }

    fn lock(&self, name: &str) -> Result<StoreLock, StoreError> {
        let failed = |error: std::io::Error| files(&self.folder, &error);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let file = private(&mut options).open(self.path(name, "lock")).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(StoreLock { _file: Some(file) })
    }
}

fn files(folder: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Files { folder: folder.to_owned(), reason: error.to_string() }
}

fn create_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Readable by this user alone, from the moment it exists.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Of several processes that make the key at one time, one wins, and all read what it wrote.
fn read_or_make_key(folder: &Path) -> std::io::Result<Vec<u8>> {
    let path = folder.join("key");
    if !path.exists() {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| std::io::Error::other(error.to_string()))?;
        let made = temporary(folder)?;
        write_new(&made, &key)?;
        // Fails if there is one by now.
        let linked = std::fs::hard_link(&made, &path);
        std::fs::remove_file(&made)?;
        match linked {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    read_bounded(&path)
}

/// Replaces a file by rename, so that a reader sees the old one or the new one.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let made = temporary(path.parent().unwrap_or(Path::new(".")))?;
    write_new(&made, bytes)?;
    std::fs::rename(&made, path).inspect_err(|_| drop(std::fs::remove_file(&made)))
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = private(options.write(true).create_new(true)).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn temporary(folder: &Path) -> std::io::Result<PathBuf> {
    let mut name = [0; 8];
    getrandom::fill(&mut name).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(folder.join(format!("{:016x}.new", u64::from_le_bytes(name))))
}

fn text_of(login: &Login) -> Value {
    let tokens = login.tokens.as_ref().map(|tokens| {
        json!({
            "access": tokens.access.expose(),
            "refresh": tokens.refresh.as_ref().map(SecretText::expose),
            "issuedAt": tokens.issued_at,
            "expiresAt": tokens.expires_at,
            "scopes": tokens.scopes,
        })
    });
    let client = json!({ "id": login.client.id, "secret": login.client.secret.as_ref().map(SecretText::expose) });
    json!({ "issuer": login.issuer, "resource": login.resource, "client": client, "tokens": tokens })
}

fn login_of(value: &Value) -> Option<Login> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let client = value.get("client")?;
    let tokens = value.get("tokens").filter(|tokens| !tokens.is_null()).map(|tokens| {
        let scopes = tokens.get("scopes").and_then(Value::as_array).into_iter().flatten();
        Some(Tokens {
            access: SecretText::new(text(tokens, "access")?),
            refresh: text(tokens, "refresh").map(SecretText::new),
            issued_at: tokens.get("issuedAt").and_then(Value::as_u64)?,
            expires_at: tokens.get("expiresAt").and_then(Value::as_u64),
            scopes: scopes.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    });
    Some(Login {
        issuer: text(value, "issuer")?,
        resource: text(value, "resource")?,
        client: RegisteredClient { id: text(client, "id")?, secret: text(client, "secret").map(SecretText::new) },
        tokens: match tokens {
            Some(tokens) => Some(tokens?),
            None => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        Login {
            issuer: "https://as.example".to_owned(),
            resource: "https://mcp.example".to_owned(),
            client: RegisteredClient { id: "me".to_owned(), secret: Some(SecretText::new("canary-secret")) },
            tokens: Some(Tokens {
                access: SecretText::new("canary-access"),
                refresh: Some(SecretText::new("canary-refresh")),
                issued_at: 1,
                expires_at: Some(2),
                scopes: vec!["a".to_owned()],
            }),
        }
    }

    #[test]
    fn a_login_is_kept_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        for store in [&FileTokenStore::open(folder.path()).unwrap() as &dyn TokenStore, &MemoryTokenStore::default()] {
            assert_eq!(store.load("a/../b").unwrap(), None);
            store.save("a/../b", &login()).unwrap();
            assert_eq!(store.load("a/../b").unwrap(), Some(login()));
            assert_eq!(store.load("b").unwrap(), None);
            let only_client = Login { tokens: None, ..login() };
            store.save("a/../b", &only_client).unwrap();
            assert_eq!(store.load("a/../b").unwrap(), Some(only_client));
            store.remove("a/../b").unwrap();
            store.remove("a/../b").unwrap();
            assert_eq!(store.load("a/../b").unwrap(), None);
        }
    }

    #[cfg(unix)]
    #[test]
    fn files_are_encrypted_and_readable_by_their_user_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("logins");
        let store = FileTokenStore::open(&inner).unwrap();
        store.save("github", &login()).unwrap();
        drop(store.lock("github").unwrap());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&inner), 0o700);
        let files: Vec<PathBuf> = std::fs::read_dir(&inner).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 3, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
            let bytes = std::fs::read(&file).unwrap();
            assert!(!bytes.windows(6).any(|window| window == b"canary"), "{}", file.display());
        }
    }

    #[test]
    fn a_file_that_was_damaged_or_renamed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileTokenStore::open(folder.path()).unwrap();
        store.save("one", &login()).unwrap();
        std::fs::copy(store.path("one", "login"), store.path("two", "login")).unwrap();
        assert_eq!(store.load("two"), Err(StoreError::Damaged { name: "two".to_owned() }));
        let sealed = std::fs::read(store.path("one", "login")).unwrap();
        for cut in [0, 1, 12, 13, sealed.len() - 1] {
            std::fs::write(store.path("one", "login"), &sealed[..cut]).unwrap();
            assert!(store.load("one").is_err(), "{cut}");
        }
        let again = FileTokenStore::open(folder.path()).unwrap();
        std::fs::write(store.path("one", "login"), &sealed).unwrap();
        assert_eq!(again.load("one").unwrap(), Some(login()));
    }

    #[test]
    fn nothing_shows_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileTokenStore::open(folder.path()).unwrap();
        let memory = MemoryTokenStore::default();
        memory.save("a", &login()).unwrap();
        let shown = format!("{:?} {store:?} {memory:?} {:#?}", login(), login());
        assert!(!shown.contains("canary"), "{shown}");
    }
}
