//! A corrected program that keeps what an earlier run has done: `fix_run`.
//!
//! A call that the earlier run made, with the same arguments, gets the answer that it got then, and nothing is sent. The order of
//! members does not count, nor does the spelling of a name that the catalog knows. As
//! long as effects of the earlier run have not been called again, nothing new that may have an effect is sent: a program that
//! no longer matches is told so first. A call whose effect is unknown is not repeated.
//!
//! The earlier run may be a correction itself. What the runs before it did, and it has not called again, is kept too: the record
//! of a corrected run has only the calls that its own program made. So a correction is stored with what it keeps, as long as that is
//! not much, and only its own record is read when it is corrected in turn; of others the records before it are read as well.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use toolgate_engine::host::Target;
use toolgate_engine::{Host, HostCall, HostError, HostFuture, HostLayer};
use toolgate_journal::entry::{Event, ReplyBody};
use toolgate_journal::recording::Record;
use toolgate_journal::store::StoreError;
use toolgate_wire::foreign_text::clipped;
use toolgate_wire::{CallErrorCode, CallId, CallState, Warning};

use super::schemas::data;
use super::stored::StoredRequest;
use super::unsettled::own_names;
use super::{DurableError, Inner};
use crate::failed_runs::CorrectionTurn;
use crate::noted_calls::NotedCall;
use crate::request::RunReport;
use toolgate_bridge::Bridge;

/// How long a new effect waits for the program to call what was done before.
const KEPT_CALLS_TIMEOUT: Duration = Duration::from_secs(1);
/// Corrections of corrections that are followed back where what they keep is not stored with them: each one reads a record.
const MAX_CORRECTIONS: usize = 100;
/// Bytes of what a correction keeps that are stored with it.
const MAX_CARRIED_BYTES: usize = 1 << 20;
/// Effects that a message names.
const MAX_NAMED: usize = 5;

/// What a call invoked, by the names that its backend itself uses, and with which arguments (JSON text, members in the order of
/// their names).
pub(super) type Called = (Target, String);

pub(super) fn called(bridge: &Bridge, target: &Target, args: &str) -> Called {
    (own_names(bridge, target), in_order(args))
}

/// JSON text with the members of its objects in the order of their names.
fn in_order(text: &str) -> String {
    serde_json::from_str::<Value>(text).map_or_else(|_| text.to_owned(), |value| data(&value).to_string())
}

/// The effects of an earlier run.
pub struct KeptEffects {
    /// The earlier run.
    run: String,
    state: Mutex<KeptState>,
    changed: Notify,
    /// Where the earlier run has no record: how it is corrected.
    in_memory: Option<InMemory>,
}

/// How a run that is known to this process alone is corrected.
struct InMemory {
    /// Keeps other corrections away.
    turn: Mutex<Option<CorrectionTurn>>,
    /// The first durable run that corrected it.
    correction: Option<String>,
}

#[derive(Default)]
struct KeptState {
    /// Answers of calls that took effect, in their order.
    effects: HashMap<Called, VecDeque<String>>,
    /// Answers of calls that only read.
    reads: HashMap<Called, VecDeque<String>>,
    /// Calls of which it is unknown whether they took effect.
    unknown: Vec<Called>,
    left: usize,
    /// Answers for calls that are being made.
    reserved: HashMap<CallId, (Called, String)>,
}

impl KeptState {
    /// Bytes of the arguments and answers.
    fn bytes(&self) -> usize {
        let answered = self.effects.iter().chain(&self.reads);
        let answered = answered.flat_map(|((_, args), answers)| answers.iter().map(|it| args.len() + it.len()));
        answered
            .chain(self.unknown.iter().map(|(_, args)| args.len()))
            .map(|bytes| bytes + size_of::<NotedCall>())
            .sum()
    }
}

