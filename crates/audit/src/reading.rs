//! The files of a log as they are read again, and their lines.
//!
//! A reader takes no lock: a check of a large log must not hold up its writers. So a writer may make the file an archive at any time. The
//! file is opened before its archives are listed, and an archive that is this same file is left out: no line is missed or read twice.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::chain::MAX_LINE;
use crate::files::archives;

/// The longest line that is read.
const MAX_READ: u64 = 4 * MAX_LINE as u64;

/// The files of one log that exist: its archives, and the file that is written to. After a rotation there is no such file until the next
/// record comes.
#[derive(Debug)]
pub struct LogFiles {
    current: Option<(PathBuf, File)>,
    /// Oldest first.
    archives: Vec<PathBuf>,
}

impl LogFiles {
    /// Finds the files of a log.
    ///
    /// # Errors
    /// If the file or its folder cannot be read. A log that does not exist has no files.
    pub fn find(file: &Path) -> io::Result<Self> {
        let current = if_exists(File::open(file))?;
        let archives = if_exists(archives(file))?.unwrap_or_default().into_iter().map(|(_, path)| path);
        let number = |file: &File| file.metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
        let own = current.as_ref().and_then(number);
        let is_other = |archive: &PathBuf| {
            let found = archive.metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
            own.is_none() || found != own
        };
        let archives = archives.filter(is_other).collect();
        Ok(LogFiles { current: current.map(|opened| (file.to_owned(), opened)), archives })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.archives.len() + usize::from(self.current.is_some())
    }

    /// Opens one after the other, the newest first. An archive that a writer has removed by then is left out.
    pub fn newest_first(self) -> impl Iterator<Item = (PathBuf, io::Result<File>)> {
        let current = self.current.into_iter().map(|(path, file)| (path, Ok(file)));
        let archives = self.archives.into_iter().rev().map(opened);
        current.chain(archives.filter(|(_, opened)| !opened.as_ref().is_err_and(is_absent)))
    }

    /// Opens one after the other, the oldest first.
    pub(crate) fn oldest_first(self) -> impl Iterator<Item = (PathBuf, io::Result<File>)> {
        let current = self.current.into_iter().map(|(path, file)| (path, Ok(file)));
        self.archives.into_iter().map(opened).chain(current)
    }
}

fn opened(path: PathBuf) -> (PathBuf, io::Result<File>) {
    let file = File::open(&path);
    (path, file)
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

fn if_exists<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A line of a log, without its line break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogLine {
    /// A line.
    Whole(Vec<u8>),
    /// The last line of a file without its end: its writer was killed, or is writing it.
    Unfinished(Vec<u8>),
    /// No writer makes a line of this length, which is not kept in memory.
    TooLong,
}

/// The lines of a file.
pub fn lines(file: File) -> impl Iterator<Item = io::Result<LogLine>> {
    let mut reader = BufReader::new(file);
    std::iter::from_fn(move || next_line(&mut reader).transpose())
}

fn next_line(reader: &mut impl BufRead) -> io::Result<Option<LogLine>> {
    let mut line = Vec::new();
    let read = reader.by_ref().take(MAX_READ).read_until(b'\n', &mut line)?;
    Ok(match line.pop_if(|last| *last == b'\n') {
        Some(_) => Some(LogLine::Whole(line)),
        None if read == 0 => None,
        None if read as u64 == MAX_READ => {
            reader.skip_until(b'\n')?;
            Some(LogLine::TooLong)
        }
        None => Some(LogLine::Unfinished(line)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(files: impl Iterator<Item = (PathBuf, io::Result<File>)>) -> Vec<String> {
        files.map(|(path, _)| path.file_name().expect("a name").to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_log_is_all_of_its_files_also_between_a_rotation_and_the_next_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let find = || LogFiles::find(&file).expect("readable");
        assert_eq!(find().count(), 0);
        assert_eq!(LogFiles::find(&folder.path().join("nowhere/audit.jsonl")).expect("no folder").count(), 0);
        for name in ["audit.jsonl.2", "audit.jsonl.10", "audit.jsonl.lock", "audit.jsonl.1"] {
            fs::write(folder.path().join(name), "").expect("written");
        }
        assert_eq!(names(find().newest_first()), ["audit.jsonl.10", "audit.jsonl.2", "audit.jsonl.1"]);
        fs::write(&file, "").expect("written");
        assert_eq!(find().count(), 4);
        assert_eq!(names(find().newest_first())[0], "audit.jsonl");
        assert_eq!(names(find().oldest_first())[3], "audit.jsonl");
    }

    #[test]
    fn a_rotation_while_the_log_is_read_neither_hides_nor_repeats_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        fs::write(&file, "first\n").expect("written");
        let found = LogFiles::find(&file).expect("readable");
        let archive = folder.path().join("audit.jsonl.1");
        fs::rename(&file, &archive).expect("rotated");
        let read = found.newest_first().flat_map(|(_, file)| lines(file.expect("opened")));
        assert_eq!(read.map(|line| line.expect("read")).collect::<Vec<_>>(), [LogLine::Whole(b"first".to_vec())]);
        // As if the rotation came between the look at the file and the one at its archives.
        fs::hard_link(&archive, &file).expect("linked");
        assert_eq!(LogFiles::find(&file).expect("readable").count(), 1);
    }

    #[test]
    fn an_archive_that_is_removed_meanwhile_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        fs::write(folder.path().join("audit.jsonl.1"), "").expect("written");
        let found = LogFiles::find(&file).expect("readable");
        fs::remove_file(folder.path().join("audit.jsonl.1")).expect("removed");
        assert_eq!(found.newest_first().count(), 0);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let long = "x".repeat(2 * usize::try_from(MAX_READ).expect("small"));
        fs::write(&path, format!("a\n{long}\nb\nc")).expect("written");
        let read: Vec<LogLine> = lines(File::open(&path).expect("opened")).map(|line| line.expect("read")).collect();
        let [a, b, c] = ["a", "b", "c"].map(|line| line.as_bytes().to_vec());
        assert_eq!(read, [LogLine::Whole(a), LogLine::TooLong, LogLine::Whole(b), LogLine::Unfinished(c)]);
    }
}
