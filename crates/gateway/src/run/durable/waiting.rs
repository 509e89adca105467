//! The runs that wait for a decision of one caller: its own, and those of others whose rules name it as an approver.

use toolgate_journal::store::{Find, RunStatus};

use super::decision::may_decide;
use super::view::{PendingView, RunSummary, undecided};
use super::{DurableError, DurableRuns};

/// Paused runs that are looked through.
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

impl DurableRuns {
    /// The paused runs with calls that this caller may decide about, the newest first; of anybody when absent.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn waiting_for(&self, caller: Option<&str>, most: usize) -> Result<Vec<WaitingRun>, DurableError> {
        let journal = &self.0.journal;
        let find = Find { status: Some(RunStatus::Paused), most: MAX_LOOKED_AT, ..Find::default() };
        let (mut waiting, mut bytes) = (Vec::new(), 0);
        for row in journal.store().find(find).await? {
            if waiting.len() >= most {
                break;
            }
            let is_owner = caller.is_none_or(|caller| caller == row.caller);
            let mut pending = undecided(&journal.pending(&row.run).await?);
            pending.retain(|question| may_decide(question, caller, is_owner));
            if !pending.is_empty() {
                let code = if bytes < MAX_PROGRAM_BYTES { self.program(&row.run).await? } else { None };
                bytes += code.as_ref().map_or(0, String::len);
                waiting.push(WaitingRun { summary: row.into(), code, pending });
            }
        }
        Ok(waiting)
    }
}
