//! Writes files atomically and keeps backups.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::EditError;
use crate::text::Source;

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// The file.
    pub path: PathBuf,
    /// The backup of the previous file.
    pub backup: Option<PathBuf>,
    /// Whether the file was changed.
    pub changed: bool,
}

/// The name of the backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backup {
    /// `NAME.bak`; replaces an earlier backup.
    Latest,
    /// `NAME.toolgate.bak`, with a number if that exists: a backup of another program's file is never replaced.
    Numbered,
}

/// Creates a file and its parent directories. Fails if the file exists.
pub(super) fn create(path: &Path, text: &str) -> Result<WrittenFile, EditError> {
    let write = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = private(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| EditError::Write { file: path.to_owned(), error })?;
    Ok(WrittenFile { path: path.to_owned(), backup: None, changed: true })
}

/// Replaces a file that was read as `source`. Fails if the file has changed since.
pub(super) fn replace(source: &Source, text: &str, backup: Backup) -> Result<WrittenFile, EditError> {
    let fail = |error| EditError::Write { file: source.file().to_owned(), error };
    // Resolve symbolic links, which dotfiles often are: renaming would replace the link.
    let path = fs::canonicalize(source.file()).map_err(fail)?;
    let mark = if source.has_bom() { "\u{FEFF}" } else { "" };
    let old = fs::read(&path).map_err(fail)?;
    if old != format!("{mark}{}", source.text()).into_bytes() {
        return Err(EditError::Changed(source.file().to_owned()));
    }
    let kept = keep(&path, &old, backup).map_err(fail)?;
    swap(&path, format!("{mark}{text}").as_bytes()).map_err(fail)?;
    Ok(WrittenFile { path: source.file().to_owned(), backup: Some(kept), changed: true })
}

fn keep(path: &Path, old: &[u8], backup: Backup) -> io::Result<PathBuf> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    match backup {
        Backup::Latest => {
            let kept = beside(".bak");
            swap_like(&kept, old, path)?;
            Ok(kept)
        }
        Backup::Numbered => {
            let numbered = (1..1000).map(|number| beside(&format!(".toolgate.bak.{number}")));
            for kept in std::iter::once(beside(".toolgate.bak")).chain(numbered) {
                match private(&kept) {
                    Ok(mut file) => {
                        file.write_all(old)?;
                        return Ok(kept);
                    }
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
            Err(io::Error::other("too many backups in this directory"))
        }
    }
}

fn swap(path: &Path, bytes: &[u8]) -> io::Result<()> {
    swap_like(path, bytes, path)
}

/// Writes a temporary file with the permissions of `like` and renames it to `path`, which is atomic.
fn swap_like(path: &Path, bytes: &[u8], like: &Path) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let new = folder.join(format!(".toolgate-{}-{number}.tmp", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = private(&new)?;
        file.write_all(bytes)?;
        file.set_permissions(fs::metadata(like)?.permissions())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

/// Creates a file with mode 0600, because configurations contain secrets.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
