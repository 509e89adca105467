//! Reloads the configuration file when it changes.
//!
//! The files and secrets that its values came from count as parts of it.
//!
//! Polls inode, size and modification time instead of using kernel events: this works on every file system and with
//! editors that replace the file. A changed file is read only after two polls found it unchanged, so that a partially
//! written file is not read. If the new file has errors, or needs a consent that it does not have, the old configuration
//! stays in effect and that is reported.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::text::Source;
use super::trust::Gate;
use super::{Checked, Env, Problem, check_through};

/// The configuration in effect, and the errors of the current file.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The last valid configuration.
    pub config: Arc<Checked>,
    /// The problems of the current file, if it is invalid.
    pub problems: Vec<Problem>,
}

/// Watches the file of a configuration until all receivers are dropped. A change comes into effect if the gate admits it.
pub fn watch(config: Arc<Checked>, env: Env, gate: Gate, every: Duration) -> watch::Receiver<State> {
    let mut watcher = Watcher::new(config, env, gate);
    let (sender, receiver) = watch::channel(watcher.state.clone());
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(every.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = sender.closed() => return,
            }
            // File access may block, so it runs outside the runtime's threads.
            let Ok((moved, changed)) = tokio::task::spawn_blocking(move || {
                let changed = watcher.look();
                (watcher, changed)
            })
            .await
            else {
                return;
            };
            watcher = moved;
            if changed {
                sender.send_replace(watcher.state.clone());
            }
        }
    });
    receiver
}

/// The state of the poll loop. Each poll is one call of `look`, so that tests need no clock.
struct Watcher {
    file: PathBuf,
    env: Env,
    gate: Gate,
    state: State,
    /// The metadata of all files at the last poll; `None` before the first.
    seen: Option<Vec<Fingerprint>>,
    /// The metadata of all files when they were last read.
    read: Option<Vec<Fingerprint>>,
}

impl Watcher {
    fn new(config: Arc<Checked>, env: Env, gate: Gate) -> Self {
        let state = State { config, problems: Vec::new() };
        Self { file: state.config.file.clone(), env, gate, state, seen: None, read: None }
    }

    /// Polls once; returns whether the state changed.
    fn look(&mut self) -> bool {
        let current = self.fingerprints();
        let settled = self.seen.replace(current.clone()).as_ref() == Some(&current);
        if !settled || self.read.as_ref() == Some(&current) {
            return false;
        }
        self.read = Some(current);
        let state = match self.load() {
            Ok(config) => State { config: Arc::new(config), problems: Vec::new() },
            Err(problems) => State { config: self.state.config.clone(), problems },
        };
        let changed = state != self.state;
        // If it names other files now, these count as changed once more, which costs one reading.
        self.state = state;
        changed
    }

    /// Of the configuration, then of the files that its values came from.
    fn fingerprints(&self) -> Vec<Fingerprint> {
        let others = self.state.config.files.iter().map(PathBuf::as_path);
        std::iter::once(self.file.as_path()).chain(others).map(Fingerprint::of).collect()
    }

    fn load(&mut self) -> Result<Checked, Vec<Problem>> {
        let source = Source::open(&self.file).map_err(|problem| vec![*problem])?;
        if !self.gate.admits(&source) {
            // Consent may come later, without a change of the file.
            self.read = None;
        }
        check_through(source, &self.env, &self.gate)
    }
}

/// The metadata that changes when a file is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fingerprint {
    Absent,
    Present { modified: Option<SystemTime>, size: u64, inode: u64 },
}

impl Fingerprint {
    fn of(file: &Path) -> Self {
        match std::fs::metadata(file) {
            Ok(meta) => Self::Present { modified: meta.modified().ok(), size: meta.len(), inode: inode(&meta) },
            Err(_) => Self::Absent,
        }
    }
}

