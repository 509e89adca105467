//! The tools of the last time, on disk, so that a gateway answers before its backends have started.
//!
//! The cache is a convenience and never an authority: a file that is missing, damaged, too large or from a newer
//! version is an empty cache, with a warning. An entry counts only for the configuration it was made under. It holds
//! what backends said in `tools/list` and nothing of the configuration but a fingerprint of its owner's choice.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Tool;

/// The layout of the file; a change of it makes older files unreadable on purpose.
const VERSION: u32 = 1;
/// A file beyond this is not ours.
const MAX_FILE: u64 = 256 << 20;

/// Which protocol a backend spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// `initialize` and a session: revisions up to 2025-11-25.
    Legacy,
    /// Stateless, with `server/discover`: from 2026-07-28.
    Modern,
    /// Not found out.
    #[default]
    #[serde(other)]
    Unknown,
}

/// What is remembered of a backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CachedBackend {
    /// Stands for the configuration it was started with; an entry of another fingerprint is void.
    pub fingerprint: String,
    /// The protocol it spoke, which spares the next start a probe.
    #[serde(default)]
    pub era: Era,
    /// What it said of itself (`serverInfo`).
    #[serde(default)]
    pub server: Value,
    /// Its tools, as `tools/list` gave them.
    pub tools: Vec<Tool>,
}

/// Why the cache could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the tool cache {}: {source}", path.display())]
pub struct SaveError {
    path: PathBuf,
    source: io::Error,
}

/// What is remembered of all backends.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolCache {
    backends: BTreeMap<String, CachedBackend>,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct File<B> {
    version: u32,
    backends: B,
}

impl ToolCache {
    /// Reads the cache at `path`. Never fails: what can't be read is empty.
    pub fn load(path: &Path) -> Self {
        match read(path) {
            Ok(cache) => cache,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the tool cache is ignored");
                Self::default()
            }
        }
    }

    /// What is remembered of `backend`, if it was configured then as it is now.
    pub fn get(&self, backend: &str, fingerprint: &str) -> Option<&CachedBackend> {
        self.backends.get(backend).filter(|cached| cached.fingerprint == fingerprint)
    }

    /// Remembers `cached`; tells whether that changed anything, so that an unchanged cache need not be written.
    pub fn put(&mut self, backend: &str, cached: CachedBackend) -> bool {
        if self.backends.get(backend) == Some(&cached) {
            return false;
        }
        self.backends.insert(backend.to_owned(), cached);
        true
    }

    /// Forgets the backends that `keep` refuses: those no longer configured, or configured differently.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &CachedBackend) -> bool) {
        self.backends.retain(|name, cached| keep(name, cached));
    }

    /// Writes the cache to `path`: readable by its owner alone, and whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), SaveError> {
        write(path, self).map_err(|source| SaveError { path: path.to_owned(), source })
    }
}

fn read(path: &Path) -> io::Result<ToolCache> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large"));
    }
    let file: File<BTreeMap<String, CachedBackend>> =
        serde_json::from_slice(&text).map_err(|error| other_version(&text).unwrap_or_else(|| error.into()))?;
    match file.version {
        VERSION => Ok(ToolCache { backends: file.backends }),
        version => Err(not_our_version(version)),
    }
}

/// What a file that cannot be read is, if another version of this program wrote it.
fn other_version(text: &[u8]) -> Option<io::Error> {
    let Version { version } = serde_json::from_slice(text).ok()?;
    (version != VERSION).then(|| not_our_version(version))
}

fn not_our_version(version: u32) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it has version {version}, not {VERSION}"))
}

/// Two gateways may save at once: each writes a file of its own name, and the last rename wins.
fn write(path: &Path, cache: &ToolCache) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let temporary = temporary_beside(path);
    let written = write_new(&temporary, cache).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The error that matters is the first one; a leftover file is only litter.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn temporary_beside(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{count}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn write_new(path: &Path, cache: &ToolCache) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = io::BufWriter::new(options.open(path)?);
    serde_json::to_writer(&mut file, &File { version: VERSION, backends: &cache.backends })?;
    file.flush()?;
    file.get_ref().sync_all()
}

#[cfg(test)]
mod tests;
