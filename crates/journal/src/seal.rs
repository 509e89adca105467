//! Encryption at rest: what a store keeps is sealed with a key that is not in the store.
//!
//! ChaCha20-Poly1305 with a random nonce for each row. The run, the kind of row and its number are authenticated, so rows
//! cannot be exchanged. Facts by which a store finds runs (ids, callers, times, sizes) are not encrypted.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

use crate::entry::{hex, unhex};

/// Bytes of a key that is a text.
const MIN_TEXT: usize = 32;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum NoKey {
    /// The file cannot be read or made.
    #[error("{}: {fault}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: io::Error,
    },
    /// Others may read it.
    #[error("{} may be read by others (mode {mode:03o}): use chmod 600", path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It does not hold a key.
    #[error("{} does not hold a key of 64 hexadecimal digits", path.display())]
    Form {
        /// The file.
        path: PathBuf,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    NoRandom,
    /// It is too short to be hard to guess.
    #[error("toolgate.runs.key has less than {MIN_TEXT} characters")]
    Short,
    /// The cipher does not accept it.
    #[error("the cipher does not accept the key")]
    Cipher,
}

/// Seals and opens rows.
pub struct Sealer {
    key: LessSafeKey,
    names: hmac::Key,
}

/// What cannot be opened: another key, or changed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a row was sealed with another key, or was changed")]
pub struct NotOpened;

/// What a row is, so that rows cannot be exchanged.
#[derive(Debug, Clone, Copy)]
pub enum RowKind<'a> {
    /// The entry with this number.
    Entry(u64),
    /// The long text with this name.
    Blob(&'a str),
    /// What is to be decided about a call.
    Question(u32),
    /// What was decided about a call.
    Decision(u32),
}

impl Sealer {
    /// A sealer with this key.
    ///
    /// # Errors
    /// If the cipher does not accept a key that is derived from it.
    pub fn new(key: [u8; 32]) -> Result<Self, NoKey> {
        let derived = |label: &str| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), label.as_bytes());
        let unbound = UnboundKey::new(&CHACHA20_POLY1305, derived("rows").as_ref()).map_err(|_| NoKey::Cipher)?;
        let names = hmac::Key::new(hmac::HMAC_SHA256, derived("names").as_ref());
        Ok(Sealer { key: LessSafeKey::new(unbound), names })
    }

    /// The key in this file, which is made for this user alone when it is not there.
    ///
    /// # Errors
    /// If the file cannot be used, others may read it, or it holds no key.
    pub fn from_file(path: &Path) -> Result<Self, NoKey> {
        let io = |fault| NoKey::Io { path: path.to_owned(), fault };
        if !path.try_exists().map_err(io)? {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes).map_err(|_| NoKey::NoRandom)?;
            make(path, hex(&bytes).as_bytes()).map_err(io)?;
        }
        let mode = fs::metadata(path).map_err(io)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(NoKey::Permissions { path: path.to_owned(), mode });
        }
        let text = fs::read_to_string(path).map_err(io)?;
        Sealer::new(unhex(text.trim()).ok_or_else(|| NoKey::Form { path: path.to_owned() })?)
    }

    /// The key that this text is: any text that is hard to guess.
    ///
    /// # Errors
    /// If it is too short for that.
    pub fn from_text(text: &str) -> Result<Self, NoKey> {
        if text.trim().len() < MIN_TEXT {
            return Err(NoKey::Short);
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, text.trim().as_bytes());
        let mut key = [0; 32];
        key.copy_from_slice(digest.as_ref());
        Sealer::new(key)
    }

    /// Seals a row of a run; `None` where the system gives no random numbers.
    pub fn seal(&self, run: &str, kind: RowKind<'_>, plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let aad = Aad::from(context(run, kind));
        self.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
        sealed.splice(..0, nonce);
        Some(sealed)
    }

    /// Opens a row of a run.
    ///
    /// # Errors
    /// If it is not what was sealed.
    pub fn open(&self, run: &str, kind: RowKind<'_>, sealed: &[u8]) -> Result<Vec<u8>, NotOpened> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(NotOpened)?;
        let mut bytes = rest.to_vec();
        let aad = Aad::from(context(run, kind));
        let plain = self.key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut bytes);
        let length = plain.map_err(|_| NotOpened)?.len();
        bytes.truncate(length);
        Ok(bytes)
    }

    /// A name that tells nothing about the text: for content hashes and idempotency keys.
    pub fn name(&self, text: &str) -> Vec<u8> {
        hmac::sign(&self.names, text.as_bytes()).as_ref().to_vec()
    }
}

