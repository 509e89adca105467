//! A new run that keeps the first calls of a recorded one and goes on from there: `toolgate fork`.
//!
//! The new run has the program, the caller and the limits of the recorded one. Calls that it keeps are not made again; whatever
//! its program calls after them is made, with idempotency keys of the new run, also where the recorded run had made it.

use std::collections::{HashMap, HashSet};

use toolgate_journal::entry::Event;
use toolgate_journal::fork::{Fork, fork};
use toolgate_journal::recording::Record;
use toolgate_wire::CallerScope;

use super::callers::GrantedScope;
use super::ends::NextEnd;
use super::kept_effects::{Called, answered_by, called};
use super::stored::StoredRequest;
use super::{DurableError, DurableRuns, Inner, RunReport};
use crate::execution_id;

/// A run that was forked, and goes on.
pub struct ForkedRun {
    /// Its id.
    pub run: String,
    /// Calls of the recorded run that may have taken effect and are not kept: the new run makes them again if its program
    /// comes to them.
    pub left_out: usize,
    end: NextEnd,
}

impl DurableRuns {
    /// Begins a run that keeps the first `answered` answered calls of a run of this caller, or of anybody when absent. Where a
    /// token says what the caller may use, it is what this one says now.
    ///
    /// # Errors
    /// If there is no such run, it has not so many answered calls, or the store cannot keep the new one.
    pub async fn fork(
        &self,
        run: &str,
        caller: Option<&CallerScope>,
        answered: usize,
    ) -> Result<ForkedRun, DurableError> {
        let inner = &self.0;
        if inner.stop.is_cancelled() {
            return Err(DurableError::Stopping);
        }
        let row = self.own(run, caller.map(|caller| caller.name.as_str())).await?;
        let id = execution_id();
        let (recorded, _permit) = inner.read(&row).await?;
        let Fork { mut record, left_out } = fork(&recorded, &id, answered)?;
        let left_out = inner.made_again(&recorded, &record, &left_out).await;
        as_asked_by(&mut record, caller);
        let end = inner.ends.next_of(&id);
        let taken = inner.journal.begin_from(record).await?;
        if inner.has_room_for(&row.caller) {
            inner.resume(taken);
        } else {
            // It has its turn when another one has ended, here or elsewhere.
            inner.release(&taken.run).await;
            inner.due.notify_one();
        }
        Ok(ForkedRun { run: id, left_out, end })
    }

    /// Waits until a forked run has ended or is paused. The run goes on when the future is dropped.
    pub async fn end_of_fork(&self, forked: ForkedRun) -> RunReport {
        self.end_of(&forked.run, forked.end).await
    }
}

impl Inner {
    /// How many of the calls that a fork does not keep it would make again: a fork of a correction gets the answers of the runs before
    /// it as the correction did.
    async fn made_again(&self, recorded: &Record, fork: &Record, left_out: &[u32]) -> usize {
        let stored = fork.header().and_then(|header| fork.blobs.text(header.request.as_ref()?).ok());
        let stored = stored.and_then(|text| serde_json::from_str::<StoredRequest>(text).ok());
        let Some((mut stored, fixed)) = stored.and_then(|it| it.fixes.clone().map(|fixed| (it, fixed))) else {
            return left_out.len();
        };
        let kept = match stored.take_carried() {
            Some(carried) => carried,
            None => match self.effects_of(&fixed).await {
                Ok(kept) => kept,
                Err(_) => return left_out.len(),
            },
        };
        kept.without(fork, &self.runner.bridge);
        let left_out: HashSet<u32> = left_out.iter().copied().collect();
        let answered = |record: &Record| -> HashSet<u32> {
            record.entries.iter().filter_map(|entry| answered_by(&entry.event)).collect()
        };
        let (before, after) = (answered(recorded), answered(fork));
        // A call that an earlier run answered was not sent, and takes that answer again.
        let is_made = |id: &u32| left_out.contains(id) || (before.contains(id) && !after.contains(id));
        let mut made: HashMap<Called, usize> = HashMap::new();
        for entry in &recorded.entries {
            if let Event::Call(call) = &entry.event
                && !call.read_only
                && is_made(&call.id)
            {
                let args = recorded.blobs.text(&call.args).unwrap_or_default();
                *made.entry(called(&self.runner.bridge, &(&call.target).into(), args)).or_default() += 1;
            }
        }
        made.iter().map(|(called, count)| count.saturating_sub(kept.answers(called))).sum()
    }
}

/// The end of the new run is not the one that the webhook's owner waits for, and an earlier token grants nothing to it.
fn as_asked_by(record: &mut Record, caller: Option<&CallerScope>) {
    let Record { entries, blobs } = record;
    let Some(Event::Header(header)) = entries.first_mut().map(|entry| &mut entry.event) else { return };
    let stored = header.request.as_ref().and_then(|text| blobs.text(text).ok());
    let stored = stored.and_then(|text| serde_json::from_str::<StoredRequest>(text).ok());
    let Some(mut stored) = stored.filter(|stored| stored.webhook.is_some() || stored.granted.is_some()) else { return };
    stored.webhook = None;
    stored.granted = stored.granted.map(|granted| caller.map_or(granted, GrantedScope::of));
    if let Ok(text) = serde_json::to_string(&stored) {
        header.request = Some(blobs.keep(&text).0);
    }
}
