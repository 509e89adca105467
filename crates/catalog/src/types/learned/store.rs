//! The learned types of many tools: in memory, in a file, and merged from others.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LearnError, LearnedType};
use crate::cache::replace_file;

/// Maximum number of tools of which a type is learned.
const MAX_TOOLS: usize = 5_000;
/// Maximum number of parts of all types. One takes up to 600 bytes of a file, so that a file which is written can be read.
const MAX_ALL_NODES: usize = 100_000;
/// Maximum size of a file of learned types, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// How long a writer waits for another one to finish with the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// How often it looks meanwhile.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);
/// The kind of the error of a file that holds no learned types.
const DAMAGED: io::ErrorKind = io::ErrorKind::InvalidData;
/// Version of the file.
const VERSION: u32 = 1;

/// The learned types of tools, by backend and tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LearnedTypes {
    types: BTreeMap<String, BTreeMap<String, LearnedType>>,
    /// The parts of all of them.
    nodes: usize,
}

/// What one more result changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// It is the first of its tool.
    First,
    /// It has the type that was known.
    Fits,
    /// The type is wider now.
    Widened,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    backends: BTreeMap<String, BTreeMap<String, Value>>,
}

impl LearnedTypes {
    /// Takes in a result, given as JSON text.
    ///
    /// # Errors
    /// If the text is not JSON.
    pub fn observe(&mut self, backend: &str, tool: &str, json: &str) -> Result<Learned, LearnError> {
        Ok(self.add(backend, tool, &LearnedType::of(json)?))
    }

    /// Takes in a result that was read already.
    pub fn add(&mut self, backend: &str, tool: &str, seen: &LearnedType) -> Learned {
        let before = self.get(backend, tool).filter(|known| known.results() > 0).cloned();
        let change = |known: &mut LearnedType| if before.is_some() { known.merge(seen) } else { *known = seen.clone() };
        let known = self.change(backend, tool, change);
        match (&before, known) {
            (_, None) => Learned::Fits,
            (None, Some(_)) => Learned::First,
            (Some(before), Some(known)) if known.is_same_type(before) => Learned::Fits,
            (Some(_), Some(_)) => Learned::Widened,
        }
    }

    /// Changes the type of a tool; one that would take all of them above their bound becomes `any`. `None` if there are too
    /// many tools.
    fn change(&mut self, backend: &str, tool: &str, change: impl FnOnce(&mut LearnedType)) -> Option<&LearnedType> {
        let before = self.get(backend, tool).map_or(0, LearnedType::nodes);
        let others = self.nodes.saturating_sub(before);
        let known = self.entry(backend, tool)?;
        change(known);
        if others.saturating_add(known.nodes()) > MAX_ALL_NODES {
            known.forget();
        }
        let nodes = others.saturating_add(known.nodes());
        self.nodes = nodes;
        self.get(backend, tool)
    }

    fn entry(&mut self, backend: &str, tool: &str) -> Option<&mut LearnedType> {
        let is_known = self.get(backend, tool).is_some();
        if !is_known && self.len() >= MAX_TOOLS {
            return None;
        }
        Some(self.types.entry(backend.to_owned()).or_default().entry(tool.to_owned()).or_default())
    }

    /// Replaces what was learned of a tool. Nothing happens where there are too many tools.
    pub fn set(&mut self, backend: &str, tool: &str, learned: LearnedType) {
        self.change(backend, tool, |known| *known = learned);
    }