/// The bytes that are authenticated beside a row.
fn context(run: &str, kind: RowKind<'_>) -> Vec<u8> {
    let kind = match kind {
        RowKind::Entry(number) => format!("entry {number}"),
        RowKind::Blob(name) => format!("blob {name}"),
        RowKind::Question(call) => format!("question {call}"),
        RowKind::Decision(call) => format!("decision {call}"),
    };
    format!("{}:{run}{kind}", run.len()).into_bytes()
}

/// Makes a file with this content for this user alone, whole or not at all: a process that dies meanwhile, or another one that does
/// the same, leaves no file without a key. An existing file stays.
fn make(path: &Path, content: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{}.new", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let beside = Path::new(&name);
    // One of a process with this number that died.
    let _ = fs::remove_file(beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    let made = written.and_then(|()| match fs::hard_link(beside, path) {
        // Some file systems have no links. There a rename is as whole, and another process that makes a key at this moment is rarer.
        Err(fault) if has_no_links(&fault) && !path.exists() => fs::rename(beside, path),
        linked => linked,
    });
    let removed = fs::remove_file(beside);
    match made {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // A file that was renamed is gone.
        Ok(()) => removed.or_else(|fault| if fault.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(fault) }),
        failed => failed,
    }
}

/// exFAT and some network and container volumes.
fn has_no_links(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_opens_only_as_what_it_was_sealed_as() {
        let sealer = Sealer::new([1; 32]).expect("key");
        let sealed = sealer.seal("run_1", RowKind::Entry(3), b"secret").expect("random");
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_eq!(sealer.open("run_1", RowKind::Entry(3), &sealed), Ok(b"secret".to_vec()));
        for (run, kind) in [("run_2", RowKind::Entry(3)), ("run_1", RowKind::Entry(4)), ("run_1", RowKind::Question(3))]
        {
            assert_eq!(sealer.open(run, kind, &sealed), Err(NotOpened));
        }
        assert_eq!(Sealer::new([2; 32]).expect("key").open("run_1", RowKind::Entry(3), &sealed), Err(NotOpened));
        assert_eq!(sealer.open("run_1", RowKind::Entry(3), &sealed[..sealed.len() - 1]), Err(NotOpened));
        assert_eq!(sealer.open("run_1", RowKind::Entry(3), b"short"), Err(NotOpened));
    }

    #[test]
    fn a_key_file_is_made_once_and_for_this_user_alone() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("key");
        let first = Sealer::from_file(&path).expect("a new key");
        assert_eq!(fs::metadata(&path).expect("file").permissions().mode() & 0o777, 0o600);
        let again = Sealer::from_file(&path).expect("the same key");
        assert_eq!(first.name("x"), again.name("x"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("mode");
        let refused = Sealer::from_file(&path).err().expect("others may read it").to_string();
        assert!(refused.ends_with("may be read by others (mode 644): use chmod 600"), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("mode");
        fs::write(&path, "no key").expect("write");
        assert!(matches!(Sealer::from_file(&path), Err(NoKey::Form { .. })));
    }

    #[test]
    fn processes_that_make_a_key_at_the_same_time_have_the_same() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("key");
        make(&path, hex(&[1; 32]).as_bytes()).expect("made");
        // Another process found no file a moment ago.
        make(&path, hex(&[2; 32]).as_bytes()).expect("the first one stays");
        let name = |sealer: Result<Sealer, NoKey>| sealer.expect("a key").name("x");
        assert_eq!(name(Sealer::from_file(&path)), name(Sealer::new([1; 32])));
        assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_key_may_be_a_text_that_is_hard_to_guess() {
        assert!(matches!(Sealer::from_text("short"), Err(NoKey::Short)));
        let name = |text: &str| Sealer::from_text(text).expect("a key").name("x");
        let long = "0123456789abcdef0123456789abcdef";
        assert_eq!(name(long), name(&format!("{long}\n")));
        assert_ne!(name(long), name(&long.replace('0', "1")));
    }
}
