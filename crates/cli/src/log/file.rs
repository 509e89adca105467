//! The log file that `toolgate logs` reads: JSON lines of all `serve` and `ui` processes of this user.
//!
//! An MCP client that starts `toolgate serve` often discards its standard error. Bounded: a large file becomes the
//! one archive. Whole lines are appended, so that several processes can write.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use toolgate_config::Env;

/// The size at which the file becomes the archive.
const MAX_BYTES: u64 = 8 << 20;
/// A file is looked at after so many bytes, or after this time; until then lines may be added to what another process made the
/// archive.
const LOOK_BYTES: usize = 64 << 10;
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Names another file, or `off`.
const VARIABLE: &str = "TOOLGATE_LOG_FILE";

fn named() -> Option<OsString> {
    std::env::var_os(VARIABLE).filter(|file| !file.is_empty())
}

/// The log file of this user; none if it is switched off or there is no home directory.
pub(crate) fn log_file(env: &Env) -> Option<PathBuf> {
    match named() {
        Some(file) if file == "off" => None,
        Some(file) => Some(file.into()),
        None => env.state_folder().map(|state| state.join("toolgate.log")),
    }
}

/// Who chose the path of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathChoice {
    /// It is the usual one, whose folder is made.
    Usual,
    /// A person named it. A folder that is not there may be a mistake, or not mounted yet.
    Named,
}

/// Why there is no log file.
#[derive(Debug)]
pub(super) struct CannotOpen {
    file: PathBuf,
    source: io::Error,
}

impl fmt::Display for CannotOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.source)
    }
}

/// The archive of a log file.
pub(crate) fn archive_of(file: &Path) -> PathBuf {
    file.with_added_extension("1")
}

/// A log file that is being written.
pub(super) struct LogFile {
    path: PathBuf,
    choice: PathChoice,
    file: File,
    inode: u64,
    /// When it was last looked whether the file is large or the archive by now, and the bytes written since.
    looked: Option<Instant>,
    unlooked: usize,
}

impl LogFile {
    /// Opens the log file of this user, where one is written.
    pub(super) fn of_user(env: &Env) -> Result<Option<Self>, CannotOpen> {
        let Some(path) = log_file(env) else { return Ok(None) };
        let choice = if named().is_some() { PathChoice::Named } else { PathChoice::Usual };
        LogFile::open(path.clone(), choice).map(Some).map_err(|source| CannotOpen { file: path, source })
    }

    fn open(path: PathBuf, choice: PathChoice) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|_| choice == PathChoice::Usual) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let inode = file.metadata()?.ino();
        Ok(LogFile { path, choice, file, inode, looked: None, unlooked: 0 })
    }

    /// Appends a line. What fails is dropped: a log holds up nothing.
    pub(super) fn write(&mut self, line: &[u8]) {
        let _ = self.try_write(line);
    }

    fn try_write(&mut self, line: &[u8]) -> io::Result<()> {
        let is_recent = self.looked.is_some_and(|looked| looked.elapsed() < LOOK_INTERVAL);
        if !is_recent || self.unlooked >= LOOK_BYTES {
            self.look()?;
            (self.looked, self.unlooked) = (Some(Instant::now()), 0);
        }
        self.unlooked += line.len();
        self.file.write_all(line)
    }

    /// Makes a large file the archive, and opens the new one where another process did.
    fn look(&mut self) -> io::Result<()> {
        let is_ours = fs::metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode);
        if is_ours && self.file.metadata()?.len() >= MAX_BYTES {
            fs::rename(&self.path, archive_of(&self.path))?;
            *self = LogFile::open(self.path.clone(), self.choice)?;
        } else if !is_ours {
            // Another process made it the archive.
            *self = LogFile::open(self.path.clone(), self.choice)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_large_file_becomes_the_archive_and_every_writer_notices() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("below/toolgate.log");
        let open = || LogFile::open(path.clone(), PathChoice::Usual).expect("opened");
        let (mut one, mut other) = (open(), open());
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let line = vec![b'x'; 1 << 20];
        (0..9).for_each(|_| one.write(&line));
        other.write(b"last\n");
        assert_eq!(fs::metadata(archive_of(&path)).expect("an archive").len(), MAX_BYTES);
        assert!(fs::read(&path).expect("readable").ends_with(b"last\n"));
    }

    #[test]
    fn folders_of_a_file_that_a_person_named_are_not_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("below/toolgate.log");
        let missing = LogFile::open(path.clone(), PathChoice::Named).map(drop).expect_err("there is no folder");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(!folder.path().join("below").exists());
        assert!(LogFile::open(folder.path().join("toolgate.log"), PathChoice::Named).is_ok());
    }
}