impl KeptEffects {
    /// What is known of the calls of a record.
    fn of(run: &str, record: &Record, bridge: &Bridge) -> Self {
        let mut made: HashMap<u32, (Called, bool)> = HashMap::new();
        let mut sent: Vec<u32> = Vec::new();
        // By the numbers of their calls: equal calls are answered in the order in which they were made.
        let mut answered: BTreeMap<u32, (Called, bool, String)> = BTreeMap::new();
        let mut state = KeptState::default();
        for entry in &record.entries {
            match &entry.event {
                Event::Call(call) => {
                    let args = record.blobs.text(&call.args).unwrap_or_default();
                    made.insert(call.id, (called(bridge, &(&call.target).into(), args), call.read_only));
                }
                Event::Intent { id, .. } => sent.push(*id),
                Event::Asked { id, .. } => sent.retain(|known| known != id),
                // An effect's answer is kept before it is delivered; a read's is only delivered.
                Event::Answered(reply) | Event::Reply(reply) => {
                    sent.retain(|known| *known != reply.id);
                    let Some((called, is_read)) = made.remove(&reply.id) else { continue };
                    let text = record.blobs.text(reply.body.text()).unwrap_or_default().to_owned();
                    match (&reply.body, reply.state, is_read) {
                        (ReplyBody::Value(_), ..) => drop(answered.insert(reply.id, (called, is_read, text))),
                        (ReplyBody::Error(_), CallState::Unknown, false) => state.unknown.push(called),
                        // What failed or was not sent may be tried again.
                        (ReplyBody::Error(_), ..) => {}
                    }
                }
                _ => {}
            }
        }
        for (called, is_read, text) in answered.into_values() {
            let answers = if is_read { &mut state.reads } else { &mut state.effects };
            answers.entry(called).or_default().push_back(text);
            state.left += usize::from(!is_read);
        }
        state.unknown.extend(sent.iter().filter_map(|id| made.remove(id)).map(|(called, _)| called));
        KeptEffects { run: run.to_owned(), state: Mutex::new(state), changed: Notify::new(), in_memory: None }
    }

    /// What is known of the calls of a run that has no record. They have the names that backends themselves use.
    pub(crate) fn noted(run: &str, calls: &[NotedCall]) -> Self {
        let mut state = KeptState::default();
        for NotedCall { target, args, is_read, answer } in calls {
            let called = (target.clone(), in_order(args));
            match (answer, is_read) {
                (Some(answer), true) => state.reads.entry(called).or_default().push_back(answer.clone()),
                (Some(answer), false) => {
                    state.effects.entry(called).or_default().push_back(answer.clone());
                    state.left += 1;
                }
                (None, true) => {}
                (None, false) => state.unknown.push(called),
            }
        }
        KeptEffects { run: run.to_owned(), state: Mutex::new(state), changed: Notify::new(), in_memory: None }
    }

    /// The same for a run that is known to this process alone, with the turn of a volatile correction, or the first durable one.
    pub(crate) fn in_memory(
        run: &str,
        calls: &[NotedCall],
        turn: Option<CorrectionTurn>,
        correction: Option<String>,
    ) -> Self {
        let kept = KeptEffects::noted(run, calls);
        KeptEffects { in_memory: Some(InMemory { turn: Mutex::new(turn), correction }), ..kept }
    }

    /// What is stored with a durable correction: all that is kept. `None` where that is much and can be read from records.
    pub(super) fn carried(&self) -> Option<Vec<NotedCall>> {
        let bytes = self.state.lock().bytes();
        (self.in_memory.is_some() || bytes <= MAX_CARRIED_BYTES).then(|| self.left())
    }

    /// Ends the turn of a volatile correction: the correction is a durable run.
    pub(super) fn end_turn(&self) {
        let turn = self.in_memory.as_ref().and_then(|it| it.turn.lock().take());
        drop(turn);
    }

    /// Whether the earlier run is known to this process alone.
    pub(super) fn is_in_memory(&self) -> bool {
        self.in_memory.is_some()
    }

    /// The first durable run that corrected the earlier one, where that is known to this process alone.
    pub(super) fn correction(&self) -> Option<&str> {
        self.in_memory.as_ref()?.correction.as_deref()
    }

    /// What has not been called again, as calls. What was read counts as long as there is an effect among them.
    pub(crate) fn left(&self) -> Vec<NotedCall> {
        let state = self.state.lock();
        let call = |(target, args): &Called, is_read: bool, answer: Option<&String>| NotedCall {
            target: target.clone(),
            args: args.clone(),
            is_read,
            answer: answer.cloned(),
        };
        let reads = state.reads.iter().filter(|_| state.left > 0).map(|it| (it, true));
        let answered = state.effects.iter().map(|it| (it, false)).chain(reads);
        let answered = answered.flat_map(|((called, answers), is_read)| {
            answers.iter().map(move |answer| call(called, is_read, Some(answer)))
        });
        answered.chain(state.unknown.iter().map(|called| call(called, false, None))).collect()
    }

