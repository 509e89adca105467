//! Where learned types are kept: in a file beside the tool cache, and in the PostgreSQL of the runs where there is one.
//!
//! Without a database the file has everything. With one, the database has everything, `shared-types-….json` is a copy of it for the
//! next start, and the file has only what the database could not be given yet: it is taken out of the file once the database
//! has confirmed it. So nothing is lost, and what was learned before there was a database gets there by itself. What two gateways
//! with one file send at the same time is counted twice, which changes how many results a type is learned from and nothing else.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use toolgate_catalog::types::learned::{LearnedType, LearnedTypes};
use toolgate_config::Checked;
use toolgate_config::checked::RunStore;

use super::sharing::{ShareReply, ShareRequest, SharedChange, TypeSharing};
use super::{Knowledge, Task};

/// How long a database that failed is left alone.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// What was learned, in its places.
pub(super) struct KeptTypes {
    knowledge: Arc<Knowledge>,
    /// What is in no other place yet.
    fresh: LearnedTypes,
    file: TypeFile,
    shared: Option<SharedTypes>,
    /// Whether this gateway ends: the database is not asked any more.
    is_ending: bool,
}

impl KeptTypes {
    /// What the files of this configuration hold. The database is not asked yet.
    pub(super) fn open(config: &Checked, knowledge: Arc<Knowledge>, tasks: Weak<SyncSender<Task>>) -> Self {
        let path = |kind: &str| {
            let name = super::super::cache::file_name(&config.file).replacen("tools-", kind, 1);
            config.settings.cache.as_deref().map(|folder| folder.join(name))
        };
        let sharing = match &config.settings.runs.store {
            Some(RunStore::Postgres(url)) => start_sharing(url.as_str(), tasks),
            Some(RunStore::File(_) | RunStore::Folder(_)) | None => None,
        };
        let shared = sharing.map(|sharing| SharedTypes::new(sharing, path("shared-types-")));
        let (file, held) = TypeFile::open(path("learned-"));
        let mut kept = KeptTypes { knowledge, fresh: LearnedTypes::default(), file, shared, is_ending: false };
        kept.show_file(held);
        kept
    }

    /// Takes in a result that was read.
    pub(super) fn add(&mut self, backend: &str, tool: &str, seen: &LearnedType) {
        self.fresh.add(backend, tool, seen);
    }

    /// Takes in what was learned elsewhere.
    pub(super) fn merge(&mut self, types: &LearnedTypes) {
        self.fresh.merge(types);
    }

    /// Asks the database, if there is one, for what it has.
    pub(super) fn begin(&mut self) {
        self.share();
    }

    /// Writes what is new, drops what is left out, and takes over what others added; tells `done` then.
    pub(super) fn save(&mut self, done: Option<Sender<()>>) {
        match &mut self.shared {
            Some(shared) => {
                shared.waiting.extend(done);
                self.share();
            }
            None => {
                self.write_file();
                tell(done);
            }
        }
    }

    /// The same, unless there is nothing new: what others added is of no use at the end.
    pub(super) fn save_at_the_end(&mut self, done: Sender<()>) {
        let left_out = self.knowledge.left_out.read().clone();
        let is_shared = self.fresh.is_empty()
            && self.shared.as_ref().is_some_and(|shared| shared.is_idle() && left_out.is_subset(&shared.forgotten));
        if is_shared { tell([done]) } else { self.save(Some(done)) }
    }

    /// Writes to the file what the database has not confirmed.
    pub(super) fn keep(&mut self) {
        self.is_ending = true;
        let unconfirmed = self.shared.as_mut().and_then(|shared| shared.in_flight.take());
        if let Some(unconfirmed) = unconfirmed {
            self.fresh.merge(&unconfirmed.types.fresh);
        }
        self.write_file();
    }

    /// Begins to exchange with the database, unless that goes on already or failed a moment ago.
    fn share(&mut self) {
        let Some(shared) = self.shared.as_mut().filter(|shared| shared.in_flight.is_none()) else { return };
        let left_out = self.knowledge.left_out.read().clone();
        shared.leave_out(&left_out);
        if self.is_ending || shared.retry.is_some_and(|retry| Instant::now() < retry) {
            let waiting = std::mem::take(&mut shared.waiting);
            self.write_file();
            return tell(waiting);
        }
        let (mut fresh, in_file) = (std::mem::take(&mut self.fresh), self.file.load());
        fresh.forget(&left_out);
        let mut added = fresh.clone();
        added.merge(&in_file);
        added.forget(&left_out);
        if !shared.request(InFlightTypes { added: added.into(), fresh, in_file }, left_out) {
            self.finish_sharing(Err(toolgate_journal::store::StoreError::Unavailable(
                "its thread has ended".to_owned(),
            )));
        }
    }

