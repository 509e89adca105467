//! Answers that a person wants to give once: rules that stand for them.
//!
//! A remembered rule answers only the questions of the rule that it was given for, for the caller that it was given to. It
//! never wins over a rule that denies. Rules for one run and for one session are in memory; those for good are in a file,
//! which is read again when it has changed, so that a rule that is revoked elsewhere no longer holds here.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_journal::store::StoreError as StoreFault;
use toolgate_journal::unix_ms;
use toolgate_policy::condition::{Budget, Facts};
use toolgate_policy::{Action, Condition, Policy, PolicyCall, PolicyDecision, Rule, WrittenRule};

use super::AskedCall;

/// The most rules that are remembered; the oldest of a run or a session goes first.
const MAX_REMEMBERED: usize = 1_000;
/// The most approvals for runs of which it is known that they were revoked; the oldest goes first.
const MAX_REVOKED: usize = 1_000;
/// The most bytes of the file.
const MAX_FILE: u64 = 4 << 20;

/// How long a writer waits for another one, and between two attempts.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// For how long an approval stands for later calls of the same tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remember {
    /// For the other calls of this run, by its name.
    Run(String),
    /// For the calls of this caller until the gateway ends.
    Session,
    /// For good, for calls of which this condition holds; without one, for calls with the same arguments.
    Always {
        /// A condition in CEL over `args`.
        when: Option<String>,
    },
}

impl Remember {
    /// Whether an approval of a call with these arguments can be remembered so.
    ///
    /// # Errors
    /// If its condition is not valid CEL, or reads counts; without one, if none can be made of the arguments.
    pub fn check(&self, arguments: &str) -> Result<(), RememberError> {
        match self {
            Remember::Always { when: Some(when) } => check_condition(when),
            Remember::Always { when: None } => check_condition(&same_arguments(arguments)?),
            Remember::Run(_) | Remember::Session => Ok(()),
        }
    }
}

/// A rule that stands for a person's approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RememberedRule {
    /// Its name, by which it is revoked.
    pub id: String,
    /// The caller whose calls it allows.
    pub caller: String,
    /// The run whose calls it allows; every run when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Whether it stays when the gateway ends.
    pub for_good: bool,
    /// What the rule that asked is about.
    pub asked_by: String,
    /// The tool, and the condition on its arguments.
    pub rule: WrittenRule,
}