    /// The effects after a run that corrected this one: its own, and those of this one that it has not called again.
    fn corrected_by(&self, run: &str, record: &Record, bridge: &Bridge) -> Self {
        self.without(record, bridge);
        let (mut kept, before) = (KeptEffects::of(run, record, bridge), std::mem::take(&mut *self.state.lock()));
        let state = kept.state.get_mut();
        // A call that was being answered from what is kept when the record ended was never sent.
        let mut answerable: HashMap<&Called, usize> =
            before.effects.iter().map(|(called, answers)| (called, answers.len())).collect();
        state.unknown.retain(|called| match answerable.get_mut(called) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        });
        state.unknown.extend(before.unknown);
        state.left += before.left;
        for (called, answers) in before.effects {
            state.effects.entry(called).or_default().extend(answers);
        }
        if before.left > 0 {
            for (called, answers) in before.reads {
                state.reads.entry(called).or_default().extend(answers);
            }
        }
        kept
    }

    /// The run whose effects these are.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Takes out what a run that goes on from its own record has called already. A call without an answer is not: it is made
    /// again, and finds its answer here.
    pub(super) fn without(&self, record: &Record, bridge: &Bridge) {
        let answered: HashSet<u32> = record.entries.iter().filter_map(|entry| answered_by(&entry.event)).collect();
        for entry in &record.entries {
            match &entry.event {
                Event::Call(call) if answered.contains(&call.id) => {
                    let args = record.blobs.text(&call.args).unwrap_or_default();
                    let _ = self.take(&called(bridge, &(&call.target).into(), args), call.read_only);
                }
                _ => {}
            }
        }
    }

    /// How many calls like this one would be answered without being sent.
    pub(super) fn answers(&self, called: &Called) -> usize {
        self.state.lock().effects.get(called).map_or(0, VecDeque::len)
    }

    /// Keeps the answer of the earlier run for a call that is about to be made and may have an effect, if there is one.
    pub(super) fn reserve(&self, call: CallId, called: &Called) -> bool {
        let answer = self.take(called, false);
        let is_answered = answer.is_some();
        self.state.lock().reserved.extend(answer.map(|answer| (call, (called.clone(), answer))));
        is_answered
    }

    /// The answer of the earlier run to this call.
    fn take(&self, called: &Called, is_read: bool) -> Option<String> {
        let mut state = self.state.lock();
        if is_read {
            // Once everything is done again, what is read is read anew.
            return if state.left > 0 { state.reads.get_mut(called)?.pop_front() } else { None };
        }
        let answer = state.effects.get_mut(called)?.pop_front()?;
        state.left -= 1;
        drop(state);
        self.changed.notify_waiters();
        Some(answer)
    }

    /// Completes when nothing of the earlier run is left to be called.
    async fn all_called(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state.lock().left == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Why a call is not made, if it is not.
    async fn refusal(&self, called: &Called) -> Option<HostError> {
        if self.state.lock().unknown.contains(called) {
            let message = format!(
                "{} was sent by the run {} and never answered; it is not repeated, because it may have taken effect",
                called.0, self.run
            );
            return Some(HostError::not_sent(CallErrorCode::UnknownEffect, message));
        }
        tokio::time::timeout(KEPT_CALLS_TIMEOUT, self.all_called()).await.err()?;
        let message = format!(
            "{} is new, and nothing new is sent as long as the corrected program has not called what the run {} has done \
             already: {}",
            called.0,
            self.run,
            self.left_over().join(", ")
        );
        Some(HostError::not_sent(CallErrorCode::NotKept, message))
    }

    /// Says in the report of a correction what the earlier run has done and this one has not called, if there is anything: the
    /// program may do it again when it is run without that.
    pub(crate) fn mark(&self, report: &mut RunReport) {
        report.kept_left = {
            let state = self.state.lock();
            state.left + state.reserved.len()
        };
        report.report.has_unrecorded_calls |= self.has_left();
        let left_over = self.left_over().join(", ");
        if !left_over.is_empty() {
            let remark = format!("done by the run {} and not called by this one: {left_over}", self.run);
            report.report.warnings.push(Warning::Remark(remark));
        }
    }

    /// Whether the earlier run did something, or may have, that has not been called again.
    pub(crate) fn has_left(&self) -> bool {
        let state = self.state.lock();
        state.left > 0 || !state.reserved.is_empty() || !state.unknown.is_empty()
    }

    /// What the earlier run has done and this one has not called.
    fn left_over(&self) -> Vec<String> {
        let state = self.state.lock();
        let left = state.effects.iter().filter(|(_, answers)| !answers.is_empty()).map(|(called, _)| called);
        let reserved = state.reserved.values().map(|(called, _)| called);
        let mut left: Vec<String> = left.chain(reserved).map(|(target, args)| shown(target, args)).collect();
        left.sort();
        left.truncate(MAX_NAMED);
        left
    }
}

