//! What a call counts for: in its run and in its day, when it is let through or while a person is asked about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use toolgate_policy::{PolicyDecision, Rule};

use super::{CallPolicy, Subject};
use crate::RequestContext;
use crate::day_counts::Today;

/// What a call that is let through was counted for.
#[derive(Debug)]
pub(crate) struct CountedCall {
    pub(super) path: Arc<str>,
    pub(super) rule: Option<Arc<Rule>>,
    /// The day, and what was counted on it.
    pub(super) day: Option<(u64, Vec<String>)>,
    /// Whether a person was asked about it, which may have taken hours.
    pub(crate) was_asked: bool,
}

impl CountedCall {
    /// A call that counts in its run.
    pub(super) fn in_run(subject: &Subject, decision: &PolicyDecision) -> Self {
        CountedCall { path: Arc::clone(&subject.path), rule: decision.rule.clone(), day: None, was_asked: false }
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.day.as_ref().map(|(_, names)| names.clone()).unwrap_or_default()
    }
}

/// Notes in a run that may begin again what is taken back then.
pub(super) fn note_counted(counted: &CountedCall, asked: &RequestContext) {
    if let (Some(watch), Some((day, names))) = (asked.run.as_ref().and_then(|run| run.watch()), &counted.day) {
        watch.counted(*day, names);
    }
}

/// Whether a call is counted.
pub(super) enum Counting {
    /// It is let through.
    Counted(CountedCall),
    /// It is denied, or a person is to be asked about it. With what was counted today.
    Waits(Option<Today>),
}

/// A call that a person is asked about. It counts while it waits, so that no more calls are asked about than a limit lets through.
pub(super) struct WaitingCall<'a> {
    policy: &'a CallPolicy,
    path: Arc<str>,
    pub(super) decision: &'a PolicyDecision,
    pub(super) asked: &'a RequestContext,
    /// Whether it counts in its run.
    pub(super) in_run: AtomicBool,
    /// What it will count for today.
    pub(super) names: Vec<String>,
}

impl<'a> WaitingCall<'a> {
    pub(super) fn new(
        policy: &'a CallPolicy,
        subject: &Subject,
        decision: &'a PolicyDecision,
        asked: &'a RequestContext,
        today: Option<Today>,
    ) -> Self {
        let names = today.map(|today| today.names_of(decision.rule.as_deref())).unwrap_or_default();
        let mut waiting = policy.waiting.lock();
        names.iter().for_each(|name| *waiting.entry(name.clone()).or_default() += 1);
        WaitingCall { policy, path: Arc::clone(&subject.path), decision, asked, in_run: AtomicBool::new(true), names }
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        let mut waiting = self.policy.waiting.lock();
        for name in &self.names {
            let left = waiting.get(name).copied().unwrap_or_default().saturating_sub(1);
            if left == 0 {
                waiting.remove(name);
            } else {
                waiting.insert(name.clone(), left);
            }
        }
        drop(waiting);
        if self.in_run.load(Ordering::Relaxed)
            && let Some(run) = &self.asked.run
        {
            run.usage.lock().take_back(&self.path, self.decision.rule.as_deref());
        }
    }
}