/// Why an approval cannot be remembered, or a rule not be revoked.
#[derive(Debug, thiserror::Error)]
pub enum RememberError {
    /// The condition is none.
    #[error("the condition cannot be used: {0}")]
    Condition(String),
    /// The policy has changed: the rule that asked is gone.
    #[error("the rule that asked is no longer in force")]
    NoSuchRule,
    /// There is no such rule.
    #[error("no remembered rule is named {0}")]
    Unknown(String),
    /// There are too many.
    #[error("{MAX_REMEMBERED} rules are remembered already; revoke some")]
    TooMany,
    /// There is no file for rules that stay.
    #[error("there is no folder for remembered rules: set HOME")]
    NoFile,
    /// The file cannot be read or written.
    #[error("the file of remembered rules: {0}")]
    File(#[from] std::io::Error),
    /// The decisions of a run cannot be read or written.
    #[error("it is revoked in this process, and not in the store of the run: {0}")]
    Store(#[from] StoreFault),
}

/// The rules that are remembered. Those of the file are read when they are needed.
#[derive(Debug, Default)]
pub struct RememberedRules {
    file: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Of runs and sessions.
    short: Vec<RememberedRule>,
    /// Of the file, and when it was read.
    kept: Vec<RememberedRule>,
    read_at: Option<(SystemTime, u64)>,
    /// Their decisions are kept with a run, and would be remembered again when the run goes on.
    revoked: VecDeque<RevokedApproval>,
}

#[derive(Debug)]
struct RevokedApproval {
    /// The run; `None` for one of a session.
    run: Option<String>,
    asked_by: String,
    tool: String,
    /// In milliseconds since 1970. Later decisions are others.
    at: u64,
}

impl RememberedRules {
    /// Those of a file, which need not exist; without a file none are remembered for good.
    pub fn new(file: Option<PathBuf>) -> Self {
        RememberedRules { file, state: Mutex::default() }
    }

    /// Remembers that a call like this one is approved for a caller.
    ///
    /// # Errors
    /// If the rule that asked is gone, the condition is none, or the file cannot be written.
    pub fn remember(
        &self,
        policy: &Policy,
        caller: &str,
        call: &AskedCall,
        remember: &Remember,
    ) -> Result<RememberedRule, RememberError> {
        // By what the rule is about: another rule may have its place in the list by now. A question without a key was kept
        // by an earlier version, and nothing tells which rule asked it.
        let asked_by = match (&call.rule, &call.rule_key) {
            (Some(_), key) => key.clone().filter(|key| policy.rules().iter().any(|rule| rule.approval_key() == *key)),
            (None, _) => Some(String::new()),
        };
        let when = match remember {
            Remember::Run(_) | Remember::Session => None,
            Remember::Always { when: Some(when) } => Some(when.clone()),
            Remember::Always { when: None } => Some(same_arguments(&call.arguments)?),
        };
        if let Some(when) = &when {
            check_condition(when)?;
        }
        let rule = WrittenRule { when, ..WrittenRule::new(call.target.to_string(), Action::Allow) };
        let made = RememberedRule {
            id: new_id(),
            caller: caller.to_owned(),
            run: match remember {
                Remember::Run(run) => Some(run.clone()),
                Remember::Session | Remember::Always { .. } => None,
            },
            for_good: matches!(remember, Remember::Always { .. }),
            asked_by: asked_by.ok_or(RememberError::NoSuchRule)?,
            rule,
        };
        // Before the state, which every question needs: another process may hold the file for some seconds.
        let _locked = match (made.for_good, self.file.as_deref()) {
            (true, Some(file)) => Some(lock(file)?),
            _ => None,
        };
        let mut state = self.state.lock();
        let is_same = |known: &&RememberedRule| {
            (&known.caller, &known.run, &known.asked_by, &known.rule)
                == (&made.caller, &made.run, &made.asked_by, &made.rule)
        };
        if let Some(known) = state.short.iter().find(is_same).filter(|_| !made.for_good) {
            return Ok(known.clone());
        }
        if made.for_good {
            let file = self.file.as_deref().ok_or(RememberError::NoFile)?;
            let mut kept = read(file)?;
            if kept.len() >= MAX_REMEMBERED {
                return Err(RememberError::TooMany);
            }
            kept.push(made.clone());
            write(file, &kept)?;
            (state.kept, state.read_at) = (kept, modified(file));
        } else {
            if state.short.len() >= MAX_REMEMBERED {
                state.short.remove(0);
            }
            state.short.push(made.clone());
        }
        Ok(made)
    }

    /// All of them; those for good first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn list(&self) -> Result<Vec<RememberedRule>, RememberError> {
        let kept = self.file.as_deref().map_or_else(|| Ok(Vec::new()), read)?;
        Ok(kept.into_iter().chain(self.state.lock().short.iter().cloned()).collect())
    }

    /// Takes a rule back. One of a run is also in the run's decisions: see `Runner::forget_approval`.
    ///
    /// # Errors
    /// If there is none of that name, or the file cannot be written.
    pub fn revoke(&self, id: &str) -> Result<(), RememberError> {
        self.remove(id).map(drop)
    }

    /// The same; gives the rule that held so far.
    pub(crate) fn remove(&self, id: &str) -> Result<RememberedRule, RememberError> {
        if let Some(gone) = self.remove_short(id) {
            return Ok(gone);
        }
        let file = self.file.as_deref().ok_or_else(|| RememberError::Unknown(id.to_owned()))?;
        let _locked = lock(file)?;
        let mut kept = read(file)?;
        let place = kept.iter().position(|rule| rule.id == id);
        let gone = kept.remove(place.ok_or_else(|| RememberError::Unknown(id.to_owned()))?);
        write(file, &kept)?;
        let mut state = self.state.lock();
        (state.kept, state.read_at) = (kept, modified(file));
        Ok(gone)
    }

    /// Takes back one for a run or a session.
    fn remove_short(&self, id: &str) -> Option<RememberedRule> {
        let mut state = self.state.lock();
        let place = state.short.iter().position(|rule| rule.id == id)?;
        let gone = state.short.remove(place);
        let (run, asked_by, tool) = (gone.run.clone(), gone.asked_by.clone(), gone.rule.tool.clone());
        state.revoked.push_back(RevokedApproval { run, asked_by, tool, at: unix_ms() });
        if state.revoked.len() > MAX_REVOKED {
            state.revoked.pop_front();
        }
        Some(gone)
    }

    /// Whether an approval that was given at `decided_at` was revoked since. With `run` it is one for the rest of that run,
    /// without it one for the session.
    pub fn is_revoked(&self, run: Option<&str>, call: &AskedCall, decided_at: u64) -> bool {
        let asked_by = call.rule_key.as_deref().unwrap_or_default();
        let tool = call.target.to_string();
        self.state.lock().revoked.iter().any(|revoked| {
            (revoked.run.as_deref(), revoked.asked_by.as_str(), &revoked.tool) == (run, asked_by, &tool)
                && decided_at <= revoked.at
        })
    }

    /// The remembered rule that answers a question; none where the file cannot be read.
    pub(crate) fn answer(&self, call: &PolicyCall<'_>, decision: &PolicyDecision, run: Option<&str>) -> Option<String> {
        let asked_by = decision.rule.as_ref().map(|rule| rule.approval_key()).unwrap_or_default();
        self.answer_to(call, &asked_by, run)
    }

    /// The same for a question of the rule with this key, empty where none asked.
    pub(crate) fn answer_to(&self, call: &PolicyCall<'_>, asked_by: &str, run: Option<&str>) -> Option<String> {
        let mut state = self.state.lock();
        if let Some(file) = self.file.as_deref() {
            let modified = modified(file);
            if modified != state.read_at {
                state.kept = read(file).unwrap_or_default();
                state.read_at = modified;
            }
        }
        let fits = |remembered: &&RememberedRule| {
            remembered.asked_by == asked_by
                && remembered.caller == call.caller
                && remembered.run.as_deref().is_none_or(|of| run == Some(of))
                // Before its condition, which takes a thread to parse.
                && call.paths.first() == Some(&remembered.rule.tool.as_str())
                && remembered.rule.check("remembered").is_ok_and(|rule| holds(&rule, call))
        };
        state.short.iter().chain(&state.kept).find(fits).map(|rule| rule.id.clone())
    }
}

/// A condition that fails does not hold: the person is asked again.
fn holds(rule: &Rule, call: &PolicyCall<'_>) -> bool {
    let facts = Facts {
        args: call.args,
        caller: call.caller,
        profile: call.profile,
        backend: call.backend,
        tool: call.tool,
        traits: call.traits,
        in_run: 0,
        in_day: 0,
    };
    rule.when.as_ref().is_none_or(|when| !when.reads_counts() && when.holds(&facts, &mut Budget::default()) == Ok(true))
}

/// A condition on arguments. One that reads counts would hold for any number of calls: a remembered rule counts none.
fn check_condition(when: &str) -> Result<(), RememberError> {
    let condition = Condition::parse(when).map_err(|fault| RememberError::Condition(fault.to_string()))?;
    match condition.reads_counts() {
        true => Err(RememberError::Condition("it reads counts, and calls that it allows are not counted".to_owned())),
        false => Ok(()),
    }
}

/// A condition that holds for these arguments only. JSON is CEL, numbers with an exponent and long texts aside.
fn same_arguments(arguments: &str) -> Result<String, RememberError> {
    let value: Value = serde_json::from_str(arguments).map_err(|error| RememberError::Condition(error.to_string()))?;
    Ok(format!("args == {value}"))
}

fn new_id() -> String {
    let mut bytes = [0; 6];
    // Without random numbers a rule still has a name, if not one of its own.
    let _ = getrandom::fill(&mut bytes);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("remembered-{digits}")
}

/// Changes when the file does: its time alone may be too coarse.
fn modified(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(file: &Path) -> Result<Vec<RememberedRule>, RememberError> {
    match std::fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(metadata) if metadata.len() > MAX_FILE => {
            return Err(std::io::Error::other("it is larger than 4 MB").into());
        }
        _ => {}
    }
    let text = std::fs::read_to_string(file)?;
    serde_json::from_str(&text).map_err(|error| std::io::Error::other(error).into())
}

/// Held while the file is read and written anew: otherwise a rule that another process revokes meanwhile would be written back.
fn lock(file: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let locked = options.open(file.with_extension("lock"))?;
    let begun = Instant::now();
    loop {
        match locked.try_lock() {
            Ok(()) => return Ok(locked),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= LOCK_TIMEOUT => {
                return Err(std::io::Error::other("another process keeps it locked"));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_INTERVAL),
        }
    }
}

/// Replaces the file as a whole; only its owner can read it, since conditions hold arguments.
fn write(file: &Path, rules: &[RememberedRule]) -> Result<(), RememberError> {
    use std::io::Write as _;
    let text = serde_json::to_string_pretty(rules).map_err(std::io::Error::other)?;
    let beside = file.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut written = options.open(&beside)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    std::fs::rename(&beside, file)?;
    Ok(())
}
