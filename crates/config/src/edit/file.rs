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

/// The permissions of a file after an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As before.
    Kept,
    /// 0600: secrets were written into it.
    Private,
}

/// Replaces a file that was read as `source`. Fails if the file has changed since.
pub(super) fn replace(source: &Source, text: &str, backup: Backup, mode: Mode) -> Result<WrittenFile, EditError> {
    let fail = |error| EditError::Write { file: source.file().to_owned(), error };
    // Resolve symbolic links, which dotfiles often are: renaming would replace the link.
    let path = fs::canonicalize(source.file()).map_err(fail)?;
    let mark = if source.has_bom() { "\u{FEFF}" } else { "" };
    let old = fs::read(&path).map_err(fail)?;
    if old != format!("{mark}{}", source.text()).into_bytes() {
        return Err(EditError::Changed(source.file().to_owned()));
    }
    let kept = keep(&path, &old, backup).map_err(fail)?;
    let permissions = match mode {
        Mode::Kept => Some(fs::metadata(&path).map_err(fail)?.permissions()),
        Mode::Private => None,
    };
    swap_with(&path, format!("{mark}{text}").as_bytes(), permissions).map_err(fail)?;
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
            swap_with(&kept, old, None)?;
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

/// Writes a temporary file and renames it to `path`, which is atomic. Its mode is 0600 unless permissions are given.
fn swap_with(path: &Path, bytes: &[u8], permissions: Option<fs::Permissions>) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let new = folder.join(format!(".toolgate-{}-{number}.tmp", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = private(&new)?;
        file.write_all(bytes)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

/// Writes a file of mode 0600 atomically, with its parent directories.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    swap_with(path, bytes, None)
}

/// Creates a file with mode 0600, because configurations contain secrets.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
