//! The runs that wait for a decision of one caller: its own, and those of others whose rules name it as an approver.

use toolgate_journal::store::{Find, RunStatus, StoreError};

use super::decision::may_decide;
use super::view::{PendingView, RunSummary, undecided};
use super::{DurableError, DurableRuns};

/// Paused runs that are read at one time.
const PAGE: usize = 200;
/// Paused runs that one request looks at. The next page begins after them: what waits is found however many newer runs wait for others.
const MAX_LOOKED_AT: usize = 1_000;
/// Bytes of programs in one answer; runs after these come without.
const MAX_PROGRAM_BYTES: usize = 4 << 20;

/// A run that waits for a decision.
#[derive(Debug, Clone)]
pub struct WaitingRun {
    /// What the store knows of it.
    pub summary: RunSummary,
    /// Its program.
    pub code: Option<String>,
    /// The calls that the caller may decide about.
    pub pending: Vec<PendingView>,
}

/// A page of runs that wait, the newest first. It may have few runs or none although there is a next one.
#[derive(Debug, Clone)]
pub struct WaitingRuns {
    /// The runs.
    pub runs: Vec<WaitingRun>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<(u64, String)>,
}

impl DurableRuns {
    /// The paused runs with calls that this caller may decide about, the newest first; of anybody when absent. `before` is where
    /// an earlier page ended.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn waiting_for(
        &self,
        caller: Option<&str>,
        before: Option<(u64, String)>,
        most: usize,
    ) -> Result<WaitingRuns, DurableError> {
        let journal = &self.0.journal;
        let (mut runs, mut bytes, mut looked_at, mut next) = (Vec::new(), 0, 0, before);
        loop {
            let before = next.clone();
            let find = Find { status: Some(RunStatus::Paused), before, most: PAGE, ..Find::default() };
            let rows = journal.store().find(find).await?;
            let is_last = rows.len() < PAGE;
            for row in rows {
                if runs.len() >= most || looked_at >= MAX_LOOKED_AT {
                    return Ok(WaitingRuns { runs, next });
                }
                looked_at += 1;
                next = Some((row.began, row.run.clone()));
                let is_owner = caller.is_none_or(|caller| caller == row.caller);
                let Some(asked) = readable(&row.run, journal.pending(&row.run).await)? else { continue };
                let mut pending = undecided(&asked);
                pending.retain(|question| may_decide(question, caller, is_owner));
                if !pending.is_empty() {
                    let code = if bytes < MAX_PROGRAM_BYTES { self.program(&row.run).await } else { Ok(None) };
                    let code = match code {
                        Err(DurableError::Store(error)) => readable(&row.run, Err(error))?.flatten(),
                        code => code?,
                    };
                    bytes += code.as_ref().map_or(0, String::len);
                    runs.push(WaitingRun { summary: row.into(), code, pending });
                }
            }
            if is_last {
                return Ok(WaitingRuns { runs, next: None });
            }
        }
    }
}

/// What was read of a run; `None` where what is kept of it cannot be read, or it is gone, so that it does not hide the others.
fn readable<T>(run: &str, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(error @ (StoreError::Damaged(_) | StoreError::NoSuchRun(_))) => {
            tracing::warn!(run, %error, "a run that waits is not shown");
            Ok(None)
        }
        read => read.map(Some),
    }
}
