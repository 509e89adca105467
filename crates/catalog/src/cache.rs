//! The tool lists of the previous start, on disk, so that a gateway can list tools before its backends have started.
//!
//! A file that is damaged, too large or of another version is ignored with a warning. An entry is valid only for the
//! configuration it was written under, which it identifies by a fingerprint; the file holds nothing else of the
//! configuration, so it contains no secrets.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Tool;

/// Version of the file format. Files of another version are ignored.
const VERSION: u32 = 1;
/// Maximum size of the cache file, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// The protocol generation that a backend speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachedEra {
    /// `initialize` and a session: revisions up to 2025-11-25.
    Legacy,
    /// Stateless, with `server/discover`: from 2026-07-28.
    Modern,
    /// Not known yet.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The cached data of one backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CachedBackend {
    /// Fingerprint of the configuration it was started with; an entry with another fingerprint is not used.
    pub fingerprint: String,
    /// The protocol generation, so that the next start need not probe for it.
    #[serde(default)]
    pub era: CachedEra,
    /// Its `serverInfo`.
    #[serde(default)]
    pub server: Value,
    /// Its tools, as returned by `tools/list`.
    pub tools: Vec<Tool>,
    /// Tools that changed what they say, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedTool>,
}

/// A tool that changed what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTool {
    /// Its name.
    pub tool: String,
    /// What of it changed, such as `description`.
    pub parts: Vec<String>,
    /// When that was noticed, in seconds since 1970.
    pub at: u64,
}

/// Why the cache could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the tool cache {}: {source}", path.display())]
pub struct SaveError {
    path: PathBuf,
    source: io::Error,
}

/// The cached data of all backends.
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
    /// Reads the cache at `path`. A file that cannot be read gives an empty cache.
    pub fn load(path: &Path) -> Self {
        match read(path) {
            Ok(cache) => cache,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "ignoring the tool cache");
                Self::default()
            }
        }
    }

    /// The entry of `backend`, if its fingerprint matches.
    pub fn get(&self, backend: &str, fingerprint: &str) -> Option<&CachedBackend> {
        self.backends.get(backend).filter(|cached| cached.fingerprint == fingerprint)
    }

    /// Stores `cached`; returns whether that changed anything, so that an unchanged cache need not be written.
    pub fn put(&mut self, backend: &str, cached: CachedBackend) -> bool {
        if self.backends.get(backend) == Some(&cached) {
            return false;
        }
        self.backends.insert(backend.to_owned(), cached);
        true
    }

    /// Removes the entries for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &CachedBackend) -> bool) {
        self.backends.retain(|name, cached| keep(name, cached));
    }

    /// Writes the cache to `path` atomically, with mode 0600.
    pub fn save(&self, path: &Path) -> Result<(), SaveError> {
        write(path, self).map_err(|source| SaveError { path: path.to_owned(), source })
    }
}

fn read(path: &Path) -> io::Result<ToolCache> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too large"));
    }
    let file: File<BTreeMap<String, CachedBackend>> =
        serde_json::from_slice(&text).map_err(|error| version_error(&text).unwrap_or_else(|| error.into()))?;
    match file.version {
        VERSION => Ok(ToolCache { backends: file.backends }),
        version => Err(unsupported_version(version)),
    }
}

/// The version error of a file whose other fields cannot be read, if its version differs from ours.
fn version_error(text: &[u8]) -> Option<io::Error> {
    let Version { version } = serde_json::from_slice(text).ok()?;
    (version != VERSION).then(|| unsupported_version(version))
}

fn unsupported_version(version: u32) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the file has version {version}, expected {VERSION}"))
}

fn write(path: &Path, cache: &ToolCache) -> io::Result<()> {
    replace_file(path, &File { version: VERSION, backends: &cache.backends })
}

/// Writes to a uniquely named temporary file and renames it, so that two gateways may save at once: the last rename wins.
pub(crate) fn replace_file(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let temporary = temporary_beside(path);
    let written = write_new(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Report the first error; a temporary file that cannot be removed does no harm.
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

fn write_new(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = io::BufWriter::new(options.open(path)?);
    serde_json::to_writer(&mut file, content)?;
    file.flush()?;
    file.get_ref().sync_all()
}

#[cfg(test)]
mod tests;
