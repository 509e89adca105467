//! Reloads the configuration file when it changes.
//!
//! Polls inode, size and modification time instead of using kernel events: this works on every file system and with
//! editors that replace the file. A changed file is read only after two polls found it unchanged, so that a partially
//! written file is not read. If the new file has errors, the old configuration stays in effect and the errors are
//! reported.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::{Checked, Env, Problem, load};

/// The configuration in effect, and the errors of the current file.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The last valid configuration.
    pub config: Arc<Checked>,
    /// The problems of the current file, if it is invalid.
    pub problems: Vec<Problem>,
}

/// Watches the file of a configuration until all receivers are dropped.
pub fn watch(config: Arc<Checked>, env: Env, every: Duration) -> watch::Receiver<State> {
    let mut watcher = Watcher::new(config, env);
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
    state: State,
    /// The file's metadata at the last poll; `None` before the first.
    seen: Option<Fingerprint>,
    /// The file's metadata when it was last read.
    read: Option<Fingerprint>,
}

impl Watcher {
    fn new(config: Arc<Checked>, env: Env) -> Self {
        let state = State { config, problems: Vec::new() };
        Self { file: state.config.file.clone(), env, state, seen: None, read: None }
    }

    /// Polls once; returns whether the state changed.
    fn look(&mut self) -> bool {
        let current = Fingerprint::of(&self.file);
        let settled = self.seen.replace(current) == Some(current);
        if !settled || self.read == Some(current) {
            return false;
        }
        self.read = Some(current);
        let state = match load(&self.file, &self.env) {
            Ok(config) => State { config: Arc::new(config), problems: Vec::new() },
            Err(problems) => State { config: self.state.config.clone(), problems },
        };
        let changed = state != self.state;
        self.state = state;
        changed
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
            Self { watcher: Watcher::new(config, env), folder }
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
        let mut receiver = watch(config, fixture.watcher.env.clone(), Duration::from_millis(1));
        fixture.write(TWO);
        tokio::time::timeout(Duration::from_secs(20), receiver.changed()).await.unwrap().unwrap();
        assert!(receiver.borrow().config.backends.contains_key("two"));
    }
}