/// The call that an event answers with a value.
pub(super) fn answered_by(event: &Event) -> Option<u32> {
    match event {
        Event::Answered(reply) | Event::Reply(reply) if matches!(reply.body, ReplyBody::Value(_)) => Some(reply.id),
        _ => None,
    }
}

impl Inner {
    /// What a run has done, and what the runs did that it corrected and has not called again.
    pub(super) async fn effects_of(&self, run: &str) -> Result<KeptEffects, DurableError> {
        let mut corrected = vec![run.to_owned()];
        // What is stored with the first of them.
        let mut kept: Option<KeptEffects> = None;
        while let Some((earlier, carried)) = self.corrects(&corrected[corrected.len() - 1]).await? {
            if carried.is_some() {
                kept = carried;
                break;
            }
            if corrected.len() > MAX_CORRECTIONS {
                return Err(DurableError::TooManyCorrections { run: run.to_owned() });
            }
            corrected.push(earlier);
        }
        for earlier in corrected.iter().rev() {
            kept = Some(self.effects_after(kept.as_ref(), earlier, run).await?);
        }
        kept.ok_or_else(|| DurableError::NoSuchRun(run.to_owned()))
    }

    /// What a run has done, and what it was to keep and has not called again. `wanted` is the run that is to be corrected.
    pub(super) async fn effects_after(
        &self,
        kept: Option<&KeptEffects>,
        run: &str,
        wanted: &str,
    ) -> Result<KeptEffects, DurableError> {
        let (wanted, earlier) = (wanted.to_owned(), run.to_owned());
        let Some(row) = self.journal.row(run).await? else {
            return Err(DurableError::Forgotten { run: wanted, earlier });
        };
        let (record, _permit) = self.read(&row).await?;
        if toolgate_journal::replay::is_truncated(&record) {
            return Err(DurableError::Truncated { run: wanted, earlier });
        }
        let bridge = &self.runner.bridge;
        Ok(match kept {
            None => KeptEffects::of(run, &record, bridge),
            Some(before) => before.corrected_by(run, &record, bridge),
        })
    }

    /// The run that this one corrects, if it is a correction, and what is stored of it with this one.
    async fn corrects(&self, run: &str) -> Result<Option<(String, Option<KeptEffects>)>, DurableError> {
        let record = match self.journal.header(run).await {
            // Said by the one who reads its record.
            Err(StoreError::NoSuchRun(_)) => return Ok(None),
            record => record?,
        };
        let stored = record.header().and_then(|header| record.blobs.text(header.request.as_ref()?).ok());
        let stored = stored.and_then(|text| serde_json::from_str::<StoredRequest>(text).ok());
        Ok(stored.and_then(|mut stored| {
            let carried = stored.take_carried();
            stored.fixes.map(|earlier| (earlier, carried))
        }))
    }
}

fn shown(target: &Target, args: &str) -> String {
    format!("{target}({})", clipped(args, 200))
}

/// A host that answers from an earlier run where it can.
pub(crate) struct KeptHost {
    kept: Arc<KeptEffects>,
    bridge: Arc<Bridge>,
    real: Arc<dyn Host>,
}

impl KeptHost {
    /// The real host, with the effects of an earlier run.
    pub(crate) fn new(kept: Arc<KeptEffects>, bridge: Arc<Bridge>, real: Arc<dyn Host>) -> Self {
        KeptHost { kept, bridge, real }
    }
}

impl HostLayer for KeptHost {
    fn inner(&self) -> &dyn Host {
        &*self.real
    }

    fn make_call(&self, call: HostCall) -> HostFuture {
        let reserved = self.kept.state.lock().reserved.remove(&call.id);
        if let Some((_, answer)) = reserved {
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let is_read = self.real.call_is_read_only(&call.target, &call.args);
        let called = called(&self.bridge, &call.target, &call.args);
        if let Some(answer) = self.kept.take(&called, is_read) {
            return Box::pin(std::future::ready(Ok(answer)));
        }
        if is_read {
            return self.real.call(call);
        }
        let (kept, real) = (self.kept.clone(), self.real.clone());
        Box::pin(async move {
            match kept.refusal(&called).await {
                Some(refusal) => Err(refusal),
                None => real.call(call).await,
            }
        })
    }
}