    /// Every tool with what was learned of it.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &LearnedType)> {
        self.types
            .iter()
            .flat_map(|(backend, tools)| tools.iter().map(|(tool, learned)| (backend.as_str(), tool.as_str(), learned)))
    }

    /// Whether both say the same of the same tools. Numbers of results matter up to `enough` of them.
    pub fn is_same(&self, other: &Self, enough: u64) -> bool {
        let counted = |learned: &LearnedType| learned.results().min(enough);
        self.len() == other.len()
            && self.iter().zip(other.iter()).all(|((backend, tool, own), (its_backend, its_tool, its))| {
                (backend, tool) == (its_backend, its_tool) && counted(own) == counted(its) && own.is_same_type(its)
            })
    }

    /// What was learned of a tool.
    pub fn get(&self, backend: &str, tool: &str) -> Option<&LearnedType> {
        self.types.get(backend)?.get(tool)
    }

    /// The number of tools.
    pub fn len(&self) -> usize {
        self.types.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Drops what was learned of these backends. Says whether there was anything.
    pub fn forget(&mut self, backends: &HashSet<String>) -> bool {
        let before = self.types.len();
        self.types.retain(|backend, _| !backends.contains(backend));
        self.nodes = self.types.values().flat_map(BTreeMap::values).map(LearnedType::nodes).sum();
        self.types.len() < before
    }

    /// Takes in what was learned elsewhere.
    pub fn merge(&mut self, other: &Self) {
        for (backend, tools) in &other.types {
            for (tool, learned) in tools {
                self.change(backend, tool, |known| known.merge(learned));
            }
        }
    }

    /// Everything as JSON, for a file or another gateway.
    pub fn export(&self) -> Value {
        let exported = |tools: &BTreeMap<String, LearnedType>| {
            tools.iter().map(|(tool, learned)| (tool.clone(), learned.export())).collect()
        };
        let backends = self.types.iter().map(|(backend, tools)| (backend.clone(), exported(tools))).collect();
        serde_json::to_value(File { version: VERSION, backends }).unwrap_or_default()
    }

    /// Reads what was exported. The bounds of each type hold afterwards, whatever it says.
    ///
    /// # Errors
    /// If it is of another version, or damaged.
    pub fn import(exported: &Value) -> Result<Self, LearnError> {
        let version = exported.get("version").and_then(Value::as_u64).and_then(|version| u32::try_from(version).ok());
        if let Some(found) = version.filter(|&found| found != VERSION) {
            return Err(LearnError::Version { found });
        }
        let file = File::deserialize(exported).map_err(LearnError::Damaged)?;
        let mut types = Self::default();
        for (backend, tools) in &file.backends {
            for (tool, exported) in tools {
                let learned = LearnedType::import(exported)?;
                types.change(backend, tool, |known| *known = learned);
            }
        }
        Ok(types)
    }

    /// Reads a file. One that is not there is empty; one that cannot be used is empty too, with a warning.
    pub fn load(path: &Path) -> Self {
        Self::load_replaceable(path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "ignoring the learned types");
            Self::default()
        })
    }

    /// Reads a file that is to be replaced. One that is not there is empty; one that is damaged is empty too, with a warning.
    fn load_replaceable(path: &Path) -> io::Result<Self> {
        match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) if error.kind() == DAMAGED => {
                tracing::warn!(path = %path.display(), %error, "ignoring the learned types");
                Ok(Self::default())
            }
            result => result,
        }
    }

    /// Writes a file as a whole, with mode 0600.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        replace_file(path, &self.export())
    }

    /// Adds this to a file that other processes add to as well, and returns all that it holds then. A lock on a file beside
    /// it makes one writer wait for the other, so that neither loses what the other added.
    ///
    /// # Errors
    /// If the file cannot be read or written, is too large or of another version, or another process keeps it locked. It stays as
    /// it is then. A damaged file is replaced.
    pub fn add_to(&self, path: &Path) -> io::Result<Self> {
        self.add_to_without(path, &HashSet::new())
    }

    /// The same, and drops from the file what it holds of these backends.
    ///
    /// # Errors
    /// As those of [`add_to`](Self::add_to).
    pub fn add_to_without(&self, path: &Path, forgotten: &HashSet<String>) -> io::Result<Self> {
        let _locked = lock(path)?;
        let mut all = Self::load_replaceable(path)?;
        // Before the merge too: what is dropped leaves room for what is new.
        all.forget(forgotten);
        all.merge(self);
        all.forget(forgotten);
        all.save(path)?;
        Ok(all)
    }

    /// Takes everything out of a file that other processes add to: it is not there afterwards.
    ///
    /// # Errors
    /// As those of [`add_to`](Self::add_to).
    pub fn take_out_of(path: &Path) -> io::Result<Self> {
        let _locked = lock(path)?;
        let all = Self::load_replaceable(path)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(all),
        }
    }
}

/// Locks a file for writers. The lock ends with the returned file, also if the process is killed.
fn lock(path: &Path) -> io::Result<fs::File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let file = options.open(path.with_extension("lock"))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::Error(error)) => return Err(error),
            Err(fs::TryLockError::WouldBlock) if begun.elapsed() >= LOCK_TIMEOUT => {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "another process keeps the file locked"));
            }
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_INTERVAL),
        }
    }
}

