//! The result store of the command line: a private directory.
//!
//! One file per result, named by id and kind. A file is written under a temporary name and renamed; its modification time
//! is the time it was kept, and every writer removes old files first. If processes race, a result may be removed early.
//! A digest at the end of a file tells whether the rest is what was kept. Symbolic links are never followed, and only a
//! validated id becomes a file name.

use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::{Kept, Kind, ResultId, ResultLimits, Whole, is_expired};

/// Minimum number of bytes that a file counts, so that the number of files is bounded as well.
const MIN_FILE_COST: usize = 4_096;

/// Extension of a file that is being written.
const UNFINISHED: &str = "new";

pub(super) struct Directory(PathBuf);

struct Found {
    path: PathBuf,
    kept_at: SystemTime,
    cost: usize,
}

impl Directory {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent)?;
        }
        match private(&mut DirBuilder::new()).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        claim(dir)?;
        Ok(Self(dir.to_owned()))
    }

    /// False if the result is larger than the store.
    pub(super) fn put(
        &self,
        id: &ResultId,
        kept: &Kept<'_>,
        now: SystemTime,
        limits: &ResultLimits,
    ) -> io::Result<bool> {
        let cost = kept.text.len().max(MIN_FILE_COST);
        if cost > limits.max_bytes {
            return Ok(false);
        }
        self.sweep(cost, now, limits)?;
        let aside = self.0.join(format!("{id}.{UNFINISHED}"));
        let written = write_new(&aside, &kept.text, now).and_then(|()| fs::rename(&aside, self.path(id, kept.kind)));
        if written.is_err() {
            let _ = fs::remove_file(&aside);
        }
        written.map(|()| true)
    }

    /// `None` if there is no such result, `Some(None)` if its file is damaged.
    pub(super) fn get(&self, id: &ResultId, now: SystemTime, limits: &ResultLimits) -> Option<Option<Whole>> {
        [Kind::Json, Kind::Text].into_iter().find_map(|kind| {
            let file = open_plain(&self.path(id, kind)).ok()?;
            let about = file.metadata().ok()?;
            if !about.is_file() || is_expired(about.modified().ok()?, now, limits) {
                return None;
            }
            let mut bytes = Vec::new();
            let most = limits.max_bytes.saturating_add(END_BYTES) as u64;
            let read = file.take(most).read_to_end(&mut bytes).is_ok();
            Some(read.then(|| without_end(bytes)).flatten().map(|text| Whole { kind, text: Arc::new(text) }))
        })
    }

    fn path(&self, id: &ResultId, kind: Kind) -> PathBuf {
        self.0.join(format!("{id}.{}", ending(kind)))
    }

    /// Removes expired results and then the oldest, until there is room for `cost` more bytes.
    fn sweep(&self, cost: usize, now: SystemTime, limits: &ResultLimits) -> io::Result<()> {
        let mut found: Vec<_> = fs::read_dir(&self.0)?.filter_map(|entry| ours(&entry.ok()?)).collect();
        found.sort_by_key(|file| file.kept_at);
        let mut total = found.iter().fold(cost, |sum, file| sum.saturating_add(file.cost));
        for file in found {
            if is_expired(file.kept_at, now, limits) || total > limits.max_bytes {
                // Another process may have removed it already.
                let _ = fs::remove_file(&file.path);
                total -= file.cost;
            }
        }
        Ok(())
    }
}

fn ending(kind: Kind) -> &'static str {
    match kind {
        Kind::Json => "json",
        Kind::Text => "txt",
    }
}

/// A file of this store; `None` for any other file.
fn ours(entry: &DirEntry) -> Option<Found> {
    let name = entry.file_name();
    let (id, ending) = name.to_str()?.split_once('.')?;
    ResultId::parse(id).ok()?;
    if !matches!(ending, "json" | "txt" | UNFINISHED) {
        return None;
    }
    // `DirEntry::metadata` does not follow symbolic links.
    let about = entry.metadata().ok()?;
    let cost = usize::try_from(about.len()).unwrap_or(usize::MAX).max(MIN_FILE_COST);
    Some(Found { path: entry.path(), kept_at: about.modified().ok()?, cost })
}

/// Bytes after the text: a line break and the digest of the text.
const END_BYTES: usize = 17;

/// What a file ends with: FNV-1a, which notices damage and is no proof against intent; the directory is this user's alone.
fn end_of(text: &[u8]) -> String {
    let digest = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("\n{digest:016x}")
}

/// The text of a file, if it is what was written.
fn without_end(mut bytes: Vec<u8>) -> Option<String> {
    let end = bytes.split_off(bytes.len().checked_sub(END_BYTES)?);
    (end == end_of(&bytes).as_bytes()).then(|| String::from_utf8(bytes).ok())?
}

fn write_new(path: &Path, text: &str, now: SystemTime) -> io::Result<()> {
    // `create_new` fails if the path exists, even as a symbolic link.
    let mut file: File = private_file(OpenOptions::new().write(true).create_new(true)).open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(end_of(text.as_bytes()).as_bytes())?;
    file.set_modified(now)
}

#[cfg(unix)]
fn private(builder: &mut DirBuilder) -> &mut DirBuilder {
    use std::os::unix::fs::DirBuilderExt;
    builder.mode(0o700)
}

#[cfg(unix)]
fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

/// Opens a file for reading. Fails for a symbolic link, and does not block on a FIFO.
#[cfg(unix)]
fn open_plain(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Checks that the directory is no symbolic link and belongs to the current user, and removes access for others.
#[cfg(unix)]
fn claim(dir: &Path) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    // Use one descriptor, so that the directory cannot be replaced between check and change.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened: File = rustix::fs::open(dir, flags, Mode::empty())?.into();
    let about = opened.metadata()?;
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the result directory belongs to another user"));
    }
    if about.mode() & 0o077 != 0 {
        opened.set_permissions(fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn private(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder
}

#[cfg(not(unix))]
fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(not(unix))]
fn open_plain(path: &Path) -> io::Result<File> {
    refuse_link(path)?;
    File::open(path)
}

#[cfg(not(unix))]
fn claim(dir: &Path) -> io::Result<()> {
    refuse_link(dir)
}

#[cfg(not(unix))]
fn refuse_link(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path of a result is a symbolic link"));
    }
    Ok(())
}