    /// Takes the reply of the database.
    pub(super) fn finish_sharing(&mut self, reply: ShareReply) {
        let Some(shared) = &mut self.shared else { return };
        // None where the end did not wait for it.
        let Some(sent) = shared.in_flight.take() else { return };
        match reply {
            Ok(changed) => {
                shared.take_over(changed, sent.left_out);
                let taken_out = self.file.take_out();
                // Another gateway has added to the file meanwhile.
                if taken_out != sent.types.in_file {
                    self.fresh.merge(&taken_out);
                }
                self.show();
            }
            Err(error) => {
                if !std::mem::replace(&mut shared.has_failed, true) {
                    tracing::warn!(%error, "learned types are not shared with other replicas for now");
                }
                shared.retry = Some(Instant::now() + RETRY_INTERVAL);
                self.fresh.merge(&sent.types.fresh);
                self.write_file();
            }
        }
        tell(sent.done);
        if self.shared.as_ref().is_some_and(|shared| !shared.waiting.is_empty()) {
            self.share();
        }
    }

    /// Adds what is new to the file, drops what is left out, and takes over what others added.
    fn write_file(&mut self) {
        let left_out = self.knowledge.left_out.read().clone();
        if let Some(held) = self.file.exchange(&mut self.fresh, left_out) {
            self.show_file(held);
        }
    }

    /// Shows what the file holds, which is all there is where nothing is shared.
    fn show_file(&mut self, held: LearnedTypes) {
        if self.shared.is_some() {
            self.file.held = held;
            self.show();
        } else {
            self.knowledge.replace(held);
        }
    }

    /// Shows everything, wherever it is.
    fn show(&self) {
        let Some(shared) = &self.shared else { return };
        let mut all = shared.copy.clone();
        all.merge(&self.file.held);
        if let Some(sent) = &shared.in_flight {
            all.merge(&sent.types.fresh);
        }
        all.merge(&self.fresh);
        self.knowledge.replace(all);
    }
}

fn start_sharing(address: &str, tasks: Weak<SyncSender<Task>>) -> Option<TypeSharing> {
    let started = TypeSharing::start(address.to_owned(), tasks);
    started.inspect_err(|error| tracing::warn!(%error, "learned types are not shared with other replicas")).ok()
}

fn tell(done: impl IntoIterator<Item = Sender<()>>) {
    for done in done {
        // What asked may not wait any more.
        let _ = done.send(());
    }
}

/// The file that gateways with one folder share.
struct TypeFile {
    path: Option<PathBuf>,
    /// The file as this gateway last read or wrote it.
    read: Option<FileVersion>,
    /// What it holds, where that is not all there is.
    held: LearnedTypes,
    /// Backends of which the file holds nothing, because they are left out.
    forgotten: HashSet<String>,
    /// Whether the last attempt to write failed, which is told once.
    has_failed: bool,
}

impl TypeFile {
    fn open(path: Option<PathBuf>) -> (Self, LearnedTypes) {
        let read = path.as_deref().and_then(FileVersion::of);
        let held = path.as_deref().map(LearnedTypes::load).unwrap_or_default();
        let (forgotten, nothing) = (HashSet::new(), LearnedTypes::default());
        (TypeFile { path, read, held: nothing, forgotten, has_failed: false }, held)
    }

    /// Adds what is fresh, without what is left out; returns what it holds then, if that may have changed.
    fn exchange(&mut self, fresh: &mut LearnedTypes, left_out: HashSet<String>) -> Option<LearnedTypes> {
        let path = self.path.as_deref()?;
        let has_news = !fresh.is_empty() || !left_out.is_subset(&self.forgotten);
        if !has_news && FileVersion::of(path) == self.read {
            return None;
        }
        if !has_news {
            self.read = FileVersion::of(path);
            // A file that was removed, or is damaged, does not make known types unknown.
            return Some(LearnedTypes::load(path)).filter(|held| !held.is_empty());
        }
        match fresh.add_to_without(path, &left_out) {
            Ok(held) => {
                *fresh = LearnedTypes::default();
                self.forgotten = left_out;
                self.has_failed = false;
                // Another gateway may have replaced the file meanwhile: it is read once more.
                self.read = None;
                Some(held)
            }
            Err(error) => {
                self.tell_failure(&error);
                None
            }
        }
    }

    /// Everything that the file has.
    fn load(&mut self) -> LearnedTypes {
        let all = self.path.as_deref().map(LearnedTypes::load).unwrap_or_default();
        self.held = all.clone();
        all
    }