#[cfg(unix)]
fn inode(meta: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checked::BackendTransport;
    use crate::load;
    use crate::trust::TrustStore;

    struct Fixture {
        folder: tempfile::TempDir,
        watcher: Watcher,
    }

    impl Fixture {
        fn new(text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("toolgate.json");
            std::fs::write(&file, text).unwrap();
            let env = Env::new(None, folder.path());
            let config = Arc::new(load(&file, &env).unwrap());
            Self { watcher: Watcher::new(config, env, Gate::Open), folder }
        }

        /// The same behind a gate that opens to trusted texts only.
        fn guarded(text: &str) -> (Self, TrustStore) {
            let mut fixture = Self::new(text);
            let store = TrustStore::of(&Env::new(Some(fixture.folder.path().join("home")), fixture.folder.path()));
            fixture.watcher.gate = Gate::Consent(store.clone());
            store.trust(&Source::open(&fixture.watcher.file).unwrap()).unwrap();
            (fixture, store)
        }

        fn write(&self, text: &str) {
            std::fs::write(self.folder.path().join("toolgate.json"), text).unwrap();
        }

        /// Polls until the file is unchanged; returns whether the state changed, the backends, and the number of problems.
        fn settle(&mut self) -> (bool, String, usize) {
            let changed = [self.watcher.look(), self.watcher.look(), self.watcher.look()].contains(&true);
            let names: Vec<String> = self.watcher.state.config.backends.keys().map(ToString::to_string).collect();
            (changed, names.join(" "), self.watcher.state.problems.len())
        }
    }

    const ONE: &str = r#"{"mcpServers": {"one": {"command": "a"}}}"#;
    const TWO: &str = r#"{"mcpServers": {"two": {"command": "long enough to differ"}}}"#;

    #[test]
    fn an_untouched_file_changes_nothing() {
        assert_eq!(Fixture::new(ONE).settle(), (false, "one".into(), 0));
    }

    #[test]
    fn a_saved_file_is_read_again() {
        let mut fixture = Fixture::new(ONE);
        fixture.settle();
        fixture.write(TWO);
        assert_eq!(fixture.settle(), (true, "two".into(), 0));
    }

    #[test]
    fn a_change_before_the_first_look_is_not_missed() {
        let mut fixture = Fixture::new(ONE);
        fixture.write(TWO);
        assert_eq!(fixture.settle(), (true, "two".into(), 0));
    }

    #[test]
    fn a_change_of_a_guarded_file_waits_for_consent() {
        let (mut fixture, store) = Fixture::guarded(ONE);
        assert_eq!(fixture.settle(), (false, "one".into(), 0));
        fixture.write(TWO);
        assert_eq!(fixture.settle(), (true, "one".into(), 1));
        assert!(fixture.watcher.state.problems[0].to_string().contains("toolgate trust"));
        store.trust(&Source::open(&fixture.watcher.file).unwrap()).unwrap();
        assert_eq!(fixture.settle(), (true, "two".into(), 0));
    }

    #[test]
    fn an_atomic_replace_is_seen() {
        let mut fixture = Fixture::new(ONE);
        fixture.settle();
        let other = fixture.folder.path().join("new");
        std::fs::write(&other, TWO).unwrap();
        std::fs::rename(&other, fixture.folder.path().join("toolgate.json")).unwrap();
        assert_eq!(fixture.settle(), (true, "two".into(), 0));
    }

    #[test]
    fn a_file_that_is_still_being_written_is_not_read() {
        let mut fixture = Fixture::new(ONE);
        fixture.settle();
        fixture.write("{");
        assert!(!fixture.watcher.look());
        fixture.write(TWO);
        assert_eq!(fixture.settle(), (true, "two".into(), 0));
    }

    #[test]
    fn a_broken_or_missing_file_keeps_the_old_configuration() {
        let mut fixture = Fixture::new(ONE);
        fixture.settle();
        fixture.write("{ broken");
        assert_eq!(fixture.settle(), (true, "one".into(), 1));
        assert_eq!(fixture.settle(), (false, "one".into(), 1));
        std::fs::remove_file(fixture.folder.path().join("toolgate.json")).unwrap();
        assert_eq!(fixture.settle(), (true, "one".into(), 1));
        fixture.write(TWO);
        assert_eq!(fixture.settle(), (true, "two".into(), 0));
    }

    #[tokio::test]
    async fn receivers_are_told() {
        let fixture = Fixture::new(ONE);
        let config = fixture.watcher.state.config.clone();
        let mut receiver = watch(config, fixture.watcher.env.clone(), Gate::Open, Duration::from_millis(1));
        fixture.write(TWO);
        tokio::time::timeout(Duration::from_secs(20), receiver.changed()).await.unwrap().unwrap();
        assert!(receiver.borrow().config.backends.contains_key("two"));
    }

    #[test]
    fn a_changed_file_or_secret_of_a_value_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolgate.json");
        let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["${file:token}", "${keyring:TOKEN}"]}}}"#;
        std::fs::write(&file, text).unwrap();
        let env = Env::new(Some(folder.path().into()), folder.path());
        let mut watcher = Watcher::new(Arc::new(load(&file, &env).unwrap()), env.clone(), Gate::Open);
        let args = |watcher: &Watcher| match watcher.state.config.backends.get("a").map(|a| &a.transport) {
            Some(BackendTransport::Stdio(process)) => process.args.iter().map(|arg| arg.expose().to_owned()).collect(),
            _ => Vec::new(),
        };
        let settle = |watcher: &mut Watcher| {
            for _ in 0..4 {
                watcher.look();
            }
        };
        settle(&mut watcher);
        assert_eq!(args(&watcher), [""; 0]);
        std::fs::write(folder.path().join("token"), "one").unwrap();
        let secrets = env.secrets(toolgate_secrets::Preference::File).unwrap();
        secrets.set("TOKEN", "two").unwrap();
        settle(&mut watcher);
        assert_eq!(args(&watcher), ["one", "two"]);
        secrets.set("TOKEN", "three").unwrap();
        settle(&mut watcher);
        assert_eq!(args(&watcher), ["one", "three"]);
        secrets.remove("TOKEN").unwrap();
        settle(&mut watcher);
        assert!(watcher.state.config.incomplete.contains_key("a"));
    }
}
