//! Learns the types of results that tools do not declare, and notices results that break declared ones.
//!
//! A thread of its own reads the results: a call only hands over a copy of the text, and where too many wait, one is left
//! out. Only shapes are kept, never values. What was learned is in a file beside the tool cache, and in the PostgreSQL of the runs
//! where there is one; gateways that use the same file or database learn from each other, since each adds what is new to it
//! and reads it again.
//!
//! # Layout
//! - `kept`: the places of what was learned
//! - `sharing`: the thread that speaks to the database

mod kept;
mod sharing;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use toolgate_catalog::Catalog;
use toolgate_catalog::types::declares_result;
use toolgate_catalog::types::learned::{Learned, LearnedType, LearnedTypes};
use toolgate_config::Checked;
use toolgate_wire::foreign_text::one_line;

use toolgate_bridge::ResultObserver;
use toolgate_run::LearnedResults;

use kept::KeptTypes;
use sharing::ShareReply;

/// Longest result that is read, in bytes.
const MAX_RESULT: usize = 256 << 10;
/// Results that may wait to be read.
const MAX_WAITING: usize = 64;
/// Time between two writes of the file, and between two exchanges with the database.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);
/// How long the end of a gateway waits for the database.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Results of a tool that are all compared with its declared schema, and then one of so many.
const ALL_COMPARED: u64 = 8;
const ONE_COMPARED: u64 = 64;
/// Widened types that a listener may be behind.
const MAX_WIDENED_BEHIND: usize = 64;
/// Results after which a learned type says which keys there are.
const MIN_RESULTS: u64 = 3;

/// A tool of whose results the learned type has become wider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WidenedType {
    /// The backend.
    pub backend: String,
    /// The tool.
    pub tool: String,
    /// How many results it was learned from.
    pub results: u64,
}

enum Task {
    Result { backend: String, tool: String, json: String },
    Merge(Box<LearnedTypes>),
    Save(Sender<()>),
    SaveAtTheEnd(Sender<()>),
    Keep(Sender<()>),
    Shared(ShareReply),
}

/// What was learned so far.
struct Knowledge {
    /// Everything, as it is shown.
    all: RwLock<Arc<LearnedTypes>>,
    /// Changes whenever a type changes, or a tool breaks its schema.
    version: AtomicU64,
    /// Tools whose results broke their declared schema.
    broken: RwLock<HashSet<(String, String)>>,
    /// Backends that nothing is learned of, and of which nothing is in `all`. Locked before `all`.
    left_out: RwLock<HashSet<String>>,
    /// Tells of types that have become wider.
    widened: broadcast::Sender<WidenedType>,
}

impl Default for Knowledge {
    fn default() -> Self {
        Knowledge {
            all: RwLock::default(),
            version: AtomicU64::default(),
            broken: RwLock::default(),
            left_out: RwLock::default(),
            widened: broadcast::channel(MAX_WIDENED_BEHIND).0,
        }
    }
}

