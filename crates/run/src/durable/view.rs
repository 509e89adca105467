//! What a caller sees of its runs. The runs of others look as if they did not exist.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_journal::durable::PendingCall;
use toolgate_journal::store::{Find, RunRow, RunStatus, StoreError};
use toolgate_wire::Target;

use super::decision::{CallDecision, may_decide};
use super::events::until_changed;
use super::{DurableError, DurableRuns};
use crate::stage::Substitution;
use toolgate_bridge::approvals::AskedInput;

/// How often the store is asked whether a run has changed that another process has.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Characters of the first line of a program that are shown, and bytes of it that are read.
const MAX_LINE: usize = 100;
const MAX_LINE_BYTES: usize = 4096;
/// Runs on one page of a list, at most.
pub(crate) const MAX_PAGE: usize = 200;

/// A run.
#[derive(Debug, Clone)]
pub struct RunView {
    /// What the store knows of it.
    pub summary: RunSummary,
    /// JSON text of its report, if it has ended.
    pub report: Option<Box<RawValue>>,
    /// The calls that wait for a person.
    pub pending: Vec<PendingView>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// Its id.
    pub run: String,
    /// The name of its caller; empty for the local user.
    pub caller: String,
    /// Where it is in its life.
    pub status: RunStatus,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// When it last changed.
    pub changed: u64,
    /// Bytes that it takes in the store.
    pub bytes: u64,
}

impl From<RunRow> for RunSummary {
    fn from(row: RunRow) -> Self {
        let RunRow { run, caller, status, began, changed, bytes, .. } = row;
        RunSummary { run, caller, status, began, changed, bytes }
    }
}

/// What is kept of a call that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingView {
    /// Names the question in its run: the number of the call, or another number where no rule asks.
    pub call_id: u32,
    /// The backend; absent where a host function is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The tool, or the function.
    pub tool: String,
    /// The arguments, exactly as they would be sent.
    pub arguments: Box<RawJson>,
    /// Why a person is asked.
    pub reason: String,
    /// The rule that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What that rule is about: its name is a place in the list, which another rule may have later. Kept with the question
    /// (`PendingView::stored`), and not shown: it has the rule's condition.
    #[serde(default, skip_serializing)]
    pub rule_key: Option<String>,
    /// Of a server's question: what is sent back with the answer. Kept with the question, and not shown: it is the server's own.
    #[serde(default, skip_serializing)]
    pub asked_input: Option<AskedInput>,
    /// Who may decide: patterns over the names of callers; everyone who may decide at all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// The command with which a person logs in, where the call waits for that: it is made once the login is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// When it was asked first, in milliseconds since 1970.
    pub asked_at: u64,
    /// When the call fails if it is still undecided.
    pub expires_at: u64,
    /// What the question is about.
    #[serde(default, skip_serializing_if = "About::is_rule")]
    pub about: About,
    /// Of a line of a review: what else a person should know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<StagedView>,
}

impl PendingView {
    /// Whether it is about a call of this target, by the names that the backend itself uses.
    pub(super) fn is_of(&self, target: &Target) -> bool {
        match target {
            Target::Tool { backend, tool } => self.backend.as_ref() == Some(backend) && self.tool == *tool,
            Target::Function(name) => self.backend.is_none() && self.tool == *name,
        }
    }

    /// The question as the store keeps it.
    pub(super) fn stored(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Stored<'a> {
            #[serde(flatten)]
            question: &'a PendingView,
            #[serde(skip_serializing_if = "Option::is_none")]
            rule_key: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            asked_input: Option<&'a AskedInput>,
        }
        let (rule_key, asked_input) = (self.rule_key.as_deref(), self.asked_input.as_ref());
        serde_json::to_string(&Stored { question: self, rule_key, asked_input }).unwrap_or_default()
    }
}

/// What a question is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum About {
    /// A call that was not sent: a rule asks.
    #[default]
    Rule,
    /// A call that was sent before its process died, and not answered.
    UnknownEffect {
        /// The number of the call in its run.
        call: u32,
        /// When it was sent, in milliseconds since 1970.
        sent_at: u64,
    },
    /// Something that a server asks before it carries out the call: `answer` has what the form asks for.
    Form {
        /// What it asks.
        message: String,
        /// The schema of the answer: a flat object.
        schema: serde_json::Value,
    },
    /// A tool that the run has called and whose schema is another one now.
    ChangedSchema {
        /// A hash of the schemas that the tool has now.
        schema: String,
    },
}

impl About {
    /// Whether the program comes to the question again when it is repeated.
    pub(super) fn is_of_a_call(&self) -> bool {
        matches!(self, About::Rule | About::Form { .. })
    }

    /// Whether a rule asks.
    pub fn is_rule(&self) -> bool {
        *self == About::Rule
    }
}

/// A line of the review of a staged run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StagedView {
    /// What is filled into the arguments once earlier lines are sent.
    pub substitutions: Vec<Substitution>,
    /// Of the last line: the value that the program depends on, so that what it does afterwards is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_point: Option<String>,
}

/// JSON text that is equal to the same text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(pub Box<RawValue>);

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

