//! Parses JSONC, YAML and TOML into one tree with source positions.
//!
//! Checks size, encoding, syntax, nesting depth and duplicate keys. The meaning of the keys is the matter of `raw`.

pub(crate) mod jsonc;
pub(crate) mod toml;
pub mod tree;
pub(crate) mod yaml;

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::problem::{FilePosition, Problem};
use tree::{Node, TextSpan, Value};

/// Maximum size of a configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON with comments and trailing commas.
    Json,
    /// YAML 1.2.
    Yaml,
    /// TOML 1.0.
    Toml,
}

impl Format {
    /// The format by file extension; JSON for any other extension, like the files of most clients.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|ext| ext.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("yaml" | "yml") => Self::Yaml,
            Some("toml") => Self::Toml,
            _ => Self::Json,
        }
    }
}

/// A syntax error at a byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// The text of a file, with the offsets of its lines.
#[derive(Clone)]
pub struct Source {
    file: PathBuf,
    format: Format,
    text: String,
    bom: bool,
    lines: Vec<usize>,
}

/// Opens a regular file. Anything else is refused: opening a pipe waits for its writer, and a device may have no end.
pub(crate) fn open_regular(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file"))
}

impl std::fmt::Debug for Source {
    // The text may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("file", &self.file).field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

impl Source {
    /// Reads a file of at most 4 MB.
    pub fn open(file: &Path) -> Result<Self, Box<Problem>> {
        Self::open_within(file, MAX_FILE_BYTES)
    }

    /// Reads a file of at most `max` bytes.
    pub(crate) fn open_within(file: &Path, max: u64) -> Result<Self, Box<Problem>> {
        let mut bytes = Vec::new();
        let read = open_regular(file).and_then(|open| open.take(max + 1).read_to_end(&mut bytes));
        read.map_err(|error| Box::new(Problem::of_file(file, format!("cannot read the file: {error}"))))?;
        if bytes.len() as u64 > max {
            let message = format!("the file is larger than {} MB", max / (1024 * 1024));
            return Err(Box::new(Problem::of_file(file, message)));
        }
        Self::from_bytes(file, Format::of(file), bytes)
    }

    /// The text of a file's bytes, which must be UTF-8.
    pub fn from_bytes(file: &Path, format: Format, bytes: Vec<u8>) -> Result<Self, Box<Problem>> {
        if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
            let problem = Problem::of_file(file, "the file is encoded as UTF-16".to_owned());
            return Err(Box::new(problem.help("save the file as UTF-8")));
        }
        String::from_utf8(bytes).map(|text| Self::new(file, format, text)).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes().get(..good).unwrap_or_default()).into_owned();
            let at = Self::new(file, format, text).position(good);
            let problem = Problem::of_file(file, "invalid UTF-8".to_owned()).at(at);
            Box::new(problem.help("save the file as UTF-8"))
        })
    }

    /// A text with or without a byte order mark.
    pub fn new(file: &Path, format: Format, text: impl Into<String>) -> Self {
        let mut text = text.into();
        let bom = text.starts_with('\u{FEFF}');
        if bom {
            text.drain(..'\u{FEFF}'.len_utf8());
        }
        Self { file: file.to_owned(), format, lines: line_starts(&text), text, bom }
    }

    /// The file's path, as given.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The text, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the file began with a byte order mark.
    pub(crate) fn has_bom(&self) -> bool {
        self.bom
    }

    /// The text of a span.
    pub(crate) fn slice(&self, span: TextSpan) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Line and column of a byte offset, counted from 1; columns count characters.
    pub(crate) fn position(&self, offset: usize) -> FilePosition {
        let offset = offset.min(self.text.len());
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        let before = self.text.as_bytes().get(start..offset).unwrap_or_default();
        // Count the bytes that begin a character: correct even if `offset` is inside a character.
        let column = before.iter().filter(|byte| (**byte & 0xC0) != 0x80).count() + 1;
        FilePosition { line, column }
    }

    /// Parses the text. Reports the first syntax error, otherwise all duplicate keys.
    pub fn tree(&self) -> Result<Node, Vec<Problem>> {
        let parsed = match self.format {
            Format::Json => jsonc::parse(&self.text),
            Format::Yaml => yaml::parse(&self.text, &self.lines),
            Format::Toml => toml::parse(&self.text),
        };
        let node =
            parsed.map_err(|fault| vec![Problem::of_file(&self.file, fault.message).at(self.position(fault.at))])?;
        let mut problems = Vec::new();
        self.find_duplicate_keys(&node, "", &mut problems);
        if problems.is_empty() { Ok(node) } else { Err(problems) }
    }

    fn find_duplicate_keys(&self, node: &Node, path: &str, problems: &mut Vec<Problem>) {
        match &node.value {
            Value::Map(entries) => {
                let mut seen = HashSet::new();
                for entry in entries {
                    let path = join(path, &entry.key);
                    if !seen.insert(entry.key.as_str()) {
                        let problem = Problem::of_file(&self.file, "duplicate key".to_owned());
                        let at = self.position(entry.key_span.start);
                        problems.push(problem.at(at).on(&path).help("remove one of the two entries"));
                    }
                    self.find_duplicate_keys(&entry.node, &path, problems);
                }
            }
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.find_duplicate_keys(item, &format!("{path}[{index}]"), problems);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Appends a key to a path: `a.b`, or `a["b.c"]` for a key that is empty or has other characters.
pub(crate) fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

/// The keys of a path that [`join`] made, without indices.
pub(crate) fn split_path(path: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let quoted = rest.strip_prefix("[\"").and_then(|after| after.split_once("\"]"));
        if let Some((key, after)) = quoted {
            keys.push(key.replace("\\\"", "\"").replace("\\\\", "\\"));
            rest = after;
            continue;
        }
        let plain = rest.strip_prefix('.').unwrap_or(rest);
        let end = plain.find(['.', '[']).unwrap_or(plain.len());
        let (key, after) = plain.split_at(end);
        if key.is_empty() {
            // An index of a list.
            rest = after.split_once(']').map_or("", |(_, after)| after);
        } else {
            keys.push(key.to_owned());
            rest = after;
        }
    }
    keys
}

/// The offsets of the lines. A line ends with `\n`, `\r\n` or a single `\r`, as in YAML.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends = bytes.iter().enumerate().filter(|(at, byte)| match byte {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    });
    std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect()
}
