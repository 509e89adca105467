//! Reloads the configuration file when it changes.
//!
//! The files and secrets that its values came from count as parts of it. What a command prints (`${cmd:…}`) changes without a
//! trace, so a gateway that loses a server with such a value asks for another reading ([`ReadAgain`]). Such a reading changes
//! only the servers that it was asked for: the others keep their values, also where their commands print something else.
//!
//! Polls inode, size and modification time instead of using kernel events: this works on every file system and with
//! editors that replace the file. A changed file is read only after two polls found it unchanged, so that a partially
//! written file is not read. If the new file has errors, or needs a consent that it does not have, the old configuration
//! stays in effect and that is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, MutexGuard};
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

/// Least time between two readings that were asked for, since each runs the commands of the file. Doubles for a server that
/// asks again and again.
const READ_AGAIN_INTERVAL: Duration = Duration::from_secs(5);
/// Longest time between two readings for a server that asks again and again. One that does not ask for so long after its
/// interval was up meanwhile: its interval is the shortest again.
const MAX_READ_AGAIN_INTERVAL: Duration = Duration::from_secs(300);
/// Time between two readings while a server waits for a command that failed.
const FAILED_COMMAND_INTERVAL: Duration = Duration::from_secs(60);

/// Asks for another reading of a configuration although no file has changed. Clones ask the same watch.
#[derive(Debug, Clone, Default)]
pub struct ReadAgain(Arc<Mutex<Request>>);

#[derive(Debug, Default)]
struct Request {
    /// The servers that asked and got no reading yet.
    asked: BTreeSet<String>,
    /// The configuration that a gateway brought into effect since the watch last told a change.
    in_effect: Option<Arc<Checked>>,
}

impl ReadAgain {
    /// Asks for new values of a server. Several that ask at one time get one reading.
    pub fn ask(&self, server: &str) {
        self.request().asked.insert(server.to_owned());
    }

    /// Notes the configuration that is in effect now, which may come from another reading than those of the watch (SIGHUP).
    pub fn note_in_effect(&self, config: &Arc<Checked>) {
        self.request().in_effect = Some(Arc::clone(config));
    }

    fn request(&self) -> MutexGuard<'_, Request> {
        self.0.lock()
    }
}

/// Watches the file of a configuration until all receivers are dropped. A change comes into effect if the gate admits it.
pub fn watch(
    config: Arc<Checked>,
    env: Env,
    gate: Gate,
    every: Duration,
    read_again: ReadAgain,
) -> watch::Receiver<State> {
    let mut watcher = Watcher::new(config, env, gate, read_again);
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
    read_again: ReadAgain,
    /// When commands were last run.
    read_at: Instant,
    /// The last readings that servers asked for, since the file changed.
    renewals: BTreeMap<String, Renewal>,
}

/// A reading that a server asked for.
struct Renewal {
    at: Instant,
    /// Time until the next one.
    interval: Duration,
}

impl Watcher {
    fn new(config: Arc<Checked>, env: Env, gate: Gate, read_again: ReadAgain) -> Self {
        let state = State { config, problems: Vec::new() };
        let (file, read_at) = (state.config.file.clone(), Instant::now());
        Self { file, env, gate, state, seen: None, read: None, read_again, read_at, renewals: BTreeMap::new() }
    }

    /// The configuration in effect.
    fn present(&self) -> Arc<Checked> {
        let in_effect = self.read_again.request().in_effect.clone();
        in_effect.unwrap_or_else(|| Arc::clone(&self.state.config))
    }

    /// The servers whose commands are to be run again: those that asked, and those that wait for a command that failed.
    fn due(&self) -> BTreeSet<String> {
        let elapsed = self.read_at.elapsed();
        let mut due = BTreeSet::new();
        if elapsed >= READ_AGAIN_INTERVAL {
            let is_due = |name: &str| self.renewals.get(name).is_none_or(|last| last.at.elapsed() >= last.interval);
            due.extend(self.read_again.request().asked.iter().filter(|name| is_due(name.as_str())).cloned());
        }
        if !due.is_empty() || elapsed >= FAILED_COMMAND_INTERVAL {
            let config = self.present();
            let waiting = config.commanded.iter().filter(|name| config.incomplete.contains_key(*name));
            due.extend(waiting.map(ToString::to_string));
        }
        due
    }

