//! Validates the sandbox of a server.
//!
//! A setting that cannot be read leaves the narrower default in place and is an error of the file, so that no server is
//! started with more rights than were written down.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::checker::Checker;
use crate::raw::{Located, RawSandbox, RawText};
use crate::values::Bytes;

const MEMORY_RANGE: RangeInclusive<Bytes> = Bytes::new(16 << 20)..=Bytes::new(1 << 40);
const PROCESSES_RANGE: RangeInclusive<usize> = 4..=65_536;
const DEFAULT_MEMORY: Bytes = Bytes::new(1 << 30);
const DEFAULT_PROCESSES: usize = 512;

/// What a server in a sandbox may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSandbox {
    /// What it may read besides what every such server may.
    pub read: Vec<PathBuf>,
    /// What it may read and write besides its own folders.
    pub write: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
    /// Maximum memory.
    pub memory: Bytes,
    /// Maximum number of processes and threads.
    pub processes: usize,
    /// The folder that is its home; `None` if this user has no home directory to make it in.
    pub home: Option<PathBuf>,
}

/// The sandbox of a server; `None` if it has none.
pub(super) fn check(
    checker: &mut Checker<'_>,
    name: &str,
    written: &Option<Located<RawSandbox>>,
) -> Option<ServerSandbox> {
    let home = checker.env.state_folder().map(|state| state.join("servers").join(file_name(name)));
    let defaults = ServerSandbox {
        read: Vec::new(),
        write: Vec::new(),
        network: true,
        memory: DEFAULT_MEMORY,
        processes: DEFAULT_PROCESSES,
        home,
    };
    match &written.as_ref()?.value {
        RawSandbox::Switch(false) => None,
        RawSandbox::Switch(true) => Some(defaults),
        RawSandbox::Settings(raw) => Some(ServerSandbox {
            read: paths(checker, &raw.read),
            write: paths(checker, &raw.write),
            network: super::flag(&raw.network, defaults.network),
            memory: checker.size(&raw.memory, &MEMORY_RANGE).unwrap_or(defaults.memory),
            processes: checker.count(&raw.processes, PROCESSES_RANGE).unwrap_or(defaults.processes),
            home: defaults.home,
        }),
    }
}

fn paths(checker: &mut Checker<'_>, written: &Option<Located<Vec<Located<RawText<String>>>>>) -> Vec<PathBuf> {
    let items = written.as_ref().map(|items| items.value.as_slice()).unwrap_or_default();
    let mut path = |item: &Located<RawText<String>>| {
        let text = checker.text(item)?;
        checker.path(&text, &item.place)
    };
    items.iter().filter_map(&mut path).collect()
}

/// The name of a server as the name of one folder: everything but letters, digits, `-` and `_` is spelt as `%XX`.
fn file_name(name: &str) -> String {
    let spelt = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    name.bytes().map(spelt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_folder_of_its_own() {
        assert_eq!(file_name("git-hub_1"), "git-hub_1");
        assert_eq!(file_name("../x"), "%2E%2E%2Fx");
        assert_ne!(file_name("a.b"), file_name("a%2Eb"));
    }
}