    /// Takes everything out of the file.
    fn take_out(&mut self) -> LearnedTypes {
        let Some(path) = self.path.as_deref().filter(|path| path.exists()) else {
            self.held = LearnedTypes::default();
            return LearnedTypes::default();
        };
        match LearnedTypes::take_out_of(path) {
            Ok(all) => {
                (self.read, self.held) = (None, LearnedTypes::default());
                all
            }
            Err(error) => {
                self.tell_failure(&error);
                LearnedTypes::default()
            }
        }
    }

    fn tell_failure(&mut self, error: &std::io::Error) {
        if let Some(path) = &self.path
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::warn!(path = %path.display(), %error, "the learned types cannot be written");
        }
    }
}

/// What the database has, as far as this gateway knows.
struct SharedTypes {
    sharing: TypeSharing,
    /// The file with the copy.
    path: Option<PathBuf>,
    copy: LearnedTypes,
    /// The edition of the copy; 0 where all of it is to be read.
    edition: u64,
    /// Backends that the copy is without.
    left_out: HashSet<String>,
    /// Backends of which the database has nothing, because they are left out.
    forgotten: HashSet<String>,
    in_flight: Option<InFlight>,
    /// To be told after the next exchange that begins.
    waiting: Vec<Sender<()>>,
    /// When the database is asked again after it failed.
    retry: Option<Instant>,
    /// Whether the last exchange failed, which is told once.
    has_failed: bool,
    /// Whether the copy could not be written, which is told once.
    is_copy_broken: bool,
}

/// What was sent to the database and not confirmed yet.
struct InFlight {
    types: InFlightTypes,
    left_out: HashSet<String>,
    done: Vec<Sender<()>>,
}

/// What is sent together.
struct InFlightTypes {
    /// All of it.
    added: Arc<LearnedTypes>,
    /// What is in no other place.
    fresh: LearnedTypes,
    /// What is in the file, and stays there until it is confirmed.
    in_file: LearnedTypes,
}

impl SharedTypes {
    fn new(sharing: TypeSharing, path: Option<PathBuf>) -> Self {
        let copy = path.as_deref().map(LearnedTypes::load).unwrap_or_default();
        SharedTypes {
            sharing,
            path,
            copy,
            edition: 0,
            left_out: HashSet::new(),
            forgotten: HashSet::new(),
            in_flight: None,
            waiting: Vec::new(),
            retry: None,
            has_failed: false,
            is_copy_broken: false,
        }
    }

    /// Whether nothing is on its way to the database.
    fn is_idle(&self) -> bool {
        self.in_flight.as_ref().is_none_or(|sent| sent.types.added.is_empty())
    }

    /// Sends what is new; `false` if that is not possible.
    fn request(&mut self, types: InFlightTypes, left_out: HashSet<String>) -> bool {
        let request = ShareRequest {
            added: Arc::clone(&types.added),
            forgotten: left_out.difference(&self.forgotten).cloned().collect(),
            since: self.edition,
        };
        self.in_flight = Some(InFlight { types, left_out, done: std::mem::take(&mut self.waiting) });
        self.sharing.request(request)
    }

    /// Drops these backends from the copy, also while the database is gone, and reads what it has of others anew.
    fn leave_out(&mut self, left_out: &HashSet<String>) {
        if *left_out == self.left_out {
            return;
        }
        self.left_out = left_out.clone();
        self.edition = 0;
        if self.copy.forget(left_out) {
            self.save_copy();
        }
    }

    fn take_over(&mut self, changed: SharedChange, left_out: HashSet<String>) {
        if std::mem::take(&mut self.has_failed) {
            tracing::info!("learned types are shared with other replicas again");
        }
        (self.retry, self.edition) = (None, changed.edition);
        let before = changed.is_whole.then(|| std::mem::take(&mut self.copy));
        for ((backend, tool), learned) in changed.types.into_iter().filter(|(tool, _)| !left_out.contains(&tool.0)) {
            self.copy.set(&backend, &tool, learned);
        }
        self.forgotten = left_out;
        if before.is_none_or(|before| before != self.copy) {
            self.save_copy();
        }
    }

    fn save_copy(&mut self) {
        let Some(path) = &self.path else { return };
        match self.copy.save(path) {
            Ok(()) => self.is_copy_broken = false,
            Err(error) => {
                if !std::mem::replace(&mut self.is_copy_broken, true) {
                    tracing::warn!(path = %path.display(), %error, "the copy of the shared learned types cannot be written");
                }
            }
        }
    }
}

/// Tells two versions of a file apart without reading them. Writers replace the file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileVersion {
    fn of(path: &Path) -> Option<Self> {
        let about = std::fs::metadata(path).ok()?;
        Some(FileVersion { inode: about.ino(), size: about.len(), modified: (about.mtime(), about.mtime_nsec()) })
    }
}
