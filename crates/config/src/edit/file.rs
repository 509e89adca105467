//! Writing a file so that a reader sees the old one or the new one, never half of either.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::EditError;
use crate::text::Source;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Where the file as it was is kept.
    pub backup: Option<PathBuf>,
    /// Whether anything had to be changed.
    pub changed: bool,
}

/// How the file as it was is kept, beside the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backup {
    /// As `NAME.bak`, in place of an earlier one.
    Latest,
    /// As `NAME.toolgate.bak`, and with a number if that is taken: another program's file is never lost.
    Numbered,
}

/// Writes a file that must not be there yet, with the folders it needs.
pub(super) fn create(path: &Path, text: &str) -> Result<Written, EditError> {
    let write = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = private(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| EditError::Write { file: path.to_owned(), error })?;
    Ok(Written { path: path.to_owned(), backup: None, changed: true })
}

/// Replaces a file that was read as `source`, unless somebody else wrote it since.
pub(super) fn replace(source: &Source, text: &str, backup: Backup) -> Result<Written, EditError> {
    let fail = |error| EditError::Write { file: source.file().to_owned(), error };
    // The file itself, not a link to it: dotfiles are often links.
    let path = fs::canonicalize(source.file()).map_err(fail)?;
    let mark = if source.has_bom() { "\u{FEFF}" } else { "" };
    let old = fs::read(&path).map_err(fail)?;
    if old != format!("{mark}{}", source.text()).into_bytes() {
        return Err(EditError::Changed(source.file().to_owned()));
    }
    let kept = keep(&path, &old, backup).map_err(fail)?;
    swap(&path, format!("{mark}{text}").as_bytes()).map_err(fail)?;
    Ok(Written { path: source.file().to_owned(), backup: Some(kept), changed: true })
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
            Err(io::Error::other("there are too many backups beside it"))
        }
    }
}

fn swap(path: &Path, bytes: &[u8]) -> io::Result<()> {
    swap_like(path, bytes, path)
}

/// Writes beside, gives it the permissions of `like`, and renames: the rename is what makes it whole.
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

/// A new file that only its owner may read: configurations hold secrets.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
