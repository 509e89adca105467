//! Consent to configuration files that come from a folder.
//!
//! A repository may contain a `toolgate.json` or an `.mcp.json`, and whatever such a file names is started with the rights
//! of the user. So a file that was only found in a folder is used after its user consented to its content. Consent is
//! given for a place and a text: another text at the same place, or the same text in another folder (where `./server.sh`
//! is another program), needs consent again. Files of the user's own configuration folder, and files that are named on
//! the command line, need none. What the programs behind the commands contain is not covered.

use std::io;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::edit::write_private;
use super::text::Source;
use super::vars::Env;

/// Texts that are remembered; the oldest is forgotten first.
const MAX_ENTRIES: usize = 1000;
/// Maximum size of the store's file, in bytes.
const MAX_STORE_BYTES: u64 = 4 << 20;

/// The texts that the user consented to, in a file of mode 0600 in the user's state directory.
#[derive(Debug, Clone)]
pub struct TrustStore {
    file: Option<PathBuf>,
}

/// One text at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    file: String,
    sha256: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Entries {
    trusted: Vec<Entry>,
}

impl TrustStore {
    /// `$XDG_STATE_HOME/toolgate/trusted.json`, or below `~/.local/state`. Without a home directory nothing is trusted.
    pub fn of(env: &Env) -> Self {
        Self { file: env.xdg("XDG_STATE_HOME", ".local/state").map(|state| state.join("toolgate/trusted.json")) }
    }

    /// Whether the user consented to this text at this place. A store that cannot be read trusts nothing.
    pub fn trusts(&self, source: &Source) -> bool {
        let entry = Entry::of(source);
        self.read().is_ok_and(|entries| entries.trusted.contains(&entry))
    }

    /// Records consent.
    pub fn trust(&self, source: &Source) -> io::Result<()> {
        let entry = Entry::of(source);
        // A damaged store is replaced: what it held is asked for again.
        let mut entries = self.read().unwrap_or_default();
        entries.trusted.retain(|known| *known != entry);
        entries.trusted.push(entry);
        let excess = entries.trusted.len().saturating_sub(MAX_ENTRIES);
        entries.trusted.drain(..excess);
        self.write(&entries)
    }

    /// Withdraws consent to all texts of a file; returns whether there was any.
    pub fn forget(&self, file: &Path) -> io::Result<bool> {
        let place = place(file);
        let mut entries = self.read()?;
        let before = entries.trusted.len();
        entries.trusted.retain(|known| known.file != place);
        if entries.trusted.len() == before {
            return Ok(false);
        }
        self.write(&entries)?;
        Ok(true)
    }

    /// The places of all trusted texts, without repetitions.
    pub fn files(&self) -> io::Result<Vec<String>> {
        let mut files: Vec<String> = self.read()?.trusted.into_iter().map(|entry| entry.file).collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    fn read(&self) -> io::Result<Entries> {
        let Some(file) = &self.file else { return Ok(Entries::default()) };
        match std::fs::metadata(file) {
            Ok(meta) if meta.len() > MAX_STORE_BYTES => {
                return Err(io::Error::other("the list of trusted files is too large"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entries::default()),
            Ok(_) | Err(_) => {}
        }
        Ok(serde_json::from_slice(&std::fs::read(file)?)?)
    }

    fn write(&self, entries: &Entries) -> io::Result<()> {
        let file =
            self.file.as_ref().ok_or_else(|| io::Error::other("there is no home directory to remember it in"))?;
        write_private(file, &serde_json::to_vec_pretty(entries)?)
    }
}

impl Entry {
    fn of(source: &Source) -> Self {
        let mut context = Context::new(&SHA256);
        let mark = if source.has_bom() { "\u{FEFF}" } else { "" };
        context.update(mark.as_bytes());
        context.update(source.text().as_bytes());
        let sha256 = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { file: place(source.file()), sha256 }
    }
}

/// The absolute path of a file. Only its directory is resolved: relative commands in a linked file start from the
/// directory of the link.
fn place(file: &Path) -> String {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = absolute.parent().and_then(|folder| folder.canonicalize().ok());
    let resolved = folder.zip(absolute.file_name()).map(|(folder, name)| folder.join(name));
    resolved.unwrap_or(absolute).to_string_lossy().into_owned()
}

/// What a file needs before its settings are used.
#[derive(Debug, Clone)]
pub enum Gate {
    /// Nothing: the user named it, or it is in the user's own configuration directory.
    Open,
    /// Consent to its text.
    Consent(TrustStore),
}

impl Gate {
    /// Whether a text may be used.
    pub fn admits(&self, source: &Source) -> bool {
        match self {
            Self::Open => true,
            Self::Consent(store) => store.trusts(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Format;

    struct Fixture {
        folder: tempfile::TempDir,
        store: TrustStore,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = TrustStore::of(&Env::new(Some(folder.path().join("home")), folder.path()));
            Self { folder, store }
        }

        fn source(&self, file: &str, text: &str) -> Source {
            let path = self.folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            Source::new(&path, Format::Json, text)
        }
    }

    #[test]
    fn consent_is_for_one_text_at_one_place() {
        let fixture = Fixture::new();
        let source = fixture.source("a/toolgate.json", "{}");
        assert!(!fixture.store.trusts(&source));
        fixture.store.trust(&source).unwrap();
        assert!(fixture.store.trusts(&source));
        assert!(!fixture.store.trusts(&fixture.source("a/toolgate.json", "{ }")));
        assert!(!fixture.store.trusts(&fixture.source("b/toolgate.json", "{}")));
        assert!(!fixture.store.trusts(&fixture.source("a/toolgate.json", "\u{FEFF}{}")));
        assert!(fixture.store.trusts(&fixture.source("a/../a/toolgate.json", "{}")));
    }

    #[test]
    fn consent_can_be_withdrawn() {
        let fixture = Fixture::new();
        let source = fixture.source("a/toolgate.json", "{}");
        fixture.store.trust(&source).unwrap();
        assert_eq!(fixture.store.files().unwrap().len(), 1);
        assert!(fixture.store.forget(source.file()).unwrap());
        assert!(!fixture.store.trusts(&source));
        assert!(!fixture.store.forget(source.file()).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn the_store_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let fixture = Fixture::new();
        fixture.store.trust(&fixture.source("a", "{}")).unwrap();
        let file = fixture.folder.path().join("home/.local/state/toolgate/trusted.json");
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn without_a_home_or_with_a_damaged_store_nothing_is_trusted() {
        let fixture = Fixture::new();
        let source = fixture.source("a", "{}");
        let homeless = TrustStore::of(&Env::new(None, "/"));
        assert!(homeless.trust(&source).is_err() && !homeless.trusts(&source));
        fixture.store.trust(&source).unwrap();
        let file = fixture.folder.path().join("home/.local/state/toolgate/trusted.json");
        std::fs::write(file, "{").unwrap();
        assert!(!fixture.store.trusts(&source));
        fixture.store.trust(&source).unwrap();
        assert!(fixture.store.trusts(&source));
    }

    #[test]
    fn the_oldest_consent_is_forgotten_first() {
        let fixture = Fixture::new();
        for number in 0..=MAX_ENTRIES {
            fixture.store.trust(&fixture.source("a", &number.to_string())).unwrap();
        }
        assert!(!fixture.store.trusts(&fixture.source("a", "0")));
        assert!(fixture.store.trusts(&fixture.source("a", "1")));
    }
}