impl Knowledge {
    /// Learns nothing of these backends from now on, and forgets what was learned of them.
    fn leave_out(&self, backends: HashSet<String>) {
        let mut left_out = self.left_out.write();
        *left_out = backends;
        if Arc::make_mut(&mut *self.all.write()).forget(&left_out) {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Knows this from now on.
    fn replace(&self, mut all: LearnedTypes) {
        let left_out = self.left_out.read();
        all.forget(&left_out);
        // Compared before the lock, which runs wait for. No other thread changes what is known while `left_out` is locked.
        let is_same = Arc::clone(&self.all.read()).is_same(&all, MIN_RESULTS);
        *self.all.write() = Arc::new(all);
        if !is_same {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Learns from results. Dropping it ends the thread.
pub(crate) struct TypeLearning {
    knowledge: Arc<Knowledge>,
    /// The only strong reference that lasts: the thread ends with it.
    tasks: Arc<SyncSender<Task>>,
}

impl TypeLearning {
    /// Starts with what the files of this configuration hold; a database is asked in the background.
    pub(super) fn start(config: &Checked, catalog: watch::Receiver<Catalog>) -> std::io::Result<Self> {
        let knowledge = Arc::new(Knowledge::default());
        let (tasks, inbox) = sync_channel(MAX_WAITING);
        let learning = TypeLearning { knowledge: Arc::clone(&knowledge), tasks: Arc::new(tasks) };
        let kept = KeptTypes::open(config, Arc::clone(&knowledge), Arc::downgrade(&learning.tasks));
        learning.adopt(config);
        let learner = Learner { knowledge, catalog, kept, seen: HashMap::new() };
        std::thread::Builder::new().name("toolgate-learning".into()).spawn(move || learner.serve(&inbox))?;
        Ok(learning)
    }

    /// Follows a changed configuration.
    pub(super) fn adopt(&self, config: &Checked) {
        let unwanted = config.backends.iter().filter(|(_, backend)| !backend.policy.learn_types);
        self.knowledge.leave_out(unwanted.map(|(name, _)| name.to_string()).collect());
    }

    /// Hears of types that become wider from now on.
    pub(super) fn widened(&self) -> broadcast::Receiver<WidenedType> {
        self.knowledge.widened.subscribe()
    }

    /// Takes in what another gateway learned.
    pub(super) fn merge(&self, types: LearnedTypes) {
        let _ = self.tasks.send(Task::Merge(Box::new(types)));
    }

    /// Writes what is new, after everything that was observed before, and takes over what others wrote.
    pub(super) fn save(&self) {
        self.wait_for(Task::Save, SAVE_INTERVAL);
    }

    /// Writes what is new. What a database does not confirm in a moment is in the file then.
    pub(super) fn finish(&self) {
        self.wait_for(Task::SaveAtTheEnd, END_TIMEOUT);
        self.wait_for(Task::Keep, SAVE_INTERVAL);
    }

    fn wait_for(&self, task: impl FnOnce(Sender<()>) -> Task, within: Duration) {
        let (done, is_done) = channel();
        if self.tasks.send(task(done)).is_ok() {
            let _ = is_done.recv_timeout(within);
        }
    }
}

impl ResultObserver for TypeLearning {
    fn observe(&self, backend: &str, tool: &str, result: &str) {
        if result.len() > MAX_RESULT || self.knowledge.left_out.read().contains(backend) {
            return;
        }
        let task = Task::Result { backend: backend.to_owned(), tool: tool.to_owned(), json: result.to_owned() };
        let _ = self.tasks.try_send(task);
    }

    fn max_result(&self) -> usize {
        MAX_RESULT
    }
}

impl LearnedResults for TypeLearning {
    fn version(&self) -> u64 {
        self.knowledge.version.load(Ordering::Acquire)
    }

    fn result_type(&self, backend: &str, tool: &str) -> Option<LearnedType> {
        let all = self.knowledge.all.read();
        all.get(backend, tool).filter(|learned| learned.results() >= MIN_RESULTS).cloned()
    }

    fn types(&self) -> Arc<LearnedTypes> {
        Arc::clone(&self.knowledge.all.read())
    }

    fn breaks_its_schema(&self, backend: &str, tool: &str) -> bool {
        self.knowledge.broken.read().contains(&(backend.to_owned(), tool.to_owned()))
    }
}

/// The state of the thread.
struct Learner {
    knowledge: Arc<Knowledge>,
    catalog: watch::Receiver<Catalog>,
    kept: KeptTypes,
    /// Results of tools that declare theirs.
    seen: HashMap<(String, String), u64>,
}

impl Learner {
    fn serve(mut self, tasks: &Receiver<Task>) {
        self.kept.begin();
        let mut saved = Instant::now();
        loop {
            match tasks.recv_timeout(SAVE_INTERVAL) {
                Ok(Task::Result { backend, tool, json }) => self.learn(&backend, &tool, &json),
                Ok(Task::Merge(types)) => self.merge(*types),
                Ok(Task::Shared(reply)) => self.kept.finish_sharing(reply),
                Ok(Task::Save(done)) => self.kept.save(Some(done)),
                Ok(Task::SaveAtTheEnd(done)) => self.kept.save_at_the_end(done),
                Ok(Task::Keep(done)) => {
                    self.kept.keep();
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.kept.keep(),
            }
            if saved.elapsed() >= SAVE_INTERVAL {
                self.kept.save(None);
                saved = Instant::now();
            }
        }
    }

    fn merge(&mut self, mut types: LearnedTypes) {
        let left_out = self.knowledge.left_out.read();
        types.forget(&left_out);
        Arc::make_mut(&mut *self.knowledge.all.write()).merge(&types);
        self.kept.merge(&types);
        self.knowledge.version.fetch_add(1, Ordering::AcqRel);
    }

    fn learn(&mut self, backend: &str, tool: &str, json: &str) {
        let catalog = self.catalog.borrow().clone();
        let found = catalog.backend(backend).and_then(|backend| backend.tool(tool));
        if let Some(found) = found.filter(|found| found.tool().output_schema().is_some()) {
            self.compare(backend, tool, found.entry, json);
            if declares_result(found.tool()) {
                return;
            }
        }
        // A text that is no JSON teaches nothing.
        let Ok(seen) = LearnedType::of(json) else { return };
        let left_out = self.knowledge.left_out.read();
        // It may have been left out since the call.
        if left_out.contains(backend) {
            return;
        }
        let learned = Arc::make_mut(&mut *self.knowledge.all.write()).add(backend, tool, &seen);
        drop(left_out);
        self.kept.add(backend, tool, &seen);
        let results = self.knowledge.all.read().get(backend, tool).map_or(0, LearnedType::results);
        match learned {
            Learned::Widened => {
                self.knowledge.version.fetch_add(1, Ordering::AcqRel);
                tracing::info!(backend = %shown(backend), tool = %shown(tool), results, "a result widened a learned type");
                let widened = WidenedType { backend: backend.to_owned(), tool: tool.to_owned(), results };
                // Without a listener there is nothing to tell.
                let _ = self.knowledge.widened.send(widened);
            }
            // The third result is the first that says which keys there are.
            Learned::First | Learned::Fits => {
                if results <= MIN_RESULTS {
                    self.knowledge.version.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
    }

    /// Compares a result with its declared schema, and tells the first time that one breaks it.
    fn compare(&mut self, backend: &str, tool: &str, entry: &toolgate_catalog::ToolEntry, json: &str) {
        let key = (backend.to_owned(), tool.to_owned());
        let seen = self.seen.entry(key.clone()).or_default();
        *seen += 1;
        if *seen > ALL_COMPARED && !seen.is_multiple_of(ONE_COMPARED) {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(json) else { return };
        let Some(problem) = entry.check_result(&value).into_iter().next() else { return };
        if self.knowledge.broken.write().insert(key) {
            self.knowledge.version.fetch_add(1, Ordering::AcqRel);
            // The message may quote the result; the place and the rule are what is told.
            tracing::warn!(
                backend = %shown(backend), tool = %shown(tool), at = %shown(&problem.path),
                "a result does not fit the schema that its tool declares"
            );
        }
    }
}

fn shown(name: &str) -> String {
    one_line(name, 100)
}
