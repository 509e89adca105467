//! The audit log.

use std::path::PathBuf;

use super::checker::Checker;
use super::flag;
use crate::raw;
use crate::values::Bytes;

/// Where the audit log is, and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// The file.
    pub file: PathBuf,
    /// Whether it has the arguments of calls.
    pub arguments: bool,
    /// Size at which the file becomes an archive.
    pub max_size: Bytes,
    /// Number of archives to keep.
    pub keep: usize,
}

pub(super) fn check(checker: &mut Checker<'_>, raw: &raw::Audit) -> Option<Audit> {
    let file = match &raw.file {
        Some(file) => checker.text(file).and_then(|text| checker.path(&text, &file.place)),
        None => checker.env.xdg("XDG_STATE_HOME", ".local/state").map(|state| state.join("toolgate/audit.jsonl")),
    };
    let range = Bytes::new(64 << 10)..=Bytes::new(4 << 30);
    let max_size = checker.size(&raw.max_size, &range).unwrap_or(Bytes::new(64 << 20));
    let keep = checker.count(&raw.keep, 0..=10_000).unwrap_or(10);
    let arguments = flag(&raw.arguments, false);
    file.filter(|_| flag(&raw.enabled, false)).map(|file| Audit { file, arguments, max_size, keep })
}
