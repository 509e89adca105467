//! What happens in a durable run, as events: read from its record, so that they are the same at every process and can be
//! read again from any of them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use toolgate_journal::entry::{Event, ProgramEnd, ReplyBody};
use toolgate_journal::recording::Record;
use toolgate_journal::store::RunStatus;
use toolgate_journal::text::Text;
use toolgate_wire::foreign_text::clipped;

use super::{DurableError, DurableRuns};

/// Entries that are read at one time.
const MAX_ENTRIES: usize = 100;
/// Characters of a text in an event.
const MAX_TEXT: usize = 10_000;
/// More bytes than these characters have, so that a text that is cut says so.
const MAX_TEXT_BYTES: usize = 4 * MAX_TEXT + 4;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// Its number in the run; events have no numbers for what is of no interest.
    pub number: u64,
    /// What kind it is: `started`, `log`, `call`, `sent`, `asked`, `answered` or `ended`.
    pub name: &'static str,
    /// What it says.
    pub data: Value,
}

/// Some events of a run.
#[derive(Debug, Clone)]
pub struct RunEvents {
    /// The events.
    pub events: Vec<RunEvent>,
    /// Where the next ones begin.
    pub next: u64,
    /// Where the run is in its life.
    pub status: RunStatus,
    /// Whether there are no more for now.
    pub is_end: bool,
}

impl DurableRuns {
    /// Events of a run of this caller, or of any when absent, from a number on.
    ///
    /// # Errors
    /// If there is no such run, or the store cannot be read.
    pub async fn events(&self, run: &str, caller: Option<&str>, from: u64) -> Result<RunEvents, DurableError> {
        self.own(run, caller).await?;
        let live = self.0.live.lock().get(run).filter(|live| !live.is_parked).map(|live| live.run.clone());
        if let Some(live) = live {
            // What was recorded here and not written yet. A store that refuses it has what was written.
            let _ = live.flush().await;
        }
        // After the entries: a run that has ended has all of them then.
        let row = self.own(run, caller).await?;
        // An entry may have a text of megabytes, of which an event shows the beginning.
        let record = self.0.journal.beginnings(run, from, MAX_ENTRIES, MAX_TEXT_BYTES).await?;
        let next = from + record.entries.len() as u64;
        Ok(RunEvents { events: events_of(&record, from), next, status: row.status, is_end: next >= row.entries })
    }

    /// Waits until this process hears that a run has changed, at most for `within`.
    pub async fn changed(&self, run: &str, within: Duration) {
        let mut changes = self.0.changes.subscribe();
        let _ = tokio::time::timeout(within, until_changed(&mut changes, run)).await;
    }
}

/// Completes when this process hears that a run has changed, or has missed a message that may have said so.
pub(super) async fn until_changed(changes: &mut Receiver<Arc<str>>, run: &str) {
    loop {
        match changes.recv().await {
            Ok(changed) if *changed == *run => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// The events of a record whose first entry has the number `from`.
pub fn events_of(record: &Record, from: u64) -> Vec<RunEvent> {
    let numbered = record.entries.iter().zip(from..);
    numbered.filter_map(|(entry, number)| event(number, entry.at, &entry.event, record)).collect()
}

fn event(number: u64, at: f64, event: &Event, record: &Record) -> Option<RunEvent> {
    let text = |text: &Text| shortened(record.blobs.text(text).unwrap_or_default());
    let (name, mut data) = match event {
        Event::Start(_) => ("started", json!({})),
        Event::Line { stderr, text: line, .. } => {
            ("log", json!({ "stream": if *stderr { "stderr" } else { "stdout" }, "text": text(line) }))
        }
        Event::Call(call) => {
            let mut data = json!({ "callId": call.id, "arguments": text(&call.args), "readOnly": call.read_only });
            let target = serde_json::to_value(&call.target).ok()?;
            data.as_object_mut()?.extend(target.as_object()?.clone());
            ("call", data)
        }
        Event::Intent { id, .. } => ("sent", json!({ "callId": id })),
        Event::Asked { id, .. } => ("asked", json!({ "callId": id })),
        Event::Reply(reply) => {
            let ok = matches!(reply.body, ReplyBody::Value(_));
            ("answered", json!({ "callId": reply.id, "ok": ok, "state": reply.state, "body": text(reply.body.text()) }))
        }
        Event::End { end, .. } => ("ended", json!({ "ok": matches!(end, ProgramEnd::Returned(_)) })),
        Event::Header(_)
        | Event::Fire { .. }
        | Event::Answer { .. }
        | Event::Timer { .. }
        | Event::Cancel { .. }
        | Event::Ask { .. }
        | Event::Answered(_)
        | Event::Staged { .. }
        | Event::Truncated { .. }
        | Event::Report { .. } => return None,
    };
    data.as_object_mut()?.insert("atMs".to_owned(), json!(at));
    Some(RunEvent { number, name, data })
}

fn shortened(text: &str) -> String {
    clipped(text, MAX_TEXT).into_owned()
}
