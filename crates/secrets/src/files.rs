//! Files that this user alone can read, replaced as a whole.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::SecretError;

/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

pub(crate) fn failed(folder: &Path, error: &std::io::Error) -> SecretError {
    SecretError::Files { folder: folder.to_owned(), reason: error.to_string() }
}

pub(crate) fn create_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Readable by this user alone, from the moment it exists.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

pub(crate) fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file by rename, so that a reader sees the old one or the new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let made = temporary(path.parent().unwrap_or(Path::new(".")))?;
    write_new(&made, bytes)?;
    std::fs::rename(&made, path).inspect_err(|_| drop(std::fs::remove_file(&made)))
}

/// Makes a file unless there is one by now; of several processes one wins.
pub(crate) fn write_once(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let made = temporary(path.parent().unwrap_or(Path::new(".")))?;
    write_new(&made, bytes)?;
    let linked = std::fs::hard_link(&made, path);
    std::fs::remove_file(&made)?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Removes a file that may be gone already.
pub(crate) fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Another value after each replacement: the inode and the time of the change.
pub(crate) fn version(path: &Path) -> Option<(u64, u128)> {
    let meta = std::fs::metadata(path).ok()?;
    let modified = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&meta);
    #[cfg(not(unix))]
    let inode = 0;
    Some((inode, modified.as_nanos()))
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
