//! The file that a record is written to.
//!
//! It is checked before the run, whose effects cannot be taken back. What is there stays whole where the disk is full or this process
//! ends: the new file is written beside it and renamed. A special file (`/dev/stdout`, a pipe) is written directly.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use toolgate_run::execution_id;

/// What a program got and said is for its user, secrets or not.
const MODE: u32 = 0o600;

/// A file that can be written, as far as that is known before.
pub(crate) enum CassetteFile {
    /// It is written beside this path and renamed to it, with this mode.
    Renamed { target: PathBuf, mode: u32 },
    /// Its folder takes no other file: what is in it is overwritten.
    InPlace(File),
    /// It is no regular file, or one of this process's own streams.
    Stream(File),
}

impl CassetteFile {
    /// Checks a path. Changes nothing there; only what a link leads to is made where it is not there.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return CassetteFile::new_at(path),
            Err(error) => return Err(error),
        };
        if found.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        for stream in [io::stdout().as_fd(), io::stderr().as_fd()] {
            let stream = File::from(stream.try_clone_to_owned()?);
            let own = stream.metadata()?;
            if (own.dev(), own.ino()) == (found.dev(), found.ino()) {
                return Ok(CassetteFile::Stream(stream));
            }
        }
        let file = OpenOptions::new().write(true).open(path)?;
        if !found.is_file() {
            return Ok(CassetteFile::Stream(file));
        }
        // A link stays, and leads to the new file.
        let target = fs::canonicalize(path).and_then(|target| try_beside(&target).map(|()| target));
        Ok(match target {
            Ok(target) => CassetteFile::Renamed { target, mode: found.permissions().mode() & 0o777 },
            Err(_) => CassetteFile::InPlace(file),
        })
    }

    /// A path where nothing is.
    fn new_at(path: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            // A link to a file that is not there yet.
            return OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(MODE)
                .open(path)
                .map(Self::InPlace);
        }
        try_beside(path)?;
        Ok(CassetteFile::Renamed { target: path.to_owned(), mode: MODE })
    }

    /// Writes it. A regular file is on the disk then.
    pub(crate) fn write(self, content: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        match self {
            CassetteFile::Stream(file) => fill(&file, content),
            CassetteFile::InPlace(file) => {
                file.set_len(0)?;
                fill(&file, content)?;
                file.sync_all()
            }
            CassetteFile::Renamed { target, mode } => {
                let (new, file) = create_beside(&target)?;
                let write = || {
                    file.set_permissions(Permissions::from_mode(mode))?;
                    fill(&file, content)?;
                    file.sync_all()?;
                    fs::rename(&new, &target)
                };
                write().inspect_err(|_| drop(fs::remove_file(&new)))
            }
        }
    }
}

fn fill(file: &File, content: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    content(&mut file)?;
    file.flush()
}

/// A new file in the folder of this one.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", execution_id()));
    let new = PathBuf::from(name);
    let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new)?;
    Ok((new, file))
}

/// Whether the folder takes a new file. It is not left there: the run may take long, and this process may be killed.
fn try_beside(path: &Path) -> io::Result<()> {
    fs::remove_file(create_beside(path)?.0)
}