    /// Notes a reading for those of these servers that asked for it.
    fn note_renewals(&mut self, names: &BTreeSet<String>) {
        for name in names {
            if !self.read_again.request().asked.remove(name) {
                continue;
            }
            let interval = match self.renewals.get(name) {
                Some(last) if last.at.elapsed() < last.interval + MAX_READ_AGAIN_INTERVAL => {
                    (last.interval * 2).min(MAX_READ_AGAIN_INTERVAL)
                }
                _ => READ_AGAIN_INTERVAL,
            };
            self.renewals.insert(name.clone(), Renewal { at: Instant::now(), interval });
        }
    }

    /// Polls once; returns whether the state changed.
    fn look(&mut self) -> bool {
        let current = self.fingerprints();
        let settled = self.seen.replace(current.clone()).as_ref() == Some(&current);
        if !settled {
            return false;
        }
        let is_same_file = self.read.as_ref() == Some(&current);
        let due = if is_same_file { self.due() } else { BTreeSet::new() };
        if is_same_file && due.is_empty() {
            return false;
        }
        self.read = Some(current);
        self.read_at = Instant::now();
        let present = self.present();
        if is_same_file {
            self.note_renewals(&due);
        } else {
            self.renewals.clear();
            self.read_again.request().asked.clear();
        }
        // A file that could not be used before is taken as a whole.
        let is_renewal = is_same_file && self.state.problems.is_empty();
        let state = match self.load() {
            Ok(config) => {
                let config = if is_renewal { renewed(&present, config, &due) } else { config };
                State { config: Arc::new(config), problems: Vec::new() }
            }
            Err(problems) => State { config: present, problems },
        };
        let changed = state != self.state;
        if changed {
            // This state comes into effect next.
            self.read_again.request().in_effect = None;
        }
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

/// The present configuration with what another reading of the same file found for these servers.
fn renewed(present: &Checked, mut read: Checked, names: &BTreeSet<String>) -> Checked {
    let mut config = present.clone();
    for name in names.iter().map(String::as_str).filter(|name| present.commanded.contains(*name)) {
        config.backends.remove(name);
        config.incomplete.remove(name);
        config.backends.extend(read.backends.remove_entry(name));
        config.incomplete.extend(read.incomplete.remove_entry(name));
    }
    if config.backends != present.backends || config.incomplete != present.incomplete {
        // The servers that keep their values keep their secrets.
        config.secrets.add_all(read.secrets);
        config.files.extend(read.files);
    }
    config
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
            Self { watcher: Watcher::new(config, env, Gate::Open, ReadAgain::default()), folder }
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

    /// Three servers with commands: `one` prints the file `value`, `counter` something new each time, `other` the file `other`.
    #[cfg(unix)]
    struct Commanded {
        folder: tempfile::TempDir,
        watcher: Watcher,
        ask: ReadAgain,
    }

    #[cfg(unix)]
    impl Commanded {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().display();
            let server = |line: String| {
                let token = format!("${{cmd:{line}}}");
                serde_json::json!({ "command": "a", "env": { "TOKEN": token } })
            };
            let text = serde_json::json!({
                "mcpServers": {
                    "one": server(format!("cat {path}/value")),
                    "counter": server(format!("echo x >> {path}/count; wc -l < {path}/count")),
                    "other": server(format!("cat {path}/other")),
                },
                "toolgate": { "secrets": { "commands": true } },
            });
            let file = folder.path().join("toolgate.json");
            std::fs::write(&file, text.to_string()).unwrap();
            std::fs::write(folder.path().join("value"), "first").unwrap();
            std::fs::write(folder.path().join("other"), "other").unwrap();
            let env = Env::new(None, folder.path()).running_commands();
            let config = Arc::new(load(&file, &env).unwrap());
            assert!(["one", "counter", "other"].iter().all(|name| config.commanded.contains(*name)));
            let ask = ReadAgain::default();
            let watcher = Watcher::new(config, env, Gate::Open, ask.clone());
            let mut commanded = Self { folder, watcher, ask };
            // The first reading takes everything.
            commanded.look_after(Duration::ZERO);
            commanded
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.folder.path().join(name), text).unwrap();
        }

        fn remove(&self, name: &str) {
            std::fs::remove_file(self.folder.path().join(name)).unwrap();
        }

        fn token(&self, name: &str) -> Option<String> {
            self.watcher.state.config.backends.get(name).map(|server| match &server.transport {
                BackendTransport::Stdio(process) => process.env["TOKEN"].expose().to_owned(),
                _ => panic!("a process"),
            })
        }

        /// The number of readings.
        fn readings(&self) -> usize {
            std::fs::read_to_string(self.folder.path().join("count")).unwrap().lines().count()
        }

        /// Polls when this time has passed; returns whether the state changed, and the value of `one`.
        fn look_after(&mut self, time: Duration) -> (bool, Option<String>) {
            self.watcher.read_at -= time;
            self.watcher.renewals.values_mut().for_each(|renewal| renewal.at -= time);
            let changed = [self.watcher.look(), self.watcher.look()].contains(&true);
            (changed, self.token("one"))
        }
    }

