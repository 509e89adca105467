//! The file of the log, the archives beside it, and the lock that orders several processes.
//!
//! Archives are `FILE.1`, `FILE.2` and so on, the newest with the highest number; none is renamed again.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::AuditSettings;
use crate::chain::{ChainEnd, MAX_LINE, hash_of};

/// How much of a file's end is read to find its last two lines.
const TAIL_BYTES: u64 = 4 * MAX_LINE as u64;

/// The files of one log.
pub(crate) struct Files {
    settings: AuditSettings,
    lock: File,
}

/// The files while no other process writes to them.
pub(crate) struct Locked<'a> {
    files: &'a Files,
    file: File,
    pub(crate) end: ChainEnd,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // The lock goes with the descriptor at the latest.
        let _ = flock(&self.files.lock, FlockOperation::Unlock);
    }
}

impl Files {
    pub(crate) fn open(settings: AuditSettings) -> io::Result<Self> {
        if let Some(folder) = settings.file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let lock =
            private().read(true).write(true).create(true).truncate(false).open(beside(&settings.file, "lock"))?;
        let files = Files { settings, lock };
        drop(files.locked()?);
        Ok(files)
    }

    /// Waits for the lock, and reads where the chain ends.
    pub(crate) fn locked(&self) -> io::Result<Locked<'_>> {
        flock(&self.lock, FlockOperation::LockExclusive)?;
        let opened = private().read(true).append(true).create(true).open(&self.settings.file);
        let opened = opened.and_then(|mut file| end_of(&mut file, &self.settings.file).map(|end| (file, end)));
        match opened {
            Ok((file, end)) => Ok(Locked { files: self, file, end }),
            Err(error) => {
                let _ = flock(&self.lock, FlockOperation::Unlock);
                Err(error)
            }
        }
    }
}

impl Locked<'_> {
    /// Appends lines and waits until they are on disk; then makes the file an archive if it is large.
    pub(crate) fn append(mut self, lines: &[u8]) -> io::Result<()> {
        if self.end.torn {
            self.file.write_all(b"\n")?;
        }
        self.file.write_all(lines)?;
        self.file.sync_data()?;
        if let Err(error) = self.remove_archives() {
            tracing::warn!(%error, "an archive of the audit log cannot be removed");
        }
        // The lines are written. A file that cannot be made an archive now grows, and the next lines try again.
        let is_large = self.file.metadata().is_ok_and(|metadata| metadata.len() >= self.files.settings.max_bytes);
        if is_large && let Err(error) = self.rotate() {
            tracing::warn!(%error, "the audit log is large and cannot be made an archive");
        }
        Ok(())
    }

    /// Removes the archives where none is kept. The chain goes on from the newest one, so that it is needed until the file
    /// behind it has a line.
    fn remove_archives(&self) -> io::Result<()> {
        let AuditSettings { file, keep, .. } = &self.files.settings;
        if !self.end.begins_file || *keep > 0 {
            return Ok(());
        }
        archives(file)?.iter().try_for_each(|(_, archive)| fs::remove_file(archive))
    }

    fn rotate(&self) -> io::Result<()> {
        let AuditSettings { file, keep, .. } = &self.files.settings;
        let archives = archives(file)?;
        let next = archives.last().map_or(1, |(number, _)| number + 1);
        fs::rename(file, beside(file, &next.to_string()))?;
        let kept = archives.len() + 1;
        for (_, oldest) in archives.iter().take(kept.saturating_sub(*keep)) {
            fs::remove_file(oldest)?;
        }
        Ok(())
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(file.as_os_str());
    name.push(".");
    name.push(ending);
    name.into()
}

/// The archives of a log by their numbers, oldest first.
pub(crate) fn archives(file: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = file.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let number =
            entry.file_name().to_str().and_then(|entry| entry.strip_prefix(name)?.strip_prefix('.')?.parse().ok());
        found.extend(number.map(|number| (number, entry.path())));
    }
    found.sort();
    Ok(found)
}

/// Where the chain ends: in the file, or in the newest archive if the file is empty.
fn end_of(file: &mut File, path: &Path) -> io::Result<ChainEnd> {
    if let Some(end) = last_line(file)? {
        return Ok(end);
    }
    match archives(path)?.last() {
        Some((_, newest)) => {
            let end = last_line(&mut File::open(newest)?)?.unwrap_or_default();
            Ok(ChainEnd { begins_file: true, ..end })
        }
        None => Ok(ChainEnd::default()),
    }
}

/// The last line of a file; none if it is empty.
fn last_line(file: &mut File) -> io::Result<Option<ChainEnd>> {
    let length = file.seek(SeekFrom::End(0))?;
    if length == 0 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let torn = tail.last() != Some(&b'\n');
    let text = if torn { &tail[..] } else { &tail[..tail.len() - 1] };
    let mut lines = text.rsplit(|byte| *byte == b'\n');
    let last = lines.next().unwrap_or_default();
    // A torn line counts, though it has no readable number.
    let seq = seq_of(last).or_else(|| lines.next().and_then(seq_of).map(|seq| seq + 1)).unwrap_or(1);
    Ok(Some(ChainEnd { seq, hash: hash_of(last), torn, begins_file: false }))
}

fn seq_of(line: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(line).ok()?.get("seq")?.as_u64()
}
