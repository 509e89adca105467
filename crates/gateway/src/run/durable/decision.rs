//! What a person decided about a call: how it is written down, and who may decide.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolgate_journal::durable::{Decision as Kept, PendingCall};
use toolgate_journal::store::{RunStatus, StoreError};
use toolgate_mcp::bounded_tree;
use toolgate_wire::{CallId, CallerScope, Pattern, Target};

use super::super::Runner;
use super::view::{About, PendingView, question_of};
use super::{DurableError, DurableRuns, Inner};
use crate::approvals::{AskedCall, Remember, RememberError, RememberedRule};
use crate::bridge::check_answer;
use crate::stage::has_marks;

/// The memory that the values of edited arguments may take.
const MAX_EDITED_TREE: usize = 32 << 20;

/// What to do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionKind {
    /// Make it.
    Approve,
    /// Make it with other arguments.
    Edit,
    /// Do not send it again, and give the program this answer: for a call whose effect is unknown.
    Answer,
    /// Let it fail; the program may go on.
    Deny,
    /// Let it fail, and end the run.
    Stop,
}

impl DecisionKind {
    /// What came of the question, as reports say it.
    pub(super) fn verdict(self) -> &'static str {
        match self {
            DecisionKind::Approve => "approved",
            DecisionKind::Edit => "edited",
            DecisionKind::Answer => "answered",
            DecisionKind::Deny => "denied",
            DecisionKind::Stop => "stopped",
        }
    }
}

/// A decision about one call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallDecision {
    /// The number of the call in its run.
    pub call_id: u32,
    /// What to do with it.
    pub decision: DecisionKind,
    /// The arguments to send instead, or the answer to give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For what else the decision holds; whoever keeps rules reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<Value>,
    /// The name of the caller who decided; empty for the local user.
    #[serde(default)]
    pub by: String,
    /// When, in milliseconds since 1970.
    #[serde(default)]
    pub at: u64,
}

impl DurableRuns {
    /// Decides calls of a run on behalf of this caller; of anybody when absent. The first decision about a call holds.
    /// Returns, for each, the decision that holds.
    ///
    /// # Errors
    /// If the caller may not decide about this run, a call does not wait, or its new arguments do not fit. Nothing is
    /// decided then.
    pub async fn decide(
        &self,
        run: &str,
        caller: Option<&str>,
        decisions: Vec<CallDecision>,
    ) -> Result<Vec<CallDecision>, DurableError> {
        let inner = &self.0;
        let row = inner.journal.row(run).await?.ok_or_else(|| DurableError::NoSuchRun(run.to_owned()))?;
        let asked = inner.journal.pending(run).await?;
        let questions: Vec<PendingView> = asked.iter().filter_map(question_of).collect();
        let is_owner = caller.is_none_or(|caller| caller == row.caller);
        if !is_owner && !questions.iter().any(|question| may_decide(question, caller, is_owner)) {
            return Err(DurableError::NoSuchRun(run.to_owned()));
        }
        for (at, decision) in decisions.iter().enumerate() {
            let question = questions.iter().find(|question| question.call_id == decision.call_id);
            let wrong = |message: String| DurableError::BadDecision { at, message };
            let question = question.ok_or_else(|| wrong(format!("no call {} waits", decision.call_id)))?;
            if !may_decide(question, caller, is_owner) {
                return Err(wrong(format!("this caller may not decide about call {}", decision.call_id)));
            }
            self.check_arguments(question, decision).map_err(wrong)?;
        }
        let mut held = Vec::new();
        for decision in decisions {
            let decision = CallDecision { by: caller.unwrap_or_default().to_owned(), at: super::unix_ms(), ..decision };
            let text = serde_json::to_string(&decision).map_err(|error| DurableError::Unreadable(error.to_string()))?;
            let kept = match inner.journal.decide(run, CallId(decision.call_id), &text).await? {
                Kept::Now => {
                    let question = questions.iter().find(|question| question.call_id == decision.call_id);
                    question.into_iter().for_each(|question| inner.remember(run, &row.caller, question, &decision));
                    text
                }
                Kept::Before(before) => before,
                Kept::NotAsked => return Err(DurableError::NoSuchRun(run.to_owned())),
            };
            let kept: CallDecision =
                serde_json::from_str(&kept).map_err(|error| DurableError::Unreadable(error.to_string()))?;
            let approver = inner.live.lock().get(run).and_then(|live| live.approver.clone());
            if let Some(approver) = approver {
                approver.decided(kept.clone());
            }
            held.push(kept);
        }
        if row.status != RunStatus::Done {
            inner.due.notify_one();
            inner.changed(run);
        }
        Ok(held)
    }

