//! Settings of durable runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use url::Url;

use super::checker::Checker;
use crate::raw;
use crate::values::{Bytes, RunStorePlace, StoreSetting, UnknownCalls};

/// Durable runs.
#[derive(Clone, PartialEq, Eq)]
pub struct Runs {
    /// Where they are kept; `None` if there is no home directory.
    pub store: Option<RunStore>,
    /// The file with the key; `None` if there is no home directory.
    pub key_file: Option<PathBuf>,
    /// The key in place of that file.
    pub key: Option<String>,
    /// How long a run waits for its process.
    pub lease: Duration,
    /// How long runs are kept after their end.
    pub keep: Duration,
    /// Maximum total size of ended runs.
    pub max_size: Bytes,
    /// Maximum number of runs of one caller that have not ended.
    pub max_open: u64,
    /// Maximum total size of these runs.
    pub max_open_size: Bytes,
    /// The secret that webhooks are signed with.
    pub webhook_secret: Option<String>,
    /// Who is told that a run waits for a person, where the run has no webhook of its own.
    pub webhook: Option<String>,
    /// What becomes of a run with a call whose effect is unknown.
    pub unknown_calls: UnknownCalls,
}

impl fmt::Debug for Runs {
    // Secrets are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Runs { store, key_file, key, lease, keep, max_size, max_open, max_open_size, .. } = self;
        let Runs { webhook_secret, webhook, unknown_calls, .. } = self;
        f.debug_struct("Runs")
            .field("store", store)
            .field("key_file", key_file)
            .field("key", &key.as_ref().map(|_| "…"))
            .field("lease", lease)
            .field("keep", keep)
            .field("max_size", max_size)
            .field("max_open", max_open)
            .field("max_open_size", max_open_size)
            .field("webhook_secret", &webhook_secret.as_ref().map(|_| "…"))
            .field("webhook", &webhook.as_ref().map(|_| "…"))
            .field("unknown_calls", unknown_calls)
            .finish()
    }
}

/// A store of durable runs.
#[derive(Clone, PartialEq, Eq)]
pub enum RunStore {
    /// An SQLite file.
    File(PathBuf),
    /// An SQLite file in this folder, one for each configuration: another one has other servers, which cannot go on with
    /// its runs.
    Folder(PathBuf),
    /// A PostgreSQL database.
    Postgres(Url),
}

impl fmt::Debug for RunStore {
    // A URL may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunStore::File(path) => write!(f, "File({})", path.display()),
            RunStore::Folder(path) => write!(f, "Folder({})", path.display()),
            RunStore::Postgres(url) => write!(f, "{:?}", RunStorePlace::Postgres(url.clone())),
        }
    }
}

impl RunStore {
    /// The SQLite file for the runs of the configuration in this file; `None` if they are in a database.
    pub fn file(&self, configuration: &Path) -> Option<PathBuf> {
        match self {
            RunStore::File(path) => Some(path.clone()),
            RunStore::Folder(folder) => Some(folder.join(format!("{:016x}.db", hash(configuration)))),
            RunStore::Postgres(_) => None,
        }
    }
}

pub(super) fn check(checker: &mut Checker<'_>, raw: &raw::Runs, shared: &StoreSetting) -> Runs {
    let size = Bytes::new(1 << 20)..=Bytes::new(1 << 40);
    let runs = Runs {
        store: store(checker, raw, shared),
        key_file: match &raw.key_file {
            Some(file) => checker.text(file).and_then(|text| checker.path(&text, &file.place)),
            None => state(checker).map(|state| state.join("runs.key")),
        },
        key: raw.key.as_ref().and_then(|key| checker.text(key)),
        lease: checker.period(&raw.lease).unwrap_or(Duration::from_secs(2)),
        keep: checker.period(&raw.keep).unwrap_or(Duration::from_secs(7 * 24 * 3600)),
        max_size: checker.size(&raw.max_size, &size).unwrap_or(Bytes::new(1 << 30)),
        max_open: checker.count(&raw.max_open, 1..=1_000_000).unwrap_or(1000) as u64,
        max_open_size: checker.size(&raw.max_open_size, &size).unwrap_or(Bytes::new(1 << 30)),
        webhook_secret: raw.webhook_secret.as_ref().and_then(|secret| checker.text(secret)),
        webhook: webhook(checker, raw),
        unknown_calls: checker.get(&raw.unknown_calls).unwrap_or(UnknownCalls::Auto),
    };
    if let Some(RunStore::Postgres(url)) = &runs.store {
        checker.secrets.add_url(url);
    }
    runs.key.iter().chain(&runs.webhook_secret).for_each(|secret| checker.secrets.add(secret));
    runs
}

/// The URL of the configuration's own webhook, which is signed like any other.
fn webhook(checker: &mut Checker<'_>, raw: &raw::Runs) -> Option<String> {
    let written = raw.webhook.as_ref()?;
    let url = checker.text(written)?;
    if !Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
        checker.wrong(&written.place, "is no http:// or https:// URL", "such as \"https://example.com/waits\"");
        return None;
    }
    if raw.webhook_secret.is_none() {
        checker.wrong(&written.place, "has no secret to be signed with", "add \"webhook_secret\"");
        return None;
    }
    Some(url)
}

fn store(checker: &mut Checker<'_>, raw: &raw::Runs, shared: &StoreSetting) -> Option<RunStore> {
    if let Some(setting) = &raw.store {
        return match checker.get(&raw.store)? {
            RunStorePlace::Postgres(url) => Some(RunStore::Postgres(url)),
            RunStorePlace::File(path) => checker.path(&path, &setting.place).map(RunStore::File),
        };
    }
    match shared {
        StoreSetting::Postgres(url) => Some(RunStore::Postgres(url.clone())),
        StoreSetting::Memory | StoreSetting::Redis(_) => {
            state(checker).map(|state| RunStore::Folder(state.join("runs")))
        }
    }
}

fn state(checker: &Checker<'_>) -> Option<PathBuf> {
    checker.env.xdg("XDG_STATE_HOME", ".local/state").map(|state| state.join("toolgate"))
}

/// Stands for a configuration in the names of its files. FNV-1a: the same in every version of this program.
pub(super) fn hash(file: &Path) -> u64 {
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let bytes = file.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
