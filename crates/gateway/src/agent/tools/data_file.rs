//! Reads a file of data: a JSON document, or one JSON value a line.
//!
//! Its bytes count in a byte budget from before the first one is read until the data is dropped. Only regular files are
//! read: a pipe has no length, and may never end. Nothing that goes wrong is said with the path, which is the user's affair.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::LazyLock;

use toolgate_wire::{ByteBudget, BytePermit, OverBudget};

/// Largest file of data, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// The data of a file, with the permit that counts it.
#[derive(Debug)]
pub(super) struct FileData {
    /// As JSON text.
    pub(super) text: String,
    /// Dropped when the text is no longer held.
    pub(super) permit: BytePermit,
}

/// Why a file of data is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DataFileError {
    /// It cannot be opened or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a folder, a pipe or a device.
    #[error("it is no regular file")]
    NotRegular,
    /// It is longer than the bound.
    #[error("its file has more than {MAX_FILE_BYTES} bytes, and no more are read")]
    TooLong,
    /// It does not fit beside what is held already.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The thread that reads it has failed.
    #[error("it could not be read")]
    NotRead,
}

/// Counts the data of all computations. Of its own: a computation that waits for a worker must not hold bytes that the answers of
/// running programs wait for. Two bytes more than a file may have, for the brackets of a list of lines.
static DATA_BUDGET: LazyLock<ByteBudget> =
    LazyLock::new(|| ByteBudget::new("the data of computations", MAX_FILE_BYTES as usize + 2));

/// The budget of the data of computations.
pub(super) fn data_budget() -> &'static ByteBudget {
    &DATA_BUDGET
}

/// Reads a file, after the budget has room for it.
pub(super) async fn read(path: PathBuf, budget: &ByteBudget) -> Result<FileData, DataFileError> {
    let is_lines = path.extension().is_some_and(|extension| extension == "jsonl" || extension == "ndjson");
    let (file, length) = in_background(move || open(&path)).await?;
    let permit = budget.reserve(length).await?;
    in_background(move || text_of(file, is_lines, permit)).await
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DataFileError> + Send + 'static,
) -> Result<T, DataFileError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(DataFileError::NotRead))
}

/// The file and its length.
fn open(path: &std::path::Path) -> Result<(File, usize), DataFileError> {
    // Looked at before it is opened: opening a pipe waits for its other end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(DataFileError::NotRegular);
    }
    let file = File::open(path)?;
    let about = file.metadata()?;
    match usize::try_from(about.len()) {
        _ if !about.is_file() => Err(DataFileError::NotRegular),
        Ok(length) if about.len() <= MAX_FILE_BYTES => Ok((file, length)),
        Ok(_) | Err(_) => Err(DataFileError::TooLong),
    }
}

/// The text of an open file. It may be longer than it said, also one of `/proc`, which says nothing.
fn text_of(file: File, is_lines: bool, mut permit: BytePermit) -> Result<FileData, DataFileError> {
    let mut reader = BufReader::new(file.take(MAX_FILE_BYTES + 1));
    let mut text = String::with_capacity(permit.bytes().saturating_add(2));
    match is_lines {
        true => read_lines(&mut reader, &mut text)?,
        false => drop(reader.read_to_string(&mut text)?),
    }
    if reader.into_inner().limit() == 0 {
        return Err(DataFileError::TooLong);
    }
    permit.try_grow(text.len().saturating_sub(permit.bytes()))?;
    Ok(FileData { text, permit })
}

/// Appends the values of a file that has one on each line, as a list. Empty lines are left out.
fn read_lines(reader: &mut impl BufRead, list: &mut String) -> io::Result<()> {
    list.push('[');
    loop {
        let start = list.len();
        if reader.read_line(list)? == 0 {
            break;
        }
        let line = list.get(start..).unwrap_or_default();
        let (end, blank) = (line.trim_end().len(), line.len() - line.trim_start().len());
        list.truncate(start + end);
        list.drain(start..start + blank.min(end));
        if list.len() > start {
            list.push(',');
        }
    }
    if list.ends_with(',') {
        list.pop();
    }
    list.push(']');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_lines(text: &str, expected: &str) {
        let mut list = String::new();
        read_lines(&mut text.as_bytes(), &mut list).expect("text");
        assert_eq!(list, expected, "{text:?}");
    }

    #[test]
    fn lines_are_a_list() {
        check_lines("", "[]");
        check_lines("1\n2", "[1,2]");
        check_lines("\r\n  {\"a\": 1} \r\n\n \t\n[2]\n\n", "[{\"a\": 1},[2]]");
        check_lines("\u{a0}\"é\"\u{a0}\n", "[\"é\"]");
    }

    #[tokio::test]
    async fn the_bytes_of_a_file_count_while_they_are_held() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("data.json");
        std::fs::write(&file, format!("\"{}\"", "x".repeat(998))).expect("a file");
        let budget = ByteBudget::new("toolgate", 1_500);
        let held = read(file.clone(), &budget).await.expect("it fits");
        assert_eq!((held.text.len(), held.permit.bytes(), budget.used()), (1_000, 1_000, 1_000));
        drop(held);
        assert_eq!(budget.used(), 0);
        budget.set_limit(999);
        assert!(matches!(read(file, &budget).await, Err(DataFileError::OverBudget(_))));
    }

    #[tokio::test]
    async fn only_regular_files_within_the_bound_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let budget = ByteBudget::unlimited();
        assert!(matches!(read(folder.path().to_owned(), &budget).await, Err(DataFileError::NotRegular)));
        assert!(matches!(read("/dev/zero".into(), &budget).await, Err(DataFileError::NotRegular)));
        let long = folder.path().join("long.json");
        File::create(&long).and_then(|file| file.set_len(MAX_FILE_BYTES + 1)).expect("a sparse file");
        assert!(matches!(read(long, &budget).await, Err(DataFileError::TooLong)));
        assert!(matches!(read(folder.path().join("lost.json"), &budget).await, Err(DataFileError::Io(_))));
    }

    /// Its length is said to be zero.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_file_that_is_longer_than_it_says_counts_with_its_length() {
        let budget = ByteBudget::new("toolgate", 1 << 20);
        let read = read("/proc/self/status".into(), &budget).await.expect("it is read");
        assert!(!read.text.is_empty());
        assert_eq!(read.permit.bytes(), read.text.len());
    }
}
