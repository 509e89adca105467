//! The token for clients on this machine, in a file that only its user can read.
//!
//! Without keys, every process that may connect to the address reaches all servers behind it. The token restricts that to
//! processes that can read the user's own files. It stays the same from start to start, so that clients can be configured
//! with it. Nothing here writes the token anywhere else.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::rpc_sessions::{Token, TokenHash};

/// The shortest accepted token, in bytes; a generated one has 32.
const MIN_TOKEN_BYTES: usize = 16;
/// The longest accepted token, in bytes.
const MAX_TOKEN_BYTES: u64 = 1024;

/// The token of a file. Only its hash is kept.
#[derive(Debug, Clone)]
pub struct LocalToken {
    hash: TokenHash,
    path: PathBuf,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum LocalTokenError {
    /// The file cannot be created or read.
    #[error("the token file {} cannot be used ({source}); set toolgate.http.token_file to another one", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// Another user owns the file or may read it.
    #[error("the token file {} must belong to this user and have mode 0600", .0.display())]
    Exposed(PathBuf),
    /// The text of the file is no token.
    #[error("the token file {} must contain one token of {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} bytes; remove it to have a new one made", .0.display())]
    NoToken(PathBuf),
    /// There is no home directory to put the file into.
    #[error("there is no home directory for the token file; set toolgate.http.token_file")]
    NoPlace,
    /// The operating system provided no random bytes.
    #[error("the system provides no random numbers")]
    NoRandomness,
}

impl LocalToken {
    /// Reads the token of a file, which is created with a new token if it does not exist.
    pub fn open(path: &Path) -> Result<Self, LocalTokenError> {
        let failed = |source| LocalTokenError::Io { path: path.to_owned(), source };
        match read(path) {
            Err(LocalTokenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                let token = Token::random().map_err(|_| LocalTokenError::NoRandomness)?;
                create(path, &token).map_err(failed)?;
                // Another process may have been first: the token is what the file says.
                read(path)
            }
            read => read,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is the token; compared in constant time.
    pub(super) fn matches(&self, presented: &str) -> bool {
        self.hash.matches(&TokenHash::of(presented))
    }
}

fn read(path: &Path) -> Result<LocalToken, LocalTokenError> {
    let failed = |source| LocalTokenError::Io { path: path.to_owned(), source };
    // `NONBLOCK`, so that opening a FIFO in place of the file does not wait for its writer.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(flags.bits().cast_signed()).open(path).map_err(failed)?;
    if !is_private(&file).map_err(failed)? {
        return Err(LocalTokenError::Exposed(path.to_owned()));
    }
    let mut text = String::new();
    file.take(MAX_TOKEN_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    let token = text.trim();
    let is_token = token.len() >= MIN_TOKEN_BYTES
        && text.len() as u64 <= MAX_TOKEN_BYTES
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_token {
        return Err(LocalTokenError::NoToken(path.to_owned()));
    }
    Ok(LocalToken { hash: TokenHash::of(token), path: path.to_owned() })
}

fn is_private(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    Ok(own && metadata.is_file() && metadata.mode() & 0o077 == 0)
}

/// Writes a file next to it and links it, so that no reader sees an incomplete token and no existing file is replaced.
fn create(path: &Path, token: &Token) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = write(&draft, token).and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    // The draft is not needed either way.
    let _ = fs::remove_file(&draft);
    written
}

fn write(draft: &Path, token: &Token) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(format!("{}\n", token.reveal()).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn check(path: &Path, expected: &str) {
        let found = LocalToken::open(path).map_or_else(|error| error.to_string(), |_| "opened".to_owned());
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn a_new_file_is_private_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state/toolgate/http-token");
        check(&path, "opened");
        let text = fs::read_to_string(&path).expect("readable");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().expect("a folder")).expect("there").permissions().mode() & 0o777, 0o700);
        let token = LocalToken::open(&path).expect("opened again");
        assert!(token.matches(text.trim()) && !token.matches("") && !token.matches(&text));
        assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("listed").count(), 1);
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        check(&path, "opened");
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
            check(&path, "must belong to this user and have mode 0600");
        }
    }

    #[test]
    fn a_link_or_an_empty_file_is_no_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, link] = ["token", "link"].map(|name| folder.path().join(name));
        check(&path, "opened");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        check(&link, "cannot be used");
        for text in ["", "short\n", "two tokens in one file\n", &"x".repeat(2000)] {
            fs::write(&path, text).expect("written");
            check(&path, "must contain one token");
        }
        check(&folder.path().join("token/below"), "cannot be used");
    }
}