    /// New arguments are there exactly where they are asked for, and fit the tool.
    fn check_arguments(&self, question: &PendingView, decision: &CallDecision) -> Result<(), String> {
        question.takes(decision)?;
        let arguments = match (decision.decision, &decision.arguments) {
            (DecisionKind::Edit, Some(arguments)) => arguments,
            _ => return Ok(()),
        };
        let tree = bounded_tree(arguments.get(), MAX_EDITED_TREE).map_err(|error| error.to_string())?;
        let Some(backend) = &question.backend else {
            return if tree.is_array() { Ok(()) } else { Err("the arguments of a function are a list".to_owned()) };
        };
        if !tree.is_object() {
            return Err("the arguments of a tool are an object".to_owned());
        }
        // A mark has the kind of the value that takes its place, which is checked when the call is made.
        if question.staged.is_some() && has_marks(arguments.get()) {
            return Ok(());
        }
        let catalog = self.0.runner.bridge.catalog();
        let problems = catalog.tool(backend, &question.tool).map(|tool| tool.entry.check_arguments(&tree));
        match problems.iter().flatten().next() {
            Some(problem) => Err(format!("the arguments do not fit {backend}.{}: {}", question.tool, problem.message)),
            None => Ok(()),
        }
    }
}

impl Runner {
    /// Forgets an approval that stands for later calls of this caller, also where another process goes on with its run.
    ///
    /// # Errors
    /// If this caller has none of that name, or the file or the run's store cannot be written.
    pub async fn forget_approval(&self, scope: &CallerScope, id: &str) -> Result<(), RememberError> {
        let gone = self.bridge.forget_for(scope, id)?;
        match (&gone.run, self.durable.get()) {
            (Some(run), Some(runs)) => Ok(runs.0.forget_decisions(run, &gone).await?),
            _ => Ok(()),
        }
    }
}

impl Inner {
    /// Takes from the decisions of a run that they hold for later calls, where this rule stood for them.
    async fn forget_decisions(&self, run: &str, gone: &RememberedRule) -> Result<(), StoreError> {
        for call in self.journal.pending(run).await? {
            let Some(RunApproval { asked, mut decision, .. }) = RunApproval::of(run, &call) else { continue };
            if asked.rule_key.unwrap_or_default() == gone.asked_by && asked.target.to_string() == gone.rule.tool {
                decision.remember = None;
                let text = serde_json::to_string(&decision).map_err(|error| StoreError::Damaged(error.to_string()))?;
                self.journal.amend(run, call.call, &text).await?;
            }
        }
        Ok(())
    }

    /// Remembers an approval for later calls where the person wants that. The approval holds in any case.
    fn remember(&self, run: &str, caller: &str, question: &PendingView, decision: &CallDecision) {
        if let Some((asked, remember)) = question.remembered(run, decision) {
            self.remember_call(run, caller, &asked, &remember);
        }
    }

    fn remember_call(&self, run: &str, caller: &str, asked: &AskedCall, remember: &Remember) {
        if let Err(error) = self.runner.bridge.remember(caller, asked, remember) {
            tracing::warn!(run, %error, "an approval is not remembered");
        }
    }

    /// Remembers approvals for the other calls of a run again: they are kept in memory, and were given before this process had
    /// the run, or at the command line.
    pub(super) fn remember_again(&self, run: &str, caller: &str, asked: &[PendingCall]) {
        for RunApproval { asked, remember, decision } in asked.iter().filter_map(|call| RunApproval::of(run, call)) {
            if !self.runner.bridge.remembered().is_revoked(run, &asked, decision.at) {
                self.remember_call(run, caller, &asked, &remember);
            }
        }
    }
}

/// A stored decision that also holds for the other calls of its run.
struct RunApproval {
    asked: AskedCall,
    remember: Remember,
    decision: CallDecision,
}

impl RunApproval {
    fn of(run: &str, call: &PendingCall) -> Option<Self> {
        let decision: CallDecision = serde_json::from_str(call.decision.as_deref()?).ok()?;
        let (asked, remember) = question_of(call)?.remembered(run, &decision)?;
        matches!(remember, Remember::Run(_)).then_some(RunApproval { asked, remember, decision })
    }
}

