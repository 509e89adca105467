//! A durable run as a recording: its program, its cassette, and the run again without a tool being called.

use std::sync::Arc;

use serde_json::value::RawValue;
use toolgate_engine::transcript::Replay;
use toolgate_journal::redact::Redaction;
use toolgate_journal::replay::{NoReplay, offline};
use toolgate_journal::{cassette, report};
use toolgate_wire::CallerScope;

use super::super::Counted;
use super::super::replay::{replay_engine, replay_request};
use super::super::request::{RecordedRun, ReplayHost, RunRequest};
use super::{DurableError, DurableRuns};

/// The report of a repetition.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// JSON text of the report, with what is measured taken from the record.
    pub report: Box<RawValue>,
    /// The first field in which it differs from the recorded one; `None` when they are equal.
    pub difference: Option<String>,
}

impl DurableRuns {
    /// The program of a run, as its author wrote it. The caller must be allowed to see the run.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn program(&self, run: &str) -> Result<Option<String>, DurableError> {
        let record = self.0.journal.header(run).await?;
        let code = record.header().and_then(|header| record.blobs.text(&header.code).ok());
        Ok(code.map(str::to_owned))
    }

    /// The cassette of a run of this caller: what the program got and said, secrets replaced by stand-ins.
    ///
    /// # Errors
    /// If there is no such run, or it cannot be read.
    pub async fn cassette(&self, run: &str, caller: Option<&str>) -> Result<Vec<u8>, DurableError> {
        let row = self.own(run, caller).await?;
        let (mut record, permit) = self.0.read(&row).await?;
        let secrets = self.0.settings.secrets.clone();
        let written = tokio::task::spawn_blocking(move || {
            Redaction::new(secrets()).apply(&mut record).map_err(unreadable)?;
            let mut bytes = Vec::new();
            cassette::write(&record, &mut bytes).map_err(unreadable)?;
            drop(permit);
            Ok(bytes)
        });
        written.await.map_err(unreadable)?
    }

    /// Repeats a run of this caller that has ended. No tool is called and nothing is counted or recorded.
    ///
    /// # Errors
    /// If there is no such run, it has not ended, or its record is not whole.
    pub async fn replay(&self, run: &str, caller: &CallerScope) -> Result<Replayed, DurableError> {
        let row = self.own(run, Some(&caller.name)).await?;
        let (record, _permit) = self.0.read(&row).await?;
        let replayable = offline(&record).map_err(|fault| match fault {
            NoReplay::NoReport => DurableError::NotEnded(run.to_owned()),
            fault => DurableError::NoReplay(fault),
        })?;
        let recorded = record.report().unwrap_or_default();
        let (engine, lines) = replay_engine(None, recorded);
        let replay = Arc::new(Replay { lines, ..replayable.replay });
        let replayed = RecordedRun { replay, host: ReplayHost::Tools };
        let request = replay_request(replayable.header.profile, replayable.limits, &replayable.code, replayed);
        let mut request = Box::new(RunRequest { engine: Some(engine), caller: caller.clone(), ..request });
        let ran = self.0.runner.perform(&mut request, Counted::Never).await;
        let text = report::with_measurements(&ran.report, recorded).map_err(unreadable)?;
        let difference = report::difference(recorded, &text);
        Ok(Replayed { report: RawValue::from_string(text).map_err(unreadable)?, difference })
    }
}

fn unreadable(fault: impl std::fmt::Display) -> DurableError {
    DurableError::Unreadable(fault.to_string())
}