    #[cfg(unix)]
    #[test]
    fn commands_run_again_when_that_is_asked_for() {
        let mut commanded = Commanded::new();
        let minute = FAILED_COMMAND_INTERVAL;
        assert_eq!(commanded.look_after(minute), (false, Some("first".into())));
        commanded.write("value", "second");
        assert_eq!(commanded.look_after(minute), (false, Some("first".into())), "a command runs when it is asked for");
        commanded.ask.ask("one");
        assert_eq!(commanded.look_after(minute), (true, Some("second".into())));
        let secrets = &commanded.watcher.state.config.secrets;
        assert!(secrets.iter().any(|secret| secret == "second"));
        commanded.remove("value");
        commanded.ask.ask("one");
        assert_eq!(commanded.look_after(minute), (true, None), "the command fails");
        commanded.write("value", "third");
        assert_eq!(commanded.look_after(minute), (true, Some("third".into())), "and is tried again by itself");
    }

    #[cfg(unix)]
    #[test]
    fn a_server_that_is_up_keeps_its_values_when_another_asks() {
        let mut commanded = Commanded::new();
        let (counter, readings) = (commanded.token("counter"), commanded.readings());
        commanded.write("value", "second");
        commanded.remove("other");
        commanded.ask.ask("one");
        assert_eq!(commanded.look_after(FAILED_COMMAND_INTERVAL), (true, Some("second".into())));
        assert_eq!(commanded.readings(), readings + 1);
        assert_eq!(commanded.token("counter"), counter, "its command prints something new");
        assert_eq!(commanded.token("other").as_deref(), Some("other"), "its command fails");
        commanded.ask.ask("one");
        assert_eq!(commanded.look_after(FAILED_COMMAND_INTERVAL), (false, Some("second".into())), "nothing new");
        assert_eq!(commanded.readings(), readings + 2);

        // Another reading than that of the watch came into effect.
        commanded.write("other", "other");
        let config = Arc::new(load(&commanded.watcher.file, &commanded.watcher.env).unwrap());
        commanded.ask.note_in_effect(&config);
        commanded.write("value", "third");
        commanded.ask.ask("one");
        assert_eq!(commanded.look_after(FAILED_COMMAND_INTERVAL), (true, Some("third".into())));
        assert_eq!(commanded.watcher.state.config.backends.get("counter"), config.backends.get("counter"));
        assert_ne!(commanded.token("counter"), counter);
    }

    #[cfg(unix)]
    #[test]
    fn a_server_that_keeps_asking_is_read_less_and_less() {
        let mut commanded = Commanded::new();
        // The number of readings, and the seconds until the next one.
        let mut asked = |seconds: u64| {
            let before = commanded.readings();
            commanded.ask.ask("one");
            commanded.look_after(Duration::from_secs(seconds));
            let interval = commanded.watcher.renewals.get("one").map_or(0, |renewal| renewal.interval.as_secs());
            (commanded.readings() - before, interval)
        };
        for (after, interval) in [(5, 5), (5, 10), (10, 20), (20, 40), (40, 80), (80, 160), (160, 300), (300, 300)] {
            assert_eq!(asked(after), (1, interval), "after {after} seconds");
        }
        assert_eq!(asked(100), (0, 300), "too early");
        assert_eq!(asked(500), (1, 5), "it was up for a while");
        assert_eq!(asked(5), (1, 10));
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
        let mut receiver =
            watch(config, fixture.watcher.env.clone(), Gate::Open, Duration::from_millis(1), ReadAgain::default());
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
        let mut watcher =
            Watcher::new(Arc::new(load(&file, &env).unwrap()), env.clone(), Gate::Open, ReadAgain::default());
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
