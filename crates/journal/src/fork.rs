//! The beginning of a recorded run as the record of a new one.
//!
//! The new run keeps the replies that the recorded one had got up to a point, and goes on by itself from there. What the
//! recorded run did after that point counts for nothing: a call whose reply is not kept was, for the new run, never sent.

use std::collections::HashSet;

use toolgate_wire::CallState;

use crate::entry::{Entry, Event};
use crate::recording::Record;
use crate::text::{Blobs, MissingBlob, Text};

/// Why a run cannot be forked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFork {
    /// There is no header.
    #[error("the record has no header")]
    NoHeader,
    /// No program was started.
    #[error("no program was started in this run")]
    NotStarted,
    /// There are not so many answered calls.
    #[error("the run has {answered} answered calls, which is fewer than {asked}")]
    TooFew {
        /// How many there are.
        answered: usize,
        /// How many are to be kept.
        asked: usize,
    },
    /// A text is missing.
    #[error(transparent)]
    Missing(#[from] MissingBlob),
}

/// The beginning of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    /// The record of the new run, which is to go on.
    pub record: Record,
    /// Numbers of calls of the recorded run that took effect, or may have, and are not kept: the new run makes them again if its
    /// program comes to them.
    pub left_out: Vec<u32>,
}

/// The record of a run of this id that keeps the first `answered` calls that got a reply.
///
/// # Errors
/// If the record has no such beginning.
pub fn fork(record: &Record, run: &str, answered: usize) -> Result<Fork, NoFork> {
    if record.header().is_none() {
        return Err(NoFork::NoHeader);
    }
    let end = end_of(&record.entries, answered)?;
    let kept: HashSet<u32> = record.entries[..end].iter().filter_map(|entry| replied(&entry.event)).collect();
    let beginning = record.entries[..end].iter().filter(|entry| is_kept(&entry.event, &kept));
    let mut entries: Vec<Entry> = beginning.cloned().collect();
    if let Some(Event::Header(header)) = entries.first_mut().map(|entry| &mut entry.event) {
        header.run = run.to_owned();
        header.began = crate::unix_ms();
    }
    let blobs = blobs_of(&entries, record)?;
    Ok(Fork { left_out: effects_without(record, &kept), record: Record { entries, blobs } })
}

/// Where the beginning ends: behind the last reply that is kept, or behind the start.
fn end_of(entries: &[Entry], answered: usize) -> Result<usize, NoFork> {
    let start = entries.iter().position(|entry| matches!(entry.event, Event::Start(_))).ok_or(NoFork::NotStarted)?;
    if answered == 0 {
        return Ok(start + 1);
    }
    let replies = || entries.iter().enumerate().filter(|(_, entry)| replied(&entry.event).is_some());
    let last = replies().nth(answered - 1).map(|(at, _)| at + 1);
    last.ok_or_else(|| NoFork::TooFew { answered: replies().count(), asked: answered })
}

/// The call whose reply went to the guest.
fn replied(event: &Event) -> Option<u32> {
    match event {
        Event::Reply(reply) => Some(reply.id),
        _ => None,
    }
}

/// What the host did about a call that is not kept was done by another run.
fn is_kept(event: &Event, kept: &HashSet<u32>) -> bool {
    match event {
        Event::Intent { id, .. } | Event::Asked { id, .. } => kept.contains(id),
        Event::Answered(reply) => kept.contains(&reply.id),
        Event::Report { .. } => false,
        _ => true,
    }
}

fn blobs_of(entries: &[Entry], record: &Record) -> Result<Blobs, MissingBlob> {
    let mut blobs = Blobs::default();
    for text in entries.iter().flat_map(|entry| entry.event.texts()) {
        if let Text::Blob { .. } = text {
            blobs.insert(record.blobs.text(text)?.to_owned());
        }
    }
    Ok(blobs)
}

/// Calls that were sent, may have taken effect, and are not among these.
fn effects_without(record: &Record, kept: &HashSet<u32>) -> Vec<u32> {
    let mut sent: HashSet<u32> = HashSet::new();
    for entry in &record.entries {
        match &entry.event {
            Event::Intent { id, .. } => drop(sent.insert(*id)),
            Event::Asked { id, .. } => drop(sent.remove(id)),
            Event::Answered(reply) if matches!(reply.state, CallState::Failed | CallState::NotSent) => {
                sent.remove(&reply.id);
            }
            _ => {}
        }
    }
    let mut left_out: Vec<u32> = sent.difference(kept).copied().collect();
    left_out.sort_unstable();
    left_out
}