impl PendingView {
    /// What a decision about this question says about later calls: the call that was approved, and for which others that holds.
    /// `None` where it is about this call alone.
    pub fn remembered(&self, run: &str, decision: &CallDecision) -> Option<(AskedCall, Remember)> {
        let remember = remember_of(decision.remember.as_ref()?, run)?;
        let is_approved = matches!(decision.decision, DecisionKind::Approve | DecisionKind::Edit);
        if !self.about.is_rule() || !is_approved {
            return None;
        }
        let arguments = decision.arguments.as_ref().map_or(self.arguments.0.get(), |edited| edited.get());
        let target = match self.backend.clone() {
            Some(backend) => Target::Tool { backend, tool: self.tool.clone() },
            None => Target::Function(self.tool.clone()),
        };
        let call = AskedCall {
            call_id: u64::from(self.call_id),
            target,
            arguments: arguments.to_owned(),
            reason: self.reason.clone(),
            rule: self.rule.clone(),
            rule_key: self.rule_key.clone(),
            approvers: self.approvers.clone(),
            expires: Duration::ZERO,
            form: None,
        };
        Some((call, remember))
    }

    /// Whether this question can be decided so.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn takes(&self, decision: &CallDecision) -> Result<(), String> {
        use DecisionKind::{Answer, Approve, Deny, Edit, Stop};
        match (&self.about, decision.decision) {
            (About::UnknownEffect { .. }, Edit) => {
                return Err("a call that was sent cannot be edited: approve sends it again as it was".to_owned());
            }
            (About::Form { .. }, Edit) => return Err("a form is answered: decide answer with its fields".to_owned()),
            (About::Form { schema, .. }, Approve | Answer) => {
                let answer = decision.arguments.as_ref().and_then(|json| serde_json::from_str(json.get()).ok());
                return check_answer(schema, &answer.unwrap_or_else(|| Value::Object(Default::default())));
            }
            (About::Rule, Edit) if self.login.is_some() => {
                return Err("a call that waits for a login is sent as it is: approve or deny it".to_owned());
            }
            (About::Rule, Answer) => return Err("a call that was not sent has no answer".to_owned()),
            (About::ChangedSchema { .. }, Answer | Edit) => {
                return Err("the run goes on with the changed tool (approve), or ends (deny)".to_owned());
            }
            (_, Approve | Edit | Answer | Deny | Stop) => {}
        }
        match (decision.decision, &decision.arguments) {
            (Edit | Answer, Some(_)) | (Approve | Deny | Stop, None) => Ok(()),
            (Edit, None) => Err("edit needs arguments".to_owned()),
            (Answer, None) => Err("answer needs arguments: what the program gets".to_owned()),
            (Approve | Deny | Stop, Some(_)) => Err("only edit and answer take arguments".to_owned()),
        }
    }
}

/// `once`, `run`, `session`, `always`, or `{"always": "args.amount < 50"}`; `None` where nothing is to be remembered.
fn remember_of(wanted: &Value, run: &str) -> Option<Remember> {
    match wanted.as_str() {
        Some("run") => Some(Remember::Run(run.to_owned())),
        Some("session") => Some(Remember::Session),
        Some("always") => Some(Remember::Always { when: None }),
        Some(_) => None,
        None => {
            let when = wanted.get("always")?.as_str()?.to_owned();
            Some(Remember::Always { when: Some(when) })
        }
    }
}

/// The rule's approvers may decide; without any, the caller of the run. Whoever has the store may decide everything.
pub(super) fn may_decide(question: &PendingView, caller: Option<&str>, is_owner: bool) -> bool {
    let Some(caller) = caller else { return true };
    // As rules name the user of this machine.
    let caller = if caller.is_empty() { "local" } else { caller };
    match question.approvers.is_empty() {
        true => is_owner,
        false => question.approvers.iter().any(|pattern| Pattern::new(pattern).matches(caller)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::durable::view::RawJson;

    #[test]
    fn approvers_decide_or_else_the_owner() {
        let question = |approvers: &[&str]| PendingView {
            call_id: 1,
            backend: Some("bank".into()),
            tool: "pay".into(),
            arguments: Box::new(RawJson(RawValue::from_string("{}".into()).unwrap())),
            reason: String::new(),
            rule: None,
            rule_key: None,
            approvers: approvers.iter().map(ToString::to_string).collect(),
            login: None,
            asked_at: 0,
            expires_at: 0,
            about: About::Rule,
            staged: None,
        };
        for (approvers, caller, is_owner, expected) in [
            (&[][..], Some("ann"), true, true),
            (&[], Some("bob"), false, false),
            (&["lead-*"], Some("ann"), true, false),
            (&["lead-*"], Some("lead-1"), false, true),
            (&["lead-*"], None, true, true),
            (&["local"], Some(""), true, true),
        ] {
            assert_eq!(may_decide(&question(approvers), caller, is_owner), expected, "{approvers:?} {caller:?}");
        }
    }
}