fn read(path: &Path) -> io::Result<LearnedTypes> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("the file is too large"));
    }
    let exported: Value = serde_json::from_slice(&text).map_err(|error| io::Error::new(DAMAGED, error))?;
    LearnedTypes::import(&exported).map_err(|error| match error {
        LearnError::Version { .. } => io::Error::other(error),
        LearnError::Unreadable(_) | LearnError::Damaged(_) => io::Error::new(DAMAGED, error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_widen_a_type_and_say_so() {
        let mut types = LearnedTypes::default();
        assert_eq!(types.observe("b", "t", r#"{"a":1}"#).unwrap(), Learned::First);
        assert_eq!(types.observe("b", "t", r#"{"a":2}"#).unwrap(), Learned::Fits);
        assert_eq!(types.observe("b", "t", r#"{"a":null}"#).unwrap(), Learned::Widened);
        assert!(types.observe("b", "t", "{").is_err());
        assert_eq!(types.get("b", "t").unwrap().results(), 3);
    }

    #[test]
    fn a_new_key_widens_a_type_however_deep_it_is() {
        // So many keys that the printed type omits the one that changes.
        let record = |last: &str| {
            let inner = |n: usize| if n == 39 { last } else { r#"{"c":1}"# };
            let keys: Vec<String> =
                (0..40).map(|n| format!(r#""a_key_with_a_long_name_{n}":{{"b":{}}}"#, inner(n))).collect();
            format!("{{{}}}", keys.join(","))
        };
        let mut types = LearnedTypes::default();
        types.observe("b", "t", &record(r#"{"c":1}"#)).unwrap();
        let printed = types.get("b", "t").unwrap().typescript();
        assert_eq!(types.observe("b", "t", &record(r#"{"c":2.5}"#)).unwrap(), Learned::Fits);
        assert_eq!(types.observe("b", "t", &record(r#"{"c":1,"d":1}"#)).unwrap(), Learned::Widened);
        assert_eq!(types.get("b", "t").unwrap().typescript(), printed, "the printed type does not show it");
    }

    #[test]
    fn a_file_holds_shapes_and_no_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learned.json");
        let mut types = LearnedTypes::default();
        types.observe("b", "t", r#"[{"name":"canary-5f1d","token":"canary-77aa","id":90210}]"#).unwrap();
        types.save(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("canary") && !text.contains("90210") && text.contains("token"), "{text}");
        assert_eq!(LearnedTypes::load(&path), types);
        std::fs::write(&path, r#"{"version":9}"#).unwrap();
        assert!(LearnedTypes::load(&path).is_empty());
    }

    #[test]
    fn all_types_together_are_bounded_and_fit_into_a_file() {
        // The longest names, every kind of value and every format at each place.
        let values = r#"[null,true,1,2.5,"2026-01-01","2026-01-01T00:00:00Z","a@b.test","http://a.test","6fa459ea-ee8a-3ca4-894e-db77e160355e",[],{}]"#;
        let names = (0..60).map(|n| format!(r#""{}{n:02}":{values}"#, "k".repeat(38)));
        let record = format!("{{{}}}", names.collect::<Vec<_>>().join(","));
        let seen = LearnedType::of(&record).unwrap();
        assert!(seen.nodes() > 100 && seen.nodes() < super::super::MAX_NODES);
        let mut types = LearnedTypes::default();
        for number in 0..2 * MAX_ALL_NODES / seen.nodes() {
            types.add("b", &format!("t{number}"), &seen);
        }
        let counted =
            |types: &LearnedTypes| types.types.values().flatten().map(|(_, known)| known.nodes()).sum::<usize>();
        assert!(types.nodes <= MAX_ALL_NODES + types.len() && types.nodes == counted(&types), "{}", types.nodes);
        assert_eq!(types.get("b", "t0"), Some(&seen));
        let last = types.len() - 1;
        assert_eq!(types.get("b", &format!("t{last}")).unwrap().typescript(), "any");
        assert!((types.export().to_string().len() as u64) < MAX_FILE_BYTES / 2);
        let mut twice = types.clone();
        twice.merge(&types);
        assert!(twice.nodes <= MAX_ALL_NODES + twice.len() && twice.nodes == counted(&twice));
    }

    #[test]
    fn what_a_store_has_is_merged_and_bounded() {
        let one = LearnedType::of(r#"{"a":1}"#).unwrap();
        let text = LearnedType::of(r#"{"a":"x","b":1}"#).unwrap().added_to(Some(&one.added_to(None, 1 << 20)), 1 << 20);
        let both = LearnedType::read(&text).unwrap();
        assert_eq!((both.results(), both.typescript().as_str()), (2, "{ a: string | number; b?: number }"));
        // What is no type counts as none.
        for broken in ["", "[]", "{", r#"{"version":1,"results":1,"shape":{"canary":1}}"#, &"[".repeat(1 << 20)] {
            assert!(LearnedType::read(broken).is_err(), "{broken:.20}");
            assert_eq!(LearnedType::read(&one.added_to(Some(broken), 1 << 20)).unwrap(), one);
        }
        let large = LearnedType::read(&one.added_to(None, 60)).unwrap();
        assert_eq!((large.results(), large.typescript().as_str()), (1, "any"), "where there is no room it is any");
        // Keys of a store that are no names of fields are not shown.
        let keys = r#"{"version":1,"results":1,"shape":{"objects":1,"fields":{"canary 5f1d":{"present":1}}}}"#;
        assert!(!LearnedType::read(keys).unwrap().typescript().contains("canary"));
    }

    #[test]
    fn types_are_the_same_whatever_was_counted() {
        let seen = |results: u64, json: &str| {
            let mut types = LearnedTypes::default();
            (0..results).for_each(|_| drop(types.observe("b", "t", json)));
            types
        };
        assert!(seen(3, r#"{"a":1}"#).is_same(&seen(9, r#"{"a":2}"#), 3));
        assert!(!seen(2, r#"{"a":1}"#).is_same(&seen(3, r#"{"a":1}"#), 3), "the third result counts");
        assert!(!seen(3, r#"{"a":1}"#).is_same(&seen(3, r#"{"a":"x"}"#), 3));
        assert!(!seen(3, r#"{"a":1}"#).is_same(&LearnedTypes::default(), 3));
    }

    #[test]
    fn a_file_is_taken_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learned.json");
        assert!(LearnedTypes::take_out_of(&path).unwrap().is_empty());
        let mut types = LearnedTypes::default();
        types.observe("b", "t", r#"{"a":1}"#).unwrap();
        types.add_to(&path).unwrap();
        assert_eq!(LearnedTypes::take_out_of(&path).unwrap(), types);
        assert!(LearnedTypes::load(&path).is_empty() && !path.exists());
    }

    #[test]
    fn replicas_merge_what_they_learned() {
        let (mut one, mut two) = (LearnedTypes::default(), LearnedTypes::default());
        one.observe("b", "t", r#"{"a":1}"#).unwrap();
        two.observe("b", "t", r#"{"a":"x","b":1}"#).unwrap();
        let (mut first, mut second) = (one.clone(), two.clone());
        first.merge(&two);
        second.merge(&one);
        assert_eq!(first, second);
        assert_eq!(first.get("b", "t").unwrap().typescript(), "{ a: string | number; b?: number }");
    }

    /// Another process of this test: adds results of one backend, one by one.
    const WRITER: &str = "TOOLGATE_LEARNED_TYPES_WRITER";
    const ADDED: u64 = 40;

    #[test]
    fn processes_that_write_one_file_lose_nothing() {
        if let Some(path) = std::env::var_os(WRITER) {
            return add_results("b", Path::new(&path));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learned.json");
        let mut other = std::process::Command::new(std::env::current_exe().unwrap());
        other.args(["--exact", "types::learned::store::tests::processes_that_write_one_file_lose_nothing"]);
        let mut other = other.env(WRITER, &path).stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| add_results("b", &path));
            scope.spawn(|| add_results("b", &path));
        });
        assert!(other.wait().unwrap().success());
        assert_eq!(LearnedTypes::load(&path).get("b", "t").unwrap().results(), 3 * ADDED);
    }

    fn add_results(backend: &str, path: &Path) {
        for _ in 0..ADDED {
            let mut fresh = LearnedTypes::default();
            fresh.observe(backend, "t", r#"{"a":1}"#).unwrap();
            // On a busy machine the others may keep it longer than a writer waits: they are not done before.
            while let Err(error) = fresh.add_to(path) {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learned.json");
        let mut types = LearnedTypes::default();
        types.observe("b", "t", r#"{"a":1}"#).unwrap();
        let other_version = r#"{"version":9,"backends":{}}"#;
        fs::write(&path, other_version).unwrap();
        assert!(types.add_to(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), other_version);
        for damaged in ["", r#"{"version":1,"#, r#"{"version":1}"#, "[]"] {
            fs::write(&path, damaged).unwrap();
            types.add_to(&path).unwrap();
            assert_eq!(LearnedTypes::load(&path).get("b", "t").unwrap().results(), 1, "{damaged}");
        }
    }

    #[test]
    fn a_file_that_stays_locked_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learned.json");
        let locked = lock(&path).unwrap();
        assert_eq!(LearnedTypes::default().add_to(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(locked);
        assert!(LearnedTypes::default().add_to(&path).is_ok());
    }
}