/// Which runs to list.
#[derive(Debug, Clone, Default)]
pub struct ListRuns {
    /// Of this caller; of all when absent.
    pub caller: Option<String>,
    /// In this state.
    pub status: Option<RunStatus>,
    /// Where the page before ended: [`RunList::next`].
    pub before: Option<(u64, String)>,
    /// At most this many.
    pub most: usize,
}

/// A page of runs, the newest first.
#[derive(Debug, Clone)]
pub struct RunList {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<(u64, String)>,
}

impl DurableRuns {
    /// The row of a run of this caller, or of any caller when absent.
    pub(super) async fn own(&self, run: &str, caller: Option<&str>) -> Result<RunRow, DurableError> {
        let row = self.0.journal.row(run).await?;
        let own = row.filter(|row| caller.is_none_or(|caller| row.caller == caller));
        own.ok_or_else(|| DurableError::NoSuchRun(run.to_owned()))
    }

    /// The row of a run of another caller that waits for a decision of this one.
    async fn to_decide(&self, run: &str, caller: Option<&str>) -> Result<RunRow, DurableError> {
        let none = || DurableError::NoSuchRun(run.to_owned());
        let row = self.own(run, None).await?;
        if row.status == RunStatus::Done {
            return Err(none());
        }
        let waiting = undecided(&self.0.journal.pending(run).await?);
        let may = waiting.iter().any(|question| may_decide(question, caller, false));
        if may { Ok(row) } else { Err(none()) }
    }

    /// A run of this caller, or of any caller when absent; or one that waits for this caller's decision.
    ///
    /// # Errors
    /// If there is none, or the store cannot be read.
    pub async fn view(&self, run: &str, caller: Option<&str>) -> Result<RunView, DurableError> {
        let journal = &self.0.journal;
        let (row, is_own) = match self.own(run, caller).await {
            Err(DurableError::NoSuchRun(_)) => (self.to_decide(run, caller).await?, false),
            own => (own?, true),
        };
        let report = match row.status {
            RunStatus::Done => journal.report(&row).await?,
            RunStatus::Running | RunStatus::Paused => None,
        };
        let report = report.map(RawValue::from_string).transpose();
        let report = report.map_err(|error| StoreError::Damaged(format!("the report of {run}: {error}")))?;
        let mut pending = match row.status {
            RunStatus::Done => Vec::new(),
            RunStatus::Running | RunStatus::Paused => undecided(&journal.pending(run).await?),
        };
        // An approver of some calls of a run does not see the others.
        pending.retain(|question| is_own || may_decide(question, caller, false));
        Ok(RunView { summary: row.into(), report, pending })
    }

    /// The same, once something has changed, the run has ended, or the time is up.
    ///
    /// # Errors
    /// If there is no such run, or the store cannot be read.
    pub async fn wait(&self, run: &str, caller: Option<&str>, within: Duration) -> Result<RunView, DurableError> {
        let deadline = Instant::now() + within;
        // Before the first look: a change after it is not missed.
        let mut changes = self.0.changes.subscribe();
        let first = self.view(run, caller).await?;
        let state =
            |view: &RunView| (view.summary.status, view.pending.iter().map(|it| it.call_id).collect::<Vec<_>>());
        let mut view = first.clone();
        while view.summary.status != RunStatus::Done && state(&view) == state(&first) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let _ = tokio::time::timeout(left.min(LOOK_INTERVAL), until_changed(&mut changes, run)).await;
            view = self.view(run, caller).await?;
        }
        Ok(view)
    }

    /// The first line of the program of a run, cut where it is long: by it a person or a model knows the run again. `None` where
    /// it cannot be read.
    pub async fn first_line(&self, run: &str) -> Option<String> {
        let record = self.0.journal.beginnings(run, 0, 1, MAX_LINE_BYTES).await.ok()?;
        let code = record.blobs.text(&record.header()?.code).ok()?;
        let line = code.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(toolgate_wire::foreign_text::one_line(line, MAX_LINE))
    }

    /// A page of runs.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list(&self, list: ListRuns) -> Result<RunList, DurableError> {
        let ListRuns { caller, status, before, most } = list;
        let most = most.clamp(1, MAX_PAGE);
        let find = Find { caller, status, run: None, before, most: most + 1 };
        let mut rows = self.0.journal.store().find(find).await?;
        let more = rows.len() > most;
        rows.truncate(most);
        let next = rows.last().filter(|_| more).map(|row| (row.began, row.run.clone()));
        Ok(RunList { runs: rows.into_iter().map(RunSummary::from).collect(), next })
    }
}

/// The question about a call; `None` when it cannot be read.
pub(super) fn question_of(call: &PendingCall) -> Option<PendingView> {
    serde_json::from_str(&call.question).ok()
}

/// What was decided about a call; `None` when nothing was, or it cannot be read.
pub(super) fn decision_of(call: &PendingCall) -> Option<CallDecision> {
    serde_json::from_str(call.decision.as_deref()?).ok()
}

/// The calls that wait for a person, of those that were asked about. Those whose questions have expired wait no more.
pub fn undecided(pending: &[PendingCall]) -> Vec<PendingView> {
    let now = super::unix_ms();
    let open = pending.iter().filter(|call| call.decision.is_none()).filter_map(question_of);
    open.filter(|question| question.expires_at > now).collect()
}
